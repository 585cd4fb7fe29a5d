//! Metrics, under Volcano's names where Volcano has the metric, and under `phalanx_` otherwise.
//!
//! No series is named after a pod. Of jobs and queues a bounded number have series, which end with them: names are the
//! choice of tenants.
mod conf;
mod controllers;
mod cycles;
mod figures;
mod requests;
mod table;
#[cfg(test)]
mod tests;

use std::time::Duration;

use phalanx_cluster::event::Time;
use phalanx_core::decision::{Binding, Decision};
use phalanx_core::{Activation, Pending};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets_range};
use prometheus_client::registry::{Metric, Registry};

use crate::outbox::reply::Reply;
use crate::outbox::request::Moment;
use crate::outbox::{Depth, Job};
use crate::reload::InForce;
use crate::telemetry::Step;
pub use controllers::ControllerMetrics;
pub use figures::{ScalarResource, Snapshot, StartedJob, Waited};
pub use table::{MetricDef, TABLE, Type};

/// How many queues, jobs and namespaces have series of their own.
pub const SERIES_MAX: usize = 1_000;

/// One label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    kind: &'static str,
    result: &'static str,
}

/// A duration in milliseconds, as Volcano's histograms have it.
fn timing(took: Duration) -> f64 {
    took.as_secs_f64() * 1000.0
}

/// Milliseconds from the creation of an object to this time.
fn since_creation(created: Time, wall: jiff::Timestamp) -> f64 {
    wall.as_millisecond().saturating_sub(created.0).max(0) as f64
}

/// Registers metrics with what the table says of them.
struct Register<'a>(&'a mut Registry);

impl Register<'_> {
    fn add(&mut self, name: &str, metric: &(impl Metric + Clone)) {
        let def = table::def(name);
        self.0.register(def.family(), def.help, metric.clone());
    }
}

/// Metrics of watches.
#[derive(Debug, Default)]
struct WatchMetrics {
    events: Family<Kind, Counter>,
    restarts: Family<Kind, Counter>,
    heard: Family<Kind, Gauge>,
    invalid: Family<Kind, Counter>,
    objects: Family<Kind, Gauge>,
}

impl WatchMetrics {
    fn register(&self, registry: &mut Register<'_>) {
        registry.add("phalanx_watch_events_total", &self.events);
        registry.add("phalanx_watch_restarts_total", &self.restarts);
        registry.add("phalanx_watch_heard_timestamp_seconds", &self.heard);
        registry.add("phalanx_invalid_objects_total", &self.invalid);
        registry.add("phalanx_objects", &self.objects);
    }
}

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    cycles: cycles::CycleMetrics,
    requests: requests::RequestMetrics,
    watches: WatchMetrics,
    controllers: ControllerMetrics,
    conf: conf::ConfMetrics,
    /// Of jobs, from their creation to their start.
    started: Histogram,
    series: figures::Series,
    leader: Gauge,
    journal_dropped: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            cycles: cycles::CycleMetrics::default(),
            requests: requests::RequestMetrics::default(),
            watches: WatchMetrics::default(),
            controllers: ControllerMetrics::default(),
            conf: conf::ConfMetrics::default(),
            // Volcano's buckets, in milliseconds.
            started: Histogram::new(exponential_buckets_range(100.0, 120_000.0, 30)),
            series: figures::Series::default(),
            leader: Gauge::default(),
            journal_dropped: Counter::default(),
        };
        let registry = &mut Register(&mut metrics.registry);
        metrics.cycles.register(registry);
        metrics.requests.register(registry);
        metrics.watches.register(registry);
        metrics.controllers.register(registry);
        metrics.conf.register(registry);
        registry.add("volcano_e2e_job_scheduling_latency_milliseconds", &metrics.started);
        registry.add("phalanx_leader", &metrics.leader);
        registry.add("phalanx_journal_dropped_total", &metrics.journal_dropped);
        metrics.registry.register_collector(Box::new(metrics.series.clone()));
        metrics
    }
}

impl Metrics {
    /// The text of `/metrics`.
    pub fn render(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }

    /// A cycle ended; how long each of its stages took.
    pub(crate) fn cycle(&self, took: Duration, steps: &[Step]) {
        self.cycles.ended(took, steps);
    }

    /// A cycle decided this.
    pub fn decided(&self, decisions: &[Decision]) {
        self.cycles.decided(decisions);
    }

    /// An action searched for victims.
    pub fn searched(&self, action: &'static str, times: u64) {
        self.cycles.searched(action, times);
    }

    /// Jobs became active.
    pub fn activated(&self, why: Activation, jobs: u64) {
        self.cycles.activated(why, jobs);
    }

    /// How many jobs wait, by pool.
    pub fn pending(&self, pending: Pending) {
        self.cycles.pending(pending);
    }

    /// A job started so long after its creation.
    pub fn started(&self, waited: Duration) {
        self.started.observe(timing(waited));
    }

    /// Sets the series of queues and jobs; `None` for none.
    pub fn snapshot(&self, snapshot: Option<Snapshot>) {
        self.series.set(snapshot);
    }

    /// Changes of a kind of object arrived.
    pub fn seen(&self, kind: &'static str, count: usize) {
        self.watches.events.get_or_create(&Kind { kind }).inc_by(count as u64);
    }

    /// The API server sent something about a kind of object.
    pub fn heard(&self, kind: &'static str, now: jiff::Timestamp) {
        self.watches.heard.get_or_create(&Kind { kind }).set(now.as_second());
    }

    /// Sets the number of known objects of a kind.
    pub fn known(&self, kind: &'static str, count: usize) {
        self.watches.objects.get_or_create(&Kind { kind }).set(count as i64);
    }

    /// A watch failed and starts again.
    pub fn watch_failed(&self, kind: &'static str) {
        self.watches.restarts.get_or_create(&Kind { kind }).inc();
    }

    /// An object cannot be read.
    pub fn invalid_object(&self, kind: &'static str) {
        self.watches.invalid.get_or_create(&Kind { kind }).inc();
    }

    /// A pod that waits for a node is seen for the first time.
    pub fn pod_seen(&self, created: jiff::Timestamp, now: jiff::Timestamp) {
        self.requests.task("Watched", since_creation(Time(created.as_millisecond()), now));
    }

    /// Pods were decided to be bound.
    pub fn assumed(&self, pods: &[Binding], now: jiff::Timestamp) {
        for pod in pods {
            self.requests.task("Assumed", since_creation(pod.created, now));
        }
    }

    /// scheduler.conf changed.
    pub fn reloaded(&self, good: bool) {
        self.conf.reloaded(good);
    }

    /// Sets the configuration in force.
    pub fn conf_in_force(&self, conf: &InForce) {
        self.conf.in_force(conf);
    }

    /// Whether this process leads.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// Lines of the journal were dropped.
    pub fn journal_dropped(&self, lines: u64) {
        self.journal_dropped.inc_by(lines);
    }

    /// The state of the outbox.
    pub fn outbox(&self, depth: &Depth) {
        self.requests.outbox(depth);
    }

    /// When the oldest bind was decided that is not answered; `None` for no bind.
    pub fn oldest_bind(&self, at: Option<jiff::Timestamp>) {
        self.requests.oldest_bind(at);
    }

    /// Metrics of the controllers.
    pub fn controllers(&self) -> &ControllerMetrics {
        &self.controllers
    }

    /// A request was answered.
    pub fn request(&self, job: &Job, reply: &Reply, now: Moment) {
        self.requests.answered(job, reply, now);
    }
}
