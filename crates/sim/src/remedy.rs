//! More room that would let a job run, found by trying it: each remedy is tried on a copy of the cluster.
//!
//! The smallest of its kind is told: the fewest further nodes like one that is there, the PodGroup with the fewest pods
//! that would have to finish, the amounts that its queue lacks. Several PodGroups that would have to finish together are
//! not looked for.
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use phalanx_cluster::Cluster;
use phalanx_cluster::event::{Event, Key, NodeInfo, Phase, PodInfo, QueueInfo, Resources, Time};
use phalanx_core::Scheduler;
use phalanx_core::decision::Decision;
use phalanx_core::report::{Figures, GroupReport, QueueLack};
use phalanx_framework::conf::Conf;
use phalanx_resource::Quantity;

use crate::changes::{HOSTNAME, alike};
use crate::fix::Objects;
use crate::report::figures;

/// Sorts of nodes, and PodGroups, that are tried at most; fewer in large clusters, down to [`TRIALS_MIN`].
const TRIALS_MAX: usize = 24;

/// Sorts of nodes, and PodGroups, that are tried in any cluster.
const TRIALS_MIN: usize = 4;

/// Nodes and pods that all trials of one kind copy together, about.
const TRIED_OBJECTS: usize = 120_000;

/// The most nodes that are added in a trial.
const NODES_MAX: u32 = 1_024;

/// A change that would let a job run.
#[derive(Clone, Debug, PartialEq)]
pub enum Remedy {
    /// The queue may hold so much more.
    Queue(QueueLack),
    /// So many more nodes like this one.
    Nodes {
        /// How many.
        count: u32,
        /// The node.
        like: Arc<str>,
    },
    /// Other pods have finished.
    Finished(Other),
}

/// Who else runs: a PodGroup, or a pod without one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Other {
    /// A PodGroup.
    PodGroup(Key),
    /// A pod without a PodGroup.
    Pod(Key),
}

impl Other {
    pub(crate) fn of(pod: &PodInfo) -> Self {
        let key = |name: &Arc<str>| Key { namespace: pod.pod.namespace.clone(), name: name.clone() };
        pod.group.as_ref().map_or_else(|| Self::Pod(key(&pod.pod.name)), |group| Self::PodGroup(key(group)))
    }

    pub(crate) fn is(&self, job: &GroupReport) -> bool {
        match self {
            Self::PodGroup(key) => !job.solo && *key == job.key,
            Self::Pod(key) => job.solo && *key == job.key,
        }
    }
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodGroup(key) => write!(f, "PodGroup {key}"),
            Self::Pod(key) => write!(f, "pod {key}"),
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(QueueLack { queue, missing }) => {
                let missing = figures(missing.iter().map(|(name, amount)| (name, amount)));
                write!(f, "if queue {queue} might hold {missing} more")
            }
            Self::Nodes { count: 1, like } => write!(f, "with 1 more node like {like}"),
            Self::Nodes { count, like } => write!(f, "with {count} more nodes like {like}"),
            Self::Finished(other) => write!(f, "once {other} has finished"),
        }
    }
}

/// A cluster on copies of which remedies are tried, and the job that waits.
pub(crate) struct Trials<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) conf: &'a Conf,
    pub(crate) now: Time,
    pub(crate) objects: &'a Objects,
    pub(crate) queues: Vec<&'a QueueInfo>,
    /// What else runs, with the UIDs of the pods.
    pub(crate) others: Vec<(Other, Vec<Arc<str>>)>,
    pub(crate) job: &'a GroupReport,
}

impl Trials<'_> {
    /// The remedies that help, the smallest of each kind.
    pub(crate) fn remedies(&self) -> Vec<Remedy> {
        [self.queue(), self.finished(), self.more_nodes()].into_iter().flatten().collect()
    }

    /// Whether a pod of the job is bound or nominated once these things have happened, with another configuration or the
    /// one in force. A job without pods, which its controller makes once it is admitted, need only be admitted.
    pub(crate) fn helps(&self, conf: Option<&Conf>, events: Vec<Event>) -> bool {
        let mut cluster = self.cluster.clone();
        for event in events {
            cluster.apply(event);
        }
        let mut scheduler = Scheduler::new(conf.unwrap_or(self.conf).clone(), 0);
        let decisions = scheduler.run(&mut cluster, self.now).decisions;
        // A job that was admitted after allocate gets its nodes in the next cycle.
        self.is_served(&cluster, &decisions)
            || self.is_admitted(&decisions)
                && (self.job.waiting == 0 || {
                    let decisions =
                        scheduler.run(&mut cluster, Time(self.now.0.saturating_add(1_000))).decisions;
                    self.is_served(&cluster, &decisions)
                })
    }

    /// Each trial costs a copy of the cluster.
    fn trials_max(&self) -> usize {
        let objects = self.cluster.nodes.len() + self.cluster.tasks.len();
        (TRIED_OBJECTS / objects.max(1)).clamp(TRIALS_MIN, TRIALS_MAX)
    }

    fn is_served(&self, cluster: &Cluster, decisions: &[Decision]) -> bool {
        let key = &self.job.key;
        let own = |uid: &str| {
            let job = cluster.task_of(uid).and_then(|task| cluster.tasks[task].job);
            job.is_some_and(|job| cluster.jobs[job].key == *key)
        };
        decisions.iter().any(|one| match one {
            Decision::Bind { job, .. } => job == key,
            Decision::Nominate { pod, node } => node.is_some() && own(&pod.uid),
            _ => false,
        })
    }

    fn is_admitted(&self, decisions: &[Decision]) -> bool {
        decisions.iter().any(|one| match one {
            Decision::PodGroupStatus { group, status, .. } => {
                *group == self.job.key && status.phase == Phase::Inqueue
            }
            _ => false,
        })
    }

    fn queue(&self) -> Option<Remedy> {
        let lack = self.job.queue_lack.as_ref()?;
        let mut queue = (*self.queues.iter().find(|queue| queue.name == lack.queue)?).clone();
        raise(&mut queue.capability, &lack.missing);
        raise(&mut queue.deserved, &lack.missing);
        self.helps(None, vec![queue.into()]).then(|| Remedy::Queue(lack.clone()))
    }

    fn finished(&self) -> Option<Remedy> {
        let helps = |pods: &[Arc<str>]| self.helps(None, pods.iter().cloned().map(Event::PodGone).collect());
        let all: Vec<Arc<str>> = self.others.iter().flat_map(|(_, pods)| pods.iter().cloned()).collect();
        if all.is_empty() || !helps(&all) {
            return None;
        }
        let mut others: Vec<_> = self.others.iter().collect();
        others.sort_by_key(|(_, pods)| pods.len());
        let found = others.into_iter().take(self.trials_max()).find(|(_, pods)| helps(pods));
        found.map(|(other, _)| Remedy::Finished(other.clone()))
    }

    /// The fewest nodes over all sorts of nodes; among sorts that need as many, the one that most nodes are of.
    fn more_nodes(&self) -> Option<Remedy> {
        let mut best: Option<(u32, &NodeInfo)> = None;
        for node in self.sorts_of_nodes().into_iter().take(self.trials_max()) {
            let most = best.map_or(self.job.waiting.clamp(1, NODES_MAX), |(count, _)| count - 1);
            best = self.fewest(node, most).map(|count| (count, node)).or(best);
        }
        let (count, node) = best?;
        Some(Remedy::Nodes { count, like: node.name.clone() })
    }

    fn fewest(&self, like: &NodeInfo, most: u32) -> Option<u32> {
        let helps = |count: u32| self.helps(None, self.nodes_alike(like, count));
        if most == 0 || !helps(most) {
            return None;
        }
        let (mut too_few, mut enough) = (0, most);
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            if helps(middle) { enough = middle } else { too_few = middle }
        }
        Some(enough)
    }

    /// Nodes with devices like those of another node.
    fn nodes_alike(&self, like: &NodeInfo, count: u32) -> Vec<Event> {
        let mut events = Vec::new();
        for node in (1..=count).map(|number| alike(like, number)) {
            events.extend(self.objects.slices_for(like, &node).map(Event::from));
            events.push(node.into());
        }
        events
    }

    /// One node of each sort, told apart by amounts, taints and labels other than its name, the most frequent sort
    /// first.
    fn sorts_of_nodes(&self) -> Vec<&NodeInfo> {
        let mut sorts: BTreeMap<String, (usize, &NodeInfo)> = BTreeMap::new();
        for node in self.objects.nodes.values() {
            let labels: Vec<_> = node.labels.iter().filter(|(key, _)| **key != *HOSTNAME).collect();
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
