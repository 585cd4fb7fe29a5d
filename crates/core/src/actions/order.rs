//! Who is next: jobs in order per queue, queues compared afresh each time.
//!
//! Serving a job changes its own rank and its queue's, nobody else's in the same queue: so a job that is pushed
//! back after it was served is ordered exactly, which Volcano's heaps of live shares are not.
use std::cmp::Ordering;
use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::diagnosis::Refusal;
use crate::event::Dequeue;
use crate::id::{JobId, QueueId};
use crate::session::Session;

/// A binary heap whose order is handed in with each call; the least comes first.
#[derive(Clone, Debug)]
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
}

/// Sorts in about as many comparisons as std, few for what is nearly in order. An order that contradicts itself,
/// as a plugin's might, makes the result arbitrary and nothing worse.
fn sorted<T: Copy>(list: &[T], order: &impl Fn(T, T) -> Ordering) -> Vec<T> {
    let runs = list.chunk_by(|a, b| order(*a, *b).is_le());
    let mut runs: VecDeque<Vec<T>> = runs.map(<[T]>::to_vec).collect();
    while let (Some(a), Some(b)) = (runs.pop_front(), runs.pop_front()) {
        if runs.is_empty() {
            return merged(&a, &b, order);
        }
        runs.push_back(merged(&a, &b, order));
    }
    list.to_vec()
}

fn merged<'a, T: Copy>(mut a: &'a [T], mut b: &'a [T], order: &impl Fn(T, T) -> Ordering) -> Vec<T> {
    let mut all = Vec::with_capacity(a.len() + b.len());
    while let (Some(&first_a), Some(&first_b)) = (a.first(), b.first()) {
        let rest = if order(first_b, first_a).is_lt() { &mut b } else { &mut a };
        all.push(rest[0]);
        *rest = &rest[1..];
    }
    all.extend_from_slice(a);
    all.extend_from_slice(b);
    all
}

/// The jobs of a queue.
#[derive(Default)]
struct Turns {
    /// Those that were there from the start, the first of them last.
    first: Vec<JobId>,
    /// Those that were pushed back.
    back: Heap<JobId>,
}

impl Turns {
    fn new(session: &Session<'_>, jobs: &[JobId]) -> Self {
        let mut first = sorted(jobs, &|a, b| session.job_order(a, b));
        first.reverse();
        Self { first, back: Heap::default() }
    }

    /// Whether the next is one that was pushed back.
    fn is_back_next(&self, session: &Session<'_>) -> bool {
        match (self.first.last(), self.back.peek()) {
            (Some(first), Some(back)) => session.job_order(back, *first).is_lt(),
            (first, _) => first.is_none(),
        }
    }

    fn peek(&self, session: &Session<'_>) -> Option<JobId> {
        if self.is_back_next(session) { self.back.peek() } else { self.first.last().copied() }
    }

    fn pop(&mut self, session: &Session<'_>) -> Option<JobId> {
        if self.is_back_next(session) {
            self.back.pop(|a, b| session.job_order(a, b))
        } else {
            self.first.pop()
        }
    }

    fn into_jobs(self) -> impl Iterator<Item = JobId> {
        self.first.into_iter().rev().chain(self.back.0)
    }
}

/// Jobs by queue, served in order.
#[derive(Default)]
pub(crate) struct Line {
    queues: Vec<QueueId>,
    jobs: FxHashMap<QueueId, Turns>,
}

impl Line {
    /// The jobs in line.
    pub(crate) fn new(session: &Session<'_>, jobs: impl IntoIterator<Item = JobId>) -> Self {
        let mut queues = Vec::new();
        let mut of_queue: FxHashMap<QueueId, Vec<JobId>> = FxHashMap::default();
        for job in jobs {
            let queue = session.world.jobs[job].queue;
            let list = of_queue.entry(queue).or_insert_with(|| {
                queues.push(queue);
                Vec::new()
            });
            list.push(job);
        }
        let turns = |(queue, jobs): (QueueId, Vec<JobId>)| (queue, Turns::new(session, &jobs));
        Self { queues, jobs: of_queue.into_iter().map(turns).collect() }
    }

    /// Puts a job, and its queue, in line.
    pub(crate) fn push(&mut self, session: &Session<'_>, job: JobId) {
        let queue = session.world.jobs[job].queue;
        let turns = self.jobs.entry(queue).or_insert_with(|| {
            self.queues.push(queue);
            Turns::default()
        });
        turns.back.push(job, |a, b| session.job_order(a, b));
    }

    /// The queue that goes first: one whose first job is a broken gang, then by the order of queues.
    pub(crate) fn first_queue(&self, session: &Session<'_>) -> Option<QueueId> {
        if let [queue] = self.queues[..] {
            return Some(queue);
        }
        let repairs = |queue: QueueId| {
            let first = self.jobs.get(&queue).and_then(|turns| turns.peek(session));
            first.is_some_and(|job| session.world.jobs[job].is_broken())
        };
        let order =
            |a: QueueId, b: QueueId| repairs(b).cmp(&repairs(a)).then_with(|| session.queue_order(a, b));
        self.queues.iter().copied().min_by(|a, b| order(*a, *b))
    }

    /// The queues, as they are ordered now.
    pub(crate) fn queues_in_order(&self, session: &Session<'_>) -> Vec<QueueId> {
        let mut queues = self.queues.clone();
        queues.sort_by(|a, b| session.queue_order(*a, *b));
        queues
    }

    /// The first job of a queue; without one, the queue leaves the line.
    pub(crate) fn pop(&mut self, session: &Session<'_>, queue: QueueId) -> Option<JobId> {
        let job = self.jobs.get_mut(&queue)?.pop(session);
        if job.is_none() {
            self.leave(queue);
        }
        job
    }

    /// Takes a queue out of line, and returns the jobs it leaves behind.
    pub(crate) fn leave(&mut self, queue: QueueId) -> Vec<JobId> {
        self.queues.retain(|other| *other != queue);
        self.jobs.remove(&queue).into_iter().flat_map(Turns::into_jobs).collect()
    }
}

/// Whether a job that was served and did not get what it needs holds up those behind it. A gang that started and lost members
/// does not: it is first for that only, and may have lost them to one behind it.
pub(crate) fn holds_up(session: &Session<'_>, job: JobId) -> bool {
    is_strict(session, job) && !session.job_ready(job) && !session.world.jobs[job].is_broken()
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
        fn sorting_agrees_with_std(values in prop::collection::vec(0u32..50, 0..60)) {
            let ours = sorted(&values, &|a, b| a.cmp(&b));
            let mut sorted = values;
            sorted.sort_unstable();
            prop_assert_eq!(ours, sorted);
        }

        #[test]
        fn an_order_that_contradicts_itself_loses_nobody(
            values in prop::collection::vec(0u32..50, 0..60),
            whims in prop::collection::vec(any::<bool>(), 64),
        ) {
            let whim = |a: u32, b: u32| if whims[((a * 7 + b * 13) % 64) as usize] { a.cmp(&b) } else { b.cmp(&a) };
            let mut ours = sorted(&values, &whim);
            ours.sort_unstable();
            let mut sorted = values;
            sorted.sort_unstable();
            prop_assert_eq!(ours, sorted);
        }

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
