//! Claims to volumes and to devices, for random clusters, and what may happen to them.
use std::sync::Arc;

use phalanx_cluster::event::{
    AccessModes, AttachmentInfo, ClaimInfo, ClaimRequest, Constraints, CsiDriverInfo, CsiNodeInfo,
    DeviceClassInfo, DeviceInfo, Event, Key, NodeTerm, Operator, PodClaim, PodInfo, PodVolume, PvcInfo,
    Requirement, SliceInfo, SliceNodes, StorageCapacityInfo, StorageClassInfo, VolumeInfo,
};
use phalanx_cluster::label::Selector;
use proptest::prelude::*;

use crate::harness::TestCluster;
use phalanx_framework::testing::{group, member, pod, running};

const DRIVER: &str = "csi.x";

/// What claims there are, and what serves them. Pods name some that do not exist.
#[derive(Clone, Debug)]
pub(crate) struct Supply {
    pvcs: Vec<PvcInfo>,
    volumes: Vec<VolumeInfo>,
    limits: Vec<u32>,
    /// How large a volume can be made on each node, as the driver tells; it tells nothing when there are none.
    room: Vec<i64>,
    claims: Vec<ClaimInfo>,
    /// How many devices each node has.
    devices: Vec<usize>,
}

/// The claims of a pod by number.
pub(crate) type Wishes = (Vec<usize>, Option<usize>);

/// Most pods have none.
pub(crate) fn wishes() -> impl Strategy<Value = Wishes> {
    prop_oneof![
        5 => Just((Vec::new(), None)),
        3 => (prop::collection::vec(0usize..5, 1..3), prop::option::weighted(0.2, 0usize..3)),
        1 => (0usize..3).prop_map(|device| (Vec::new(), Some(device))),
    ]
}

/// Gives a pod its claims. One that is on a node has no claims to devices: it could not be there without their being given.
pub(crate) fn wish(pod: PodInfo, (volumes, device): Wishes) -> PodInfo {
    let mut volumes: Vec<_> = volumes
        .into_iter()
        .map(|at| PodVolume { claim: Key::new("ns", &format!("v{at}")), owner: None })
        .collect();
    volumes.sort();
    volumes.dedup();
    let device = device.filter(|_| pod.node.is_none()).map(|at| format!("d{at}").into());
    let claims = device.map(|name: Arc<str>| [PodClaim { name: name.clone(), claim: Some(name) }].into());
    PodInfo { constraints: Arc::new(Constraints { volumes, ..Constraints::default() }), claims, ..pod }
}

fn pvc(at: usize, class: &str, size: i64, once: bool) -> PvcInfo {
    PvcInfo {
        key: Key::new("ns", &format!("v{at}")),
        uid: format!("v{at}").into(),
        class: class.into(),
        size,
        modes: if once { AccessModes::ONCE_POD } else { AccessModes::default() },
        ..PvcInfo::default()
    }
}

fn on(node: usize) -> Vec<NodeTerm> {
    let operator = Operator::In;
    let values = vec![format!("n{node}").into()];
    let requirement = Requirement { key: "kubernetes.io/hostname".into(), operator, values };
    vec![NodeTerm { labels: vec![requirement], fields: Vec::new() }]
}

fn volume(at: usize, node: usize, size: i64) -> VolumeInfo {
    VolumeInfo {
        name: format!("pv{at}").into(),
        class: "local".into(),
        size,
        modes: AccessModes::ONCE_POD,
        nodes: Some(on(node)),
        available: true,
        driver: at.is_multiple_of(2).then(|| DRIVER.into()),
        ..VolumeInfo::default()
    }
}

fn claim(at: usize, count: u32) -> ClaimInfo {
    let name: Arc<str> = format!("d{at}").into();
    let request = ClaimRequest { name: "r".into(), class: "any".into(), selectors: Vec::new(), count };
    ClaimInfo { key: Key::new("ns", &name), uid: name, requests: vec![request], ..ClaimInfo::default() }
}

pub(crate) fn supply() -> impl Strategy<Value = Supply> {
    let class = prop::sample::select(vec!["local", "local", "made", "now"]);
    let pvcs = prop::collection::vec((class, 1i64..4, prop::bool::weighted(0.2)), 0..5);
    let volumes = prop::collection::vec((0usize..4, 1i64..5), 0..5);
    let limits = prop::collection::vec(0u32..3, 0..3);
    let room =
        prop::option::weighted(0.3, prop::collection::vec(0i64..4, 1..4)).prop_map(Option::unwrap_or_default);
    let claims = prop::collection::vec(1u32..3, 0..3);
    let devices = prop::collection::vec(0usize..3, 0..4);
    let all = (pvcs, volumes, limits, room, claims, devices);
    all.prop_map(|(pvcs, volumes, limits, room, claims, devices)| Supply {
        pvcs: pvcs
            .into_iter()
            .enumerate()
            .map(|(at, (class, size, once))| pvc(at, class, size, once))
            .collect(),
        volumes: volumes.into_iter().enumerate().map(|(at, (node, size))| volume(at, node, size)).collect(),
        limits,
        room,
        claims: claims.into_iter().enumerate().map(|(at, count)| claim(at, count)).collect(),
        devices,
    })
}

/// Classes whose claims wait for a pod, without and with somebody who makes volumes, and one whose claims do not wait.
fn classes() -> impl Iterator<Item = Event> {
    let all = [("local", None, true), ("made", Some(DRIVER), true), ("now", Some(DRIVER), false)];
    all.into_iter().map(|(name, provisioner, waits)| {
        let provisioner = provisioner.map(Arc::from);
        StorageClassInfo { name: name.into(), provisioner, waits, topologies: Vec::new() }.into()
    })
}

fn room((node, size): (usize, &i64)) -> Event {
    let nodes = Some(Selector(on(node).remove(0).labels));
    let key = Key::new("driver", &format!("n{node}"));
    StorageCapacityInfo { key, class: "made".into(), nodes, size: Some(*size), whole: Some(*size) }.into()
}

/// Some attach volumes of others, of claims, or of nobody, also to nodes that are not there yet.
fn attachment(at: usize) -> AttachmentInfo {
    let volume = (at % 5 < 4).then(|| format!("pv{}", at % 4).into());
    let node = format!("n{}", at / 2 % 4).into();
    AttachmentInfo { name: format!("a{}", at % 7).into(), node, driver: DRIVER.into(), volume }
}

fn slice((node, count): (usize, &usize)) -> Event {
    let device = |at| DeviceInfo { name: format!("x{at}").into(), ..DeviceInfo::default() };
    let name: Arc<str> = format!("n{node}").into();
    let slice = SliceInfo {
        name: name.clone(),
        driver: "gpu.x".into(),
        pool: name.clone(),
        generation: 1,
        nodes: SliceNodes::Node(name),
        devices: (0..*count).map(device).collect(),
    };
    slice.into()
}

impl Supply {
    pub(crate) fn events(&self) -> impl Iterator<Item = Event> + '_ {
        let limit = |(node, limit): (usize, &u32)| {
            CsiNodeInfo { node: format!("n{node}").into(), limits: vec![(DRIVER.into(), *limit)] }.into()
        };
        let any = DeviceClassInfo { name: "any".into(), selectors: vec!["true".into()] };
        let driver = CsiDriverInfo { name: DRIVER.into(), tells_capacity: !self.room.is_empty() };
        classes()
            .chain([any.into(), driver.into()])
            .chain(self.room.iter().enumerate().map(room))
            .chain(self.volumes.iter().cloned().map(Event::from))
            .chain(self.pvcs.iter().cloned().map(Event::from))
            .chain(self.limits.iter().enumerate().map(limit))
            .chain(self.claims.iter().cloned().map(Event::from))
            .chain(self.devices.iter().enumerate().map(slice))
    }

    /// Something is deleted, comes back as it was, or a claim is bound by its controller.
    pub(crate) fn happen(&self, at: usize) -> Option<Event> {
        let pvc = |at: usize| (!self.pvcs.is_empty()).then(|| &self.pvcs[at % self.pvcs.len()]);
        let volume = |at: usize| (!self.volumes.is_empty()).then(|| &self.volumes[at % self.volumes.len()]);
        let which = at / 10;
        match at % 10 {
            0 => pvc(which).map(|pvc| Event::PvcGone(pvc.key.clone())),
            1 => pvc(which).cloned().map(Event::from),
            2 => volume(which).map(|volume| Event::VolumeGone(volume.name.clone())),
            3 => volume(which).cloned().map(Event::from),
            4 => {
                let volume = volume(which)?.name.clone();
                Some(PvcInfo { volume: Some(volume), bound: true, ..pvc(which)?.clone() }.into())
            }
            8 => Some(attachment(which).into()),
            9 => Some(Event::AttachmentGone(attachment(which).name)),
            5 => self.claims.get(which).map(|claim| Event::ClaimGone(claim.key.clone())),
            6 => self.claims.get(which).cloned().map(Event::from),
            _ => self.room.get(which / 2).map(|size| match which % 2 {
                0 => Event::StorageCapacityGone(Key::new("driver", &format!("n{}", which / 2))),
                _ => room((which / 2, &(size + 1))),
            }),
        }
    }
}

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
        test.add(PvcInfo { volume: Some(name), bound: true, ..pvc(at, "local", 1, false) });
    }
    test
}

fn preempting() -> phalanx_framework::conf::Conf {
    let mut conf = crate::harness::helm();
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
fn a_volume_that_is_attached_counts_with_its_pods() {
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
fn a_volume_that_goes_is_gone_for_all_claims_that_name_it() {
    let mut test = one_to_attach();
    for at in [0, 2] {
        let named = PvcInfo { volume: Some("pv0".into()), bound: true, ..pvc(at, "local", 1, false) };
        test.add(named).add(wish(pod(&format!("p{at}"), "cpu=1"), (vec![at], None)));
    }
    test.add(Event::VolumeGone("pv0".into()));
    assert!(test.cycle().bound.is_empty());
}

/// A member with claims to devices and to volumes, that is let on one node only.
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

/// Nodes with so many devices each, claims `d0` to `d2` to one, and claims `v0` to `v2` to local volumes.
fn with_claims(devices: &[usize]) -> TestCluster {
    let mut test = TestCluster::new();
    test.nodes(devices.len(), "cpu=4");
    test.add(DeviceClassInfo { name: "any".into(), selectors: vec!["true".into()] });
    for event in classes().chain(devices.iter().enumerate().map(slice)) {
        test.add(event);
    }
    for at in 0..3 {
        test.add(claim(at, 1)).add(pvc(at, "local", 1, false));
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
fn members_that_share_a_claim_start_without_those_that_do_not() {
    let mut test = with_claims(&[2]);
    test.add(group("gang", 2));
    test.add(asking(0, None, &[0, 1], &[])).add(asking(1, None, &[1, 2], &[]));
    test.add(asking(2, None, &[2], &[]));
    assert_eq!(test.cycle().names(), ["gang-1", "gang-2"]);
}

#[test]
fn a_claim_of_two_pods_gets_a_volume_that_both_can_use() {
    let mut test = with_claims(&[0, 0]);
    for (at, nodes) in [Some(on(0)), Some(on(1)), None].into_iter().enumerate() {
        test.add(VolumeInfo { nodes, ..volume(at, 0, 1) });
    }
    test.add(group("gang", 2));
    test.add(asking(0, Some(0), &[], &[0])).add(asking(1, Some(1), &[], &[0]));
    assert_eq!(test.cycle().bound.len(), 2, "{:?}", test.reasons("gang"));
}
