//! Binds whose answer never came: they may have been carried out.
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::Method;
use phalanx_cluster::event::{BindFault, Event};
use phalanx_runtime::outbox::driver::{Driver, Input};
use phalanx_runtime::outbox::reply::{Reply, Trouble};
use phalanx_runtime::outbox::{Outbox, Work};
use serde_json::json;
use tokio::sync::mpsc;

use crate::driver::{quick, quick_driver_with};
use crate::fake::{api, fails, ok};
use crate::loopback::Loopback;
use crate::outbox::{burst, gang, name, options, passing};

fn unknown() -> Reply {
    Reply::Passing { message: "no answer".into(), trouble: Trouble::Unknown, after: None }
}

fn not_bound() -> Reply {
    Reply::Passing { message: "no answer".into(), trouble: Trouble::Object, after: None }
}

/// A pod that is bound by an outbox, which is told the answers of a server.
struct Bind {
    outbox: Outbox,
    now: Instant,
}

impl Bind {
    fn new() -> Self {
        let now = Instant::now();
        let mut outbox = Outbox::new(options());
        outbox.decide(vec![gang("a", 1)], now);
        Self { outbox, now }
    }

    /// Answers requests of one kind until another one is sent or the Cluster is told something; how often that was.
    fn answer(&mut self, kind: &str, reply: &Reply, most: usize) -> (usize, Option<Event>) {
        for count in 0..most {
            let job = loop {
                if let Some(job) = self.outbox.next(self.now) {
                    break job;
                }
                self.now = self.outbox.wake(self.now).expect("it is not given up");
            };
            if !name(&job).starts_with(kind) {
                let again = matches!(job.work, Work::Settle(_)).then(unknown);
                return (count, self.outbox.done(job, again.unwrap_or(Reply::Done), self.now).pop());
            }
            if let Some(event) = self.outbox.done(job, reply.clone(), self.now).pop() {
                return (count, Some(event));
            }
        }
        (most, None)
    }
}

#[test]
fn a_bind_keeps_its_room_until_its_pod_was_read() {
    for (read, bound) in [(Reply::Done, true), (not_bound(), false)] {
        let mut bind = Bind::new();
        let start = bind.now;
        let (attempts, told) = bind.answer("bind", &unknown(), 1000);
        assert!(attempts > 5 && told.is_none(), "{attempts} attempts, then {told:?}");
        let (reads, told) = bind.answer("settle", &unknown(), 100);
        assert_eq!((reads, told), (100, None), "whether it is bound cannot be read yet");
        assert!(bind.now - start > Duration::from_mins(3), "{:?}", bind.now - start);
        let (_, told) = bind.answer("settle", &read, 1);
        if bound {
            assert!(matches!(told, Some(Event::Bound(_))), "{told:?}");
            continue;
        }
        assert_eq!(told, None, "an outage is no reason to give its room away");
        assert!(matches!(bind.answer("bind", &Reply::Done, 1), (_, Some(Event::Bound(_)))));
    }
}

/// The server answers others, but never this bind.
#[test]
fn a_bind_that_fails_again_after_its_pod_was_read_is_reported() {
    for reply in [unknown(), passing()] {
        let mut bind = Bind::new();
        assert_eq!(bind.answer("bind", &reply, 1000).1, None);
        assert_eq!(bind.answer("settle", &not_bound(), 1).1, None);
        let (_, told) = bind.answer("bind", &reply, 1000);
        let told = told.or_else(|| bind.answer("settle", &not_bound(), 1).1);
        let Some(Event::BindFailed(_, why)) = told else { panic!("{told:?}") };
        assert_eq!((why.fault, bind.outbox.depth().binds), (BindFault::Denied, 0));
    }
}

/// A webhook is asked before the API server looks whether the pod has a node.
#[test]
fn a_refusal_of_the_next_attempt_says_nothing_about_the_first() {
    let mut bind = Bind::new();
    assert_eq!(bind.answer("bind", &unknown(), 1), (1, None));
    let refused = Reply::Refused("admission webhook \"x\" denied the request".into());
    let (_, told) = bind.answer("bind", &refused, 1000);
    assert_eq!(told, None, "its pod is read");
    assert!(matches!(bind.answer("settle", &Reply::Done, 1), (_, Some(Event::Bound(_)))));
}

#[test]
fn a_pod_that_is_deleted_is_not_read_any_more() {
    let mut bind = Bind::new();
    bind.answer("bind", &unknown(), 1000);
    bind.outbox.gone(&[Event::PodGone("uid-a-0".into())], bind.now);
    let later = bind.now + Duration::from_mins(1);
    assert!(burst(&mut bind.outbox, later).is_empty());
    assert_eq!(bind.outbox.depth().binds, 0);
}

/// Decides on a bind, and waits for what the Cluster is told.
async fn told(wire: phalanx_runtime::wire::Wire) -> Vec<Event> {
    let (tell, mut told) = mpsc::unbounded_channel();
    let quick = quick_driver_with(quick());
    let driver = Driver {
        report: move |events: Vec<Event>| tell.send(events).unwrap(),
        outbox: quick.outbox,
        context: quick.context,
        limiter: None,
        metrics: quick.metrics,
        clients: quick.clients,
        clock: quick.clock,
    };
    let (inputs, receive) = mpsc::unbounded_channel();
    inputs.send(Input::Decisions(vec![gang("a", 1)])).unwrap();
    let running = tokio::spawn(driver.run(wire, receive));
    let events = tokio::time::timeout(Duration::from_secs(20), told.recv()).await.unwrap().unwrap();
    drop(inputs);
    running.await.unwrap();
    events
}

#[tokio::test]
async fn an_api_server_in_trouble_is_asked_for_the_pod_until_it_answers() {
    let reads = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&reads);
    let (client, _) = api(move |request| {
        if request.method != Method::GET {
            return fails(504, "etcdserver: request timed out");
        }
        let mut reads = seen.lock().unwrap();
        *reads += 1;
        let pod = json!({"metadata": {"uid": "uid-a-0"}, "spec": {"nodeName": "n1"}});
        if *reads < 4 { fails(500, "etcdserver: leader changed") } else { ok(pod) }
    });
    assert_eq!(told(client.into()).await, [Event::Bound("uid-a-0".into())]);
    assert_eq!(*reads.lock().unwrap(), 4);
}

/// Over the stack that a process uses.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_lost_after_a_bind_was_sent_is_no_failure() {
    let server = Loopback::hanging_up(|asked| {
        let pod = json!({"metadata": {"uid": "uid-a-0"}, "spec": {"nodeName": "n1"}});
        (asked.method == "GET").then_some((200, pod))
    });
    let config = kube::Config::new(server.url.parse().unwrap());
    let wire = phalanx_runtime::wire::Wire::new(&config, false).unwrap();
    assert_eq!(told(wire).await, [Event::Bound("uid-a-0".into())]);
}
