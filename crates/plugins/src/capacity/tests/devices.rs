//! Device quotas.
use phalanx_cluster::event::{
    ClaimInfo, ClaimRequest, DeviceClassInfo, DeviceInfo, Key, PodClaim, PodInfo, SliceInfo, SliceNodes,
};

use super::*;
use crate::shared::share::Share;

/// A claim to `count` devices of class `gpu`.
fn claim(world: &mut World, name: &str, count: u32) {
    let request = ClaimRequest { name: "gpu".into(), class: "gpu".into(), selectors: Vec::new(), count };
    let key = Key::new("ns", name);
    world.apply(ClaimInfo { key, uid: name.into(), requests: vec![request], ..ClaimInfo::default() }.into());
}

fn claiming(pod: PodInfo, claim: &str) -> PodInfo {
    PodInfo { claims: Some([PodClaim { name: "gpu".into(), claim: Some(claim.into()) }].into()), ..pod }
}

/// Four devices of class `gpu` on the node.
fn four_gpus(world: &mut World) {
    let devices = ["0", "1", "2", "3"].map(|name| DeviceInfo { name: name.into(), ..DeviceInfo::default() });
    world.apply(DeviceClassInfo { name: "gpu".into(), selectors: Vec::new() }.into());
    let (name, driver, pool) = ("s".into(), "gpu".into(), "p".into());
    let nodes = SliceNodes::Node("n".into());
    world.apply(SliceInfo { name, driver, pool, generation: 1, nodes, devices: devices.into() }.into());
}

fn held_gpus(world: &World, plugin: &Capacity, queue: &str) -> i64 {
    plugin.held(world, queue_of(world, queue), world.dims.get("deviceclass/gpu").unwrap())
}

#[test]
fn devices_count_in_ancestors_in_a_tree_only() {
    for (tree, above) in [(false, 0), (true, 2_000)] {
        let queues = ["a: deviceclass/gpu=2", "b < a"];
        let mut world = world(9, &queues, &[("a", 0, 1), ("b", 0, 0)]);
        four_gpus(&mut world);
        claim(&mut world, "two", 2);
        claim(&mut world, "mine", 1);
        world.apply(running(claiming(member("b", 0, "cpu=1"), "two"), "n").into());
        world.apply(claiming(member("a", 0, "cpu=1"), "mine").into());
        world.refresh_devices();
        let plugin = plugin(&world, tree, 0);
        assert_eq!((held_gpus(&world, &plugin, "a"), held_gpus(&world, &plugin, "b")), (above, 2_000));
        let allowed = plugin.allocatable(&world, queue_of(&world, "a"), task_of(&world, "a-0"));
        assert_eq!(allowed.is_ok(), !tree, "a tree: {tree}");
    }
}

#[test]
fn a_claim_shared_by_victims_is_freed_by_the_last_one() {
    let mut world =
        world(9, &["a:||deviceclass/gpu=1", "b:||deviceclass/gpu=2"], &[("a", 0, 0), ("b", 0, 1)]);
    four_gpus(&mut world);
    for (name, count) in [("two", 2), ("one", 1), ("mine", 1)] {
        claim(&mut world, name, count);
    }
    for (at, name) in ["two", "two", "one"].into_iter().enumerate() {
        world.apply(running(claiming(member("a", at as u32, "cpu=1"), name), "n").into());
    }
    world.apply(claiming(member("b", 0, "cpu=1"), "mine").into());
    world.refresh_devices();
    let plugin = plugin(&world, false, 0);
    assert_eq!((held_gpus(&world, &plugin, "a"), held_gpus(&world, &plugin, "b")), (3_000, 0));
    let by = task_of(&world, "b-0");
    let victims = |names: &[&str]| {
        let of: Vec<TaskId> = names.iter().map(|name| task_of(&world, name)).collect();
        plugin.reclaimable(&world, by, &of).unwrap().len()
    };
    // Queue a holds 3 devices and deserves 1. Evicting a-2 frees 1; evicting a-0 and a-1 frees the 2 of their shared
    // claim.
    assert_eq!(victims(&["a-2"]), 1);
    assert_eq!(victims(&["a-2", "a-0", "a-1"]), 3, "whole claims are freed");
    assert_eq!(plugin.share(&world, queue_of(&world, "a")), Share::new(3, 1));
}

#[test]
fn a_job_needs_the_devices_of_its_smallest_gang() {
    let classes = |world: &World| vec![world.dims.get("deviceclass/gpu").unwrap()];
    for (min_member, pods, min, expected) in [
        (1, vec!["x2", "y1"], "", 1),
        (2, vec!["x2", "y1"], "", 3),
        (2, vec!["x2", "x2", "y1"], "", 1),
        (2, vec!["x2", "", "y1"], "", 1),
        (3, vec!["x2"], "", 2),
        (1, vec!["x2"], "deviceclass/gpu=3", 3),
        (2, vec![], "deviceclass/gpu=1", 1),
    ] {
        let mut world = world(9, &["q: deviceclass/gpu=9"], &[]);
        let min_resources = Some(resources(min));
        world.apply(PodGroupInfo { queue: "q".into(), min_resources, ..group("g", min_member) }.into());
        for (at, name) in pods.iter().enumerate() {
            let pod = member("g", at as u32, "cpu=1");
            if let Some(count) = name.get(1..) {
                claim(&mut world, name, count.parse().unwrap());
            }
            world.apply(if name.is_empty() { pod } else { claiming(pod, name) }.into());
        }
        let needed = world.devices_needed(job_of(&world, "g"), &classes(&world));
        assert_eq!(needed.get(classes(&world)[0]), expected * 1_000, "{min_member} of {pods:?}, {min}");
    }
}
