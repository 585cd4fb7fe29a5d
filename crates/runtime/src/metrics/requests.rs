//! Metrics of the outbox: requests, binds, and what waits.
use std::sync::{Mutex, PoisonError};

use phalanx_core::decision::Binding;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets, exponential_buckets_range};

use super::{Answer, Kind, Register, since_creation, timing};
use crate::outbox::reply::Reply;
use crate::outbox::request::Moment;
use crate::outbox::{Depth, Job, Settle, Work};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Stage {
    stage: &'static str,
}

/// Volcano's buckets, in milliseconds.
fn of_task() -> Histogram {
    Histogram::new(exponential_buckets_range(50.0, 60_000.0, 30))
}

fn of_stage() -> Histogram {
    Histogram::new(exponential_buckets_range(0.1, 500.0, 20))
}

/// Metrics of the outbox.
#[derive(Debug)]
pub(super) struct RequestMetrics {
    tasks: Family<Stage, Histogram>,
    stages: Family<Stage, Histogram>,
    bind_seconds: Histogram,
    requests: Family<Answer, Counter>,
    bound: Counter,
    oldest_bind: Gauge,
    depth: Family<Kind, Gauge>,
    in_flight: Gauge,
    dropped: Counter,
    dropped_seen: Mutex<u64>,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        Self {
            tasks: Family::new_with_constructor(of_task),
            stages: Family::new_with_constructor(of_stage),
            bind_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
            requests: Family::default(),
            bound: Counter::default(),
            oldest_bind: Gauge::default(),
            depth: Family::default(),
            in_flight: Gauge::default(),
            dropped: Counter::default(),
            dropped_seen: Mutex::new(0),
        }
    }
}

impl RequestMetrics {
    pub(super) fn register(&self, registry: &mut Register<'_>) {
        registry.add("volcano_task_scheduling_latency_milliseconds", &self.tasks);
        registry.add("volcano_scheduling_stage_duration_milliseconds", &self.stages);
        registry.add("phalanx_bind_duration_seconds", &self.bind_seconds);
        registry.add("phalanx_requests_total", &self.requests);
        registry.add("phalanx_pods_bound_total", &self.bound);
        registry.add("phalanx_bind_oldest_timestamp_seconds", &self.oldest_bind);
        registry.add("phalanx_outbox_depth", &self.depth);
        registry.add("phalanx_outbox_in_flight", &self.in_flight);
        registry.add("phalanx_events_dropped_total", &self.dropped);
    }

    /// A pod came to a stage on its way, so many milliseconds after its creation.
    pub(super) fn task(&self, stage: &'static str, waited: f64) {
        self.tasks.get_or_create(&Stage { stage }).observe(waited);
    }

    pub(super) fn outbox(&self, depth: &Depth) {
        for (kind, count) in [("binds", depth.binds), ("statuses", depth.writes), ("events", depth.events)] {
            self.depth.get_or_create(&Kind { kind }).set(count as i64);
        }
        self.in_flight.set(depth.in_flight as i64);
        let mut seen = self.dropped_seen.lock().unwrap_or_else(PoisonError::into_inner);
        self.dropped.inc_by(depth.events_dropped - *seen);
        *seen = depth.events_dropped;
    }

    /// When the oldest bind was decided; `None` for no bind.
    pub(super) fn oldest_bind(&self, at: Option<jiff::Timestamp>) {
        self.oldest_bind.set(at.map_or(0, jiff::Timestamp::as_second));
    }

    pub(super) fn answered(&self, job: &Job, reply: &Reply, now: Moment) {
        let labels = Answer { kind: kind(&job.work), result: result(reply) };
        self.requests.get_or_create(&labels).inc();
        if let (Work::Bind(binding) | Work::Settle(Settle { binding, .. }), Reply::Done) = (&job.work, reply)
        {
            self.bound(job, binding, now);
        }
    }

    fn bound(&self, job: &Job, binding: &Binding, now: Moment) {
        let took = now.instant.saturating_duration_since(job.first);
        self.bound.inc();
        self.bind_seconds.observe(took.as_secs_f64());
        self.stages.get_or_create(&Stage { stage: "Bind" }).observe(timing(took));
        self.task("Bound", since_creation(binding.created, now.wall));
    }
}

fn kind(work: &Work) -> &'static str {
    match work {
        Work::Bind(_) => "bind",
        Work::Settle(_) => "settle",
        Work::Pvc(_) => "claim",
        Work::Evict(..) => "evict",
        Work::OpenGate(_) => "gate",
        Work::Write(_) => "status",
        Work::Post(_) => "event",
    }
}

fn result(reply: &Reply) -> &'static str {
    match reply {
        Reply::Done => "done",
        Reply::Gone(_) => "gone",
        Reply::Passing { .. } | Reply::Conflict(_) => "retry",
        Reply::Refused(_) => "refused",
    }
}
