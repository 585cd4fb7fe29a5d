//! Device quotas.
use phalanx_cluster::event::{
    ClaimInfo, ClaimRequest, DeviceClassInfo, DeviceInfo, Key, PodClaim, PodInfo, SliceInfo, SliceNodes,
};

use super::*;
use crate::shared::share::Share;

/// A claim to `count` devices of class `gpu`.
fn claim(cluster: &mut Cluster, name: &str, count: u32) {
    let request = ClaimRequest { name: "gpu".into(), class: "gpu".into(), selectors: Vec::new(), count };
    let key = Key::new("ns", name);
    cluster
        .apply(ClaimInfo { key, uid: name.into(), requests: vec![request], ..ClaimInfo::default() }.into());
}

fn claiming(pod: PodInfo, claim: &str) -> PodInfo {
    PodInfo { claims: Some([PodClaim { name: "gpu".into(), claim: Some(claim.into()) }].into()), ..pod }
}

/// Four devices of class `gpu` on the node.
fn four_gpus(cluster: &mut Cluster) {
    let devices = ["0", "1", "2", "3"].map(|name| DeviceInfo { name: name.into(), ..DeviceInfo::default() });
    cluster.apply(DeviceClassInfo { name: "gpu".into(), selectors: Vec::new() }.into());
    let (name, driver, pool) = ("s".into(), "gpu".into(), "p".into());
    let nodes = SliceNodes::Node("n".into());
    cluster.apply(SliceInfo { name, driver, pool, generation: 1, nodes, devices: devices.into() }.into());
}

fn held_gpus(cluster: &Cluster, plugin: &Capacity, queue: &str) -> i64 {
    plugin.held(cluster, queue_of(cluster, queue), cluster.dims.get("deviceclass/gpu").unwrap())
}

#[test]
fn devices_count_in_ancestors_in_a_tree_only() {
    for (tree, above) in [(false, 0), (true, 2_000)] {
        let queues = ["a: deviceclass/gpu=2", "b < a"];
        let mut cluster = cluster(9, &queues, &[("a", 0, 1), ("b", 0, 0)]);
        four_gpus(&mut cluster);
        claim(&mut cluster, "two", 2);
        claim(&mut cluster, "mine", 1);
        cluster.apply(running(claiming(member("b", 0, "cpu=1"), "two"), "n").into());
        cluster.apply(claiming(member("a", 0, "cpu=1"), "mine").into());
        cluster.refresh_devices();
        let plugin = plugin(&cluster, tree, 0);
        assert_eq!((held_gpus(&cluster, &plugin, "a"), held_gpus(&cluster, &plugin, "b")), (above, 2_000));
        let allowed = plugin.allocatable(&cluster, queue_of(&cluster, "a"), task_of(&cluster, "a-0"));
        assert_eq!(allowed.is_ok(), !tree, "a tree: {tree}");
    }
}

#[test]
fn a_claim_shared_by_victims_is_freed_by_the_last_one() {
    let mut cluster =
        cluster(9, &["a:||deviceclass/gpu=1", "b:||deviceclass/gpu=2"], &[("a", 0, 0), ("b", 0, 1)]);
    four_gpus(&mut cluster);
    for (name, count) in [("two", 2), ("one", 1), ("mine", 1)] {
        claim(&mut cluster, name, count);
    }
    for (at, name) in ["two", "two", "one"].into_iter().enumerate() {
        cluster.apply(running(claiming(member("a", at as u32, "cpu=1"), name), "n").into());
    }
    cluster.apply(claiming(member("b", 0, "cpu=1"), "mine").into());
    cluster.refresh_devices();
    let plugin = plugin(&cluster, false, 0);
    assert_eq!((held_gpus(&cluster, &plugin, "a"), held_gpus(&cluster, &plugin, "b")), (3_000, 0));
    let by = task_of(&cluster, "b-0");
    let victims = |names: &[&str]| {
        let of: Vec<TaskId> = names.iter().map(|name| task_of(&cluster, name)).collect();
        plugin.evictable(&cluster, eviction(EvictionKind::Reclaim, by), &of).unwrap().len()
    };
    // Queue a holds 3 devices and deserves 1. Evicting a-2 frees 1; evicting a-0 and a-1 frees the 2 of their shared
    // claim.
    assert_eq!(victims(&["a-2"]), 1);
    assert_eq!(victims(&["a-2", "a-0", "a-1"]), 3, "whole claims are freed");
    assert_eq!(plugin.share(&cluster, queue_of(&cluster, "a")), Share::new(3, 1));
}

#[test]
fn a_job_needs_the_devices_of_its_smallest_gang() {
    let classes = |cluster: &Cluster| vec![cluster.dims.get("deviceclass/gpu").unwrap()];
    for (min_member, pods, min, expected) in [
        (1, vec!["x2", "y1"], "", 1),
        (2, vec!["x2", "y1"], "", 3),
        (2, vec!["x2", "x2", "y1"], "", 1),
        (2, vec!["x2", "", "y1"], "", 1),
        (3, vec!["x2"], "", 2),
        (1, vec!["x2"], "deviceclass/gpu=3", 3),
        (2, vec![], "deviceclass/gpu=1", 1),
    ] {
        let mut cluster = cluster(9, &["q: deviceclass/gpu=9"], &[]);
        let min_resources = Some(resources(min));
        cluster.apply(PodGroupInfo { queue: "q".into(), min_resources, ..group("g", min_member) }.into());
        for (at, name) in pods.iter().enumerate() {
            let pod = member("g", at as u32, "cpu=1");
            if let Some(count) = name.get(1..) {
                claim(&mut cluster, name, count.parse().unwrap());
            }
            cluster.apply(if name.is_empty() { pod } else { claiming(pod, name) }.into());
        }
        let needed = cluster.devices_needed(job_of(&cluster, "g"), &classes(&cluster));
        assert_eq!(needed.get(classes(&cluster)[0]), expected * 1_000, "{min_member} of {pods:?}, {min}");
    }
}
