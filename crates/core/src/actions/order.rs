//! Who is next: jobs in a heap per queue, queues compared afresh each time.
//!
//! Serving a job changes its own rank and its queue's, nobody else's in the same heap: so a job that is pushed
//! back after it was served is ordered exactly, which Volcano's heaps of live shares are not.
use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use crate::diagnosis::Refusal;
use crate::event::Dequeue;
use crate::id::{JobId, QueueId};
use crate::session::Session;

/// A binary heap whose order is handed in with each call; the least comes first.
#[derive(Debug)]
pub(crate) struct Heap<T>(Vec<T>);

impl<T> Default for Heap<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy> Heap<T> {
    pub(crate) fn push(&mut self, value: T, order: impl Fn(T, T) -> Ordering) {
        self.0.push(value);
        let mut at = self.0.len() - 1;
        while at > 0 && order(self.0[at], self.0[(at - 1) / 2]).is_lt() {
            self.0.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    pub(crate) fn pop(&mut self, order: impl Fn(T, T) -> Ordering) -> Option<T> {
        if self.0.is_empty() {
            return None;
        }
        let least = self.0.swap_remove(0);
        let mut at = 0;
        loop {
            let mut next = 2 * at + 1;
            if next + 1 < self.0.len() && order(self.0[next + 1], self.0[next]).is_lt() {
                next += 1;
            }
            if next >= self.0.len() || order(self.0[next], self.0[at]).is_ge() {
                return Some(least);
            }
            self.0.swap(at, next);
            at = next;
        }
    }

    /// The least.
    pub(crate) fn peek(&self) -> Option<T> {
        self.0.first().copied()
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.0.drain(..)
    }
}

/// Jobs by queue, served in order.
#[derive(Default)]
pub(crate) struct Line {
    queues: Vec<QueueId>,
    jobs: FxHashMap<QueueId, Heap<JobId>>,
}

impl Line {
    /// The jobs in line.
    pub(crate) fn new(session: &Session<'_>, jobs: impl IntoIterator<Item = JobId>) -> Self {
        let mut line = Self::default();
        for job in jobs {
            line.push(session, job);
        }
        line
    }

    /// Puts a job, and its queue, in line.
    pub(crate) fn push(&mut self, session: &Session<'_>, job: JobId) {
        let queue = session.world.jobs[job].queue;
        let heap = self.jobs.entry(queue).or_insert_with(|| {
            self.queues.push(queue);
            Heap::default()
        });
        heap.push(job, |a, b| session.job_order(a, b));
    }

    /// The queue that goes first: one whose first job is a broken gang, then by the order of queues.
    pub(crate) fn first_queue(&self, session: &Session<'_>) -> Option<QueueId> {
        let repairs = |queue: QueueId| {
            let first = self.jobs.get(&queue).and_then(Heap::peek);
            first.is_some_and(|job| session.world.jobs[job].is_broken())
        };
        let order =
            |a: QueueId, b: QueueId| repairs(b).cmp(&repairs(a)).then_with(|| session.queue_order(a, b));
        self.queues.iter().copied().min_by(|a, b| order(*a, *b))
    }

    /// The first job of a queue; without one, the queue leaves the line.
    pub(crate) fn pop(&mut self, session: &Session<'_>, queue: QueueId) -> Option<JobId> {
        let job = self.jobs.get_mut(&queue)?.pop(|a, b| session.job_order(a, b));
        if job.is_none() {
            self.leave(queue);
        }
        job
    }

    /// Takes a queue out of line, and returns the jobs it leaves behind.
    pub(crate) fn leave(&mut self, queue: QueueId) -> Vec<JobId> {
        self.queues.retain(|other| *other != queue);
        self.jobs.remove(&queue).map(|mut heap| heap.drain().collect()).unwrap_or_default()
    }
}

/// Whether a job that was served and did not get what it needs holds up those behind it.
pub(crate) fn holds_up(session: &Session<'_>, job: JobId) -> bool {
    is_strict(session, job) && !session.job_ready(job)
}

/// Whether a job's queue serves in strict order.
pub(crate) fn is_strict(session: &Session<'_>, job: JobId) -> bool {
    let world = &*session.world;
    world.queues[world.jobs[job].queue].dequeue == Dequeue::Fifo
}

/// Notes that a job waits for one before it in its queue.
pub(crate) fn refuse_behind(session: &mut Session<'_>, job: JobId, first: JobId) {
    let world = &*session.world;
    let (queue, first) = (&world.queues[world.jobs[job].queue], &world.jobs[first]);
    let refusal = Refusal::Behind { queue: queue.name.clone(), job: first.key.clone() };
    session.refuse(job, refusal);
}

/// Whether a job was told in this cycle to wait for one before it.
pub(crate) fn is_behind(session: &Session<'_>, job: JobId) -> bool {
    session.world.jobs[job].refusals.iter().any(|refusal| matches!(refusal, Refusal::Behind { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_heap_pops_in_order(values in prop::collection::vec(0u32..50, 0..60)) {
            let mut heap = Heap::default();
            for value in &values {
                heap.push(*value, |a, b| a.cmp(&b));
            }
            let popped: Vec<u32> = std::iter::from_fn(|| heap.pop(|a, b| a.cmp(&b))).collect();
            let mut sorted = values;
            sorted.sort_unstable();
            prop_assert_eq!(popped, sorted);
        }
    }
}
