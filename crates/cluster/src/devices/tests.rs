//! ResourceClaims in a Cluster: stocks after each change and after undo, and devices that are allocated once.
mod hostile;

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::DeviceNeed;
use crate::Fit;
use crate::event::{
    BindFailure, BindFault, ClaimAllocation, ClaimInfo, ClaimRequest, DeviceClassInfo, DeviceInfo,
    DeviceValue, Event, Key, NodeTerm, Operator, PodClaim, PodInfo, Requirement, SliceInfo, SliceNodes,
};
use crate::id::{NodeId, TaskId};
use crate::prepare::{ClaimWrite, Prepare};
use crate::testing::{cluster_of, node, pod, task_of};
use crate::{Before, Cluster, Status};

const DRIVER: &str = "gpu.x";

fn class(name: &str, selectors: &[&str]) -> DeviceClassInfo {
    DeviceClassInfo { name: name.into(), selectors: selectors.iter().map(|text| (*text).into()).collect() }
}

/// Devices `d0`, `d1`, ... of these models.
fn slice(name: &str, nodes: SliceNodes, models: &[&str]) -> SliceInfo {
    let device = |(at, model): (usize, &&str)| DeviceInfo {
        name: format!("d{at}").into(),
        attributes: vec![("model".into(), DeviceValue::Text((*model).into()))],
        ..DeviceInfo::default()
    };
    let devices = models.iter().enumerate().map(device).collect();
    let (name, driver) = (Arc::<str>::from(name), DRIVER.into());
    SliceInfo { pool: name.clone(), name, driver, generation: 1, nodes, devices }
}

fn on(node: &str) -> SliceNodes {
    SliceNodes::Node(node.into())
}

fn of_model(model: &str) -> String {
    format!("device.attributes['{DRIVER}'].model == '{model}'")
}

/// A claim to this many devices of each class.
fn claim(name: &str, requests: &[(&str, u32)]) -> ClaimInfo {
    let request = |(at, (class, count)): (usize, &(&str, u32))| ClaimRequest {
        name: format!("r{at}").into(),
        class: (*class).into(),
        selectors: Vec::new(),
        count: *count,
    };
    let requests = requests.iter().enumerate().map(request).collect();
    ClaimInfo { key: Key::new("ns", name), uid: name.into(), requests, ..ClaimInfo::default() }
}

fn claiming(name: &str, claims: &[&str]) -> PodInfo {
    let one = |claim: &&str| PodClaim { name: (*claim).into(), claim: Some((*claim).into()) };
    PodInfo { claims: Some(claims.iter().map(one).collect()), ..pod(name, "cpu=1") }
}

/// Nodes `a`, with two old devices and a new one, and `b`, with one of each.
fn cluster() -> Cluster {
    let mut cluster = cluster_of([node("a", "cpu=8"), node("b", "cpu=8")]);
    cluster.apply(class("any", &["true"]).into());
    cluster.apply(class("new", &[&of_model("new")]).into());
    cluster.apply(slice("a", on("a"), &["old", "old", "new"]).into());
    cluster.apply(slice("b", on("b"), &["old", "new"]).into());
    cluster
}

/// Whether a node is feasible for the claims of a task.
fn fits(cluster: &Cluster, task: TaskId, node: NodeId, fit: Fit) -> bool {
    let DeviceNeed::Wanted(wanted) = cluster.claims_need(task) else { return false };
    let it = &cluster.nodes[node];
    let here = |terms: &Vec<NodeTerm>| terms.iter().any(|term| crate::matching::node_term_matches(term, it));
    wanted.node.is_none_or(|name| name == it.name)
        && wanted.terms.iter().all(here)
        && wanted.local.check(it, fit).is_ok()
        && wanted.shared.is_none_or(|shared| shared.check(it, fit).is_ok())
}

fn written(cluster: &mut Cluster, task: TaskId) -> Vec<Arc<ClaimWrite>> {
    let steps = cluster.give_devices(task).into_iter();
    let claim = |step| match step {
        Prepare::Claim(write) => Some(write),
        Prepare::Volume(_) => None,
    };
    steps.filter_map(claim).collect()
}

fn bind(cluster: &mut Cluster, name: &str, node: &str) -> Vec<String> {
    let (task, node) = (task_of(cluster, name), cluster.node_named(node).unwrap());
    cluster.place(task, Status::Binding, Some(node));
    let writes = written(cluster, task);
    let given = writes.iter().filter_map(|write| write.allocation.as_ref()).flat_map(|all| &all.devices);
    given.map(|given| given.device.device.to_string()).collect()
}

/// Also of amounts that nobody has.
#[test]
fn no_node_has_more_devices_than_can_be_counted() {
    let mut cluster = cluster();
    cluster.apply(claim("most", &[("any", u32::MAX), ("any", 2)]).into());
    cluster.apply(claiming("most", &["most"]).into());
    cluster.refresh_devices();
    let (task, node) = (task_of(&cluster, "most"), cluster.node_named("a").unwrap());
    assert!(!fits(&cluster, task, node, Fit::Idle));
}

#[test]
fn devices_that_match_fewest_classes_are_allocated_first() {
    let mut cluster = cluster();
    for (name, class) in [("p", "any"), ("q", "new"), ("r", "any"), ("s", "any")] {
        cluster.apply(claim(name, &[(class, 1)]).into());
        cluster.apply(claiming(name, &[name]).into());
    }
    cluster.refresh_devices();
    let fit = |cluster: &Cluster, name: &str, node: &str| {
        fits(cluster, task_of(cluster, name), cluster.node_named(node).unwrap(), Fit::Idle)
    };
    assert_eq!(bind(&mut cluster, "p", "b"), ["d0"], "the old one");
    assert!(fit(&cluster, "q", "b"));
    assert_eq!(bind(&mut cluster, "q", "b"), ["d1"]);
    assert!(!fit(&cluster, "r", "b") && fit(&cluster, "r", "a"));
    assert_eq!(
        (bind(&mut cluster, "r", "a"), bind(&mut cluster, "s", "a")),
        (vec!["d0".into()], vec!["d1".into()])
    );
    cluster
        .apply(Event::BindFailed("r".into(), BindFailure { message: "no".into(), fault: BindFault::Denied }));
    assert!(fit(&cluster, "r", "a"), "what was not given is free");
    assert_eq!(cluster.check(), Vec::<String>::new());
}

#[test]
fn pods_that_share_a_claim_go_to_one_node() {
    let mut cluster = cluster();
    cluster.apply(claim("c", &[("any", 2)]).into());
    for name in ["p", "q"] {
        cluster.apply(claiming(name, &["c"]).into());
    }
    cluster.refresh_devices();
    let (a, b, q) =
        (cluster.node_named("a").unwrap(), cluster.node_named("b").unwrap(), task_of(&cluster, "q"));
    let p = task_of(&cluster, "p");
    cluster.place(p, Status::Allocated, Some(b));
    assert!(!fits(&cluster, q, a, Fit::Idle) && fits(&cluster, q, b, Fit::Idle), "where the other is");
    assert_eq!(bind(&mut cluster, "p", "b").len(), 2);
    assert!(!fits(&cluster, q, a, Fit::Idle) && fits(&cluster, q, b, Fit::Idle), "where its devices are");
    let writes = {
        cluster.place(q, Status::Binding, Some(b));
        written(&mut cluster, q)
    };
    assert_eq!((writes.len(), &*writes[0].pod.uid), (1, "q"));
    assert!(writes[0].allocation.is_some(), "the other's write may fail");
    let seen = ClaimInfo {
        allocation: writes[0].allocation.as_deref().cloned(),
        reserved: vec!["p".into(), "q".into()],
        ..claim("c", &[("any", 2)])
    };
    cluster.apply(seen.into());
    assert_eq!(written(&mut cluster, q), vec![], "nothing is written twice");
    assert_eq!(cluster.check(), Vec::<String>::new());
}

#[test]
fn a_device_that_nodes_share_is_allocated_once() {
    let mut cluster = cluster_of([node("a", "cpu=8"), node("b", "cpu=8"), node("c", "cpu=8")]);
    cluster.apply(class("any", &["true"]).into());
    let names = vec!["a".into(), "b".into()];
    let either = Requirement { key: "kubernetes.io/hostname".into(), operator: Operator::In, values: names };
    let terms = vec![NodeTerm { labels: vec![either], fields: vec![] }];
    cluster.apply(slice("rack", SliceNodes::Matching(terms.clone()), &["x"]).into());
    for name in ["p", "q"] {
        cluster.apply(claim(name, &[("any", 1)]).into());
        cluster.apply(claiming(name, &[name]).into());
    }
    cluster.refresh_devices();
    let fit = |cluster: &Cluster, name: &str| {
        ["a", "b", "c"]
            .map(|node| fits(cluster, task_of(cluster, name), cluster.node_named(node).unwrap(), Fit::Idle))
    };
    assert_eq!(fit(&cluster, "q"), [true, true, false]);
    let scope = cluster.claims_scope(task_of(&cluster, "q"));
    let p = task_of(&cluster, "p");
    cluster.place(p, Status::Allocated, cluster.node_named("a"));
    assert_eq!(fit(&cluster, "q"), [false; 3]);
    assert_ne!(cluster.claims_scope(task_of(&cluster, "q")), scope, "nodes have to be judged anew");
    let node = cluster.node_named("a");
    cluster.place(p, Status::Binding, node);
    let writes = written(&mut cluster, p);
    assert_eq!(writes[0].allocation.as_ref().and_then(|all| all.nodes.clone()), Some(terms));
    assert_eq!(cluster.check(), Vec::<String>::new());
}

#[test]
fn a_claim_that_cannot_be_allocated_is_refused_with_a_reason() {
    let mut cluster = cluster();
    cluster.apply(class("odd", &["device.nothing.split('x')"]).into());
    cluster.apply(class("missing", &["device.attributes['gpu.x'].size > 3"]).into());
    let cases: [(ClaimInfo, &str); 5] = [
        (
            ClaimInfo { unsupported: Some("adminAccess".into()), ..claim("c", &[]) },
            "ResourceClaim ns/c: adminAccess is not supported",
        ),
        (ClaimInfo { deleting: true, ..claim("c", &[]) }, "ResourceClaim ns/c: it is being deleted"),
        (claim("c", &[("none", 1)]), "ResourceClaim ns/c: request r0: device class none does not exist"),
        (claim("c", &[("odd", 1)]), "column 26: function split is not supported"),
        (
            claim("c", &[("missing", 1)]),
            "request r0: a CEL expression does not go with device d0: no such key: size",
        ),
    ];
    cluster.apply(claiming("p", &["c"]).into());
    let told = |cluster: &Cluster| match cluster.claims_need(task_of(cluster, "p")) {
        DeviceNeed::Blocked(why) => why.to_string(),
        other => format!("{other:?}"),
    };
    assert_eq!(told(&cluster), "ResourceClaim ns/c: not found");
    for (info, expected) in cases {
        cluster.apply(info.into());
        cluster.refresh_devices();
        assert!(told(&cluster).contains(expected), "{}", told(&cluster));
    }
    cluster.apply(Event::ClaimGone(Key::new("ns", "c")));
    assert_eq!(told(&cluster), "ResourceClaim ns/c: not found");
    let open = PodClaim { name: "gpu".into(), claim: None };
    cluster.apply(PodInfo { claims: Some([open].into()), ..pod("p", "cpu=1") }.into());
    assert_eq!(told(&cluster), "the ResourceClaim for gpu is not created yet");
}

#[derive(Clone, Debug)]
enum Step {
    Place(usize, bool, usize),
    Leave(usize),
    Bind(usize),
    Undo,
    Seen(usize),
    Freed(usize),
    Gone(usize),
    NewSlice(usize),
    /// The pool of `b` gets a new generation, or its former slice again.
    Generation(usize),
    /// Another slice of the pool of `b`, on this node, names the same devices.
    Twin(&'static str),
    SliceGone(usize),
    /// A third node, which has a slice, is added or deleted.
    Node(bool),
    NodesSlice(usize),
}

const PODS: usize = 5;

fn step() -> impl Strategy<Value = Step> {
    let pod = 0..PODS;
    prop_oneof![
        6 => (pod.clone(), prop::bool::weighted(0.3), 0usize..3).prop_map(|(pod, later, node)| Step::Place(pod, later, node)),
        2 => pod.clone().prop_map(Step::Leave),
        2 => pod.clone().prop_map(Step::Bind),
        3 => Just(Step::Undo),
        1 => pod.clone().prop_map(Step::Seen),
        1 => pod.clone().prop_map(Step::Freed),
        1 => pod.prop_map(Step::Gone),
        1 => (0usize..3).prop_map(Step::NewSlice),
        1 => (0usize..4).prop_map(Step::Generation),
        1 => prop::sample::select(&["a", "b"][..]).prop_map(Step::Twin),
        1 => (0usize..5).prop_map(Step::SliceGone),
        2 => any::<bool>().prop_map(Step::Node),
        1 => (0usize..4).prop_map(Step::NodesSlice),
    ]
}

/// A cluster with open changes.
struct Play {
    cluster: Cluster,
    log: Vec<(TaskId, Before, Cluster)>,
}

/// Two pods share a claim, one has two.
fn claims_of(pod: usize) -> &'static [&'static str] {
    [&["c0"][..], &["c1"], &["c2"], &["c2"], &["c3", "c1"]][pod]
}

impl Play {
    fn new() -> Self {
        let mut cluster = cluster();
        let asked: [&[(&str, u32)]; 4] =
            [&[("any", 1)], &[("new", 1)], &[("any", 2)], &[("any", 1), ("new", 1)]];
        for (at, requests) in asked.iter().enumerate() {
            cluster.apply(claim(&format!("c{at}"), requests).into());
        }
        for pod in 0..PODS {
            cluster.apply(claiming(&format!("p{pod}"), claims_of(pod)).into());
        }
        cluster.refresh_devices();
        Self { cluster, log: Vec::new() }
    }

    fn task(&self, pod: usize) -> Option<TaskId> {
        self.cluster.task_of(&format!("p{pod}"))
    }

    fn change(&mut self, task: TaskId, status: Status, node: Option<NodeId>) {
        let before = self.cluster.clone();
        self.log.push((task, self.cluster.place(task, status, node), before));
    }

    /// Events come when no statement is open.
    fn apply(&mut self, event: Event) {
        self.log.clear();
        for task in self.cluster.tasks.ids().collect::<Vec<_>>() {
            if self.cluster.tasks[task].status == Status::Allocated {
                self.cluster.place(task, Status::Pending, None);
            }
        }
        self.cluster.apply(event);
    }

    fn step(&mut self, step: &Step) -> TestCaseResult {
        // Several events may come between two cycles.
        if matches!(step, Step::Place(..) | Step::Leave(_) | Step::Bind(_)) {
            self.cluster.refresh_devices();
        }
        match step {
            Step::Place(pod, later, node) => {
                let Some(task) =
                    self.task(*pod).filter(|task| self.cluster.tasks[*task].status == Status::Pending)
                else {
                    return Ok(());
                };
                let node = self.cluster.node_named(["a", "b", "c"][*node]);
                let Some(node) = node.filter(|node| self.cluster.nodes[*node].exists) else { return Ok(()) };
                let status = if *later { Status::Pipelined } else { Status::Allocated };
                if fits(&self.cluster, task, node, if *later { Fit::FutureIdle } else { Fit::Idle }) {
                    self.change(task, status, Some(node));
                }
            }
            Step::Leave(pod) => {
                let Some(task) = self.task(*pod) else { return Ok(()) };
                let it = &self.cluster.tasks[task];
                match it.status {
                    Status::Binding => self.change(task, Status::Releasing, it.node),
                    Status::Allocated | Status::Pipelined => self.change(task, Status::Pending, None),
                    _ => {}
                }
            }
            Step::Bind(pod) => return self.bind(*pod),
            Step::Undo => {
                if let Some((task, before, cluster)) = self.log.pop() {
                    self.cluster.restore(task, &before);
                    prop_assert!(self.cluster.contents() == cluster.contents(), "undone");
                }
            }
            Step::Seen(at) | Step::Freed(at) => self.tell(at % 4, matches!(step, Step::Seen(_))),
            Step::Gone(pod) => self.apply(Event::PodGone(format!("p{pod}").into())),
            Step::NewSlice(devices) => {
                let models = ["new", "old", "old"];
                let more = slice("b2", on("b"), &models[..*devices]);
                self.apply(more.into());
            }
            Step::Generation(devices) => {
                let more = slice("b3", on("b"), &["new", "old", "new"][..*devices]);
                self.apply(SliceInfo { pool: "b".into(), generation: 2, ..more }.into());
            }
            Step::Twin(node) => {
                let more = slice("b4", on(node), &["new", "old", "old"]);
                self.apply(SliceInfo { pool: "b".into(), ..more }.into());
            }
            Step::SliceGone(at) => self.apply(Event::SliceGone(["b", "b2", "b3", "b4", "c"][*at].into())),
            Step::Node(true) => self.apply(node("c", "cpu=8").into()),
            Step::Node(false) => self.apply(Event::NodeGone("c".into())),
            Step::NodesSlice(devices) => {
                self.apply(slice("c", on("c"), &["new", "old", "new"][..*devices]).into());
            }
        }
        Ok(())
    }

    fn bind(&mut self, pod: usize) -> TestCaseResult {
        let Some(task) = self.task(pod) else { return Ok(()) };
        if self.cluster.tasks[task].status == Status::Allocated {
            self.log.clear();
            let node = self.cluster.tasks[task].node;
            self.cluster.place(task, Status::Binding, node);
            self.cluster.give_devices(task);
            for id in &self.cluster.tasks[task].claims.clone().unwrap().ids {
                prop_assert!(self.cluster.devices.claims[*id].allocation.is_some(), "devices for p{}", pod);
            }
        }
        Ok(())
    }

    /// The claim's object with an allocation or without one.
    fn tell(&mut self, at: usize, seen: bool) {
        let name = format!("c{at}");
        let claims = self.cluster.devices.claims.iter();
        let Some((_, claim)) = claims.into_iter().find(|(_, claim)| *claim.info.key.name == *name) else {
            return;
        };
        let allocation: Option<ClaimAllocation> = claim.allocation.as_deref().cloned().filter(|_| seen);
        if seen || (claim.used == 0 && !claim.assumed) {
            self.apply(ClaimInfo { allocation, ..claim.info.clone() }.into());
        }
    }

    /// No device is allocated twice.
    fn check(&self) -> TestCaseResult {
        prop_assert_eq!(self.cluster.check(), Vec::<String>::new());
        let mut seen = BTreeSet::new();
        for (_, claim) in self.cluster.devices.claims.iter() {
            for given in claim.allocation.iter().flat_map(|all| &all.devices) {
                prop_assert!(seen.insert(given.device.clone()), "{:?} was given twice", given);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn stocks_equal_a_recount_and_no_device_is_allocated_twice(steps in prop::collection::vec(step(), 1..40)) {
        let mut play = Play::new();
        for step in &steps {
            play.step(step)?;
            play.check()?;
        }
    }
}
