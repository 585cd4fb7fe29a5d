//! Extenders by HTTP: questions of the core as JSON, answers as values.
//!
//! The scheduling thread waits for an answer, as long as the extender's timeout allows; connections are the async
//! runtime's. Objects are written as Volcano's and kube-scheduler's own types are, as far as the Cluster knows them: a
//! pod has one container with all that the pod requests.
mod kube;
mod objects;
mod volcano;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ::kube::client::Body;
use ::kube::{Client, Config};
use futures::{StreamExt, stream};
use http::{Request, Uri};
use http_body_util::{BodyExt, Limited};
use phalanx_cluster::Cluster;
use phalanx_cluster::id::{NodeId, TaskId};
use phalanx_core::decision::Binding;
use phalanx_framework::extender::{Endpoint, Extender, ExtenderRequest, ExtenderResponse};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::outbox::driver::chain;
use crate::server::Health;

/// The largest answer that is read. Source: Volcano.
const LARGEST: usize = 10 << 20;
/// Requests for one task at a time, where each node is asked about by itself. Source: Volcano.
const AT_ONCE: usize = 16;
/// How long a cycle waits for all extenders together; it goes on as if they did not answer.
pub const LONGEST: Duration = Duration::from_secs(30);

/// Connections to servers, one client each.
#[derive(Clone, Default)]
pub struct Clients(Arc<Mutex<FxHashMap<String, Client>>>);

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clients")
    }
}

impl Clients {
    /// Posts JSON and reads the JSON of the answer; null for an empty one.
    pub(crate) async fn post(&self, url: &str, timeout: Duration, body: &Value) -> Result<Value, String> {
        let exchange = async {
            let uri: Uri = url.parse().map_err(|error| format!("{url:?}: {error}"))?;
            let client = self.client(&uri)?;
            let request = Request::post(uri.path_and_query().map_or("/", |path| path.as_str()))
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(Body::from(body.to_string().into_bytes()))
                .map_err(|error| format!("{url}: {error}"))?;
            let answer = client.send(request).await.map_err(|error| format!("{url}: {}", chain(&error)))?;
            let (head, body) = answer.into_parts();
            let body =
                Limited::new(body, LARGEST).collect().await.map_err(|error| format!("{url}: {error}"))?;
            if head.status != http::StatusCode::OK {
                return Err(format!("{url}: status {}", head.status.as_u16()));
            }
            value(&body.to_bytes()).map_err(|error| format!("{url}: {error}"))
        };
        let late = |_| Err(format!("{url}: no answer within {timeout:?}"));
        tokio::time::timeout(timeout, exchange).await.unwrap_or_else(late)
    }

    fn client(&self, uri: &Uri) -> Result<Client, String> {
        let (scheme, authority) = uri
            .scheme_str()
            .zip(uri.authority())
            .ok_or_else(|| format!("{uri}: expected a URL such as http://127.0.0.1:8888"))?;
        let server = format!("{scheme}://{authority}");
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&server) {
            return Ok(client.clone());
        }
        let mut config = Config::new(server.parse().map_err(|error| format!("{server}: {error}"))?);
        config.default_retry = false;
        let client = Client::try_from(config).map_err(|error| format!("{server}: {}", chain(&error)))?;
        clients.insert(server, client.clone());
        Ok(client)
    }

    /// Asks an extender to bind a pod.
    ///
    /// # Errors
    /// The error of the extender, or why there is no answer.
    pub async fn bind(&self, endpoint: &Endpoint, binding: &Binding) -> Result<(), String> {
        let pod = &binding.pod;
        let body = json!({
            "PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": binding.node,
        });
        let answer = self.post(&endpoint.url, timeout(endpoint), &body).await?;
        match field(&answer, "Error").and_then(Value::as_str).filter(|text| !text.is_empty()) {
            Some(text) => Err(text.to_owned()),
            None => Ok(()),
        }
    }
}

fn timeout(endpoint: &Endpoint) -> Duration {
    Duration::from_millis(u64::try_from(endpoint.timeout_ms).unwrap_or_default())
}

/// The JSON of an answer; null for an empty one.
fn value(body: &[u8]) -> Result<Value, String> {
    if body.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(body).map_err(|error| format!("the answer is no JSON: {error}"))
}

/// What an answer says to a question, but for those about one node each.
fn response(cluster: &Cluster, ask: &ExtenderRequest, answer: &Value) -> Result<ExtenderResponse, String> {
    kube::answer(cluster, ask, answer).unwrap_or_else(|| volcano::answer(cluster, ask, answer))
}

/// Reads the body of an answer to a question, as [`HttpExtender`] does.
///
/// # Errors
/// The error of the extender, or why the body is no answer.
pub fn read_answer(
    cluster: &Cluster,
    ask: &ExtenderRequest,
    body: &[u8],
) -> Result<ExtenderResponse, String> {
    response(cluster, ask, &value(body)?)
}

/// A field by its name in any case, as Go reads it.
fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let fields = value.as_object()?;
    fields
        .get(name)
        .or_else(|| fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
}

/// Asks extenders for the scheduling thread.
#[derive(Debug)]
pub struct HttpExtender {
    runtime: Handle,
    clients: Clients,
    /// The number of the cycle.
    health: Arc<Health>,
    longest: Duration,
    waited: Mutex<Waited>,
}

/// How long a cycle has waited for extenders.
#[derive(Clone, Copy, Debug, Default)]
struct Waited {
    cycle: u64,
    time: Duration,
}

impl HttpExtender {
    /// For a thread outside the async runtime.
    pub fn new(runtime: Handle, clients: Clients, health: Arc<Health>) -> Self {
        Self { runtime, clients, health, longest: LONGEST, waited: Mutex::default() }
    }

    /// With another limit for the time that a cycle waits.
    pub fn with_limit(self, longest: Duration) -> Self {
        Self { longest, ..self }
    }

    /// Waits for an answer, as long as the cycle may still wait.
    fn wait<T>(&self, exchange: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let late =
            |_| Err(format!("the cycle has waited {:?} for extenders, and waits no more", self.longest));
        let left = self.longest.saturating_sub(self.waited().time);
        let started = Instant::now();
        let answer = self.runtime.block_on(async { tokio::time::timeout(left, exchange).await });
        self.waited().time += started.elapsed();
        answer.unwrap_or_else(late)
    }

    /// In this cycle.
    fn waited(&self) -> MutexGuard<'_, Waited> {
        let cycle = self.health.pulse.cycles();
        let mut waited = self.waited.lock().unwrap_or_else(PoisonError::into_inner);
        if waited.cycle != cycle {
            *waited = Waited { cycle, time: Duration::ZERO };
        }
        waited
    }

    /// Asks about one node at a time; a failure is that node's.
    async fn predicate(
        &self,
        cluster: &Cluster,
        url: &str,
        timeout: Duration,
        (task, nodes): (TaskId, &[NodeId]),
    ) -> ExtenderResponse {
        let task = volcano::task(cluster, task);
        let ask = |node: NodeId| {
            let body = json!({"task": &task, "node": volcano::node(cluster, node)});
            async move { (node, self.clients.post(url, timeout, &body).await) }
        };
        let mut answers = stream::iter(nodes.iter().copied().map(ask)).buffered(AT_ONCE);
        let (mut refused, mut failed) = (Vec::new(), Vec::new());
        while let Some((node, answer)) = answers.next().await {
            match answer {
                Ok(answer) => refused.extend(volcano::refusal(&answer).map(|why| (node, why.into()))),
                Err(error) => failed.push((node, error.into())),
            }
        }
        ExtenderResponse::Nodes { refused, failed }
    }
}

impl Extender for HttpExtender {
    fn ask(
        &self,
        endpoint: &Endpoint,
        verb: &str,
        cluster: &Cluster,
        ask: &ExtenderRequest,
    ) -> Result<ExtenderResponse, Arc<str>> {
        let (url, timeout) = (format!("{}/{verb}", endpoint.url), timeout(endpoint));
        let exchange = async {
            if let ExtenderRequest::Predicate(task, nodes) = ask {
                return Ok(self.predicate(cluster, &url, timeout, (*task, nodes)).await);
            }
            let names_only = endpoint.knows_objects;
            let body =
                kube::question(cluster, ask, names_only).unwrap_or_else(|| volcano::question(cluster, ask));
            let answer = self.clients.post(&url, timeout, &body).await?;
            response(cluster, ask, &answer)
        };
        self.wait(exchange).map_err(|error: String| error.into())
    }
}
