//! Sources of usage figures: their requests, and how answers are read.
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use http::Request;
use jiff::Timestamp;
use kube::{Client, Config};
use phalanx_cache::{Interner, decode, node_usage, slim};
use phalanx_cluster::duration::parse_duration;
use phalanx_cluster::event::{Measure, NodeUsage, Time};
use phalanx_framework::conf::Conf;
use serde_json::{Value, json};
use tracing::debug;

/// Plugins that read figures.
const READERS: [&str; 2] = ["usage", "rescheduling"];
/// How often figures are asked for when `interval` does not say. Source: Volcano.
const INTERVAL: Duration = Duration::from_secs(30);

/// Use of cpu and memory by node, averaged over ten minutes, in percent. Source: Volcano's queries, of all nodes at
/// once.
const PROMETHEUS_CPU: &str = "avg_over_time(clamp_min(100 - \
    (avg by (instance) (rate(node_cpu_seconds_total{mode=\"idle\"}[5m])) * 100), 0)[10m:30s])";
const PROMETHEUS_MEMORY: &str =
    "100*avg_over_time((1-node_memory_MemAvailable_bytes/node_memory_MemTotal_bytes)[10m:30s])";

/// What to ask, and how often.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Where.
    pub place: Place,
    /// How often.
    pub interval: Duration,
}

/// Sources of usage figures: their requests, and how answers are read.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// `metrics.k8s.io`: what `kubectl top` shows.
    MetricsApi,
    /// `custom.metrics.k8s.io`, with `node_cpu_usage_avg` and `node_memory_usage_avg`.
    CustomMetrics,
    /// A Prometheus server that scrapes node exporters under the names of the nodes.
    Prometheus(Server),
    /// An Elasticsearch server that metricbeat writes to.
    Elasticsearch {
        /// The server.
        server: Server,
        /// `elasticsearch.index`.
        index: String,
        /// `elasticsearch.hostnameFieldName`.
        host: String,
    },
}

/// A server that is not the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    address: String,
    insecure: bool,
    user: Option<(String, Password)>,
}

/// How a user logs in.
#[derive(Clone, PartialEq)]
enum Password {
    /// `elasticsearch.password`.
    Text(String),
    /// `elasticsearch.passwordFile`.
    File(PathBuf),
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(not shown)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl Password {
    async fn read(&self) -> anyhow::Result<String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => {
                let of = path.clone();
                let text = tokio::task::spawn_blocking(move || std::fs::read_to_string(of)).await?;
                let text = text.with_context(|| format!("elasticsearch.passwordFile {}", path.display()))?;
                Ok(text.trim_end().to_owned())
            }
        }
    }
}

impl Source {
    /// What a configuration asks for: nothing when no plugin reads figures, or an error when it cannot be had.
    pub fn of(conf: &Conf) -> anyhow::Result<Option<Self>> {
        let mut plugins = conf.plugins();
        if !plugins.any(|plugin| READERS.contains(&plugin.name.as_str())) {
            return Ok(None);
        }
        let text = |key: &str| conf.metrics.get(key).filter(|text| !text.is_empty()).cloned();
        let password = || {
            let file = text("elasticsearch.passwordFile").map(|path| Password::File(path.into()));
            file.unwrap_or_else(|| Password::Text(text("elasticsearch.password").unwrap_or_default()))
        };
        let server = || {
            Ok::<_, anyhow::Error>(Server {
                address: text("address").context("metrics.address is missing")?,
                insecure: text("tls.insecureSkipVerify").as_deref() == Some("true"),
                user: text("elasticsearch.username").map(|user| (user, password())),
            })
        };
        let place = match text("type").as_deref() {
            None | Some("metrics_api") => Place::MetricsApi,
            Some("prometheus_adaptor") => Place::CustomMetrics,
            Some("prometheus") => Place::Prometheus(Server { user: None, ..server()? }),
            Some("elasticsearch") => Place::Elasticsearch {
                server: server()?,
                index: text("elasticsearch.index").unwrap_or_else(|| "metricbeat-*".into()),
                host: text("elasticsearch.hostnameFieldName").unwrap_or_else(|| "host.hostname".into()),
            },
            Some(other) => bail!("metrics.type {other:?} is unknown"),
        };
        let interval =
            text("interval").and_then(|text| parse_duration(&text)).filter(|interval| *interval > 0);
        Ok(Some(Self { place, interval: interval.map_or(INTERVAL, |ms| Duration::from_millis(ms as u64)) }))
    }

    /// A client for it.
    pub async fn client(&self, api: &Client) -> anyhow::Result<Client> {
        match &self.place {
            Place::MetricsApi | Place::CustomMetrics => Ok(api.clone()),
            Place::Prometheus(server) | Place::Elasticsearch { server, .. } => server.client().await,
        }
    }

    /// The figures of all nodes that it has any of.
    pub async fn ask(&self, client: &Client, now: Timestamp) -> anyhow::Result<Vec<NodeUsage>> {
        match &self.place {
            Place::MetricsApi => {
                let answer = get(client, "/apis/metrics.k8s.io/v1beta1/nodes").await?;
                Ok(of_metrics_api(&answer))
            }
            Place::CustomMetrics => {
                let path = |name: &str| format!("/apis/custom.metrics.k8s.io/v1beta2/nodes/*/{name}");
                let cpu = get(client, &path("node_cpu_usage_avg")).await?;
                let memory = get(client, &path("node_memory_usage_avg")).await?;
                Ok(self.usages(&of_custom_metrics(&cpu), &of_custom_metrics(&memory), now))
            }
            Place::Prometheus(_) => {
                let path = |query| format!("/api/v1/query?query={}", encoded(query));
                let cpu = of_prometheus(&get(client, &path(PROMETHEUS_CPU)).await?)?;
                let memory = of_prometheus(&get(client, &path(PROMETHEUS_MEMORY)).await?)?;
                Ok(self.usages(&cpu, &memory, now))
            }
            Place::Elasticsearch { index, host, .. } => {
                let request = Request::post(format!("/{}/_search", encoded(index)))
                    .header(http::header::CONTENT_TYPE, "application/json")
                    .body(serde_json::to_vec(&elastic_query(host))?)?;
                let (cpu, memory) = of_elasticsearch(&client.request(request).await?);
                Ok(self.usages(&cpu, &memory, now))
            }
        }
    }

    /// Figures of nodes of which both are known. A pod that came within the last interval is hardly in them.
    fn usages(&self, cpu: &Percents, memory: &Percents, now: Timestamp) -> Vec<NodeUsage> {
        let now = now.as_millisecond();
        let nodes: BTreeSet<&String> = cpu.keys().filter(|node| memory.contains_key(*node)).collect();
        let usage = |node: &String| NodeUsage {
            node: node.as_str().into(),
            cpu: part(cpu[node]),
            memory: part(memory[node]),
            since: Time(now - self.interval.as_millis() as i64),
            at: Some(Time(now)),
        };
        nodes.into_iter().map(usage).collect()
    }
}

impl Server {
    async fn client(&self) -> anyhow::Result<Client> {
        let address = self.address.parse().with_context(|| format!("metrics.address {:?}", self.address))?;
        let mut config = Config::new(address);
        config.accept_invalid_certs = self.insecure;
        config.default_retry = false;
        if let Some((user, password)) = &self.user {
            config.auth_info.username = Some(user.clone());
            config.auth_info.password = Some(password.read().await?.into());
        }
        Client::try_from(config).with_context(|| format!("metrics.address {:?}", self.address))
    }
}

async fn get(client: &Client, path: &str) -> anyhow::Result<Value> {
    let request = Request::get(path).body(Vec::new()).with_context(|| path.to_owned())?;
    client.request(request).await.with_context(|| format!("GET {path}"))
}

/// Percent-encodes text for a URL.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~*".contains(&byte) {
            encoded.push(byte.into());
        } else {
            write!(encoded, "%{byte:02X}").expect("writing to text does not fail");
        }
        encoded
    })
}

/// Percent of use by node.
type Percents = BTreeMap<String, f64>;

fn part(percent: f64) -> Measure {
    Measure::Part((percent * 10_000.0).round().clamp(0.0, f64::from(u32::MAX)) as u32)
}

/// A figure that cannot be read is that of a node that is not measured yet.
fn of_metrics_api(answer: &Value) -> Vec<NodeUsage> {
    let mut interner = Interner::default();
    let one = |item: &Value| {
        let usage = decode::<slim::NodeMetrics>(item).and_then(|metrics| node_usage(&metrics, &mut interner));
        usage.inspect_err(|invalid| debug!("metrics.k8s.io: {invalid}")).ok()
    };
    items(answer, "/items").filter_map(one).collect()
}

/// Parts of a whole, as quantities.
fn of_custom_metrics(answer: &Value) -> Percents {
    let one = |item: &Value| {
        let name = item.pointer("/describedObject/name")?.as_str()?;
        let value: phalanx_resource::Quantity = item.get("value")?.as_str()?.parse().ok()?;
        Some((name.to_owned(), value.milli() as f64 / 10.0))
    };
    items(answer, "/items").filter_map(one).collect()
}

/// The first sample of each instance.
fn of_prometheus(answer: &Value) -> anyhow::Result<Percents> {
    if answer.get("status").and_then(Value::as_str) != Some("success") {
        bail!("Prometheus: {}", answer.get("error").and_then(Value::as_str).unwrap_or("no success"));
    }
    let one = |sample: &Value| {
        let name = sample.pointer("/metric/instance")?.as_str()?;
        let value: f64 = sample.pointer("/value/1")?.as_str()?.parse().ok()?;
        Some((name.to_owned(), value)).filter(|(_, value)| value.is_finite())
    };
    Ok(items(answer, "/data/result").filter_map(one).collect())
}

/// Averages over ten minutes, by host.
fn elastic_query(host: &str) -> Value {
    let average = |field: &str| json!({"avg": {"field": field}});
    json!({
        "size": 0,
        "query": {"range": {"@timestamp": {"gte": "now-10m", "lt": "now"}}},
        "aggs": {"nodes": {
            "terms": {"field": host, "size": 10_000},
            "aggs": {"cpu": average("host.cpu.usage"), "mem": average("system.memory.actual.used.pct")},
        }},
    })
}

fn of_elasticsearch(answer: &Value) -> (Percents, Percents) {
    let of = |name: &str| {
        let one = |bucket: &Value| {
            let value = bucket.pointer(&format!("/{name}/value"))?.as_f64()?;
            Some((bucket.get("key")?.as_str()?.to_owned(), value * 100.0))
        };
        items(answer, "/aggregations/nodes/buckets").filter_map(one).collect()
    };
    (of("cpu"), of("mem"))
}

fn items<'a>(answer: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    answer.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_framework::conf::{MetricsConf, PluginConf, Tier};

    fn conf(plugin: &str, metrics: &[(&str, &str)]) -> Conf {
        let plugins = vec![PluginConf { name: plugin.into(), ..PluginConf::default() }];
        let metrics = metrics.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let metrics = MetricsConf(metrics);
        Conf { tiers: vec![Tier { plugins }], metrics, ..Conf::default() }
    }

    fn server(address: &str) -> Server {
        Server { address: address.into(), insecure: false, user: None }
    }

    #[test]
    fn the_configuration_names_source_address_and_interval() {
        let of = |plugin: &str, metrics: &[(&str, &str)]| Source::of(&conf(plugin, metrics)).unwrap();
        assert_eq!(of("gang", &[("type", "prometheus")]), None, "nobody reads figures");
        let default = Source { place: Place::MetricsApi, interval: Duration::from_secs(30) };
        assert_eq!(of("usage", &[]), Some(default.clone()));
        assert_eq!(of("rescheduling", &[("interval", "soon")]), Some(default.clone()));
        assert_eq!(of("usage", &[("interval", "5s")]).unwrap().interval, Duration::from_secs(5));
        let place = |metrics: &[(&str, &str)]| of("usage", metrics).unwrap().place;
        assert_eq!(place(&[("type", "prometheus_adaptor")]), Place::CustomMetrics);
        let address = ("address", "http://p:9090");
        assert_eq!(place(&[("type", "prometheus"), address]), Place::Prometheus(server("http://p:9090")));
        let user =
            [("elasticsearch.username", "me"), ("tls.insecureSkipVerify", "true"), ("type", "elasticsearch")];
        let elastic = place(&[user[0], user[1], user[2], address, ("elasticsearch.index", "i")]);
        let server = Server {
            insecure: true,
            user: Some(("me".into(), Password::Text(String::new()))),
            ..server("http://p:9090")
        };
        assert_eq!(elastic, Place::Elasticsearch { server, index: "i".into(), host: "host.hostname".into() });
        for (metrics, problem) in [
            (vec![("type", "prometheus")], "metrics.address is missing"),
            (vec![("type", "crystal_ball")], "metrics.type \"crystal_ball\" is unknown"),
        ] {
            assert_eq!(Source::of(&conf("usage", &metrics)).unwrap_err().to_string(), problem);
        }
    }

    #[tokio::test]
    async fn a_password_is_shown_to_nobody_and_may_stand_in_a_file() {
        let elastic = |metrics: &[(&str, &str)]| {
            let all = [("type", "elasticsearch"), ("address", "http://e"), ("elasticsearch.username", "me")];
            Source::of(&conf("usage", &[&all, metrics].concat())).unwrap().unwrap()
        };
        let shown = format!("{:?}", elastic(&[("elasticsearch.password", "hunter2")]));
        assert!(!shown.contains("hunter2"), "{shown}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "hunter2\n").unwrap();
        let path = file.path().to_str().unwrap();
        let both = [("elasticsearch.password", "old"), ("elasticsearch.passwordFile", path)];
        let Place::Elasticsearch { server, .. } = elastic(&both).place else {
            panic!("expected Elasticsearch")
        };
        assert_eq!(server.user.unwrap().1.read().await.unwrap(), "hunter2");
        let missing = elastic(&[("elasticsearch.passwordFile", "/nowhere")]);
        let Place::Elasticsearch { server, .. } = missing.place else { panic!("expected Elasticsearch") };
        let error = server.client().await.err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("elasticsearch.passwordFile /nowhere"));
    }

    #[test]
    fn missing_parts_of_an_answer_are_skipped() {
        let custom = json!({"items": [
            {"describedObject": {"name": "a"}, "value": "250m"},
            {"describedObject": {"name": "b"}, "value": "1"},
            {"describedObject": {"name": "c"}, "value": "much"},
            {"value": "1"},
        ]});
        assert_eq!(of_custom_metrics(&custom), [("a".into(), 25.0), ("b".into(), 100.0)].into());
        let vector = json!({"status": "success", "data": {"resultType": "vector", "result": [
            {"metric": {"instance": "a"}, "value": [1, "12.5"]},
            {"metric": {"instance": "b"}, "value": [1, "NaN"]},
            {"metric": {}, "value": [1, "1"]},
        ]}});
        assert_eq!(of_prometheus(&vector).unwrap(), [("a".into(), 12.5)].into());
        let failure = of_prometheus(&json!({"status": "error", "error": "parse error"})).unwrap_err();
        assert_eq!(failure.to_string(), "Prometheus: parse error");
        let buckets = json!({"aggregations": {"nodes": {"buckets": [
            {"key": "a", "cpu": {"value": 0.5}, "mem": {"value": 0.25}},
            {"key": "b", "cpu": {"value": null}, "mem": {"value": 0.25}},
        ]}}});
        let (cpu, memory) = of_elasticsearch(&buckets);
        assert_eq!((cpu, memory.len()), ([("a".into(), 50.0)].into(), 2));
        assert_eq!(of_metrics_api(&json!({"items": [{"metadata": {"name": "a"}}]})), []);
    }

    #[test]
    fn only_nodes_with_usage_of_cpu_and_memory_are_reported() {
        let source = Source { place: Place::CustomMetrics, interval: Duration::from_secs(30) };
        let percents =
            |list: &[(&str, f64)]| list.iter().map(|(name, value)| ((*name).into(), *value)).collect();
        let now = Timestamp::from_millisecond(100_000).unwrap();
        let usages = source.usages(&percents(&[("a", 12.5), ("b", 1.0)]), &percents(&[("a", 200.0)]), now);
        let (cpu, memory) = (Measure::Part(125_000), Measure::Part(2_000_000));
        let (since, at) = (Time(70_000), Some(Time(100_000)));
        assert_eq!(usages, [NodeUsage { node: "a".into(), cpu, memory, since, at }]);
    }
}
