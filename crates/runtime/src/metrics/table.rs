//! The table of metrics: name, type, labels and help. The registry and the reference page are made from it.

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by bucket.
    Histogram,
}

/// A row in the table of metrics.
#[derive(Clone, Copy, Debug)]
pub struct MetricDef {
    /// The name that it is served under; a histogram's is followed by `_bucket`, `_sum` and `_count`.
    pub name: &'static str,
    /// Its type.
    pub kind: Type,
    /// Its labels, each with the values that it has, where these are few.
    pub labels: &'static [(&'static str, &'static str)],
    /// What it means.
    pub help: &'static str,
}

impl MetricDef {
    /// The name in the registry, which adds the suffix of counters by itself.
    pub(super) fn family(&self) -> &'static str {
        match self.kind {
            Type::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            Type::Gauge | Type::Histogram => self.name,
        }
    }

    /// The row of the reference page.
    pub fn row(&self) -> String {
        let label = |(name, values): &(&str, &str)| match *values {
            "" => format!("`{name}`"),
            values => format!("`{name}`: {values}"),
        };
        let labels: Vec<String> = self.labels.iter().map(label).collect();
        let kind = match self.kind {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
        };
        format!("| `{}` | {kind} | {} | {} |", self.name, labels.join("; "), self.help)
    }
}

/// The row of a metric.
pub(super) fn def(name: &str) -> &'static MetricDef {
    TABLE.iter().find(|def| def.name == name).expect("each metric is in the table")
}

const fn counter(
    name: &'static str,
    labels: &'static [(&'static str, &'static str)],
    help: &'static str,
) -> MetricDef {
    MetricDef { name, kind: Type::Counter, labels, help }
}

const fn gauge(
    name: &'static str,
    labels: &'static [(&'static str, &'static str)],
    help: &'static str,
) -> MetricDef {
    MetricDef { name, kind: Type::Gauge, labels, help }
}

const fn histogram(
    name: &'static str,
    labels: &'static [(&'static str, &'static str)],
    help: &'static str,
) -> MetricDef {
    MetricDef { name, kind: Type::Histogram, labels, help }
}

const QUEUE: &[(&str, &str)] = &[("queue_name", "")];
const QUEUE_RESOURCE: &[(&str, &str)] = &[("queue_name", ""), ("resource", "")];
const STARTED_JOB: &[(&str, &str)] = &[("job_name", ""), ("queue", ""), ("job_namespace", "")];
const ENDED_JOB: &[(&str, &str)] = &[("job_name", "NAMESPACE/NAME"), ("queue_name", "")];
const KIND: &[(&str, &str)] = &[("kind", "of object")];
const ACTION: &[(&str, &str)] = &[("action", "")];

/// All metrics, by name within each part.
pub static TABLE: &[MetricDef] = &[
    // Volcano's scheduler.
    histogram(
        "volcano_action_scheduling_latency_milliseconds",
        ACTION,
        "time of an action in a cycle, with handing out its decisions",
    ),
    gauge(
        "volcano_e2e_job_scheduling_duration",
        STARTED_JOB,
        "milliseconds from the creation of a PodGroup to the last decision to bind pods of it",
    ),
    gauge(
        "volcano_e2e_job_scheduling_last_time",
        STARTED_JOB,
        "when pods of a PodGroup were last decided to be bound, in seconds since 1970",
    ),
    histogram(
        "volcano_e2e_job_scheduling_latency_milliseconds",
        &[],
        "from the creation of a job to the decision to bind the pods that it needs to start",
    ),
    gauge(
        "volcano_e2e_job_scheduling_start_time",
        STARTED_JOB,
        "when a PodGroup was created, in seconds since 1970",
    ),
    histogram("volcano_e2e_scheduling_latency_milliseconds", &[], "time of a scheduling cycle"),
    counter(
        "volcano_eviction_transactions_total",
        &[("action", "preempt, reclaim, gangpreempt, gangreclaim")],
        "commits that evict pods for a preemptor",
    ),
    histogram(
        "volcano_open_session_duration_milliseconds",
        &[],
        "time from the begin of a cycle until its session is open",
    ),
    histogram(
        "volcano_plugin_scheduling_latency_milliseconds",
        &[("plugin", ""), ("OnSession", "OnSessionOpen, OnSessionClose")],
        "time of a plugin to open or close in a cycle",
    ),
    gauge("volcano_pod_preemption_victims", &[], "pods evicted by the last commit that evicted any"),
    gauge("volcano_queue_allocated_memory_bytes", QUEUE, "memory of the jobs of a queue and of queues below"),
    gauge("volcano_queue_allocated_milli_cpu", QUEUE, "the same, cpu in thousandths"),
    gauge(
        "volcano_queue_allocated_scalar_resources",
        QUEUE_RESOURCE,
        "the same, other resources in thousandths, pods as a number",
    ),
    gauge("volcano_queue_capacity_memory_bytes", QUEUE, "`spec.capability` of a queue: memory"),
    gauge("volcano_queue_capacity_milli_cpu", QUEUE, "the same, cpu in thousandths"),
    gauge("volcano_queue_capacity_scalar_resources", QUEUE_RESOURCE, "the same, other resources"),
    gauge(
        "volcano_queue_deserved_memory_bytes",
        QUEUE,
        "what a queue deserves, where plugin `proportion` or `capacity` computes that: memory",
    ),
    gauge("volcano_queue_deserved_milli_cpu", QUEUE, "the same, cpu in thousandths"),
    gauge("volcano_queue_deserved_scalar_resources", QUEUE_RESOURCE, "the same, other resources"),
    gauge(
        "volcano_queue_inqueue_memory_bytes",
        QUEUE,
        "what admitted jobs that do not run yet lack of their `minResources`: memory",
    ),
    gauge("volcano_queue_inqueue_milli_cpu", QUEUE, "the same, cpu in thousandths"),
    gauge("volcano_queue_inqueue_scalar_resources", QUEUE_RESOURCE, "the same, other resources"),
    gauge("volcano_queue_overused", QUEUE, "1 when a plugin calls the queue overused"),
    gauge(
        "volcano_queue_real_capacity_memory_bytes",
        QUEUE,
        "the most that a queue may have besides what is guaranteed to others, with such a plugin: memory",
    ),
    gauge("volcano_queue_real_capacity_milli_cpu", QUEUE, "the same, cpu in thousandths"),
    gauge("volcano_queue_real_capacity_scalar_resources", QUEUE_RESOURCE, "the same, other resources"),
    gauge(
        "volcano_queue_request_memory_bytes",
        QUEUE,
        "requests of the jobs of a queue and of queues below, allocated or not: memory",
    ),
    gauge("volcano_queue_request_milli_cpu", QUEUE, "the same, cpu in thousandths"),
    gauge("volcano_queue_request_scalar_resources", QUEUE_RESOURCE, "the same, other resources"),
    gauge(
        "volcano_queue_share",
        QUEUE,
        "the largest part of what a queue deserves that it has, over all resources, with such a plugin",
    ),
    gauge("volcano_queue_weight", QUEUE, "`spec.weight` of a queue"),
    histogram(
        "volcano_scheduling_stage_duration_milliseconds",
        &[("stage", "Bind")],
        "time of the requests to bind a pod",
    ),
    histogram(
        "volcano_task_scheduling_latency_milliseconds",
        &[("stage", "Watched, Assumed, Bound")],
        "from the creation of a pod, which is told in whole seconds, until the pod is seen, until it is decided to be \
         bound, and until the API server says that it is bound",
    ),
    gauge(
        "volcano_total_preemption_attempts",
        &[],
        "searches of action `preempt` for victims; it only grows, and has no suffix `_total`, as in Volcano",
    ),
    gauge("volcano_unschedule_job_count", &[], "jobs that wait with fewer pods than they need to start"),
    // Volcano's controllers.
    histogram(
        "volcano_controller_job_to_pod_creation_latency_milliseconds",
        &[],
        "from the creation of a Job to that of a pod of it; both are told in whole seconds",
    ),
    gauge(
        "volcano_job_completed_phase_count",
        ENDED_JOB,
        "how often a Job came to phase Completed; it only grows",
    ),
    gauge("volcano_job_failed_phase_count", ENDED_JOB, "how often a Job came to phase Failed; it only grows"),
    gauge(
        "volcano_jobflow_failed_phase_count",
        &[("jobflow_namespace", "")],
        "how many JobFlows failed; it only grows",
    ),
    gauge(
        "volcano_jobflow_succeed_phase_count",
        &[("jobflow_namespace", "")],
        "how many JobFlows succeeded; it only grows",
    ),
    gauge("volcano_queue_pod_group_completed_count", QUEUE, "PodGroups of a queue in phase Completed"),
    gauge("volcano_queue_pod_group_inqueue_count", QUEUE, "PodGroups of a queue in phase Inqueue"),
    gauge("volcano_queue_pod_group_pending_count", QUEUE, "PodGroups of a queue in phase Pending"),
    gauge("volcano_queue_pod_group_running_count", QUEUE, "PodGroups of a queue in phase Running"),
    gauge("volcano_queue_pod_group_unknown_count", QUEUE, "PodGroups of a queue in phase Unknown"),
    // Phalanx.
    histogram(
        "phalanx_bind_duration_seconds",
        &[],
        "from the first request to bind a pod to the answer that it is bound, with requests that are tried again; anew \
         after an outage of more than 30 s",
    ),
    counter(
        "phalanx_backlog_activations_total",
        &[("event", "changed, queue, class, backoff, expired, flush")],
        "jobs that became active (below)",
    ),
    gauge(
        "phalanx_bind_oldest_timestamp_seconds",
        &[],
        "since when the oldest bind waits to be sent, or for the answer, in seconds since 1970; 0 when none does",
    ),
    gauge(
        "phalanx_conf_info",
        &[("sha256", "")],
        "1; the label is what `sha256sum` prints of the scheduler.conf in force",
    ),
    gauge(
        "phalanx_conf_last_reload_successful",
        &[],
        "0 when the last change of scheduler.conf was refused, or the file cannot be read: the one before stays in force",
    ),
    gauge(
        "phalanx_conf_loaded_timestamp_seconds",
        &[],
        "when the scheduler.conf in force was loaded, in seconds since 1970",
    ),
    counter("phalanx_conf_reloads_total", &[("result", "success, error")], "reloads of scheduler.conf"),
    counter(
        "phalanx_controller_requests_total",
        &[
            (
                "kind",
                "create-pod, delete-pod, create, delete, replace, status, join (of a pod to its PodGroup), read, \
                 event, key, probe",
            ),
            ("result", "done, gone, retry, refused"),
        ],
        "requests of the controllers",
    ),
    gauge("phalanx_cycle_last_seconds", &[], "time of the last cycle"),
    counter("phalanx_cycles_total", &[], "scheduling cycles; it stands still while nothing changes"),
    counter("phalanx_decisions_total", &[("kind", "")], "what was decided"),
    counter(
        "phalanx_events_dropped_total",
        &[],
        "events that will not be told: too many at once, or the API server did not take them",
    ),
    counter("phalanx_invalid_objects_total", KIND, "objects that cannot be read"),
    counter(
        "phalanx_journal_dropped_total",
        &[],
        "lines of the journal that were dropped: the disk was full, or too slow",
    ),
    gauge("phalanx_leader", &[], "1 when this process leads"),
    gauge("phalanx_objects", KIND, "objects known"),
    gauge(
        "phalanx_outbox_depth",
        &[("kind", "binds, statuses, events")],
        "requests that wait or are in flight",
    ),
    gauge("phalanx_outbox_in_flight", &[], "requests in flight"),
    gauge(
        "phalanx_pending_jobs",
        &[("pool", "active, backoff, unschedulable")],
        "PodGroups, and pods without one, that wait (below)",
    ),
    counter("phalanx_pods_bound_total", &[], "pods bound"),
    counter(
        "phalanx_queue_jobs_started_total",
        QUEUE,
        "how often jobs started: pods of a job that had none on a node were decided to be bound",
    ),
    gauge(
        "phalanx_queue_oldest_waiting_seconds",
        QUEUE,
        "how long a job waits at most that has fewer pods than it needs to start: since it was created or, where that is later, since the oldest of its waiting pods was; 0 when none does",
    ),
    counter(
        "phalanx_queue_waited_seconds_total",
        QUEUE,
        "how long these jobs had waited, added up: since their creation, and, at a start after the first, since that of their oldest pod",
    ),
    gauge("phalanx_queue_waiting_jobs", QUEUE, "jobs that wait with fewer pods than they need to start"),
    gauge("phalanx_queue_waiting_pods", QUEUE, "pods that wait for a node"),
    counter(
        "phalanx_requests_total",
        &[
            ("kind", "bind, settle, claim, evict, gate, status, event"),
            ("result", "done, gone, retry, refused"),
        ],
        "requests sent",
    ),
    gauge(
        "phalanx_series_left_out",
        &[("of", "queues, jobs")],
        "queues and PodGroups without series (below)",
    ),
    counter("phalanx_victim_searches_total", ACTION, "searches for victims"),
    counter("phalanx_victims_total", ACTION, "pods that were decided to be evicted"),
    counter("phalanx_watch_events_total", KIND, "changes seen"),
    gauge(
        "phalanx_watch_heard_timestamp_seconds",
        KIND,
        "when the API server last sent a list, a change or a bookmark, in seconds since 1970: without changes it sends a \
         bookmark about once a minute",
    ),
    counter("phalanx_watch_restarts_total", KIND, "watches that failed"),
];
