//! Long searches for victims that come to nothing are not made again in each cycle.
use phalanx_core::Scheduler;
use phalanx_core::decision::Decision;
use phalanx_core::event::{Event, PodInfo, Time};
use phalanx_core::world::{World, WorldOptions};

use crate::cluster::helm;
use crate::objects::{node, pod, queue, running};

const NODES: usize = 400;
const PODS: usize = 20 * NODES;

/// Nodes full of pods that may not be evicted, and a more important one that waits.
struct Full {
    world: World,
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
        let (mut world, scheduler) = (World::new(WorldOptions::default()), Scheduler::new(conf, 0));
        world.apply(queue("default", 1).into());
        (0..NODES).for_each(|at| _ = world.apply(node(&format!("n{at}"), "cpu=20").into()));
        (0..PODS).for_each(|at| _ = world.apply(held(at, false)));
        world.apply(PodInfo { priority: Some(10), ..pod("urgent", "cpu=1") }.into());
        Self { world, scheduler }
    }

    /// Who is evicted in a cycle, and when the next one is due.
    fn cycle(&mut self, now: i64) -> (Vec<String>, Option<Time>) {
        let outcome = self.scheduler.run(&mut self.world, Time(now));
        let evicted = outcome.decisions.iter().filter_map(|decision| match decision {
            Decision::Evict { pod, .. } => Some(pod.name.to_string()),
            _ => None,
        });
        (evicted.collect(), outcome.wake)
    }
}

#[test]
fn the_answer_stands_for_a_while_and_then_it_is_asked_for_again() {
    let mut full = Full::new();
    assert_eq!(full.cycle(0).0, [""; 0]);
    full.world.apply(held(7, true));
    let (evicted, wake) = full.cycle(1);
    assert_eq!(evicted, [""; 0]);
    let again = wake.expect("a cycle is due when the answer does not stand any more");
    assert!(again.0 > 1 && again.0 < 10_000, "{again:?}");
    assert_eq!(full.cycle(again.0).0, ["p-7"]);
}

#[test]
fn who_asks_for_something_else_has_an_answer_of_its_own() {
    let mut full = Full::new();
    full.cycle(0);
    full.world.apply(held(7, true));
    full.world.apply(PodInfo { priority: Some(11), ..pod("other", "cpu=1") }.into());
    assert_eq!(full.cycle(1).0, ["p-7"]);
}

#[test]
fn a_change_of_queues_or_nodes_or_of_the_configuration_ends_that() {
    let queues = |full: &mut Full| _ = full.world.apply(queue("new", 1).into());
    let nodes = |full: &mut Full| _ = full.world.apply(node("small", "cpu=0").into());
    let conf = |full: &mut Full| full.scheduler.set_conf(full.scheduler.conf().clone());
    let changes: [&dyn Fn(&mut Full); 3] = [&queues, &nodes, &conf];
    for change in changes {
        let mut full = Full::new();
        full.cycle(0);
        full.world.apply(held(7, true));
        change(&mut full);
        assert_eq!(full.cycle(1).0, ["p-7"]);
    }
}
