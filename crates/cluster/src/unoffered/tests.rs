use std::sync::Arc;

use proptest::prelude::*;

use crate::event::{DeviceClassInfo, Event, Key, PodGroupInfo, QuotaInfo};
use crate::testing::{cluster_of, group, job_of, member, node, pod, queue, resources, running, task_of};
use crate::{Cluster, ClusterOptions};

const NO_FAULTS: Vec<String> = Vec::new();

/// Requests of so many resources that nobody offers.
fn made_up(first: usize, count: usize) -> String {
    let one = |at: usize| format!("example.com/r{at:05}={}", at % 3 + 1);
    (first..first + count).map(one).collect::<Vec<_>>().join(" ")
}

fn request(cluster: &Cluster, pod: &str) -> Vec<(Arc<str>, String)> {
    let class = cluster.tasks[task_of(cluster, pod)].class;
    cluster.render(&cluster.classes[class].request)
}

/// The names of what a pod asks for and nobody offers.
fn told(cluster: &Cluster, pod: &str) -> String {
    let task = &cluster.tasks[task_of(cluster, pod)];
    let dims = cluster.dims_told(task.job.unwrap());
    let asked = cluster.classes[task.class].request.iter().map(|(dim, _)| dim);
    asked.filter(|dim| cluster.dims.is_unknown(*dim)).map(|dim| dims.name(dim).to_owned()).collect()
}

#[test]
fn names_that_tenants_make_up_take_one_dimension_and_are_given_back() {
    let mut cluster = cluster_of([node("a", "cpu=8 nvidia.com/gpu=2")]);
    let before = cluster.dims.len();
    for at in 0..6 {
        cluster.apply(pod(&format!("p{at}"), &made_up(at * 10_000, 10_000)).into());
        let list = Some(resources(&made_up(at * 10_000, 10_000)));
        let group = PodGroupInfo { min_resources: list, ..group(&format!("g{at}"), 1) };
        cluster.apply(group.into());
    }
    assert_eq!(cluster.dims.len(), before + 1);
    assert_eq!(
        told(&cluster, "p1"),
        "example.com/r10000, example.com/r10001, example.com/r10002 and 9997 other resources that no node has"
    );
    for at in 0..6 {
        cluster.apply(Event::PodGone(format!("p{at}").into()));
        cluster.apply(Event::PodGroupGone(Key::new("ns", &format!("g{at}"))));
    }
    assert_eq!((cluster.classes.len(), cluster.dims.len()), (0, before + 1));
    assert_eq!(cluster.check(), NO_FAULTS);
}

#[test]
fn what_nobody_offers_fits_nowhere_and_what_is_not_wanted_of_it_does_not_matter() {
    let mut cluster = cluster_of([node("a", "cpu=8")]);
    cluster.apply(pod("wants", "cpu=1 example.com/x=1").into());
    cluster.apply(pod("none", "cpu=1 example.com/x=0").into());
    let fits = |name: &str| {
        let class = cluster.tasks[task_of(&cluster, name)].class;
        cluster.classes[class].request.fits(&cluster.nodes[cluster.node_named("a").unwrap()].idle)
    };
    assert_eq!((fits("wants"), fits("none")), (false, true));
    assert_eq!(
        (told(&cluster, "wants"), told(&cluster, "none")),
        ("example.com/x".to_owned(), String::new())
    );
}

/// A node, a queue or a quota that comes to name a resource, and what is known of the request then.
#[test]
fn a_resource_is_known_once_a_node_a_queue_or_a_quota_names_it() {
    let quota = QuotaInfo {
        key: Key::new("ns", "q"),
        hard: resources("requests.example.com/x=9"),
        used: resources("requests.example.com/x=0"),
    };
    let mut capped = queue("capped", 1);
    capped.capability = resources("example.com/x=9");
    for event in
        [Event::from(node("b", "cpu=8 example.com/x=4")), capped.into(), Event::Quota(Box::new(quota))]
    {
        let mut cluster = cluster_of([node("a", "cpu=8")]);
        cluster.apply(pod("p", "cpu=1 example.com/x=2 example.com/y=1").into());
        cluster.apply(running(pod("r", "example.com/x=1"), "a").into());
        let list = Some(resources("cpu=2 example.com/x=2"));
        cluster.apply(PodGroupInfo { min_resources: list, ..group("g", 2) }.into());
        cluster.apply(member("g", 0, "example.com/x=1").into());
        assert_eq!(request(&cluster, "p"), [("cpu".into(), "1".to_owned()), ("pods".into(), "1".to_owned())]);
        cluster.apply(event);
        assert_eq!(request(&cluster, "p")[1], ("example.com/x".into(), "2".to_owned()));
        assert_eq!((told(&cluster, "p"), told(&cluster, "r")), ("example.com/y".to_owned(), String::new()));
        let job = &cluster.jobs[job_of(&cluster, "g")];
        let asked = job.minimum.resources.clone().unwrap();
        assert_eq!(cluster.render(&asked)[1], ("example.com/x".into(), "2".to_owned()));
        assert_eq!(job.minimum.quota_request.as_ref(), Some(&asked));
        assert_eq!(cluster.render(&job.sums.pending)[0], ("example.com/x".into(), "1".to_owned()));
        let x = cluster.dims.get("example.com/x").unwrap();
        assert_eq!(cluster.nodes[cluster.node_named("a").unwrap()].used(x), 1_000);
        assert_eq!(cluster.check(), NO_FAULTS);
    }
}

#[test]
fn a_device_class_is_known_once_it_exists() {
    let mut cluster = cluster_of([node("a", "cpu=8")]);
    let list = Some(resources("deviceclass/gpu=2"));
    cluster.apply(PodGroupInfo { min_resources: list, ..group("g", 2) }.into());
    let asked = |cluster: &Cluster| cluster.render(&cluster.jobs[job_of(cluster, "g")].minimum.devices);
    assert_eq!(asked(&cluster), [("deviceclass/(none that exists)".into(), "2".to_owned())]);
    cluster.apply(DeviceClassInfo { name: "gpu".into(), selectors: Vec::new() }.into());
    assert_eq!(asked(&cluster), [("deviceclass/gpu".into(), "2".to_owned())]);
    assert_eq!(cluster.check(), NO_FAULTS);
}

proptest! {
    /// Pods and PodGroups come before or after what names their resources.
    #[test]
    fn the_order_of_events_makes_no_difference(order in Just((0..8).collect::<Vec<usize>>()).prop_shuffle()) {
        let event = |at: usize| -> Event {
            match at {
                0 => node("a", "cpu=8 example.com/x=4").into(),
                1 => node("b", "cpu=8 example.com/y=4").into(),
                2 => pod("p", "cpu=1 example.com/x=2").into(),
                3 => pod("q", "example.com/x=1 example.com/y=2 example.com/z=3").into(),
                4 => running(pod("r", "example.com/y=1 example.com/z=1"), "a").into(),
                5 => PodGroupInfo { min_resources: Some(resources("example.com/y=5 requests.example.com/x=3")), ..group("g", 1) }.into(),
                6 => member("g", 0, "example.com/y=1").into(),
                _ => queue("default", 1).into(),
            }
        };
        let mut cluster = Cluster::new(ClusterOptions::default());
        for at in &order {
            cluster.apply(event(*at));
        }
        prop_assert_eq!(cluster.check(), NO_FAULTS);
        let list = |names: &[(&str, &str)]| -> Vec<(Arc<str>, String)> {
            names.iter().map(|(name, amount)| ((*name).into(), (*amount).to_owned())).collect()
        };
        let (x, y) = ("example.com/x", "example.com/y");
        prop_assert_eq!(request(&cluster, "p"), list(&[("cpu", "1"), (x, "2"), ("pods", "1")]));
        prop_assert_eq!(request(&cluster, "q"), list(&[(x, "1"), (y, "2"), ("pods", "1")]));
        prop_assert_eq!(told(&cluster, "q"), "example.com/z");
        let job = &cluster.jobs[job_of(&cluster, "g")];
        prop_assert_eq!(cluster.render(job.minimum.resources.as_ref().unwrap()), list(&[(y, "5")]));
        prop_assert_eq!(cluster.render(job.minimum.quota_request.as_ref().unwrap()), list(&[(x, "3"), (y, "5")]));
    }
}
