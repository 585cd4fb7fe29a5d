//! Requests that failed and are repeated later. The number of each kind is the length of a list, so that no counter can
//! be wrong.
use std::collections::BinaryHeap;
use std::time::Instant;

use super::lane::{Due, Lane};
use super::work::Job;

/// What waits for another attempt.
#[derive(Debug, Default)]
pub(super) struct Retries {
    binds: BinaryHeap<Due<Job>>,
    events: BinaryHeap<Due<Job>>,
}

impl Retries {
    pub(super) fn push(&mut self, due: Due<Job>) {
        match due.job.work.lane() {
            Lane::Binds => self.binds.push(due),
            Lane::Writes | Lane::Events => self.events.push(due),
        }
    }

    /// Those whose time has come.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Job> {
        let mut jobs = Vec::new();
        for heap in self.heaps_mut() {
            while heap.peek().is_some_and(|due| due.at <= now) {
                jobs.extend(heap.pop().map(|due| due.job));
            }
        }
        jobs
    }

    /// Keeps those that `keep` says.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Job) -> bool) {
        for heap in self.heaps_mut() {
            heap.retain(|due| keep(&due.job));
        }
    }

    pub(super) fn drop_events(&mut self) {
        self.events.clear();
    }

    pub(super) fn binds(&self) -> usize {
        self.binds.len()
    }

    pub(super) fn of_binds(&self) -> impl Iterator<Item = &Job> {
        self.binds.iter().map(|due| &due.job)
    }

    pub(super) fn events(&self) -> usize {
        self.events.len()
    }

    /// When the first is due.
    pub(super) fn wake(&self) -> Option<Instant> {
        [&self.binds, &self.events].into_iter().filter_map(|heap| Some(heap.peek()?.at)).min()
    }

    fn heaps_mut(&mut self) -> [&mut BinaryHeap<Due<Job>>; 2] {
        [&mut self.binds, &mut self.events]
    }
}
