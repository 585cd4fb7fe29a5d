//! The session: Cluster and plugins of one cycle, with what actions ask of them.
use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::backlog::IndexScans;
use crate::decision::{Decision, Prepare};
use crate::network::ChosenDomain;
use crate::searches::{PlacementBudget, SearchTime};
use crate::state::SchedulerState;
use crate::statement::{Operation, Statement};
use phalanx_cluster::diagnosis::{QueueFault, Refusal};
use phalanx_cluster::event::{Phase, Time};
use phalanx_cluster::id::{JobId, NodeId, QueueId, TaskId};
use phalanx_cluster::search_budget::Cut;
use phalanx_cluster::{Before, Cluster, NodeSet, Status};
use phalanx_framework::conf::{Conf, Flag};
use phalanx_framework::placement::{BestNode, Fit};
use phalanx_framework::plugin::{Plugin, SessionInputs, Vote};
use phalanx_framework::tiers::Tiers;
use phalanx_plugins::PLUGINS;

/// Actions that evict for a waiting job.
pub(crate) const EVICTING_ACTIONS: [&str; 4] = ["preempt", "reclaim", "gangpreempt", "gangreclaim"];

/// The order of jobs: plugins up to the last one with a `job_rank` where preemption is configured, repairs, other
/// plugins, creation, name.
pub(crate) fn job_order(cluster: &Cluster, tiers: &Tiers, a: JobId, b: JobId) -> Ordering {
    tiers.job_order(cluster, a, b).then_with(|| {
        let (a, b) = (&cluster.jobs[a], &cluster.jobs[b]);
        a.created.cmp(&b.created).then_with(|| a.key.cmp(&b.key)).then(a.kind.cmp(&b.kind))
    })
}

/// The order of queues: plugins, creation, name.
pub(crate) fn queue_order(cluster: &Cluster, tiers: &Tiers, a: QueueId, b: QueueId) -> Ordering {
    tiers.first(Flag::QueueOrder, |plugin| plugin.queue_order(cluster, a, b)).then_with(|| {
        let (a, b) = (&cluster.queues[a], &cluster.queues[b]);
        a.created.cmp(&b.created).then_with(|| a.name.cmp(&b.name))
    })
}

/// The Cluster and the opened plugins for one cycle.
pub struct Session<'w> {
    /// The Cluster; changed through a Statement only.
    pub cluster: &'w mut Cluster,
    /// The plugins.
    pub tiers: Tiers,
    /// The configuration.
    pub conf: &'w Conf,
    /// When the cycle began.
    pub now: Time,
    /// What crosses cycles.
    pub(crate) state: &'w mut SchedulerState,
    pub(crate) log: Vec<Operation>,
    /// In open statements: which job displaces which.
    pub(crate) displaced: Vec<(JobId, JobId)>,
    pub(crate) decisions: Vec<Decision>,
    /// What is left in this cycle for searches for the placement of gangs.
    pub(crate) placement_budget: PlacementBudget,
    /// What is left in this cycle of the time for searches of all kinds.
    pub(crate) search_time: SearchTime,
    /// The nodes that the planner chose for the job that it plans, if the job has a network topology or sub-groups.
    pub(crate) chosen_domain: Option<ChosenDomain>,
    /// There was no time for the search of a job.
    pub(crate) cut_short: bool,
    /// A job was admitted, or fell back to Pending, after the action ran that looks at such jobs: the next cycle follows
    /// at once.
    pub(crate) changed_late: bool,
    /// The action allocate has run in this cycle, or is not configured.
    pub(crate) allocate_done: bool,
    /// Scans of the capacity indexes in this cycle.
    pub(crate) scans: IndexScans,
    /// How often each action searched for victims.
    pub(crate) victim_searches: BTreeMap<&'static str, u64>,
}

impl<'w> Session<'w> {
    /// Opens the plugins on the Cluster.
    pub fn open(
        cluster: &'w mut Cluster,
        conf: &'w Conf,
        state: &'w mut SchedulerState,
        outside: impl Into<SessionInputs<'w>>,
    ) -> Self {
        let outside = outside.into();
        let tiers = Tiers::open(PLUGINS, conf, cluster, outside);
        Self {
            cluster,
            tiers,
            conf,
            now: outside.now,
            state,
            log: Vec::new(),
            displaced: Vec::new(),
            decisions: Vec::new(),
            placement_budget: PlacementBudget::new(),
            search_time: SearchTime::new(outside.stopwatch),
            chosen_domain: None,
            cut_short: false,
            changed_late: false,
            allocate_done: !conf.has_action("allocate"),
            scans: IndexScans::default(),
            victim_searches: BTreeMap::new(),
        }
    }

    /// Records that a search for the placement of a job was cut short.
    pub(crate) fn search_ended(&mut self, job: JobId, cut: Cut) {
        let short = PlacementBudget::is_cut_short(cut);
        let again = short && self.placement_budget.may_get_more();
        self.state.backlog.defer_placing(job, again);
        self.cut_short |= short;
    }

    /// Active jobs, by id.
    pub(crate) fn active_jobs(&mut self) -> Vec<JobId> {
        self.state.backlog.follow(self.cluster);
        self.state.backlog.active_jobs()
    }

    /// Active jobs with tasks to place, by id.
    pub(crate) fn waiting_jobs(&mut self) -> Vec<JobId> {
        let mut jobs = self.active_jobs();
        jobs.retain(|job| self.cluster.jobs[*job].waiting() > 0);
        jobs
    }

    /// Opens a statement.
    pub fn statement(&mut self) -> Statement<'_, 'w> {
        Statement::new(self)
    }

    /// The order of jobs: plugins up to the last one with a `job_rank`, repairs, other plugins, creation, name.
    pub fn job_order(&self, a: JobId, b: JobId) -> Ordering {
        job_order(self.cluster, &self.tiers, a, b)
    }

    /// Whether a job may take over the reservation of another job of its queue: by higher priority; from a gang under
    /// repair only if it could evict that gang.
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

    /// The order of queues: plugins, creation, name.
    pub fn queue_order(&self, a: QueueId, b: QueueId) -> Ordering {
        queue_order(self.cluster, &self.tiers, a, b)
    }

    /// The ancestors of a queue, from the root down, by which it is compared with others; `None` when any change may
    /// matter.
    pub(crate) fn queue_path(&self, queue: QueueId) -> Option<Vec<u32>> {
        let mut paths = self
            .tiers
            .with(Flag::QueueOrder)
            .filter_map(Plugin::queue_tree)
            .map(|tree| tree.queue_path(self.cluster, queue));
        paths.try_fold(Vec::new(), |known, path| match path? {
            path if path.is_empty() => Some(known),
            path if known.is_empty() => Some(path),
            // Two plugins may see different trees.
            _ => None,
        })
    }

    /// Changes when the order of all queues may change, not only of queues with changed sums.
    pub(crate) fn queue_stamp(&self) -> u64 {
        self.tiers
            .with(Flag::QueueOrder)
            .filter_map(Plugin::queue_tree)
            .map(|tree| tree.order_stamp(self.cluster))
            .sum()
    }

    /// The order of tasks of a job: plugins, index, creation, name.
    pub fn task_order(&self, a: TaskId, b: TaskId) -> Ordering {
        self.tiers.first(Flag::TaskOrder, |plugin| plugin.task_order(self.cluster, a, b)).then_with(|| {
            let (a, b) = (&self.cluster.tasks[a], &self.cluster.tasks[b]);
            a.details
                .index
                .cmp(&b.details.index)
                .then(a.details.created.cmp(&b.details.created))
                .then_with(|| a.pod.cmp(&b.pod))
        })
    }

    /// Why a job cannot be scheduled whatever the capacity: a fault of the job or its queue, a PodGroup controller that
    /// will put its pod into a PodGroup, or back-off after a refused bind.
    pub fn job_blocked(&self, job: JobId) -> Result<(), Refusal> {
        let it = &self.cluster.jobs[job];
        if !it.object.exists {
            return Err(Refusal::NoPodGroup(it.key.clone()));
        }
        if let Some(why) = &it.object.invalid {
            return Err(Refusal::Invalid(why.clone()));
        }
        self.cluster.awaits_group(job, self.now).map_or(Ok(()), Err)?;
        self.topology_met(job)?;
        self.queue_blocked(job)?;
        self.tiers.every().try_for_each(|plugin| plugin.job_valid(self.cluster, job))?;
        self.state.backlog.bind_refusal(self.cluster, job, self.now).map_or(Ok(()), Err)
    }

    /// Why a job's queue keeps it from being admitted or placed.
    pub fn queue_blocked(&self, job: JobId) -> Result<(), Refusal> {
        self.queue_refuses(self.cluster.jobs[job].queue)
    }

    /// Why a queue takes no jobs.
    pub(crate) fn queue_refuses(&self, id: QueueId) -> Result<(), Refusal> {
        let queue = &self.cluster.queues[id];
        if !queue.object.exists {
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

    /// Why a queue cannot be used: its fields, its place in the tree, or a plugin's check.
    pub fn queue_fault(&self, queue: QueueId) -> Option<QueueFault> {
        let minded = || self.tiers.every().find_map(|plugin| plugin.queue_valid(self.cluster, queue).err());
        self.cluster.queue_fault(queue).or_else(minded)
    }

    /// Whether enough tasks of a job have a node for it to start (Volcano's `JobReady`).
    pub fn job_ready(&self, job: JobId) -> bool {
        self.tiers.with(Flag::JobReady).all(|plugin| plugin.job_ready(self.cluster, job))
    }

    /// Whether a gang that runs lacks members, of required sub-groups too.
    pub fn lost_members(&self, job: JobId) -> bool {
        let it = &self.cluster.jobs[job];
        it.is_broken() || (it.counts.ready() > 0 && !self.job_ready(job))
    }

    /// Why a job is not ready, by the plugin that says so.
    pub fn not_ready(&self, job: JobId) -> Option<Refusal> {
        self.tiers.any(Flag::JobReady, |plugin| plugin.remote()?.not_ready(self.cluster, job))
    }

    /// Whether enough tasks of a job have a node or a nomination (Volcano's `JobPipelined`).
    pub fn job_pipelined(&self, job: JobId) -> bool {
        self.tiers.vote(Flag::JobPipelined, |plugin| plugin.job_pipelined(self.cluster, job))
    }

    /// Whether the minimum of a job has nodes or nominations, whatever plugins say.
    pub(crate) fn job_whole(&self, job: JobId) -> bool {
        let lacks = |plugin: &dyn Plugin| plugin.job_pipelined(self.cluster, job) == Vote::Reject;
        self.job_pipelined(job) && !self.tiers.with(Flag::JobReady).any(lacks)
    }

    /// Whether a job may be admitted (Volcano's `JobEnqueueable`).
    pub fn job_enqueueable(&self, job: JobId) -> Result<(), Refusal> {
        self.tiers.enqueue_vote(|plugin| plugin.job_enqueueable(self.cluster, job))
    }

    /// Admits a job: its pods may be created, and placed.
    pub(crate) fn admit(&mut self, job: JobId) {
        self.cluster.set_phase(job, Phase::Inqueue);
    }

    /// Notifies plugins that a job was admitted.
    pub fn job_enqueued(&mut self, job: JobId) {
        let Self { tiers, cluster, .. } = self;
        tiers.tell(Flag::JobEnqueued, |plugin| plugin.job_enqueued(cluster, job));
    }

    /// Why a queue is overused, if it is.
    pub fn overused(&self, queue: QueueId) -> Option<Refusal> {
        self.tiers.any(Flag::Overused, |plugin| plugin.overused(self.cluster, queue))
    }

    /// Whether its queue may have one more task allocated.
    pub fn allocatable(&self, task: TaskId) -> Result<(), Refusal> {
        let Some(queue) = self.cluster.queue_of(task) else { return Ok(()) };
        self.tiers.all(Flag::Allocatable, |plugin| plugin.allocatable(self.cluster, queue, task))
    }

    /// Whether its queue has capacity for a task that waits behind its queue-admission gate.
    pub(crate) fn gate_removable(&self, task: TaskId) -> Result<(), Refusal> {
        let Some(queue) = self.cluster.queue_of(task) else { return Ok(()) };
        self.tiers.all(Flag::Allocatable, |plugin| plugin.gate_removable(self.cluster, queue, task))
    }

    /// Moves a task to try a placement. [`undo_simulation`](Self::undo_simulation) must follow, in reverse order.
    pub(crate) fn simulate_place(&mut self, task: TaskId, status: Status, node: Option<NodeId>) -> Before {
        let from = self.cluster.tasks[task].status;
        let before = self.cluster.place(task, status, node);
        self.tiers.changed(self.cluster, task, from);
        before
    }

    /// Undoes [`simulate_place`](Self::simulate_place).
    pub(crate) fn undo_simulation(&mut self, task: TaskId, before: &Before) {
        let from = self.cluster.tasks[task].status;
        self.cluster.restore(task, before);
        self.tiers.changed(self.cluster, task, from);
    }

    /// Whether its queue may have tasks evicted for a task.
    pub fn preemptive(&self, task: TaskId) -> Result<(), Refusal> {
        let Some(queue) = self.cluster.queue_of(task) else { return Ok(()) };
        self.tiers.all(Flag::Preemptive, |plugin| plugin.preemptive(self.cluster, queue, task))
    }

    /// The order of queues by which victims are taken for queue `by`: plugins, then the reverse order of queues.
    pub fn victim_queue_order(&self, by: QueueId, a: QueueId, b: QueueId) -> Ordering {
        let mut says = self.tiers.every().map(|plugin| plugin.victim_queue_order(self.cluster, by, a, b));
        says.find(|order| order.is_ne()).unwrap_or_else(|| self.queue_order(b, a))
    }

    /// Whether a job lacks tasks that others may be evicted for (Volcano's `JobStarving`).
    pub fn job_starving(&self, job: JobId) -> bool {
        self.tiers.all_of_first_tier(Flag::JobStarving, |plugin| plugin.job_starving(self.cluster, job))
    }

    /// The best node for a task. Among nodes with equal resources the nominated node comes first.
    pub fn best_node(&mut self, task: TaskId) -> Option<BestNode> {
        let within = self.nodes_for(task);
        let Self { cluster, tiers, state, .. } = self;
        let (it, class) = (&cluster.tasks[task], tiers.scoped_class(cluster, task));
        let nominated = it.written.nominated.as_ref().and_then(|name| cluster.node_named(name));
        let held = nominated.filter(|node| is_within(within.as_ref(), *node)).and_then(|node| {
            let room = state.placement.fit(cluster, tiers, class, node)?;
            Some(BestNode { node, fit: room })
        });
        if held.is_some_and(|held| held.fit == Fit::Idle) {
            return held;
        }
        let extra = tiers.extra_scores(cluster, task);
        let best = state.placement.best_with(cluster, tiers, class, &extra, within.as_deref());
        held.filter(|_| best.is_none_or(|best| best.fit == Fit::FutureIdle)).or(best)
    }

    /// Allocates devices to the claims of a task that is being bound. Returns what has to be written before the bind.
    pub(crate) fn give_devices(&mut self, task: TaskId) -> Vec<Prepare> {
        let wanted = self.cluster.tasks[task].claims.is_some();
        if wanted && self.tiers.give_devices(self.cluster, task) {
            return self.cluster.give_devices(task);
        }
        Vec::new()
    }

    /// Whether a task fits on a node, now or once resources are released.
    pub(crate) fn fits(&mut self, task: TaskId, node: NodeId) -> bool {
        let may_go = is_within(self.nodes_for(task).as_ref(), node);
        let Self { cluster, tiers, state, .. } = self;
        may_go && state.placement.fit(cluster, tiers, tiers.scoped_class(cluster, task), node).is_some()
    }

    /// Whether a task fits on a node now or later; `None` if not, or if the node is equal to one that was tried.
    pub(crate) fn fit_unless_tried(&mut self, task: TaskId, node: NodeId, tried: &[NodeId]) -> Option<Fit> {
        if !is_within(self.nodes_for(task).as_ref(), node) {
            return None;
        }
        let Self { cluster, tiers, state, .. } = self;
        let fit = state.placement.fit(cluster, tiers, tiers.scoped_class(cluster, task), node)?;
        let bucket = state.placement.bucket(node);
        (!tried.iter().any(|other| state.placement.bucket(*other) == bucket)).then_some(fit)
    }

    /// Whether a task may have the place that it has, with all that is in place besides.
    pub(crate) fn may_keep(&mut self, task: TaskId) -> bool {
        let Some(node) = self.cluster.tasks[task].node else { return false };
        let before = self.simulate_place(task, Status::Pending, None);
        let may = self.allocatable(task).is_ok() && self.fits(task, node);
        self.undo_simulation(task, &before);
        may
    }

    /// Why a task fits on no node.
    pub fn no_node(&mut self, task: TaskId) -> Refusal {
        let within = self.nodes_for(task);
        let Self { cluster, tiers, state, chosen_domain, .. } = self;
        let it = &cluster.tasks[task];
        let scoped = tiers.scoped_class(cluster, task);
        let mut error = state.placement.explain(cluster, tiers, scoped, within.as_deref());
        let chosen = chosen_domain.as_ref().filter(|chosen| Some(chosen.job) == it.job);
        error.inside = chosen.and_then(|chosen| chosen.domain.name(cluster));
        Refusal::Nodes { task: it.pod.name.clone(), error }
    }

    /// Adds a refusal of a job.
    pub fn refuse(&mut self, job: JobId, refusal: Refusal) {
        self.state.backlog.activate(job);
        self.state.backlog.refusals.add(job, refusal);
    }
}

/// Whether a node is among these; `None` is all nodes.
pub(crate) fn is_within(nodes: Option<&NodeSet>, node: NodeId) -> bool {
    nodes.is_none_or(|nodes| nodes.binary_search(&node).is_ok())
}
