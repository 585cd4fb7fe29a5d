//! How two runs of a cluster differ.
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::changes::Drain;
use crate::printable::printable;
use crate::run_time::{ExpectedStart, ExpectedStarts};

use super::table::{Detail, REASONS_MAX, columns, each, spread};
use super::{GroupOutcome, PodOutcome, Report, alike, amounts, people};

/// The number of names in a line of names, unless all are asked for.
const NAMES_MAX: usize = 5;

/// The pods without a PodGroup that are listed, unless all are asked for.
const PODS_MAX: usize = 20;

/// How two runs of a cluster differ. Serialised, it is the object that `-o json` prints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// PodGroups that come to another end, by `namespace/name`.
    pub pod_groups: BTreeMap<String, Sides<GroupEnd>>,
    /// PodGroups that come to the same end on other nodes: members by node.
    pub elsewhere: BTreeMap<String, Sides<BTreeMap<String, u32>>>,
    /// Why PodGroups wait after the change that wait before it for other reasons: the first by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other_reasons: BTreeMap<String, Vec<String>>,
    /// The nodes of pods without a PodGroup where they differ; nothing for a pod that waits or does not exist.
    #[serde(default)]
    pub pods: BTreeMap<String, Sides<Option<String>>>,
    /// Objects of the change that take the place of none: kinds and names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// What the drain of nodes does besides.
    #[serde(default)]
    pub drain: Drain,
    /// Pods without a PodGroup that wait in one of the runs only.
    pub waiting_pods: Sides<Vec<String>>,
    /// Why pods without a PodGroup wait that do so in the second run only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waiting_reasons: BTreeMap<String, Vec<String>>,
    /// Pods that are evicted in one of the runs only, and for whom.
    pub evictions: Sides<BTreeMap<String, String>>,
    /// Allocated resources of queues where they differ.
    pub queues: BTreeMap<String, Sides<BTreeMap<String, String>>>,
    /// When PodGroups that wait after the change would start, where run times are known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expected_starts: BTreeMap<String, ExpectedStart>,
    /// The same of pods without a PodGroup.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expected_pod_starts: BTreeMap<String, ExpectedStart>,
    /// Each run in one line.
    pub summaries: Sides<String>,
}

/// The same of both runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sides<T> {
    /// Of the first run.
    pub before: T,
    /// Of the second run.
    pub after: T,
}

impl<T> Sides<T> {
    fn of<'r, R>(before: &'r R, after: &'r R, each: impl Fn(&'r R, &'r R) -> T) -> Self {
        Self { before: each(before, after), after: each(after, before) }
    }
}

/// How a PodGroup ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupEnd {
    /// The phase; empty where it does not exist.
    pub phase: String,
    /// Members with a node.
    pub placed: u32,
    /// Members without a node.
    pub waiting: u32,
    /// Members by node.
    pub nodes: BTreeMap<String, u32>,
    /// Why it waits.
    pub reasons: Vec<String>,
}

impl GroupEnd {
    fn of(group: &GroupOutcome) -> Self {
        Self {
            phase: group.phase.clone(),
            placed: group.placed(),
            waiting: group.waiting,
            nodes: group.nodes.clone(),
            reasons: group.reasons.clone(),
        }
    }

    fn is_alike(&self, other: &Self) -> bool {
        (&self.phase, self.placed, self.waiting) == (&other.phase, other.placed, other.waiting)
    }

    /// Whether the reasons differ in more than figures.
    fn waits_otherwise_than(&self, other: &Self) -> bool {
        let words = |text: &String| text.chars().filter(|it| !it.is_ascii_digit()).collect::<String>();
        !self.reasons.iter().map(words).eq(other.reasons.iter().map(words))
    }

    pub(super) fn shown(&self) -> String {
        if self.phase.is_empty() {
            return "-".to_owned();
        }
        let waiting = if self.waiting > 0 { format!(", {} waiting", self.waiting) } else { String::new() };
        format!("{}, {} placed{waiting}", self.phase, self.placed)
    }
}

impl Comparison {
    /// The differences of two reports on the same cluster, or on one that was changed.
    pub fn of(before: &Report, after: &Report) -> Self {
        let (mut pod_groups, mut elsewhere, mut other_reasons) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for name in before.pod_groups.keys().chain(after.pod_groups.keys()).collect::<BTreeSet<_>>() {
            let end = |report: &Report| report.pod_groups.get(name).map(GroupEnd::of).unwrap_or_default();
            let sides = Sides { before: end(before), after: end(after) };
            if !sides.before.is_alike(&sides.after) {
                pod_groups.insert(name.clone(), sides);
            } else if sides.before.nodes != sides.after.nodes {
                let Sides { before, after } = sides;
                elsewhere.insert(name.clone(), Sides { before: before.nodes, after: after.nodes });
            } else if sides.before.waits_otherwise_than(&sides.after) && other_reasons.len() < NAMES_MAX {
                other_reasons.insert(name.clone(), sides.after.reasons);
            }
        }
        Self {
            pod_groups,
            elsewhere,
            other_reasons,
            pods: single_pods(before, after),
            added: Vec::new(),
            drain: Drain::default(),
            waiting_reasons: waiting_reasons(before, after),
            waiting_pods: Sides::of(before, after, waiting_only),
            evictions: Sides::of(before, after, evicted_only),
            queues: queues(before, after),
            expected_starts: BTreeMap::new(),
            expected_pod_starts: BTreeMap::new(),
            summaries: Sides::of(before, after, |report, _| report.summary()),
        }
    }

    /// The same, with when what waits after the change would start.
    pub fn with_starts(self, starts: ExpectedStarts) -> Self {
        Self { expected_starts: starts.pod_groups, expected_pod_starts: starts.pods, ..self }
    }

    /// Whether the runs came to the same.
    pub fn is_empty(&self) -> bool {
        let (added, summaries, other_reasons) =
            (self.added.clone(), self.summaries.clone(), self.other_reasons.clone());
        let (expected_starts, expected_pod_starts) =
            (self.expected_starts.clone(), self.expected_pod_starts.clone());
        *self
            == Self {
                other_reasons,
                added,
                expected_starts,
                expected_pod_starts,
                summaries,
                ..Self::default()
            }
    }

    /// As tables; `names` are those of the runs.
    pub fn to_table(&self, names: [&str; 2], detail: Detail) -> String {
        let [first, second] = names;
        let most = if detail == Detail::Wide { usize::MAX } else { NAMES_MAX };
        let elsewhere = match detail {
            Detail::Short if self.elsewhere.len() > most => {
                named("PodGroups on other nodes", self.elsewhere.keys(), most)
            }
            Detail::Short | Detail::Wide => self.elsewhere_table(names),
        };
        let evicted =
            [(first, &self.evictions.before), (second, &self.evictions.after)].map(|(name, evicted)| {
                let rows = evicted.iter().map(|(pod, why)| vec![pod.clone(), why.clone()]).collect();
                columns(&[&format!("EVICTED IN {name} ONLY"), "WHY"], rows)
            });
        let waiting = [(first, &self.waiting_pods.before), (second, &self.waiting_pods.after)];
        let waiting = waiting.map(|(name, pods)| {
            named(&format!("Pods without a PodGroup that wait in {name} only"), pods.iter(), most)
        });
        let same =
            if self.is_empty() { "No difference in what is placed, waits or is evicted\n" } else { "" };
        let parts = [
            named("Added", self.added.iter(), most),
            self.group_table(names, detail),
            self.pod_table(names, detail),
            self.queue_table(names, detail),
            elsewhere + &waiting.concat() + &self.drained(most),
            evicted.into_iter().filter(|table| !table.is_empty()).collect::<Vec<_>>().join("\n"),
            self.reasons(second),
            self.expected(),
            format!("{same}{first}: {}\n{second}: {}\n", self.summaries.before, self.summaries.after),
        ];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
    }

    fn expected(&self) -> String {
        let kinds = [("PodGroup", &self.expected_starts), ("Pod", &self.expected_pod_starts)];
        let lines = kinds.into_iter().flat_map(|(kind, starts)| {
            starts.iter().map(move |(name, start)| printable(&format!("{kind} {name}: {start}")) + "\n")
        });
        lines.collect()
    }

    fn group_table(&self, [first, second]: [&str; 2], detail: Detail) -> String {
        let nodes = if detail == Detail::Wide { each } else { spread };
        let row = |(name, sides): (&String, &Sides<GroupEnd>)| {
            vec![name.clone(), sides.before.shown(), sides.after.shown(), nodes(&sides.after.nodes)]
        };
        columns(
            &["PODGROUP", first, second, &format!("NODES IN {second}")],
            self.pod_groups.iter().map(row).collect(),
        )
    }

    fn queue_table(&self, [first, second]: [&str; 2], detail: Detail) -> String {
        let shown = if detail == Detail::Wide { amounts } else { people };
        let row = |(name, sides): (&String, &Sides<BTreeMap<String, String>>)| {
            let mut cells = [shown(&sides.before), shown(&sides.after)];
            // Rounded amounts may hide the difference.
            if cells[0] == cells[1] {
                cells = [amounts(&sides.before), amounts(&sides.after)];
            }
            let [before, after] = cells;
            vec![name.clone(), before, after]
        };
        columns(&["QUEUE ALLOCATED", first, second], self.queues.iter().map(row).collect())
    }

    fn elsewhere_table(&self, [first, second]: [&str; 2]) -> String {
        columns(&["PODGROUP ON OTHER NODES", first, second], self.elsewhere_rows().collect())
    }

    /// PodGroups on other nodes: name, pods by node in one run and in the other.
    pub(super) fn elsewhere_rows(&self) -> impl Iterator<Item = Vec<String>> {
        let row = |(name, sides): (&String, &Sides<BTreeMap<String, u32>>)| {
            vec![name.clone(), each(&sides.before), each(&sides.after)]
        };
        self.elsewhere.iter().map(row)
    }

    /// Pods without a PodGroup: name, where it is in one run and in the other.
    pub(super) fn single_pod_rows(&self) -> impl Iterator<Item = Vec<String>> {
        let at = |name: &String, node: &Option<String>, waiting: &Vec<String>| match node {
            Some(node) => node.clone(),
            None if waiting.contains(name) => "waits".to_owned(),
            None => "-".to_owned(),
        };
        let waiting = self.waiting_pods.before.iter().chain(&self.waiting_pods.after);
        let names: BTreeSet<&String> = self.pods.keys().chain(waiting).collect();
        names.into_iter().map(move |name| {
            let Sides { before, after } = self.pods.get(name).cloned().unwrap_or_default();
            let before = at(name, &before, &self.waiting_pods.before);
            vec![name.clone(), before, at(name, &after, &self.waiting_pods.after)]
        })
    }

    /// Where pods without a PodGroup are.
    fn pod_table(&self, [first, second]: [&str; 2], detail: Detail) -> String {
        let most = if detail == Detail::Wide { usize::MAX } else { PODS_MAX };
        let mut rows: Vec<Vec<String>> = self.single_pod_rows().collect();
        let more = rows.len().saturating_sub(most);
        rows.truncate(most);
        let more = if more > 0 { format!("... and {more} more pods (-o wide)\n") } else { String::new() };
        columns(&["POD WITHOUT A PODGROUP", first, second], rows) + &more
    }

    fn drained(&self, most: usize) -> String {
        let foreign = "Pods of other schedulers that the drain evicts, which are not placed again here";
        let blocked = self.drain.blocked.iter().map(|it| {
            let noun = if it.pods == 1 { "pod" } else { "pods" };
            let line = format!(
                "PodDisruptionBudget {} allows {} of the {} {noun} that the drain evicts at once: it waits for others to be ready",
                it.budget, it.allowed, it.pods
            );
            printable(&line) + "\n"
        });
        named(foreign, self.drain.foreign.iter(), most) + &blocked.collect::<String>()
    }

    /// Why PodGroups, and pods without one, wait in the second run that did not wait like this in the first.
    fn reasons(&self, second: &str) -> String {
        let waits = self.pod_groups.iter().filter(|(_, sides)| !sides.after.reasons.is_empty());
        let lines = waits.flat_map(|(name, sides)| {
            let head = format!("PodGroup {name} waits in {second}:");
            std::iter::once(head).chain(sides.after.reasons.iter().map(|reason| format!("  {reason}")))
        });
        let others = self.other_reasons.iter().flat_map(|(name, reasons)| {
            let head = format!("PodGroup {name} waits in {second} for another reason:");
            std::iter::once(head).chain(reasons.iter().map(|reason| format!("  {reason}")))
        });
        let outcome = |(pod, reasons): (&String, &Vec<String>)| {
            (pod.clone(), PodOutcome { reasons: reasons.clone(), lack: None })
        };
        let pods = self.waiting_reasons.iter().map(outcome).collect();
        let kinds = alike(&pods);
        let of_pods = kinds.iter().take(REASONS_MAX).map(|kind| format!("In {second} {kind}"));
        lines.chain(others).chain(of_pods).map(|line| printable(&line) + "\n").collect()
    }
}

fn waiting_only(one: &Report, other: &Report) -> Vec<String> {
    one.pods.keys().filter(|pod| !other.pods.contains_key(*pod)).cloned().collect()
}

fn waiting_reasons(before: &Report, after: &Report) -> BTreeMap<String, Vec<String>> {
    let reasons = |pod: String| {
        let reasons = after.pods.get(&pod)?.reasons.clone();
        Some((pod, reasons)).filter(|(_, reasons)| !reasons.is_empty())
    };
    waiting_only(after, before).into_iter().filter_map(reasons).collect()
}

fn single_pods(before: &Report, after: &Report) -> BTreeMap<String, Sides<Option<String>>> {
    let names: BTreeSet<&String> = before.singles.keys().chain(after.singles.keys()).collect();
    let node = |report: &Report, name: &String| report.singles.get(name).cloned();
    let sides = names
        .into_iter()
        .map(|name| (name.clone(), Sides { before: node(before, name), after: node(after, name) }));
    sides.filter(|(_, sides)| sides.before != sides.after).collect()
}

fn evicted_only(one: &Report, other: &Report) -> BTreeMap<String, String> {
    let others: BTreeSet<&String> = other.evictions.iter().collect();
    let only = one.eviction_causes.iter().filter(|eviction| !others.contains(&eviction.pod));
    only.map(|eviction| (eviction.pod.clone(), eviction.reason.clone())).collect()
}

fn queues(before: &Report, after: &Report) -> BTreeMap<String, Sides<BTreeMap<String, String>>> {
    let names: BTreeSet<&String> = before.queues.keys().chain(after.queues.keys()).collect();
    let allocated = |report: &Report, name| {
        report.queues.get(name).map(|queue| queue.allocated.clone()).unwrap_or_default()
    };
    let sides = names
        .into_iter()
        .map(|name| (name.clone(), Sides { before: allocated(before, name), after: allocated(after, name) }));
    sides.filter(|(_, sides)| sides.before != sides.after).collect()
}

/// A line with the first names, so many at most; nothing without any.
fn named<'n>(what: &str, names: impl ExactSizeIterator<Item = &'n String>, most: usize) -> String {
    let count = names.len();
    if count == 0 {
        return String::new();
    }
    let first: Vec<String> = names.take(most).map(|name| printable(name)).collect();
    let more = if count > most { format!(" and {} more (-o wide)", count - most) } else { String::new() };
    format!("{what}: {}{more}\n", first.join(", "))
}
