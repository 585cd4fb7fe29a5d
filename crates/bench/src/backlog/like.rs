//! Kinds of waiting gangs.
use std::sync::Arc;

use anyhow::Result;
use clap::ValueEnum;
use phalanx_cluster::event::{
    ClaimInfo, ClaimRequest, Constraints, DeviceClassInfo, Event, Key, NodeInfo, Operator, PodClaim,
    PodGroupInfo, PodInfo, PodRules, PodSelector, PodTerm, PodVolume, PvcInfo, Requirement, StorageClassInfo,
};
use phalanx_cluster::label::Selector;
use phalanx_framework::conf::Conf;

use crate::core::helm_conf;
use crate::generate::{self, Gang, resources};
use crate::preempt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Like {
    /// All request the same.
    Equal,
    /// No two request the same amount of memory.
    Unlike,
    /// All request the same, and are not admitted since their minResources are too large.
    NotAdmitted,
    /// Each pod has a volume claim of its own, whose volume is provisioned once the pod has a node.
    Claims,
    /// Each pod has a volume claim of its own, which its controller has not bound yet, so no gang starts.
    Unbound,
    /// Each pod has a resource claim of its own to a device that no node has, so no gang starts.
    Devices,
    /// All have affinity by zone to an app that has no running pod.
    Affinity,
    /// Each gang is an app of its own, with affinity by zone to itself.
    OwnAffinity,
    /// Pods that request nothing; nodes take only so many pods.
    BestEffort,
    /// All request the same, and could have pods evicted for them if their priority were higher.
    Preempt,
    /// As `Preempt`, but no two request the same amount of memory.
    PreemptUnlike,
    /// Each has one running pod, which is its minimum, and one more pending pod.
    Elastic,
}

const ZONE: &str = "topology.kubernetes.io/zone";
const APP: &str = "app";
/// Zones over which nodes are spread.
const ZONES: usize = 10;
/// What pods of gangs that have started hold, of which there is enough.
const DRIVER: &str = "example.com/driver";

impl Like {
    pub(super) fn conf(self) -> Result<Conf> {
        match self {
            Like::Preempt | Like::PreemptUnlike => preempt::conf(),
            _ => helm_conf(),
        }
    }

    /// The objects besides nodes that all kinds need.
    pub(super) fn supply() -> impl Iterator<Item = Event> {
        let class = |name: &str, waits| {
            let provisioner = Some("csi.example.com".into());
            StorageClassInfo { name: name.into(), provisioner, waits, topologies: Vec::new() }.into()
        };
        let devices = DeviceClassInfo { name: "gpu".into(), selectors: vec!["true".into()] };
        [class("waits", true), class("immediate", false), devices.into()].into_iter()
    }

    /// Nodes in zones. Where pods request nothing, as many pods as cores make them full.
    pub(super) fn nodes(self, count: usize, cores: usize) -> impl Iterator<Item = Event> {
        generate::nodes(count).enumerate().map(move |(at, event)| match event {
            Event::Node(mut info) => {
                info.labels.push((ZONE.into(), format!("zone-{:02}", at % ZONES).into()));
                info.labels.sort();
                if self == Like::BestEffort {
                    info.allocatable.retain(|(name, _)| &**name != "pods");
                    info.allocatable.extend(resources(&[("pods", &cores.to_string())]));
                }
                if self == Like::Elastic {
                    info.allocatable.retain(|(name, _)| &**name != "pods");
                    info.allocatable.extend(resources(&[("pods", "1000000"), (DRIVER, "1000000")]));
                }
                NodeInfo { ..info }.into()
            }
            other => other,
        })
    }

    /// How many gangs of this size start when as many pods have finished, zone after zone: all gangs with affinity to
    /// one zone go to that of the first, which is the first zone with enough room.
    pub(super) fn started_by(self, finished: usize, size: usize) -> usize {
        let in_zone = |zone: usize| (finished + ZONES - 1 - zone) / ZONES / size;
        match self {
            Like::NotAdmitted | Like::Unbound | Like::Devices => 0,
            Like::Affinity => in_zone(0),
            Like::OwnAffinity => (0..ZONES).map(in_zone).sum(),
            Like::Elastic => finished,
            _ => finished / size,
        }
    }

    /// A gang of one pod that is too large for any node with so many cores, or is let on none.
    pub(super) fn never_fits(self, at: usize, cores: usize) -> Vec<Event> {
        self.gang(at, 2 * cores, 1, true)
    }

    /// A gang of small pods.
    pub(super) fn fits(self, at: usize, size: usize) -> Vec<Event> {
        self.gang(at, 1, if self == Like::Elastic { 1 } else { size }, false)
    }

    fn gang(self, at: usize, cores: usize, size: usize, never: bool) -> Vec<Event> {
        let name = format!("waits-{at:06}");
        let runs = usize::from(self == Like::Elastic);
        let on = vec![at % ZONES; runs];
        let gang = Gang { name: &name, class: "", cores, gpus: 0, size: size + runs, on };
        let events = gang.events().flat_map(|event| match event {
            Event::Pod(pod) => self.pod(at, *pod, cores, never),
            Event::PodGroup(group) => vec![self.group(*group).into()],
            event => vec![event],
        });
        events.collect()
    }

    fn group(self, group: PodGroupInfo) -> PodGroupInfo {
        if self == Like::NotAdmitted {
            let min_resources = Some(resources(&[("cpu", "1000000")]));
            return PodGroupInfo { min_resources, ..group };
        }
        if self == Like::Elastic {
            return PodGroupInfo { min_member: 1, ..group };
        }
        group
    }

    /// The pod, and claims that are made for it.
    fn pod(self, at: usize, mut pod: PodInfo, cores: usize, never: bool) -> Vec<Event> {
        let mut events = Vec::new();
        let mut constraints = Constraints::default();
        match self {
            Like::Equal | Like::NotAdmitted | Like::Preempt => {}
            Like::Elastic => {
                if pod.life.node.is_some() {
                    Arc::make_mut(&mut pod.requests).containers = vec![resources(&[(DRIVER, "1")])];
                }
            }
            Like::Unlike | Like::PreemptUnlike => {
                let memory = format!("{}Ki", 4_000_000 + at);
                let request = resources(&[("cpu", &cores.to_string()), ("memory", &memory)]);
                Arc::make_mut(&mut pod.requests).containers = vec![request];
            }
            Like::Claims | Like::Unbound => {
                let class = if self == Like::Claims { "waits" } else { "immediate" };
                let claim = pvc(&pod, class);
                constraints.volumes = vec![PodVolume { claim: claim.key.clone(), owner: None }];
                events.push(claim.into());
            }
            Like::Devices => {
                let claim = device(&pod);
                let named = PodClaim { name: "gpu".into(), claim: Some(claim.key.name.clone()) };
                pod.claims = Some([named].into());
                events.push(claim.into());
            }
            Like::Affinity | Like::OwnAffinity => {
                let app = if self == Like::Affinity { "waits".into() } else { format!("waits-{at:06}") };
                constraints.pod_rules =
                    Some(Arc::new(PodRules { affinity: vec![near(&app)], ..PodRules::default() }));
                pod.labels = [(APP.into(), app.into())].into_iter().collect();
            }
            Like::BestEffort => {
                Arc::make_mut(&mut pod.requests).containers.clear();
                if never {
                    constraints.node_selector = vec![("nowhere".into(), "".into())];
                }
            }
        }
        pod.constraints = Arc::new(constraints);
        events.push(pod.into());
        events
    }
}

fn pvc(pod: &PodInfo, class: &str) -> PvcInfo {
    let name = &pod.pod.name;
    PvcInfo {
        key: Key { namespace: pod.pod.namespace.clone(), name: name.clone() },
        uid: name.clone(),
        class: class.into(),
        size: 1 << 30,
        ..PvcInfo::default()
    }
}

fn device(pod: &PodInfo) -> ClaimInfo {
    let name = &pod.pod.name;
    let request = ClaimRequest { name: "gpu".into(), class: "gpu".into(), selectors: Vec::new(), count: 1 };
    ClaimInfo {
        key: Key { namespace: pod.pod.namespace.clone(), name: name.clone() },
        uid: name.clone(),
        requests: vec![request],
        ..ClaimInfo::default()
    }
}

fn near(app: &str) -> PodTerm {
    let own = Requirement { key: APP.into(), operator: Operator::In, values: vec![app.into()] };
    let pods = PodSelector {
        namespaces: vec!["default".into()],
        labels: Some(Selector(vec![own])),
        ..PodSelector::default()
    };
    PodTerm { topology_key: ZONE.into(), pods }
}
