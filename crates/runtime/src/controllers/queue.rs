//! Which subjects are to be reconciled, and when.
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use phalanx_cluster::event::Key;
use phalanx_controllers::Kind;
use rand::Rng;

use crate::backoff::wait_for;

/// Waits after a failure; Volcano's begin with 5 ms too.
const RETRY: (Duration, Duration) = (Duration::from_millis(5), Duration::from_mins(1));

/// What is reconciled: a Job, a PodGroup, a Queue, a CronJob, a JobFlow, a JobTemplate, or all HyperNodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub key: Key,
}

impl Subject {
    pub(super) fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self { kind, key: Key::new(namespace, name) }
    }
}

#[derive(Debug, Default)]
struct Entry {
    /// When it is due; absent while nothing is to be done.
    due: Option<Instant>,
    /// It is not reconciled before.
    not_before: Option<Instant>,
    /// It waits for its turn, or its writes are on their way.
    busy: bool,
    /// Failures in a row, for the back-off.
    attempts: u32,
}

/// The subjects that are due. One that is busy is not handed out.
#[derive(Debug, Default)]
pub(super) struct Queue {
    entries: BTreeMap<Subject, Entry>,
    due: BTreeSet<(Instant, Subject)>,
}

impl Queue {
    /// The subject is to be reconciled at this time at the latest, once it may be.
    pub(super) fn mark(&mut self, subject: &Subject, at: Instant) {
        self.change(subject, |entry| {
            entry.due = Some(entry.due.map_or(at, |due| due.min(at)));
        });
    }

    /// The first subject that is due. It is busy until it is rested or retried.
    pub(super) fn take(&mut self, now: Instant) -> Option<Subject> {
        let (at, subject) = self.due.first()?.clone();
        if at > now {
            return None;
        }
        self.change(&subject, |entry| entry.busy = true);
        Some(subject)
    }

    /// A subject that was taken is reconciled: what marked it until now is part of that.
    pub(super) fn begin(&mut self, subject: &Subject) {
        self.change(subject, |entry| entry.due = None);
    }

    /// All went well. The subject is left alone for as long.
    pub(super) fn rest(&mut self, subject: &Subject, until: Instant) {
        self.change(subject, |entry| {
            entry.busy = false;
            entry.attempts = 0;
            entry.not_before = Some(until);
        });
    }

    /// Something failed: it is tried again after a wait, which is longer after each failure.
    pub(super) fn retry(
        &mut self,
        subject: &Subject,
        now: Instant,
        at_least: Option<Duration>,
        chance: &mut impl Rng,
    ) {
        self.change(subject, |entry| {
            let wait = wait_for(RETRY.0, RETRY.1, entry.attempts, chance);
            let at = now + at_least.map_or(wait, |least| least.max(wait));
            entry.attempts = entry.attempts.saturating_add(1);
            entry.busy = false;
            entry.not_before = Some(at);
            entry.due = Some(at);
        });
    }

    /// Nothing is known of the subject any more.
    pub(super) fn forget(&mut self, subject: &Subject) {
        self.change(subject, |entry| *entry = Entry::default());
        self.entries.remove(subject);
    }

    /// When the next subject is due.
    pub(super) fn wake(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    fn change(&mut self, subject: &Subject, change: impl FnOnce(&mut Entry)) {
        let entry = self.entries.entry(subject.clone()).or_default();
        if let Some(at) = entry.at() {
            self.due.remove(&(at, subject.clone()));
        }
        change(entry);
        if let Some(at) = entry.at() {
            self.due.insert((at, subject.clone()));
        }
    }
}

impl Entry {
    /// When it is handed out.
    fn at(&self) -> Option<Instant> {
        let due = self.due.filter(|_| !self.busy)?;
        Some(self.not_before.map_or(due, |earliest| earliest.max(due)))
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64;

    use super::*;

    fn job(name: &str) -> Subject {
        Subject::new(Kind::Job, "ns", name)
    }

    #[test]
    fn a_busy_subject_is_handed_out_again_only_after_its_writes() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.mark(&job("a"), now);
        assert_eq!(queue.take(now), Some(job("a")));
        queue.mark(&job("a"), now);
        queue.begin(&job("a"));
        queue.mark(&job("a"), now);
        assert_eq!((queue.take(now), queue.wake()), (None, None));
        queue.rest(&job("a"), now);
        assert_eq!(queue.take(now), Some(job("a")), "the mark was kept");
        queue.begin(&job("a"));
        queue.rest(&job("a"), now);
        assert_eq!(queue.take(now), None, "and is used up");
    }

    #[test]
    fn the_earliest_mark_counts_and_no_mark_comes_before_a_rest_is_over() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let after = |millis| now + Duration::from_millis(millis);
        queue.mark(&job("a"), after(50));
        queue.mark(&job("a"), after(20));
        queue.mark(&job("a"), after(90));
        assert_eq!(queue.wake(), Some(after(20)));
        assert_eq!((queue.take(after(19)), queue.take(after(20))), (None, Some(job("a"))));
        queue.rest(&job("a"), after(70));
        queue.mark(&job("a"), after(30));
        assert_eq!(queue.wake(), Some(after(70)));
    }

    #[test]
    fn waits_grow_with_failures_in_a_row() {
        let (mut queue, mut now) = (Queue::default(), Instant::now());
        let mut chance = Pcg64::seed_from_u64(1);
        queue.mark(&job("a"), now);
        for whole in [5, 10, 20, 40] {
            assert_eq!(queue.take(now), Some(job("a")));
            queue.begin(&job("a"));
            queue.retry(&job("a"), now, None, &mut chance);
            let at = queue.wake().expect("it is tried again");
            let wait = at.duration_since(now).as_millis();
            assert!(wait >= whole / 2 && wait <= whole, "{wait} of {whole}");
            queue.mark(&job("a"), now);
            assert_eq!(queue.wake(), Some(at), "an event does not cut the wait short");
            now = at;
        }
        assert_eq!(queue.take(now), Some(job("a")));
        queue.retry(&job("a"), now, Some(Duration::from_secs(9)), &mut chance);
        assert_eq!(queue.wake(), Some(now + Duration::from_secs(9)), "as long as the server asks for");
    }
}
