//! Sets of ids, for the few objects of many that a cycle looks at.
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
impl<I> PartialEq for Marks<I> {
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

    /// All ids in order.
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

/// A set of ids that remembers the order of insertion.
#[derive(Clone, Debug, PartialEq)]
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

    /// Takes all ids in the order in which they were marked.
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

/// Marked objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Marked {
    /// Tasks whose eviction was decided.
    pub(super) evicting: Marks<TaskId>,
    /// Nodes of a revocable zone.
    pub(super) lent: Marks<NodeId>,
    /// Jobs that are [pending](super::Job::is_pending).
    pub(super) pending: Marks<JobId>,
}

impl super::Cluster {
    /// Sets or clears the status that a task had when its eviction was decided.
    pub fn set_evicting(&mut self, id: TaskId, evicting: Option<Status>) {
        self.tasks[id].evicting = evicting;
        self.indexes.marked.evicting.set(id, evicting.is_some());
    }

    /// Tasks whose eviction was decided.
    pub fn evicting_tasks(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.indexes.marked.evicting.iter()
    }

    /// Updates the mark of a job whose phase or existence may have changed.
    pub(super) fn mark_pending(&mut self, id: JobId) {
        self.indexes.marked.pending.set(id, self.jobs[id].is_pending());
    }

    /// Jobs that wait for admission, or have pods that wait for a node or for resources there.
    pub fn pending_jobs(&self) -> impl Iterator<Item = (JobId, &super::Job)> {
        self.indexes.marked.pending.iter().map(|id| (id, &self.jobs[id]))
    }

    /// Nodes of a revocable zone.
    pub fn lent_nodes(&self) -> impl Iterator<Item = &super::Node> {
        self.indexes.marked.lent.iter().map(|id| &self.nodes[id])
    }

    /// Compares the marks with the objects.
    pub(super) fn check_marks(&self, note: &mut crate::check::Note<'_>) {
        let evicting = self.tasks.iter().filter(|(_, task)| task.evicting.is_some()).map(|(id, _)| id);
        note(self.indexes.marked.evicting.iter().eq(evicting), "tasks that are being evicted".to_owned());
        let lent = self.nodes.iter().filter(|(_, node)| node.zone().is_some()).map(|(id, _)| id);
        note(self.indexes.marked.lent.iter().eq(lent), "nodes that are lent".to_owned());
        let pending = self.jobs.iter().filter(|(_, job)| job.is_pending()).map(|(id, _)| id);
        note(self.indexes.marked.pending.iter().eq(pending), "jobs that are pending".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_ids_are_listed_in_order() {
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
