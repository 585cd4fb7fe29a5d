//! Writes of a process that does not lead any more.
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use phalanx_core::decision::Decision;
use phalanx_runtime::fence::{BootTime, Gatekeeper};
use phalanx_runtime::outbox::OutboxOptions;
use phalanx_runtime::outbox::driver::Input;
use phalanx_runtime::wire::Wire;
use tokio::sync::{mpsc, watch};

use crate::claims::{Store, decision, fresh};
use crate::driver::{asked, quick, quick_driver_with};
use crate::fake::{Log, Seen, api, created};
use crate::outbox::gang;

/// Long enough to tell whether anybody waits for it.
const FLUSH: Duration = Duration::from_mins(1);

/// Ends a driver that has all this to send; returns what was sent.
async fn flush(wire: Wire, log: Log, decisions: Vec<Decision>, options: OutboxOptions) -> Vec<Seen> {
    let (inputs, receive) = mpsc::unbounded_channel();
    inputs.send(Input::Decisions(decisions)).unwrap();
    inputs.send(Input::Finish(Instant::now() + FLUSH)).unwrap();
    let running = quick_driver_with(options).run(wire, receive);
    tokio::time::timeout(FLUSH / 2, running).await.expect("nobody waits for writes that may not leave");
    log.lock().unwrap().clone()
}

#[tokio::test]
async fn a_process_that_was_stopped_past_the_end_of_its_lease_writes_nothing() {
    let (client, log) = api(|_| created());
    let (keeper, fence) = Gatekeeper::new();
    keeper.open_until(BootTime::now());
    let wire = Wire::from(client).behind(fence);
    assert_eq!(flush(wire, log, vec![gang("a", 3)], quick()).await, []);
}

#[tokio::test]
async fn a_flush_ends_when_the_lease_is_lost() {
    let (keeper, fence) = Gatekeeper::new();
    keeper.open();
    let binds = AtomicUsize::new(0);
    let (client, log) = api(move |_| {
        if binds.fetch_add(1, Ordering::Relaxed) == 1 {
            keeper.close();
        }
        created()
    });
    let one_at_a_time = OutboxOptions { in_flight: 1, ..quick() };
    let sent = flush(Wire::from(client).behind(fence), log, vec![gang("a", 5)], one_at_a_time).await;
    assert_eq!(sent.len(), 2, "{sent:?}");
}

/// The claim is read, written, and then the pod is bound: each write looks at the fence by itself.
#[tokio::test]
async fn a_bind_of_several_writes_stops_between_them() {
    let (keeper, fence) = Gatekeeper::new();
    keeper.open();
    let store = Mutex::new(Store { claim: fresh(), races: 0 });
    let (client, log) = api(move |seen| {
        keeper.close();
        store.lock().unwrap().answer(seen)
    });
    let sent = flush(Wire::from(client).behind(fence), Arc::clone(&log), vec![decision(1)], quick()).await;
    assert!(sent.iter().all(|seen| seen.method == Method::GET), "{sent:?}");
    assert_eq!(asked(&log, &Method::GET).len(), 1);
}

#[tokio::test]
async fn writes_that_wait_are_sent_once_this_process_leads() {
    let (client, log) = api(|_| created());
    let (keeper, fence) = Gatekeeper::new();
    let (inputs, receive) = mpsc::unbounded_channel();
    inputs.send(Input::Decisions(vec![gang("a", 3)])).unwrap();
    let running = tokio::spawn(quick_driver_with(quick()).run(Wire::from(client).behind(fence), receive));
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(log.lock().unwrap().is_empty());
    keeper.open();
    while asked(&log, &Method::POST).len() < 3 {
        tokio::task::yield_now().await;
    }
    drop(inputs);
    running.await.unwrap();
}

/// The lease is lost while there is no connection yet.
#[tokio::test]
async fn a_write_that_waits_for_a_connection_does_not_leave_any_more() {
    let (keeper, fence) = Gatekeeper::new();
    keeper.open();
    let (connect, connected) = watch::channel(false);
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let service = tower::service_fn(move |_: Request<Body>| {
        let (mut connected, count) = (connected.clone(), Arc::clone(&count));
        async move {
            connected.wait_for(|connected| *connected).await.unwrap();
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    });
    let wire = Wire::from(Client::new(service, "default")).behind(fence);
    let write = Request::post("/api/v1/namespaces/ns/pods/p/binding").body("{}".into()).unwrap();
    let sending = tokio::spawn(async move { wire.send(write).await });
    while connect.receiver_count() < 2 {
        tokio::task::yield_now().await;
    }
    keeper.close();
    connect.send_replace(true);
    assert!(sending.await.unwrap().is_err());
    assert_eq!(sent.load(Ordering::Relaxed), 0);
}
