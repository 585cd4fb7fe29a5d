//! Claims to volumes and to devices for random clusters, and changes of them.
use std::sync::Arc;

use phalanx_cluster::event::{
    AccessModes, AttachmentInfo, ClaimInfo, ClaimRequest, Constraints, CsiDriverInfo, CsiNodeInfo,
    DeviceClassInfo, DeviceInfo, Event, Key, NodeTerm, Operator, PodClaim, PodInfo, PodVolume, PvcInfo,
    Requirement, SliceInfo, SliceNodes, StorageCapacityInfo, StorageClassInfo, VolumeInfo,
};
use phalanx_cluster::label::Selector;
use proptest::prelude::*;

/// The CSI driver of volumes.
pub const DRIVER: &str = "csi.x";

/// Claims, volumes and devices. Pods also name claims that do not exist.
#[derive(Clone, Debug)]
pub struct Supply {
    pvcs: Vec<PvcInfo>,
    volumes: Vec<VolumeInfo>,
    limits: Vec<u32>,
    /// The published storage capacity of each node; without any the driver publishes none.
    room: Vec<i64>,
    claims: Vec<ClaimInfo>,
    /// The number of devices of each node.
    devices: Vec<usize>,
}

/// The claims of a pod by number.
pub type Wishes = (Vec<usize>, Option<usize>);

/// Most pods have none.
pub fn wishes() -> impl Strategy<Value = Wishes> {
    prop_oneof![
        5 => Just((Vec::new(), None)),
        3 => (prop::collection::vec(0usize..5, 1..3), prop::option::weighted(0.2, 0usize..3)),
        1 => (0usize..3).prop_map(|device| (Vec::new(), Some(device))),
    ]
}

/// Gives a pod its claims. A bound pod has no ResourceClaims, because they would have to be allocated.
pub fn wish(pod: PodInfo, (volumes, device): Wishes) -> PodInfo {
    let mut volumes: Vec<_> = volumes
        .into_iter()
        .map(|at| PodVolume { claim: Key::new("ns", &format!("v{at}")), owner: None })
        .collect();
    volumes.sort();
    volumes.dedup();
    let device = device.filter(|_| pod.life.node.is_none()).map(|at| format!("d{at}").into());
    let claims = device.map(|name: Arc<str>| [PodClaim { name: name.clone(), claim: Some(name) }].into());
    PodInfo { constraints: Arc::new(Constraints { volumes, ..Constraints::default() }), claims, ..pod }
}

/// A PersistentVolumeClaim.
pub fn pvc(at: usize, class: &str, size: i64, modes: AccessModes) -> PvcInfo {
    PvcInfo {
        key: Key::new("ns", &format!("v{at}")),
        uid: format!("v{at}").into(),
        class: class.into(),
        size,
        modes,
        ..PvcInfo::default()
    }
}

/// The terms that select one node.
pub fn on(node: usize) -> Vec<NodeTerm> {
    let operator = Operator::In;
    let values = vec![format!("n{node}").into()];
    let requirement = Requirement { key: "kubernetes.io/hostname".into(), operator, values };
    vec![NodeTerm { labels: vec![requirement], fields: Vec::new() }]
}

/// A PersistentVolume on one node.
pub fn volume(at: usize, node: usize, size: i64) -> VolumeInfo {
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

/// A ResourceClaim for this many devices.
pub fn claim(at: usize, count: u32) -> ClaimInfo {
    let name: Arc<str> = format!("d{at}").into();
    let request = ClaimRequest { name: "r".into(), class: "any".into(), selectors: Vec::new(), count };
    ClaimInfo { key: Key::new("ns", &name), uid: name, requests: vec![request], ..ClaimInfo::default() }
}

/// Random storage and devices.
pub fn supply() -> impl Strategy<Value = Supply> {
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
            .map(|(at, (class, size, once))| {
                let modes = if once { AccessModes::ONCE_POD } else { AccessModes::default() };
                pvc(at, class, size, modes)
            })
            .collect(),
        volumes: volumes.into_iter().enumerate().map(|(at, (node, size))| volume(at, node, size)).collect(),
        limits,
        room,
        claims: claims.into_iter().enumerate().map(|(at, count)| claim(at, count)).collect(),
        devices,
    })
}

/// Storage classes with `WaitForFirstConsumer`, without and with a provisioner, and one with `Immediate`.
pub fn classes() -> impl Iterator<Item = Event> {
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

/// VolumeAttachments of other volumes, of claims' volumes or of unbound volumes, also on nodes that do not exist yet.
fn attachment(at: usize) -> AttachmentInfo {
    let volume = (at % 5 < 4).then(|| format!("pv{}", at % 4).into());
    let node = format!("n{}", at / 2 % 4).into();
    AttachmentInfo { name: format!("a{}", at % 7).into(), node, driver: DRIVER.into(), volume }
}

/// The ResourceSlice of a node with this many devices.
pub fn slice((node, count): (usize, &usize)) -> Event {
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
    /// All objects as events.
    pub fn events(&self) -> impl Iterator<Item = Event> + '_ {
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

    /// An object is deleted or created again, or the controller binds a claim.
    pub fn happen(&self, at: usize) -> Option<Event> {
        let pvc = |at: usize| (!self.pvcs.is_empty()).then(|| &self.pvcs[at % self.pvcs.len()]);
        let volume = |at: usize| (!self.volumes.is_empty()).then(|| &self.volumes[at % self.volumes.len()]);
        let which = at / 10;
        match at % 10 {
            0 => pvc(which).map(|pvc| Event::PvcGone { claim: pvc.key.clone(), uid: pvc.uid.clone() }),
            1 => pvc(which).cloned().map(Event::from),
            2 => volume(which).map(|volume| Event::VolumeGone { name: volume.name.clone(), uid: "".into() }),
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
