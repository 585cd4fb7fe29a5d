//! Reasons of many jobs, told once.
use std::collections::BTreeMap;

use serde::Serialize;

/// The reasons of all jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reasons {
    /// Each text of the listed jobs once.
    pub texts: Vec<String>,
    /// Kinds of first reasons, regardless of the numbers in them. Each job with reasons is of one kind.
    pub kinds: Vec<ReasonKind>,
    #[serde(skip)]
    text_ids: BTreeMap<String, u32>,
    #[serde(skip)]
    kind_ids: BTreeMap<String, u32>,
}

/// A kind of reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReasonKind {
    /// The first reason of this kind, without the name of a pod before it.
    pub example: String,
    /// How many jobs wait for it, listed or not.
    pub gangs: u32,
    /// How many pods of these wait.
    pub pods: u32,
    /// How many of the jobs are in which queue.
    pub queues: BTreeMap<String, u32>,
}

impl Reasons {
    /// Counts a job with these reasons; returns their kind.
    pub(crate) fn count(&mut self, reasons: &[String], queue: &str, pods: u32) -> Option<u32> {
        let reason = without_pod(reasons.first()?);
        let next = self.kinds.len() as u32;
        let id = *self.kind_ids.entry(shape(reason)).or_insert(next);
        if id == next {
            self.kinds.push(ReasonKind { example: reason.to_owned(), ..ReasonKind::default() });
        }
        let kind = &mut self.kinds[id as usize];
        kind.gangs += 1;
        kind.pods += pods;
        *kind.queues.entry(queue.to_owned()).or_default() += 1;
        Some(id)
    }

    /// The number of a text.
    pub(crate) fn text(&mut self, reason: &str) -> u32 {
        if let Some(id) = self.text_ids.get(reason) {
            return *id;
        }
        let id = self.texts.len() as u32;
        self.texts.push(reason.to_owned());
        self.text_ids.insert(reason.to_owned(), id);
        id
    }
}

/// A reason may begin with the name of the pod that it is about, which is left out.
fn without_pod(reason: &str) -> &str {
    match reason.split_once(": ") {
        Some((name, rest)) if !name.contains(char::is_whitespace) => rest,
        _ => reason,
    }
}

/// The parts of a reason without their numbers, sorted: equal for reasons of the same kind.
pub fn shape(reason: &str) -> String {
    let number =
        |word: &&str| !word.trim_start_matches('(').starts_with(|letter: char| letter.is_ascii_digit());
    let words = |part: &str| part.split_whitespace().filter(number).collect::<Vec<_>>().join(" ");
    let mut parts: Vec<String> = reason.trim_end_matches('.').split([',', ':']).map(words).collect();
    parts.sort();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_differ_in_numbers_and_pods_are_of_one_kind() {
        let mut reasons = Reasons::default();
        let told = [
            "p-1: 0/9 nodes are available: 4 Insufficient cpu, 5 node(s) had untolerated taint(s).",
            "q-7: 0/9 nodes are available: 2 node(s) had untolerated taint(s), 7 Insufficient cpu.",
            "queue x is overused: cpu (2 more)",
            "queue y is overused: cpu (2 more)",
        ];
        let kinds = told.map(|reason| reasons.count(&[reason.to_owned(), "no more".into()], "q", 3));
        assert_eq!(kinds, [0, 0, 1, 2].map(Some));
        let counts: Vec<(u32, u32)> = reasons.kinds.iter().map(|kind| (kind.gangs, kind.pods)).collect();
        assert_eq!(counts, [(2, 6), (1, 3), (1, 3)]);
        assert!(reasons.kinds[0].example.starts_with("0/9 nodes"), "{reasons:?}");
    }
}
