use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use phalanx_api::batch::{Job as BatchJob, JobPhase};
use phalanx_api::flow::{FlowPhase, JobFlow};
use phalanx_api::v1beta1::Queue;
use phalanx_cluster::event::{Key, PodRef, Time};
use phalanx_controllers::{Change, Object};
use phalanx_core::decision::{Binding, Cause};
use phalanx_core::report::figures::{Figures, QueueFigures, WaitingFigures};
use phalanx_framework::plugin::QueueAttributes;
use phalanx_framework::trace::Stage;
use phalanx_resource::{Amounts, Ceilings, DimId};

use super::*;
use crate::controllers::Watched;
use crate::outbox::Work;

fn assert_lines(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|found| found == *line), "{line} is missing in\n{text}");
    }
}

#[test]
fn metrics_are_in_the_text_format_of_prometheus() {
    let metrics = Metrics::default();
    metrics.cycle(Duration::from_millis(3), &[]);
    metrics.reloaded(false);
    metrics.pending(Pending { active: 1, backoff: 0, unschedulable: 7 });
    metrics.outbox(&Depth { binds: 2, events_dropped: 5, ..Depth::default() });
    let text = metrics.render();
    let lines = [
        "volcano_e2e_scheduling_latency_milliseconds_count 1",
        "phalanx_cycles_total 1",
        "phalanx_conf_reloads_total{result=\"error\"} 1",
        "phalanx_pending_jobs{pool=\"backoff\"} 0",
        "phalanx_pending_jobs{pool=\"unschedulable\"} 7",
        "phalanx_outbox_depth{kind=\"binds\"} 2",
        "phalanx_events_dropped_total 5",
    ];
    assert_lines(&text, &lines);
    assert!(text.ends_with("# EOF\n"));
}

fn amounts(cpu: i64, pods: i64) -> Amounts {
    [(DimId::CPU, cpu), (DimId::PODS, pods)].into_iter().collect()
}

/// A queue that has 2 of 4 cpu that it deserves, and a job that waits since its creation at 1 s.
fn queue(name: &str) -> QueueFigures {
    let mut capability = Ceilings::new();
    for dim in [DimId::CPU, DimId::MEMORY, DimId::PODS] {
        capability.set(dim, 8_000);
    }
    QueueFigures {
        name: name.into(),
        weight: 3,
        overused: true,
        allocated: amounts(2_000, 2),
        request: amounts(3_000, 3),
        capability,
        attributes: Some(QueueAttributes {
            deserved: amounts(4_000, 0),
            real_capability: amounts(8_000, 0),
            share: 0.5,
        }),
        waiting: WaitingFigures { jobs: 1, pods: 2, since: Some(Time(1_000)), inqueue: amounts(500, 0) },
    }
}

fn snapshot() -> Snapshot {
    let started = StartedJob {
        key: Key::new("ns", "train"),
        queue: "q".into(),
        created: Time(1_000),
        last: Time(3_500),
    };
    Snapshot {
        figures: Figures { queues: vec![queue("q")], left_out: 4, unready_jobs: 1, started_groups: 2 },
        resources: vec![ScalarResource { dim: DimId::PODS, name: "pods".into(), factor: 1 }],
        waited: vec![("q".into(), Waited { jobs: 2, seconds: 7.5 })],
        jobs: vec![started],
        jobs_left_out: 1,
        at: Time(61_000),
    }
}

#[test]
fn queues_have_series_until_they_are_gone_or_another_process_leads() {
    let metrics = Metrics::default();
    metrics.snapshot(Some(snapshot()));
    let lines = [
        "volcano_queue_allocated_milli_cpu{queue_name=\"q\"} 2000.0",
        "volcano_queue_request_scalar_resources{queue_name=\"q\",resource=\"pods\"} 3.0",
        "volcano_queue_share{queue_name=\"q\"} 0.5",
        "volcano_queue_overused{queue_name=\"q\"} 1.0",
        "phalanx_queue_oldest_waiting_seconds{queue_name=\"q\"} 60.0",
        "phalanx_queue_waited_seconds_total{queue_name=\"q\"} 7.5",
        "phalanx_series_left_out{of=\"queues\"} 4.0",
        "volcano_unschedule_job_count 1",
        "volcano_e2e_job_scheduling_duration{job_name=\"train\",queue=\"q\",job_namespace=\"ns\"} 2500.0",
    ];
    assert_lines(&metrics.render(), &lines);
    metrics.snapshot(Some(Snapshot::default()));
    assert!(!metrics.render().contains("queue_name"), "{}", metrics.render());
    metrics.snapshot(Some(snapshot()));
    metrics.snapshot(None);
    assert!(!metrics.render().contains("queue_name"), "{}", metrics.render());
}

fn evict(cause: &Arc<Cause>) -> Decision {
    let pod = PodRef { namespace: "ns".into(), name: "p".into(), uid: "u".into() };
    Decision::Evict { pod: Arc::new(pod), group: None, cause: Arc::clone(cause) }
}

#[test]
fn victims_are_counted_by_action_and_commit() {
    let metrics = Metrics::default();
    let for_job =
        |job| Arc::new(Cause { action: "preempt", by: Some(Key::new("ns", job)), ..Cause::default() });
    let (one, other) = (for_job("one"), for_job("other"));
    metrics.decided(&[evict(&one), evict(&one), evict(&one), evict(&other)]);
    metrics.decided(&[evict(&Arc::new(Cause { action: "shuffle", ..Cause::default() }))]);
    metrics.searched("preempt", 5);
    let lines = [
        "phalanx_victims_total{action=\"preempt\"} 4",
        "phalanx_victims_total{action=\"shuffle\"} 1",
        "volcano_eviction_transactions_total{action=\"preempt\"} 2",
        "volcano_pod_preemption_victims 1",
        "volcano_total_preemption_attempts 5",
    ];
    assert_lines(&metrics.render(), &lines);
    assert!(
        !metrics.render().contains("transactions_total{action=\"shuffle\"}"),
        "nobody is evicted for a job"
    );
}

#[test]
fn stages_of_a_cycle_are_measured_by_action_and_plugin() {
    let (metrics, ms) = (Metrics::default(), Duration::from_millis);
    let steps = [
        Step::new(Stage::Begun, ms(1)),
        Step::new(Stage::PluginOpened("drf"), ms(2)),
        Step::new(Stage::SessionOpened, ms(4)),
        Step::new(Stage::Action("allocate"), ms(8)),
        Step::new(Stage::Statuses, ms(16)),
        Step::new(Stage::PluginClosed("drf"), ms(32)),
    ];
    metrics.cycle(ms(63), &steps);
    let lines = [
        "volcano_open_session_duration_milliseconds_sum 7.0",
        "volcano_action_scheduling_latency_milliseconds_sum{action=\"allocate\"} 8.0",
        "volcano_plugin_scheduling_latency_milliseconds_sum{plugin=\"drf\",OnSession=\"OnSessionOpen\"} 2.0",
        "volcano_plugin_scheduling_latency_milliseconds_sum{plugin=\"drf\",OnSession=\"OnSessionClose\"} 32.0",
    ];
    assert_lines(&metrics.render(), &lines);
}

fn job(phase: JobPhase, since: &str) -> Change {
    let mut job = BatchJob::default();
    job.spec.queue = "q".to_owned();
    let status = job.status.get_or_insert_default();
    status.state.phase = Some(phase);
    let since: jiff::Timestamp = since.parse().unwrap();
    status.state.last_transition_time = Some(serde_json::from_value(serde_json::json!(since)).unwrap());
    Change::Status { object: Object::Job(Box::new(job)), urgent: true }
}

fn flow(phase: FlowPhase) -> Change {
    let mut flow = JobFlow::default();
    flow.status.get_or_insert_default().state.phase = Some(phase);
    Change::Status { object: Object::JobFlow(Box::new(flow)), urgent: true }
}

#[test]
fn a_job_that_ends_is_counted_once_though_its_status_is_written_again() {
    let metrics = Metrics::default();
    let (controllers, key) = (metrics.controllers(), Key::new("ns", "train"));
    for since in ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"] {
        controllers.written(&key, &job(JobPhase::Failed, since));
        controllers.written(&key, &flow(FlowPhase::Succeed));
    }
    controllers.written(&key, &job(JobPhase::Completed, "2026-01-01T02:00:00Z"));
    let lines = [
        "volcano_job_failed_phase_count{job_name=\"ns/train\",queue_name=\"q\"} 2",
        "volcano_job_completed_phase_count{job_name=\"ns/train\",queue_name=\"q\"} 1",
        "volcano_jobflow_succeed_phase_count{jobflow_namespace=\"ns\"} 1",
    ];
    assert_lines(&metrics.render(), &lines);
    controllers.forget(Watched::Job, &key);
    assert!(!metrics.render().contains("ns/train"), "{}", metrics.render());
}

#[test]
fn names_that_tenants_make_up_do_not_make_series_without_end() {
    let metrics = Metrics::default();
    for number in 0..SERIES_MAX + 5 {
        let key = Key::new("ns", &format!("train-{number}"));
        metrics.controllers().written(&key, &job(JobPhase::Failed, "2026-01-01T00:00:00Z"));
    }
    assert_eq!(metrics.render().matches("ns/train-").count(), SERIES_MAX);
}

/// Metrics in which each family has a member.
fn filled() -> Metrics {
    let (metrics, kind, key) = (Metrics::default(), "pods", Key::new("ns", "train"));
    let took = Duration::from_millis(1);
    metrics.cycle(
        took,
        &[Step::new(Stage::PluginOpened("drf"), took), Step::new(Stage::Action("allocate"), took)],
    );
    let cause = Cause { action: "preempt", by: Some(key.clone()), ..Cause::default() };
    metrics.decided(&[evict(&Arc::new(cause))]);
    metrics.searched("preempt", 1);
    metrics.snapshot(Some(snapshot()));
    metrics.seen(kind, 1);
    metrics.heard(kind, jiff::Timestamp::default());
    metrics.known(kind, 1);
    metrics.watch_failed(kind);
    metrics.invalid_object(kind);
    metrics.pending(Pending::default());
    metrics.activated(Activation::Flush, 1);
    metrics.reloaded(true);
    metrics.outbox(&Depth::default());
    metrics.controllers().request(kind, kind);
    metrics.controllers().queue(&Key::new("", "q"), &Queue::default());
    metrics.controllers().written(&key, &job(JobPhase::Failed, "2026-01-01T00:00:00Z"));
    metrics.controllers().written(&key, &job(JobPhase::Completed, "2026-01-01T00:00:00Z"));
    metrics.controllers().written(&key, &flow(FlowPhase::Succeed));
    metrics.controllers().written(&Key::new("ns", "other"), &flow(FlowPhase::Failed));
    metrics.conf_in_force(&InForce { sha256: String::new(), since: jiff::Timestamp::default() });
    metrics.request(&bind(Instant::now(), Time(0)), &Reply::Done, Moment::now());
    metrics
}

/// The names of the labels of a line without those of buckets, sorted.
fn labels(line: &str) -> BTreeSet<&str> {
    let inside =
        line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(inside, _)| inside);
    let names = inside.split("\",").filter_map(|label| Some(label.split_once('=')?.0));
    names.filter(|name| *name != "le").collect()
}

#[test]
fn metrics_are_served_with_the_types_and_labels_of_the_table() {
    let text = filled().render();
    let mut served: BTreeMap<String, (&str, BTreeSet<&str>)> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            current = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
            served.insert(current.clone(), (kind, BTreeSet::new()));
        } else if !line.starts_with('#') {
            served.get_mut(&current).unwrap().1.extend(labels(line));
        }
    }
    let kind = |def: &MetricDef| match def.kind {
        Type::Counter => "counter",
        Type::Gauge => "gauge",
        Type::Histogram => "histogram",
    };
    let row = |def: &MetricDef| {
        (def.name.to_owned(), (kind(def), def.labels.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>()))
    };
    let declared: BTreeMap<_, _> = TABLE.iter().map(row).collect();
    assert_eq!(served, declared);
}

/// The environment variable with which the tables of the page are written.
const WRITE: &str = "PHALANX_WRITE_METRICS";

#[test]
fn the_reference_page_has_a_fresh_table_of_all_metrics() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once("|---|---|---|---|\n").expect("the table of metrics");
    let after = rest.find("\n\n").map_or("", |end| &rest[end..]);
    let rows: Vec<String> = TABLE.iter().map(MetricDef::row).collect();
    let fresh = format!("{before}|---|---|---|---|\n{}{after}", rows.join("\n"));
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(path, fresh).unwrap();
        return;
    }
    assert!(
        page == fresh,
        "the page is stale; write it anew: {WRITE}=1 cargo test -p phalanx-runtime metrics"
    );
}

/// A bind that was first asked for at this moment.
fn bind(first: Instant, created: Time) -> Job {
    let pod = PodRef { namespace: "ns".into(), name: "p".into(), uid: "u".into() };
    let binding = Binding { pod: Arc::new(pod), created, node: "n".into(), by: None, prepare: Vec::new() };
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
    let lines = [
        "volcano_task_scheduling_latency_milliseconds_sum{stage=\"Bound\"} 300000.0",
        "volcano_task_scheduling_latency_milliseconds_count{stage=\"Bound\"} 1",
        "volcano_scheduling_stage_duration_milliseconds_sum{stage=\"Bind\"} 250.0",
        "phalanx_bind_duration_seconds_sum 0.25",
        "phalanx_requests_total{kind=\"bind\",result=\"gone\"} 1",
    ];
    assert_lines(&text, &lines);
    assert!(!text.contains("volcano_schedule_attempts"), "Volcano counts nothing under this name");
}
