//! Changes that would let a waiting job run. Each is tried on a copy of the cluster, by a cycle of the core, and told only
//! if it helps.
//!
//! Looked for is what may be in the way: objects that are missing or closed, members that are missing, limits of queues
//! and quotas, the state and labels of nodes, who may be evicted, the tier of a network topology, and room. Rules of the
//! job itself are left out one by one only where nothing else helps.
mod eviction;
mod limits;
mod members;
mod missing;
mod nodes;
mod room;
mod rules;
mod topology;
mod trial;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use phalanx_cluster::Cluster;
use phalanx_cluster::event::{Constraints, Event, Key, PodGroupInfo, PodInfo, QueueInfo, Time};
use phalanx_cluster::id::{JobId, NodeId};
use phalanx_cluster::search_budget::Stopwatch;
use phalanx_core::report::{GroupReport, Snapshot};
use phalanx_framework::conf::Conf;
use serde::{Deserialize, Serialize};

/// Objects of one kind that are tried at most.
const TRIALS_MAX: usize = 24;

/// Up to this number of other waiting jobs, changes are tried beside them.
const OTHERS_MAX: usize = 1_000;

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remedy {
    /// The change, in words that follow "It would run".
    pub text: String,
    /// The namespace of the object of others that it changes, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl Remedy {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), namespace: None }
    }

    fn of(text: String, object: &Key) -> Self {
        Self { text, namespace: Some(object.namespace.to_string()) }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Changes that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remedies {
    /// Each is enough by itself.
    pub found: Vec<Remedy>,
    /// They were tried without the other jobs that wait: there are very many, or nothing helps beside them.
    pub alone: bool,
    /// The time was over before all were tried.
    pub unfinished: bool,
}

/// A change, and what it does.
struct Fix {
    remedy: Remedy,
    events: Vec<Event>,
}

impl Fix {
    fn new(text: impl Into<String>, events: Vec<Event>) -> Self {
        Self { remedy: Remedy::new(text), events }
    }

    fn of(object: &Key, text: String, events: Vec<Event>) -> Self {
        Self { remedy: Remedy::of(text, object), events }
    }
}

/// A waiting job, and the cluster on copies of which changes are tried.
struct Waiting<'a> {
    cluster: &'a Cluster,
    conf: &'a Conf,
    /// When trials begin.
    now: Time,
    id: JobId,
    job: &'a GroupReport,
    /// Its PodGroup.
    group: Option<PodGroupInfo>,
    /// Its pods, by name.
    pods: Vec<PodInfo>,
    /// The nodes that exist, by name.
    nodes: Vec<NodeId>,
    patience: &'a Patience<'a>,
}

/// The smallest changes of each kind that would let a job run.
pub(crate) fn remedies(
    snapshot: &Snapshot,
    id: JobId,
    job: &GroupReport,
    patience: &Patience<'_>,
) -> Remedies {
    let cluster = &snapshot.cluster;
    if !cluster.jobs[id].is_pending() {
        return Remedies::default();
    }
    let told = |alone: bool, found: Vec<Remedy>| Remedies { found, alone, unfinished: patience.is_over() };
    let others = cluster.jobs.iter().filter(|(other, it)| *other != id && it.waiting() > 0).count();
    if others <= OTHERS_MAX {
        match Waiting::of(snapshot, cluster, id, job, patience).found() {
            None => return Remedies::default(),
            Some(found) if others == 0 || !found.is_empty() => return told(false, found),
            Some(_) => {}
        }
    }
    let alone = trial::without_other_waiting(cluster, id);
    let found = Waiting::of(snapshot, &alone, id, job, patience).found();
    told(true, found.unwrap_or_else(|| vec![Remedy::new("with no other change")]))
}

/// Whether a pod of another scheduler would run if it were this one's.
pub(crate) fn would_run(of: &Snapshot, pod: PodInfo) -> bool {
    let (mut snapshot, uid) = (of.clone(), pod.pod.uid.clone());
    snapshot.cluster.apply(PodInfo { ours: true, ..pod }.into());
    let cluster = &snapshot.cluster;
    let Some(id) = cluster.task_of(&uid).and_then(|task| cluster.tasks[task].job) else { return false };
    let job = snapshot.open().job(id);
    Waiting::of(&snapshot, cluster, id, &job, &Patience::default()).helps(None, Vec::new())
}

impl<'a> Waiting<'a> {
    fn of(
        snapshot: &'a Snapshot,
        cluster: &'a Cluster,
        id: JobId,
        job: &'a GroupReport,
        patience: &'a Patience<'a>,
    ) -> Self {
        let mut pods: Vec<PodInfo> =
            cluster.jobs[id].tasks.iter().map(|task| cluster.pod_info(*task)).collect();
        pods.sort_by(|a, b| a.pod.cmp(&b.pod));
        let mut nodes: Vec<NodeId> = cluster.nodes.ids().filter(|id| cluster.nodes[*id].exists).collect();
        nodes.sort_by_key(|id| &cluster.nodes[*id].name);
        let (group, now) = (cluster.group_info(id), trial::begin(snapshot.now));
        Self { cluster, conf: &snapshot.conf, now, id, job, group, pods, nodes, patience }
    }

    /// Changes that help; `None` where the job runs without any.
    fn found(&self) -> Option<Vec<Remedy>> {
        if self.helps(None, Vec::new()) {
            return None;
        }
        // What most often helps is tried first, and told last.
        let room = self.room();
        let sources = [
            Self::missing_objects,
            Self::missing_members,
            Self::limits,
            Self::states_of_nodes,
            Self::evictions,
            Self::wider_topology,
        ];
        let mut found: Vec<Remedy> = sources.iter().flat_map(|source| source(self)).collect();
        found.extend(room);
        if found.is_empty() {
            found = self.rules();
        }
        Some(found)
    }

    /// The changes that help.
    fn helping(&self, fixes: impl IntoIterator<Item = Fix>) -> Vec<Remedy> {
        fixes.into_iter().take(TRIALS_MAX).filter_map(|fix| self.tried(fix)).collect()
    }

    /// The first change that helps.
    fn first_helping(&self, fixes: impl IntoIterator<Item = Fix>) -> Option<Remedy> {
        fixes.into_iter().take(TRIALS_MAX).find_map(|fix| self.tried(fix))
    }

    fn tried(&self, Fix { remedy, events }: Fix) -> Option<Remedy> {
        (!events.is_empty() && self.helps(None, events)).then_some(remedy)
    }

    /// The smallest number up to a limit with which a change helps. Where the time is over, a number that helps.
    fn fewest(&self, most: usize, change: impl Fn(usize) -> Vec<Event>) -> Option<usize> {
        if most == 0 || !self.helps(None, change(most)) {
            return None;
        }
        let (mut too_few, mut enough) = (0, most);
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            if self.helps(None, change(middle)) { enough = middle } else { too_few = middle }
        }
        Some(enough)
    }

    /// The pods of the job without a node.
    fn waiting_pods(&self) -> impl Iterator<Item = &PodInfo> {
        self.pods.iter().filter(|pod| pod.life.node.is_none())
    }

    /// The waiting pods with a change.
    fn with_pods(&self, change: impl Fn(&mut PodInfo)) -> Vec<Event> {
        let changed = |pod: &PodInfo| {
            let mut pod = pod.clone();
            change(&mut pod);
            Event::from(pod)
        };
        self.waiting_pods().map(changed).collect()
    }

    /// The waiting pods with changed constraints.
    fn with_constraints(&self, change: impl Fn(&mut Constraints)) -> Vec<Event> {
        self.with_pods(|pod| {
            let mut constraints = Constraints::clone(&pod.constraints);
            change(&mut constraints);
            pod.constraints = Arc::new(constraints);
        })
    }

    /// The PodGroup with a change.
    fn with_group(&self, change: impl Fn(&mut PodGroupInfo)) -> Vec<Event> {
        let changed = |group: &PodGroupInfo| {
            let mut group = group.clone();
            change(&mut group);
            Event::from(group)
        };
        self.group.iter().map(changed).collect()
    }

    fn queue(&self, name: &str) -> Option<QueueInfo> {
        let id = self.cluster.queue_named(name).filter(|id| self.cluster.queues[*id].object.exists)?;
        Some(self.cluster.queue_info(id))
    }

    /// All queues that exist, by name.
    fn queues(&self) -> Vec<QueueInfo> {
        let ids = self.cluster.queues.ids().filter(|id| self.cluster.queues[*id].object.exists);
        let mut queues: Vec<QueueInfo> = ids.map(|id| self.cluster.queue_info(id)).collect();
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        queues
    }

    /// The queue of the job and those above it, as far as they exist.
    fn queue_path(&self) -> Vec<QueueInfo> {
        let mut path: Vec<QueueInfo> = self.queue(&self.job.queue).into_iter().collect();
        while let Some(parent) = path.last().and_then(|last| self.queue(&last.parent)) {
            if path.iter().any(|known| known.name == parent.name) {
                break;
            }
            path.push(parent);
        }
        path
    }
}

/// `node n1`, or `3 nodes, such as n1,`.
fn such_as(one: &str, count: usize, first: &str) -> String {
    if count == 1 { format!("{one} {first}") } else { format!("{count} {one}s, such as {first},") }
}

fn key_of(namespace: &Arc<str>, name: &Arc<str>) -> Key {
    Key { namespace: namespace.clone(), name: name.clone() }
}
