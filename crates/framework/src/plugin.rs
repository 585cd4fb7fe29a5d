//! What a plugin may say. Every default means "no opinion".
use std::cmp::Ordering;
use std::sync::Arc;

use phalanx_resource::Amounts;

use crate::conf::{ArgSpec, Args, Flag, Flags};
use crate::extender::{Endpoint, Extender};
use crate::placement::{BucketAmounts, Fit};
use phalanx_cluster::budget::Stopwatch;
use phalanx_cluster::diagnosis::{QueueFault, Refusal, Unfit};
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{ClassId, ImageId, JobId, NodeId, QueueId, TaskId};
use phalanx_cluster::{Node, Status, World};

/// An opinion that others may overrule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// No.
    Reject,
    /// Nothing to say.
    Abstain,
    /// Yes.
    Permit,
}

/// An opinion on admitting a job.
#[derive(Clone, Debug, PartialEq)]
pub enum EnqueueVote {
    /// No, and why.
    Reject(Refusal),
    /// Nothing to say.
    Abstain,
    /// Yes.
    Permit,
}

/// For whom tasks are evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvictionKind {
    /// For a more important job of their own queue.
    Preempt,
    /// For a job of another queue that has less than it deserves.
    Reclaim,
}

/// What of a node makes a difference to rules by attributes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attribute {
    /// A label.
    Label(Arc<str>),
    /// The name.
    Name,
    /// The size of an image; nothing where it is not on the node.
    Image(ImageId),
}

/// Which values make a difference. Whether there is a value at all always does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// These; all others are alike.
    These(Vec<Arc<str>>),
    /// Each.
    All,
}

/// A condition on nodes that depends on their attributes alone: readiness, cordon, taints, and what the class's
/// [`NodeRules::reads`] name. Asked once per class and kind of node.
pub trait NodeFilter: Send + Sync {
    /// Whether the node will do.
    fn check(&self, node: &Node) -> Result<(), Unfit>;
}

/// A condition that depends on what is on the node: its amounts and ports. Asked once per class for nodes that are alike
/// in these and of one kind, whenever such come about.
pub trait ResourceFilter: Send + Sync {
    /// Whether the node will do now or, with `later`, once all that is being released is gone.
    fn check(&self, node: &Node, fit: Fit) -> Result<(), Unfit>;
}

/// A score by a node's attributes alone, as a [`NodeFilter`] may read them: given once per class and kind of node, then
/// normalised over all kinds that pass the filters, then weighted.
pub trait NodeScorer: Send + Sync {
    /// The raw score.
    fn score(&self, node: &Node) -> f64;
    /// Brings the raw scores to 0..100, and weights them. How many nodes have a score must not matter.
    fn normalise(&self, scores: &mut [f64]);
}

/// A score by what a [`ResourceFilter`] may read, already weighted.
pub trait ResourceScorer: Send + Sync {
    /// The score, as if the task were on the node already.
    fn score(&self, node: &Node) -> f64;
    /// Adds the scores of the amounts in some slots to sums, in their order.
    fn add_scores(&self, amounts: &BucketAmounts, slots: &[u32], sums: &mut [f64]) {
        for (slot, sum) in slots.iter().zip(sums) {
            *sum += self.score(amounts.node(*slot));
        }
    }
}

/// A condition on the pods that are counted in a node's topology domains (`World::terms`), for terms that concern the
/// class. Asked again for the nodes of a domain when what is counted there changes.
pub trait TopologyFilter: Send + Sync {
    /// Whether the node will do now or, with `later`, once all that is being released is gone.
    fn check(&self, world: &World, node: NodeId, fit: Fit) -> Result<(), Unfit>;
}

/// A score by what a [`TopologyFilter`] may read: normalised over all nodes that pass the filters by attributes, then
/// weighted.
pub trait TopologyScorer: Send + Sync {
    /// The raw score.
    fn score(&self, world: &World, node: NodeId) -> f64;
    /// Brings the raw scores to 0..100, and weights them. How many nodes have a score must not matter.
    fn normalise(&self, scores: &mut [f64]);
}

/// What plugins have to say on the nodes of a class.
#[derive(Default)]
pub struct NodeRules {
    /// By attributes.
    pub filters: Vec<Box<dyn NodeFilter>>,
    /// By room.
    pub resource_filters: Vec<Box<dyn ResourceFilter>>,
    /// By attributes.
    pub scorers: Vec<Box<dyn NodeScorer>>,
    /// By room.
    pub resource_scorers: Vec<Box<dyn ResourceScorer>>,
    /// By topology domain.
    pub topology_filters: Vec<Box<dyn TopologyFilter>>,
    /// By topology domain.
    pub topology_scorers: Vec<Box<dyn TopologyScorer>>,
    /// What `filters` and `scorers` read besides readiness, cordon and taints.
    pub reads: Vec<(Attribute, Values)>,
}

/// One policy, for one session.
pub trait Plugin: Send + Sync {
    /// Which of two jobs goes first.
    fn job_order(&self, _: &World, _a: JobId, _b: JobId) -> Ordering {
        Ordering::Equal
    }
    /// Whether a job is so much more important than another of its queue that nothing need be kept for that one against it.
    fn outranks(&self, _: &World, _by: JobId, _of: JobId) -> bool {
        false
    }
    /// Whether it ever says that a job outranks another.
    fn has_ranks(&self) -> bool {
        false
    }
    /// Which of two queues goes first.
    fn queue_order(&self, _: &World, _a: QueueId, _b: QueueId) -> Ordering {
        Ordering::Equal
    }
    /// The places above a queue, from the top down, and itself, if its order of queues goes by what these hold besides what
    /// the two queues hold: of two queues it looks at those only that are on the way of one of them and not of the other.
    /// Numbers that mean something to the plugin alone; none for any queue when it looks at the queues only.
    /// `None` when what any queue is given may matter.
    fn queue_way(&self, _: &World, _: QueueId) -> Option<Vec<u32>> {
        Some(Vec::new())
    }
    /// Changes when its order of queues may have changed for all of them, whichever were given something.
    fn queue_stamp(&self, _: &World) -> u64 {
        0
    }
    /// Which of two tasks of a job goes first.
    fn task_order(&self, _: &World, _a: TaskId, _b: TaskId) -> Ordering {
        Ordering::Equal
    }
    /// Whether a job can be scheduled at all.
    fn job_valid(&self, _: &World, _: JobId) -> Result<(), Refusal> {
        Ok(())
    }
    /// Whether enough of a job has a place for it to start.
    fn job_ready(&self, _: &World, _: JobId) -> bool {
        true
    }
    /// Whether enough of a job has a place now or once room is released.
    fn job_pipelined(&self, _: &World, _: JobId) -> Vote {
        Vote::Abstain
    }
    /// Whether a job lacks what it should have, so that others may be evicted for it.
    fn job_starving(&self, _: &World, _: JobId) -> Option<bool> {
        None
    }
    /// Whether a job may be admitted.
    fn job_enqueueable(&self, _: &World, _: JobId) -> EnqueueVote {
        EnqueueVote::Abstain
    }
    /// Whether a queue can be used under this plugin at all.
    fn queue_valid(&self, _: &World, _: QueueId) -> Result<(), QueueFault> {
        Ok(())
    }
    /// What is odd about a queue that can be used nevertheless.
    fn queue_warning(&self, _: &World, _: QueueId) -> Option<QueueFault> {
        None
    }
    /// What is odd about the annotations of a job that is scheduled nevertheless.
    fn job_warning(&self, _: &World, _: JobId) -> Option<Arc<str>> {
        None
    }
    /// Whether it holds jobs to the limits of the queues above theirs.
    fn holds_trees(&self) -> bool {
        false
    }
    /// A job was admitted.
    fn job_enqueued(&mut self, _: &World, _: JobId) {}
    /// Whether a queue has all it may have.
    fn overused(&self, _: &World, _: QueueId) -> Option<Refusal> {
        None
    }
    /// Whether a queue may have one more task.
    fn allocatable(&self, _: &World, _: QueueId, _: TaskId) -> Result<(), Refusal> {
        Ok(())
    }

    /// Whether a queue has room for a task that waits behind its gate. That of nodes is not asked: whoever adds nodes is to
    /// see it.
    fn lets_in(&self, world: &World, queue: QueueId, task: TaskId) -> Result<(), Refusal> {
        self.allocatable(world, queue, task)
    }
    /// Whether a queue may have others evicted for this task of it (`reclaim`).
    fn preemptive(&self, _: &World, _: QueueId, _: TaskId) -> Result<(), Refusal> {
        Ok(())
    }
    /// Whether a task must not be evicted, whatever others say: it is left out before anybody is asked.
    fn protects(&self, _: &World, _: TaskId) -> bool {
        false
    }
    /// What it says of those it protects, behind their number.
    fn shelter(&self) -> &'static str {
        "that a plugin protects"
    }
    /// What it says of a task that it does not let go for another, behind the number of such.
    fn keeps(&self, _: &World, _by: TaskId, _: TaskId) -> Arc<str> {
        "that a plugin does not let go for it".into()
    }
    /// Whether a task that it does not let go alone is one that its gang needs; then [`keeps`](Self::keeps) is not asked.
    fn keeps_gangs(&self) -> bool {
        false
    }
    /// Which of these tasks may be evicted for a task of the same queue. They come in the order in which they would be
    /// evicted, and an opinion keeps it: a task is accepted on top of those accepted before it. So whom it does not
    /// accept alone it does not accept with others.
    fn preemptable(&self, _: &World, _by: TaskId, _of: &[TaskId]) -> Option<Vec<TaskId>> {
        None
    }
    /// Which of these tasks may be evicted for a task of another queue, likewise.
    fn reclaimable(&self, _: &World, _by: TaskId, _of: &[TaskId]) -> Option<Vec<TaskId>> {
        None
    }
    /// Which of these tasks may be evicted for the gang of a task, whatever becomes of their own gangs (`gangpreempt`,
    /// `gangreclaim`); likewise.
    fn unified_evictable(
        &self,
        _: &World,
        _: EvictionKind,
        _by: TaskId,
        _of: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        None
    }
    /// Whether its opinions on victims depend on what the task requests, or on more of its job than the queue, the
    /// priority and whether it may be evicted itself.
    fn minds_request(&self) -> bool {
        true
    }
    /// Whether its opinions on victims of other queues are about what queues may keep: then they hold whichever tier decides,
    /// for no order of plugins is meant to let two queues take the same from each other by turns.
    fn guards_queues(&self) -> bool {
        false
    }
    /// What a queue has more of than it may keep, if it gives (`reclaim`) only as long as there is some of that left: a task that asks
    /// for any of it goes only while there is more than 0 of something that it asks for. `None` when it does not say.
    fn surplus(&self, _: &World, _: QueueId) -> Option<Amounts> {
        None
    }
    /// Whether its opinions on victims, those that a flag lets it have or, without one, those of `unified_evictable`, say
    /// whose job comes first: without any, jobs of equal priority do not preempt each other, for they would do so by turns.
    fn ranks_jobs(&self, _: Option<Flag>) -> bool {
        false
    }
    /// Which of two queues gives its tasks up first for one of queue `by`.
    fn victim_queue_order(&self, _: &World, _by: QueueId, _a: QueueId, _b: QueueId) -> Ordering {
        Ordering::Equal
    }
    /// Which of these running tasks should be evicted for nobody (`shuffle`).
    fn victim_tasks(&self, _: &World, _of: &[TaskId]) -> Vec<TaskId> {
        Vec::new()
    }
    /// Whether it may name any in this cycle: if no plugin does, running tasks are not looked through.
    fn names_victims(&self) -> bool {
        false
    }
    /// Whether the tasks it names go only if there is a place for them elsewhere.
    fn moves_victims(&self) -> bool {
        false
    }
    /// Filters of a class, for as long as it lives and the configuration stands.
    fn filters(&self, _: &World, _: ClassId, _: &mut NodeRules) {}
    /// Scorers of a class, for as long as it lives and the configuration stands.
    fn scorers(&self, _: &World, _: ClassId, _: &mut NodeRules) {}
    /// Whether `scope` is wanted.
    fn has_scope(&self) -> bool {
        false
    }
    /// What of a task, and of all that the World does not know, the nodes for it depend on besides its class: a number
    /// that differs when the rules do, also from one session to the next; 0 when there is nothing.
    fn scope(&self, _: &World, _: TaskId) -> u64 {
        0
    }
    /// The same without the task's own claims.
    fn scope_beside_claims(&self, world: &World, task: TaskId) -> u64 {
        self.scope(world, task)
    }
    /// Filters of a task besides those of its class; asked for once for all tasks of a class with the same scope.
    fn scoped_filters(&self, _: &World, _: TaskId, _: &mut NodeRules) {}
    /// Scorers of a task, likewise.
    fn scoped_scorers(&self, _: &World, _: TaskId, _: &mut NodeRules) {}
    /// Whether `points` is wanted.
    fn has_points(&self) -> bool {
        false
    }
    /// ExtraScores of single nodes for a task, weighted, on top of all scores: for what is on these nodes and matters to few
    /// tasks. Asked for each task anew.
    fn points(&self, _: &World, _: TaskId) -> Vec<(NodeId, f64)> {
        Vec::new()
    }
    /// What a queue deserves, for reports.
    fn deserved(&self, _: &World, _: QueueId) -> Option<Amounts> {
        None
    }
    /// Whether what it says of victims is asked of another process, so that it cannot be asked thousands of times.
    fn asks_others(&self) -> bool {
        false
    }
    /// When the passing of time alone may change what this plugin says of the World as it is now.
    fn wake(&self, _: &World) -> Option<Time> {
        None
    }
    /// Until when a refusal of a job stands for this plugin, as long as neither the job changes nor anything else that its
    /// refusal names; `None` when it may be lifted by what the World is not told.
    fn stands_until(&self, _: &World, _: JobId) -> Option<Time> {
        None
    }
    /// Why a job may not start, where `job_ready` says no for a reason that nothing else tells.
    fn not_ready(&self, _: &World, _: JobId) -> Option<Refusal> {
        None
    }
    /// Whether claims are given devices when their pods are bound.
    fn gives_devices(&self) -> bool {
        false
    }
    /// Whether `binder` is wanted.
    fn has_binder(&self) -> bool {
        false
    }
    /// Who binds a task instead of the API server.
    fn binder(&self, _: &World, _: TaskId) -> Option<Arc<Endpoint>> {
        None
    }
    /// The session ends.
    fn close(&self, _: &World) {}
    /// Whether `on_change` is wanted.
    fn listens(&self) -> bool {
        false
    }
    /// A task's status changed, by a statement or by its undoing.
    fn on_change(&mut self, _: &World, _: TaskId, _before: Status) {}
}

/// What a plugin is opened with.
#[derive(Clone, Copy, Debug)]
pub struct PluginContext<'a> {
    /// The world as the session finds it.
    pub world: &'a World,
    /// The plugin's arguments.
    pub args: &'a Args,
    /// Its flags.
    pub flags: Flags,
    /// When the cycle began.
    pub now: Time,
    /// When the one before began; plugins live for one cycle, so this is how they know what is due once in a while.
    pub before: Option<Time>,
    /// Asks extenders; missing where nobody may be asked, as in reports.
    pub extender: Option<&'a Arc<dyn Extender>>,
}

/// What a session is opened with besides the World and the configuration.
#[derive(Clone, Copy, Debug)]
pub struct SessionInputs<'a> {
    /// When the cycle began.
    pub now: Time,
    /// When the one before began.
    pub before: Option<Time>,
    /// Asks extenders.
    pub extender: Option<&'a Arc<dyn Extender>>,
    /// Measures how long searches take.
    pub stopwatch: Option<&'a Arc<dyn Stopwatch>>,
}

/// The first cycle, with nobody to ask.
impl From<Time> for SessionInputs<'_> {
    fn from(now: Time) -> Self {
        Self { now, before: None, extender: None, stopwatch: None }
    }
}

impl PluginContext<'_> {
    /// Whether this is the first cycle of a period, all of which are this many milliseconds long and begin with 1970.
    pub fn begins(&self, period: i64) -> bool {
        let number = |time: Time| time.0.div_euclid(period.max(1));
        self.before.is_none_or(|before| number(before) != number(self.now))
    }
}

/// An annotation, a label or a field of an object that a plugin goes by; for the reference page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectField {
    /// Its name.
    pub name: &'static str,
    /// What it is, and of what: `annotation of a PodGroup`.
    pub of: &'static str,
    /// What counts without it, or when it cannot be read.
    pub default: &'static str,
    /// What it means.
    pub doc: &'static str,
}

impl ObjectField {
    /// One of a table.
    pub const fn new(name: &'static str, of: &'static str, default: &'static str, doc: &'static str) -> Self {
        Self { name, of, default, doc }
    }
}

/// A row in the table of plugins.
pub struct PluginDef {
    /// The name in scheduler.conf.
    pub name: &'static str,
    /// What it is for, in a sentence.
    pub summary: &'static str,
    /// Its arguments.
    pub args: &'static [ArgSpec],
    /// What it reads on objects, besides what Kubernetes and the definitions of PodGroup and Queue describe.
    pub reads: &'static [ObjectField],
    /// Makes one for a session.
    pub open: fn(PluginContext<'_>) -> Box<dyn Plugin>,
}
