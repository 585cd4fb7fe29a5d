//! Small clusters with volumes and devices, and a gang that requests them.
use std::sync::Arc;

use phalanx_cluster::event::{
    AccessModes, ClaimAllocation, ClaimInfo, ClaimRequest, Constraints, CsiNodeInfo, DeviceClassInfo,
    DeviceInfo, DeviceName, DeviceValue, Event, GivenDevice, Key, NodeInfo, NodeTerm, Operator, PodClaim,
    PodGroupInfo, PodInfo, PodRef, PodVolume, PvcInfo, Requirement, SliceInfo, SliceNodes, StorageClassInfo,
    VolumeInfo,
};
use phalanx_framework::conf::{Conf, Flag};
use proptest::prelude::*;

use phalanx_framework::testing::{group, member, node, running};
use phalanx_testkit::{TestCluster, one_tier, set_flag};

const DRIVER: &str = "csi.x";
const DEVICES: &str = "gpu.x";
const ZONE: &str = "topology.kubernetes.io/zone";
/// Classes of devices: two models that nodes have, both of them, and what nodes share. A class of which nodes have some
/// is served by these alone.
const CLASSES: [&str; 4] = ["any", "old", "new", "shared"];
/// Devices of this model.
pub(super) const SHARED: usize = 2;

/// Nodes from which something can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    All,
    Zone(usize),
    Node(usize),
}

#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) cores: i64,
    pub(super) zone: usize,
    /// How many volumes it can attach.
    pub(super) attach: Option<usize>,
    /// Its devices, by model.
    pub(super) models: Vec<usize>,
}

/// A volume that is bound to no claim.
#[derive(Clone, Debug)]
pub(super) struct Volume {
    /// Its storage class has no provisioner; otherwise it is of a class with one.
    pub(super) local: bool,
    pub(super) size: i64,
    pub(super) once: bool,
    pub(super) reach: Reach,
    /// The claim that its claimRef names.
    pub(super) meant: Option<usize>,
}

/// The volume of a claim.
#[derive(Clone, Debug)]
pub(super) enum Has {
    /// A bound volume, restricted by its node affinity or by its zone label.
    Bound { reach: Reach, by_label: bool, driver: bool },
    /// An existing volume of this size.
    Local(i64),
    /// An existing volume, or one that is provisioned in this zone.
    Made(i64, Option<usize>),
}

#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) has: Has,
    /// ReadWriteOncePod.
    pub(super) once: bool,
}

/// A number of devices of a class.
pub(super) type Request = (usize, usize);

/// A device of a node or a shared device, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Device {
    Own(usize, usize),
    Shared(usize),
}

/// The requests of a pod.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) cores: i64,
    pub(super) volumes: Vec<usize>,
    pub(super) devices: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) name: String,
    pub(super) gang: usize,
    pub(super) node: usize,
    pub(super) preemptable: bool,
    pub(super) wish: Wish,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) only: Option<usize>,
    pub(super) wish: Wish,
}

/// A cluster with one waiting gang.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) hosts: Vec<Host>,
    /// Devices that nodes share.
    pub(super) shared: Vec<Reach>,
    pub(super) volumes: Vec<Volume>,
    pub(super) claims: Vec<Claim>,
    pub(super) requests: Vec<Vec<Request>>,
    /// The devices of claims that are allocated.
    pub(super) given: Vec<Option<Vec<Device>>>,
    /// Priority and `minMember`.
    pub(super) gangs: Vec<(i32, u32)>,
    pub(super) pods: Vec<Held>,
    pub(super) members: Vec<Member>,
    pub(super) min: usize,
    pub(super) keeps_gangs: bool,
    pub(super) preempts: bool,
}

// ------------------------------------------------------------ generation

fn reach() -> impl Strategy<Value = Reach> {
    prop_oneof![
        1 => Just(Reach::All),
        2 => (0usize..2).prop_map(Reach::Zone),
        3 => (0usize..3).prop_map(Reach::Node),
    ]
}

fn host(attached: bool) -> impl Strategy<Value = Host> {
    let attach = prop::option::weighted(if attached { 0.7 } else { 0.1 }, 0usize..4);
    (1i64..5, 0usize..2, attach, prop::collection::vec(0usize..2, 0..4))
        .prop_map(|(cores, zone, attach, models)| Host { cores, zone, attach, models })
}

fn volume() -> impl Strategy<Value = Volume> {
    let meant = prop::option::weighted(0.1, 0usize..4);
    (prop::bool::weighted(0.8), 1i64..4, prop::bool::weighted(0.7), reach(), meant)
        .prop_map(|(local, size, once, reach, meant)| Volume { local, size, once, reach, meant })
}

fn claim(open: u32) -> impl Strategy<Value = Claim> {
    let bound = (reach(), any::<bool>(), prop::bool::weighted(0.8));
    let has = prop_oneof![
        4 - open => bound.prop_map(|(reach, by_label, driver)| Has::Bound { reach, by_label, driver }),
        open => (1i64..4).prop_map(Has::Local),
        1 => (1i64..4, prop::option::weighted(0.4, 0usize..2)).prop_map(|(size, zone)| Has::Made(size, zone)),
    ];
    (has, prop::bool::weighted(0.25)).prop_map(|(has, once)| Claim { has, once })
}

/// Some of this many objects, by number.
fn some(of: usize, most: usize) -> impl Strategy<Value = Vec<usize>> {
    prop::collection::btree_set(0..of, 0..=most).prop_map(|set| set.into_iter().collect())
}

fn wish(volumes: usize, devices: usize) -> impl Strategy<Value = Wish> {
    (0i64..3, some(5, volumes), some(3, devices)).prop_map(|(cores, volumes, devices)| Wish {
        cores: cores.max(1),
        volumes,
        devices,
    })
}

/// What is in a cluster: how likely unbound claims are, and how many claims of each sort a pod has at the most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    /// Of four.
    pub(super) open: u32,
    pub(super) volumes: usize,
    pub(super) devices: usize,
    pub(super) running: usize,
}

prop_compose! {
    pub(super) fn case(mix: Mix)(
        hosts in prop::collection::vec(host(mix.open < 3), 1..4),
        (reach, count) in (reach(), 0usize..3),
        volumes in prop::collection::vec(volume(), 0..5),
        claims in prop::collection::vec(claim(mix.open), 5),
        requests in prop::collection::vec(prop::collection::vec((0usize..4, 1usize..3), 1..3), 3),
        pods in prop::collection::vec(
            (0usize..3, 0usize..3, prop::bool::weighted(0.85), wish(mix.volumes, mix.devices)), 0..=mix.running,
        ),
        members in prop::collection::vec(
            (prop::option::weighted(0.15, 0usize..3), wish(mix.volumes, mix.devices)), 1..4,
        ),
        gangs in prop::collection::vec((prop::sample::select(vec![1, 1, 5]), 0u32..3), 3),
        (min, keeps_gangs, preempts) in (1usize..4, any::<bool>(), prop::bool::weighted(0.7)),
    ) -> Case {
        let members: Vec<Member> = members.into_iter().map(|(only, wish)| Member { only, wish }).collect();
        // All shared devices are in one place: requests are counted once for all shared devices.
        let shared = if mix.devices > 0 { vec![reach; count] } else { Vec::new() };
        let mut case = Case {
            given: vec![None; requests.len()],
            min: min.min(members.len()),
            shared, hosts, volumes, claims, requests, gangs, pods: Vec::new(), members, keeps_gangs, preempts,
        };
        for (gang, node, preemptable, wish) in pods {
            case.hold(gang, node, preemptable, wish);
        }
        case
    }
}

impl Case {
    /// A running pod, with the claims that it can use on its node.
    fn hold(&mut self, gang: usize, node: usize, preemptable: bool, mut wish: Wish) {
        let node = node % self.hosts.len();
        let used: i64 = self.pods.iter().filter(|pod| pod.node == node).map(|pod| pod.wish.cores).sum();
        if used + wish.cores > self.hosts[node].cores {
            return;
        }
        wish.volumes.retain(|claim| {
            let it = &self.claims[*claim];
            let Has::Bound { reach, by_label, .. } = it.has else { return false };
            let taken = self.pods.iter().any(|pod| pod.wish.volumes.contains(claim));
            self.bound_reaches(reach, by_label, node) && !(it.once && taken)
        });
        let name = format!("g{gang}-{}", self.pods.len());
        self.pods.push(Held { name, gang, node, preemptable, wish });
        let at = self.pods.len() - 1;
        if self.hosts[node].attach.is_some_and(|most| self.attached(node, &[]).len() > most) {
            self.pods[at].wish.volumes.clear();
        }
        let devices = std::mem::take(&mut self.pods[at].wish.devices);
        self.pods[at].wish.devices = devices.into_iter().filter(|claim| self.give(*claim, node)).collect();
    }

    /// Whether a claim has its devices on this node or can be allocated there.
    fn give(&mut self, claim: usize, node: usize) -> bool {
        if let Some(given) = &self.given[claim] {
            return given.iter().all(|device| self.device_reaches(*device, node));
        }
        let mut taken: Vec<Device> = self.given.iter().flatten().flatten().copied().collect();
        let mut got = Vec::new();
        for (class, count) in &self.requests[claim] {
            for _ in 0..*count {
                let free = |device: &Device| !taken.contains(device) && self.is_of(*device, *class);
                let Some(device) = self.devices(node).find(free) else { return false };
                taken.push(device);
                got.push(device);
            }
        }
        self.given[claim] = Some(got);
        true
    }

    /// The devices that a node can use.
    pub(super) fn devices(&self, node: usize) -> impl Iterator<Item = Device> + '_ {
        let own = (0..self.hosts[node].models.len()).map(move |at| Device::Own(node, at));
        let shared = (0..self.shared.len()).map(Device::Shared);
        own.chain(shared).filter(move |device| self.device_reaches(*device, node))
    }

    pub(super) fn device_reaches(&self, device: Device, node: usize) -> bool {
        match device {
            Device::Own(at, _) => at == node,
            Device::Shared(at) => self.reaches(self.shared[at], node),
        }
    }

    /// Whether a device is of a class.
    pub(super) fn is_of(&self, device: Device, class: usize) -> bool {
        let model = match device {
            Device::Own(node, at) => self.hosts[node].models[at],
            Device::Shared(_) => SHARED,
        };
        (class == 0 && model < SHARED) || class == model + 1
    }

    pub(super) fn reaches(&self, reach: Reach, node: usize) -> bool {
        match reach {
            Reach::All => true,
            Reach::Zone(zone) => self.hosts[node].zone == zone,
            Reach::Node(at) => at == node,
        }
    }

    /// A label can name a zone only.
    pub(super) fn bound_reaches(&self, reach: Reach, by_label: bool, node: usize) -> bool {
        by_label && matches!(reach, Reach::Node(_)) || self.reaches(reach, node)
    }

    /// Claims whose volumes are attached to a node once some pods are gone.
    pub(super) fn attached(&self, node: usize, gone: &[usize]) -> Vec<usize> {
        let stays = |(at, pod): &(usize, &Held)| pod.node == node && !gone.contains(at);
        let pods = self.pods.iter().enumerate().filter(stays);
        let mut claims: Vec<usize> =
            pods.flat_map(|(_, pod)| &pod.wish.volumes).copied().filter(|at| self.is_attached(*at)).collect();
        claims.sort_unstable();
        claims.dedup();
        claims
    }

    /// Whether the volume of a claim counts for the attach limit.
    pub(super) fn is_attached(&self, claim: usize) -> bool {
        match self.claims[claim].has {
            Has::Bound { driver, .. } => driver,
            Has::Local(_) => false,
            Has::Made(..) => true,
        }
    }
}

// ------------------------------------------------------------ objects

fn conf(keeps_gangs: bool, preempts: bool) -> Conf {
    let actions = if preempts { &["allocate", "preempt"][..] } else { &["allocate"] };
    let mut conf = one_tier(actions, &["priority", "gang", "predicates", "nodeorder"]);
    set_flag(&mut conf, "gang", Flag::Preemptable, keeps_gangs);
    conf
}

fn terms(reach: Reach) -> Option<Vec<NodeTerm>> {
    let (key, value) = match reach {
        Reach::All => return None,
        Reach::Zone(zone) => (ZONE, format!("z{zone}")),
        Reach::Node(node) => ("kubernetes.io/hostname", format!("n{node}")),
    };
    let labels = vec![Requirement { key: key.into(), operator: Operator::In, values: vec![value.into()] }];
    Some(vec![NodeTerm { labels, fields: Vec::new() }])
}

fn modes(once: bool) -> AccessModes {
    if once { AccessModes::ONCE_POD } else { AccessModes::default() }
}

fn key(name: &str, at: usize) -> Key {
    Key::new("ns", &format!("{name}{at}"))
}

/// Devices by the names of slice and device.
fn slice(name: &str, nodes: SliceNodes, models: impl Iterator<Item = usize>) -> Event {
    let device = |(at, model): (usize, usize)| DeviceInfo {
        name: format!("d{at}").into(),
        attributes: vec![("model".into(), DeviceValue::Int(model as i64))],
        ..DeviceInfo::default()
    };
    let devices = models.enumerate().map(device).collect();
    let (name, driver) = (Arc::<str>::from(name), DEVICES.into());
    SliceInfo { pool: name.clone(), name, driver, generation: 1, nodes, devices }.into()
}

impl Device {
    fn name(self) -> DeviceName {
        let (pool, device) = match self {
            Device::Own(node, at) => (format!("n{node}"), format!("d{at}")),
            Device::Shared(at) => (format!("s{at}"), "d0".into()),
        };
        DeviceName { driver: DEVICES.into(), pool: pool.into(), device: device.into() }
    }

    pub(super) fn named(name: &DeviceName) -> Self {
        let number = |text: &str| text[1..].parse().expect("a number");
        if name.pool.starts_with('n') {
            Device::Own(number(&name.pool), number(&name.device))
        } else {
            Device::Shared(number(&name.pool))
        }
    }
}

impl Case {
    pub(super) fn test(&self) -> TestCluster {
        let mut test = TestCluster::with(conf(self.keeps_gangs, self.preempts));
        for value in [1, 5] {
            let name = format!("p{value}").into();
            test.add(Event::PriorityClass { name, value, global_default: false });
        }
        for event in self.nodes().chain(self.storage()).chain(self.classes()) {
            test.add(event);
        }
        for at in 0..self.requests.len() {
            test.add(self.claim_to_devices(at, self.given[at].is_some()));
        }
        let of = |name: &str, priority: i32, min: u32| PodGroupInfo {
            priority_class: Some(format!("p{priority}").into()),
            ..group(name, min)
        };
        for (at, (priority, min)) in self.gangs.iter().enumerate() {
            test.add(of(&format!("g{at}"), *priority, *min));
        }
        for pod in &self.pods {
            test.add(pod.info());
        }
        test.add(of("asks", 5, self.min as u32));
        for (at, member) in self.members.iter().enumerate() {
            test.add(member.info(at));
        }
        test
    }

    fn nodes(&self) -> impl Iterator<Item = Event> + '_ {
        self.hosts.iter().enumerate().flat_map(|(at, host)| {
            let name: Arc<str> = format!("n{at}").into();
            let mut info: NodeInfo = node(&name, &format!("cpu={}", host.cores));
            info.labels.push((ZONE.into(), format!("z{}", host.zone).into()));
            let devices = SliceNodes::Node(name.clone());
            let slice = slice(&name, devices, host.models.iter().copied());
            let limit = |most: usize| {
                CsiNodeInfo { node: name.clone(), limits: vec![(DRIVER.into(), most as u32)] }.into()
            };
            [info.into(), slice].into_iter().chain(host.attach.map(limit)).collect::<Vec<Event>>()
        })
    }

    fn classes(&self) -> impl Iterator<Item = Event> + '_ {
        let shared = self.shared.iter().enumerate().map(|(at, reach)| {
            let nodes = terms(*reach).map_or(SliceNodes::All, SliceNodes::Matching);
            slice(&format!("s{at}"), nodes, [SHARED].into_iter())
        });
        let class = |(at, name): (usize, &&str)| {
            let (is, model) = at.checked_sub(1).map_or(("!=", SHARED), |model| ("==", model));
            let selectors = vec![format!("device.attributes['{DEVICES}'].model {is} {model}").into()];
            DeviceClassInfo { name: (*name).into(), selectors }.into()
        };
        CLASSES.iter().enumerate().map(class).chain(shared)
    }

    fn storage(&self) -> Vec<Event> {
        let class = |name: &str, provisioner: Option<&str>, zone: Option<usize>| {
            let topologies = zone.and_then(|zone| terms(Reach::Zone(zone))).unwrap_or_default();
            let provisioner = provisioner.map(Arc::from);
            StorageClassInfo { name: name.into(), provisioner, waits: true, topologies }.into()
        };
        let mut events: Vec<Event> = vec![
            class("local", None, None),
            class("made", Some(DRIVER), None),
            class("made-z0", Some(DRIVER), Some(0)),
            class("made-z1", Some(DRIVER), Some(1)),
        ];
        for (at, volume) in self.volumes.iter().enumerate() {
            events.push(volume.info(at).into());
        }
        for at in 0..self.claims.len() {
            events.extend(self.claim(at));
        }
        events
    }

    fn claim(&self, at: usize) -> Vec<Event> {
        let Claim { has, once } = &self.claims[at];
        let plain = PvcInfo {
            key: key("c", at),
            uid: format!("c{at}").into(),
            modes: modes(*once),
            ..PvcInfo::default()
        };
        match has {
            Has::Local(size) => vec![PvcInfo { class: "local".into(), size: *size, ..plain }.into()],
            Has::Made(size, zone) => {
                let class = zone.map_or("made".into(), |zone| format!("made-z{zone}")).into();
                vec![PvcInfo { class, size: *size, ..plain }.into()]
            }
            Has::Bound { reach, by_label, driver } => {
                let name: Arc<str> = format!("b{at}").into();
                let zone = match reach {
                    Reach::Zone(zone) if *by_label => Some((ZONE.into(), format!("z{zone}").into())),
                    _ => None,
                };
                let volume = VolumeInfo {
                    name: name.clone(),
                    modes: modes(*once),
                    labels: zone.into_iter().collect(),
                    nodes: if *by_label { None } else { terms(*reach) },
                    claim: Some((key("c", at), None)),
                    driver: driver.then(|| DRIVER.into()),
                    ..VolumeInfo::default()
                };
                vec![volume.into(), PvcInfo { volume: Some(name), bound: true, ..plain }.into()]
            }
        }
    }

    /// A claim with its allocation, if it has one.
    pub(super) fn claim_to_devices(&self, at: usize, given: bool) -> Event {
        let request = |(number, (class, count)): (usize, &Request)| ClaimRequest {
            name: format!("r{number}").into(),
            class: CLASSES[*class].into(),
            selectors: Vec::new(),
            count: *count as u32,
        };
        let requests = self.requests[at].iter().enumerate().map(request).collect();
        let users = self.pods.iter().filter(|pod| pod.wish.devices.contains(&at));
        ClaimInfo {
            key: key("d", at),
            uid: format!("d{at}").into(),
            requests,
            allocation: self.given[at].as_ref().filter(|_| given).map(|given| self.allocation(given)),
            reserved: users.filter(|_| given).map(|pod| pod.name.as_str().into()).collect(),
            ..ClaimInfo::default()
        }
        .into()
    }

    fn allocation(&self, given: &[Device]) -> ClaimAllocation {
        let own = given.iter().find_map(|device| match device {
            Device::Own(node, _) => terms(Reach::Node(*node)),
            Device::Shared(_) => None,
        });
        let shared = given.iter().find_map(|device| match device {
            Device::Shared(at) => terms(self.shared[*at]),
            Device::Own(..) => None,
        });
        let one = |device: &Device| GivenDevice { request: "r0".into(), device: device.name() };
        ClaimAllocation { devices: given.iter().map(one).collect(), nodes: own.or(shared) }
    }
}

impl Volume {
    fn info(&self, at: usize) -> VolumeInfo {
        let claim = self.meant.map(|claim| (key("c", claim), None));
        VolumeInfo {
            name: format!("v{at}").into(),
            class: if self.local { "local" } else { "made" }.into(),
            size: self.size,
            modes: modes(self.once),
            nodes: terms(self.reach),
            claim,
            available: true,
            driver: Some(DRIVER.into()),
            ..VolumeInfo::default()
        }
    }
}

impl Wish {
    fn give_to(&self, pod: PodInfo) -> PodInfo {
        let volume = |at: &usize| PodVolume { claim: key("c", *at), owner: None };
        let claim = |at: &usize| PodClaim { name: key("d", *at).name, claim: Some(key("d", *at).name) };
        let volumes = self.volumes.iter().map(volume).collect();
        let claims = (!self.devices.is_empty()).then(|| self.devices.iter().map(claim).collect());
        let constraints = Arc::new(Constraints {
            volumes,
            node_selector: pod.constraints.node_selector.clone(),
            ..Constraints::default()
        });
        PodInfo { constraints, claims, ..pod }
    }
}

impl Held {
    fn info(&self) -> PodInfo {
        let cores = format!("cpu={}", self.wish.cores);
        let mut pod = running(member(&format!("g{}", self.gang), 0, &cores), &format!("n{}", self.node));
        let name: Arc<str> = self.name.as_str().into();
        pod.pod = Arc::new(PodRef { uid: Arc::clone(&name), name, ..PodRef::clone(&pod.pod) });
        pod.preemptable = (!self.preemptable).then_some(false);
        self.wish.give_to(pod)
    }
}

impl Member {
    fn info(&self, at: usize) -> PodInfo {
        let only = |at: usize| ("kubernetes.io/hostname".into(), format!("n{at}").into());
        let node_selector = self.only.map(only).into_iter().collect();
        let pod = member("asks", at as u32, &format!("cpu={}", self.wish.cores));
        let constraints = Arc::new(Constraints { node_selector, ..Constraints::default() });
        self.wish.give_to(PodInfo { constraints, ..pod })
    }
}
