//! Room: amounts that the queue lacks, a job that finishes, further nodes.
//!
//! Several jobs that would have to finish together are not looked for.
use std::collections::BTreeMap;

use phalanx_cluster::event::{Event, Key, NodeInfo, SliceInfo, SliceNodes};
use phalanx_cluster::id::{NodeId, TaskId};
use phalanx_cluster::{Hold, JobKind};
use phalanx_resource::DimId;

use super::limits::raise;
use super::{Fix, Remedy, TRIALS_MAX, Waiting, key_of};
use crate::answer;
use crate::text;

/// Fewer sorts of nodes, and jobs, are tried in large clusters, but so many in any.
const TRIALS_MIN: usize = 4;

/// Nodes and pods that all trials of one kind copy together, about.
const TRIED_OBJECTS: usize = 120_000;

/// The most nodes that are added in a trial.
const NODES_MAX: u32 = 1_024;

/// Pods with nodes of a PodGroup, or a pod without one.
struct Running {
    kind: JobKind,
    key: Key,
    tasks: Vec<TaskId>,
}

impl Waiting<'_> {
    /// The smallest of each that helps.
    pub(super) fn room(&self) -> Vec<Remedy> {
        [self.larger_queue(), self.finished(), self.more_nodes()].into_iter().flatten().collect()
    }

    /// Each trial costs a copy of the cluster.
    fn trials_max(&self) -> usize {
        let objects = self.cluster.nodes.len() + self.cluster.tasks.len();
        (TRIED_OBJECTS / objects.max(1)).clamp(TRIALS_MIN, TRIALS_MAX)
    }

    fn larger_queue(&self) -> Option<Remedy> {
        let lack = self.job.queue_lack.as_ref()?;
        let mut queue = self.queue(&lack.queue)?;
        raise(&mut queue.capability, &lack.missing);
        raise(&mut queue.deserved, &lack.missing);
        let missing = text::amounts(&answer::amounts(&lack.missing));
        let text = format!("if queue {} might hold {missing} more", lack.queue);
        self.tried(Fix::new(text, vec![queue.into()]))
    }

    fn finished(&self) -> Option<Remedy> {
        let mut running = self.running();
        let gone = |tasks: &[TaskId]| {
            let uid = |task: &TaskId| self.cluster.tasks[*task].pod.uid.clone();
            tasks.iter().map(|task| Event::PodGone(uid(task))).collect::<Vec<_>>()
        };
        running.sort_by(|a, b| (a.tasks.len(), a.kind, &a.key).cmp(&(b.tasks.len(), b.kind, &b.key)));
        let finished = |Running { kind, key, tasks }: &Running| {
            let kind = if *kind == JobKind::Group { "PodGroup" } else { "pod" };
            Fix::of(key, format!("once {kind} {key} has finished"), gone(tasks))
        };
        self.first_helping(running.iter().take(self.trials_max()).map(finished))
    }

    /// What else runs, pods of other schedulers too.
    fn running(&self) -> Vec<Running> {
        let cluster = self.cluster;
        let runs = |task: &TaskId| matches!(cluster.tasks[*task].status.hold(), Hold::Used | Hold::Releasing);
        let jobs = cluster.jobs.iter().filter(|(id, _)| *id != self.id).map(|(_, job)| Running {
            kind: job.kind,
            key: job.key.clone(),
            tasks: job.tasks.iter().copied().filter(runs).collect(),
        });
        let foreign = cluster.tasks.iter().filter(|(_, task)| task.job.is_none() && task.is_pod());
        let foreign = foreign.map(|(id, task)| Running {
            kind: JobKind::Solo,
            key: key_of(&task.pod.namespace, &task.pod.name),
            tasks: Some(id).filter(runs).into_iter().collect(),
        });
        jobs.chain(foreign).filter(|one| !one.tasks.is_empty()).collect()
    }

    /// The fewest nodes over all sorts of nodes; among sorts that need as many, the one that most nodes are of.
    fn more_nodes(&self) -> Option<Remedy> {
        let mut best: Option<(usize, NodeInfo)> = None;
        for node in self.sorts_of_nodes().into_iter().take(self.trials_max()) {
            let all = self.job.waiting.clamp(1, NODES_MAX) as usize;
            let most = best.as_ref().map_or(all, |(count, _)| count - 1);
            let fewest = self.fewest(most, |count| self.nodes_alike(&node, count));
            best = fewest.map(|count| (count, node)).or(best);
        }
        let (count, node) = best?;
        let nodes = if count == 1 { "node" } else { "nodes" };
        Some(Remedy::new(format!("with {count} more {nodes} like {}", node.name)))
    }

    /// Nodes with devices like those of another node.
    fn nodes_alike(&self, like: &NodeInfo, count: usize) -> Vec<Event> {
        let mut events = Vec::new();
        for node in (1..=count).map(|number| like.alike(number as u32)) {
            let slices = self.cluster.slice_infos(&like.name).map(|slice| SliceInfo {
                name: format!("{}-{}", slice.name, node.name).into(),
                pool: node.name.clone(),
                nodes: SliceNodes::Node(node.name.clone()),
                ..slice.clone()
            });
            events.extend(slices.map(Event::from));
            events.push(node.into());
        }
        events
    }

    /// One node of each sort, told apart by amounts, taints and labels other than its name, the most frequent sort
    /// first.
    fn sorts_of_nodes(&self) -> Vec<NodeInfo> {
        let mut sorts: BTreeMap<_, (usize, NodeId)> = BTreeMap::new();
        for id in &self.nodes {
            let node = &self.cluster.nodes[*id];
            let amounts: Vec<(DimId, i64)> = node.allocatable.iter().collect();
            let sort = (amounts, &node.taints, node.labels_alike().collect::<Vec<_>>());
            sorts.entry(sort).or_insert((0, *id)).0 += 1;
        }
        let mut sorts: Vec<_> = sorts.into_values().collect();
        // Of sorts that are as frequent, the first by the name of a node.
        sorts.sort_by_key(|(count, id)| (std::cmp::Reverse(*count), &self.cluster.nodes[*id].name));
        sorts.into_iter().map(|(_, id)| self.cluster.node_info(id)).collect()
    }
}
