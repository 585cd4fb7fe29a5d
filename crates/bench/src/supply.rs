//! Volumes, claims and devices that no pod asks for: what they cost the others.
use std::sync::Arc;

use phalanx_cluster::event::{
    AccessModes, ClaimInfo, ClaimRequest, CsiDriverInfo, CsiNodeInfo, DeviceClassInfo, DeviceInfo, Event,
    Key, NodeTerm, Operator, PvcInfo, Requirement, SliceInfo, SliceNodes, StorageCapacityInfo,
    StorageClassInfo, VolumeInfo,
};
use phalanx_cluster::label::Selector;

const DRIVER: &str = "csi.example.com";
const HOST: &str = "kubernetes.io/hostname";
const GIB: i64 = 1 << 30;

/// On each node a local volume, a driver with limits that tells its capacity, and eight devices; as many claims to
/// volumes and to devices as there are nodes.
pub(crate) fn events(nodes: usize) -> impl Iterator<Item = Event> {
    (0..nodes).flat_map(|at| of_node(at).into_iter().chain(claims(at))).chain(classes())
}

fn classes() -> [Event; 4] {
    let class = |name: &str, provisioner: Option<&str>| {
        let provisioner = provisioner.map(Arc::from);
        StorageClassInfo { name: name.into(), provisioner, waits: true, topologies: Vec::new() }.into()
    };
    let driver = CsiDriverInfo { name: DRIVER.into(), tells_capacity: true };
    let gpu = DeviceClassInfo { name: "gpu".into(), selectors: vec!["true".into()] };
    [class("local", None), class("made", Some(DRIVER)), driver.into(), gpu.into()]
}

fn of_node(at: usize) -> [Event; 4] {
    let node: Arc<str> = format!("node-{at:06}").into();
    let here = Requirement { key: HOST.into(), operator: Operator::In, values: vec![node.clone()] };
    let term = NodeTerm { labels: vec![here.clone()], fields: Vec::new() };
    let volume = VolumeInfo {
        name: format!("pv-{at}").into(),
        class: "local".into(),
        size: 100 * GIB,
        modes: AccessModes::of("ReadWriteOnce").unwrap_or_default(),
        nodes: Some(vec![term]),
        available: true,
        ..VolumeInfo::default()
    };
    let room = StorageCapacityInfo {
        key: Key::new("driver", &node),
        class: "made".into(),
        nodes: Some(Selector(vec![here])),
        size: Some(100 * GIB),
        whole: Some(100 * GIB),
    };
    let device = |at: usize| DeviceInfo { name: format!("gpu-{at}").into(), ..DeviceInfo::default() };
    let slice = SliceInfo {
        name: node.clone(),
        driver: "gpu.example.com".into(),
        pool: node.clone(),
        generation: 1,
        nodes: SliceNodes::Node(node.clone()),
        devices: (0..8).map(device).collect(),
    };
    let limits = CsiNodeInfo { node, limits: vec![(DRIVER.into(), 25)] };
    [volume.into(), room.into(), slice.into(), limits.into()]
}

fn claims(at: usize) -> [Event; 3] {
    let volume = |kind: &str| PvcInfo {
        key: Key::new("default", &format!("{kind}-{at}")),
        uid: format!("{kind}-{at}").into(),
        class: kind.into(),
        size: GIB,
        ..PvcInfo::default()
    };
    let request = ClaimRequest { name: "gpu".into(), class: "gpu".into(), selectors: Vec::new(), count: 1 };
    let devices = ClaimInfo {
        key: Key::new("default", &format!("gpu-{at}")),
        uid: format!("gpu-{at}").into(),
        requests: vec![request],
        ..ClaimInfo::default()
    };
    [volume("local").into(), volume("made").into(), devices.into()]
}
