//! Metrics, under Volcano's names where Volcano has the metric, and under `phalanx_` otherwise.
//!
//! No series is named after a job or a pod: such series never end.
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use phalanx_core::Pending;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets, exponential_buckets_range};
use prometheus_client::registry::Registry;

use crate::outbox::reply::Reply;
use crate::outbox::request::Moment;
use crate::outbox::{Depth, Job, Settle, Work};
use crate::reload::InForce;

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

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Stage {
    stage: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Pool {
    pool: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConfHash {
    sha256: String,
}

/// Which scheduler.conf is in force.
#[derive(Debug)]
struct ConfMetrics {
    reloads: Family<ReloadLabels, Counter>,
    info: Family<ConfHash, Gauge>,
    loaded: Gauge,
    good: Gauge,
}

impl Default for ConfMetrics {
    fn default() -> Self {
        let good = Gauge::default();
        good.set(1);
        Self { reloads: Family::default(), info: Family::default(), loaded: Gauge::default(), good }
    }
}

impl ConfMetrics {
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "phalanx_conf_reloads",
            "Reloads of scheduler.conf, by result",
            self.reloads.clone(),
        );
        let help = "1, with the SHA-256 of the scheduler.conf in force";
        registry.register("phalanx_conf_info", help, self.info.clone());
        let help = "When the scheduler.conf in force was loaded, in seconds since 1970";
        registry.register("phalanx_conf_loaded_timestamp_seconds", help, self.loaded.clone());
        let help = "0 when the last scheduler.conf was refused, so that the one before stays in force";
        registry.register("phalanx_conf_last_reload_successful", help, self.good.clone());
    }
}

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    e2e_latency: Histogram,
    task_latency: Family<Stage, Histogram>,
    bind_seconds: Histogram,
    cycles: Counter,
    decisions: Family<Kind, Counter>,
    events_in: Family<Kind, Counter>,
    requests: Family<Answer, Counter>,
    controller_requests: Family<Answer, Counter>,
    bound: Counter,
    depth: Family<Kind, Gauge>,
    in_flight: Gauge,
    dropped: Counter,
    dropped_seen: Mutex<u64>,
    watch_restarts: Family<Kind, Counter>,
    conf: ConfMetrics,
    leader: Gauge,
    invalid: Family<Kind, Counter>,
    objects: Family<Kind, Gauge>,
    pending_jobs: Family<Pool, Gauge>,
    last_cycle: Gauge<f64, AtomicU64>,
}

/// Volcano's buckets, in milliseconds.
fn cycle_latency() -> Histogram {
    Histogram::new(exponential_buckets_range(1.0, 5_000.0, 20))
}

/// The same for the time from a pod's creation.
fn task_latency() -> Histogram {
    Histogram::new(exponential_buckets_range(50.0, 60_000.0, 30))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            e2e_latency: cycle_latency(),
            task_latency: Family::new_with_constructor(task_latency),
            bind_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
            cycles: Counter::default(),
            decisions: Family::default(),
            events_in: Family::default(),
            requests: Family::default(),
            controller_requests: Family::default(),
            bound: Counter::default(),
            depth: Family::default(),
            in_flight: Gauge::default(),
            dropped: Counter::default(),
            dropped_seen: Mutex::new(0),
            watch_restarts: Family::default(),
            conf: ConfMetrics::default(),
            leader: Gauge::default(),
            invalid: Family::default(),
            objects: Family::default(),
            pending_jobs: Family::default(),
            last_cycle: Gauge::default(),
        };
        metrics.register_volcano();
        metrics.register_own();
        metrics
    }
}

impl Metrics {
    /// The names of dashboards made for Volcano, with Volcano's meaning.
    fn register_volcano(&mut self) {
        let registry = &mut self.registry;
        let name = "volcano_e2e_scheduling_latency_milliseconds";
        registry.register(name, "Time of a scheduling cycle", self.e2e_latency.clone());
        let name = "volcano_task_scheduling_latency_milliseconds";
        registry.register(name, "Time from a pod's creation to its bind", self.task_latency.clone());
    }

    fn register_own(&mut self) {
        let registry = &mut self.registry;
        registry.register("phalanx_cycles", "Scheduling cycles", self.cycles.clone());
        registry.register("phalanx_cycle_last_seconds", "Time of the last cycle", self.last_cycle.clone());
        registry.register("phalanx_decisions", "Decisions, by kind", self.decisions.clone());
        registry.register("phalanx_watch_events", "Changes seen, by kind of object", self.events_in.clone());
        registry.register("phalanx_watch_restarts", "Watches that failed", self.watch_restarts.clone());
        registry.register("phalanx_invalid_objects", "Objects that cannot be read", self.invalid.clone());
        registry.register("phalanx_objects", "Objects known, by kind", self.objects.clone());
        let help = "PodGroups, and pods without one, that wait, by pool: active, backoff, unschedulable";
        registry.register("phalanx_pending_jobs", help, self.pending_jobs.clone());
        registry.register("phalanx_requests", "Requests sent, by kind and result", self.requests.clone());
        let help = "Requests of the controllers, by kind and result";
        registry.register("phalanx_controller_requests", help, self.controller_requests.clone());
        registry.register("phalanx_pods_bound", "Pods bound", self.bound.clone());
        let help = "Time from the first request to bind a pod to the answer that the pod is bound";
        registry.register("phalanx_bind_duration_seconds", help, self.bind_seconds.clone());
        registry.register(
            "phalanx_outbox_depth",
            "Requests waiting or in flight, by lane",
            self.depth.clone(),
        );
        registry.register("phalanx_outbox_in_flight", "Requests in flight", self.in_flight.clone());
        registry.register("phalanx_events_dropped", "Events dropped under pressure", self.dropped.clone());
        self.conf.register(registry);
        registry.register("phalanx_leader", "1 when this process leads", self.leader.clone());
    }

    /// The text of `/metrics`.
    pub fn render(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }

    /// A cycle ended.
    pub fn cycle(&self, took: Duration) {
        self.cycles.inc();
        self.e2e_latency.observe(took.as_secs_f64() * 1000.0);
        self.last_cycle.set(took.as_secs_f64());
    }

    /// A cycle decided this many things of a kind.
    pub fn decided(&self, kind: &'static str, count: u64) {
        self.decisions.get_or_create(&Kind { kind }).inc_by(count);
    }

    /// Changes of a kind of object arrived.
    pub fn seen(&self, kind: &'static str, count: usize) {
        self.events_in.get_or_create(&Kind { kind }).inc_by(count as u64);
    }

    /// Sets the number of known objects of a kind.
    pub fn known(&self, kind: &'static str, count: usize) {
        self.objects.get_or_create(&Kind { kind }).set(count as i64);
    }

    /// How many jobs wait, by pool.
    pub fn pending(&self, pending: Pending) {
        let Pending { active, backoff, unschedulable } = pending;
        for (pool, count) in [("active", active), ("backoff", backoff), ("unschedulable", unschedulable)] {
            self.pending_jobs.get_or_create(&Pool { pool }).set(count as i64);
        }
    }

    /// A watch failed and starts again.
    pub fn watch_failed(&self, kind: &'static str) {
        self.watch_restarts.get_or_create(&Kind { kind }).inc();
    }

    /// An object cannot be read.
    pub fn invalid_object(&self, kind: &'static str) {
        self.invalid.get_or_create(&Kind { kind }).inc();
    }

    /// scheduler.conf changed.
    pub fn reloaded(&self, good: bool) {
        let result = if good { "success" } else { "error" };
        self.conf.reloads.get_or_create(&ReloadLabels { result }).inc();
        self.conf.good.set(i64::from(good));
    }

    /// Sets the configuration in force.
    pub fn conf_in_force(&self, conf: &InForce) {
        self.conf.info.clear();
        self.conf.info.get_or_create(&ConfHash { sha256: conf.sha256.clone() }).set(1);
        self.conf.loaded.set(conf.since.as_second());
    }

    /// Whether this process leads.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// The state of the outbox.
    pub fn outbox(&self, depth: &Depth) {
        for (kind, count) in [("binds", depth.binds), ("statuses", depth.writes), ("events", depth.events)] {
            self.depth.get_or_create(&Kind { kind }).set(count as i64);
        }
        self.in_flight.set(depth.in_flight as i64);
        let mut seen = self.dropped_seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.dropped.inc_by(depth.events_dropped - *seen);
        *seen = depth.events_dropped;
    }

    /// A request of the controllers was answered.
    pub fn controller_request(&self, kind: &'static str, result: &'static str) {
        self.controller_requests.get_or_create(&Answer { kind, result }).inc();
    }

    /// A request was answered.
    pub fn request(&self, job: &Job, reply: &Reply, now: Moment) {
        let result = match reply {
            Reply::Done => "done",
            Reply::Gone(_) => "gone",
            Reply::Passing { .. } | Reply::Conflict(_) => "retry",
            Reply::Refused(_) => "refused",
        };
        let kind = match &job.work {
            Work::Bind(_) => "bind",
            Work::Settle(_) => "settle",
            Work::Pvc(_) => "claim",
            Work::Evict(..) => "evict",
            Work::OpenGate(_) => "gate",
            Work::Write(_) => "status",
            Work::Post(_) => "event",
        };
        self.requests.get_or_create(&Answer { kind, result }).inc();
        if let (Work::Bind(binding) | Work::Settle(Settle { binding, .. }), Reply::Done) = (&job.work, reply)
        {
            self.bound.inc();
            self.bind_seconds.observe(now.instant.saturating_duration_since(job.first).as_secs_f64());
            let waited = now.wall.as_millisecond().saturating_sub(binding.created.0).max(0);
            self.task_latency.get_or_create(&Stage { stage: "Bound" }).observe(waited as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use phalanx_cluster::event::{PodRef, Time};
    use phalanx_core::decision::Binding;

    use super::*;

    #[test]
    fn metrics_are_in_the_text_format_of_prometheus() {
        let metrics = Metrics::default();
        metrics.cycle(Duration::from_millis(3));
        metrics.reloaded(false);
        metrics.pending(Pending { active: 1, backoff: 0, unschedulable: 7 });
        metrics.outbox(&Depth { binds: 2, events_dropped: 5, ..Depth::default() });
        let text = metrics.render();
        for line in [
            "volcano_e2e_scheduling_latency_milliseconds_count 1",
            "phalanx_cycles_total 1",
            "phalanx_conf_reloads_total{result=\"error\"} 1",
            "phalanx_pending_jobs{pool=\"backoff\"} 0",
            "phalanx_pending_jobs{pool=\"unschedulable\"} 7",
            "phalanx_outbox_depth{kind=\"binds\"} 2",
            "phalanx_events_dropped_total 5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn the_reference_page_lists_each_metric() {
        let reference = include_str!("../../../docs/reference/metrics.md");
        let (metrics, kind) = (Metrics::default(), "pods");
        // A family is written once it has a member.
        metrics.decided(kind, 1);
        metrics.seen(kind, 1);
        metrics.known(kind, 1);
        metrics.watch_failed(kind);
        metrics.invalid_object(kind);
        metrics.pending(Pending::default());
        metrics.reloaded(true);
        metrics.outbox(&Depth::default());
        metrics.controller_request(kind, kind);
        metrics.conf_in_force(&InForce { sha256: String::new(), since: jiff::Timestamp::default() });
        metrics.request(&bind(Instant::now(), Time(0)), &Reply::Done, Moment::now());
        let text = metrics.render();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let names = types.map(|(name, kind)| match kind {
            "counter" => format!("| `{name}_total` |"),
            _ => format!("| `{name}` |"),
        });
        let missing: Vec<String> = names.filter(|row| !reference.contains(row)).collect();
        assert_eq!(missing, Vec::<String>::new());
        let (written, rows) = (text.matches("# TYPE ").count(), reference.matches("\n| `").count());
        assert_eq!(written, rows, "a row that names no metric, or one that this test does not fill");
    }

    /// A bind that was first asked for at this moment.
    fn bind(first: Instant, created: Time) -> Job {
        let pod = PodRef { namespace: "ns".into(), name: "p".into(), uid: "u".into() };
        let binding =
            Binding { pod: Arc::new(pod), created, node: "n".into(), by: None, prepare: Vec::new() };
        Job { work: Work::Bind(binding), attempt: 0, first, in_doubt: false, number: 1 }
    }

    /// The time that a pod waits for room counts, as in Volcano; the request's own time has a name of its own.
    #[test]
    fn the_latency_of_a_task_is_counted_from_its_creation() {
        let metrics = Metrics::default();
        let now = Moment { instant: Instant::now(), wall: "2026-01-01T00:05:00Z".parse().unwrap() };
        let created = Time("2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap().as_millisecond());
        let job = bind(now.instant.checked_sub(Duration::from_millis(250)).unwrap(), created);
        metrics.request(&job, &Reply::Gone("gone".into()), now);
        metrics.request(&job, &Reply::Done, now);
        let text = metrics.render();
        for line in [
            "volcano_task_scheduling_latency_milliseconds_sum{stage=\"Bound\"} 300000.0",
            "volcano_task_scheduling_latency_milliseconds_count{stage=\"Bound\"} 1",
            "phalanx_bind_duration_seconds_sum 0.25",
            "phalanx_requests_total{kind=\"bind\",result=\"gone\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("volcano_schedule_attempts"), "Volcano counts nothing under this name");
    }
}
