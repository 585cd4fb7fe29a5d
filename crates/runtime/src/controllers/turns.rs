//! Whose turn it is: namespaces come in turn, and so do the subjects of a namespace.
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use super::queue::Subject;

/// What a turn is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The next request for a subject.
    Request(Subject),
    /// The reconciliation of a subject.
    Reconciliation(Subject),
}

/// Subjects that wait for a turn. Queues, which have no namespace, count as one.
#[derive(Debug, Default)]
struct Turns {
    namespaces: BTreeMap<Arc<str>, Waiting>,
    /// The namespace that had the last turn.
    last: Arc<str>,
}

/// The subjects of a namespace, each once at most.
#[derive(Debug, Default)]
struct Waiting {
    requests: VecDeque<Subject>,
    reconciliations: VecDeque<Subject>,
}

impl Turns {
    fn add(&mut self, turn: Turn) {
        match turn {
            Turn::Request(subject) => self.of(&subject).requests.push_back(subject),
            Turn::Reconciliation(subject) => self.of(&subject).reconciliations.push_back(subject),
        }
    }

    fn of(&mut self, subject: &Subject) -> &mut Waiting {
        self.namespaces.entry(Arc::clone(&subject.key.namespace)).or_default()
    }

    /// The turn of the namespace that comes after the last one. What is begun goes before what is new, so that few
    /// outcomes wait to be sent.
    fn take(&mut self) -> Option<Turn> {
        let mut after = self.namespaces.range::<str, _>((Excluded(&*self.last), Unbounded));
        let namespace = after.next().or_else(|| self.namespaces.first_key_value())?.0.clone();
        let waiting = self.namespaces.get_mut(&namespace)?;
        let request = waiting.requests.pop_front().map(Turn::Request);
        let turn = request.or_else(|| waiting.reconciliations.pop_front().map(Turn::Reconciliation));
        if waiting.requests.is_empty() && waiting.reconciliations.is_empty() {
            self.namespaces.remove(&namespace);
        }
        self.last = namespace;
        turn
    }
}

/// So many requests of a sort may be in flight; others wait for their turn.
#[derive(Debug)]
pub(super) struct Slots {
    most: usize,
    taken: usize,
    turns: Turns,
}

impl Slots {
    pub(super) fn new(most: usize) -> Self {
        Self { most, taken: 0, turns: Turns::default() }
    }

    pub(super) fn are_free(&self) -> bool {
        self.taken < self.most
    }

    pub(super) fn add(&mut self, turn: Turn) {
        self.turns.add(turn);
    }

    /// The next turn, while a slot is free for the request that comes of it.
    pub(super) fn next(&mut self) -> Option<Turn> {
        self.are_free().then(|| self.turns.take()).flatten()
    }

    /// A request was sent.
    pub(super) fn take(&mut self) {
        self.taken += 1;
    }

    /// A request was answered.
    pub(super) fn free(&mut self) {
        self.taken = self.taken.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use phalanx_controllers::Kind;

    use super::*;

    fn subject(namespace: &str, name: &str) -> Subject {
        Subject::new(Kind::Job, namespace, name)
    }

    fn taken(turns: &mut Turns) -> Vec<String> {
        let name = |turn| match turn {
            Turn::Request(subject) => format!("request {}", subject.key),
            Turn::Reconciliation(subject) => format!("reconciliation {}", subject.key),
        };
        std::iter::from_fn(|| turns.take()).map(name).collect()
    }

    #[test]
    fn namespaces_come_in_turn_whatever_waits_in_each() {
        let mut turns = Turns::default();
        for name in ["a", "b", "c"] {
            turns.add(Turn::Reconciliation(subject("many", name)));
        }
        turns.add(Turn::Request(subject("many", "d")));
        turns.add(Turn::Reconciliation(subject("one", "x")));
        turns.add(Turn::Request(subject("", "y")));
        let expected = [
            "request many/d",
            "reconciliation one/x",
            "request y",
            "reconciliation many/a",
            "reconciliation many/b",
            "reconciliation many/c",
        ];
        assert_eq!(taken(&mut turns), expected);
    }
}
