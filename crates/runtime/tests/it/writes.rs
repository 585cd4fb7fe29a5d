//! The number of writes of scheduler and outbox together, in virtual time.
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use phalanx_cluster::event::Time;
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_conf::Known;
use phalanx_core::Scheduler;
use phalanx_runtime::outbox::reply::Reply;
use phalanx_runtime::outbox::{Outbox, OutboxOptions, Work, Write};
use phalanx_runtime::recorder::{Note, Posting};
use phalanx_runtime::reload::{ConfFile, Rules};

use phalanx_framework::testing::{group, member, node, queue};

/// How long a request takes, and how often cycles run.
const TICK: Duration = Duration::from_millis(5);

/// A cluster to which objects come one by one.
struct Live {
    cluster: Cluster,
    scheduler: Scheduler,
    outbox: Outbox,
    start: Instant,
    now: Instant,
    /// Requests in their order.
    sent: Vec<Work>,
}

impl Live {
    fn new(nodes: usize) -> Self {
        let conf = ConfFile::open(None, Rules { known: Known::builtin(), strict: false }).unwrap();
        let mut cluster = Cluster::new(ClusterOptions::default());
        cluster.apply(queue("default", 1).into());
        for at in 0..nodes {
            cluster.apply(node(&format!("n{at}"), "cpu=64").into());
        }
        let (scheduler, now) = (Scheduler::new(conf.conf().clone(), 1), Instant::now());
        let outbox = Outbox::new(OutboxOptions::default());
        Self { cluster, scheduler, outbox, start: now, now, sent: Vec::new() }
    }

    /// Time passes: a cycle, and answers to what was sent.
    fn tick(&mut self) {
        self.now += TICK;
        let time = Time((self.now - self.start).as_millis() as i64);
        let outcome = self.scheduler.run(&mut self.cluster, time);
        self.outbox.decide(outcome.decisions, self.now);
        while let Some(job) = self.outbox.next(self.now) {
            self.sent.push(job.work.clone());
            for event in self.outbox.done(job, Reply::Done, self.now) {
                self.cluster.apply(event);
            }
        }
    }

    fn ticks(&mut self, time: Duration) {
        (0..time.as_millis() / TICK.as_millis()).for_each(|_| self.tick());
    }

    fn notes(&self) -> Vec<&Note> {
        let note = |work| match work {
            &Work::Post(Posting::Create(_, ref note)) => Some(&**note),
            _ => None,
        };
        self.sent.iter().filter_map(note).collect()
    }
}

fn kind(work: &Work) -> &'static str {
    match work {
        Work::Bind(_) => "bind",
        Work::Write(Write::PodGroup(..)) => "podgroup",
        Work::Write(Write::Queue(..)) => "queue",
        Work::Write(Write::Pod(..)) => "pod",
        Work::Post(_) => "event",
        Work::Settle(_) | Work::Evict(..) | Work::OpenGate(_) | Work::Pvc(_) => "other",
    }
}

/// The floor of the benchmarks: one write a pod, two a gang, all else has time.
#[test]
fn until_the_last_bind_each_pod_has_one_write_and_each_gang_two() {
    let (gangs, pods) = (60, 100);
    let mut live = Live::new(100);
    for gang in 0..gangs {
        let name = format!("g{gang}");
        live.cluster.apply(group(&name, pods).into());
        for index in 0..pods {
            live.cluster.apply(member(&name, index, "cpu=1").into());
            // Some 400 a second.
            if index % 2 == 1 {
                live.tick();
            }
        }
    }
    live.ticks(Duration::from_secs(30));
    let last = live.sent.iter().rposition(|work| matches!(work, Work::Bind(_))).unwrap();
    let mut writes: BTreeMap<&str, u32> = BTreeMap::new();
    for work in &live.sent[..=last] {
        *writes.entry(kind(work)).or_default() += 1;
    }
    assert_eq!(writes["bind"], gangs * pods);
    let all: u32 = writes.values().sum();
    assert!(all <= gangs * pods + 2 * gangs, "{writes:?}");
    let scheduled = live.notes().iter().filter(|note| note.reason == "Scheduled").count();
    assert_eq!(scheduled, (gangs * pods) as usize, "events follow");
    assert!(live.notes().iter().all(|note| !note.warning), "nothing was wrong with any of them");
}

#[test]
fn a_gang_that_goes_on_lacking_pods_gets_an_event() {
    let mut live = Live::new(10);
    for name in ["slow", "stuck"] {
        live.cluster.apply(group(name, 4).into());
        live.cluster.apply(member(name, 0, "cpu=1").into());
    }
    for index in 1..4 {
        live.ticks(Duration::from_secs(3));
        live.cluster.apply(member("slow", index, "cpu=1").into());
    }
    live.ticks(Duration::from_secs(5));
    let unschedulable: Vec<&str> = live
        .notes()
        .into_iter()
        .filter(|note| note.reason == "Unschedulable")
        .map(|note| &*note.regarding.key.name)
        .collect();
    assert_eq!(unschedulable, ["stuck"]);
}

/// A gang that lacks room, not pods, gets its event at once.
#[test]
fn a_gang_without_room_gets_an_event_at_once() {
    let mut live = Live::new(1);
    live.cluster.apply(group("large", 2).into());
    for index in 0..2 {
        live.cluster.apply(member("large", index, "cpu=60").into());
    }
    live.ticks(Duration::from_secs(2));
    assert!(live.notes().iter().any(|note| note.reason == "Unschedulable"));
}
