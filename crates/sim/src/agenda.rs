//! Planned steps in virtual time.
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use phalanx_cluster::event::{Key, Time};

/// A step of a virtual kubelet; pods are named by UID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The containers run.
    Start(Arc<str>),
    /// The containers have finished.
    Finish(Arc<str>),
    /// The pod and its object are gone.
    Remove(Arc<str>),
    /// The volume of a claim is detached from a node, if no pod there uses it.
    Detach { claim: Key, node: Arc<str> },
}

/// Steps by time, and at equal times in insertion order.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    steps: BinaryHeap<Reverse<(Time, u64, Step)>>,
    sequence: u64,
}

impl Agenda {
    pub(crate) fn put(&mut self, at: Time, step: Step) {
        self.sequence += 1;
        self.steps.push(Reverse((at, self.sequence, step)));
    }

    /// When the next step is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.steps.peek().map(|Reverse((at, ..))| *at)
    }

    /// The pods that have a step, in no order.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Arc<str>> {
        self.steps.iter().filter_map(|Reverse((.., step))| match step {
            Step::Start(pod) | Step::Finish(pod) | Step::Remove(pod) => Some(pod),
            Step::Detach { .. } => None,
        })
    }

    /// The next step that is due by `now`, with its time.
    pub(crate) fn due(&mut self, now: Time) -> Option<(Time, Step)> {
        if self.next()? > now {
            return None;
        }
        self.steps.pop().map(|Reverse((at, _, step))| (at, step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_taken_by_time_and_then_in_insertion_order() {
        let mut agenda = Agenda::default();
        for (at, pod) in [(5, "z"), (3, "y"), (5, "a"), (9, "late")] {
            agenda.put(Time(at), Step::Start(pod.into()));
        }
        let mut seen = Vec::new();
        while let Some((at, Step::Start(pod))) = agenda.due(Time(5)) {
            seen.push((at.0, pod.to_string()));
        }
        assert_eq!(seen, [(3, "y".to_owned()), (5, "z".to_owned()), (5, "a".to_owned())]);
        assert_eq!(agenda.next(), Some(Time(9)));
    }
}
