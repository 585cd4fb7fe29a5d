//! Pods that are deleted while their bind is under way.
use std::time::{Duration, Instant};

use phalanx_cluster::event::{Event, Key};
use phalanx_core::decision::{Decision, Prepare, VolumeBinding};
use phalanx_runtime::outbox::reply::Reply;
use phalanx_runtime::outbox::{Outbox, OutboxOptions, Work};

use crate::outbox::{drain, gang, name, options, passing};

fn gone(pod: &str) -> Event {
    Event::PodGone(format!("uid-{pod}").into())
}

fn outbox(in_flight: usize) -> Outbox {
    Outbox::new(OutboxOptions { in_flight, scheduled_events: false, ..options() })
}

#[test]
fn a_bind_of_a_deleted_pod_that_was_not_sent_is_dropped() {
    let now = Instant::now();
    let mut outbox = outbox(1);
    outbox.decide(vec![gang("a", 3)], now);
    let told = outbox.gone(&[gone("a-1"), gone("other")], now);
    assert!(told.is_empty(), "whoever told us knows: {told:?}");
    assert_eq!(outbox.depth().binds, 2);
    assert_eq!(drain(&mut outbox, now), ["bind a-0", "bind a-2"]);
}

#[test]
fn a_bind_of_a_deleted_pod_that_waits_for_its_next_attempt_is_dropped() {
    let now = Instant::now();
    for reply in [passing(), Reply::Refused("denied by a webhook".into())] {
        let mut outbox = outbox(1);
        outbox.decide(vec![gang("a", 1)], now);
        let job = outbox.next(now).unwrap();
        assert_eq!(outbox.done(job, reply, now), None);
        outbox.gone(&[gone("a-0")], now);
        assert_eq!((outbox.depth().binds, outbox.wake(now)), (0, None));
    }
}

#[test]
fn a_bind_of_a_deleted_pod_that_waits_for_its_status_is_dropped() {
    let now = Instant::now();
    let mut outbox = outbox(4);
    let pod = crate::outbox::pod("a-0");
    outbox.decide(vec![Decision::Nominate { pod, node: Some("n1".into()) }], now);
    let status = outbox.next(now).unwrap();
    outbox.decide(vec![gang("a", 1)], now);
    assert_eq!(outbox.next(now), None, "it waits");
    outbox.gone(&[gone("a-0")], now);
    outbox.done(status, Reply::Done, now);
    assert_eq!((drain(&mut outbox, now), outbox.depth().binds), (vec![], 0));
}

#[test]
fn a_bind_of_a_deleted_pod_that_was_sent_is_not_tried_again() {
    let now = Instant::now();
    for reply in [passing(), Reply::Refused("denied by a webhook".into()), Reply::Gone("not found".into())] {
        let mut outbox = outbox(1);
        outbox.decide(vec![gang("a", 1)], now);
        let job = outbox.next(now).unwrap();
        outbox.gone(&[gone("a-0")], now);
        outbox.done(job, reply, now);
        assert_eq!(drain(&mut outbox, now + Duration::from_mins(1)), Vec::<String>::new());
        assert_eq!((outbox.depth().binds, outbox.wake(now)), (0, None));
    }
}

#[test]
fn no_claim_is_written_for_a_pod_that_is_gone() {
    let now = Instant::now();
    let with_claims = || {
        let mut decision = gang("a", 1);
        let claim = |name: &str| VolumeBinding {
            claim: Key::new("ns", name),
            uid: name.into(),
            volume: None,
            made_of: None,
        };
        if let Decision::Bind { pods, .. } = &mut decision {
            pods[0].prepare = ["c1", "c2"].map(|name| Prepare::Volume(claim(name).into())).into();
        }
        decision
    };
    let mut waits = outbox(1);
    waits.decide(vec![with_claims()], now);
    waits.gone(&[gone("a-0")], now);
    assert_eq!(waits.next(now), None);
    for reply in [Reply::Done, passing(), Reply::Conflict("modified".into())] {
        let mut sent = outbox(1);
        sent.decide(vec![with_claims()], now);
        let first = sent.next(now).unwrap();
        assert!(matches!(&first.work, Work::Pvc(_)), "{}", name(&first));
        sent.gone(&[gone("a-0")], now);
        assert_eq!(sent.done(first, reply, now), None);
        assert_eq!((sent.next(now), sent.wake(now)), (None, None));
    }
}
