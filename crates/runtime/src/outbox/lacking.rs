//! Gangs that lack pods. Most of them are just being created, so an event follows only after a while, and none when the
//! gang is complete by then.
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use phalanx_cluster::event::Key;
use rustc_hash::FxHashMap;

use super::lane::Due;
use crate::recorder::Note;

/// How long the number of missing pods must not have changed before an event is sent.
const STILL: Duration = Duration::from_secs(5);
/// The longest wait while the number of missing pods keeps changing.
const MOST: Duration = Duration::from_mins(1);

/// Whether the reason of a condition says that members are missing, rather than places for them.
pub(super) fn is_lack(reason: &str) -> bool {
    matches!(reason, "NotEnoughTasks" | "NotEnoughPodsOfTask")
}

#[derive(Debug)]
struct Waiting {
    note: Note,
    since: Instant,
    due: Instant,
}

/// The events about gangs that lack pods, which are sent unless the gangs become complete.
#[derive(Debug, Default)]
pub(super) struct Lacking {
    waiting: FxHashMap<Key, Waiting>,
    line: BinaryHeap<Due<Key>>,
    sequence: u64,
}

impl Lacking {
    /// Plans the event of a gang that lacks pods.
    pub(super) fn tell(&mut self, group: &Key, note: Note, now: Instant) {
        if let Some(waiting) = self.waiting.get_mut(group) {
            waiting.note = note;
            return;
        }
        self.waiting.insert(group.clone(), Waiting { note, since: now, due: now + STILL });
        self.line_up(group.clone(), now + STILL);
    }

    /// The number of missing pods of a gang changed.
    pub(super) fn changed(&mut self, group: &Key, now: Instant) {
        if let Some(waiting) = self.waiting.get_mut(group) {
            waiting.due = (now + STILL).min(waiting.since + MOST);
        }
    }

    /// The gang lacks no pod, or was deleted.
    pub(super) fn forget(&mut self, group: &Key) {
        self.waiting.remove(group);
    }

    /// The next event that is due.
    pub(super) fn due(&mut self, now: Instant) -> Option<Note> {
        while self.line.peek().is_some_and(|due| due.at <= now) {
            let group = self.line.pop()?.job;
            match self.waiting.get(&group).map(|waiting| waiting.due) {
                Some(due) if due > now => self.line_up(group, due),
                Some(_) => return self.waiting.remove(&group).map(|waiting| waiting.note),
                None => {}
            }
        }
        None
    }

    /// When the first may be due.
    pub(super) fn wake(&self) -> Option<Instant> {
        self.line.peek().map(|due| due.at)
    }

    fn line_up(&mut self, job: Key, at: Instant) {
        self.sequence += 1;
        self.line.push(Due { at, sequence: self.sequence, job });
    }
}
