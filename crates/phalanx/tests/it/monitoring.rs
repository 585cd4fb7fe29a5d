//! The dashboard and the alerts of `deploy/monitoring/`, and the dashboards of Volcano: queries ask for metrics and labels
//! that are served.
use std::collections::BTreeSet;
use std::fs;

use phalanx_runtime::metrics::{MetricDef, TABLE, Type};
use serde::Deserialize;
use serde_json::Value;

use crate::run::repository;

/// Labels that Prometheus adds.
const ADDED: [&str; 4] = ["app", "instance", "le", "pod"];

/// The queries of Volcano's dashboards for Volcano's metrics, and whether they have figures here. Source: the chart's
/// `templates/grafana.yaml` and `benchmark/manifests/monitoring/grafana-dashboard.json` of Volcano. The others ask
/// kube-state-metrics, client-go and the API server.
const VOLCANO: &[(&str, &str, bool)] = &[
    // Volcano Global Overview Dashboard
    ("Volcano Legency Heatmap", "increase(volcano_e2e_job_scheduling_latency_milliseconds_bucket[1h])", true),
    (
        "Volcano Job Scheduling Avg Duration By Queue In 24H",
        "avg(volcano_e2e_job_scheduling_duration{}) by (queue)",
        true,
    ),
    (
        "Volcano Job Avg Scheduling Duration By Namespace In 24H",
        "avg(volcano_e2e_job_scheduling_duration{}) by (job_namespace)",
        true,
    ),
    ("Volcano Job Running Legency", "increase(volcano_e2e_job_scheduling_duration{}[24h]) != 0", true),
    (
        "Job Duration Coefficient Of Variation",
        "stddev(volcano_e2e_job_scheduling_duration)/avg(volcano_e2e_job_scheduling_duration)",
        true,
    ),
    // Volcano Queue View, Volcano Namespace View
    (
        "Queue Running Job Legency",
        "increase(volcano_e2e_job_scheduling_duration{queue=\"$queue\"}[24h]) != 0",
        true,
    ),
    (
        "Namespace Running Job Legency In 24H",
        "increase(volcano_e2e_job_scheduling_duration{job_namespace=\"$namespace\"}[24h]) != 0",
        true,
    ),
    // Volcano Scheduler Internal Metrics
    (
        "Scheduler E2E Scheduling Latency P95",
        "histogram_quantile(0.95, sum(rate(volcano_e2e_scheduling_latency_milliseconds_bucket[5m])) by (le))",
        true,
    ),
    (
        "Scheduler E2E Scheduling Latency Heatmap",
        "sum(rate(volcano_e2e_scheduling_latency_milliseconds_bucket[5m])) by (le)",
        true,
    ),
    (
        "E2E Job Scheduling Duration By JobName (Latest)",
        "avg by (job_name) (volcano_e2e_job_scheduling_duration)",
        true,
    ),
    (
        "E2E Job Scheduling Latency Heatmap(Latest)",
        "sum(rate(volcano_e2e_job_scheduling_latency_milliseconds_bucket[5m])) by (le)",
        true,
    ),
    ("Preemption Attempts Rate", "rate(volcano_total_preemption_attempts[5m])", true),
    ("Current Preemption Victims", "volcano_pod_preemption_victims", true),
    (
        "Plugin Scheduling Latency P95 By Plugin/OnSession",
        "histogram_quantile(0.95, sum(rate(volcano_plugin_scheduling_latency_milliseconds_bucket[5m])) by \
         (le,plugin,OnSession))",
        true,
    ),
    (
        "Action Scheduling Latency P95 By Action",
        "histogram_quantile(0.95, sum(rate(volcano_action_scheduling_latency_milliseconds_bucket[5m])) by (le,action))",
        true,
    ),
    // Volcano Queue Metrics
    ("Queue CPU: Request / Allocated / Deserved", "volcano_queue_request_milli_cpu", true),
    ("Queue CPU: Request / Allocated / Deserved", "volcano_queue_allocated_milli_cpu", true),
    ("Queue CPU: Request / Allocated / Deserved", "volcano_queue_deserved_milli_cpu", true),
    ("Queue Memory: Request / Allocated / Deserved", "volcano_queue_request_memory_bytes", true),
    ("Queue Memory: Request / Allocated / Deserved", "volcano_queue_allocated_memory_bytes", true),
    ("Queue Memory: Request / Allocated / Deserved", "volcano_queue_deserved_memory_bytes", true),
    (
        "Queue scalar: Request / Allocated / Deserved",
        "volcano_queue_request_scalar_resources{resource=\"nvidia.com/gpu\"}",
        true,
    ),
    (
        "Queue scalar: Request / Allocated / Deserved",
        "volcano_queue_allocated_scalar_resources{resource=\"nvidia.com/gpu\"}",
        true,
    ),
    (
        "Queue scalar: Request / Allocated / Deserved",
        "volcano_queue_deserved_scalar_resources{resource=\"nvidia.com/gpu\"}",
        true,
    ),
    ("Queue Capacity vs Real Capacity (CPU)", "volcano_queue_capacity_milli_cpu", true),
    ("Queue Capacity vs Real Capacity (CPU)", "volcano_queue_real_capacity_milli_cpu", true),
    ("Queue Capacity vs Real Capacity (Memory)", "volcano_queue_capacity_memory_bytes", true),
    ("Queue Capacity vs Real Capacity (Memory)", "volcano_queue_real_capacity_memory_bytes", true),
    (
        "Queue Capacity vs Real Capacity (Scalar)",
        "volcano_queue_capacity_scalar_resources{resource=\"nvidia.com/gpu\"}",
        true,
    ),
    (
        "Queue Capacity vs Real Capacity (Scalar)",
        "volcano_queue_real_capacity_scalar_resources{resource=\"nvidia.com/gpu\"}",
        true,
    ),
    ("Queue Share", "volcano_queue_share", true),
    // Volcano Benchmark
    (
        "Session Duration (ms)",
        "histogram_quantile(0.5, sum by (le) (rate(volcano_e2e_scheduling_latency_milliseconds_bucket[1m])))",
        true,
    ),
    (
        "Open Session Duration (ms)",
        "histogram_quantile(0.5, sum by (le) (rate(volcano_open_session_duration_milliseconds_bucket[1m])))",
        true,
    ),
    ("Job Scheduling Duration (ms)", "volcano_e2e_job_scheduling_duration{job_namespace=\"default\"}", true),
    (
        "Task Stage Latency P50 (ms)",
        "histogram_quantile(0.5, sum by (le) \
         (rate(volcano_task_scheduling_latency_milliseconds_bucket{stage=\"Watched\"}[1m])))",
        true,
    ),
    (
        "Task Stage Latency P99 (ms)",
        "histogram_quantile(0.99, sum by (le) \
         (rate(volcano_task_scheduling_latency_milliseconds_bucket{stage=\"PreBound\"}[1m])))",
        false,
    ),
    (
        "Stage Processing Time (ms)",
        "histogram_quantile(0.5, sum by (stage, le) (rate(volcano_scheduling_stage_duration_milliseconds_bucket[1m])))",
        true,
    ),
    (
        "Action Duration (ms)",
        "histogram_quantile(0.5, sum by (action, le) (rate(volcano_action_scheduling_latency_milliseconds_bucket[1m])))",
        true,
    ),
    (
        "Controller: Job -> Pod Creation Latency (ms)",
        "histogram_quantile(0.5, sum by (le) \
         (rate(volcano_controller_job_to_pod_creation_latency_milliseconds_bucket[1m])))",
        true,
    ),
    (
        "Agent Worker Scheduling Cycle Duration (ms)",
        "histogram_quantile(0.5, sum by (le) (rate(volcano_worker_scheduling_cycle_duration_milliseconds_bucket[1m])))",
        false,
    ),
    (
        "Agent Update Snapshot Duration (ms)",
        "histogram_quantile(0.5, sum by (le) (rate(volcano_update_snapshot_duration_milliseconds_bucket[1m])))",
        false,
    ),
];

/// The metric of a series.
fn def(series: &str) -> Option<&'static MetricDef> {
    let serves = |def: &&MetricDef| match (def.kind, series.strip_prefix(def.name)) {
        (Type::Histogram, Some(suffix)) => matches!(suffix, "_bucket" | "_sum" | "_count"),
        (_, suffix) => suffix == Some(""),
    };
    TABLE.iter().find(serves)
}

/// The series of Volcano and Phalanx that an expression names.
fn series(expr: &str) -> BTreeSet<&str> {
    let words = expr.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    words.filter(|word| word.starts_with("volcano_") || word.starts_with("phalanx_")).collect()
}

/// The matchers in braces behind a series: label and value.
fn matchers<'a>(expr: &'a str, series: &str) -> Vec<(&'a str, &'a str)> {
    let after = expr.split(series).skip(1).filter_map(|rest| rest.strip_prefix('{'));
    let inside = after.filter_map(|rest| Some(rest.split_once('}')?.0));
    let matcher = |text: &'a str| text.split_once(['=', '!']).map(|(label, value)| (label.trim(), value));
    inside.flat_map(|inside| inside.split("\",")).filter_map(matcher).collect()
}

/// The labels that an expression groups or joins by.
fn grouped(expr: &str) -> BTreeSet<&str> {
    let keywords = ["by (", "by(", "on (", "on("];
    let lists = keywords.iter().flat_map(|keyword| expr.split(*keyword).skip(1));
    let lists = lists.filter_map(|rest| rest.split_once(')')).map(|(list, _)| list);
    lists.flat_map(|list| list.split(',')).map(str::trim).collect()
}

/// What an expression asks for that is not served.
fn missing(expr: &str) -> Vec<String> {
    let series = series(expr);
    let mut missing = Vec::new();
    let mut labels: BTreeSet<&str> = ADDED.into();
    for series in &series {
        let Some(def) = def(series) else {
            missing.push((*series).to_owned());
            continue;
        };
        labels.extend(def.labels.iter().map(|(name, _)| *name));
        for (label, value) in matchers(expr, series) {
            let values = def.labels.iter().find(|(name, _)| *name == label).map(|(_, values)| *values);
            let wrong = |one: &str| {
                let one = one.trim_matches(['"', '~', '=']);
                values.is_some_and(|values| {
                    values.contains(", ") && !one.starts_with('$') && !values.contains(one)
                })
            };
            if (values.is_none() && !ADDED.contains(&label)) || value.split('|').any(wrong) {
                missing.push(format!("{series}{{{label}{value}"));
            }
        }
    }
    missing.extend(grouped(expr).into_iter().filter(|label| !labels.contains(label)).map(ToOwned::to_owned));
    if series.is_empty() {
        missing.push("any metric".to_owned());
    }
    missing
}

/// All expressions of a dashboard, those of its variables too.
fn expressions(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("expr", Value::String(expr)) => found.push(expr.clone()),
                    ("definition", Value::String(query)) => found.extend(variable(query)),
                    _ => found.extend(expressions(value)),
                }
            }
        }
        Value::Array(list) => found.extend(list.iter().flat_map(expressions)),
        _ => {}
    }
    found
}

/// `label_values(METRIC, LABEL)` as an expression.
fn variable(query: &str) -> Option<String> {
    let (metric, label) = query.strip_prefix("label_values(")?.strip_suffix(')')?.split_once(", ")?;
    Some(format!("count by ({label}) ({metric})"))
}

fn read(file: &str) -> String {
    fs::read_to_string(repository().join("deploy/monitoring").join(file)).unwrap()
}

fn assert_served(expressions: &[String]) {
    let wrong: Vec<String> = expressions
        .iter()
        .filter_map(|expr| Some((expr, missing(expr))).filter(|(_, missing)| !missing.is_empty()))
        .map(|(expr, missing)| format!("{}: {expr}", missing.join(", ")))
        .collect();
    assert!(wrong.is_empty(), "not served:\n{}", wrong.join("\n"));
}

#[test]
fn queries_of_the_dashboard_ask_for_metrics_that_are_served() {
    let dashboard: Value = serde_json::from_str(&read("grafana-dashboard.json")).unwrap();
    let expressions = expressions(&dashboard);
    assert_served(&expressions);
    assert!(expressions.len() > 50, "{} expressions", expressions.len());
}

#[derive(Deserialize)]
struct Rule {
    alert: String,
    expr: String,
    annotations: std::collections::BTreeMap<String, String>,
}

#[test]
fn alerts_ask_for_metrics_that_are_served_and_the_page_lists_them() {
    let rules: serde_yaml::Value = serde_yaml::from_str(&read("prometheus-rules.yaml")).unwrap();
    let rules: Vec<Rule> = serde_yaml::from_value(rules["spec"]["groups"][0]["rules"].clone()).unwrap();
    let page = fs::read_to_string(repository().join("docs/reference/metrics.md")).unwrap();
    for rule in &rules {
        assert!(page.contains(&format!("| `{}` |", rule.alert)), "{} is not on the page", rule.alert);
        assert!(rule.annotations.contains_key("summary"), "{}", rule.alert);
    }
    let expressions: Vec<String> = rules.into_iter().map(|rule| rule.expr).collect();
    assert_served(&expressions);
    assert!(expressions.len() >= 10, "{} alerts", expressions.len());
}

#[test]
fn queries_of_volcanos_dashboards_have_figures_where_the_page_says_so() {
    let page = fs::read_to_string(repository().join("docs/reference/metrics.md")).unwrap();
    for (panel, query, has_figures) in VOLCANO {
        let missing = missing(query);
        assert_eq!(missing.is_empty(), *has_figures, "{panel}: {query}: {missing:?}");
        assert!(page.contains(&format!("| {panel} |")), "panel {panel} is not on the page");
    }
}

#[test]
fn a_query_for_what_is_not_served_is_found() {
    for (query, what) in [
        ("sum(rate(phalanx_cycles[5m]))", "phalanx_cycles"),
        ("phalanx_requests_total{verb=\"bind\"}", "phalanx_requests_total{verb\"bind\""),
        ("phalanx_requests_total{kind=\"bind\", result=\"lost\"}", "phalanx_requests_total{result\"lost\""),
        ("sum by (stage) (phalanx_leader)", "stage"),
        ("rate(up[5m])", "any metric"),
    ] {
        assert_eq!(missing(query), [what], "{query}");
    }
}
