//! What would let a job run, found by trying it: each remedy is tried on a copy of the cluster, by a cycle of the core.
//!
//! The smallest of its kind is told: the fewest further nodes like one that is there, the PodGroup with the fewest pods
//! that would have to finish, the amounts that its queue lacks. Several PodGroups that would have to finish together are
//! not looked for.
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use phalanx_cluster::event::{Event, Key, NodeInfo, Resources, Time};
use phalanx_cluster::search_budget::Stopwatch;
use phalanx_cluster::{Hold, JobKind, Task};
use phalanx_core::Scheduler;
use phalanx_core::decision::Decision;
use phalanx_core::report::{Figures, GroupReport, Snapshot};
use phalanx_resource::Quantity;
use serde::{Deserialize, Serialize};

use crate::answer;
use crate::facts::Amounts;
use crate::text;

/// Sorts of nodes, and PodGroups, that are tried at most.
const TRIALS_MAX: usize = 24;

/// The most nodes that are added in a trial.
const NODES_MAX: u32 = 1_024;

/// How long after the last cycle a trial begins.
const PERIOD_MS: i64 = 1_000;

/// How long remedies are looked for. Without a stopwatch only the number of trials is limited.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience<'a> {
    /// Measures the time, and ends the search after so much of it.
    pub limit: Option<(&'a dyn Stopwatch, Duration)>,
}

impl Patience<'_> {
    fn is_over(&self) -> bool {
        self.limit.is_some_and(|(stopwatch, most)| stopwatch.elapsed() >= most)
    }
}

/// A change that would let a job run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Remedy {
    /// The queue may hold so much more.
    Queue {
        /// The queue.
        queue: String,
        /// The missing amounts.
        missing: Amounts,
    },
    /// So many more nodes like this one.
    Nodes {
        /// How many.
        count: u32,
        /// The node.
        like: String,
    },
    /// Another PodGroup has finished.
    Finished {
        /// Namespace and name.
        #[serde(rename = "podGroup")]
        pod_group: String,
    },
}

impl Remedy {
    /// The PodGroup that would have to finish.
    pub fn pod_group(&self) -> Option<&str> {
        match self {
            Self::Finished { pod_group } => Some(pod_group),
            _ => None,
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue { queue, missing } => {
                write!(f, "if queue {queue} might hold {} more", text::amounts(missing))
            }
            Self::Nodes { count: 1, like } => write!(f, "with 1 more node like {like}"),
            Self::Nodes { count, like } => write!(f, "with {count} more nodes like {like}"),
            Self::Finished { pod_group } => write!(f, "once PodGroup {pod_group} has finished"),
        }
    }
}

/// Remedies that were found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remedies {
    /// The smallest of each kind.
    pub found: Vec<Remedy>,
    /// The time was over before all were tried.
    pub unfinished: bool,
}

/// A snapshot on copies of which remedies are tried, and the job that waits.
pub(crate) struct Trials<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) job: &'a GroupReport,
}

impl Trials<'_> {
    /// The remedies that help, the smallest of each kind.
    pub(crate) fn remedies(&self, patience: &Patience<'_>) -> Remedies {
        if self.job.waiting == 0 || self.helps(Vec::new()) {
            return Remedies::default();
        }
        let found = [self.queue(), self.finished(patience), self.more_nodes(patience)];
        Remedies { found: found.into_iter().flatten().collect(), unfinished: patience.is_over() }
    }

    /// Whether a pod of the job is bound once these things have happened.
    fn helps(&self, events: Vec<Event>) -> bool {
        let mut cluster = self.snapshot.cluster.clone();
        for event in events {
            cluster.apply(event);
        }
        let mut scheduler = Scheduler::new(self.snapshot.conf.clone(), 0);
        let outcome = scheduler.run(&mut cluster, Time(self.snapshot.now.0.saturating_add(PERIOD_MS)));
        outcome.decisions.iter().any(|one| matches!(one, Decision::Bind { job, .. } if *job == self.job.key))
    }

    fn queue(&self) -> Option<Remedy> {
        let (lack, cluster) = (self.job.queue_lack.as_ref()?, &self.snapshot.cluster);
        let mut queue = cluster.queue_info(cluster.queue_named(&lack.queue)?);
        raise(&mut queue.capability, &lack.missing);
        raise(&mut queue.deserved, &lack.missing);
        let (queue_name, missing) = (lack.queue.to_string(), answer::amounts(&lack.missing));
        let remedy = Remedy::Queue { queue: queue_name, missing };
        self.helps(vec![Event::Queue(Box::new(queue))]).then_some(remedy)
    }

    fn finished(&self, patience: &Patience<'_>) -> Option<Remedy> {
        let mut running = self.running();
        running.sort_by_key(|(_, pods)| pods.len());
        let helps = |pods: &[Arc<str>]| self.helps(pods.iter().cloned().map(Event::PodGone).collect());
        let mut tried = running.into_iter().take(TRIALS_MAX).take_while(|_| !patience.is_over());
        let found = tried.find(|(_, pods)| helps(pods));
        found.map(|(key, _)| Remedy::Finished { pod_group: key.to_string() })
    }

    /// The other PodGroups with pods on nodes, by name, and the UIDs of these pods.
    fn running(&self) -> Vec<(&Key, Vec<Arc<str>>)> {
        let cluster = &self.snapshot.cluster;
        let placed = |task: &&Task| !matches!(task.status.hold(), Hold::Nothing | Hold::Pipelined);
        let groups = cluster.jobs.iter().map(|(_, job)| job);
        let others = groups.filter(|job| job.kind == JobKind::Group && job.key != self.job.key);
        let pods = others.map(|job| {
            let tasks = job.tasks.iter().map(|task| &cluster.tasks[*task]);
            (&job.key, tasks.filter(placed).map(|task| task.pod.uid.clone()).collect::<Vec<_>>())
        });
        let mut running: Vec<(&Key, Vec<Arc<str>>)> = pods.filter(|(_, pods)| !pods.is_empty()).collect();
        running.sort();
        running
    }

    /// The fewest nodes over all sorts of nodes; among sorts that need as many, the one that most nodes are of.
    fn more_nodes(&self, patience: &Patience<'_>) -> Option<Remedy> {
        let sorts = self.sorts_of_nodes();
        let found =
            sorts.into_iter().take(TRIALS_MAX).take_while(|_| !patience.is_over()).filter_map(|node| {
                let count = self.fewest(&node, patience)?;
                Some((count, node))
            });
        let (count, node) = found.min_by_key(|(count, _)| *count)?;
        Some(Remedy::Nodes { count, like: node.name.to_string() })
    }

    /// The fewest nodes like this one that help. Where the time is over, a number that helps.
    fn fewest(&self, like: &NodeInfo, patience: &Patience<'_>) -> Option<u32> {
        let helps =
            |count: u32| self.helps((1..=count).map(|number| Event::Node(like.alike(number))).collect());
        let most = self.job.waiting.clamp(1, NODES_MAX);
        if !helps(most) {
            return None;
        }
        let (mut too_few, mut enough) = (0, most);
        while enough - too_few > 1 && !patience.is_over() {
            let middle = too_few + (enough - too_few) / 2;
            if helps(middle) { enough = middle } else { too_few = middle }
        }
        Some(enough)
    }

    /// One node of each sort, told apart by amounts, taints and labels other than its name, the most frequent sort
    /// first.
    fn sorts_of_nodes(&self) -> Vec<NodeInfo> {
        let cluster = &self.snapshot.cluster;
        let exist = cluster.nodes.iter().filter(|(_, node)| node.exists);
        let mut nodes: Vec<_> = exist.map(|(id, node)| (&node.name, id)).collect();
        nodes.sort_unstable();
        let mut sorts: BTreeMap<String, (usize, NodeInfo)> = BTreeMap::new();
        for (_, id) in nodes {
            let node = cluster.node_info(id);
            let labels: Vec<_> = node.labels_alike().collect();
            let sort = format!("{:?} {:?} {labels:?}", node.allocatable, node.taints);
            sorts.entry(sort).or_insert((0, node)).0 += 1;
        }
        let mut sorts: Vec<_> = sorts.into_values().collect();
        sorts.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        sorts.into_iter().map(|(_, node)| node).collect()
    }
}

/// Adds amounts to those that are given: a resource that is not has no limit.
fn raise(amounts: &mut Resources, more: &Figures) {
    for (name, amount) in amounts {
        let more = more.iter().find(|(resource, _)| resource == name);
        let more = more.and_then(|(_, more)| more.parse::<Quantity>().ok());
        if let Some(sum) = more.and_then(|more| sum(*amount, more)) {
            *amount = sum;
        }
    }
}

fn sum(a: Quantity, b: Quantity) -> Option<Quantity> {
    let milli = a.milli().checked_add(b.milli())?;
    format!("{milli}m").parse().ok()
}
