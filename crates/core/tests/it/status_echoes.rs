//! Events that say what the scheduler wrote itself.
use phalanx_cluster::Cluster;
use phalanx_cluster::event::{Event, PodGroupInfo, PodInfo, QueueInfo, Time};
use phalanx_core::decision::Decision;
use phalanx_core::{RetryLimits, Scheduler};
use phalanx_framework::conf::{Conf, PluginConf, Tier};
use phalanx_framework::testing::{cluster_of, group, job_of, member, node, pod, queue, resources, running};

#[test]
fn reading_a_status_that_phalanx_wrote_activates_no_job() {
    let pod = member("g", 0, "cpu=9");
    let events: [Event; 3] = [node("n", "cpu=4").into(), group("g", 1).into(), pod.clone().into()];
    let mut cluster = cluster_of(events);
    let plugins =
        ["gang", "predicates"].map(|name| PluginConf { name: name.into(), ..PluginConf::default() });
    let conf = Conf {
        actions: vec!["enqueue".into(), "allocate".into()],
        tiers: vec![Tier { plugins: plugins.into() }],
        ..Conf::default()
    };
    let mut scheduler = Scheduler::new(conf, 0);
    scheduler.set_retry_limits(RetryLimits { all_up_to: 0, ..RetryLimits::default() });
    let decisions = scheduler.run(&mut cluster, Time(0)).decisions;
    assert_eq!(scheduler.active_jobs(&mut cluster), [], "unschedulable");
    let status = decisions.iter().find_map(|decision| match decision {
        Decision::PodGroupStatus { status, .. } => Some(status.clone()),
        _ => None,
    });
    let status = status.expect("a status");
    let echo = PodGroupInfo { status: status.clone(), ..group("g", 1) };
    cluster.apply(echo.clone().into());
    let mut refused = pod.clone();
    refused.life.unscheduled_message = Some("no room".into());
    cluster.apply(refused.into());
    assert_eq!(scheduler.active_jobs(&mut cluster), []);

    let job = job_of(&cluster, "g");
    for other in [PodGroupInfo { min_member: 2, ..echo.clone() }, echo, group("g", 1)] {
        cluster.apply(other.into());
        assert_eq!(scheduler.active_jobs(&mut cluster), [job], "somebody else's word");
        scheduler.run(&mut cluster, Time(0));
    }
    cluster.apply(PodInfo { priority: Some(7), ..pod }.into());
    assert_eq!(scheduler.active_jobs(&mut cluster), [job]);
}

#[test]
fn a_status_of_a_queue_that_somebody_else_wrote_is_written_anew() {
    let on_node = PodInfo { queue: Some("q".into()), ..running(pod("p", "cpu=1"), "n") };
    let q = queue("q", 1);
    let events: [Event; 3] = [node("n", "cpu=4").into(), q.clone().into(), on_node.into()];
    let mut cluster = cluster_of(events);
    let mut scheduler = Scheduler::new(Conf::default(), 0);
    let mut written = |cluster: &mut Cluster| {
        let decisions = scheduler.run(cluster, Time(0)).decisions;
        decisions.into_iter().find_map(|decision| match decision {
            Decision::QueueStatus { queue, allocated } if *queue == *"q" => Some(allocated),
            _ => None,
        })
    };
    let first = written(&mut cluster).expect("a status");
    let with = |amounts: &str| Event::from(QueueInfo { allocated: resources(amounts), ..q.clone() });
    let own = "cpu=1 pods=1";
    for (amounts, is_foreign) in [
        ("", false),
        (own, false),
        ("cpu=3", true),
        ("cpu=3", false),
        (own, false),
        ("cpu=3", true),
        (own, false),
    ] {
        assert_eq!(cluster.apply(with(amounts)), is_foreign, "a cycle for {amounts:?}");
        assert_eq!(written(&mut cluster), is_foreign.then(|| first.clone()), "{amounts:?}");
    }
}
