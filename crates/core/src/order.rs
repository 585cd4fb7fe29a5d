//! Jobs by queue: the order in which an action serves queues and their jobs.
//!
//! Serving a job changes its own rank and the rank of its queue, but of no other job of the queue. So a job that is
//! pushed back after it was served is ordered exactly, which it is not in Volcano's heaps of live shares.
mod tournament;

use std::cmp::Ordering;
use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use tournament::{QueueTournament, Rules};

use crate::session::Session;
use phalanx_cluster::Status;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::Dequeue;
use phalanx_cluster::id::{JobId, QueueId};

/// A binary heap whose order is an argument of each call; the least comes first.
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

    /// The least value.
    pub(crate) fn peek(&self) -> Option<T> {
        self.0.first().copied()
    }
}

/// Sorts with about as many comparisons as std, and few if the list is nearly sorted. With an order that is not
/// transitive, as a plugin's may be, the result is some permutation; std may panic.
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

/// The jobs of one queue, in order.
#[derive(Default)]
struct QueueJobs {
    /// Jobs from the start, sorted in reverse.
    first: Vec<JobId>,
    /// Jobs that were pushed back.
    back: Heap<JobId>,
}

impl QueueJobs {
    fn new(session: &Session<'_>, jobs: &[JobId]) -> Self {
        let mut first = sorted(jobs, &|a, b| session.job_order(a, b));
        first.reverse();
        Self { first, back: Heap::default() }
    }

    /// Whether the next job is one that was pushed back.
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
pub(crate) struct JobsByQueue {
    jobs: FxHashMap<QueueId, QueueJobs>,
    ranks: Option<QueueOrder>,
}

/// The order of queues at the last call, which is updated for queues that changed.
struct QueueOrder {
    tournament: QueueTournament,
    /// A queue has no known ancestors: any change has all queues compared again.
    loose: bool,
    /// Queues whose waiting jobs changed since.
    changed: Vec<QueueId>,
    /// How far the log of moved queues was read.
    read: u64,
    /// The stamp of plugins when all queues were compared.
    stamp: u64,
}

/// Compares queues, by their first jobs too.
struct QueueRules<'a, 'w> {
    session: &'a Session<'w>,
    jobs: &'a FxHashMap<QueueId, QueueJobs>,
}

impl Rules for QueueRules<'_, '_> {
    /// Whether the first job of a queue is a broken gang.
    fn privilege(&self, queue: QueueId) -> Option<bool> {
        let first = self.jobs.get(&queue)?.peek(self.session);
        Some(first.is_some_and(|job| self.session.cluster.jobs[job].is_broken()))
    }

    fn order(&self, a: QueueId, b: QueueId) -> Ordering {
        self.session.queue_order(a, b)
    }
}

impl QueueRules<'_, '_> {
    /// The first queue, by comparing all.
    fn first_of_all(&self) -> Option<QueueId> {
        let repairs = |queue: QueueId| self.privilege(queue) == Some(true);
        let order = |a: QueueId, b: QueueId| repairs(b).cmp(&repairs(a)).then_with(|| self.order(a, b));
        self.jobs.keys().copied().min_by(|a, b| order(*a, *b))
    }
}

impl QueueOrder {
    fn new(rules: &QueueRules<'_, '_>) -> Self {
        let QueueRules { session, jobs } = *rules;
        let mut loose = false;
        let with_path = |queue: &QueueId| {
            let path = session.queue_path(*queue);
            loose |= path.is_none();
            (path.unwrap_or_default(), *queue)
        };
        let tournament = QueueTournament::new(jobs.keys().map(with_path), rules);
        let (read, stamp) = (session.cluster.moved_end(), session.queue_stamp());
        Self { tournament, loose, changed: Vec::new(), read, stamp }
    }

    /// Takes in changes since the last call. False when all queues have to be compared.
    fn catch_up(&mut self, rules: &QueueRules<'_, '_>) -> bool {
        let QueueRules { session, jobs } = *rules;
        let joined = |queue: &QueueId| jobs.contains_key(queue) && !self.tournament.knows(*queue);
        if self.changed.iter().any(joined) {
            return false;
        }
        let moved = self.moved(session);
        let stamp = std::mem::replace(&mut self.stamp, session.queue_stamp());
        match moved.filter(|_| stamp == self.stamp) {
            Some(moved) if moved.is_empty() || (!self.loose && moved.len() <= self.tournament.len() / 4) => {
                if !self.shift(rules, &moved) {
                    self.tournament.replay(rules);
                }
            }
            _ => self.tournament.replay(rules),
        }
        self.changed.clear();
        true
    }

    /// Queues whose sums changed since the last call; `None` when that is not known any more.
    fn moved(&mut self, session: &Session<'_>) -> Option<Vec<QueueId>> {
        let read = std::mem::replace(&mut self.read, session.cluster.moved_end());
        let mut moved = session.cluster.moved_since(read)?.to_vec();
        moved.dedup();
        moved.sort_unstable();
        moved.dedup();
        Some(moved)
    }

    /// Moves queues that changed. False when all queues have to be compared.
    fn shift(&mut self, rules: &QueueRules<'_, '_>, moved: &[QueueId]) -> bool {
        for queue in moved {
            let known = self.tournament.path_of(*queue).map(<[u32]>::to_vec);
            let Some(path) = known.or_else(|| rules.session.queue_path(*queue)) else { return false };
            self.tournament.changed(*queue, rules);
            self.tournament.shifted(&path, rules);
        }
        for queue in self.changed.iter().filter(|queue| moved.binary_search(queue).is_err()) {
            self.tournament.changed(*queue, rules);
        }
        true
    }
}

impl JobsByQueue {
    /// Sorts jobs by queue.
    pub(crate) fn new(session: &Session<'_>, jobs: impl IntoIterator<Item = JobId>) -> Self {
        let mut of_queue: FxHashMap<QueueId, Vec<JobId>> = FxHashMap::default();
        for job in jobs {
            of_queue.entry(session.cluster.jobs[job].queue).or_default().push(job);
        }
        let turns = |(queue, jobs): (QueueId, Vec<JobId>)| (queue, QueueJobs::new(session, &jobs));
        Self { jobs: of_queue.into_iter().map(turns).collect(), ranks: None }
    }

    /// Pushes a job back to its queue.
    pub(crate) fn push(&mut self, session: &Session<'_>, job: JobId) {
        let queue = session.cluster.jobs[job].queue;
        self.jobs.entry(queue).or_default().back.push(job, |a, b| session.job_order(a, b));
        self.note(queue);
    }

    fn note(&mut self, queue: QueueId) {
        if let Some(ranks) = self.ranks.as_mut().filter(|ranks| ranks.changed.last() != Some(&queue)) {
            ranks.changed.push(queue);
        }
    }

    /// The first queue: queues whose first job is a broken gang precede, then the order of queues counts. Only queues
    /// that may have changed are compared again.
    pub(crate) fn first_queue(&mut self, session: &Session<'_>) -> Option<QueueId> {
        if self.jobs.len() < 2 {
            return self.jobs.keys().next().copied();
        }
        let rules = QueueRules { session, jobs: &self.jobs };
        let ranks = self.ranks.take().and_then(|mut ranks| ranks.catch_up(&rules).then_some(ranks));
        let ranks = ranks.unwrap_or_else(|| QueueOrder::new(&rules));
        let first = ranks.tournament.winner();
        debug_assert_eq!(first, rules.first_of_all(), "the first queue is another one when all are compared");
        self.ranks = Some(ranks);
        first
    }

    /// All queues in order.
    pub(crate) fn queues_in_order(&self, session: &Session<'_>) -> Vec<QueueId> {
        let mut queues: Vec<QueueId> = self.jobs.keys().copied().collect();
        queues.sort_by(|a, b| session.queue_order(*a, *b));
        queues
    }

    /// Takes the first job of a queue; a queue without jobs is dropped.
    pub(crate) fn pop(&mut self, session: &Session<'_>, queue: QueueId) -> Option<JobId> {
        let job = self.jobs.get_mut(&queue)?.pop(session);
        if job.is_none() {
            self.jobs.remove(&queue);
        }
        self.note(queue);
        job
    }

    /// Drops a queue, and returns its remaining jobs.
    pub(crate) fn leave(&mut self, queue: QueueId) -> Vec<JobId> {
        self.note(queue);
        self.jobs.remove(&queue).into_iter().flat_map(QueueJobs::into_jobs).collect()
    }
}

/// Whether a job that was served without success holds up the jobs behind it. A gang under repair does not: it is first
/// only because of the repair, and may have lost members to a job behind it. Nor is it held up by others.
pub(crate) fn holds_up(session: &Session<'_>, job: JobId) -> bool {
    is_strict(session, job) && !session.job_ready(job) && !session.cluster.jobs[job].is_broken()
}

/// Whether the queue of a job is FIFO.
pub(crate) fn is_strict(session: &Session<'_>, job: JobId) -> bool {
    let cluster = &*session.cluster;
    cluster.queues[cluster.jobs[job].queue].dequeue == Dequeue::Fifo
}

/// Refuses a job that waits behind the first job of its queue, unless it is a repair, which waits for no other job.
pub(crate) fn hold_up(session: &mut Session<'_>, job: JobId, first: JobId) {
    let it = &session.cluster.jobs[job];
    if it.counts.of(Status::Pending) > 0 && !it.is_broken() {
        refuse_behind(session, job, first);
    }
}

/// Refuses a job that waits behind another job of its queue.
pub(crate) fn refuse_behind(session: &mut Session<'_>, job: JobId, first: JobId) {
    let cluster = &*session.cluster;
    let (queue, first) = (&cluster.queues[cluster.jobs[job].queue], &cluster.jobs[first]);
    let refusal = Refusal::Behind { queue: queue.name.clone(), job: first.key.clone() };
    session.refuse(job, refusal);
}

/// Whether a job was refused in this cycle because it waits behind another.
pub(crate) fn is_behind(session: &Session<'_>, job: JobId) -> bool {
    session.state.backlog.refusals.of(job).iter().any(|refusal| matches!(refusal, Refusal::Behind { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sorting_by_a_total_order_equals_the_sort_of_std(values in prop::collection::vec(0u32..50, 0..60)) {
            let ours = sorted(&values, &|a, b| a.cmp(&b));
            let mut sorted = values;
            sorted.sort_unstable();
            prop_assert_eq!(ours, sorted);
        }

        #[test]
        fn sorting_by_a_contradictory_order_keeps_each_job(
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
