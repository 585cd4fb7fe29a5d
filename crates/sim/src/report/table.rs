//! Plain tables for a terminal.
use std::collections::BTreeMap;

use crate::printable::printable;

use super::{Eviction, GroupOutcome, QueueOutcome, Report, alike, amounts, people, percent};

/// The number of kinds of reasons that are listed, for PodGroups and for pods without one.
pub(crate) const REASONS_MAX: usize = 20;

/// The number of PodGroups that the short table lists.
const GROUPS_MAX: usize = 100;

/// The legend of the queues.
const SHARE: &str = "SHARE: allocated of deserved, of the resource of which this is the most. Below 100 % a queue that asks for more\n\
    gets it before others; above, other queues may reclaim pods from it.\n";

/// The number of nodes that are named for a gang; above it only their number is shown.
const NODES_MAX: usize = 4;

/// How much a table tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Rounded amounts, a few names of nodes.
    Short,
    /// Exact amounts, all names.
    Wide,
}

impl Report {
    /// The report as tables, rounded.
    pub fn to_table(&self) -> String {
        self.tables(Detail::Short)
    }

    /// The report as tables that tell so much.
    pub fn tables(&self, detail: Detail) -> String {
        let parts = [
            self.flow_table(),
            self.cron_table(),
            self.job_table(),
            self.gangs(detail),
            self.single_pods(detail),
            self.queue_table(detail),
            self.hyper_node_table(detail == Detail::Wide),
            self.evicted(),
            self.waiting(),
        ];
        let mut text: String =
            parts.into_iter().filter(|part| !part.is_empty()).map(|part| part + "\n").collect();
        text.push_str(&self.summary());
        text.push('\n');
        text
    }

    /// The summary in one line.
    pub fn summary(&self) -> String {
        let stats = &self.stats;
        let bound = match (stats.bound, stats.pending) {
            (0, 0) => "no pod to bind".to_owned(),
            (bound, waiting) => format!("{} bound, {waiting} waiting", counted(bound, "pod")),
        };
        // A run without a clock does not know how long its sessions took.
        let measured = Some(stats.session_seconds).filter(|seconds| *seconds > 0.0);
        let sessions = measured.map(|seconds| format!(", {seconds:.3} s in sessions")).unwrap_or_default();
        format!(
            "{bound}, {} evicted on {}; {}, {} s of virtual time{sessions}",
            self.evictions.len(),
            counted(stats.nodes, "node"),
            counted(stats.cycles as usize, "cycle"),
            stats.virtual_seconds,
        )
    }

    fn gangs(&self, detail: Detail) -> String {
        let rows = self.pod_groups.iter().map(|(name, group)| {
            let cells = [&group.min_member, &group.placed(), &group.waiting].map(ToString::to_string);
            let [min, placed, waiting] = cells;
            vec![
                name.clone(),
                group.queue.clone(),
                group.phase.clone(),
                min,
                placed,
                waiting,
                match detail {
                    Detail::Short => spread(&group.nodes),
                    Detail::Wide => each(&group.nodes),
                },
            ]
        });
        let listed = if detail == Detail::Wide { usize::MAX } else { GROUPS_MAX };
        let heads = ["PODGROUP", "QUEUE", "PHASE", "MIN", "PLACED", "WAITING", "NODES"];
        let mut text = columns(&heads, rows.take(listed).collect());
        let more = self.pod_groups.len().saturating_sub(listed);
        if more > 0 {
            text.extend(["... and ", &counted(more, "more PodGroup"), " (-o wide has all)\n"]);
        }
        text
    }

    fn flow_table(&self) -> String {
        let rows = self.job_flows.iter().map(|(name, flow)| {
            let completed = format!("{}/{}", flow.completed.len(), flow.steps);
            vec![name.clone(), flow.phase.clone(), completed, flow.message.clone()]
        });
        columns(&["JOBFLOW", "PHASE", "COMPLETED", ""], rows.collect())
    }

    fn cron_table(&self) -> String {
        let rows = self.cron_jobs.iter().map(|(name, cron)| {
            let last = cron.last.clone().unwrap_or_else(|| "-".to_owned());
            vec![name.clone(), cron.started.to_string(), cron.active.to_string(), last]
        });
        columns(&["CRONJOB", "STARTED", "ACTIVE", "LAST"], rows.collect())
    }

    fn job_table(&self) -> String {
        let rows = self.jobs.iter().map(|(name, job)| {
            let mut cells = vec![name.clone(), job.phase.clone(), job.retries.to_string()];
            cells.extend(job.pods.in_order().map(|count| count.to_string()));
            cells.push(job.message.clone());
            cells
        });
        columns(&["JOB", "PHASE", "RETRIES", "WAITING", "RUNNING", "SUCCEEDED", "FAILED", ""], rows.collect())
            + &self.histories()
    }

    /// How Jobs came to their phases, where an action was taken.
    fn histories(&self) -> String {
        let acted = self.jobs.iter().filter(|(_, job)| job.history.iter().any(|one| !one.cause.is_empty()));
        let lines = acted.map(|(name, job)| {
            let steps: Vec<String> = job.history.iter().map(ToString::to_string).collect();
            printable(&format!("Job {name}: {}", steps.join(", "))) + "\n"
        });
        lines.collect()
    }

    /// How many there are; in the wide table also where.
    fn single_pods(&self, detail: Detail) -> String {
        let of_gangs: u32 = self.pod_groups.values().map(GroupOutcome::placed).sum();
        let placed = self.nodes.values().map(|node| node.pods).sum::<u32>().saturating_sub(of_gangs);
        if placed == 0 && self.pods.is_empty() {
            return String::new();
        }
        let count = format!("Pods without a PodGroup: {placed} placed, {} waiting\n", self.pods.len());
        let waiting = self.pods.keys().map(|name| vec![name.clone(), "waits".to_owned()]);
        let rows = self.singles.iter().map(|(name, node)| vec![name.clone(), node.clone()]).chain(waiting);
        let rows = match detail {
            Detail::Short => Vec::new(),
            Detail::Wide => rows.collect(),
        };
        count + &columns(&["POD", "NODE"], rows)
    }

    /// The queues; if nothing is allocated any more, those of the time when the most was.
    fn queue_table(&self, detail: Detail) -> String {
        let shown = match detail {
            Detail::Short => people,
            Detail::Wide => amounts,
        };
        let queues = self.busiest.as_ref().map_or(&self.queues, |busiest| &busiest.queues);
        let rows = queues.iter().map(|(name, queue)| {
            let figures = [shown(&queue.allocated), shown(&queue.deserved)];
            let [allocated, deserved] = figures;
            vec![name.clone(), queue.weight.to_string(), percent(queue.share), allocated, deserved]
        });
        let table = columns(&["QUEUE", "WEIGHT", "SHARE", "ALLOCATED", "DESERVED"], rows.collect());
        let when = self.busiest.as_ref().map(|busiest| {
            format!("Queues after {} s, when the most was allocated; now nothing is:\n", busiest.seconds)
        });
        let shares = queues.values().any(|queue| queue.share.is_some());
        when.unwrap_or_default() + &table + if shares { SHARE } else { "" }
    }

    fn evicted(&self) -> String {
        let row = |it: &Eviction| vec![it.pod.clone(), it.action.to_owned(), it.reason.clone()];
        columns(&["EVICTED", "ACTION", "WHY"], self.eviction_causes.iter().map(row).collect())
    }

    fn waiting(&self) -> String {
        let problem = |(name, queue): (&String, &QueueOutcome)| {
            Some(format!("Queue {name}: {}", queue.problem.as_ref()?))
        };
        let mut lines: Vec<String> = self.queues.iter().filter_map(problem).collect();
        let problem = |(name, group): (&String, &GroupOutcome)| {
            Some(format!("PodGroup {name}: {}", group.problem.as_ref()?))
        };
        lines.extend(self.pod_groups.iter().filter_map(problem));
        let groups = self.waiting_groups();
        for (first, count, group) in groups.iter().take(REASONS_MAX) {
            lines.push(match count {
                1 => format!("PodGroup {first} ({}) waits:", group.phase),
                _ => format!("{count} PodGroups ({}) wait, such as {first}:", group.phase),
            });
            lines.extend(reasons_of(group).map(|reason| format!("  {reason}")));
        }
        lines.extend(more_kinds(groups.len()));
        let kinds = alike(&self.pods);
        for kind in kinds.iter().take(REASONS_MAX) {
            lines.push(kind.to_string());
            lines.extend(kind.lack.map(|lack| format!("  {lack}")));
        }
        lines.extend(more_kinds(kinds.len()));
        lines.iter().map(|line| printable(line) + "\n").collect()
    }

    /// Waiting PodGroups; of those with equal phase and reasons the first, and how many they are.
    fn waiting_groups(&self) -> Vec<(&str, usize, &GroupOutcome)> {
        let mut kinds: Vec<(&str, usize, &GroupOutcome)> = Vec::new();
        let mut known: BTreeMap<(&str, Vec<String>), usize> = BTreeMap::new();
        for (name, group) in self.pod_groups.iter().filter(|(_, group)| !group.reasons.is_empty()) {
            let kind = known.entry((&group.phase, reasons_of(group).collect())).or_insert_with(|| {
                kinds.push((name, 0, group));
                kinds.len() - 1
            });
            kinds[*kind].1 += 1;
        }
        kinds
    }
}

/// Why a PodGroup waits, line by line.
fn reasons_of(group: &GroupOutcome) -> impl Iterator<Item = String> {
    let lack = group.lack.iter().map(ToString::to_string);
    group.reasons.iter().cloned().chain(lack).chain(group.fragments.iter().cloned())
}

/// How many kinds of reasons are not listed.
fn more_kinds(kinds: usize) -> Option<String> {
    let more = kinds.checked_sub(REASONS_MAX).filter(|more| *more > 0)?;
    Some(format!("... and {} of reasons (-o json has all)", counted(more, "more kind")))
}

fn counted(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

pub(super) fn spread(nodes: &BTreeMap<String, u32>) -> String {
    if nodes.len() > NODES_MAX {
        return format!("{} nodes", nodes.len());
    }
    each(nodes)
}

/// Nodes with their pods.
pub(super) fn each(nodes: &BTreeMap<String, u32>) -> String {
    nodes.iter().map(|(node, pods)| format!("{node} ({pods})")).collect::<Vec<_>>().join(", ")
}

/// Left-aligned columns, two spaces apart; nothing without rows.
pub(crate) fn columns(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let head: Vec<String> = heads.iter().map(ToString::to_string).collect();
    let rows = rows.into_iter().map(|row| row.iter().map(|cell| printable(cell)).collect());
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    lines.iter().map(|line| row(line, &widths)).collect()
}

fn row(cells: &[String], widths: &[usize]) -> String {
    let padded: Vec<String> =
        cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
    padded.join("  ").trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{BusiestQueues, Lack, NodeOutcome, PodOutcome};

    #[test]
    fn names_in_the_table_are_escaped() {
        let mut report = Report::default();
        let queue = "a\u{1b}[31mb\nc".to_owned();
        let group =
            GroupOutcome { queue: queue.clone(), reasons: vec![queue.clone()], ..GroupOutcome::default() };
        report.pod_groups.insert(queue.clone(), group);
        report
            .pods
            .insert("a/p".into(), PodOutcome { reasons: vec![queue.clone()], ..PodOutcome::default() });
        report.queues.insert(queue.clone(), QueueOutcome { problem: Some(queue), ..QueueOutcome::default() });
        report.evictions.push("a/\r".into());
        let pod = "a/\r".to_owned();
        report.eviction_causes.push(Eviction { pod, ..Eviction::default() });
        let text = report.to_table();
        assert!(!text.contains(['\u{1b}', '\r']), "{text:?}");
        assert_eq!(text.matches("a\\u{1b}[31mb\\nc").count(), 8, "{text}");
    }

    #[test]
    fn gangs_queues_and_reasons_are_on_their_own_lines() {
        let mut report = Report::default();
        let group = GroupOutcome {
            phase: "Inqueue".into(),
            reasons: vec!["0/1 nodes are available: 1 Insufficient cpu.".into()],
            problem: None,
            lack: Some(Lack {
                missing: [("cpu".to_owned(), "500m".to_owned())].into(),
                missing_on: "n1".to_owned(),
                text: "least missing, on node n1: cpu 500m".to_owned(),
                ..Lack::default()
            }),
            fragments: vec!["cpu: 5 free in fragments".into()],
            queue: "q".into(),
            min_member: 3,
            nodes: [("n1".to_owned(), 2)].into(),
            waiting: 1,
            ..GroupOutcome::default()
        };
        report.pod_groups.insert("train/big".into(), group);
        report.nodes.insert("n1".into(), NodeOutcome { pods: 5, ..NodeOutcome::default() });
        for name in ["a/x", "a/y"] {
            let reasons =
                vec!["0/1 nodes are available: 1 Too many pods.".into(), "queue q is overused".into()];
            let lack = Some(Lack {
                missing: [("pods".to_owned(), "1".to_owned())].into(),
                missing_on: "n1".to_owned(),
                text: "least missing, on node n1: pods 1".to_owned(),
                ..Lack::default()
            });
            report.pods.insert(name.into(), PodOutcome { reasons, lack });
        }
        let problem = Some("its parent p does not exist".to_owned());
        let queue = QueueOutcome { weight: 3, share: Some(0.5), problem, ..QueueOutcome::default() };
        report.queues.insert("q".into(), queue);
        report.evictions.push("a/z".into());
        let (by, reason) = (None, "preempted by a/y".into());
        report.eviction_causes.push(Eviction { pod: "a/z".into(), action: "preempt", by, reason });
        report.stats.pending = 3;
        let expected = "\
PODGROUP   QUEUE  PHASE    MIN  PLACED  WAITING  NODES
train/big  q      Inqueue  3    2       1        n1 (2)

Pods without a PodGroup: 3 placed, 2 waiting

QUEUE  WEIGHT  SHARE  ALLOCATED  DESERVED
q      3       50 %   -          -
SHARE: allocated of deserved, of the resource of which this is the most. Below 100 % a queue that asks for more
gets it before others; above, other queues may reclaim pods from it.

EVICTED  ACTION   WHY
a/z      preempt  preempted by a/y

Queue q: its parent p does not exist
PodGroup train/big (Inqueue) waits:
  0/1 nodes are available: 1 Insufficient cpu.
  least missing, on node n1: cpu 500m
  cpu: 5 free in fragments
2 pods wait, such as a/x: 0/1 nodes are available: 1 Too many pods.
  least missing, on node n1: pods 1
2 pods wait, such as a/x: queue q is overused

0 pods bound, 3 waiting, 1 evicted on 0 nodes; 0 cycles, 0 s of virtual time
";
        assert_eq!(report.to_table(), expected);
    }

    #[test]
    fn podgroups_that_wait_for_the_same_reasons_are_told_once() {
        let mut report = Report::default();
        for number in 0..250 {
            let reasons = vec![if number == 7 { "queue q is overused" } else { "no room" }.to_owned()];
            let group = GroupOutcome { phase: "Inqueue".into(), reasons, ..GroupOutcome::default() };
            report.pod_groups.insert(format!("a/g{number:03}"), group);
        }
        let text = report.to_table();
        for part in [
            "... and 150 more PodGroups (-o wide has all)\n",
            "249 PodGroups (Inqueue) wait, such as a/g000:\n  no room\n",
            "PodGroup a/g007 (Inqueue) waits:\n  queue q is overused\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(report.tables(Detail::Wide).matches("\na/g").count(), 250);
    }

    #[test]
    fn queues_of_a_run_that_has_ended_are_those_of_its_busiest_time() {
        let mut report = Report::default();
        report.queues.insert("q".into(), QueueOutcome::default());
        let allocated = [("cpu".to_owned(), "4".to_owned())].into();
        let queue = QueueOutcome { weight: 1, share: Some(1.0), allocated, ..QueueOutcome::default() };
        report.busiest = Some(BusiestQueues { seconds: 12.0, queues: [("q".to_owned(), queue)].into() });
        let text = report.to_table();
        for part in
            ["Queues after 12 s, when the most was allocated; now nothing is:", "100 %", "cpu 4", "SHARE: "]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
