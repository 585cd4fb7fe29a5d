//! A long search for victims that failed is not repeated in each cycle.
use phalanx_cluster::event::{Event, PodInfo, Time};
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_core::Scheduler;
use phalanx_core::decision::Decision;

use phalanx_framework::testing::{node, pod, queue, running};
use phalanx_testkit::helm;

const NODES: usize = 400;
const PODS: usize = 20 * NODES;

/// Nodes full of pods that may not be evicted, and a waiting pod of higher priority.
struct Full {
    cluster: Cluster,
    scheduler: Scheduler,
}

fn held(at: usize, preemptable: bool) -> Event {
    let pod = PodInfo { preemptable: Some(preemptable), ..pod(&format!("p-{at}"), "cpu=1") };
    running(pod, &format!("n{}", at % NODES)).into()
}

impl Full {
    fn new() -> Self {
        let mut conf = helm();
        conf.actions.push("preempt".to_owned());
        let (mut cluster, scheduler) = (Cluster::new(ClusterOptions::default()), Scheduler::new(conf, 0));
        cluster.apply(queue("default", 1).into());
        (0..NODES).for_each(|at| _ = cluster.apply(node(&format!("n{at}"), "cpu=20").into()));
        (0..PODS).for_each(|at| _ = cluster.apply(held(at, false)));
        cluster.apply(PodInfo { priority: Some(10), ..pod("urgent", "cpu=1") }.into());
        Self { cluster, scheduler }
    }

    /// The evicted pods of a cycle, and when the next cycle is due.
    fn cycle(&mut self, now: i64) -> (Vec<String>, Option<Time>) {
        let outcome = self.scheduler.run(&mut self.cluster, Time(now));
        let evicted = outcome.decisions.iter().filter_map(|decision| match decision {
            Decision::Evict { pod, .. } => Some(pod.name.to_string()),
            _ => None,
        });
        (evicted.collect(), outcome.wake)
    }
}

#[test]
fn a_failed_search_is_repeated_after_a_while() {
    let mut full = Full::new();
    assert_eq!(full.cycle(0).0, [""; 0]);
    full.cluster.apply(held(7, true));
    let (evicted, wake) = full.cycle(1);
    assert_eq!(evicted, [""; 0]);
    let again = wake.expect("a cycle is due when the answer does not stand any more");
    assert!(again.0 > 1 && again.0 < 10_000, "{again:?}");
    assert_eq!(full.cycle(again.0).0, ["p-7"]);
}

#[test]
fn a_search_that_fails_again_is_repeated_later_still() {
    let mut full = Full::new();
    let mut rests = Vec::new();
    let mut now = 0;
    for _ in 0..6 {
        full.cycle(now);
        full.cluster.apply(pod(&format!("other-{now}"), "cpu=1").into());
        let again = full.cycle(now + 1).1.expect("a cycle is due when the answer does not stand any more");
        rests.push(again.0 - now);
        now = again.0;
    }
    assert!(rests.is_sorted() && rests[1] > rests[0] && rests[5] == 10_000, "{rests:?}");
}

#[test]
fn a_node_event_without_a_change_does_not_repeat_a_failed_search() {
    let mut full = Full::new();
    full.cycle(0);
    full.cluster.apply(held(7, true));
    full.cluster.apply(node("n0", "cpu=20").into());
    assert_eq!(full.cycle(1).0, [""; 0]);
}

/// Queues with one waiting pod each, for which a pod may be evicted after the first cycle.
const QUEUES: usize = 20;

#[test]
fn searches_of_many_queues_are_spread_over_cycles() {
    let of = |queue: usize, name: &str| {
        let queue = Some(format!("q{queue:02}").into());
        PodInfo { queue, ..pod(name, "cpu=1") }
    };
    let runs = |at: usize, preemptable: bool| {
        let pod = PodInfo { preemptable: Some(preemptable), ..of(at % QUEUES, &format!("p-{at}")) };
        Event::from(running(pod, &format!("n{}", at / 20)))
    };
    let mut conf = helm();
    conf.actions.push("preempt".to_owned());
    let (mut cluster, scheduler) = (Cluster::new(ClusterOptions::default()), Scheduler::new(conf, 0));
    (0..NODES).for_each(|at| _ = cluster.apply(node(&format!("n{at}"), "cpu=20").into()));
    (0..QUEUES).for_each(|at| _ = cluster.apply(queue(&format!("q{at:02}"), 1).into()));
    (0..PODS).for_each(|at| _ = cluster.apply(runs(at, false)));
    for at in 0..QUEUES {
        cluster.apply(PodInfo { priority: Some(10), ..of(at, &format!("urgent-{at}")) }.into());
    }
    let mut full = Full { cluster, scheduler };
    assert_eq!(full.cycle(0).0, [""; 0]);
    (0..QUEUES).for_each(|at| _ = full.cluster.apply(runs(at, true)));
    let mut evicted = Vec::new();
    let (mut cycles, mut now) = (0, 1);
    while evicted.len() < QUEUES {
        let (some, wake) = full.cycle(now);
        assert!(!some.is_empty(), "no queue had a turn at {now}");
        evicted.extend(some);
        cycles += 1;
        if evicted.len() < QUEUES {
            let again = wake.expect("a cycle is due for the other queues").0;
            assert!(again > now && again <= now + 1000, "{again}");
            now = again;
        }
    }
    assert!((2..10).contains(&cycles), "{cycles}");
    evicted.sort();
    let mut all: Vec<String> = (0..QUEUES).map(|at| format!("p-{at}")).collect();
    all.sort();
    assert_eq!(evicted, all);
}

#[test]
fn a_job_with_other_requests_has_a_search_of_its_own() {
    let mut full = Full::new();
    full.cycle(0);
    full.cluster.apply(held(7, true));
    full.cluster.apply(PodInfo { priority: Some(11), ..pod("other", "cpu=1") }.into());
    assert_eq!(full.cycle(1).0, ["p-7"]);
}

#[test]
fn a_change_of_queue_node_or_configuration_repeats_a_failed_search() {
    let queues = |full: &mut Full| _ = full.cluster.apply(queue("new", 1).into());
    let nodes = |full: &mut Full| _ = full.cluster.apply(node("small", "cpu=0").into());
    let conf = |full: &mut Full| full.scheduler.set_conf(full.scheduler.conf().clone());
    let changes: [&dyn Fn(&mut Full); 3] = [&queues, &nodes, &conf];
    for change in changes {
        let mut full = Full::new();
        full.cycle(0);
        full.cluster.apply(held(7, true));
        change(&mut full);
        assert_eq!(full.cycle(1).0, ["p-7"]);
    }
}
