//! Changes that would let a waiting job run. Each is tried on a copy of the cluster, by a cycle of the core, and told
//! only if it helps.
//!
//! Looked for is what may be in the way: objects that are missing or closed, members that are missing, limits of queues
//! and quotas, the state and labels of nodes, who may be evicted, the tier of a network topology, and room. Where no
//! change is enough by itself, up to three of them are looked for that are enough together, and rules of the job itself
//! are left out one by one.
mod eviction;
mod fix;
mod limits;
mod members;
mod missing;
mod nodes;
mod room;
mod rules;
mod search;
mod topology;
mod trial;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use phalanx_cluster::event::{Constraints, Event, Key, PodGroupInfo, PodInfo, QueueInfo, Time};
use phalanx_cluster::id::{JobId, NodeId};
use phalanx_cluster::search_budget::Stopwatch;
use phalanx_cluster::{Cluster, JobKind};
use phalanx_core::report::{GroupReport, Snapshot};
use phalanx_framework::conf::{Conf, PluginConf, Tier};
use serde::{Deserialize, Serialize};

use fix::Choice;

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

/// What a remedy does, for who wants to apply it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// What happens to objects, in order.
    pub events: Vec<Event>,
    /// What scheduler.conf has besides.
    pub conf: Vec<ConfAddition>,
}

/// What scheduler.conf may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfAddition {
    /// An action, behind all others.
    Action(&'static str),
    /// A plugin, in the last tier.
    Plugin(&'static str),
}

impl ConfAddition {
    /// Adds it.
    pub fn add_to(self, conf: &mut Conf) {
        match self {
            Self::Action(name) => conf.actions.push(name.to_owned()),
            Self::Plugin(name) => {
                let plugin = PluginConf { name: name.to_owned(), ..PluginConf::default() };
                match conf.tiers.last_mut() {
                    Some(last) => last.plugins.push(plugin),
                    None => conf.tiers.push(Tier { plugins: vec![plugin] }),
                }
            }
        }
    }
}

impl fmt::Display for ConfAddition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Action(name) => write!(f, "action {name}"),
            Self::Plugin(name) => write!(f, "plugin {name}"),
        }
    }
}

/// A change that would let a job run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remedy {
    /// The change, in words that follow "It would run".
    pub text: String,
    /// The namespaces of the objects of others that it changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// The change itself. Only who looks for it has it.
    #[serde(skip)]
    pub change: Change,
    /// The same change with a number that is one less, or without one of its parts: none of these is enough.
    #[serde(skip)]
    pub smaller: Vec<Change>,
}

impl Remedy {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Changes that were found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remedies {
    /// Each is enough by itself.
    pub found: Vec<Remedy>,
    /// They were tried without the other jobs that wait: there are very many, or nothing helps beside them.
    pub alone: bool,
    /// The time was over before all were tried.
    pub unfinished: bool,
    /// Changes were looked for: the job waits, and would not run without one.
    #[serde(default)]
    pub tried: bool,
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
    /// The HyperNodes without room for it: those that are nearest to having room first.
    too_small: Vec<Arc<str>>,
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
    let told = |alone: bool, found: Vec<Remedy>| {
        let unfinished = patience.is_over();
        Remedies { found, alone, unfinished, tried: true }
    };
    let others = cluster.jobs.iter().filter(|(other, it)| *other != id && it.waiting() > 0).count();
    if others <= OTHERS_MAX {
        match Waiting::of(snapshot, cluster, id, job, patience).found(others == 0) {
            None => return Remedies::default(),
            Some(found) if others == 0 || !found.is_empty() => return told(false, found),
            Some(_) => {}
        }
    }
    let alone = trial::without_other_waiting(cluster, id);
    let found = Waiting::of(snapshot, &alone, id, job, patience).found(true);
    told(true, found.unwrap_or_else(|| vec![Remedy::new("with no other change")]))
}

/// The remedy of a pod of another scheduler: to be this one's, if it would run then.
pub(crate) fn as_ours(of: &Snapshot, pod: PodInfo, own_name: &str) -> Option<Remedy> {
    let (mut snapshot, uid) = (of.clone(), pod.pod.uid.clone());
    let event = Event::from(PodInfo { ours: true, ..pod });
    snapshot.cluster.apply(event.clone());
    let cluster = &snapshot.cluster;
    let id = cluster.task_of(&uid).and_then(|task| cluster.tasks[task].job)?;
    let job = snapshot.open().job(id);
    let runs = Waiting::of(&snapshot, cluster, id, &job, &Patience::default()).runs();
    let change = Change { events: vec![event], conf: Vec::new() };
    runs.then(|| Remedy { change, ..Remedy::new(format!("with spec.schedulerName {own_name}")) })
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
        let rejected = snapshot.open().rejected_domains(id);
        let too_small = rejected.into_iter().map(|it| it.domain.hyper_node).collect();
        let (group, now) = (cluster.group_info(id), trial::begin(snapshot.now));
        Self { cluster, conf: &snapshot.conf, now, id, job, group, pods, nodes, too_small, patience }
    }

    /// Changes that help, where several may be told that are enough together; `None` where the job runs without any.
    fn found(&self, several: bool) -> Option<Vec<Remedy>> {
        if self.runs() {
            return None;
        }
        // What most often helps is tried first, and told last.
        let room = self.room();
        let of_room = self.helping(&room);
        let sources = [
            Self::missing_objects,
            Self::missing_members,
            Self::limits,
            Self::states_of_nodes,
            Self::evictions,
            Self::topologies,
        ];
        let mut all: Vec<Choice<'_>> = sources.iter().flat_map(|source| source(self)).collect();
        let mut found = self.helping(&all);
        found.extend(of_room);
        if found.is_empty() {
            all.extend(room);
            found = self.last_resort(all, several);
        }
        Some(found)
    }

    /// Several of these changes together, and rules of the job without which it would run.
    fn last_resort<'w>(&'w self, mut all: Vec<Choice<'w>>, several: bool) -> Vec<Remedy> {
        let mut found: Vec<Remedy> = several.then(|| self.together(&all)).flatten().into_iter().collect();
        let rules = self.rules();
        let by_rules = rules.iter().map(|choice| self.of_choice(choice));
        found.extend(by_rules.filter(|found| !found.is_empty()).take(1).flatten());
        if found.is_empty() && several {
            all.extend(rules);
            found.extend(self.together(&all));
        }
        found
    }

    /// The pods of the job without a node.
    fn waiting_pods(&self) -> impl Iterator<Item = &PodInfo> {
        self.pods.iter().filter(|pod| pod.life.node.is_none())
    }

    /// The job in a copy of the cluster in which other changes were made.
    fn job_in(&self, cluster: &Cluster) -> Option<JobId> {
        let kind = if self.job.solo { JobKind::Solo } else { JobKind::Group };
        cluster.job_named(kind, &self.job.key)
    }

    /// The waiting pods with a change.
    fn with_pods(&self, cluster: &Cluster, change: impl Fn(&mut PodInfo)) -> Vec<Event> {
        let Some(job) = self.job_in(cluster) else { return Vec::new() };
        let pods = cluster.jobs[job].tasks.iter().map(|task| cluster.pod_info(*task));
        let changed = |mut pod: PodInfo| {
            change(&mut pod);
            Event::from(pod)
        };
        pods.filter(|pod| pod.life.node.is_none()).map(changed).collect()
    }

    /// The waiting pods with changed constraints.
    fn with_constraints(&self, cluster: &Cluster, change: impl Fn(&mut Constraints)) -> Vec<Event> {
        self.with_pods(cluster, |pod| {
            let mut constraints = Constraints::clone(&pod.constraints);
            change(&mut constraints);
            pod.constraints = Arc::new(constraints);
        })
    }

    /// The PodGroup with a change.
    fn with_group(&self, cluster: &Cluster, change: impl Fn(&mut PodGroupInfo)) -> Vec<Event> {
        let group = self.job_in(cluster).and_then(|job| cluster.group_info(job));
        let changed = |mut group: PodGroupInfo| {
            change(&mut group);
            Event::from(group)
        };
        group.map(changed).into_iter().collect()
    }

    fn queue(&self, name: &str) -> Option<QueueInfo> {
        queue_in(self.cluster, name)
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

/// A queue that exists.
fn queue_in(cluster: &Cluster, name: &str) -> Option<QueueInfo> {
    let id = cluster.queue_named(name).filter(|id| cluster.queues[*id].object.exists)?;
    Some(cluster.queue_info(id))
}

/// A queue with a change.
fn with_queue(cluster: &Cluster, name: &str, change: impl Fn(&mut QueueInfo)) -> Vec<Event> {
    let changed = |mut queue: QueueInfo| {
        change(&mut queue);
        Event::from(queue)
    };
    queue_in(cluster, name).map(changed).into_iter().collect()
}

/// `node n1`, or `3 nodes, such as n1,`.
fn such_as(one: &str, count: usize, first: &str) -> String {
    if count == 1 { format!("{one} {first}") } else { format!("{count} {one}s, such as {first},") }
}

fn key_of(namespace: &Arc<str>, name: &Arc<str>) -> Key {
    Key { namespace: namespace.clone(), name: name.clone() }
}
