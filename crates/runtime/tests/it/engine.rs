//! The scheduling thread with searches for victims that run out of time.
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use phalanx_cluster::event::{Event, PodGroupInfo, Time};
use phalanx_cluster::search_budget::Stopwatch;
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_core::Scheduler;
use phalanx_core::decision::Decision;
use phalanx_framework::conf::{Conf, PluginConf, Tier};
use phalanx_runtime::api::Notes;
use phalanx_runtime::clock::CycleClock;
use phalanx_runtime::engine::{Engine, Input, Pace, SnapshotRequests};
use phalanx_runtime::journal::Journal;
use phalanx_runtime::outbox::driver;
use phalanx_runtime::pulse::Pulse;
use phalanx_runtime::server::Health;
use phalanx_runtime::telemetry::Telemetry;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing_subscriber::fmt::MakeWriter;

use phalanx_framework::testing::{group, member, node, queue, running};

/// The output of the thread, which is its stopwatch too. With `flies` the time is over as soon as a bind is out:
/// a search that begins after the bind ends with its first reading.
#[derive(Debug)]
struct Outlook {
    outbox: Mutex<UnboundedReceiver<driver::Input>>,
    out: Mutex<Vec<Decision>>,
    flies: AtomicBool,
    looks: AtomicU32,
}

impl Outlook {
    fn out(&self) -> Vec<Decision> {
        let (mut out, mut outbox) = (self.out.lock().unwrap(), self.outbox.lock().unwrap());
        while let Ok(input) = outbox.try_recv() {
            if let driver::Input::Decisions(decisions) = input {
                out.extend(decisions);
            }
        }
        out.clone()
    }

    fn wait(&self, what: &str, is_there: impl Fn(&Decision) -> bool) {
        let until = Instant::now() + Duration::from_secs(20);
        while !self.out().iter().any(&is_there) {
            assert!(Instant::now() < until, "no {what} in {:?}", self.out());
            std::thread::yield_now();
        }
    }

    /// The preemptors and reasons of evictions.
    fn reasons(&self) -> BTreeSet<String> {
        let reason = |decision: &Decision| match decision {
            Decision::Evict { cause, .. } => Some(cause.reason.to_string()),
            _ => None,
        };
        self.out().iter().filter_map(reason).collect()
    }
}

impl Stopwatch for Outlook {
    fn elapsed(&self) -> Duration {
        let bound = |decision: &Decision| matches!(decision, Decision::Bind { .. });
        let flies = self.flies.load(Ordering::Relaxed) && self.out().iter().any(bound);
        let looks = self.looks.fetch_add(u32::from(flies), Ordering::Relaxed);
        Duration::from_mins(1) * looks
    }
}

fn conf() -> Conf {
    let plugin = |name: &&str| PluginConf { name: (*name).into(), ..PluginConf::default() };
    let plugins = ["priority", "gang", "predicates", "nodeorder"].iter().map(plugin).collect();
    let actions = ["allocate", "preempt"].map(Into::into).into();
    Conf { actions, tiers: vec![Tier { plugins }], ..Conf::default() }
}

/// An engine that leads and waits for no list.
fn engine(scheduler: Scheduler, inputs: Receiver<Input>, outbox: UnboundedSender<driver::Input>) -> Engine {
    Engine {
        cluster: Cluster::new(ClusterOptions::default()),
        scheduler,
        pace: Pace::new(Duration::from_millis(1), Duration::from_secs(1)),
        waits_for: BTreeSet::new(),
        inputs,
        outbox,
        telemetry: Telemetry::default(),
        health: Arc::default(),
        leads: true,
        clock: CycleClock::default(),
        journal: Journal::default(),
        notes: Notes::default(),
        asked: SnapshotRequests::default(),
    }
}

/// A full node that two gangs need, and a gang with room on another node.
fn events() -> Vec<Event> {
    let class = Event::PriorityClass { name: "high".into(), value: 10, global_default: false };
    let mut events: Vec<Event> = vec![queue("default", 1).into(), class];
    events.extend([node("full", "cpu=4"), node("small", "cpu=1")].map(Event::from));
    events.push(group("old", 0).into());
    events.extend((0..4).map(|index| Event::from(running(member("old", index, "cpu=1"), "full"))));
    for (at, (name, cpu)) in [("first", 4), ("second", 3), ("fits", 1)].into_iter().enumerate() {
        let priority_class = (cpu > 1).then(|| "high".into());
        let info = PodGroupInfo { priority_class, created: Time(at as i64), ..group(name, 1) };
        events.extend([info.into(), member(name, 0, &format!("cpu={cpu}")).into()]);
    }
    events
}

#[test]
fn after_a_search_ran_out_of_time_binds_leave_and_jobs_not_tried_come_first() {
    let (inputs, receive) = channel();
    let (send, outbox) = unbounded_channel();
    let outlook = Arc::new(Outlook {
        outbox: Mutex::new(outbox),
        out: Mutex::default(),
        flies: AtomicBool::new(true),
        looks: AtomicU32::new(0),
    });
    let mut scheduler = Scheduler::new(conf(), 7);
    scheduler.set_stopwatch(outlook.clone());
    let engine = engine(scheduler, receive, send);
    let thread = std::thread::spawn(move || engine.run());
    inputs.send(Input::Events(events())).unwrap();
    let told = |decision: &Decision| {
        matches!(decision, Decision::PodGroupUnschedulable { group, message, .. }
            if &*group.name == "second" && message.contains("(maxTime)"))
    };
    outlook.wait("word of the search that ended", told);
    assert_eq!(outlook.reasons(), BTreeSet::new(), "the bind was out before anybody looked for victims");
    outlook.flies.store(false, Ordering::Relaxed);
    inputs.send(Input::Events(vec![node("more", "cpu=1").into()])).unwrap();
    outlook.wait("eviction", |decision| matches!(decision, Decision::Evict { .. }));
    let expected = "preempted by ns/second (priority 10) in queue default";
    assert_eq!(outlook.reasons(), BTreeSet::from([expected.to_owned()]));
    inputs.send(Input::Stop).unwrap();
    thread.join().unwrap();
}

/// The lines of a log.
#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[test]
fn the_log_has_bound_pods_and_victims_with_their_preemptor() {
    let (inputs, receive) = channel();
    let (send, mut outbox) = unbounded_channel();
    let engine = engine(Scheduler::new(conf(), 7), receive, send);
    let lines = Lines::default();
    let log = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).without_time().finish();
    let thread = std::thread::spawn(move || tracing::subscriber::with_default(log, || engine.run()));
    inputs.send(Input::Events(events())).unwrap();
    let evicts = |input: &driver::Input| {
        let driver::Input::Decisions(decisions) = input else { return false };
        decisions.iter().any(|decision| matches!(decision, Decision::Evict { .. }))
    };
    while !evicts(&outbox.blocking_recv().unwrap()) {}
    inputs.send(Input::Stop).unwrap();
    thread.join().unwrap();
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
    assert_eq!(
        count("INFO phalanx_runtime::journal: binding job=ns/fits pods=1 nodes=\"small\""),
        1,
        "{text}"
    );
    assert_eq!(count("evicting pod=ns/old-"), 4, "{text}");
    let why = "action=\"preempt\" reason=\"preempted by ns/first (priority 10) in queue default\"";
    assert_eq!(count(why), 4, "{text}");
}

/// Keeps whoever asks it for the time, until it is let go.
#[derive(Debug)]
struct Stuck(Mutex<()>);

impl Stopwatch for Stuck {
    fn elapsed(&self) -> Duration {
        drop(self.0.lock());
        Duration::ZERO
    }
}

#[test]
fn a_cycle_that_does_not_end_is_told_from_a_thread_with_nothing_to_do() {
    let (inputs, receive) = channel();
    let (send, _outbox) = unbounded_channel();
    let stuck = Arc::new(Stuck(Mutex::new(())));
    let mut scheduler = Scheduler::new(conf(), 7);
    scheduler.set_stopwatch(stuck.clone());
    let health = Arc::new(Health::new(Pulse::new(Duration::from_millis(500))));
    let engine = Engine { health: Arc::clone(&health), ..engine(scheduler, receive, send) };
    let thread = std::thread::spawn(move || engine.run());
    let until = |hangs: bool| {
        let end = Instant::now() + Duration::from_secs(20);
        while health.pulse.hangs().is_some() != hangs {
            assert!(Instant::now() < end, "{:?}", health.pulse.hangs());
            std::thread::yield_now();
        }
    };
    let held = stuck.0.lock().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(health.pulse.hangs(), None, "it waits");
    inputs.send(Input::Events(events())).unwrap();
    until(true);
    drop(held);
    until(false);
    inputs.send(Input::Stop).unwrap();
    thread.join().unwrap();
}
