//! A scheduler with a backlog decides as one that tries all jobs in each cycle.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::event::{
    Dequeue, Event, NodeInfo, PodGroupInfo, PodInfo, PodPhase, QueueInfo, QueueState, Time,
};
use phalanx_cluster::{Cluster, Status};
use phalanx_core::report::GroupReport;
use phalanx_core::{RetryLimits, Scheduler};
use phalanx_framework::conf::Conf;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use phalanx_framework::testing::{group, member, node, queue, resources};
use phalanx_testkit::random::{Script, script};
use phalanx_testkit::settings::{Named, confs, setting};
use phalanx_testkit::{Cycle, TestCluster, cases, helm};

/// Limits with which each refused job becomes unschedulable if it can, and only events activate it.
pub(crate) fn patient() -> RetryLimits {
    RetryLimits {
        all_up_to: 0,
        per_cycle: usize::MAX,
        evicting_per_cycle: usize::MAX,
        flush_ms: i64::MAX,
        flushed_per_cycle: 0,
        ..RetryLimits::default()
    }
}

/// The decisions of a cycle without messages: bindings, evictions, and phases of PodGroups.
#[derive(Debug, PartialEq)]
struct Decided {
    bound: BTreeMap<String, String>,
    nominated: BTreeMap<String, Option<String>>,
    evicted: Vec<String>,
    phases: BTreeMap<String, String>,
}

impl Decided {
    fn of(cluster: &Cluster, cycle: &Cycle) -> Self {
        let phase = |job: &phalanx_cluster::Job| (job.key.to_string(), format!("{:?}", job.phase));
        Self {
            bound: cycle.bound.clone(),
            nominated: cycle.nominated.clone(),
            evicted: cycle.evicted.clone(),
            phases: cluster.jobs.iter().map(|(_, job)| phase(job)).collect(),
        }
    }
}

/// How many cycles in a row may free reserved room for which other jobs are activated in the next cycle.
const CYCLES: usize = 12;

/// A cluster with a backlog, and a scheduler that tries all jobs in each cycle.
pub(crate) struct Pair {
    patient: TestCluster,
    thorough: Scheduler,
    /// The nominations of pods.
    held: BTreeMap<String, String>,
}

impl Pair {
    pub(crate) fn new(mut patient_one: TestCluster, conf: &Conf) -> Self {
        patient_one.set_retry_limits(patient());
        let mut thorough = Scheduler::new(conf.clone(), 7);
        thorough.set_retry_limits(RetryLimits::unlimited());
        Self { patient: patient_one, thorough, held: BTreeMap::new() }
    }

    /// Runs cycles with the given changes between them.
    pub(crate) fn follow<S: Copy>(
        mut self,
        then: &[Vec<S>],
        happen: impl Fn(&mut TestCluster, S, usize),
    ) -> TestCaseResult {
        let mut number = 0;
        for steps in then {
            let bound = self.cycle()?;
            self.happens(|test| bound.iter().for_each(|(pod, node)| test.start(pod, node)));
            for step in steps {
                number += 1;
                self.happens(|test| happen(test, *step, number));
            }
        }
        self.flush()
    }

    /// Runs one cycle, which has to decide as the other scheduler would; returns the bound pods. An exception are
    /// cycles that free reserved room or bind a pod that others have affinity to: jobs that were refused earlier in the
    /// cycle are activated for the next cycle, which is due at once, and in the end both schedulers have bound the same
    /// pods.
    pub(crate) fn cycle(&mut self) -> Result<BTreeMap<String, String>, TestCaseError> {
        let mut bound = BTreeMap::new();
        for _ in 0..CYCLES {
            let all = self.patient.seen_by(&mut self.thorough);
            let outcome = self.patient.outcome();
            let (cycle, theirs) = (Cycle::of(outcome.decisions), Decided::of(&all.0, &all.1));
            let ours = Decided::of(&self.patient.cluster, &cycle);
            let given_back = self.gives_back(&all.1);
            self.keep(&cycle);
            bound.extend(cycle.bound);
            if !given_back {
                prop_assert_eq!(&ours, &theirs);
            }
            if ours == theirs {
                return Ok(bound);
            }
            let due = outcome.wake.is_some_and(|wake| wake <= self.patient.now());
            prop_assert!(due, "{:?} is not {:?}, and no cycle is due: {:?}", ours, theirs, outcome.wake);
        }
        Err(TestCaseError::fail("somebody is left behind"))
    }

    fn gives_back(&self, all: &Cycle) -> bool {
        let moved = |(pod, node): (&String, Option<&String>)| {
            self.held.get(pod).is_some_and(|held| Some(held) != node)
        };
        let taken_back = all.nominated.values().any(Option::is_none);
        taken_back
            || all.nominated.iter().any(|(pod, node)| moved((pod, node.as_ref())))
            || all.bound.iter().any(|(pod, node)| moved((pod, Some(node))))
            || !all.evicted.is_empty()
            || (!all.bound.is_empty() || !all.nominated.is_empty()) && seeks_company(&self.patient)
    }

    fn keep(&mut self, cycle: &Cycle) {
        for (pod, node) in &cycle.nominated {
            match node {
                Some(node) => self.held.insert(pod.clone(), node.clone()),
                None => self.held.remove(pod),
            };
        }
        for pod in cycle.bound.keys() {
            self.held.remove(pod);
        }
    }

    pub(crate) fn happens(&mut self, what: impl FnOnce(&mut TestCluster)) {
        what(&mut self.patient);
    }

    /// After a flush, when all jobs are tried, reasons are equal too.
    pub(crate) fn flush(&mut self) -> TestCaseResult {
        self.patient.forget();
        let (cluster, all) = self.patient.seen_by(&mut self.thorough);
        let cycle = self.patient.cycle();
        prop_assert_eq!(Decided::of(&self.patient.cluster, &cycle), Decided::of(&cluster, &all));
        let reasons = |groups: Vec<GroupReport>| -> BTreeMap<String, Vec<String>> {
            groups.into_iter().map(|group| (group.key.to_string(), group.reasons)).collect()
        };
        prop_assert_eq!(reasons(self.patient.groups()), reasons(self.thorough.report(&cluster).groups));
        Ok(())
    }
}

/// Whether any waiting pod has affinity or a topology spread constraint.
fn seeks_company(test: &TestCluster) -> bool {
    let seeks = |name: &String| {
        let rules = test.pod(name).constraints.pod_rules.clone();
        rules.is_some_and(|rules| !rules.affinity.is_empty() || !rules.spread.is_empty())
    };
    test.pod_names().iter().any(seeks)
}

/// A pod with one of these statuses.
pub(crate) fn named_with(test: &TestCluster, wanted: &[Status], at: usize) -> Option<String> {
    let tasks = test.cluster.tasks.iter().filter(|(_, task)| wanted.contains(&task.status));
    let mut names: Vec<String> = tasks.map(|(_, task)| task.pod.name.to_string()).collect();
    names.sort();
    (!names.is_empty()).then(|| names[at % names.len()].clone())
}

fn compare(script: &Script, test: TestCluster, conf: &Conf) -> TestCaseResult {
    let mut pair = Pair::new(test, conf);
    for (happenings, fails) in &script.future {
        let bound = pair.cycle()?;
        pair.happens(|test| script.go_on(test, &bound, happenings, *fails));
    }
    pair.flush()
}

/// The kinds of gangs in a backlog.
#[derive(Clone, Debug)]
struct Like {
    min_member: u32,
    pods: u32,
    request: &'static str,
    queue: usize,
    min_resources: Option<i64>,
    priority: i32,
}

/// A change between two cycles; numbers pick objects.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive(usize),
    Finish(usize),
    Leave(usize),
    Gone(usize),
    Resize(usize, i64),
    Remove(usize),
    Taint(usize),
    /// A queue is closed or changed, or gets its former state again.
    Queue(usize, usize),
    QueueGone(usize),
    Prefer(usize, i32),
    /// One of the two configurations is in force from now on.
    Conf(usize),
}

#[derive(Clone, Debug)]
struct Backlog {
    queues: Vec<QueueInfo>,
    nodes: Vec<i64>,
    likes: Vec<Like>,
    first: Vec<usize>,
    then: Vec<Vec<Step>>,
}

const QUEUES: [usize; 3] = [0, 1, 2];

fn like() -> impl Strategy<Value = Like> {
    let request = prop::sample::select(vec!["cpu=1", "cpu=2", "cpu=1 memory=1Gi", "cpu=5", "memory=2Gi"]);
    let spec = (1u32..4, 0u32..5, request, 0usize..3, prop::option::weighted(0.4, 1i64..8), 0i32..2);
    spec.prop_map(|(min_member, more, request, queue, min_resources, priority)| Like {
        min_member,
        pods: min_member + more.saturating_sub(1),
        request,
        queue,
        min_resources,
        priority,
    })
}

/// The second and the third queue may have a parent.
fn one_queue(
    at: usize,
    (weight, capability, fifo, parent): (u32, Option<i64>, bool, Option<usize>),
) -> QueueInfo {
    let parent = parent.filter(|parent| *parent < at);
    QueueInfo {
        parent: parent.map(|parent| format!("q{parent}")).unwrap_or_default().into(),
        capability: capability.map(|cpu| resources(&format!("cpu={cpu}"))).unwrap_or_default(),
        dequeue: if fifo { Dequeue::Fifo } else { Dequeue::Traverse },
        ..queue(&format!("q{at}"), weight)
    }
}

fn step() -> impl Strategy<Value = Step> {
    let at = || 0usize..50;
    prop_oneof![
        4 => at().prop_map(Step::Arrive),
        4 => at().prop_map(Step::Finish),
        2 => at().prop_map(Step::Leave),
        2 => at().prop_map(Step::Gone),
        2 => (at(), 0i64..9).prop_map(|(at, cpu)| Step::Resize(at, cpu)),
        1 => at().prop_map(Step::Remove),
        1 => at().prop_map(Step::Taint),
        2 => (at(), 0usize..5).prop_map(|(at, how)| Step::Queue(at, how)),
        1 => at().prop_map(Step::QueueGone),
        1 => (at(), 0i32..3).prop_map(|(at, value)| Step::Prefer(at, value)),
        1 => at().prop_map(Step::Conf),
    ]
}

fn backlog() -> impl Strategy<Value = Backlog> {
    let parent = prop::option::weighted(0.4, 0usize..2);
    let queue = (1u32..4, prop::option::weighted(0.4, 1i64..9), prop::bool::weighted(0.3), parent);
    let queues = prop::collection::vec(queue, 3)
        .prop_map(|list| list.into_iter().enumerate().map(|(at, spec)| one_queue(at, spec)).collect());
    let first = prop::collection::vec(0usize..4, 0..16);
    let then = prop::collection::vec(prop::collection::vec(step(), 0..5), 1..8);
    (queues, prop::collection::vec(0i64..7, 0..4), prop::collection::vec(like(), 4), first, then)
        .prop_map(|(queues, nodes, likes, first, then)| Backlog { queues, nodes, likes, first, then })
}

/// Small nodes whose pods terminate one after the other, and gangs of two priorities that reserve the freed room.
fn leaving() -> impl Strategy<Value = Backlog> {
    let spec = (1u32..4, prop::sample::select(vec!["cpu=1", "cpu=2"]), 0i32..2);
    let like = spec.prop_map(|(min_member, request, priority)| Like {
        min_member,
        pods: min_member,
        request,
        queue: 0,
        min_resources: None,
        priority,
    });
    let at = || 0usize..50;
    let step = prop_oneof![
        6 => at().prop_map(Step::Leave),
        2 => at().prop_map(Step::Gone),
        3 => at().prop_map(Step::Arrive),
        1 => (at(), 0i32..3).prop_map(|(at, value)| Step::Prefer(at, value)),
    ];
    let first = prop::collection::vec(0usize..4, 2..8);
    let then = prop::collection::vec(prop::collection::vec(step, 0..3), 3..9);
    (prop::collection::vec(2i64..4, 1..4), prop::collection::vec(like, 4), first, then).prop_map(
        |(nodes, likes, first, then)| Backlog { queues: vec![queue("q0", 1)], nodes, likes, first, then },
    )
}

fn sized(at: usize, cpu: i64) -> NodeInfo {
    node(&format!("n{at}"), &format!("cpu={cpu} memory=8Gi pods=6"))
}

impl Backlog {
    fn test(&self, conf: &Named) -> TestCluster {
        let mut test = TestCluster::with(conf.conf.clone());
        for (name, value) in [("p0", 0), ("p1", 1)] {
            test.add(Event::PriorityClass { name: name.into(), value, global_default: false });
        }
        for queue in &self.queues {
            test.add(queue.clone());
        }
        for (at, cpu) in self.nodes.iter().enumerate() {
            test.add(sized(at, *cpu));
        }
        for (at, like) in self.first.iter().enumerate() {
            self.arrive(&mut test, *like, at);
        }
        test
    }

    fn arrive(&self, test: &mut TestCluster, like: usize, at: usize) {
        let like = &self.likes[like % self.likes.len()];
        let name = format!("g{at}");
        let class: Arc<str> = format!("p{}", like.priority).into();
        let spec = PodGroupInfo {
            queue: format!("q{}", QUEUES[like.queue]).into(),
            min_resources: like.min_resources.map(|cpu| resources(&format!("cpu={cpu}"))),
            created: Time((at % 3) as i64),
            priority_class: Some(class.clone()),
            ..group(&name, like.min_member)
        };
        test.add(spec);
        for index in 0..like.pods {
            let pod = member(&name, index, like.request);
            test.add(PodInfo { priority_class: Some(class.clone()), ..pod });
        }
    }

    fn happen(&self, test: &mut TestCluster, step: Step, number: usize, confs: [&Named; 2]) {
        let with = named_with;
        let nodes = self.nodes.len() + 1;
        match step {
            Step::Arrive(at) => self.arrive(test, at, 100 + number),
            Step::Finish(at) => {
                if let Some(pod) = with(test, &[Status::Running], at) {
                    test.change(&pod, |pod| pod.life.phase = PodPhase::Succeeded);
                }
            }
            Step::Leave(at) => {
                if let Some(pod) = with(test, &[Status::Running], at) {
                    test.change(&pod, |pod| pod.life.deleting = true);
                }
            }
            Step::Gone(at) => {
                if let Some(pod) = with(test, &[Status::Releasing, Status::Pending, Status::Pipelined], at) {
                    test.gone(&pod);
                }
            }
            Step::Resize(at, cpu) => drop(test.add(sized(at % nodes, cpu))),
            Step::Remove(at) => drop(test.add(Event::NodeGone(format!("n{}", at % nodes).into()))),
            Step::Taint(at) => drop(test.add(NodeInfo { unschedulable: true, ..sized(at % nodes, 6) })),
            Step::Queue(at, how) => drop(test.add(self.changed(at, how))),
            Step::QueueGone(at) => {
                test.add(Event::QueueGone { name: format!("q{}", at % 3).into(), uid: "".into() });
            }
            Step::Prefer(at, value) => {
                let name = format!("p{}", at % 2).into();
                test.add(Event::PriorityClass { name, value, global_default: false });
            }
            Step::Conf(at) => test.set_conf(confs[at % 2].conf.clone()),
        }
    }

    fn changed(&self, at: usize, how: usize) -> QueueInfo {
        let queue = self.queues[at % self.queues.len()].clone();
        match how {
            0 => QueueInfo { state: QueueState::Closed, ..queue },
            1 => QueueInfo { dequeue: Dequeue::Fifo, ..queue },
            2 => QueueInfo { capability: resources("cpu=3"), ..queue },
            _ => queue,
        }
    }
}

fn compare_backlog(backlog: &Backlog, confs: [&Named; 2]) -> TestCaseResult {
    let pair = Pair::new(backlog.test(confs[0]), &confs[0].conf);
    pair.follow(&backlog.then, |test, step, number| backlog.happen(test, step, number, confs))
}

/// A full node, and gangs with different requests; only the last gang fits the room that becomes free.
fn unlike_gangs(count: u32) -> TestCluster {
    let mut test = TestCluster::new();
    test.set_retry_limits(RetryLimits { all_up_to: 0, per_cycle: 3, ..RetryLimits::default() });
    test.nodes(2, "cpu=8 memory=100Gi pods=100").gang(group("runs", 1), 16, "cpu=1");
    test.run();
    for at in 0..count {
        let last = at + 1 == count;
        let info = PodGroupInfo { created: Time(i64::from(at)), ..group(&format!("g{at}"), 2) };
        test.gang(info, 2, &format!("cpu={} memory={}Mi", if last { 1 } else { 2 }, at + 1));
    }
    test
}

#[test]
fn jobs_that_are_tried_without_success_take_turns() {
    let mut test = unlike_gangs(20);
    test.cycle();
    let pending = test.pending();
    assert_eq!((pending.active, pending.backoff, pending.unschedulable), (0, 0, 20));
    let of_runs: Vec<String> = (0..4).map(|at| format!("runs-{at}")).collect();
    for pod in of_runs {
        test.change(&pod, |pod| pod.life.phase = PodPhase::Succeeded);
    }
    // Three jobs are tried first, then three of the others.
    let cycles = (0..20).position(|_| !test.cycle().bound.is_empty());
    assert!(cycles.is_some_and(|cycles| cycles <= 20 / 3), "after {cycles:?} cycles");
}

#[test]
fn a_job_that_any_event_may_help_is_retried_after_a_back_off() {
    // The backlog does not know which nodes the measured usage allows.
    let conf = confs().into_iter().find(|conf| conf.name == "usage").expect("one with the plugin usage");
    let mut test = TestCluster::with(conf.conf);
    test.set_retry_limits(RetryLimits { all_up_to: 0, per_cycle: 3, ..RetryLimits::default() });
    for at in 0..8 {
        test.add(PodInfo { group: None, created: Time(at), ..member(&format!("s{at}"), 0, "") });
    }
    test.cycle();
    assert_eq!(test.pending().backoff, 5);
    assert_eq!(test.pending().unschedulable, 3);
    test.nodes(1, "cpu=1 pods=100");
    assert_eq!(test.cycle().bound.len(), 8, "a second later");
}

#[test]
fn an_unschedulable_job_is_tried_at_the_flush() {
    let mut test = TestCluster::new();
    test.set_retry_limits(RetryLimits { all_up_to: 0, flush_ms: 3000, ..RetryLimits::default() });
    test.nodes(1, "cpu=4 pods=10").gang(group("large", 1), 1, "cpu=9");
    test.run();
    let before = test.reasons("large");
    test.add(node("n1", "cpu=1 pods=10"));
    test.run();
    assert_eq!(test.reasons("large"), before, "no room that would do");
    test.run();
    test.run();
    assert_ne!(test.reasons("large"), before, "3 s later");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(600)))]

    #[test]
    fn a_backlog_decides_as_a_scheduler_that_tries_all_jobs(script in script()) {
        compare(&script, script.test(), &helm())?;
    }

    #[test]
    fn a_backlog_decides_as_a_scheduler_that_tries_all_jobs_under_any_configuration(setting in setting()) {
        compare(&setting.script, setting.test(), &setting.conf.conf)?;
    }

    #[test]
    fn a_backlog_decides_as_a_scheduler_that_tries_all_jobs_over_many_cycles(
        backlog in backlog(),
        conf in prop::sample::select(confs()),
        other in prop::sample::select(confs()),
    ) {
        compare_backlog(&backlog, [&conf, &other])?;
    }

    #[test]
    fn reservations_of_lower_priority_do_not_change_decisions_on_unschedulable_jobs(
        backlog in leaving(),
        conf in prop::sample::select(confs()),
    ) {
        compare_backlog(&backlog, [&conf, &conf])?;
    }
}
