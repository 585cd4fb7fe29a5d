//! The scheduling thread: events that come while a cycle runs, and metrics of waiting jobs.
use std::collections::BTreeSet;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx_cluster::event::{Event, PodInfo};
use phalanx_cluster::search_budget::Stopwatch;
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_conf::{Known, builtin_default, parse};
use phalanx_core::decision::Decision;
use phalanx_core::{RetryLimits, Scheduler};
use phalanx_runtime::api::Notes;
use phalanx_runtime::engine::{Engine, Input, Pace, SnapshotRequests};
use phalanx_runtime::journal::Journal;
use phalanx_runtime::metrics::Metrics;
use phalanx_runtime::outbox::driver;
use phalanx_runtime::telemetry::{SlowCycles, Telemetry};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use phalanx_framework::testing::{node, pod, queue};

/// Sends events to the engine when a cycle reads the time first, which is in the middle of the cycle.
#[derive(Debug)]
struct Meanwhile {
    news: Mutex<Option<(Sender<Input>, Vec<Event>)>>,
}

impl Stopwatch for Meanwhile {
    fn elapsed(&self) -> Duration {
        if let Some((inputs, events)) = self.news.lock().unwrap().take() {
            inputs.send(Input::Events(events)).unwrap();
        }
        Duration::ZERO
    }
}

struct Running {
    inputs: Sender<Input>,
    decisions: UnboundedReceiver<driver::Input>,
    metrics: Arc<Metrics>,
    thread: std::thread::JoinHandle<()>,
}

/// A leading, synced engine with one node, and events in the middle of its first cycle.
fn start(cpu: u32, meanwhile: Vec<Event>) -> Running {
    let conf = parse(builtin_default(), &Known::builtin()).conf.unwrap();
    let (inputs, received) = channel();
    let (outbox, decisions) = unbounded_channel();
    let metrics = Arc::new(Metrics::default());
    let mut scheduler = Scheduler::new(conf, 0);
    // Jobs are activated by events only.
    scheduler.set_retry_limits(RetryLimits { all_up_to: 0, ..RetryLimits::default() });
    let news = Mutex::new(Some((inputs.clone(), meanwhile)));
    scheduler.set_stopwatch(Arc::new(Meanwhile { news }));
    let mut cluster = Cluster::new(ClusterOptions::default());
    cluster.apply(queue("default", 1).into());
    cluster.apply(node("n", &format!("cpu={cpu}")).into());
    let engine = Engine {
        cluster,
        scheduler,
        pace: Pace::new(Duration::from_millis(1), Duration::from_secs(1)),
        waits_for: BTreeSet::new(),
        inputs: received,
        outbox,
        telemetry: Telemetry::new(Arc::clone(&metrics), SlowCycles::default()),
        health: Arc::default(),
        leads: true,
        clock: phalanx_runtime::clock::CycleClock::default(),
        journal: Journal::default(),
        notes: Notes::default(),
        asked: SnapshotRequests::default(),
    };
    let thread = std::thread::spawn(|| engine.run());
    Running { inputs, decisions, metrics, thread }
}

impl Running {
    /// Waits until a pod is bound.
    fn bound(&mut self, name: &str) {
        loop {
            let Some(input) = self.decisions.blocking_recv() else { panic!("{name} was not bound") };
            let driver::Input::Decisions(decisions) = input else { continue };
            let binds = |decision: &Decision| match decision {
                Decision::Bind { pods, .. } => pods.iter().any(|binding| &*binding.pod.name == name),
                _ => false,
            };
            if decisions.iter().any(binds) {
                return;
            }
        }
    }

    /// Ends the thread; returns its metrics of waiting jobs.
    fn stop(self) -> Vec<String> {
        self.inputs.send(Input::Stop).unwrap();
        self.thread.join().unwrap();
        let text = self.metrics.render();
        let of_pools = text.lines().filter(|line| line.starts_with("phalanx_pending_jobs{"));
        let mut pools: Vec<String> = of_pools.map(str::to_owned).collect();
        pools.sort();
        pools
    }
}

fn solo(name: &str, cpu: u32) -> Event {
    PodInfo { group: None, ..pod(name, &format!("cpu={cpu}")) }.into()
}

#[test]
fn pods_that_come_during_a_cycle_are_tried_in_the_next() {
    let mut running = start(4, vec![solo("second", 1)]);
    running.inputs.send(Input::Events(vec![solo("first", 1)])).unwrap();
    running.bound("first");
    running.bound("second");
    let pools = running.stop();
    assert_eq!(pools.len(), 3);
    assert!(pools.iter().all(|line| line.ends_with(" 0")), "{pools:?}");
}

#[test]
fn a_pod_that_was_refused_binds_to_a_node_that_came_meanwhile() {
    let mut running = start(1, vec![node("large", "cpu=9").into()]);
    running.inputs.send(Input::Events(vec![solo("first", 9)])).unwrap();
    running.bound("first");
    running.stop();
}

#[test]
fn metrics_count_waiting_jobs_by_pool() {
    let mut running = start(2, Vec::new());
    let pods = [solo("large", 9), solo("larger", 10), solo("small", 1)];
    running.inputs.send(Input::Events(pods.into())).unwrap();
    running.bound("small");
    assert_eq!(
        running.stop(),
        [("active", 0), ("backoff", 0), ("unschedulable", 2)]
            .map(|(pool, count)| format!("phalanx_pending_jobs{{pool=\"{pool}\"}} {count}"))
    );
}
