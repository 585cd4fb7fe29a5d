//! Statuses that the API server refuses: none is lost, and none is sent too often.
use std::time::{Duration, Instant};

use phalanx_cluster::event::{GroupStatus, Key, Phase};
use phalanx_core::decision::Decision;
use phalanx_runtime::outbox::reply::{Problem, Reply, read};
use phalanx_runtime::outbox::{Outbox, OutboxOptions, Work, Write};

use crate::outbox::{burst, gang, options, pod};

fn condition(name: &str, message: &str) -> Decision {
    Decision::PodUnscheduled { pod: pod(name), reason: "Unschedulable", message: message.into() }
}

fn nomination(name: &str) -> Decision {
    Decision::Nominate { pod: pod(name), node: Some("n1".into()) }
}

fn status(running: u32) -> Decision {
    let status = GroupStatus { phase: Phase::Running, running, ..GroupStatus::default() };
    Decision::PodGroupStatus { group: Key::new("ns", "g"), uid: "g".into(), version: "".into(), status }
}

fn allocated(cpu: &str) -> Decision {
    Decision::QueueStatus { queue: "q".into(), allocated: vec![("cpu".into(), cpu.to_owned())] }
}

fn refusal() -> Reply {
    Reply::Refused("denied by a webhook".into())
}

/// An outbox and the time.
struct Play {
    outbox: Outbox,
    start: Instant,
    now: Instant,
    /// All writes with their times since the start.
    sent: Vec<(Duration, Write)>,
}

impl Play {
    fn new(decisions: Vec<Decision>) -> Self {
        let (mut outbox, now) = (Outbox::new(OutboxOptions::default()), Instant::now());
        outbox.decide(decisions, now);
        Self { outbox, start: now, now, sent: Vec::new() }
    }

    /// Runs until this time after the start, with this answer to each write.
    fn until(&mut self, after: Duration, answer: &Reply) {
        let end = self.start + after;
        loop {
            while let Some(job) = self.outbox.next(self.now) {
                let mut reply = &Reply::Done;
                if let Work::Write(write) = &job.work {
                    self.sent.push((self.now - self.start, write.clone()));
                    reply = answer;
                }
                self.outbox.done(job, reply.clone(), self.now);
            }
            match self.outbox.wake(self.now).filter(|at| *at <= end) {
                Some(at) => self.now = at,
                None => break,
            }
        }
        self.now = end;
    }
}

#[test]
fn a_write_that_was_refused_is_sent_again() {
    for decision in [condition("p", "no room"), nomination("p"), status(3), allocated("4")] {
        let mut play = Play::new(vec![decision]);
        let job = loop {
            match play.outbox.next(play.now) {
                Some(job) => break job,
                None => play.now = play.outbox.wake(play.now).unwrap(),
            }
        };
        play.outbox.done(job.clone(), refusal(), play.now);
        play.until(Duration::from_secs(5), &Reply::Done);
        let [(_, again)] = &play.sent[..] else { panic!("{:?}", play.sent) };
        assert_eq!(Work::Write(again.clone()), job.work);
        assert_eq!(play.outbox.depth().writes, 0);
    }
}

#[test]
fn a_write_that_is_always_refused_is_sent_at_growing_intervals() {
    let mut play = Play::new(vec![status(3)]);
    play.until(Duration::from_hours(1), &refusal());
    assert!((15..35).contains(&play.sent.len()), "{}", play.sent.len());
    let gaps: Vec<Duration> = play.sent.windows(2).map(|pair| pair[1].0.abs_diff(pair[0].0)).collect();
    assert!(gaps[0] <= Duration::from_secs(1) && gaps.iter().all(|gap| *gap <= Duration::from_mins(5)));
}

#[test]
fn conflicts_do_not_lengthen_the_wait_after_a_refusal() {
    let mut play = Play::new(vec![allocated("4")]);
    play.until(Duration::from_secs(10), &refusal());
    play.until(Duration::from_secs(90), &Reply::Conflict("another writer".into()));
    let before = play.sent.len();
    play.until(Duration::from_secs(200), &refusal());
    let [first, second] = [0, 1].map(|at| play.sent[before + at].0);
    assert!(second < first + Duration::from_secs(3), "{first:?}, {second:?}");
}

#[test]
fn newer_content_of_a_refused_write_waits_for_its_back_off() {
    let mut play = Play::new(vec![status(0)]);
    for step in 1..=600 {
        play.until(Duration::from_millis(100) * step, &refusal());
        play.outbox.decide(vec![status(step)], play.now);
    }
    assert!(play.sent.len() < 10, "{}", play.sent.len());
    play.sent.clear();
    play.until(Duration::from_mins(10), &Reply::Done);
    let [(_, Write::PodGroup(last))] = &play.sent[..] else { panic!("{:?}", play.sent) };
    assert_eq!(last.status.running, 600);
    play.outbox.decide(vec![status(601)], play.now);
    let before = play.now - play.start;
    play.until(Duration::from_mins(11), &Reply::Done);
    assert!(play.sent[1].0 <= before + OutboxOptions::default().hold * 5, "it is as any other again");
}

#[test]
fn refused_writes_of_many_pods_are_sent_again_at_a_limited_rate() {
    let all = (0..5000).map(|index| condition(&format!("p{index}"), "no room")).collect();
    let mut play = Play::new(all);
    play.until(Duration::from_mins(10), &refusal());
    let mut seconds = vec![0; 601];
    play.sent.iter().skip(5000).for_each(|(at, _)| seconds[at.as_secs() as usize] += 1);
    assert!(seconds.iter().all(|writes| *writes <= 21), "{seconds:?}");
    play.sent.clear();
    play.until(Duration::from_hours(2), &Reply::Done);
    assert_eq!((play.sent.len(), play.outbox.depth().writes), (5000, 0));
}

#[test]
fn a_newer_write_keeps_the_fields_of_a_refused_one() {
    for answer in [refusal(), Reply::Conflict("modified".into())] {
        let mut play = Play::new(vec![nomination("p")]);
        let job = play.outbox.next(play.now).unwrap();
        play.outbox.decide(vec![condition("p", "no room")], play.now);
        play.outbox.done(job, answer, play.now);
        play.until(Duration::from_secs(10), &Reply::Done);
        let [(_, Write::Pod(_, patch))] = &play.sent[..] else { panic!("{:?}", play.sent) };
        assert_eq!(patch.nominated, Some(Some("n1".into())));
        assert_eq!(patch.condition.as_ref().map(|(_, message)| &**message), Some("no room"));
    }
}

#[test]
fn shutdown_does_not_wait_for_refused_writes() {
    let mut play = Play::new(vec![status(3), allocated("4")]);
    play.until(Duration::from_secs(2), &refusal());
    assert_eq!(play.outbox.depth().writes, 2);
    play.outbox.decide(vec![Decision::QueueStatus { queue: "r".into(), allocated: Vec::new() }], play.now);
    play.outbox.hurry(play.now);
    play.until(Duration::from_secs(3), &refusal());
    assert_eq!(play.outbox.depth().writes, 0);
}

#[test]
fn a_webhook_that_fails_for_some_pods_slows_no_others() {
    let now = Instant::now();
    let mut outbox = Outbox::new(options());
    outbox.decide(vec![gang("a", 4), gang("b", 40)], now);
    let fails =
        br#"{"message": "Internal error occurred: failed calling webhook \"x\": Post \"https://x\": EOF"}"#;
    let answer = read(http::StatusCode::INTERNAL_SERVER_ERROR, &http::HeaderMap::new(), fails);
    let Err(Problem::Other(reply)) = answer else { panic!("{answer:?}") };
    for job in burst(&mut outbox, now) {
        assert_eq!(outbox.done(job, reply.clone(), now), [], "it is tried again");
    }
    assert_eq!(burst(&mut outbox, now).len(), options().in_flight);
}
