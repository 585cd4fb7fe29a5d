//! What became of binds.
use std::sync::Arc;
use std::time::Instant;

use phalanx_cluster::event::{BindFailure, BindFault, Event};
use phalanx_core::decision::Binding;

use super::reply::Reply;
use super::{Job, Outbox, Work};
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

    /// Why a pod is not bound and will not be, once that is known. The pod keeps its room as long as an attempt may have
    /// been carried out: a refusal of the next one says nothing about that, but the pod does.
    fn not_bound(&mut self, mut job: Job, binding: &Binding, reply: Reply, now: Instant) -> Option<String> {
        if let Work::Settle(_, why) = &job.work {
            if !reply.is_unknown() {
                return Some(why.to_string());
            }
            let wait = self.wait(&job, None);
            self.retry(job, now + wait);
            return None;
        }
        job.in_doubt |= reply.is_unknown();
        let (in_doubt, refused) = (job.in_doubt, matches!(reply, Reply::Refused(_)));
        let message = self.again(job, reply, now)?;
        if in_doubt {
            if !self.writes.is_hurried() {
                self.queue(Work::Settle(binding.clone(), message.into()), now);
            }
            return None;
        }
        if refused {
            self.denied.insert(Arc::clone(&binding.pod.uid));
        }
        Some(message)
    }
}
