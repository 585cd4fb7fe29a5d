//! Room: amounts that the queue lacks, jobs that finish, further nodes.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phalanx_cluster::event::{Event, Key, NodeInfo, Phase, SliceInfo, SliceNodes};
use phalanx_cluster::id::{JobId, NodeId, TaskId};
use phalanx_cluster::{Cluster, Hold, JobKind, Task};
use phalanx_resource::DimId;

use super::fix::{Choice, Fix};
use super::limits::{larger_queue, parsed};
use super::{TRIALS_MAX, Waiting, key_of};
use crate::owners;

/// Fewer sorts of nodes, and jobs, are tried in large clusters, but so many in any.
const TRIALS_MIN: usize = 4;

/// Nodes and pods that all trials of one kind copy together, about.
const TRIED_OBJECTS: usize = 120_000;

/// Of jobs that run, those with the fewest pods of which some may have to finish together.
const RUNNING_MAX: usize = 1_000;

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
    pub(super) fn room(&self) -> Vec<Choice<'_>> {
        vec![Choice::First(self.lacking_queue()), self.finished(), Choice::Fewest(self.more_nodes())]
    }

    /// Each trial costs a copy of the cluster.
    fn trials_max(&self) -> usize {
        let objects = self.cluster.nodes.len() + self.cluster.tasks.len();
        (TRIED_OBJECTS / objects.max(1)).clamp(TRIALS_MIN, TRIALS_MAX)
    }

    /// The queue with what it lacks; or, where another gate or queue asks for more, with what the job requests.
    fn lacking_queue(&self) -> Vec<Fix<'_>> {
        let Some(lack) = &self.job.queue_lack else { return Vec::new() };
        let Some(queue) = self.queue(&lack.queue) else { return Vec::new() };
        let lacking = larger_queue(&queue, &parsed(&lack.missing));
        lacking.into_iter().chain(self.larger_queues()).collect()
    }

    /// What runs, that with the fewest pods first.
    fn finished(&self) -> Choice<'_> {
        let mut running = self.running();
        running.sort_by(|a, b| (a.tasks.len(), a.kind, &a.key).cmp(&(b.tasks.len(), b.kind, &b.key)));
        let finished = |Running { kind, key, tasks }: &Running| {
            let kind = if *kind == JobKind::Group { "PodGroup" } else { "pod" };
            let uids: Vec<Arc<str>> =
                tasks.iter().map(|task| self.cluster.tasks[*task].pod.uid.clone()).collect();
            let gone = move |_: &Cluster| uids.iter().cloned().map(Event::PodGone).collect();
            Fix::new(format!("once {kind} {key} has finished"), gone).about(key)
        };
        let first = running.iter().take(self.trials_max()).map(finished).collect();
        Choice::Together(first, running.iter().take(RUNNING_MAX).map(finished).collect())
    }

    /// Namespace, kind and name of what owns the pods of a job.
    fn owners(&self, id: JobId) -> BTreeSet<(Arc<str>, String, String)> {
        let pods = self.cluster.jobs[id].tasks.iter().map(|task| &self.cluster.tasks[*task]);
        let of_pod = |pod: &Task| {
            let namespace = pod.pod.namespace.clone();
            let owners = owners::of(pod.details.controller.as_deref(), &pod.details.labels);
            owners.into_iter().map(move |(kind, name)| (namespace.clone(), kind, name)).collect::<Vec<_>>()
        };
        pods.flat_map(of_pod).collect()
    }

    /// What else runs, pods of other schedulers too. Pods of one owner do not end for others of it.
    fn running(&self) -> Vec<Running> {
        let cluster = self.cluster;
        let runs = |task: &TaskId| matches!(cluster.tasks[*task].status.hold(), Hold::Used | Hold::Releasing);
        let owners = self.owners(self.id);
        let own = |id: JobId, key: &Key| {
            id == self.id || key.namespace == self.job.key.namespace && !self.owners(id).is_disjoint(&owners)
        };
        let others = cluster.jobs.iter().filter(|(id, job)| !own(*id, &job.key));
        let jobs = others.map(|(_, job)| Running {
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

    /// More nodes of each sort.
    fn more_nodes(&self) -> Vec<Fix<'_>> {
        // Admission may count what other jobs were admitted for, and a job may wait for it before it has pods.
        let admitted = self.cluster.jobs[self.id].phase != Phase::Pending;
        let most = if admitted { self.job.waiting.clamp(1, NODES_MAX) } else { NODES_MAX } as usize;
        let fix = |node: NodeInfo| {
            let name = node.name.clone();
            let place = self.hyper_node_of(&name).map(|it| format!(" in HyperNode {it}")).unwrap_or_default();
            let text = move |count: usize| {
                let nodes = if count == 1 { "node" } else { "nodes" };
                format!("with {count} more {nodes} like {name}{place}")
            };
            Fix::counted(most, text, move |_, count| self.nodes_alike(&node, count))
        };
        self.sorts_of_nodes().into_iter().take(self.trials_max()).map(fix).collect()
    }

    /// The lowest HyperNode of a node, where the job asks for a network topology.
    fn hyper_node_of(&self, node: &str) -> Option<&Arc<str>> {
        let cluster = self.cluster;
        let asks = cluster.jobs[self.id].asks_topology();
        let id = cluster.node_named(node).filter(|_| asks)?;
        Some(&cluster.hyper_nodes.get(*cluster.hyper_nodes.of_node(id).first()?).name)
    }

    /// Nodes with devices like those of another node, in its HyperNodes.
    fn nodes_alike(&self, like: &NodeInfo, count: usize) -> Vec<Event> {
        let nodes: Vec<NodeInfo> = (1..=count).map(|number| like.alike(number as u32)).collect();
        let names: Vec<Arc<str>> = nodes.iter().map(|node| node.name.clone()).collect();
        let hyper_nodes = self.cluster.hyper_nodes.objects();
        let joined = hyper_nodes.filter_map(|it| it.with_nodes_beside(&like.name, &names));
        let mut events: Vec<Event> = joined.map(Event::from).collect();
        for node in nodes {
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

    /// One node of each sort, told apart by amounts, taints, labels other than its name and, for a job with a network
    /// topology, the lowest HyperNode. Those in HyperNodes that are nearest to having room come first, for these need the
    /// fewest nodes; then the most frequent ones.
    fn sorts_of_nodes(&self) -> Vec<NodeInfo> {
        let mut sorts: BTreeMap<_, (usize, NodeId)> = BTreeMap::new();
        for id in &self.nodes {
            let node = &self.cluster.nodes[*id];
            let amounts: Vec<(DimId, i64)> = node.allocatable.iter().collect();
            let labels: Vec<_> = node.labels_alike().collect();
            let sort = (amounts, &node.taints, labels, self.hyper_node_of(&node.name));
            sorts.entry(sort).or_insert((0, *id)).0 += 1;
        }
        let mut sorts: Vec<_> = sorts.into_values().collect();
        // Of sorts that are as frequent, the first by the name of a node.
        sorts.sort_by_cached_key(|(count, id)| {
            (self.nearness(*id), std::cmp::Reverse(*count), self.cluster.nodes[*id].name.clone())
        });
        sorts.into_iter().map(|(_, id)| self.cluster.node_info(id)).collect()
    }

    /// The place of the nearest HyperNode of a node among those without room for the job.
    fn nearness(&self, node: NodeId) -> usize {
        let hyper_nodes = &self.cluster.hyper_nodes;
        let own: Vec<&Arc<str>> =
            hyper_nodes.of_node(node).iter().map(|id| &hyper_nodes.get(*id).name).collect();
        self.too_small.iter().position(|name| own.contains(&name)).unwrap_or(self.too_small.len())
    }
}
