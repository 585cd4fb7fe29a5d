//! What became of binds.
use std::sync::Arc;
use std::time::Instant;

use phalanx_cluster::event::{BindFailure, BindFault, Event};
use phalanx_core::decision::Binding;

use super::reply::Reply;
use super::{Job, Outbox, Settle, Then, Work};
use crate::recorder::Note;

impl Outbox {
    /// A bind was answered, or its pod was read.
    pub(super) fn bound(&mut self, job: Job, binding: &Binding, reply: Reply, now: Instant) -> Vec<Event> {
        let uid = Arc::clone(&binding.pod.uid);
        let failure = match reply {
            Reply::Done => {
                self.denied.remove(&uid);
                self.anew.remove(&uid);
                self.writes.bind_ended(&uid, true);
                self.recorder.settled(&uid);
                if self.options.scheduled_events {
                    self.note(Note::scheduled(&binding.pod, &binding.node, now), now);
                }
                return vec![Event::Bound(uid)];
            }
            Reply::Gone(message) => BindFailure { message: message.into(), fault: BindFault::Gone },
            // The pod is gone: it is not read again.
            _ if !self.writes.is_binding(&uid) => return self.give_up_others(std::iter::once(&*uid)),
            other => {
                let Some(message) = self.not_bound(job, binding, other, now) else { return Vec::new() };
                self.note(Note::failed_scheduling(&binding.pod, &message, now), now);
                BindFailure { message: message.into(), fault: BindFault::Denied }
            }
        };
        self.writes.bind_ended(&uid, false);
        let others = self.give_up_others(std::iter::once(&*uid));
        std::iter::once(Event::BindFailed(Arc::clone(&uid), failure)).chain(others).collect()
    }

    /// Why a pod is not bound and will not be, once that is known. Until then it keeps its room.
    fn not_bound(&mut self, job: Job, binding: &Binding, reply: Reply, now: Instant) -> Option<String> {
        match &job.work {
            Work::Settle(_) if reply.is_unknown() => {
                let wait = self.wait(&job, None);
                self.retry(job, now + wait);
                None
            }
            Work::Settle(settle) => self.settled(settle.clone(), now),
            _ => self.not_done(job, binding, reply, now),
        }
    }

    /// After the last attempt of a bind, its pod is read in two cases: when an attempt may have been carried out, for a
    /// refusal of the last attempt says nothing about the first; and when the server was in trouble all the time, to
    /// know when that is over.
    fn not_done(&mut self, mut job: Job, binding: &Binding, reply: Reply, now: Instant) -> Option<String> {
        job.in_doubt |= reply.is_unknown();
        let (in_doubt, refused) = (job.in_doubt, matches!(reply, Reply::Refused(_)));
        let then = self.after(binding, &reply);
        let why = self.again(job, reply, now)?;
        if in_doubt || then == Then::Bind {
            self.settle(binding, why, then, now);
            return None;
        }
        if refused {
            self.denied.insert(Arc::clone(&binding.pod.uid));
        }
        Some(why)
    }

    /// What to do after this last answer.
    pub(super) fn after(&self, binding: &Binding, reply: &Reply) -> Then {
        let anew = reply.is_trouble() && !self.anew.contains(&binding.pod.uid);
        if anew { Then::Bind } else { Then::Report }
    }

    /// Plans to read the pod; at shutdown the next process does.
    pub(super) fn settle(&mut self, binding: &Binding, why: String, then: Then, now: Instant) {
        if !self.writes.is_hurried() {
            self.queue(Work::Settle(Settle { binding: binding.clone(), why: why.into(), then }), now);
        }
    }

    /// The pod was read, and has no node.
    fn settled(&mut self, settle: Settle, now: Instant) -> Option<String> {
        match settle.then {
            Then::Report => Some(settle.why.to_string()),
            Then::Bind => {
                self.anew.insert(Arc::clone(&settle.binding.pod.uid));
                self.bind_volumes(settle.binding, 0, now);
                None
            }
        }
    }
}
