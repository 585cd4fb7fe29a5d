//! What a cycle tells of its stages and searches, and the figures of queues.
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use phalanx_cluster::event::{PodGroupInfo, PodInfo, QueueInfo, Time};
use phalanx_core::report::figures::Figures;
use phalanx_core::{Activation, RetryLimits};
use phalanx_framework::testing::{group, member, node, queue, resources, running};
use phalanx_framework::trace::{Stage, Trace};
use phalanx_resource::DimId;
use phalanx_testkit::{TestCluster, one_tier};

/// Keeps the stages that it is told of, and the plugins that answered.
#[derive(Debug, Default)]
struct Stages {
    ended: Mutex<Vec<Stage>>,
    answered: Mutex<BTreeSet<&'static str>>,
    follows_questions: bool,
}

impl Trace for Stages {
    fn ended(&self, stage: Stage) {
        self.ended.lock().expect("a test fails in one place").push(stage);
    }

    fn follows_questions(&self) -> bool {
        self.follows_questions
    }

    fn answered(&self, plugin: &'static str) {
        self.answered.lock().expect("a test fails in one place").insert(plugin);
    }
}

#[test]
fn each_action_and_plugin_is_told_once_in_a_cycle_and_in_order() {
    let mut test = TestCluster::with(one_tier(&["enqueue", "allocate"], &["gang", "drf"]));
    let stages = Arc::<Stages>::default();
    test.set_trace(stages.clone());
    test.cycle();
    let expected = [
        Stage::Begun,
        Stage::PluginOpened("gang"),
        Stage::PluginOpened("drf"),
        Stage::SessionOpened,
        Stage::Action("enqueue"),
        Stage::Action("allocate"),
        Stage::Statuses,
        Stage::PluginClosed("gang"),
        Stage::PluginClosed("drf"),
    ];
    assert_eq!(*stages.ended.lock().unwrap(), expected);
    assert!(stages.answered.lock().unwrap().is_empty());
}

#[test]
fn plugins_that_answer_are_told_where_that_is_asked_for_and_answer_alike() {
    let decided = |follows_questions| {
        let stages = Arc::new(Stages { follows_questions, ..Stages::default() });
        let mut test = TestCluster::with(one_tier(&["enqueue", "allocate"], &["gang", "drf", "predicates"]));
        test.set_trace(stages.clone());
        test.nodes(2, "cpu=4").gang(group("a", 2), 2, "cpu=3");
        test.gang(group("b", 2), 2, "cpu=3");
        let decisions = test.cycle().decisions;
        (decisions, stages.answered.lock().unwrap().clone())
    };
    let (followed, plain) = (decided(true), decided(false));
    assert_eq!(followed.0, plain.0);
    assert_eq!((followed.1, plain.1), (BTreeSet::from(["drf", "gang", "predicates"]), BTreeSet::new()));
}

fn of_queue(queue: &QueueInfo, name: &str, min: u32, created: Time) -> PodGroupInfo {
    PodGroupInfo { queue: queue.name.clone(), created, ..group(name, min) }
}

/// What waits in a queue: jobs, pods, and since when.
fn waiting(figures: &Figures, queue: &str) -> (u32, u32, Option<Time>) {
    let queue = figures.queues.iter().find(|known| &*known.name == queue).expect("a queue of this name");
    (queue.waiting.jobs, queue.waiting.pods, queue.waiting.since)
}

#[test]
fn figures_count_jobs_that_wait_by_queue_and_tell_the_oldest() {
    let mut test =
        TestCluster::with(one_tier(&["enqueue", "allocate"], &["gang", "predicates", "proportion"]));
    let (a, b) = (queue("a", 1), queue("b", 1));
    test.nodes(1, "cpu=4").add(a.clone()).add(b.clone());
    test.gang(of_queue(&a, "runs", 2, Time(1)), 3, "cpu=1");
    test.gang(of_queue(&a, "young", 4, Time(9)), 4, "cpu=2");
    test.gang(of_queue(&a, "old", 4, Time(5)), 4, "cpu=2");
    test.cycle();
    let figures = test.figures(10);
    assert_eq!(waiting(&figures, "a"), (2, 8, Some(Time(5))));
    assert_eq!(waiting(&figures, "b"), (0, 0, None));
    assert_eq!((figures.unready_jobs, figures.started_groups, figures.left_out), (2, 1, 0));
    let a = figures.queues.iter().find(|queue| &*queue.name == "a").unwrap();
    assert_eq!((a.allocated.get(DimId::CPU), a.request.get(DimId::CPU)), (3_000, 19_000));
    let attributes = a.attributes.as_ref().expect("proportion computes them");
    assert_eq!((attributes.deserved.get(DimId::CPU), attributes.share), (4_000, 0.75));
}

#[test]
fn a_job_waits_since_the_pods_were_made_that_take_the_place_of_evicted_ones() {
    let mut test = TestCluster::with(one_tier(&["enqueue", "allocate"], &["gang", "predicates"]));
    let a = queue("a", 1);
    test.nodes(1, "cpu=1").add(a.clone()).add(of_queue(&a, "g", 2, Time(5)));
    for index in 0..2 {
        test.add(PodInfo { created: Time(70 + i64::from(index)), ..member("g", index, "cpu=1") });
    }
    test.cycle();
    assert_eq!(waiting(&test.figures(10), "a"), (1, 2, Some(Time(70))));
}

#[test]
fn admitted_jobs_count_with_what_they_lack_of_their_min_resources() {
    let mut test = TestCluster::with(one_tier(&["enqueue", "allocate"], &["gang", "predicates"]));
    let a = queue("a", 1);
    test.nodes(1, "cpu=1").add(a.clone());
    let min_resources = Some(resources("cpu=6"));
    test.add(PodGroupInfo { min_resources, ..of_queue(&a, "admitted", 3, Time(0)) });
    test.cycle();
    let figures = test.figures(10);
    let a = figures.queues.iter().find(|queue| &*queue.name == "a").unwrap();
    assert_eq!(a.waiting.inqueue.get(DimId::CPU), 6_000);
}

#[test]
fn of_many_queues_those_with_jobs_have_figures() {
    let mut test = TestCluster::new();
    for number in 0..20 {
        test.add(queue(&format!("idle-{number:02}"), 1));
    }
    let used = queue("used", 1);
    test.nodes(1, "cpu=1").add(used.clone()).gang(of_queue(&used, "train", 1, Time(0)), 1, "cpu=1");
    test.cycle();
    let all = test.figures(100).queues.len();
    let figures = test.figures(2);
    let names: Vec<_> = figures.queues.iter().map(|queue| &*queue.name).collect();
    assert_eq!((names[0], names.len(), figures.left_out), ("used", 2, all - 2));
}

#[test]
fn searches_for_victims_are_counted_by_action() {
    let mut test = TestCluster::with(one_tier(&["allocate", "preempt"], &["priority", "gang", "predicates"]));
    test.add(queue("default", 1)).add(node("n", "cpu=1")).add(group("old", 1));
    test.add(running(member("old", 0, "cpu=1"), "n"));
    test.gang(group("young", 1), 1, "cpu=1");
    let searches = test.outcome().victim_searches;
    assert_eq!(searches, [("preempt", 1)].into());
}

#[test]
fn a_job_becomes_active_when_it_is_new_and_when_its_queue_changes() {
    let mut test = TestCluster::new();
    test.set_retry_limits(RetryLimits { all_up_to: 0, ..RetryLimits::default() });
    let queue = queue("q", 1);
    test.nodes(1, "cpu=1").add(queue.clone()).gang(of_queue(&queue, "large", 1, Time(0)), 1, "cpu=4");
    test.cycle();
    test.pending();
    let activations = test.take_activations();
    assert!(activations.contains_key(&Activation::Changed), "{activations:?}");
    test.add(QueueInfo { weight: 2, ..queue });
    test.cycle();
    let activations = test.take_activations();
    assert!(activations.contains_key(&Activation::Queue), "{activations:?}");
}
