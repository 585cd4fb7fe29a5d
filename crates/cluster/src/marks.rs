//! Few of many ids: what a cycle has to look at, so that it need not look at all.
use std::marker::PhantomData;

use super::Status;
use crate::id::{Id, JobId, NodeId, TaskId};

/// A set of ids, a bit for each.
#[derive(Clone, Debug)]
pub(super) struct Marks<I> {
    words: Vec<u64>,
    _id: PhantomData<fn(I)>,
}

impl<I> Default for Marks<I> {
    fn default() -> Self {
        Self { words: Vec::new(), _id: PhantomData }
    }
}

/// Sets are equal when they have the same ids.
impl<I: Id> PartialEq for Marks<I> {
    fn eq(&self, other: &Self) -> bool {
        let end = self.words.len().max(other.words.len());
        (0..end).all(|at| self.words.get(at).unwrap_or(&0) == other.words.get(at).unwrap_or(&0))
    }
}

impl<I: Id> Marks<I> {
    #[inline]
    pub(super) fn set(&mut self, id: I, marked: bool) {
        let (word, bit) = (id.index() / 64, 1 << (id.index() % 64));
        if marked {
            if self.words.len() <= word {
                self.words.resize(word + 1, 0);
            }
            self.words[word] |= bit;
        } else if let Some(word) = self.words.get_mut(word) {
            *word &= !bit;
        }
    }

    #[inline]
    pub(super) fn has(&self, id: I) -> bool {
        self.words.get(id.index() / 64).is_some_and(|word| word & (1 << (id.index() % 64)) != 0)
    }

    /// All, by id.
    pub(super) fn iter(&self) -> impl Iterator<Item = I> + '_ {
        let bits = |(at, word): (usize, &u64)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(I::from_index(64 * at + bit))
            })
        };
        self.words.iter().enumerate().flat_map(bits)
    }
}

/// Ids of what has changed, each once.
#[derive(Clone, Debug)]
pub(super) struct Dirty<I> {
    marks: Marks<I>,
    list: Vec<I>,
}

impl<I> Default for Dirty<I> {
    fn default() -> Self {
        Self { marks: Marks::default(), list: Vec::new() }
    }
}

impl<I: Id> Dirty<I> {
    /// Marks an id. True when it was not marked before.
    #[inline]
    pub(super) fn mark(&mut self, id: I) -> bool {
        let fresh = !self.has(id);
        if fresh {
            self.marks.set(id, true);
            self.list.push(id);
        }
        fresh
    }

    #[inline]
    pub(super) fn has(&self, id: I) -> bool {
        self.marks.has(id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = I> + '_ {
        self.list.iter().copied()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All that are marked, in the order in which they were; none is marked then.
    pub(super) fn take(&mut self) -> Vec<I> {
        let list = std::mem::take(&mut self.list);
        for id in &list {
            self.marks.set(*id, false);
        }
        list
    }
}

impl<I> IntoIterator for Dirty<I> {
    type Item = I;
    type IntoIter = std::vec::IntoIter<I>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

/// What is marked.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Marked {
    /// Tasks that are being evicted.
    pub(super) evicting: Marks<TaskId>,
    /// Nodes that are lent for a part of the day.
    pub(super) lent: Marks<NodeId>,
    /// Jobs that are [pending](super::Job::is_pending).
    pub(super) pending: Marks<JobId>,
}

impl super::Cluster {
    /// A task is being evicted, or no longer.
    pub fn set_evicting(&mut self, id: TaskId, evicting: Option<Status>) {
        self.tasks[id].evicting = evicting;
        self.marked.evicting.set(id, evicting.is_some());
    }

    /// Tasks that are being evicted.
    pub fn evicting_tasks(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.marked.evicting.iter()
    }

    /// The phase of a job, or whether its PodGroup exists, may have changed.
    pub(super) fn mark_pending(&mut self, id: JobId) {
        self.marked.pending.set(id, self.jobs[id].is_pending());
    }

    /// Jobs that wait for admission, and jobs with pods that wait for a node, or for capacity on one.
    pub fn pending_jobs(&self) -> impl Iterator<Item = (JobId, &super::Job)> {
        self.marked.pending.iter().map(|id| (id, &self.jobs[id]))
    }

    /// Nodes that are lent for a part of the day.
    pub fn lent_nodes(&self) -> impl Iterator<Item = &super::Node> {
        self.marked.lent.iter().map(|id| &self.nodes[id])
    }

    /// What is marked and should not be, or the other way round.
    pub(super) fn check_marks(&self, note: &mut impl FnMut(bool, String)) {
        let evicting = self.tasks.iter().filter(|(_, task)| task.evicting.is_some()).map(|(id, _)| id);
        note(self.marked.evicting.iter().eq(evicting), "tasks that are being evicted".to_owned());
        let lent = self.nodes.iter().filter(|(_, node)| node.zone().is_some()).map(|(id, _)| id);
        note(self.marked.lent.iter().eq(lent), "nodes that are lent".to_owned());
        let pending = self.jobs.iter().filter(|(_, job)| job.is_pending()).map(|(id, _)| id);
        note(self.marked.pending.iter().eq(pending), "jobs that are pending".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_marked_come_by_id() {
        let mut marks = Marks::<TaskId>::default();
        for at in [130, 3, 64, 63, 3] {
            marks.set(TaskId::from_index(at), true);
        }
        for at in [64, 5, 500] {
            marks.set(TaskId::from_index(at), false);
        }
        let ids: Vec<usize> = marks.iter().map(Id::index).collect();
        assert_eq!(ids, [3, 63, 130]);
    }
}
