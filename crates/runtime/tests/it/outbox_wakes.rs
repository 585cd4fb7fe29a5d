//! After any sequence of events the outbox plans its next wake-up.
use std::time::{Duration, Instant};

use phalanx_cluster::event::{Condition, Event, GroupStatus, Key, Phase};
use phalanx_core::decision::{Decision, Prepare, VolumeBinding};
use phalanx_runtime::outbox::reply::{Reply, Trouble};
use phalanx_runtime::outbox::{Job, Outbox, OutboxOptions, PvcSeen};
use phalanx_runtime::recorder::Note;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::outbox::{because, gang, pod};

/// An outbox, and the server it talks to.
struct Play {
    outbox: Outbox,
    chance: Pcg64,
    now: Instant,
    sent: Vec<Job>,
    pods: usize,
}

impl Play {
    fn new(seed: u64) -> Self {
        let mut chance = Pcg64::seed_from_u64(seed);
        let in_flight = [1, 2, 4, 64][chance.random_range(0..4)];
        let options = OutboxOptions { in_flight, seed, events_max: 50, ..OutboxOptions::default() };
        let (outbox, now) = (Outbox::new(options), Instant::now());
        Self { outbox, chance, now, sent: Vec::new(), pods: 0 }
    }

    fn one_of(&mut self, count: usize) -> usize {
        self.chance.random_range(0..count)
    }

    fn step(&mut self) {
        match self.one_of(10) {
            0..3 => self.decide(),
            3..7 => self.answer(),
            7 => self.see(),
            8 => {
                let (pod, text) = (self.one_of(4), self.one_of(3));
                let note = Note::failed_scheduling(&pod_of(pod), &text.to_string(), self.now);
                self.outbox.note(note, self.now);
            }
            _ => {
                let most = [5, 100, 2000, 100_000][self.one_of(4)];
                self.now += Duration::from_millis(self.chance.random_range(0..most));
            }
        }
        if self.one_of(3) > 0 {
            self.send();
        }
    }

    fn decide(&mut self) {
        let object = self.one_of(4);
        let decision = match self.one_of(7) {
            0 | 1 => self.bind(),
            2 => Decision::Evict { pod: pod_of(object), group: None, cause: because("for another") },
            3 => Decision::Nominate { pod: pod_of(object), node: Some("n1".into()) },
            4 => {
                let message = self.one_of(5).to_string().into();
                Decision::PodUnscheduled { pod: pod_of(object), reason: "Unschedulable", message }
            }
            5 => {
                let phase = [Phase::Pending, Phase::Inqueue, Phase::Running][self.one_of(3)];
                let lacks = self.one_of(2) == 0;
                let reason = if lacks { "NotEnoughTasks" } else { "NotEnoughResources" };
                let condition = Condition {
                    kind: "Unschedulable".into(),
                    status: self.one_of(3) > 0,
                    reason: reason.into(),
                    message: self.one_of(9).to_string().into(),
                    ..Condition::default()
                };
                let running = self.one_of(9) as u32;
                let status =
                    GroupStatus { phase, running, conditions: vec![condition], ..GroupStatus::default() };
                Decision::PodGroupStatus {
                    group: group_of(object),
                    uid: "g".into(),
                    version: "".into(),
                    status,
                }
            }
            _ => {
                let allocated = vec![("cpu".into(), self.one_of(9).to_string())];
                Decision::QueueStatus { queue: "q".into(), allocated }
            }
        };
        self.outbox.decide(vec![decision], self.now);
    }

    fn bind(&mut self) -> Decision {
        self.pods += 1;
        let (size, node) = (1 + self.one_of(4), self.one_of(3));
        let mut decision = gang(&format!("g{}", self.pods), size);
        let volume = (self.one_of(4) == 0).then(|| Prepare::Volume(claim().into()));
        if let Decision::Bind { pods, .. } = &mut decision {
            for binding in pods {
                binding.node = format!("n{node}").into();
                binding.prepare = volume.clone().into_iter().collect();
            }
        }
        decision
    }

    fn answer(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let at = self.one_of(self.sent.len());
        let job = self.sent.swap_remove(at);
        let after = [None, None, Some(Duration::from_secs(1))][self.one_of(3)];
        let reply = match self.one_of(8) {
            0 => Reply::Gone("not found".into()),
            1 | 2 => Reply::Passing { message: "starting".into(), trouble: Trouble::NotTaken, after },
            3 => Reply::Conflict("modified".into()),
            4 | 5 => Reply::Refused("denied by a webhook".into()),
            _ => Reply::Done,
        };
        self.outbox.done(job, reply, self.now);
    }

    fn see(&mut self) {
        let object = self.one_of(4);
        let gone = match self.one_of(5) {
            0 => Event::NodeGone(format!("n{object}").into()),
            1 => Event::PodGone(pod_of(object).uid.clone()),
            2 => Event::PodGroupGone(group_of(object)),
            3 => Event::QueueGone { name: "q".into(), uid: "q".into() },
            _ => {
                let seen = PvcSeen { uid: "c1".into(), bound: object == 0, selected: object < 3 };
                self.outbox.pvc_seen(&claim().claim, seen, self.now);
                return;
            }
        };
        self.outbox.gone(&[gone], self.now);
    }

    /// Sends all due requests as the driver does, and asks for the next wake-up.
    fn send(&mut self) {
        self.outbox.expire(self.now);
        while let Some(job) = self.outbox.next(self.now) {
            self.sent.push(job);
        }
        let (wake, depth) = (self.outbox.wake(self.now), self.outbox.depth());
        assert!(wake.is_none_or(|at| at > self.now), "it would not sleep at all");
        assert_eq!(depth.in_flight, self.sent.len());
        let left = depth.binds + depth.writes + depth.events;
        assert!(wake.is_some() || depth.in_flight > 0 || left == 0, "asleep for ever with {depth:?}");
    }

    /// The server works again: all pending requests are sent without further events.
    fn end(&mut self) {
        for _ in 0..10_000 {
            self.send();
            for job in std::mem::take(&mut self.sent) {
                self.outbox.done(job, Reply::Done, self.now);
            }
            self.send();
            if self.sent.is_empty() {
                let Some(at) = self.outbox.wake(self.now) else { break };
                self.now = at;
            }
        }
        let depth = self.outbox.depth();
        assert_eq!(depth.binds + depth.writes + depth.events, 0, "{depth:?}");
    }
}

fn pod_of(number: usize) -> std::sync::Arc<phalanx_cluster::event::PodRef> {
    pod(&format!("p{number}"))
}

fn group_of(number: usize) -> Key {
    Key::new("ns", &format!("g{number}"))
}

fn claim() -> VolumeBinding {
    VolumeBinding { claim: Key::new("ns", "data"), uid: "c1".into(), volume: None, made_of: None }
}

#[test]
fn the_outbox_plans_a_wake_up_whenever_work_is_left() {
    for seed in 0..300 {
        let mut play = Play::new(seed);
        for _ in 0..200 {
            play.step();
        }
        play.end();
    }
}

#[test]
fn a_refused_bind_to_a_deleted_node_is_not_counted() {
    let now = Instant::now();
    let mut outbox = Outbox::new(OutboxOptions::default());
    outbox.decide(vec![gang("a", 1)], now);
    let job = outbox.next(now).unwrap();
    outbox.done(job, Reply::Refused("denied".into()), now);
    let failed = outbox.gone(&[Event::NodeGone("n1".into())], now);
    assert!(matches!(&failed[..], [Event::BindFailed(..)]), "{failed:?}");
    assert_eq!(outbox.depth().binds, 0);
    outbox.note(Note::failed_scheduling(&pod("b"), "no room", now), now);
    assert!(outbox.next(now + Duration::from_secs(1)).is_some(), "and delays no other request");
}
