//! What the scheduler asks before it schedules, of a server that does not answer at first.
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use phalanx_runtime::bootstrap::{create_queues, pod_group_has_status};
use phalanx_runtime::faults::Faults;

/// The first request of each path is never answered.
fn slow_at_first() -> (Client, Arc<AtomicU32>) {
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let first = count.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if first {
                std::future::pending::<()>().await;
            }
            let resources = r#"{"resources": [{"name": "podgroups"}, {"name": "podgroups/status"}]}"#;
            let (status, body) = match request.method().as_str() {
                "POST" => (StatusCode::CONFLICT, String::new()),
                _ => (StatusCode::OK, resources.to_owned()),
            };
            let response = Response::builder().status(status).body(Body::from(body.into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    (Client::new(service, "default"), asked)
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_at_the_start_is_sent_again() {
    let faults = Faults::new("http://fake");
    let (client, asked) = slow_at_first();
    let patience = std::time::Duration::from_mins(2);
    let has_status = tokio::time::timeout(patience, pod_group_has_status(&client, &faults)).await;
    assert_eq!((has_status, asked.load(Ordering::Relaxed)), (Ok(true), 2));
    let (client, asked) = slow_at_first();
    let created = tokio::time::timeout(patience, create_queues(&client, "default", &faults)).await;
    assert_eq!((created, asked.load(Ordering::Relaxed)), (Ok(()), 3));
    assert!(faults.is_silent(), "and that was said");
}
