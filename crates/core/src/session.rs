//! A session: the Cluster, the plugins of the configuration, and the questions actions ask.
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::backlog::{Backlog, Walks};
use crate::decision::{Decision, Prepare};
use crate::eviction::EvictionState;
use crate::failed_searches::FailedSearches;
use crate::searches::Searches;
use crate::statement::{Entry, Statement};
use phalanx_cluster::budget::{Budget, Cut, Stopwatch};
use phalanx_cluster::diagnosis::{QueueFault, Refusal};
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{JobId, NodeId, QueueId, TaskId};
use phalanx_cluster::{Before, Cluster, Status};
use phalanx_framework::conf::{Conf, Flag};
use phalanx_framework::placement::{BestNode, Fit, NodeRanking};
use phalanx_framework::plugin::{Plugin, SessionInputs, Vote};
use phalanx_framework::tiers::Tiers;
use phalanx_plugins::PLUGINS;

/// Steps that searches for the places of gangs may take in a cycle, so that they do not hold up other jobs for long.
const SEARCHES: u64 = 500_000;
/// Milliseconds that they may take, where time is measured.
const SEARCHES_MS: u64 = 500;

/// Which of two jobs goes first: repairs and plugins, then creation, then name.
pub(crate) fn job_order(cluster: &Cluster, tiers: &Tiers, a: JobId, b: JobId) -> Ordering {
    tiers.job_order(cluster, a, b).then_with(|| {
        let (a, b) = (&cluster.jobs[a], &cluster.jobs[b]);
        a.created.cmp(&b.created).then_with(|| a.key.cmp(&b.key)).then(a.kind.cmp(&b.kind))
    })
}

/// One cycle's view of the Cluster.
pub struct Session<'w> {
    /// The Cluster; changed through a Statement only.
    pub cluster: &'w mut Cluster,
    /// The plugins.
    pub tiers: Tiers,
    /// The configuration.
    pub conf: &'w Conf,
    /// When the cycle began.
    pub now: Time,
    pub(crate) placement: &'w mut NodeRanking,
    pub(crate) log: Vec<Entry>,
    /// Which jobs take room from which in open statements.
    pub(crate) takings: Vec<(JobId, JobId)>,
    pub(crate) decisions: Vec<Decision>,
    /// What searches for the places of gangs may still take in this cycle.
    pub(crate) searches: Searches,
    /// A search was ended that would have gone on with what it may take in a cycle.
    pub(crate) cut_short: bool,
    /// A job was admitted behind those that place pods: the next cycle does.
    pub(crate) admitted_late: bool,
    /// When a search for a way to start is made again that rests though something has happened, or no
    /// other gang would lose its places any more.
    pub(crate) rests_until: Option<Time>,
    /// Jobs with promised places, or that had some.
    pub(crate) reserved: BTreeSet<JobId>,
    /// Plain placing has had its turn in this cycle, or never has.
    pub(crate) allocated: bool,
    /// Nodes that are kept in this cycle for gangs that gather room.
    pub(crate) gathered: Vec<NodeId>,
    /// Who was asked of those that wait for plain placing.
    pub(crate) walks: Walks,
    /// What eviction keeps across cycles.
    pub(crate) past: EvictionState,
    /// Searches that failed and are not to be made again yet.
    pub(crate) failed_searches: FailedSearches,
    /// Which jobs wait for what.
    pub(crate) backlog: Backlog,
    stopwatch: Option<&'w Arc<dyn Stopwatch>>,
}

impl<'w> Session<'w> {
    /// Opens the plugins on the Cluster.
    pub fn open(
        cluster: &'w mut Cluster,
        conf: &'w Conf,
        placement: &'w mut NodeRanking,
        outside: impl Into<SessionInputs<'w>>,
    ) -> Self {
        let outside = outside.into();
        let tiers = Tiers::open(PLUGINS, conf, cluster, outside);
        Self {
            cluster,
            tiers,
            conf,
            now: outside.now,
            placement,
            log: Vec::new(),
            takings: Vec::new(),
            decisions: Vec::new(),
            searches: Searches::new(Budget::new(SEARCHES, SEARCHES_MS, outside.stopwatch)),
            cut_short: false,
            admitted_late: false,
            rests_until: None,
            reserved: BTreeSet::new(),
            allocated: !conf.has_action("allocate"),
            gathered: Vec::new(),
            walks: Walks::default(),
            past: EvictionState::default(),
            failed_searches: FailedSearches::default(),
            backlog: Backlog::default(),
            stopwatch: outside.stopwatch,
        }
    }

    /// So many steps, and so many milliseconds from now on where time is measured.
    pub(crate) fn budget(&self, steps: i64, ms: i64) -> Budget {
        let count = |number: i64| u64::try_from(number).unwrap_or_default();
        Budget::new(count(steps), count(ms), self.stopwatch)
    }

    /// The search for a job's places was ended before it found an answer.
    pub(crate) fn search_ended(&mut self, job: JobId, cut: Cut) {
        let short = Searches::is_cut_short(cut);
        self.cluster.jobs[job].unsearched = short && self.searches.may_get_more();
        self.cut_short |= short;
    }

    /// Jobs that this cycle looks at, by id.
    pub(crate) fn active_jobs(&mut self) -> Vec<JobId> {
        self.backlog.follow(self.cluster);
        self.backlog.active_jobs(self.cluster)
    }

    /// Those of them that have tasks to place.
    pub(crate) fn waiting_jobs(&mut self) -> Vec<JobId> {
        let mut jobs = self.active_jobs();
        jobs.retain(|job| self.cluster.jobs[*job].waiting() > 0);
        jobs
    }

    /// Begins a change that is either committed whole or undone.
    pub fn statement(&mut self) -> Statement<'_, 'w> {
        Statement::new(self)
    }

    /// Which of two jobs goes first: repairs and plugins, then creation, then name.
    pub fn job_order(&self, a: JobId, b: JobId) -> Ordering {
        job_order(self.cluster, &self.tiers, a, b)
    }

    /// Whether what is reserved for a job gives way to another of its queue. A gang that is being repaired gives way only to
    /// one that could evict it.
    pub(crate) fn outranks(&self, by: JobId, of: JobId) -> bool {
        let (one, other) = (&self.cluster.jobs[by], &self.cluster.jobs[of]);
        one.queue == other.queue
            && !(other.is_broken() && self.tiers.repairs_go_first())
            && self
                .tiers
                .with(Flag::JobOrder)
                .filter_map(Plugin::job_rank)
                .any(|rank| rank.outranks(self.cluster, by, of))
    }

    /// Which of two queues goes first: plugins, then creation, then name.
    pub fn queue_order(&self, a: QueueId, b: QueueId) -> Ordering {
        self.tiers.first(Flag::QueueOrder, |plugin| plugin.queue_order(self.cluster, a, b)).then_with(|| {
            let (a, b) = (&self.cluster.queues[a], &self.cluster.queues[b]);
            a.created.cmp(&b.created).then_with(|| a.name.cmp(&b.name))
        })
    }

    /// The places above a queue, from the top down, by which it is compared with others; `None` when any change may matter.
    pub(crate) fn queue_way(&self, queue: QueueId) -> Option<Vec<u32>> {
        let mut ways = self
            .tiers
            .with(Flag::QueueOrder)
            .filter_map(Plugin::queue_tree)
            .map(|tree| tree.queue_path(self.cluster, queue));
        ways.try_fold(Vec::new(), |known, way| match way? {
            way if way.is_empty() => Some(known),
            way if known.is_empty() => Some(way),
            // A queue is in two trees, which need not be alike.
            _ => None,
        })
    }

    /// Changes when all queues may have another order, not only those that were given something.
    pub(crate) fn queue_stamp(&self) -> u64 {
        self.tiers
            .with(Flag::QueueOrder)
            .filter_map(Plugin::queue_tree)
            .map(|tree| tree.order_stamp(self.cluster))
            .sum()
    }

    /// Which of two tasks of a job goes first: plugins, then index, creation, name.
    pub fn task_order(&self, a: TaskId, b: TaskId) -> Ordering {
        self.tiers.first(Flag::TaskOrder, |plugin| plugin.task_order(self.cluster, a, b)).then_with(|| {
            let (a, b) = (&self.cluster.tasks[a], &self.cluster.tasks[b]);
            a.index.cmp(&b.index).then(a.created.cmp(&b.created)).then_with(|| a.pod.cmp(&b.pod))
        })
    }

    /// Why a job cannot be scheduled whatever the room: its own fault or its queue's, a PodGroup controller is about to put
    /// its pod into a PodGroup, or the API server has just refused to bind a pod of it.
    pub fn job_blocked(&self, job: JobId) -> Result<(), Refusal> {
        let it = &self.cluster.jobs[job];
        if !it.exists {
            return Err(Refusal::NoPodGroup(it.key.clone()));
        }
        if let Some(why) = &it.invalid {
            return Err(Refusal::Invalid(why.clone()));
        }
        self.cluster.awaits_group(job, self.now).map_or(Ok(()), Err)?;
        self.queue_blocked(job)?;
        self.tiers.every().try_for_each(|plugin| plugin.job_valid(self.cluster, job))?;
        self.cluster.denial(job, self.now).map_or(Ok(()), Err)
    }

    /// Why a job's queue keeps it from being admitted or placed.
    pub fn queue_blocked(&self, job: JobId) -> Result<(), Refusal> {
        self.queue_refuses(self.cluster.jobs[job].queue)
    }

    /// The same of the queue.
    pub(crate) fn queue_refuses(&self, id: QueueId) -> Result<(), Refusal> {
        let queue = &self.cluster.queues[id];
        if !queue.exists {
            return Err(Refusal::QueueMissing(queue.name.clone()));
        }
        if let Some(fault) = self.queue_fault(id) {
            return Err(Refusal::QueueInvalid { queue: queue.name.clone(), fault });
        }
        let Some(shut) = self.cluster.queue_shut(id).map(|id| &self.cluster.queues[id]) else {
            return Ok(());
        };
        let above = (shut.name != queue.name).then(|| shut.name.clone());
        Err(Refusal::QueueNotOpen { queue: queue.name.clone(), above, state: shut.state.name() })
    }

    /// What keeps a queue from being used: its fields, its place in the tree, or what a plugin minds.
    pub fn queue_fault(&self, queue: QueueId) -> Option<QueueFault> {
        let minded = || self.tiers.every().find_map(|plugin| plugin.queue_valid(self.cluster, queue).err());
        self.cluster.queue_fault(queue).or_else(minded)
    }

    /// Whether enough of a job has a place for it to start.
    pub fn job_ready(&self, job: JobId) -> bool {
        self.tiers.with(Flag::JobReady).all(|plugin| plugin.job_ready(self.cluster, job))
    }

    /// Why a job may not start, where nothing else tells.
    pub fn not_ready(&self, job: JobId) -> Option<Refusal> {
        self.tiers.any(Flag::JobReady, |plugin| plugin.remote()?.not_ready(self.cluster, job))
    }

    /// Whether enough of a job has a place now or once room is released.
    pub fn job_pipelined(&self, job: JobId) -> bool {
        self.tiers.vote(Flag::JobPipelined, |plugin| plugin.job_pipelined(self.cluster, job))
    }

    /// Whether a job has, or was promised, all that it takes to start, whoever lets it keep less.
    pub(crate) fn job_whole(&self, job: JobId) -> bool {
        let lacks = |plugin: &dyn Plugin| plugin.job_pipelined(self.cluster, job) == Vote::Reject;
        self.job_pipelined(job) && !self.tiers.with(Flag::JobReady).any(lacks)
    }

    /// Whether a job may be admitted.
    pub fn job_enqueueable(&self, job: JobId) -> Result<(), Refusal> {
        self.tiers.enqueue_vote(|plugin| plugin.job_enqueueable(self.cluster, job))
    }

    /// Tells the plugins that a job was admitted.
    pub fn job_enqueued(&mut self, job: JobId) {
        let Self { tiers, cluster, .. } = self;
        tiers.tell(Flag::JobEnqueued, |plugin| plugin.job_enqueued(cluster, job));
    }

    /// Why a queue may have nothing more, if that is so.
    pub fn overused(&self, queue: QueueId) -> Option<Refusal> {
        self.tiers.any(Flag::Overused, |plugin| plugin.overused(self.cluster, queue))
    }

    /// Whether a queue may have one more task.
    pub fn allocatable(&self, queue: QueueId, task: TaskId) -> Result<(), Refusal> {
        self.tiers.all(Flag::Allocatable, |plugin| plugin.allocatable(self.cluster, queue, task))
    }

    /// Whether a queue has room for a task that waits behind its gate.
    pub(crate) fn lets_in(&self, queue: QueueId, task: TaskId) -> Result<(), Refusal> {
        self.tiers.all(Flag::Allocatable, |plugin| plugin.gate_removable(self.cluster, queue, task))
    }

    /// Moves a task for a question; [`put_back`](Self::put_back) must follow, the last one moved first.
    pub(crate) fn suppose(&mut self, task: TaskId, status: Status, node: Option<NodeId>) -> Before {
        let from = self.cluster.tasks[task].status;
        let before = self.cluster.place(task, status, node);
        self.tiers.changed(self.cluster, task, from);
        before
    }

    /// Undoes [`suppose`](Self::suppose).
    pub(crate) fn put_back(&mut self, task: TaskId, before: &Before) {
        let from = self.cluster.tasks[task].status;
        self.cluster.restore(task, before);
        self.tiers.changed(self.cluster, task, from);
    }

    /// Whether a queue may have others evicted for this task of it.
    pub fn preemptive(&self, queue: QueueId, task: TaskId) -> Result<(), Refusal> {
        self.tiers.all(Flag::Preemptive, |plugin| plugin.preemptive(self.cluster, queue, task))
    }

    /// Which of two queues gives its tasks up first for one of queue `by`: plugins, then the one that is served last.
    pub fn victim_queue_order(&self, by: QueueId, a: QueueId, b: QueueId) -> Ordering {
        let mut says = self.tiers.every().map(|plugin| plugin.victim_queue_order(self.cluster, by, a, b));
        says.find(|order| order.is_ne()).unwrap_or_else(|| self.queue_order(b, a))
    }

    /// Whether a job lacks what it should have, so that others may be evicted for it.
    pub fn job_starving(&self, job: JobId) -> bool {
        self.tiers.all_of_first_tier(Flag::JobStarving, |plugin| plugin.job_starving(self.cluster, job))
    }

    /// The best node for a task. The node it was nominated for comes first among those of the same room.
    pub fn spot(&mut self, task: TaskId) -> Option<BestNode> {
        let Self { cluster, tiers, placement, .. } = self;
        let (it, class) = (&cluster.tasks[task], tiers.scoped_class(cluster, task));
        let nominated = it.nominated.as_ref().and_then(|name| cluster.node_named(name));
        let held = nominated.and_then(|node| {
            let room = placement.fit(cluster, tiers, class, node)?;
            Some(BestNode { node, fit: room })
        });
        if let Some(spot) = held.filter(|spot| spot.fit == Fit::Idle) {
            return Some(spot);
        }
        let best = placement.best_with(cluster, tiers, class, &tiers.extra_scores(cluster, task));
        held.filter(|_| best.is_none_or(|best| best.fit == Fit::FutureIdle)).or(best)
    }

    /// Gives the claims of a task that is being bound their devices; what has to be written before.
    pub(crate) fn give_devices(&mut self, task: TaskId) -> Vec<Prepare> {
        let wanted = self.cluster.tasks[task].claims.is_some();
        if wanted && self.tiers.with(Flag::Predicate).any(Plugin::gives_devices) {
            return self.cluster.give_devices(task);
        }
        Vec::new()
    }

    /// Whether a node has, or will have, room for a task.
    pub(crate) fn takes(&mut self, task: TaskId, node: NodeId) -> bool {
        let Self { cluster, tiers, placement, .. } = self;
        placement.fit(cluster, tiers, tiers.scoped_class(cluster, task), node).is_some()
    }

    /// Whether, and when, a node has room for a task; `None` also when it is like one of those that were tried.
    pub(crate) fn room(&mut self, task: TaskId, node: NodeId, tried: &[NodeId]) -> Option<Fit> {
        let Self { cluster, tiers, placement, .. } = self;
        let room = placement.fit(cluster, tiers, tiers.scoped_class(cluster, task), node)?;
        let cell = placement.bucket(node);
        (!tried.iter().any(|other| placement.bucket(*other) == cell)).then_some(room)
    }

    /// Why no node will do for a task.
    pub fn no_node(&mut self, task: TaskId) -> Refusal {
        let Self { cluster, tiers, placement, .. } = self;
        let it = &cluster.tasks[task];
        Refusal::Nodes {
            task: it.pod.name.clone(),
            error: placement.explain(cluster, tiers, tiers.scoped_class(cluster, task)),
        }
    }

    /// Keeps the place of a task that goes for the one that comes in its stead, as long as that does not take longer than so
    /// many milliseconds.
    pub(crate) fn keep_place(&mut self, moved: TaskId, node: NodeId, patience: i64) {
        if let Some(seat) = self.cluster.add_seat(moved, self.now, patience) {
            self.suppose(seat, Status::Pipelined, Some(node));
        }
    }

    /// Notes why a job waits.
    pub fn refuse(&mut self, job: JobId, refusal: Refusal) {
        self.backlog.activate(job);
        self.backlog.refusals.add(job, refusal);
    }
}
