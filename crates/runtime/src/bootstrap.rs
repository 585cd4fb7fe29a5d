//! Requests before the first cycle: what the API server supports, and queues that must exist.
use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::backoff::Backoff;
use crate::client::within;
use crate::faults::Faults;

const GROUP: &str = "/apis/scheduling.volcano.sh/v1beta1";
/// A request without an answer within this time counts as a fault and is sent again.
const ANSWER: Duration = Duration::from_secs(15);
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<ResourceName>,
}

#[derive(Deserialize)]
struct ResourceName {
    name: String,
}

/// Whether PodGroups have a status subresource: Volcano's have none, a stricter CRD may. Asks until the API server
/// serves PodGroups.
pub async fn pod_group_has_status(client: &Client, faults: &Faults) -> bool {
    let mut backoff = Backoff::new(RETRY.0, RETRY.1);
    loop {
        match call(client, Request::get(GROUP), Value::Null).await {
            Ok((StatusCode::OK, body)) => {
                if let Some(has_status) = of_pod_groups(&body) {
                    return has_status;
                }
            }
            Ok((status, body)) => refused(faults, GROUP, status, &body),
            Err(error) => faults.failed(GROUP, &error),
        }
        tokio::time::sleep(backoff.next_wait()).await;
    }
}

/// Whether the list of resources has the status of PodGroups; `None` when it has no PodGroups.
fn of_pod_groups(body: &[u8]) -> Option<bool> {
    let list = serde_json::from_slice::<ResourceList>(body).ok()?;
    let has = |wanted| list.resources.iter().any(|resource| resource.name == wanted);
    has("podgroups").then(|| has("podgroups/status"))
}

/// The API server does not serve the group yet: the watches say which definitions are missing.
fn refused(faults: &Faults, what: &str, status: StatusCode, body: &[u8]) {
    if status != StatusCode::NOT_FOUND {
        faults.refused(what, status.as_u16(), &message(body));
    }
}

/// The message of the API server.
fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Status {
        message: String,
    }
    let status = serde_json::from_slice::<Status>(body);
    status.map_or_else(|_| String::from_utf8_lossy(body).into_owned(), |status| status.message)
}

/// Creates the queues every cluster has, as Volcano's scheduler does: `root`, from which nothing is reclaimed, and the
/// default queue. Tries until both are there.
pub async fn create_queues(client: &Client, default_queue: &str, faults: &Faults) {
    for (name, reclaimable) in [("root", false), (default_queue, true)] {
        create_queue(client, name, reclaimable, faults).await;
    }
}

async fn create_queue(client: &Client, name: &str, reclaimable: bool, faults: &Faults) {
    let queue = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, "reclaimable": reclaimable},
    });
    let what = format!("creation of queue {name}");
    let mut backoff = Backoff::new(RETRY.0, RETRY.1);
    loop {
        match call(client, Request::post(format!("{GROUP}/queues")), queue.clone()).await {
            Ok((StatusCode::CREATED, _)) => {
                info!(queue = name, "created the queue");
                return open_queue(client, name).await;
            }
            Ok((StatusCode::CONFLICT, _)) => return,
            Ok((status, body)) => refused(faults, &what, status, &body),
            Err(error) => faults.failed(&what, &error),
        }
        tokio::time::sleep(backoff.next_wait()).await;
    }
}

/// Without a queue controller no other client writes that the queue is open, which Volcano's webhooks require.
async fn open_queue(client: &Client, name: &str) {
    let request = Request::patch(format!("{GROUP}/queues/{name}/status"))
        .header(http::header::CONTENT_TYPE, "application/merge-patch+json");
    match call(client, request, json!({"status": {"state": "Open"}})).await {
        Ok((status, _)) if status.is_success() => {}
        Ok((status, _)) => warn!(queue = name, %status, "cannot set the queue's state"),
        Err(error) => warn!(queue = name, %error, "cannot set the queue's state"),
    }
}

async fn call(
    client: &Client,
    request: http::request::Builder,
    body: Value,
) -> kube::Result<(StatusCode, Vec<u8>)> {
    let json = request.headers_ref().is_some_and(|headers| headers.contains_key(http::header::CONTENT_TYPE));
    let request = match body {
        Value::Null => request.body(Body::empty()),
        body if json => request.body(Body::from(body.to_string().into_bytes())),
        body => request
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string().into_bytes())),
    };
    let request = request.map_err(kube::Error::HttpError)?;
    let silence = format!("no answer to {} {} within {ANSWER:?}", request.method(), request.uri().path());
    let answer = async {
        let (parts, body) = client.send(request).await?.into_parts();
        Ok::<_, kube::Error>((parts.status, body.collect().await?.to_bytes().to_vec()))
    };
    within(ANSWER, silence, answer).await
}
