//! An API server that is a function: it sees each request and answers it.
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// A request as it arrived.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) content: String,
    pub(crate) body: Value,
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<u32>,
    pub(crate) body: Value,
}

pub(crate) fn ok(body: Value) -> Answer {
    Answer { status: 200, retry_after: None, body }
}

pub(crate) fn created() -> Answer {
    Answer { status: 201, ..ok(json!({"kind": "Status", "status": "Success"})) }
}

pub(crate) fn fails(status: u16, message: &str) -> Answer {
    let reason = match status {
        404 => "NotFound",
        409 => "Conflict",
        _ => "InternalError",
    };
    let body = json!({
        "kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message,
    });
    Answer { status, retry_after: None, body }
}

/// What was asked so far, in order.
pub(crate) type Log = Arc<Mutex<Vec<Seen>>>;

/// A client whose every request goes to `answer`.
pub(crate) fn api<F>(answer: F) -> (Client, Log)
where
    F: Fn(&Seen) -> Answer + Send + Sync + 'static,
{
    let log = Log::default();
    let (seen, answer) = (Arc::clone(&log), Arc::new(answer));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
        async move {
            let request = read(request).await;
            seen.lock().unwrap().push(request.clone());
            Ok::<_, Infallible>(write(&answer(&request)))
        }
    });
    (Client::new(service, "default"), log)
}

async fn read(request: Request<Body>) -> Seen {
    let (parts, body) = request.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let content = parts.headers.get(http::header::CONTENT_TYPE);
    Seen {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        content: content.map_or("", |value| value.to_str().unwrap()).to_owned(),
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
    }
}

fn write(answer: &Answer) -> Response<Body> {
    let mut response = Response::builder().status(StatusCode::from_u16(answer.status).unwrap());
    if let Some(seconds) = answer.retry_after {
        response = response.header(http::header::RETRY_AFTER, seconds);
    }
    response.body(Body::from(answer.body.to_string().into_bytes())).unwrap()
}
