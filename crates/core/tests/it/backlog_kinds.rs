//! The properties of the backlog for jobs with claims, with pod rules, without requests, and with possible victims.
use std::sync::Arc;

use phalanx_cluster::Status;
use phalanx_cluster::event::{
    AccessModes, ClaimInfo, ClaimRequest, Constraints, CsiNodeInfo, DeviceClassInfo, DeviceInfo, Event,
    HostPort, Key, NodeInfo, NodeTerm, Operator, PdbInfo, PodClaim, PodGroupInfo, PodInfo, PodPhase,
    PodRules, PodSelector, PodTerm, PodVolume, PvcInfo, Requirement, SliceInfo, SliceNodes, Spread,
    StorageClassInfo, Time, VolumeInfo,
};
use phalanx_cluster::label::Selector;
use phalanx_core::RetryLimits;
use phalanx_core::decision::Decision;
use phalanx_testkit::rates::{Rate, holds};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::backlog::{Pair, named_with, patient};
use phalanx_framework::testing::{group, member, node, pod, queue, resources, running};
use phalanx_testkit::settings::{Named, confs, evicting};
use phalanx_testkit::{TestCluster, cases};

const ZONE: &str = "zone";
const HOST: &str = "kubernetes.io/hostname";
const DRIVER: &str = "csi.x";
const NODES: usize = 4;

/// The kind of the pods of a gang.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Plain,
    BestEffort,
    /// Its last pod requests nothing.
    Mixed,
    /// Its first pod has a gate.
    Gated,
    /// Its pods listen on a port of their node.
    Port,
    /// Affinity by zone to pods of this app.
    Near(&'static str),
    /// Anti-affinity by zone or by host to pods of its own app.
    Apart(&'static str),
    /// Topology spread over zones with pods of its app.
    Spread,
    /// Each pod has a claim of its own, of this storage class.
    Claim(&'static str),
    /// All pods share the claim of this number.
    Shared(usize),
    /// Each pod has a claim of its own to this many devices.
    Device(u32),
    /// All pods share the claim to devices of this number.
    SharedDevice(usize),
}

#[derive(Clone, Debug)]
struct Like {
    kind: Kind,
    app: &'static str,
    min_member: u32,
    more: u32,
    cpu: u32,
    queue: usize,
    priority: i32,
    preemptable: Option<bool>,
    /// Its claims are created later.
    unmade: bool,
}

/// A change between two cycles; numbers pick objects.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive(usize),
    Finish(usize),
    Leave(usize),
    Gone(usize),
    /// A pod of another scheduler runs on a node.
    Foreign(usize),
    Node(usize, i64, usize),
    NodeGone(usize),
    /// Claims that do not exist yet are created.
    Make,
    /// The controller binds an immediate claim to a volume in a zone.
    Bind(usize, usize),
    Volume(usize, usize),
    VolumeGone(usize),
    Class(bool),
    Limit(usize, u32),
    Slice(usize, usize),
    ClaimGone(usize),
    Relabel(usize, &'static str),
    Ungate(usize),
    Budget(u32),
    Prefer(usize, i32),
    /// The PodGroup of a waiting pod gets another queue, minMember and minResources.
    Regroup(usize, usize, u32, Option<i64>),
}

#[derive(Clone, Debug)]
struct Backlog {
    nodes: Vec<(i64, usize)>,
    likes: Vec<Like>,
    first: Vec<usize>,
    then: Vec<Vec<Step>>,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        2 => Just(Kind::Plain),
        2 => Just(Kind::BestEffort),
        1 => Just(Kind::Mixed),
        1 => Just(Kind::Gated),
        2 => Just(Kind::Port),
        2 => prop::sample::select(vec!["a", "b"]).prop_map(Kind::Near),
        2 => prop::sample::select(vec![ZONE, HOST]).prop_map(Kind::Apart),
        1 => Just(Kind::Spread),
        4 => prop::sample::select(vec!["local", "made", "now", "none"]).prop_map(Kind::Claim),
        1 => (0usize..2).prop_map(Kind::Shared),
        2 => (1u32..3).prop_map(Kind::Device),
        1 => (0usize..2).prop_map(Kind::SharedDevice),
    ]
}

fn like() -> impl Strategy<Value = Like> {
    let app = prop::sample::select(vec!["a", "b"]);
    let preemptable = prop::option::weighted(0.2, any::<bool>());
    let spec =
        (kind(), app, 1u32..3, 0u32..4, 1u32..4, 0usize..2, 0i32..2, preemptable, prop::bool::weighted(0.3));
    spec.prop_map(|(kind, app, min_member, more, cpu, queue, priority, preemptable, unmade)| Like {
        kind,
        app,
        min_member,
        more,
        cpu,
        queue,
        priority,
        preemptable,
        unmade,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let at = || 0usize..50;
    prop_oneof![
        4 => at().prop_map(Step::Arrive),
        4 => at().prop_map(Step::Finish),
        2 => at().prop_map(Step::Leave),
        2 => at().prop_map(Step::Gone),
        2 => at().prop_map(Step::Foreign),
        3 => (at(), 0i64..7, 0usize..3).prop_map(|(at, cpu, zone)| Step::Node(at, cpu, zone)),
        1 => at().prop_map(Step::NodeGone),
        2 => Just(Step::Make),
        2 => (at(), 0usize..3).prop_map(|(at, zone)| Step::Bind(at, zone)),
        2 => (0usize..3, at()).prop_map(|(at, node)| Step::Volume(at, node)),
        1 => (0usize..3).prop_map(Step::VolumeGone),
        1 => any::<bool>().prop_map(Step::Class),
        1 => (at(), 0u32..3).prop_map(|(at, limit)| Step::Limit(at, limit)),
        2 => (at(), 0usize..3).prop_map(|(at, count)| Step::Slice(at, count)),
        1 => at().prop_map(Step::ClaimGone),
        1 => (at(), prop::sample::select(vec!["a", "b", "c"])).prop_map(|(at, app)| Step::Relabel(at, app)),
        1 => at().prop_map(Step::Ungate),
        1 => (0u32..3).prop_map(Step::Budget),
        1 => (at(), 0i32..3).prop_map(|(at, value)| Step::Prefer(at, value)),
        1 => (at(), 0usize..2, 1u32..3, prop::option::of(1i64..8))
            .prop_map(|(at, queue, min, cpu)| Step::Regroup(at, queue, min, cpu)),
    ]
}

fn backlog() -> impl Strategy<Value = Backlog> {
    let first = prop::collection::vec(0usize..4, 0..14);
    let then = prop::collection::vec(prop::collection::vec(step(), 0..5), 1..8);
    let nodes = prop::collection::vec((0i64..7, 0usize..3), 0..NODES);
    (nodes, prop::collection::vec(like(), 4), first, then).prop_map(|(nodes, likes, first, then)| Backlog {
        nodes,
        likes,
        first,
        then,
    })
}

fn requirement(key: &str, value: &str) -> Requirement {
    Requirement { key: key.into(), operator: Operator::In, values: vec![value.into()] }
}

fn on(key: &str, value: &str) -> Vec<NodeTerm> {
    vec![NodeTerm { labels: vec![requirement(key, value)], fields: Vec::new() }]
}

fn sized(at: usize, cpu: i64, zone: usize) -> NodeInfo {
    let mut node = node(&format!("n{at}"), &format!("cpu={cpu} memory=8Gi pods=5"));
    // The third node has no zone label.
    if zone < 2 {
        node.labels.push((ZONE.into(), format!("z{zone}").into()));
        node.labels.sort();
    }
    node
}

fn term(topology: &str, app: &str) -> PodTerm {
    let labels = Some(Selector(vec![requirement("app", app)]));
    let pods = PodSelector { namespaces: vec!["ns".into()], labels, ..PodSelector::default() };
    PodTerm { topology_key: topology.into(), pods }
}

impl Like {
    fn rules(&self) -> Option<PodRules> {
        let none = PodRules::default();
        match self.kind {
            Kind::Near(app) => Some(PodRules { affinity: vec![term(ZONE, app)], ..none }),
            Kind::Apart(topology) => Some(PodRules { anti_affinity: vec![term(topology, self.app)], ..none }),
            Kind::Spread => {
                let spread = Spread {
                    term: term(ZONE, self.app),
                    max_skew: 1,
                    required: true,
                    min_domains: 1,
                    honor_affinity: true,
                    honor_taints: false,
                };
                Some(PodRules { spread: vec![spread], ..none })
            }
            _ => None,
        }
    }

    fn volume(&self, pod: &str) -> Option<PodVolume> {
        let name = match self.kind {
            Kind::Claim(class) => format!("{class}-{pod}"),
            Kind::Shared(at) => format!("local-shared-{at}"),
            _ => return None,
        };
        Some(PodVolume { claim: Key::new("ns", &name), owner: None })
    }

    fn device(&self, pod: &str) -> Option<String> {
        match self.kind {
            Kind::Device(count) => Some(format!("d{count}-{pod}")),
            Kind::SharedDevice(at) => Some(format!("d1-shared-{at}")),
            _ => None,
        }
    }

    fn pod(&self, name: &str, index: u32) -> PodInfo {
        let last = index + 1 == self.min_member + self.more;
        let idle = self.kind == Kind::BestEffort || (self.kind == Kind::Mixed && last);
        let request = if idle { String::new() } else { format!("cpu={}", self.cpu) };
        let pod = member(name, index, &request);
        let volumes = self.volume(&pod.pod.name).into_iter().collect();
        let port = HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port: 80 };
        let host_ports = if self.kind == Kind::Port { vec![port] } else { Vec::new() };
        let constraints = Constraints {
            pod_rules: self.rules().map(Arc::new),
            volumes,
            host_ports,
            ..Constraints::default()
        };
        let named = |claim: String| PodClaim { name: "device".into(), claim: Some(claim.into()) };
        let claims = self.device(&pod.pod.name).map(|claim| Arc::from([named(claim)]));
        PodInfo {
            constraints: Arc::new(constraints),
            claims,
            gated: self.kind == Kind::Gated && index == 0,
            labels: [("app".into(), self.app.into())].into_iter().collect(),
            priority_class: Some(format!("p{}", self.priority).into()),
            preemptable: self.preemptable,
            ..pod
        }
    }
}

fn pvc(name: &str) -> PvcInfo {
    let class = name.split('-').next().unwrap_or_default();
    PvcInfo {
        key: Key::new("ns", name),
        uid: name.into(),
        class: class.into(),
        size: 1,
        modes: AccessModes(1),
        ..PvcInfo::default()
    }
}

fn claim(name: &str) -> ClaimInfo {
    let count = if name.starts_with("d2") { 2 } else { 1 };
    let request = ClaimRequest { name: "r".into(), class: "any".into(), selectors: Vec::new(), count };
    ClaimInfo { key: Key::new("ns", name), uid: name.into(), requests: vec![request], ..ClaimInfo::default() }
}

fn volume(name: &str, nodes: Vec<NodeTerm>) -> VolumeInfo {
    VolumeInfo {
        name: name.into(),
        class: "local".into(),
        size: 1,
        modes: AccessModes(1),
        nodes: Some(nodes),
        available: true,
        driver: Some(DRIVER.into()),
        ..VolumeInfo::default()
    }
}

fn class(name: &str, provisioner: Option<&str>, waits: bool) -> StorageClassInfo {
    let provisioner = provisioner.map(Arc::from);
    StorageClassInfo { name: name.into(), provisioner, waits, topologies: Vec::new() }
}

fn slice(node: usize, count: usize) -> SliceInfo {
    let device = |at| DeviceInfo { name: format!("x{at}").into(), ..DeviceInfo::default() };
    let name: Arc<str> = format!("n{node}").into();
    SliceInfo {
        name: name.clone(),
        driver: "gpu.x".into(),
        pool: name.clone(),
        generation: 1,
        nodes: SliceNodes::Node(name),
        devices: (0..count).map(device).collect(),
    }
}

impl Backlog {
    fn test(&self, conf: &Named) -> TestCluster {
        let mut test = TestCluster::with(conf.conf.clone());
        for (name, value) in [("p0", 0), ("p1", 1)] {
            test.add(Event::PriorityClass { name: name.into(), value, global_default: false });
        }
        test.add(queue("q0", 1)).add(queue("q1", 2));
        test.add(class("local", None, true)).add(class("made", Some(DRIVER), true));
        test.add(class("now", Some(DRIVER), false));
        test.add(DeviceClassInfo { name: "any".into(), selectors: vec!["true".into()] });
        for (at, (cpu, zone)) in self.nodes.iter().enumerate() {
            test.add(sized(at, *cpu, *zone));
        }
        for at in 0..2 {
            test.add(pvc(&format!("local-shared-{at}"))).add(claim(&format!("d1-shared-{at}")));
            test.add(slice(at, at));
        }
        for (at, like) in self.first.iter().enumerate() {
            self.arrive(&mut test, *like, at);
        }
        test
    }

    fn arrive(&self, test: &mut TestCluster, like: usize, at: usize) {
        let like = &self.likes[like % self.likes.len()];
        let name = format!("g{at}");
        test.add(PodGroupInfo {
            queue: format!("q{}", like.queue).into(),
            created: Time((at % 3) as i64),
            priority_class: Some(format!("p{}", like.priority).into()),
            ..group(&name, like.min_member)
        });
        for index in 0..like.min_member + like.more {
            let pod = like.pod(&name, index);
            if !like.unmade {
                make(test, &pod);
            }
            test.add(pod);
        }
    }

    fn happen(&self, test: &mut TestCluster, step: Step, number: usize) {
        let nodes = self.nodes.len() + 1;
        match step {
            Step::Arrive(at) => self.arrive(test, at, 100 + number),
            Step::Finish(at) => {
                change(test, &[Status::Running], at, |pod| pod.life.phase = PodPhase::Succeeded);
            }
            Step::Leave(at) => change(test, &[Status::Running], at, |pod| pod.life.deleting = true),
            Step::Gone(at) => {
                let wanted = [Status::Releasing, Status::Pending, Status::Pipelined];
                if let Some(pod) = named_with(test, &wanted, at) {
                    test.gone(&pod);
                }
            }
            Step::Foreign(at) => drop(test.add(foreign(number, at % nodes))),
            Step::Node(at, cpu, zone) => drop(test.add(sized(at % nodes, cpu, zone))),
            Step::NodeGone(at) => drop(test.add(Event::NodeGone(format!("n{}", at % nodes).into()))),
            Step::Make => {
                for pod in test.pod_names() {
                    let pod = test.pod(&pod);
                    make(test, &pod);
                }
            }
            Step::Bind(at, zone) => bind(test, at, zone),
            Step::Volume(at, node) => {
                let node = format!("n{}", node % nodes);
                test.add(volume(&format!("pv{at}"), on(HOST, &node)));
            }
            Step::VolumeGone(at) => {
                test.add(Event::VolumeGone { name: format!("pv{at}").into(), uid: "".into() });
            }
            Step::Class(waits) => drop(test.add(class("now", Some(DRIVER), waits))),
            Step::Limit(node, limit) => {
                let node = format!("n{}", node % nodes).into();
                test.add(CsiNodeInfo { node, limits: vec![(DRIVER.into(), limit)] });
            }
            Step::Slice(node, count) => drop(test.add(slice(node % nodes, count))),
            Step::ClaimGone(at) => {
                let pods: Vec<PodInfo> = test.pod_names().iter().map(|pod| test.pod(pod)).collect();
                let pods: Vec<&PodInfo> = pods.iter().filter(|pod| pod.life.node.is_none()).collect();
                let Some(pod) = pods.get(at % pods.len().max(1)) else { return };
                for named in &pod.constraints.volumes {
                    test.add(Event::PvcGone { claim: named.claim.clone(), uid: "".into() });
                }
            }
            Step::Relabel(at, app) => change(test, &[Status::Running, Status::Pending], at, |pod| {
                pod.labels = [("app".into(), app.into())].into_iter().collect();
            }),
            Step::Ungate(at) => change(test, &[Status::Pending], at, |pod| pod.gated = !pod.gated),
            Step::Budget(allowed) => {
                let selector = Some(Selector(vec![requirement("app", "a")]));
                test.add(PdbInfo { key: Key::new("ns", "budget"), selector, allowed, ..PdbInfo::default() });
            }
            Step::Regroup(at, queue, min_member, cpu) => regroup(test, at, queue, min_member, cpu),
            Step::Prefer(at, value) => {
                let name = format!("p{}", at % 2).into();
                test.add(Event::PriorityClass { name, value, global_default: false });
            }
        }
    }
}

fn regroup(test: &mut TestCluster, at: usize, queue: usize, min_member: u32, cpu: Option<i64>) {
    let Some(pod) = named_with(test, &[Status::Pending], at) else { return };
    let name = pod.rsplit_once('-').map_or("", |(group, _)| group);
    test.add(PodGroupInfo {
        queue: format!("q{queue}").into(),
        min_resources: cpu.map(|cpu| resources(&format!("cpu={cpu}"))),
        ..group(name, min_member)
    });
}

fn foreign(number: usize, node: usize) -> PodInfo {
    let pod = PodInfo { ours: false, ..pod(&format!("f{number}"), "cpu=1") };
    running(pod, &format!("n{node}"))
}

/// Creates the missing claims of a pod.
fn make(test: &mut TestCluster, pod: &PodInfo) {
    for named in &pod.constraints.volumes {
        test.add(pvc(&named.claim.name));
    }
    for named in pod.claims.iter().flat_map(|claims| claims.iter()) {
        // An existing claim is left as it is: it may be allocated.
        if let Some(name) = named.claim.as_ref().filter(|_| pod.life.node.is_none()) {
            test.add(claim(name));
        }
    }
}

/// The controller binds a claim of a waiting pod.
fn bind(test: &mut TestCluster, at: usize, zone: usize) {
    let pods: Vec<PodInfo> = test.pod_names().iter().map(|pod| test.pod(pod)).collect();
    let waits = pods.iter().filter(|pod| pod.life.node.is_none());
    let claims: Vec<&PodVolume> = waits.flat_map(|pod| &pod.constraints.volumes).collect();
    let Some(named) = claims.get(at % claims.len().max(1)) else { return };
    let name = &named.claim.name;
    if !name.starts_with("now") {
        return;
    }
    let bound = format!("for-{name}");
    let info = volume(&bound, on(ZONE, &format!("z{zone}")));
    test.add(VolumeInfo { class: "now".into(), available: false, ..info });
    test.add(PvcInfo { volume: Some(bound.into()), bound: true, ..pvc(name) });
}

fn change(test: &mut TestCluster, wanted: &[Status], at: usize, how: impl FnOnce(&mut PodInfo)) {
    if let Some(pod) = named_with(test, wanted, at) {
        test.change(&pod, how);
    }
}

fn compare(backlog: &Backlog, conf: &Named) -> TestCaseResult {
    let pair = Pair::new(backlog.test(conf), &conf.conf);
    pair.follow(&backlog.then, |test, step, number| backlog.happen(test, step, number))
}

fn plain(kind: Kind, app: &'static str) -> Like {
    Like {
        kind,
        app,
        min_member: 1,
        more: 0,
        cpu: 1,
        queue: 0,
        priority: 0,
        preemptable: None,
        unmade: false,
    }
}

/// A cluster with the limits of `patient` and pods of these kinds, each a gang of its own.
fn waiting(node: Option<NodeInfo>, likes: &[Like]) -> TestCluster {
    let backlog = Backlog {
        nodes: Vec::new(),
        likes: likes.to_vec(),
        first: (0..likes.len()).collect(),
        then: Vec::new(),
    };
    let mut test = backlog.test(&confs()[0]);
    test.set_retry_limits(patient());
    if let Some(node) = node {
        test.add(node);
    }
    test
}

#[test]
fn a_job_with_pod_affinity_is_tried_when_a_matching_pod_runs() {
    let near = plain(Kind::Near("a"), "b");
    let mut test = waiting(Some(sized(0, 6, 0)), &[near.clone(), near, plain(Kind::Plain, "a")]);
    let mut bound = 0;
    let wake = test.hand_outs(|decisions| bound += decisions.iter().filter(|it| is_bind(it)).count());
    assert_eq!(bound, 1, "the one without affinity");
    assert!(wake.is_some_and(|wake| wake <= test.now()), "{wake:?}");
    assert_eq!(test.cycle().bound.len(), 2);
}

fn is_bind(decision: &Decision) -> bool {
    matches!(decision, Decision::Bind { .. })
}

#[test]
fn jobs_that_differ_in_claim_names_only_are_one_class() {
    for (kind, reason) in [
        (Kind::Claim("made"), "room"),
        (Kind::Claim("local"), "a volume"),
        (Kind::Claim("now"), "their volumes"),
        (Kind::Device(1), "devices"),
        (Kind::BestEffort, "a node"),
        (Kind::Apart(ZONE), "a zone"),
    ] {
        let likes = vec![plain(kind, "a"); 20];
        let mut test = waiting(None, &likes);
        test.set_retry_limits(RetryLimits { all_up_to: 0, per_cycle: 1, ..patient() });
        test.cycle();
        test.cycle();
        let pending = test.pending();
        assert_eq!((pending.backoff, pending.unschedulable), (0, 20), "{kind:?} wait for {reason}");
    }
}

#[test]
fn a_claim_that_is_bound_activates_its_own_job() {
    let mut test = waiting(Some(sized(0, 6, 0)), &vec![plain(Kind::Claim("now"), "a"); 9]);
    test.cycle();
    assert_eq!(test.cycle().names(), Vec::<&str>::new());
    bind(&mut test, 4, 0);
    assert_eq!(test.cycle().names(), ["g4-0"]);
}

/// Counts the cases in which a scheduler with a backlog decides as one that looks at all jobs. A case in which
/// PodGroups share a volume claim may differ: the change of a claim activates one job of its class, and the next job of
/// the class is tried in a later cycle.
fn count(backlog: &Backlog, conf: &Named, rate: &Rate) -> TestCaseResult {
    let shares_a_claim = || backlog.likes.iter().any(|like| matches!(like.kind, Kind::Shared(_)));
    match compare(backlog, conf) {
        Ok(()) => rate.right(),
        Err(_) if shares_a_claim() => rate.wrong(),
        Err(why) => return Err(why),
    }
    Ok(())
}

#[test]
fn a_backlog_of_jobs_with_claims_and_pod_rules_decides_as_trying_all_jobs() {
    let cases_of = (backlog(), prop::sample::select(confs()));
    holds("jobs of all kinds", cases(600), cases_of, |(backlog, conf), rate| count(backlog, conf, rate));
}

#[test]
fn a_backlog_of_jobs_with_claims_and_pod_rules_evicts_as_trying_all_jobs() {
    let cases_of = (backlog(), prop::sample::select(evicting()));
    holds("jobs of all kinds that may evict", cases(600), cases_of, |(backlog, conf), rate| {
        count(backlog, conf, rate)
    });
}
