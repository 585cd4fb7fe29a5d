//! The last evictions that this process decided, and what the web page shows of the past, in memory.
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use phalanx_cluster::event::Time;
use phalanx_core::decision::Decision;
use phalanx_explain::Evicted;
use phalanx_view::History;
use tracing::debug;

/// How many are kept; the oldest is dropped for a new one.
const KEPT: usize = 10_000;

/// Decisions that wait to be taken in, as many at once as an action has made.
const QUEUED: usize = 1024;

/// Hands decisions over to a thread that takes them in, so that no cycle waits for it. Tells nobody at first.
#[derive(Debug, Default)]
pub struct Notes(Option<SyncSender<(Vec<Decision>, Timestamp)>>);

impl Notes {
    /// What was decided. Where too much waits it is left out.
    pub fn decided(&self, decisions: &[Decision], at: Timestamp) {
        if let Some(to) = &self.0
            && to.try_send((decisions.to_vec(), at)).is_err()
        {
            debug!(decisions = decisions.len(), "the web page does not show what was decided");
        }
    }
}

/// The last evictions, the newest last, and the history of the web page.
#[derive(Debug, Default)]
pub struct Evictions {
    kept: Mutex<VecDeque<Evicted>>,
    history: Mutex<History>,
}

impl Evictions {
    /// Starts a thread that takes in what was decided, until the notes are dropped.
    pub fn follow(self: &Arc<Self>) -> io::Result<Notes> {
        let (to, decided) = sync_channel::<(Vec<Decision>, Timestamp)>(QUEUED);
        let evictions = Arc::clone(self);
        let body = move || decided.iter().for_each(|(decisions, at)| evictions.decided(&decisions, at));
        std::thread::Builder::new().name("phalanx-past".to_owned()).spawn(body)?;
        Ok(Notes(Some(to)))
    }

    /// Takes in what was decided.
    pub fn decided(&self, decisions: &[Decision], at: Timestamp) {
        // In whole milliseconds, as the journal has it.
        let at = Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at);
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.note(decisions, Time(at.as_millisecond()));
        drop(history);
        let evicted = decisions.iter().filter_map(|decision| match decision {
            Decision::Evict { pod, group, cause } => Some(Evicted {
                at,
                pod: pod.to_string(),
                pod_group: group.as_ref().map(|group| group.key.to_string()),
                action: cause.action.to_owned(),
                by: cause.by.as_ref().map(ToString::to_string),
                reason: cause.reason.to_string(),
            }),
            _ => None,
        });
        let mut evicted = evicted.peekable();
        if evicted.peek().is_none() {
            return;
        }
        let mut kept = self.kept();
        for one in evicted {
            if kept.len() >= KEPT {
                kept.pop_front();
            }
            kept.push_back(one);
        }
    }

    /// All that are kept.
    pub fn all(&self) -> Vec<Evicted> {
        self.kept().iter().cloned().collect()
    }

    /// What the web page shows of the past.
    pub fn history(&self) -> History {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The list is consistent also after a panic.
    fn kept(&self) -> MutexGuard<'_, VecDeque<Evicted>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use phalanx_cluster::event::PodRef;
    use phalanx_core::decision::Cause;

    use super::*;

    #[test]
    fn the_oldest_evictions_are_forgotten() {
        let evictions = Evictions::default();
        for index in 0..KEPT + 5 {
            let pod = PodRef { namespace: "ns".into(), name: index.to_string().into(), uid: "u".into() };
            let cause = Arc::new(Cause { action: "preempt", ..Cause::default() });
            evictions.decided(&[Decision::Evict { pod: Arc::new(pod), group: None, cause }], Timestamp::MIN);
        }
        let all = evictions.all();
        assert_eq!((all.len(), all[0].pod.as_str()), (KEPT, "ns/5"));
    }
}
