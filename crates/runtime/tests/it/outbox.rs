//! The order of requests, without a server.
use std::sync::Arc;
use std::time::{Duration, Instant};

use phalanx_cluster::event::GroupRef;
use phalanx_cluster::event::{BindFault, Event, GroupStatus, Key, Phase, PodRef, Time};
use phalanx_core::decision::{Binding, Cause, Decision};
use phalanx_runtime::outbox::reply::{Reply, Trouble};
use phalanx_runtime::outbox::request::{Context, Moment, build};
use phalanx_runtime::outbox::{Job, Outbox, OutboxOptions, QueuePatch, QueueSeen, Work, Write};
use phalanx_runtime::recorder::Posting;

/// The cause of an eviction.
pub(super) fn because(reason: &str) -> Arc<Cause> {
    Arc::new(Cause { reason: reason.into(), ..Cause::default() })
}

pub(crate) fn pod(name: &str) -> Arc<PodRef> {
    Arc::new(PodRef { namespace: "ns".into(), name: name.into(), uid: format!("uid-{name}").into() })
}

pub(crate) fn gang(name: &str, size: usize) -> Decision {
    let pods = (0..size).map(|index| Binding {
        pod: pod(&format!("{name}-{index}")),
        created: Time(0),
        node: "n1".into(),
        by: None,
        prepare: Vec::new(),
    });
    Decision::Bind { job: Key::new("ns", name), pods: pods.collect() }
}

fn status(name: &str, phase: Phase, running: u32) -> Decision {
    let status = GroupStatus { phase, running, ..GroupStatus::default() };
    Decision::PodGroupStatus { group: Key::new("ns", name), uid: "g".into(), version: "".into(), status }
}

pub(super) fn unscheduled(name: &str, message: &str) -> Decision {
    Decision::PodUnscheduled { pod: pod(name), reason: "Unschedulable", message: message.into() }
}

/// Long enough without a bind for events.
pub(super) const BREAK: Duration = Duration::from_millis(300);

pub(super) fn options() -> OutboxOptions {
    OutboxOptions { in_flight: 4, scheduled_events: true, ..OutboxOptions::default() }
}

pub(super) fn passing() -> Reply {
    Reply::Passing { message: "etcdserver: leader changed".into(), trouble: Trouble::NotTaken, after: None }
}

/// A short name of a request.
pub(super) fn name(job: &Job) -> String {
    match &job.work {
        Work::Bind(binding) => format!("bind {}", binding.pod.name),
        Work::Settle(settle) => format!("settle {}", settle.binding.pod.name),
        Work::Pvc(write) => format!("claim {}", write.claim.claim.name),
        Work::Evict(eviction) => format!("evict {}", eviction.pod.name),
        Work::OpenGate(pod) => format!("gate {}", pod.name),
        Work::Write(Write::Pod(pod, _)) => format!("pod {}", pod.name),
        Work::Write(Write::PodGroup(write)) => format!("group {} {:?}", write.group.name, write.status.phase),
        Work::Write(Write::Queue(queue, _)) => format!("queue {queue}"),
        Work::Post(Posting::Create(_, note)) => format!("event {} {}", note.reason, note.regarding.key.name),
        Work::Post(Posting::Series { .. }) => "series".to_owned(),
    }
}

/// All requests that may be sent now, without any answer.
pub(super) fn burst(outbox: &mut Outbox, now: Instant) -> Vec<Job> {
    std::iter::from_fn(|| outbox.next(now)).collect()
}

/// Answers every request with success until none is due; returns the requests in order.
pub(super) fn drain(outbox: &mut Outbox, now: Instant) -> Vec<String> {
    let mut sent = Vec::new();
    while let Some(job) = outbox.next(now) {
        sent.push(name(&job));
        outbox.done(job, Reply::Done, now);
    }
    sent
}

#[test]
fn gangs_are_bound_in_order_and_within_the_window() {
    let now = Instant::now();
    let mut outbox = Outbox::new(options());
    outbox.decide(vec![gang("a", 3), gang("b", 3)], now);
    let first = burst(&mut outbox, now);
    assert_eq!(first.iter().map(name).collect::<Vec<_>>(), ["bind a-0", "bind a-1", "bind a-2", "bind b-0"]);
    for job in first {
        assert!(matches!(outbox.done(job, Reply::Done, now).pop(), Some(Event::Bound(_))));
    }
    let rest = burst(&mut outbox, now);
    assert_eq!(rest.iter().map(name).collect::<Vec<_>>(), ["bind b-1", "bind b-2"]);
}

#[test]
fn binds_are_sent_before_statuses_and_events_last() {
    let now = Instant::now();
    let mut outbox = Outbox::new(OutboxOptions { in_flight: 1, ..options() });
    outbox.decide(
        vec![unscheduled("late", "0/3 nodes"), status("g", Phase::Pending, 1), gang("a", 2), gang("b", 1)],
        now,
    );
    assert_eq!(drain(&mut outbox, now), ["bind a-0", "bind a-1", "bind b-0",]);
    assert_eq!(
        drain(&mut outbox, now + BREAK),
        ["event Scheduled a-0", "event Scheduled a-1", "event Scheduled b-0"],
        "events follow once there is a break"
    );
    let later = now + options().hold;
    let mut sent = drain(&mut outbox, later);
    sent.sort();
    let expected = ["event FailedScheduling late", "group g Pending", "pod late"];
    assert_eq!(sent, expected, "counts and messages wait until they are still");
}

#[test]
fn a_change_of_phase_is_sent_between_binds() {
    let now = Instant::now();
    let mut outbox = Outbox::new(options());
    outbox.decide(vec![gang("a", 100), status("g", Phase::Inqueue, 0), status("h", Phase::Pending, 2)], now);
    let sent: Vec<String> = burst(&mut outbox, now).iter().map(name).collect();
    assert_eq!(sent, ["bind a-0", "bind a-1", "bind a-2", "bind a-3", "group g Inqueue"]);
}

#[test]
fn only_the_newest_status_of_an_object_is_written_and_one_at_a_time() {
    let now = Instant::now();
    let mut outbox = Outbox::new(options());
    outbox.decide(vec![status("g", Phase::Inqueue, 0), status("g", Phase::Running, 1)], now);
    let mut jobs = burst(&mut outbox, now);
    assert_eq!(jobs.iter().map(name).collect::<Vec<_>>(), ["group g Running"]);
    outbox.decide(vec![status("g", Phase::Unknown, 1), status("g", Phase::Completed, 1)], now);
    assert!(burst(&mut outbox, now).is_empty(), "the first write is still in flight");
    outbox.done(jobs.remove(0), Reply::Done, now);
    assert_eq!(drain(&mut outbox, now + options().hold), ["group g Completed"]);
}

/// Pods of a gang start and end one after the other: each would be a write.
#[test]
fn a_running_group_is_written_with_the_pods_that_run_soon_and_its_counts_once_they_are_still() {
    let (mut now, hold) = (Instant::now(), options().hold);
    let mut outbox = Outbox::new(options());
    let running = |sent: &[Job]| match sent {
        [Job { work: Work::Write(Write::PodGroup(write)), .. }] => write.status.running,
        sent => panic!("{sent:?}"),
    };
    outbox.decide(vec![status("g", Phase::Running, 0)], now);
    assert!(drain(&mut outbox, now).is_empty());
    outbox.decide(vec![status("g", Phase::Running, 1)], now + hold / 2);
    now += hold;
    let sent = burst(&mut outbox, now);
    assert_eq!(running(&sent), 1);
    for job in sent {
        outbox.done(job, Reply::Done, now);
    }
    for running in 2..=4 {
        outbox.decide(vec![status("g", Phase::Running, running)], now);
        now += hold * 2;
        assert!(drain(&mut outbox, now).is_empty(), "{running} run");
    }
    assert_eq!(running(&burst(&mut outbox, now + hold * 3)), 4);
}

#[test]
fn a_group_that_is_deleted_when_it_has_completed_gets_no_status() {
    let (now, hold) = (Instant::now(), options().hold);
    for deleted in [true, false] {
        let mut outbox = Outbox::new(options());
        outbox.decide(vec![status("g", Phase::Running, 2), status("g", Phase::Completed, 0)], now);
        assert!(drain(&mut outbox, now).is_empty());
        if deleted {
            outbox.gone(&[Event::PodGroupGone(Key::new("ns", "g"))], now);
        }
        // Also between binds.
        outbox.decide(vec![gang("a", 100)], now + hold);
        let sent: Vec<String> = burst(&mut outbox, now + hold).iter().map(name).collect();
        assert_eq!(sent.contains(&"group g Completed".to_owned()), !deleted, "{sent:?}");
    }
}

#[test]
fn a_message_that_keeps_changing_is_written_after_ten_holds() {
    let start = Instant::now();
    let hold = options().hold;
    let mut outbox = Outbox::new(options());
    let sent_at = (0..40).map(|step| start + hold / 2 * step).find(|now| {
        outbox.decide(vec![unscheduled("p", &format!("{now:?}"))], *now);
        drain(&mut outbox, *now).contains(&"pod p".to_owned())
    });
    let waited = sent_at.expect("it must not wait for ever") - start;
    assert!(waited >= hold * 9 && waited <= hold * 11, "{waited:?}");
}

/// A gang of many pods takes seconds to create; until its last pod is there, all of them wait.
#[test]
fn while_pods_are_being_created_conditions_of_waiting_pods_are_held_back() {
    let start = Instant::now();
    let hold = options().hold;
    let mut outbox = Outbox::new(OutboxOptions { in_flight: 10_000, ..options() });
    let mut now = start;
    for index in 0..40 {
        outbox.decide(vec![unscheduled(&format!("p{index}"), "the gang is not complete")], now);
        assert!(drain(&mut outbox, now).is_empty());
        now += hold / 10;
    }
    assert!(drain(&mut outbox, now + hold * 8 / 10).is_empty());
    let sent = drain(&mut outbox, now + hold);
    assert_eq!(sent.iter().filter(|name| name.starts_with("pod ")).count(), 40, "now it is calm");
    now += hold;
    for index in 0..300 {
        outbox.decide(vec![unscheduled(&format!("q{index}"), "the gang is not complete")], now);
        now += hold / 10;
        if drain(&mut outbox, now).contains(&"pod q0".to_owned()) {
            assert!(index > 190 && index < 210, "after twenty holds at the latest, not after {index}");
            return;
        }
    }
    panic!("the first one waits for ever");
}

#[test]
fn the_condition_of_a_waiting_pod_is_dropped_when_it_is_bound() {
    let now = Instant::now();
    let mut outbox = Outbox::new(OutboxOptions { scheduled_events: false, ..options() });
    outbox.decide(vec![unscheduled("a-0", "0/3 nodes")], now);
    drain(&mut outbox, now);
    outbox.decide(vec![gang("a", 1)], now);
    assert_eq!(drain(&mut outbox, now + Duration::from_mins(1)), ["bind a-0"]);
}

#[test]
fn nomination_and_condition_of_a_pod_are_one_write() {
    let now = Instant::now();
    let mut outbox = Outbox::new(options());
    let nominate = Decision::Nominate { pod: pod("p"), node: Some("n1".into()) };
    outbox.decide(vec![unscheduled("p", "waits"), nominate], now);
    let writes: Vec<Write> = burst(&mut outbox, now)
        .into_iter()
        .filter_map(|job| if let Work::Write(write) = job.work { Some(write) } else { None })
        .collect();
    let [Write::Pod(_, patch)] = &writes[..] else { panic!("expected one write, got {writes:?}") };
    assert_eq!(patch.nominated, Some(Some("n1".into())));
    assert_eq!(patch.condition.as_ref().map(|(_, message)| &**message), Some("waits"));
}

#[test]
fn a_bind_is_tried_again_until_the_deadline_and_once_more_when_the_pod_was_read() {
    let start = Instant::now();
    let mut outbox = Outbox::new(options());
    outbox.decide(vec![gang("a", 1)], start);
    let (mut now, mut attempts) = (start, 0);
    let event = loop {
        let Some(job) = outbox.next(now) else {
            now = outbox.wake(now).expect("a retry is planned").max(now);
            continue;
        };
        let not_bound = Reply::Passing { message: "no node".into(), trouble: Trouble::Object, after: None };
        let reply = match &job.work {
            Work::Bind(_) => passing(),
            Work::Settle(_) => not_bound,
            _ => Reply::Done,
        };
        attempts += u32::from(matches!(job.work, Work::Bind(_)));
        if let Some(event) = outbox.done(job, reply, now).pop() {
            break event;
        }
    };
    let Event::BindFailed(uid, failure) = event else { panic!("expected a failure, got {event:?}") };
    assert_eq!((&*uid, failure.fault), ("uid-a-0", BindFault::Denied));
    assert!(failure.message.contains("leader changed"));
    assert!(attempts > 5, "{attempts} attempts");
    assert!(now - start <= options().deadline * 2 && now - start > options().deadline, "{:?}", now - start);
    assert_eq!(drain(&mut outbox, now + BREAK), ["event FailedScheduling a-0"]);
}

#[test]
fn events_are_sent_between_binds_that_never_pause() {
    let start = Instant::now();
    let mut outbox = Outbox::new(options());
    for step in 0..300 {
        let now = start + Duration::from_millis(100) * step;
        outbox.decide(vec![gang(&format!("g{step}"), 1)], now);
        if drain(&mut outbox, now).contains(&"event Scheduled g0-0".to_owned()) {
            assert!(step > 150, "not while it can wait: {step}");
            return;
        }
    }
    panic!("no event in 30 seconds");
}

#[test]
fn the_outbox_waits_as_long_as_the_server_asks() {
    let now = Instant::now();
    let mut outbox = Outbox::new(options());
    outbox.decide(vec![gang("a", 1)], now);
    let job = outbox.next(now).unwrap();
    let after = Some(Duration::from_secs(2));
    assert_eq!(
        outbox.done(job, Reply::Passing { message: "busy".into(), trouble: Trouble::NotTaken, after }, now),
        []
    );
    assert_eq!(outbox.next(now + Duration::from_millis(1999)), None);
    assert!(outbox.next(now + Duration::from_secs(2)).is_some());
}

#[test]
fn a_bind_of_a_gone_pod_fails_at_once_and_a_refused_bind_after_retries() {
    let now = Instant::now();
    let mut outbox = Outbox::new(options());
    outbox.decide(vec![gang("a", 1), gang("b", 1)], now);
    let job = outbox.next(now).unwrap();
    match &outbox.done(job, Reply::Gone("pods \"a-0\" not found".into()), now)[..] {
        [Event::BindFailed(_, failure)] => assert_eq!(failure.fault, BindFault::Gone),
        other => panic!("expected a failure, got {other:?}"),
    }
    let mut now = now;
    let refused = loop {
        match outbox.next(now) {
            Some(job) if matches!(job.work, Work::Bind(_)) => {
                if let Some(event) = outbox.done(job, Reply::Refused("forbidden".into()), now).pop() {
                    break event;
                }
            }
            Some(job) => assert_eq!(outbox.done(job, Reply::Done, now), []),
            None => now = outbox.wake(now).expect("a retry is planned"),
        }
    };
    assert!(matches!(refused, Event::BindFailed(_, failure) if failure.fault == BindFault::Denied));
}

#[test]
fn a_refused_eviction_is_reported_unless_the_pod_is_gone() {
    let start = Instant::now();
    let mut outbox = Outbox::new(options());
    let evict = |name: &str| {
        let group = Some(GroupRef { key: Key::new("ns", "g"), uid: "g".into() });
        Decision::Evict { pod: pod(name), group, cause: because("preempted by ns/urgent") }
    };
    outbox.decide(vec![evict("gone"), evict("protected")], start);
    let gone = outbox.next(start).unwrap();
    assert_eq!(outbox.done(gone, Reply::Gone("not found".into()), start), []);
    let mut now = start;
    let failed = loop {
        match outbox.next(now) {
            Some(job) if matches!(job.work, Work::Evict(..)) => {
                let refused = Reply::Refused("Cannot evict pod as it would violate the budget".into());
                if let Some(event) = outbox.done(job, refused, now).pop() {
                    break event;
                }
            }
            Some(job) => assert_eq!(outbox.done(job, Reply::Done, now), []),
            None => now = outbox.wake(now).expect("a retry is planned"),
        }
    };
    let Event::EvictFailed(uid, message) = failed else { panic!("unexpected {failed:?}") };
    assert_eq!(&*uid, "uid-protected");
    assert!(message.contains("budget"));
    assert_eq!(drain(&mut outbox, now + BREAK), ["event EvictFailed protected"]);
}

#[test]
fn the_condition_and_the_event_of_a_victim_name_its_preemptor() {
    let now = Instant::now();
    let mut outbox = Outbox::new(options());
    let reason = "preempted by ns/urgent (priority 1000) in queue default";
    let group = Some(GroupRef { key: Key::new("ns", "g"), uid: "g".into() });
    outbox.decide(vec![Decision::Evict { pod: pod("victim"), group, cause: because(reason) }], now);
    let eviction = outbox.next(now).unwrap();
    assert_eq!(outbox.done(eviction, Reply::Done, now), []);
    let patch = outbox.next(now).unwrap();
    assert_eq!(name(&patch), "pod victim");
    let context =
        Context { pod_group_status: false, controller: "volcano".into(), instance: "volcano-0".into() };
    let request = build(&patch, &context, Moment::now()).unwrap();
    assert_eq!(request.uri().path(), "/api/v1/namespaces/ns/pods/victim/status");
    let body: serde_json::Value = serde_json::from_slice(request.body()).unwrap();
    let condition = &body["status"]["conditions"][0];
    let shown = ["type", "status", "reason", "message"].map(|field| condition[field].as_str().unwrap());
    assert_eq!(shown, ["DisruptionTarget", "True", "PreemptionByScheduler", reason]);
    assert!(condition["lastTransitionTime"].is_string());
    outbox.done(patch, Reply::Gone("it was quick".into()), now);
    let event = outbox.next(now + BREAK).unwrap();
    assert!(
        matches!(&event.work, Work::Post(Posting::Create(_, note)) if note.text == reason && note.warning)
    );
    outbox.done(event, Reply::Done, now + BREAK);
    // Volcano's tools look at the PodGroup.
    let event = outbox.next(now + BREAK).unwrap();
    assert_eq!(name(&event), "event Evict g");
    let of_group = "pod of the group evicted: preempted by ns/urgent (priority 1000) in queue default";
    assert!(
        matches!(&event.work, Work::Post(Posting::Create(_, note)) if note.text == of_group && !note.warning)
    );
}

#[test]
fn errors_narrow_the_window_to_probes() {
    let mut now = Instant::now();
    let mut outbox = Outbox::new(OutboxOptions { in_flight: 64, ..options() });
    outbox.decide(vec![gang("a", 500)], now);
    let first = burst(&mut outbox, now);
    assert_eq!(first.len(), 64);
    for job in first {
        outbox.done(job, passing(), now);
    }
    assert_eq!(burst(&mut outbox, now).len(), 1, "one request probes the server");
    now += Duration::from_secs(1);
    assert_eq!(outbox.depth().binds, 500);
}

#[test]
fn binds_to_a_deleted_node_are_not_sent() {
    let now = Instant::now();
    let mut outbox = Outbox::new(OutboxOptions { in_flight: 1, ..options() });
    outbox.decide(vec![gang("a", 3)], now);
    let sent = outbox.next(now).unwrap();
    let failed = outbox.gone(&[Event::NodeGone("n1".into()), Event::NodeGone("other".into())], now);
    let uids: Vec<&str> = failed
        .iter()
        .map(|event| match event {
            Event::BindFailed(uid, failure) if failure.fault == BindFault::Place => &**uid,
            other => panic!("unexpected {other:?}"),
        })
        .collect();
    assert_eq!(uids, ["uid-a-1", "uid-a-2"]);
    assert!(
        matches!(outbox.done(sent, Reply::Done, now).pop(), Some(Event::Bound(_))),
        "it was on its way already"
    );
}

#[test]
fn no_status_or_event_is_written_for_a_deleted_object() {
    let now = Instant::now();
    let mut outbox = Outbox::new(options());
    outbox.decide(vec![unscheduled("p", "waits"), status("g", Phase::Pending, 1)], now);
    outbox.gone(&[Event::PodGone("uid-p".into()), Event::PodGroupGone(Key::new("ns", "g"))], now);
    let later = now + Duration::from_mins(1);
    assert!(drain(&mut outbox, later).is_empty());
    assert_eq!(outbox.depth().writes, 0);
}

#[test]
fn a_status_is_sent_again_unless_a_newer_one_waits() {
    let now = Instant::now();
    let mut outbox = Outbox::new(options());
    outbox.decide(vec![status("g", Phase::Inqueue, 0)], now);
    let job = outbox.next(now).unwrap();
    outbox.decide(vec![status("g", Phase::Running, 0)], now);
    outbox.done(job, passing(), now);
    assert_eq!(drain(&mut outbox, now + Duration::from_secs(1)), ["group g Running"]);
    outbox.decide(vec![status("g", Phase::Unknown, 0)], now);
    let job = outbox.next(now).unwrap();
    outbox.done(job, passing(), now);
    assert_eq!(drain(&mut outbox, now + Duration::from_secs(1)), ["group g Unknown"]);
}

#[test]
fn resources_that_a_queue_no_longer_uses_are_removed_from_its_status() {
    let now = Instant::now();
    let mut outbox = Outbox::new(options());
    outbox.queue_seen(
        "q".into(),
        QueueSeen { uid: "u1".into(), names: vec!["cpu".into(), "gpu".into()], stateless: Some("1".into()) },
    );
    let allocated = vec![("cpu".into(), "4".to_owned())];
    outbox.decide(vec![Decision::QueueStatus { queue: "q".into(), allocated }], now);
    let job = outbox.next(now + Duration::from_secs(5)).unwrap();
    let allocated = vec![("cpu".into(), Some("4".to_owned())), ("gpu".into(), None)];
    assert_eq!(
        job.work,
        Work::Write(Write::Queue("q".into(), QueuePatch { allocated, open: Some("1".into()) }))
    );
}

/// The watch of queues may have broken off. A write that another one replaces before it is sent counts too: an earlier
/// leader may have written the same.
#[test]
fn resources_that_a_queue_no_longer_uses_are_removed_though_no_watch_has_brought_their_names() {
    let now = Instant::now();
    for is_sent in [true, false] {
        let mut outbox = Outbox::new(options());
        outbox.queue_seen("q".into(), QueueSeen { uid: "u1".into(), ..QueueSeen::default() });
        let status = |allocated| Decision::QueueStatus { queue: "q".into(), allocated };
        outbox.decide(vec![status(vec![("cpu".into(), "4".to_owned())])], now);
        if is_sent {
            let job = outbox.next(now + Duration::from_secs(5)).unwrap();
            outbox.done(job, Reply::Done, now + Duration::from_secs(5));
        }
        outbox.decide(vec![status(vec![])], now + Duration::from_secs(5));
        let job = outbox.next(now + Duration::from_secs(10)).unwrap();
        let patch = QueuePatch { allocated: vec![("cpu".into(), None)], open: None };
        assert_eq!(job.work, Work::Write(Write::Queue("q".into(), patch)), "sent: {is_sent}");
    }
}

/// What a watch sees goes to the outbox at once; what is gone goes through the scheduling thread.
#[test]
fn the_late_end_of_a_queue_does_not_remove_its_successor() {
    let now = Instant::now();
    let mut outbox = Outbox::new(options());
    let successor = QueueSeen { uid: "u2".into(), names: vec!["gpu".into()], stateless: Some("1".into()) };
    outbox.queue_seen("q".into(), successor);
    outbox.gone(&[Event::QueueGone { name: "q".into(), uid: "u1".into() }], now);
    outbox.decide(vec![Decision::QueueStatus { queue: "q".into(), allocated: vec![] }], now);
    let job = outbox.next(now + Duration::from_secs(5)).unwrap();
    let patch = QueuePatch { allocated: vec![("gpu".into(), None)], open: Some("1".into()) };
    assert_eq!(job.work, Work::Write(Write::Queue("q".into(), patch)));
}

#[test]
fn retries_and_names_of_events_depend_on_the_seed_only() {
    let now = Instant::now();
    let sent = |seed| {
        let mut outbox = Outbox::new(OutboxOptions { seed, ..options() });
        outbox.decide(vec![gang("a", 1)], now);
        let bind = outbox.next(now).unwrap();
        outbox.done(bind, passing(), now);
        let retry = outbox.wake(now).unwrap() - now;
        drain(&mut outbox, now + retry);
        let event = outbox.next(now + retry + BREAK).unwrap();
        let Work::Post(Posting::Create(name, _)) = event.work else { panic!("expected an event") };
        (retry, name)
    };
    assert_eq!(sent(1), sent(1));
    let ((retry, name), (other_retry, other_name)) = (sent(1), sent(2));
    assert!(retry != other_retry && name != other_name, "{name}");
}

#[test]
fn at_shutdown_binds_and_statuses_of_podgroups_are_sent() {
    let now = Instant::now();
    let mut outbox = Outbox::new(options());
    outbox.decide(vec![gang("a", 1), status("g", Phase::Pending, 3), unscheduled("p", "waits")], now);
    outbox.hurry(now);
    let sent = drain(&mut outbox, now);
    assert_eq!(sent[..2], ["bind a-0", "group g Pending"]);
    assert!(!sent.iter().any(|name| name.starts_with("pod ")), "{sent:?}");
}

/// Both change the pod's status: the write that was decided first must not be sent last.
#[test]
fn a_bind_waits_for_the_answer_to_its_pods_status() {
    let now = Instant::now();
    for answer in [Reply::Done, passing(), Reply::Conflict("modified".into())] {
        let mut outbox = Outbox::new(OutboxOptions { scheduled_events: false, ..options() });
        let nominate = Decision::Nominate { pod: pod("a-0"), node: Some("n1".into()) };
        outbox.decide(vec![nominate], now);
        let status = outbox.next(now).unwrap();
        outbox.decide(vec![gang("a", 2)], now);
        let sent: Vec<String> = burst(&mut outbox, now).iter().map(name).collect();
        assert_eq!(sent, ["bind a-1"], "the other pod's bind does not wait");
        assert_eq!(outbox.depth().binds, 2);
        outbox.done(status, answer, now);
        assert_eq!(drain(&mut outbox, now + Duration::from_mins(1)), ["bind a-0"], "and no status after it");
    }
}

#[test]
fn a_status_of_a_pod_is_sent_after_its_bind_failed() {
    let now = Instant::now();
    let later = now + Duration::from_mins(1);
    let cases =
        [(Reply::Done, false), (Reply::Gone("gone".into()), false), (Reply::Refused("no".into()), true)];
    let decided_first = [false, true];
    for ((answer, told), first) in cases.iter().flat_map(|case| decided_first.map(|first| (case, first))) {
        let mut outbox = Outbox::new(OutboxOptions { scheduled_events: false, in_flight: 1, ..options() });
        let mut decided = [gang("a", 1), Decision::Nominate { pod: pod("a-0"), node: None }];
        if first {
            decided.reverse();
        }
        outbox.decide(decided.into(), now);
        let bind = outbox.next(now).unwrap();
        assert_eq!(name(&bind), "bind a-0");
        assert_eq!(outbox.next(now), None, "the bind is on its way");
        // Late enough for a refusal to be the last one.
        let answered = now + Duration::from_secs(40);
        outbox.done(bind, answer.clone(), answered);
        if matches!(answer, Reply::Gone(_)) {
            outbox.gone(&[Event::PodGone("uid-a-0".into())], now);
        }
        let sent = drain(&mut outbox, later);
        assert_eq!(
            sent.contains(&"pod a-0".to_owned()),
            *told,
            "{answer:?}, status first: {first}: {sent:?}"
        );
    }
}

#[test]
fn a_status_in_conflict_is_sent_again_with_the_newest_content() {
    let now = Instant::now();
    let later = now + Duration::from_secs(1);
    let conflict = || Reply::Conflict("the object has been modified".into());
    let mut outbox = Outbox::new(options());
    outbox.decide(vec![status("g", Phase::Inqueue, 0)], now);
    let job = outbox.next(now).unwrap();
    outbox.done(job, conflict(), now);
    assert_eq!(drain(&mut outbox, later), ["group g Inqueue"]);
    outbox.decide(vec![status("g", Phase::Unknown, 0)], later);
    let job = outbox.next(later).unwrap();
    outbox.decide(vec![status("g", Phase::Completed, 0)], later);
    outbox.done(job, conflict(), later);
    assert_eq!(drain(&mut outbox, later + Duration::from_secs(1)), ["group g Completed"]);

    let allocated = vec![("cpu".into(), "4".to_owned())];
    let late = later + Duration::from_secs(5);
    outbox.queue_seen(
        "q".into(),
        QueueSeen { uid: "u1".into(), names: vec!["cpu".into(), "gpu".into()], stateless: Some("1".into()) },
    );
    outbox.decide(vec![Decision::QueueStatus { queue: "q".into(), allocated }], later);
    let job = outbox.next(late).unwrap();
    outbox.queue_seen("q".into(), QueueSeen { uid: "u1".into(), names: vec!["cpu".into()], stateless: None });
    outbox.done(job, conflict(), late);
    let job = outbox.next(late + Duration::from_secs(1)).unwrap();
    let allocated = vec![("cpu".into(), Some("4".to_owned()))];
    assert_eq!(job.work, Work::Write(Write::Queue("q".into(), QueuePatch { allocated, open: None })));
}

#[test]
fn a_status_of_a_deleted_object_is_not_sent_again() {
    let now = Instant::now();
    let mut outbox = Outbox::new(options());
    outbox.decide(vec![status("g", Phase::Inqueue, 0)], now);
    let job = outbox.next(now).unwrap();
    outbox.gone(&[Event::PodGroupGone(Key::new("ns", "g"))], now);
    outbox.done(job, passing(), now);
    assert!(drain(&mut outbox, now + Duration::from_mins(1)).is_empty());
    assert_eq!(outbox.depth().writes, 0);
}

#[test]
fn retries_keep_their_order_and_go_first() {
    let now = Instant::now();
    let mut outbox = Outbox::new(OutboxOptions { scheduled_events: false, ..options() });
    outbox.decide(vec![gang("a", 3), gang("b", 2)], now);
    let mut first = burst(&mut outbox, now);
    first.reverse();
    for job in first {
        outbox.done(job, Reply::Refused("a webhook hiccups".into()), now);
    }
    let sent = drain(&mut outbox, now + Duration::from_secs(1));
    assert_eq!(sent, ["bind a-0", "bind a-1", "bind a-2", "bind b-0", "bind b-1"]);
}

#[test]
fn binds_that_are_refused_again_and_again_delay_no_other_event() {
    let start = Instant::now();
    let mut outbox = Outbox::new(options());
    outbox.decide(vec![gang("a", 2)], start);
    let refused = Reply::Refused("admission webhook \"licence\" denied the request".into());
    let failing = outbox.next(start).unwrap();
    let bound = outbox.next(start).unwrap();
    outbox.done(bound, Reply::Done, start);
    outbox.done(failing, refused.clone(), start);
    // The scheduler decides anew a second later.
    let (mut told, mut failures, mut tries) = (Vec::new(), Vec::<u32>::new(), Vec::new());
    for step in 0..80 {
        let now = start + Duration::from_millis(100) * step;
        if failures.last().is_some_and(|last| last + 10 == step) {
            outbox.decide(vec![gang("a", 1)], now);
        }
        for job in burst(&mut outbox, now) {
            let reply = if name(&job).starts_with("bind") { refused.clone() } else { Reply::Done };
            tries.extend(name(&job).starts_with("bind").then_some(step));
            told.extend(name(&job).starts_with("event").then(|| name(&job)));
            if !outbox.done(job, reply, now).is_empty() {
                failures.push(step);
            }
        }
    }
    assert!(failures.len() >= 2, "{failures:?}");
    let later = tries.iter().filter(|step| **step > failures[0]).count();
    assert!(tries.len() - later > 4, "a webhook may hiccup: {tries:?}");
    assert_eq!(
        later,
        failures.len() - 1,
        "what was refused to the end is then asked once each time: {tries:?}"
    );
    assert!(told.contains(&"event Scheduled a-1".to_owned()), "{told:?}");
    assert!(told.contains(&"event FailedScheduling a-0".to_owned()), "{told:?}");
}
