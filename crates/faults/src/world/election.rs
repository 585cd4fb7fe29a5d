//! The campaign for the lease: the steps of `lease::hold` as messages of the simulation. What is decided in each step
//! is decided by the `Elector` of the live process.
use std::sync::Arc;

use phalanx_runtime::fence::BootTime;
use phalanx_runtime::lease::{Action, Record, promised};

use super::{Happening, World};
use crate::planted::Planted;
use crate::story::{Answer, Role};

/// A step of a try.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A try begins: the request that reads the lease leaves.
    Begin,
    /// The lease is read at the API server, for a try that began then.
    Read(BootTime),
    /// What was read arrives.
    Decide(BootTime, Option<Arc<Record>>),
    /// The write arrives at the API server; made from what was read.
    Write(BootTime, Option<Arc<Record>>, i32),
    /// The write was carried out.
    Wrote(BootTime),
}

impl World<'_> {
    pub(super) fn campaign(&mut self, who: usize, step: Step) {
        let Some(process) = &mut self.processes[who] else { return };
        let (now, role) = (process.clocks.boot(), process.role);
        match step {
            Step::Begin if self.options.bug == Some(Planted::NoLease) => self.becomes_leader(who, now),
            Step::Begin if process.elector.expired(&process.lease, now) => self.gives_up(who),
            Step::Begin => self.next(who, Step::Read(now)),
            Step::Read(began) => {
                let record = self.server.leases[role as usize].0.clone();
                self.next(who, Step::Decide(began, record));
            }
            Step::Decide(began, record) => {
                let action = process.elector.step(&process.lease, record.as_deref(), now);
                self.act(who, began, record, &action);
            }
            Step::Write(began, record, transitions) => {
                self.write(who, began, record.as_ref(), transitions);
            }
            Step::Wrote(began) => self.becomes_leader(who, began),
        }
    }

    fn act(&mut self, who: usize, began: BootTime, record: Option<Arc<Record>>, action: &Action) {
        let stolen = self.options.bug == Some(Planted::LeaseStolen);
        match action {
            Action::Lost => self.gives_up(who),
            Action::Create => self.next(who, Step::Write(began, record, 0)),
            Action::Write(transitions) => self.next(who, Step::Write(began, record, *transitions)),
            Action::Wait if stolen => self.next(who, Step::Write(began, record, 1)),
            Action::Wait => self.try_later(who),
        }
    }

    /// The next step of a try; a request that meets a fault is lost, and another try follows.
    fn next(&mut self, who: usize, step: Step) {
        let Some(life) = self.processes[who].as_ref().map(|process| process.life) else { return };
        let lost = match self.answer_of_fault() {
            None | Some(Answer::Conflict | Answer::Late) => false,
            Some(Answer::ReplyLost | Answer::DoneTrouble) => {
                matches!(step, Step::Decide(..) | Step::Wrote(_))
            }
            Some(_) => true,
        };
        if lost {
            self.try_later(who);
        } else {
            self.plan_in(1_000..50_000, Happening::Lease(who, life, step));
        }
    }

    fn try_later(&mut self, who: usize) {
        let Some(process) = &self.processes[who] else { return };
        let pause = process.elector.pause(&process.lease, process.clocks.boot());
        let (life, at) = (process.life, self.now() + (pause.as_micros() as u64).max(1_000));
        self.plan(at, Happening::Lease(who, life, Step::Begin));
    }

    fn write(&mut self, who: usize, began: BootTime, read: Option<&Arc<Record>>, transitions: i32) {
        let Some(process) = &self.processes[who] else { return };
        let role = process.role;
        if self.server.leases[role as usize].0.as_ref() != read {
            return self.try_later(who);
        }
        let record = Record {
            holder: process.lease.identity.clone(),
            duration_seconds: promised(process.lease.duration),
            transitions,
            version: self.planned.to_string(),
        };
        self.server.leases[role as usize] = (Some(Arc::new(record)), self.now());
        self.next(who, Step::Wrote(began));
    }

    /// The lease is held, from the time on at which the try began.
    fn becomes_leader(&mut self, who: usize, began: BootTime) {
        let Some(process) = &mut self.processes[who] else { return };
        let first = !process.elector.leads();
        let now = process.clocks.boot();
        let could_write = process.elector.ends(&process.lease).is_some_and(|end| now < end);
        process.elector.wrote(began);
        if let Some(end) = process.elector.ends(&process.lease) {
            process.keeper.open_until(end);
        }
        if first {
            process.lead();
            self.tell(|| format!("process {who} leads"));
            if self.story.role(who) == Role::Controllers {
                self.read_all(who);
            }
        }
        // A renewal in time changes nothing for the process.
        if !could_write {
            self.step(who);
        }
        self.try_later(who);
    }
}
