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
    pub(super) fn bound(&mut self, job: Job, binding: &Binding, reply: Reply, now: Instant) -> Option<Event> {
        let uid = Arc::clone(&binding.pod.uid);
        let failure = match reply {
            Reply::Done => {
                self.denied.remove(&uid);
                self.writes.bind_ended(&uid, true);
                self.recorder.settled(&uid);
                if self.options.scheduled_events {
                    self.note(Note::scheduled(&binding.pod, &binding.node, now), now);
                }
                return Some(Event::Bound(uid));
            }
            Reply::Gone(message) => BindFailure { message: message.into(), fault: BindFault::Gone },
            // The pod is gone: it is not asked for again.
            _ if !self.writes.is_binding(&uid) => return None,
            other => {
                let message = self.not_bound(job, binding, other, now)?;
                self.note(Note::failed_scheduling(&binding.pod, &message, now), now);
                BindFailure { message: message.into(), fault: BindFault::Denied }
            }
        };
        self.writes.bind_ended(&uid, false);
        Some(Event::BindFailed(uid, failure))
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

    /// A bind that is not tried again for now has its pod read where an attempt may have been carried out, for a
    /// refusal of the last attempt says nothing about the first; and where the server was in trouble all the time, to
    /// know when that is over.
    fn not_done(&mut self, mut job: Job, binding: &Binding, reply: Reply, now: Instant) -> Option<String> {
        job.in_doubt |= reply.is_unknown();
        let Job { in_doubt, tried_anew, .. } = job;
        let (refused, trouble) = (matches!(reply, Reply::Refused(_)), reply.is_trouble() && !tried_anew);
        let why = self.again(job, reply, now)?;
        if !in_doubt && !trouble {
            if refused {
                self.denied.insert(Arc::clone(&binding.pod.uid));
            }
            return Some(why);
        }
        if !self.writes.is_hurried() {
            let then = if trouble { Then::Bind } else { Then::Report };
            self.queue(Work::Settle(Settle { binding: binding.clone(), why: why.into(), then }), now);
        }
        None
    }

    /// The pod was read, and has no node.
    fn settled(&mut self, settle: Settle, now: Instant) -> Option<String> {
        match settle.then {
            Then::Report => Some(settle.why.to_string()),
            Then::Bind => {
                let job = self.job(Work::Bind(settle.binding), now);
                self.binds.push_back(Job { tried_anew: true, ..job });
                None
            }
        }
    }
}
