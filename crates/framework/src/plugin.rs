//! The plugin contract: what a plugin may say, and what a plugin is opened with.
//!
//! A plugin implements [`Plugin`]; the default body of each hook means "no opinion". What few plugins need is an
//! optional part that a hook returns: a [`QueueGuard`], [`TaskRules`], a [`RemotePolicy`], …
use std::cmp::Ordering;
use std::sync::Arc;

use crate::conf::{ArgSpec, Args, Flag, Flags};
use crate::extender::Extender;
use crate::trace::Trace;
use phalanx_cluster::diagnosis::{QueueFault, Refusal};
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{ClassId, JobId, QueueId, TaskId};
use phalanx_cluster::search_budget::Stopwatch;
use phalanx_cluster::{Cluster, Status};

mod parts;
mod rules;

pub use parts::{
    ExtraNodeScores, JobRank, NetworkOrder, QueueAttributes, QueueGuard, QueueTree, Rebalancer, RemotePolicy,
    TaskRules, VictimGuard, Warnings,
};
pub use rules::{
    Attribute, HyperNodeScorer, NodeFilter, NodeRules, NodeScorer, ResourceFilter, ResourceScorer,
    TopologyFilter, TopologyScorer, Values,
};

/// A plugin's answer in a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// No; ends the vote.
    Reject,
    /// No opinion.
    Abstain,
    /// Yes, unless another plugin of the same tier rejects.
    Permit,
}

/// A plugin's answer to whether a job may become Inqueue: a [`Vote`] with the reason of a reject.
#[derive(Clone, Debug, PartialEq)]
pub enum EnqueueVote {
    /// No, and why; ends the vote.
    Reject(Refusal),
    /// No opinion.
    Abstain,
    /// Yes, unless another plugin of the same tier rejects.
    Permit,
}

/// Whose tasks are victims of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvictionKind {
    /// Tasks of the preemptor's queue.
    Preempt,
    /// Tasks of other queues, for a queue that has less than it deserves.
    Reclaim,
}

impl EvictionKind {
    /// The flag that lets a plugin protect pods whoever the preemptor is.
    pub fn flag(self) -> Flag {
        match self {
            EvictionKind::Preempt => Flag::Preemptable,
            EvictionKind::Reclaim => Flag::Reclaimable,
        }
    }
}

/// An eviction that plugins are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Whose tasks are victims: Volcano's `Preemptable` or `Reclaimable`.
    pub kind: EvictionKind,
    /// The preemptor.
    pub by: TaskId,
    /// Gangs may break, as they go as a whole (`gangpreempt`, `gangreclaim`): Volcano's `UnifiedEvictable`.
    pub whole_gangs: bool,
}

impl Eviction {
    /// The flag that lets a plugin speak. Every plugin is asked where gangs go as a whole.
    pub fn flag(self) -> Option<Flag> {
        (!self.whole_gangs).then(|| self.kind.flag())
    }
}

/// One plugin of scheduler.conf, opened for one session.
pub trait Plugin: Send + Sync {
    /// Which of two jobs is served first.
    fn job_order(&self, _: &Cluster, _a: JobId, _b: JobId) -> Ordering {
        Ordering::Equal
    }
    /// The rank of jobs, where a job of higher rank takes over the reservations of one of lower rank.
    fn job_rank(&self) -> Option<&dyn JobRank> {
        None
    }
    /// Which of two queues is served first.
    fn queue_order(&self, _: &Cluster, _a: QueueId, _b: QueueId) -> Ordering {
        Ordering::Equal
    }
    /// The tree of queues, where `queue_order` compares the queues above two queues.
    fn queue_tree(&self) -> Option<&dyn QueueTree> {
        None
    }
    /// Which of two tasks of a job is placed first.
    fn task_order(&self, _: &Cluster, _a: TaskId, _b: TaskId) -> Ordering {
        Ordering::Equal
    }
    /// Whether a job can be scheduled at all.
    fn job_valid(&self, _: &Cluster, _: JobId) -> Result<(), Refusal> {
        Ok(())
    }
    /// Whether enough tasks of a job have idle resources for the job to start.
    fn job_ready(&self, _: &Cluster, _: JobId) -> bool {
        true
    }
    /// Whether enough tasks of a job have idle or future idle resources.
    fn job_pipelined(&self, _: &Cluster, _: JobId) -> Vote {
        Vote::Abstain
    }
    /// Whether a job has fewer tasks than it should, so that victims may be evicted for the job.
    fn job_starving(&self, _: &Cluster, _: JobId) -> Option<bool> {
        None
    }
    /// Whether a job may become Inqueue.
    fn job_enqueueable(&self, _: &Cluster, _: JobId) -> EnqueueVote {
        EnqueueVote::Abstain
    }
    /// A job became Inqueue.
    fn job_enqueued(&mut self, _: &Cluster, _: JobId) {}
    /// Whether a queue can be used under this plugin at all.
    fn queue_valid(&self, _: &Cluster, _: QueueId) -> Result<(), QueueFault> {
        Ok(())
    }
    /// Warnings about queues and jobs that are scheduled nevertheless.
    fn warnings(&self) -> Option<&dyn Warnings> {
        None
    }
    /// Why a queue gets nothing more, if the queue has all that it may have.
    fn overused(&self, _: &Cluster, _: QueueId) -> Option<Refusal> {
        None
    }
    /// Whether a queue may have one more task.
    fn allocatable(&self, _: &Cluster, _: QueueId, _: TaskId) -> Result<(), Refusal> {
        Ok(())
    }
    /// Whether the scheduling gate of a task may be removed: whether the queue may have the task. Nodes are not looked
    /// at, so that an autoscaler sees a pod that no node has resources for.
    fn gate_removable(&self, cluster: &Cluster, queue: QueueId, task: TaskId) -> Result<(), Refusal> {
        self.allocatable(cluster, queue, task)
    }
    /// Whether a queue may reclaim for one of its tasks.
    fn preemptive(&self, _: &Cluster, _: QueueId, _: TaskId) -> Result<(), Refusal> {
        Ok(())
    }
    /// Tasks that are left out of the potential victims before any plugin is asked.
    fn protection(&self) -> Option<&dyn VictimGuard> {
        None
    }
    /// Why a task is no victim for the preemptor `_by`, as a phrase behind the number of such pods: "of equal
    /// priority".
    fn keep_reason(&self, _: &Cluster, _by: TaskId, _: TaskId) -> Arc<str> {
        "that a plugin does not let go for it".into()
    }
    /// Whether this plugin refuses a victim because the victim's gang needs it; [`keep_reason`](Self::keep_reason) is
    /// not asked then.
    fn keeps_gangs(&self) -> bool {
        false
    }
    /// Which potential victims may be evicted. The potential victims come in the order of eviction, and the answer keeps
    /// that order. A victim is accepted on top of the victims accepted before, so a task that is refused alone is refused
    /// in any set.
    fn evictable(&self, _: &Cluster, _: Eviction, _of: &[TaskId]) -> Option<Vec<TaskId>> {
        None
    }
    /// Whether the choice of victims depends on the preemptor's request, or on more of its job than the queue, the
    /// priority and whether the job is preemptable.
    fn depends_on_request(&self) -> bool {
        true
    }
    /// What queues may keep of their tasks when other queues reclaim.
    fn queue_guard(&self) -> Option<&dyn QueueGuard> {
        None
    }
    /// Whether `evictable` orders jobs of equal priority, for evictions of this [flag](Eviction::flag). Where no plugin does, jobs of equal priority do not preempt each other: both would do so by turns.
    fn ranks_equal_priority(&self, _: Option<Flag>) -> bool {
        false
    }
    /// Which of two queues loses tasks first when queue `_by` reclaims.
    fn victim_queue_order(&self, _: &Cluster, _by: QueueId, _a: QueueId, _b: QueueId) -> Ordering {
        Ordering::Equal
    }
    /// Running tasks to evict without a preemptor (`shuffle`); `None` when this session has none.
    fn rebalancer(&self) -> Option<&dyn Rebalancer> {
        None
    }
    /// Adds the filters of a class. They are used for as long as the class exists and scheduler.conf stays the same.
    fn filters(&self, _: &Cluster, _: ClassId, _: &mut NodeRules) {}
    /// Adds the scorers of a class, used as long as the filters.
    fn scorers(&self, _: &Cluster, _: ClassId, _: &mut NodeRules) {}
    /// Filters and scorers that depend on more of a task than its class.
    fn task_rules(&self) -> Option<&dyn TaskRules> {
        None
    }
    /// Scores of a few nodes that a task gets besides those of its rules.
    fn extra_scores(&self) -> Option<&dyn ExtraNodeScores> {
        None
    }
    /// The choice among HyperNodes for jobs with a network topology.
    fn network_order(&self) -> Option<&dyn NetworkOrder> {
        None
    }
    /// Policies that another process decides.
    fn remote(&self) -> Option<&dyn RemotePolicy> {
        None
    }
    /// When time alone changes an opinion of this plugin on the cluster as it is now: a cycle runs at that time.
    fn wake(&self, _: &Cluster) -> Option<Time> {
        None
    }
    /// Until when a refusal of a job holds for this plugin while neither the job nor what the refusal names changes;
    /// `None` when something outside the cluster's objects may lift the refusal.
    fn refusal_holds_until(&self, _: &Cluster, _: JobId) -> Option<Time> {
        Some(Time::NEVER)
    }
    /// Whether resource claims are given devices when their pods are bound.
    fn gives_devices(&self) -> bool {
        false
    }
    /// The session ends.
    fn close(&self, _: &Cluster) {}
    /// Whether `on_change` is called.
    fn listens(&self) -> bool {
        false
    }
    /// The status of a task changed, by a statement or because a statement was discarded.
    fn on_change(&mut self, _: &Cluster, _: TaskId, _before: Status) {}
}

/// What a plugin is opened with for a session.
#[derive(Clone, Copy, Debug)]
pub struct PluginContext<'a> {
    /// The Cluster as the session finds it.
    pub cluster: &'a Cluster,
    /// The plugin's arguments.
    pub args: &'a Args,
    /// The plugin's flags.
    pub flags: Flags,
    /// When the cycle began.
    pub now: Time,
    /// When the cycle before began; `None` in the first cycle. Plugins live for one cycle, so this tells what is due
    /// once in a while.
    pub before: Option<Time>,
    /// Sends requests to extenders; `None` where nothing may be sent, as in reports.
    pub extender: Option<&'a Arc<dyn Extender>>,
}

/// What a session is opened with besides the Cluster and the configuration.
#[derive(Clone, Copy, Debug)]
pub struct SessionInputs<'a> {
    /// When the cycle began.
    pub now: Time,
    /// When the cycle before began; `None` in the first cycle.
    pub before: Option<Time>,
    /// Sends requests to extenders; `None` where nothing may be sent.
    pub extender: Option<&'a Arc<dyn Extender>>,
    /// Measures the time that searches take; `None` where only steps count.
    pub stopwatch: Option<&'a Arc<dyn Stopwatch>>,
    /// Told of the stages of the cycle.
    pub trace: Option<&'a Arc<dyn Trace>>,
}

/// The inputs of a first cycle without extenders.
impl From<Time> for SessionInputs<'_> {
    fn from(now: Time) -> Self {
        Self { now, before: None, extender: None, stopwatch: None, trace: None }
    }
}

impl PluginContext<'_> {
    /// Whether this is the first cycle of a period. Periods are `period_ms` milliseconds long and are counted from the
    /// Unix epoch.
    pub fn begins(&self, period_ms: i64) -> bool {
        let number = |time: Time| time.0.div_euclid(period_ms.max(1));
        self.before.is_none_or(|before| number(before) != number(self.now))
    }
}

/// An annotation, a label or a field of an object that a plugin reads, for the reference page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectField {
    /// The name of the field.
    pub name: &'static str,
    /// What it is, and of which object: `annotation of a PodGroup`.
    pub of: &'static str,
    /// The value that counts without the field, or when the field cannot be read.
    pub default: &'static str,
    /// What the field means, in a sentence.
    pub doc: &'static str,
}

impl ObjectField {
    /// A row of a table.
    pub const fn new(name: &'static str, of: &'static str, default: &'static str, doc: &'static str) -> Self {
        Self { name, of, default, doc }
    }
}

/// A row in the table of plugins.
pub struct PluginDef {
    /// The name in scheduler.conf.
    pub name: &'static str,
    /// What the plugin is for, in a sentence.
    pub summary: &'static str,
    /// The arguments that the plugin takes.
    pub args: &'static [ArgSpec],
    /// What the plugin reads on objects, besides what Kubernetes and the definitions of PodGroup and Queue describe.
    pub reads: &'static [ObjectField],
    /// Opens the plugin for a session.
    pub open: fn(PluginContext<'_>) -> Box<dyn Plugin>,
}
