//! A cluster that runs cycles, with Volcano's Helm-default configuration.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::event::{Event, GroupStatus, Key, Phase, PodGroupInfo, PodInfo, Time};
use phalanx_cluster::search_budget::Stopwatch;
use phalanx_cluster::{Cluster, ClusterOptions, GroupWait};
use phalanx_core::decision::Decision;
use phalanx_core::report::figures::Figures;
use phalanx_core::report::{GroupReport, Snapshot};
use phalanx_core::{Activation, Outcome, Pending, RetryLimits, Scheduler};
use phalanx_framework::conf::{Conf, Flag, PluginConf, Tier};
use phalanx_framework::extender::Extender;
use phalanx_framework::trace::Trace;

use phalanx_framework::testing::{member, node, queue, running};

/// Actions and tiers of Volcano's Helm chart.
pub fn helm() -> Conf {
    let plugin = |name: &&str| {
        let mut plugin = PluginConf { name: (*name).into(), ..PluginConf::default() };
        if ["gang", "drf"].contains(name) {
            plugin.flags.set(Flag::Preemptable, false);
        }
        plugin
    };
    let tier = |names: &[&str]| Tier { plugins: names.iter().map(plugin).collect() };
    Conf {
        actions: ["enqueue", "allocate", "backfill"].map(Into::into).into(),
        tiers: vec![
            tier(&["priority", "gang", "conformance"]),
            tier(&["overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"]),
        ],
        ..Conf::default()
    }
}

/// A configuration with all plugins in one tier.
pub fn one_tier(actions: &[&str], plugins: &[&str]) -> Conf {
    let plugin = |name: &&str| PluginConf { name: (*name).into(), ..PluginConf::default() };
    Conf {
        actions: actions.iter().map(|action| (*action).into()).collect(),
        tiers: vec![Tier { plugins: plugins.iter().map(plugin).collect() }],
        ..Conf::default()
    }
}

/// Sets a flag of a plugin.
pub fn set_flag(conf: &mut Conf, plugin: &str, flag: Flag, on: bool) {
    let plugins = conf.tiers.iter_mut().flat_map(|tier| &mut tier.plugins);
    plugins.filter(|known| known.name == plugin).for_each(|known| known.flags.set(flag, on));
}

/// The number of cases of a property: `usually`, unless the variable `PROPTEST_CASES` says otherwise. A failed test
/// shows the printed line, which runs the same cases again.
pub fn cases(usually: u32) -> u32 {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let cases = variable("PROPTEST_CASES").parse().unwrap_or(usually);
    let (seed, package) = (variable("PROPTEST_RNG_SEED"), variable("CARGO_PKG_NAME"));
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    println!("same cases: PROPTEST_RNG_SEED={seed} PROPTEST_CASES={cases} cargo test -p {package} {test}");
    cases
}

/// What a cycle decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Cycle {
    /// Pods and the nodes they are bound to.
    pub bound: BTreeMap<String, String>,
    /// Pods and the nodes they are nominated for; `None` where a nomination ended.
    pub nominated: BTreeMap<String, Option<String>>,
    /// Pods that are evicted, in the order of the decisions.
    pub evicted: Vec<String>,
    /// Pods per Bind decision.
    pub units: Vec<usize>,
    /// All decisions, in order.
    pub decisions: Vec<Decision>,
}

impl Cycle {
    /// Sorts the decisions of a cycle by what they do.
    pub fn of(decisions: Vec<Decision>) -> Self {
        let mut cycle = Self {
            bound: BTreeMap::new(),
            nominated: BTreeMap::new(),
            evicted: Vec::new(),
            units: Vec::new(),
            decisions: Vec::new(),
        };
        for decision in &decisions {
            match decision {
                Decision::Bind { pods, .. } => {
                    cycle.units.push(pods.len());
                    for binding in pods {
                        cycle.bound.insert(binding.pod.name.to_string(), binding.node.to_string());
                    }
                }
                Decision::Evict { pod, .. } => cycle.evicted.push(pod.name.to_string()),
                Decision::Nominate { pod, node } => {
                    cycle.nominated.insert(pod.name.to_string(), node.as_ref().map(ToString::to_string));
                }
                _ => {}
            }
        }
        Self { decisions, ..cycle }
    }

    /// The names of the bound pods.
    pub fn names(&self) -> Vec<&str> {
        self.bound.keys().map(String::as_str).collect()
    }

    /// How many of a group's pods are bound.
    pub fn bound_of(&self, group: &str) -> usize {
        let prefix = format!("{group}-");
        self.bound.keys().filter(|name| name.starts_with(&prefix)).count()
    }

    /// The last status decided for a group.
    pub fn status(&self, group: &str) -> Option<&GroupStatus> {
        self.decisions.iter().rev().find_map(|decision| match decision {
            Decision::PodGroupStatus { group: key, status, .. } if &*key.name == group => Some(status),
            _ => None,
        })
    }
}

/// A Cluster, its scheduler, and the pods as an API server would hold them.
pub struct TestCluster {
    /// The Cluster.
    pub cluster: Cluster,
    scheduler: Scheduler,
    pods: BTreeMap<String, PodInfo>,
    /// The time of the last cycle.
    pub now: Time,
}

impl Default for TestCluster {
    fn default() -> Self {
        Self::new()
    }
}

impl TestCluster {
    /// With the queue `default` and nothing else.
    pub fn new() -> Self {
        Self::with(helm())
    }

    /// The same with another configuration.
    pub fn with(conf: Conf) -> Self {
        Self::of(conf, ClusterOptions::default())
    }

    /// The same with pods that wait for a PodGroup controller.
    pub fn awaiting(group_wait: GroupWait) -> Self {
        Self::of(helm(), ClusterOptions { group_wait, ..ClusterOptions::default() })
    }

    fn of(conf: Conf, options: ClusterOptions) -> Self {
        let scheduler = Scheduler::new(conf, 7);
        let mut test =
            Self { cluster: Cluster::new(options), scheduler, pods: BTreeMap::new(), now: Time(0) };
        test.add(queue("default", 1));
        test
    }

    /// Applies an event.
    pub fn add(&mut self, event: impl Into<Event>) -> &mut Self {
        let event = event.into();
        if let Event::Pod(pod) = &event {
            self.pods.insert(pod.pod.name.to_string(), (**pod).clone());
        }
        self.cluster.apply(event);
        self
    }

    /// Nodes `n0`, `n1`, ...
    pub fn nodes(&mut self, count: usize, allocatable: &str) -> &mut Self {
        for at in 0..count {
            self.add(node(&format!("n{at}"), allocatable));
        }
        self
    }

    /// A PodGroup with equal pods `group-0`, `group-1`, ...
    pub fn gang(&mut self, group: PodGroupInfo, pods: u32, requests: &str) -> &mut Self {
        let name = group.key.name.to_string();
        self.add(group);
        for index in 0..pods {
            self.add(member(&name, index, requests));
        }
        self
    }

    /// What reports are made of, after a cycle.
    pub fn snapshot(&self) -> Snapshot {
        self.scheduler.snapshot(&self.cluster)
    }

    /// Runs one cycle and checks all sums; returns its decisions by kind.
    pub fn cycle(&mut self) -> Cycle {
        Cycle::of(self.decisions())
    }

    /// Runs one cycle and checks all sums; returns its decisions.
    pub fn decisions(&mut self) -> Vec<Decision> {
        self.outcome().decisions
    }

    /// Runs one cycle and checks all sums; returns its outcome.
    pub fn outcome(&mut self) -> Outcome {
        self.now.0 += 1000;
        let outcome = self.scheduler.run(&mut self.cluster, self.now);
        assert_eq!(self.scheduler.check(&self.cluster), Vec::<String>::new());
        outcome
    }

    /// Runs one cycle with a list of decisions for each action that decided something; returns when the next cycle is
    /// due.
    pub fn hand_outs(&mut self, mut each: impl FnMut(&[Decision])) -> Option<Time> {
        self.now.0 += 1000;
        let outcome =
            self.scheduler.run_handing_out(&mut self.cluster, self.now, &mut |decisions| each(&decisions));
        each(&outcome.decisions);
        assert_eq!(self.scheduler.check(&self.cluster), Vec::<String>::new());
        outcome.wake
    }

    /// The decisions and the outcome of the next cycle by a new scheduler with the same configuration, which tries all
    /// jobs.
    pub fn seen_by(&self, other: &mut Scheduler) -> (Cluster, Cycle) {
        let mut cluster = self.cluster.clone();
        other.set_conf(self.scheduler.conf().clone());
        let outcome = other.run(&mut cluster, Time(self.now.0 + 1000));
        assert_eq!(other.check(&cluster), Vec::<String>::new());
        (cluster, Cycle::of(outcome.decisions))
    }

    /// The number of waiting jobs by pool.
    pub fn pending(&mut self) -> Pending {
        self.scheduler.pending(&mut self.cluster)
    }

    /// The time of the last cycle.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Sets the stopwatch of searches.
    pub fn set_stopwatch(&mut self, stopwatch: Arc<dyn Stopwatch>) {
        self.scheduler.set_stopwatch(stopwatch);
    }

    /// Sets what is told of the stages of cycles.
    pub fn set_trace(&mut self, trace: Arc<dyn Trace>) {
        self.scheduler.set_trace(trace);
    }

    /// How many jobs became active since the last call.
    pub fn take_activations(&mut self) -> BTreeMap<Activation, u64> {
        self.scheduler.take_activations()
    }

    /// The figures of up to so many queues.
    pub fn figures(&self, queues_max: usize) -> Figures {
        self.scheduler.figures(&self.cluster, queues_max)
    }

    /// Sets the sender of extender requests.
    pub fn set_extender(&mut self, extender: Arc<dyn Extender>) {
        self.scheduler.set_extender(extender);
    }

    /// Sets the limits by which waiting jobs are tried again.
    pub fn set_retry_limits(&mut self, limits: RetryLimits) {
        self.scheduler.set_retry_limits(limits);
    }

    /// The next cycle relies on no result of earlier cycles.
    pub fn forget(&mut self) {
        let conf = self.scheduler.conf().clone();
        self.scheduler.set_conf(conf);
    }

    /// Sets another configuration.
    pub fn set_conf(&mut self, conf: Conf) {
        self.scheduler.set_conf(conf);
    }

    /// Runs a cycle, and then all pods that it bound.
    pub fn run(&mut self) -> Cycle {
        let cycle = self.cycle();
        for (pod, node) in &cycle.bound {
            self.start(pod, node);
        }
        cycle
    }

    /// Starts the pod on the node.
    pub fn start(&mut self, pod: &str, node: &str) {
        let pod = self.pods[pod].clone();
        self.add(Event::Bound(pod.pod.uid.clone()));
        self.add(running(pod, node));
    }

    /// Changes the pod as it was last seen.
    pub fn change(&mut self, pod: &str, change: impl FnOnce(&mut PodInfo)) -> &mut Self {
        let mut pod = self.pods[pod].clone();
        change(&mut pod);
        self.add(pod)
    }

    /// The pod as it was last seen.
    pub fn pod(&self, name: &str) -> PodInfo {
        self.pods[name].clone()
    }

    /// The names of all pods.
    pub fn pod_names(&self) -> Vec<String> {
        self.pods.keys().cloned().collect()
    }

    /// Deletes the pod.
    pub fn gone(&mut self, pod: &str) -> &mut Self {
        let pod = self.pods.remove(pod).expect("a pod of this name");
        self.add(Event::PodGone(pod.pod.uid.clone()))
    }

    /// PodGroups and pods without one, in words.
    pub fn groups(&self) -> Vec<GroupReport> {
        self.scheduler.report(&self.cluster).groups
    }

    fn report(&self, name: &str) -> GroupReport {
        let key = Key::new("ns", name);
        self.groups().into_iter().find(|group| group.key == key).expect("a group or pod of this name")
    }

    /// The reasons of a waiting PodGroup, or of a pod without one.
    pub fn reasons(&self, name: &str) -> Vec<String> {
        self.report(name).reasons
    }

    /// The phase of a PodGroup.
    pub fn phase(&self, name: &str) -> Phase {
        self.report(name).phase
    }

    /// The deserved amount of a queue for a resource.
    pub fn deserved(&self, queue: &str, resource: &str) -> Option<String> {
        let queues = self.scheduler.report(&self.cluster).queues;
        let queue = queues.into_iter().find(|row| &*row.name == queue).expect("a queue of this name");
        queue.deserved.into_iter().find(|(name, _)| &**name == resource).map(|(_, amount)| amount)
    }
}
