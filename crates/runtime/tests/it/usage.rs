//! Usage of nodes from its sources.
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use phalanx_cluster::event::{Event, Measure, NodeUsage};
use phalanx_framework::conf::{Conf, MetricsConf, PluginConf, Tier};
use phalanx_runtime::usage::{self, Source};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::fake::{api, fails, ok};
use crate::loopback::Loopback;

fn source(metrics: &[(&str, &str)]) -> Source {
    let plugins = vec![PluginConf { name: "usage".into(), ..PluginConf::default() }];
    let metrics = metrics.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let metrics = MetricsConf(metrics);
    let conf = Conf { tiers: vec![Tier { plugins }], metrics, ..Conf::default() };
    Source::of(&conf).unwrap().expect("the plugin reads figures")
}

fn shown(usages: &[NodeUsage]) -> Vec<(&str, Measure, Measure)> {
    usages.iter().map(|usage| (&*usage.node, usage.cpu, usage.memory)).collect()
}

fn node_metrics(name: &str, cpu: &str) -> Value {
    let usage = json!({"cpu": cpu, "memory": "1Gi"});
    json!({"metadata": {"name": name}, "timestamp": "2026-11-01T10:00:30Z", "window": "20s", "usage": usage})
}

#[tokio::test]
async fn the_metrics_api_is_listed_once_for_all_nodes() {
    let (client, log) =
        api(|_| ok(json!({"items": [node_metrics("a", "250m"), {"metadata": {"name": "b"}}]})));
    let usages = usage::ask(&client, &source(&[])).await.unwrap();
    let amount = |text: &str| Measure::Amount(text.parse().unwrap());
    assert_eq!(shown(&usages), [("a", amount("250m"), amount("1Gi"))]);
    let paths: Vec<String> = log.lock().unwrap().iter().map(|seen| seen.path.clone()).collect();
    assert_eq!(paths, ["/apis/metrics.k8s.io/v1beta1/nodes"]);
}

#[tokio::test]
async fn custom_metrics_are_read_as_fractions() {
    let (client, _) = api(|seen| match seen.path.rsplit('/').next() {
        Some("node_cpu_usage_avg") => {
            ok(json!({"items": [{"describedObject": {"name": "a"}, "value": "800m"}]}))
        }
        Some("node_memory_usage_avg") => {
            ok(json!({"items": [{"describedObject": {"name": "a"}, "value": "250m"}]}))
        }
        _ => fails(404, "unknown"),
    });
    let usages = usage::ask(&client, &source(&[("type", "prometheus_adaptor")])).await.unwrap();
    assert_eq!(shown(&usages), [("a", Measure::Part(800_000), Measure::Part(250_000))]);
}

#[tokio::test]
async fn prometheus_is_queried_twice_for_all_nodes() {
    let server = Loopback::new(|asked| {
        let value = if asked.target.contains("node_cpu_seconds_total") { "12.5" } else { "75" };
        let result = json!([{"metric": {"instance": "a"}, "value": [1, value]}]);
        Some((200, json!({"status": "success", "data": {"resultType": "vector", "result": result}})))
    });
    let source = source(&[("type", "prometheus"), ("address", &server.url)]);
    let (api, _) = api(|_| fails(500, "not this one"));
    let usages = usage::ask(&source.client(&api).await.unwrap(), &source).await.unwrap();
    assert_eq!(shown(&usages), [("a", Measure::Part(125_000), Measure::Part(750_000))]);
    let log = server.log();
    assert_eq!(log.len(), 2);
    assert!(
        log.iter()
            .all(|asked| asked.target.starts_with("/api/v1/query?query=") && !asked.target.contains('{'))
    );
}

#[tokio::test]
async fn elasticsearch_is_queried_once_with_its_user() {
    let server = Loopback::new(|_| {
        let bucket = json!({"key": "a", "cpu": {"value": 0.5}, "mem": {"value": 0.25}});
        Some((200, json!({"aggregations": {"nodes": {"buckets": [bucket]}}})))
    });
    let user = [("elasticsearch.username", "me"), ("elasticsearch.password", "secret")];
    let source = source(&[("type", "elasticsearch"), ("address", &server.url), user[0], user[1]]);
    let (api, _) = api(|_| fails(500, "not this one"));
    let usages = usage::ask(&source.client(&api).await.unwrap(), &source).await.unwrap();
    assert_eq!(shown(&usages), [("a", Measure::Part(500_000), Measure::Part(250_000))]);
    let asked = &server.log()[0];
    assert_eq!((asked.method.as_str(), asked.target.as_str()), ("POST", "/metricbeat-*/_search"));
    assert_eq!(asked.authorization.as_deref(), Some("Basic bWU6c2VjcmV0"));
    assert_eq!(asked.body["aggs"]["nodes"]["terms"]["field"], "host.hostname");
}

#[tokio::test]
async fn a_source_that_fails_gives_a_reason() {
    let (client, _) = api(|_| fails(404, "the server could not find the requested resource"));
    let error = format!("{:#}", usage::ask(&client, &source(&[])).await.unwrap_err());
    assert!(error.contains("/apis/metrics.k8s.io/v1beta1/nodes"), "{error}");
    assert!(error.contains("could not find"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn usage_is_read_at_intervals_while_a_plugin_uses_it() {
    let (client, log) = api(|_| ok(json!({"items": [node_metrics("a", "1")]})));
    let (wants, wanted) = watch::channel(None);
    let (tell, told) = mpsc::channel();
    let tell = move |events: Vec<Event>| tell.send(events).unwrap();
    let poller = tokio::spawn(usage::follow(client, wanted, tell));
    let log = Arc::clone(&log);
    let asked = move || log.lock().unwrap().len();
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(asked(), 0, "no plugin uses it");
    wants.send_replace(Some(source(&[])));
    tokio::time::sleep(Duration::from_secs(65)).await;
    assert_eq!(asked(), 3, "at once, and every 30 s");
    assert!(matches!(&told.recv().unwrap()[..], [Event::NodeUsage(_)]));
    wants.send_replace(None);
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(asked(), 3);
    poller.abort();
}
