//! Claims that have to be bound before their pod.
use std::sync::Arc;
use std::time::Instant;

use phalanx_cluster::event::{BindFault, Event, Key, PodRef, Time};
use phalanx_core::decision::{Binding, Decision, Prepare, VolumeBinding};
use phalanx_runtime::outbox::reply::{Reply, Trouble};
use phalanx_runtime::outbox::{Outbox, OutboxOptions, PvcSeen, VolumeSeen, Work};

const CLAIM: &str = "data";

fn binding(volume: Option<&str>) -> Binding {
    let pod = Arc::new(PodRef { namespace: "ns".into(), name: "p".into(), uid: "p".into() });
    let claim = VolumeBinding {
        claim: Key::new("ns", CLAIM),
        uid: "c1".into(),
        volume: volume.map(Arc::from),
        made_of: None,
    };
    let prepare = vec![Prepare::Volume(Arc::new(claim))];
    Binding { pod, created: Time(0), node: "n1".into(), by: None, prepare }
}

fn volume_seen(uid: &str, version: &str) -> VolumeSeen {
    VolumeSeen { uid: uid.into(), version: version.into() }
}

fn claim_gone(uid: &str) -> Event {
    Event::PvcGone { claim: Key::new("ns", CLAIM), uid: uid.into() }
}

fn seen(uid: &str, bound: bool, selected: bool) -> PvcSeen {
    PvcSeen { uid: uid.into(), bound, selected }
}

fn decided(volume: Option<&str>, now: Instant) -> Outbox {
    let mut outbox = Outbox::new(OutboxOptions { scheduled_events: false, ..OutboxOptions::default() });
    outbox.volume_seen("v1".into(), volume_seen("1", "7"));
    let pods = vec![binding(volume)];
    outbox.decide(vec![Decision::Bind { job: Key::new("ns", "p"), pods }], now);
    outbox
}

/// The only request, which is about the claim.
fn claim_written(outbox: &mut Outbox, reply: Reply, now: Instant) -> Option<Event> {
    let job = outbox.next(now).expect("a claim to write");
    let Work::Pvc(write) = &job.work else { panic!("{job:?}") };
    assert_eq!(write.version.as_deref(), write.claim.volume.as_ref().map(|_| "7"));
    assert_eq!(outbox.next(now), None, "the pod waits for its claim");
    outbox.done(job, reply, now).pop()
}

fn binds(outbox: &mut Outbox, now: Instant) -> bool {
    matches!(outbox.next(now), Some(job) if matches!(job.work, Work::Bind(_)))
}

#[test]
fn a_pod_is_bound_after_its_claim() {
    for volume in [Some("v1"), None] {
        let now = Instant::now();
        let mut outbox = decided(volume, now);
        assert_eq!(claim_written(&mut outbox, Reply::Done, now), None);
        let key = Key::new("ns", CLAIM);
        assert!(outbox.pvc_seen(&key, seen("c1", false, true), now).is_empty());
        assert!(!binds(&mut outbox, now));
        assert!(outbox.pvc_seen(&key, seen("other", true, true), now).is_empty());
        assert!(!binds(&mut outbox, now), "another claim of that name");
        assert!(outbox.pvc_seen(&key, seen("c1", true, true), now).is_empty());
        assert!(binds(&mut outbox, now));
    }
}

#[test]
fn a_claim_that_is_bound_is_not_written_again() {
    let now = Instant::now();
    let mut outbox = Outbox::new(OutboxOptions::default());
    outbox.pvc_seen(&Key::new("ns", CLAIM), seen("c1", true, true), now);
    let pods = vec![binding(None)];
    outbox.decide(vec![Decision::Bind { job: Key::new("ns", "p"), pods }], now);
    assert!(binds(&mut outbox, now));
}

fn failure(events: &[Event]) -> &str {
    match events {
        [Event::BindFailed(uid, why)] if **uid == *"p" && why.fault == BindFault::Place => &why.message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_waits_again_when_its_claim_cannot_be_bound() {
    let now = Instant::now();
    let taken = claim_written(&mut decided(Some("v1"), now), Reply::Gone("taken".into()), now);
    assert_eq!(failure(&taken.into_iter().collect::<Vec<_>>()), "taken");

    let mut outbox = decided(None, now);
    claim_written(&mut outbox, Reply::Done, now);
    outbox.pvc_seen(&Key::new("ns", CLAIM), seen("c1", false, true), now);
    let given_up = outbox.pvc_seen(&Key::new("ns", CLAIM), seen("c1", false, false), now);
    assert_eq!(failure(&given_up), "its volume cannot be made for this node");

    let mut outbox = decided(None, now);
    claim_written(&mut outbox, Reply::Done, now);
    let deleted = outbox.gone(&[claim_gone("c1")], now);
    assert_eq!(failure(&deleted), "a PersistentVolumeClaim of it was deleted");

    let mut outbox = decided(None, now);
    claim_written(&mut outbox, Reply::Done, now);
    let timeout = OutboxOptions::default().volumes_timeout;
    let (early, late) = (now + timeout / 2, now + timeout);
    assert!(outbox.expire(early).is_empty());
    assert!(outbox.wake(early).is_some_and(|wake| wake <= late));
    assert_eq!(failure(&outbox.expire(late)), "its PersistentVolumeClaims were not bound within 600 s");
}

/// What a watch sees goes to the outbox at once; what is gone goes through the scheduling thread.
#[test]
fn the_late_end_of_a_claim_or_a_volume_does_not_remove_its_successor() {
    let now = Instant::now();
    let mut outbox = decided(None, now);
    claim_written(&mut outbox, Reply::Done, now);
    let mut late = outbox.gone(&[claim_gone("c0")], now);
    outbox.pvc_seen(&Key::new("ns", CLAIM), seen("c1", true, true), now);
    late.extend(outbox.gone(&[claim_gone("c0")], now));
    assert_eq!(late, [], "the pod waits for the claim that there is");
    assert!(binds(&mut outbox, now));

    let mut outbox = Outbox::new(OutboxOptions::default());
    outbox.pvc_seen(&Key::new("ns", CLAIM), seen("c1", true, true), now);
    outbox.gone(&[claim_gone("c0")], now);
    outbox.decide(vec![Decision::Bind { job: Key::new("ns", "p"), pods: vec![binding(None)] }], now);
    assert!(binds(&mut outbox, now), "the claim is known to be bound");

    let mut outbox = decided(Some("v1"), now);
    outbox.gone(&[Event::VolumeGone { name: "v1".into(), uid: "0".into() }], now);
    claim_written(&mut outbox, Reply::Done, now);
}

/// Whoever asks what is next also renews the lease. The time allowed is a hundred times what it takes.
#[test]
fn binds_of_many_pods_that_wait_for_claims_take_linear_time() {
    const PODS: usize = 10_000;
    let now = Instant::now();
    let mut outbox = Outbox::new(OutboxOptions { scheduled_events: false, ..OutboxOptions::default() });
    let key = |at: usize| Key::new("ns", &format!("data-{at}"));
    let waits = |at: usize| {
        let name: Arc<str> = format!("p-{at}").into();
        let pod = Arc::new(PodRef { namespace: "ns".into(), name: Arc::clone(&name), uid: name });
        let (claim, uid) = (key(at), format!("c-{at}").into());
        let claim = VolumeBinding { claim, uid, volume: None, made_of: None };
        let prepare = vec![Prepare::Volume(Arc::new(claim))];
        Binding { pod, created: Time(0), node: "n1".into(), by: None, prepare }
    };
    let pods = (0..PODS).map(waits).collect();
    outbox.decide(vec![Decision::Bind { job: Key::new("ns", "p"), pods }], now);
    while let Some(job) = outbox.next(now) {
        outbox.done(job, Reply::Done, now);
    }
    let started = Instant::now();
    for at in 0..PODS {
        assert!(outbox.wake(now).is_some() && outbox.expire(now).is_empty());
        let failed = outbox.pvc_seen(&key(at), seen(&format!("c-{at}"), true, true), now);
        assert_eq!(failed, []);
        let bind = outbox.next(now).expect("its pod can be bound");
        outbox.done(bind, Reply::Done, now);
    }
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

#[test]
fn an_outage_while_a_claim_is_written_is_no_reason_to_give_the_room_away() {
    let trouble = || Reply::Passing { message: "503".into(), trouble: Trouble::Unknown, after: None };
    let no_node = Reply::Passing { message: "503".into(), trouble: Trouble::Object, after: None };
    let mut now = Instant::now();
    let mut outbox = decided(None, now);
    let job = loop {
        let Some(job) = outbox.next(now) else {
            now = outbox.wake(now).expect("it is tried again");
            continue;
        };
        if matches!(job.work, Work::Settle(_)) {
            break job;
        }
        assert_eq!(outbox.done(job, trouble(), now), []);
    };
    assert_eq!(outbox.done(job, no_node, now), []);
    assert_eq!(claim_written(&mut outbox, Reply::Done, now), None);
    outbox.pvc_seen(&Key::new("ns", CLAIM), seen("c1", true, true), now);
    assert!(binds(&mut outbox, now));
}
