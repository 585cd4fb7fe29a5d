//! Pods that are deleted while their bind is under way.
use std::time::{Duration, Instant};

use phalanx_cluster::event::{Event, Key};
use phalanx_core::decision::{Decision, Prepare, VolumeBinding};
use phalanx_runtime::outbox::reply::{Reply, Trouble};
use phalanx_runtime::outbox::{Outbox, OutboxOptions, Work};

use crate::outbox::{drain, gang, name, options, passing};

fn gone(pod: &str) -> Event {
    Event::PodGone(format!("uid-{pod}").into())
}

fn in_doubt() -> Reply {
    Reply::Passing { message: "no answer".into(), trouble: Trouble::Unknown, after: None }
}

fn outbox(in_flight: usize) -> Outbox {
    Outbox::new(OutboxOptions { in_flight, scheduled_events: false, ..options() })
}

/// The pods that the outbox gives up, for whoever plans them anew.
fn given_up(told: &[Event]) -> Vec<String> {
    let uid = |event: &Event| match event {
        Event::BindFailed(uid, why) => format!("{uid}: {}", why.message),
        other => panic!("{other:?}"),
    };
    told.iter().map(uid).collect()
}

#[test]
fn a_bind_of_a_deleted_pod_that_was_not_sent_is_dropped() {
    let now = Instant::now();
    let mut outbox = outbox(1);
    outbox.decide(vec![gang("a", 3)], now);
    let first = outbox.next(now).unwrap();
    outbox.done(first, Reply::Done, now);
    let told = outbox.gone(&[gone("a-1"), gone("other")], now);
    assert!(told.is_empty(), "whoever told us knows: {told:?}");
    assert_eq!(outbox.depth().binds, 1);
    assert_eq!(drain(&mut outbox, now), ["bind a-2"]);
}

#[test]
fn a_gang_of_which_no_pod_is_bound_is_given_up_as_a_whole() {
    let other = |pod: &str| format!("uid-{pod}: another pod of its gang was not bound");
    let node = "uid-a-0: node n1 was deleted before the pod was bound".to_owned();
    let now = Instant::now();
    let decided = || {
        let mut outbox = outbox(1);
        let Decision::Bind { job, mut pods } = gang("a", 3) else { unreachable!() };
        pods[1].node = "n2".into();
        pods[2].node = "n2".into();
        outbox.decide(vec![Decision::Bind { job, pods }, gang("b", 1)], now);
        outbox
    };
    let node_gone = [Event::NodeGone("n1".into())];
    let refused = || Reply::Refused("denied by a webhook".into());
    // Not sent; a pod is gone; refused and not sent again.
    let mut outbox = decided();
    let told = given_up(&outbox.gone(&node_gone, now));
    assert_eq!((&told[0], &told[2..]), (&node, &[other("a-1"), other("a-2")][..]), "and the bind of b");
    let mut outbox = decided();
    assert_eq!(given_up(&outbox.gone(&[gone("a-1")], now)), [other("a-0"), other("a-2")]);
    assert_eq!(drain(&mut outbox, now), ["bind b-0"]);
    let mut outbox = decided();
    let first = outbox.next(now).unwrap();
    assert_eq!(outbox.done(first, refused(), now), []);
    assert_eq!(given_up(&outbox.gone(&node_gone, now)).len(), 4, "the bind of b is for that node too");
    // One is on its way, is bound, or may be bound: the others follow.
    for reply in [None, Some(Reply::Done), Some(in_doubt())] {
        let mut outbox = decided();
        let first = outbox.next(now).unwrap();
        if let Some(reply) = reply {
            outbox.done(first, reply, now);
        }
        assert_eq!(given_up(&outbox.gone(&[gone("a-2")], now)), [""; 0]);
    }
    let mut outbox = decided();
    outbox.next(now).unwrap();
    let told = given_up(&outbox.gone(&node_gone, now));
    assert!(!told.contains(&node) && told.len() == 1, "{told:?}");
    // The one on its way is refused, and its pod is gone.
    let mut outbox = decided();
    let first = outbox.next(now).unwrap();
    assert_eq!(outbox.gone(&[gone("a-0")], now), []);
    assert_eq!(given_up(&outbox.done(first, refused(), now)), [other("a-1"), other("a-2")]);
}

#[test]
fn a_bind_of_a_deleted_pod_that_waits_for_its_next_attempt_is_dropped() {
    let now = Instant::now();
    for reply in [passing(), Reply::Refused("denied by a webhook".into())] {
        let mut outbox = outbox(1);
        outbox.decide(vec![gang("a", 1)], now);
        let job = outbox.next(now).unwrap();
        assert_eq!(outbox.done(job, reply, now), []);
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
        assert_eq!(sent.done(first, reply, now), []);
        assert_eq!((sent.next(now), sent.wake(now)), (None, None));
    }
}
