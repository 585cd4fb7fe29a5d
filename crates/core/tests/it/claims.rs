//! Claims to volumes and to devices.
use std::sync::Arc;

use phalanx_cluster::event::{
    AccessModes, AttachmentInfo, Constraints, CsiNodeInfo, DeviceClassInfo, Event, Key, PodClaim, PodInfo,
    PodVolume, PvcInfo, VolumeInfo,
};
use phalanx_framework::testing::{group, member, pod, running};
use phalanx_testkit::supply::{DRIVER, claim, classes, on, pvc, slice, volume, wish};
use phalanx_testkit::{TestCluster, helm};

/// A node whose driver can attach one volume, and two claims with volumes of it.
fn one_to_attach() -> TestCluster {
    let mut test = TestCluster::with(preempting());
    test.nodes(1, "cpu=4");
    let limit = CsiNodeInfo { node: "n0".into(), limits: vec![(DRIVER.into(), 1)] };
    test.add(limit).add(Event::PriorityClass { name: "high".into(), value: 9, global_default: false });
    for at in [0, 2] {
        let name: Arc<str> = format!("pv{at}").into();
        let (claim, available) = (Some((Key::new("ns", &format!("v{at}")), None)), false);
        test.add(VolumeInfo { claim, available, modes: AccessModes::default(), ..volume(at, 0, 1) });
        test.add(PvcInfo { volume: Some(name), bound: true, ..pvc(at, "local", 1, AccessModes::default()) });
    }
    test
}

fn preempting() -> phalanx_framework::conf::Conf {
    let mut conf = helm();
    conf.actions.push("preempt".into());
    conf
}

fn attached(volume: &str) -> AttachmentInfo {
    let volume = Some(volume.into());
    AttachmentInfo { name: "a".into(), node: "n0".into(), driver: DRIVER.into(), volume }
}

#[test]
fn a_volume_counts_until_it_is_detached() {
    let wants = |at| wish(pod(&format!("p{at}"), "cpu=1"), (vec![at], None));
    let mut test = one_to_attach();
    test.add(attached("pv0")).add(wants(2));
    assert!(test.cycle().bound.is_empty(), "the last pod of the other is gone, and its volume still there");
    test.add(Event::AttachmentGone("a".into()));
    assert_eq!(test.cycle().names(), ["p2"]);
    for volume in ["pv0", "unknown"] {
        let mut test = one_to_attach();
        test.add(attached(volume)).add(wants(0));
        assert_eq!(test.cycle().bound.len(), usize::from(volume == "pv0"), "{volume} is there already");
    }
}

#[test]
fn a_preemptor_waits_until_the_volume_of_its_victim_is_detached() {
    let mut test = one_to_attach();
    test.add(group("low", 1)).add(running(wish(member("low", 0, "cpu=1"), (vec![0], None)), "n0"));
    test.add(attached("pv0"));
    let high =
        phalanx_cluster::event::PodGroupInfo { priority_class: Some("high".into()), ..group("high", 1) };
    test.add(high).add(wish(member("high", 0, "cpu=1"), (vec![2], None)));
    let cycle = test.cycle();
    assert_eq!(cycle.evicted, ["low-0"], "it makes room, though the attachment is still there");
    test.gone("low-0");
    assert!(test.run().bound.is_empty());
    test.add(Event::AttachmentGone("a".into()));
    assert_eq!(test.run().names(), ["high-0"]);
}

#[test]
fn pods_of_all_claims_of_a_deleted_volume_wait() {
    let mut test = one_to_attach();
    for at in [0, 2] {
        let named = PvcInfo {
            volume: Some("pv0".into()),
            bound: true,
            ..pvc(at, "local", 1, AccessModes::default())
        };
        test.add(named).add(wish(pod(&format!("p{at}"), "cpu=1"), (vec![at], None)));
    }
    test.add(Event::VolumeGone { name: "pv0".into(), uid: "".into() });
    assert!(test.cycle().bound.is_empty());
}

/// A member with claims to devices and to volumes that may use one node only.
fn asking(index: u32, only: Option<usize>, devices: &[usize], volumes: &[usize]) -> PodInfo {
    let name = |at: &usize| -> Arc<str> { format!("d{at}").into() };
    let one = |at: &usize| PodClaim { name: name(at), claim: Some(name(at)) };
    let volume = |at: &usize| PodVolume { claim: Key::new("ns", &format!("v{at}")), owner: None };
    let node = |at: usize| ("kubernetes.io/hostname".into(), format!("n{at}").into());
    let constraints = Constraints {
        node_selector: only.map(node).into_iter().collect(),
        volumes: volumes.iter().map(volume).collect(),
        ..Constraints::default()
    };
    PodInfo {
        claims: (!devices.is_empty()).then(|| devices.iter().map(one).collect()),
        constraints: Arc::new(constraints),
        ..member("gang", index, "cpu=1")
    }
}

/// Nodes with these numbers of devices, claims `d0` to `d2` for one device each, and claims `v0` to `v2` for local
/// volumes.
fn with_claims(devices: &[usize]) -> TestCluster {
    let mut test = TestCluster::new();
    test.nodes(devices.len(), "cpu=4");
    test.add(DeviceClassInfo { name: "any".into(), selectors: vec!["true".into()] });
    for event in classes().chain(devices.iter().enumerate().map(slice)) {
        test.add(event);
    }
    for at in 0..3 {
        test.add(claim(at, 1)).add(pvc(at, "local", 1, AccessModes::default()));
    }
    test
}

#[test]
fn a_pod_whose_claims_get_devices_of_two_nodes_is_placed_on_neither() {
    for (min, bound) in [(2, 2), (3, 0)] {
        let mut test = with_claims(&[1, 1]);
        test.add(group("gang", min));
        test.add(asking(0, Some(0), &[0], &[])).add(asking(1, Some(1), &[1], &[]));
        test.add(asking(2, None, &[0, 1], &[]));
        assert_eq!(test.cycle().bound.len(), bound, "minMember {min}");
    }
}

#[test]
fn members_start_that_need_fewest_devices_together() {
    let mut test = with_claims(&[2]);
    test.add(group("gang", 2));
    test.add(asking(0, None, &[0, 1], &[])).add(asking(1, None, &[1, 2], &[]));
    test.add(asking(2, None, &[2], &[]));
    assert_eq!(test.cycle().names(), ["gang-1", "gang-2"]);
}

#[test]
fn a_claim_of_two_pods_gets_a_volume_that_both_pods_can_use() {
    let mut test = with_claims(&[0, 0]);
    for (at, nodes) in [Some(on(0)), Some(on(1)), None].into_iter().enumerate() {
        test.add(VolumeInfo { nodes, ..volume(at, 0, 1) });
    }
    test.add(group("gang", 2));
    test.add(asking(0, Some(0), &[], &[0])).add(asking(1, Some(1), &[], &[0]));
    assert_eq!(test.cycle().bound.len(), 2, "{:?}", test.reasons("gang"));
}
