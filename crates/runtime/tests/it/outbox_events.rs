//! Kubernetes events: when they are sent, their times, and that important ones are sent in the end.
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use phalanx_cluster::event::{Condition, Event, GroupStatus, Key, Phase};
use phalanx_core::decision::Decision;
use phalanx_runtime::outbox::reply::{Reply, Trouble};
use phalanx_runtime::outbox::request::{Context, Moment, build};
use phalanx_runtime::outbox::{Job, Outbox, OutboxOptions, Work};
use phalanx_runtime::recorder::{Note, Posting};

use crate::outbox::{BREAK, burst, drain, gang, name, options, passing, pod, unscheduled};

#[test]
fn events_are_sent_while_a_bind_waits_for_its_next_attempt() {
    let now = Instant::now();
    let mut outbox = Outbox::new(options());
    outbox.decide(vec![gang("a", 2)], now);
    let failing = outbox.next(now).unwrap();
    let bound = outbox.next(now).unwrap();
    outbox.done(bound, Reply::Done, now);
    assert!(outbox.next(now + BREAK).is_none(), "while it is on its way none is sent");
    let after = Some(Duration::from_secs(5));
    outbox.done(failing, Reply::Passing { message: "busy".into(), trouble: Trouble::NotTaken, after }, now);
    assert!(drain(&mut outbox, now).is_empty());
    let talk = outbox.wake(now).unwrap();
    assert!(talk < now + BREAK);
    assert_eq!(drain(&mut outbox, talk), ["event Scheduled a-1"]);
    assert_eq!(drain(&mut outbox, now + Duration::from_secs(6)), ["bind a-0"]);
}

/// As a pod whose binds run into an error of the server each time.
#[test]
fn binds_that_fail_again_and_again_delay_no_other_event() {
    let start = Instant::now();
    let mut outbox = Outbox::new(options());
    outbox.decide(vec![gang("stuck", 1), gang("good", 1)], start);
    let (mut now, mut told) = (start, None);
    while now < start + Duration::from_secs(20) {
        while let Some(job) = outbox.next(now) {
            if name(&job) == "event Scheduled good-0" {
                told = told.or(Some(now - start));
            }
            let reply = if name(&job).starts_with("bind stuck") { passing() } else { Reply::Done };
            outbox.done(job, reply, now);
        }
        now = outbox.wake(now).expect("the next attempt is planned");
    }
    let told = told.expect("the other pod's event");
    assert!(told < Duration::from_secs(3), "{told:?}");
}

/// Answers to events do not change the rate of binds.
#[test]
fn errors_of_events_slow_events_and_not_binds() {
    let start = Instant::now();
    let mut outbox = Outbox::new(OutboxOptions { in_flight: 32, ..options() });
    for index in 0..100 {
        outbox.note(Note::failed_scheduling(&pod(&format!("p{index}")), "no room", start), start);
    }
    let events = burst(&mut outbox, start);
    assert_eq!(events.len(), 8);
    for event in events {
        outbox.done(event, passing(), start);
    }
    assert_eq!(burst(&mut outbox, start).len(), 1, "one event probes the server");
    outbox.decide(vec![gang("a", 100)], start);
    assert_eq!(burst(&mut outbox, start).len(), 32);
}

/// The event as it is sent at this time.
fn event_time(job: &Job, moment: Moment) -> String {
    let context = Context { pod_group_status: false, controller: "c".into(), instance: "i".into() };
    let request = build(job, &context, moment).unwrap();
    let body: serde_json::Value = serde_json::from_slice(request.body()).unwrap();
    body["eventTime"].as_str().unwrap().to_owned()
}

/// The status of a PodGroup that waits.
fn waits(name: &str, reason: &str) -> Decision {
    let (kind, reason) = ("Unschedulable".into(), reason.into());
    let condition = Condition { kind, status: true, reason, ..Condition::default() };
    let status = GroupStatus { phase: Phase::Inqueue, conditions: vec![condition], ..GroupStatus::default() };
    Decision::PodGroupStatus { group: Key::new("ns", name), uid: name.into(), version: "".into(), status }
}

/// So many gangs of a queue wait for the same.
fn wait_alike(count: usize, queue: &str, reason: &'static str) -> Vec<Decision> {
    let both = |index| {
        let name = format!("{queue}-{index:02}");
        let told = Decision::PodGroupUnschedulable {
            group: Key::new("ns", &name),
            uid: Arc::from(&*name),
            reason,
            message: format!("{name}-0: no room").into(),
            queue: queue.into(),
            queue_uid: format!("uid-{queue}").into(),
            cause: "no room".into(),
        };
        [told, waits(&name, reason)]
    };
    (0..count).flat_map(both).collect()
}

#[test]
fn gangs_that_wait_for_the_same_are_counted_on_their_queue_beyond_the_first_few() {
    let start = Instant::now();
    let mut outbox = Outbox::new(OutboxOptions { in_flight: 64, ..options() });
    let lack = wait_alike(12, "new", "NotEnoughTasks");
    let decisions = [wait_alike(12, "full", "NotEnoughResources"), wait_alike(10, "small", "Any"), lack];
    outbox.decide(decisions.concat(), start);
    let (mut groups, mut texts, mut now) = (0, BTreeSet::new(), start);
    while now < start + Duration::from_secs(10) {
        while let Some(job) = outbox.next(now) {
            match &job.work {
                Work::Post(Posting::Create(_, note)) => {
                    texts.insert((note.regarding.key.name.to_string(), note.text.clone()));
                }
                other => groups += usize::from(matches!(other, Work::Write(_))),
            }
            outbox.done(job, Reply::Done, now);
        }
        let Some(next) = outbox.wake(now) else { break };
        now = next;
    }
    assert_eq!(groups, 34, "each PodGroup has its condition");
    let of = |queue: &str| texts.iter().filter(|(name, _)| name.starts_with(&format!("{queue}-"))).count();
    assert_eq!((of("full"), of("small"), of("new")), (10, 10, 12), "{texts:?}");
    let text = "12 gangs wait, such as ns/full-00, ns/full-01, ns/full-02: no room";
    assert!(texts.contains(&("full".to_owned(), text.to_owned())), "{texts:?}");
    assert!(!texts.iter().any(|(name, _)| name == "small" || name == "new"), "{texts:?}");
}

#[test]
fn an_event_has_the_time_at_which_it_happened() {
    let start = Instant::now();
    let moment = Moment { instant: start, wall: "2026-01-01T00:00:00Z".parse().unwrap() };
    let secs = |seconds| start + Duration::from_secs(seconds);
    let mut outbox = Outbox::new(options());
    outbox.decide(vec![unscheduled("p", "0/3 nodes"), waits("g", "NotEnoughResources")], secs(1));
    outbox.decide(vec![gang("a", 1)], secs(3));
    let bind = outbox.next(secs(4)).unwrap();
    outbox.done(bind, Reply::Done, secs(5));
    outbox.note(Note::invalid(Note::scheduled(&pod("q"), "n", start).regarding, "bad", secs(2)), secs(5));
    let mut found = BTreeSet::new();
    while let Some(job) = outbox.next(secs(60)) {
        if matches!(job.work, Work::Post(_)) {
            let later = Moment { instant: secs(60), wall: moment.wall + Duration::from_mins(1) };
            assert_eq!(event_time(&job, moment), event_time(&job, later), "whenever it is sent");
            found.insert(format!("{} at {}", name(&job), event_time(&job, later)));
        }
        outbox.done(job, Reply::Done, secs(60));
    }
    let expected = [
        "event FailedScheduling p at 2026-01-01T00:00:01.000000Z",
        "event Invalid q at 2026-01-01T00:00:02.000000Z",
        "event Scheduled a-0 at 2026-01-01T00:00:05.000000Z",
        "event Unschedulable g at 2026-01-01T00:00:01.000000Z",
    ];
    assert_eq!(found, expected.map(str::to_owned).into());
}

/// More pods fail to be scheduled at once than the queue of events can hold.
fn flooded(start: Instant) -> Outbox {
    let mut outbox = Outbox::new(OutboxOptions { events_max: 10, ..options() });
    for index in 0..25 {
        outbox.note(Note::failed_scheduling(&pod(&format!("p{index}")), "no room", start), start);
    }
    assert_eq!((outbox.depth().events, outbox.depth().events_dropped), (10, 0));
    outbox
}

/// Sends all events as soon as they may be sent.
fn talk(outbox: &mut Outbox, mut now: Instant) -> Vec<String> {
    let mut sent = drain(outbox, now);
    while let Some(at) = outbox.wake(now) {
        now = at;
        sent.extend(drain(outbox, now));
    }
    sent
}

#[test]
fn events_of_waiting_pods_are_sent_later_under_pressure() {
    let start = Instant::now();
    let mut outbox = flooded(start);
    // An equal message is not added again, and a newer message replaces the older one.
    outbox.note(Note::failed_scheduling(&pod("p20"), "no room", start), start);
    outbox.note(Note::failed_scheduling(&pod("p21"), "no room for it", start), start);
    let sent = talk(&mut outbox, start);
    let pods: BTreeSet<&String> = sent.iter().collect();
    assert_eq!((sent.len(), pods.len()), (25, 25), "{sent:?}");
    assert_eq!(outbox.depth().events_dropped, 0);
}

#[test]
fn events_of_bound_pods_are_dropped_under_pressure_and_counted() {
    let now = Instant::now();
    let mut outbox = Outbox::new(OutboxOptions { events_max: 10, in_flight: 64, ..options() });
    outbox.decide(vec![gang("a", 25)], now);
    for job in burst(&mut outbox, now) {
        outbox.done(job, Reply::Done, now);
    }
    assert_eq!((outbox.depth().events, outbox.depth().events_dropped), (10, 15));
}

#[test]
fn events_of_waiting_pods_are_dropped_once_the_pods_wait_no_more() {
    let start = Instant::now();
    let mut outbox = flooded(start);
    outbox.gone(&[Event::PodGone("uid-p24".into())], start);
    let mut bind = gang("p", 1);
    if let Decision::Bind { pods, .. } = &mut bind {
        pods[0].pod = pod("p23");
    }
    let gang = Note::unschedulable(&Key::new("ns", "g"), &"uid-g".into(), "no room", start);
    outbox.note(gang, start);
    let (group, uid, version) = (Key::new("ns", "g"), "uid-g".into(), "".into());
    let status = GroupStatus { phase: Phase::Running, ..GroupStatus::default() };
    outbox.decide(vec![bind, Decision::PodGroupStatus { group, uid, version, status }], start);
    let sent = talk(&mut outbox, start);
    assert!(!sent.contains(&"event Unschedulable g".to_owned()), "{sent:?}");
    assert!(!sent.contains(&"event FailedScheduling p24".to_owned()), "{sent:?}");
    assert!(!sent.contains(&"event FailedScheduling p23".to_owned()), "{sent:?}");
    assert!(sent.contains(&"event FailedScheduling p22".to_owned()), "{sent:?}");
}

#[test]
fn events_that_a_failing_server_did_not_take_are_sent_once_it_works() {
    let start = Instant::now();
    let mut outbox = Outbox::new(options());
    outbox.note(Note::failed_scheduling(&pod("p"), "no room", start), start);
    let well = start + Duration::from_mins(2);
    let (mut now, mut last) = (start, None);
    while now < well {
        while let Some(job) = outbox.next(now) {
            outbox.done(job, passing(), now);
        }
        now = outbox.wake(now).expect("it is told some time");
    }
    while let Some(job) = outbox.next(now) {
        last = Some(job.clone());
        outbox.done(job, Reply::Done, now);
    }
    let Some(Work::Post(Posting::Create(_, note))) = last.map(|job| job.work) else { panic!("not told") };
    assert_eq!((note.at, &*note.text), (start, "no room"));
    assert_eq!(outbox.wake(now), None);
}
