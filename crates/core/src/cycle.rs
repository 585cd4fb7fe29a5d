//! The cycle, and the scheduler, which holds what a cycle takes and leaves.
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::actions;
use crate::backlog::{self, Activation, Pending, Refusals, RetryLimits, TimerKind};
use crate::decision::Decision;
use crate::other_refusals;
use crate::reservation;
use crate::session::Session;
use crate::state::SchedulerState;
use crate::status;
use phalanx_cluster::Cluster;
use phalanx_cluster::event::Time;
use phalanx_cluster::id::JobId;
use phalanx_cluster::search_budget::Stopwatch;
use phalanx_framework::conf::Conf;
use phalanx_framework::extender::{Extender, NoExtender};
use phalanx_framework::placement::Sampling;
use phalanx_framework::plugin::SessionInputs;
use phalanx_framework::trace::{Stage, Trace};

/// Jobs for whose searches a cycle had no time get theirs after so long, even if nothing happens.
const NO_TURN_MS: i64 = 500;

/// What a cycle came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Decisions, in order.
    pub decisions: Vec<Decision>,
    /// The number of the cycle, from 1.
    pub cycle: u64,
    /// When a cycle may decide something new though nothing happens.
    pub wake: Option<Time>,
    /// When a cycle tries unschedulable jobs again whatever happened.
    pub flush: Option<Time>,
    /// When nodes that are kept for a repair are released, or may be kept again, if nothing happens before.
    pub repair: Option<Time>,
    /// How often each action searched for victims.
    pub victim_searches: BTreeMap<&'static str, u64>,
}

/// A configuration, and the state from cycle to cycle.
pub struct Scheduler {
    conf: Conf,
    state: SchedulerState,
    extender: Arc<dyn Extender>,
    stopwatch: Option<Arc<dyn Stopwatch>>,
    trace: Option<Arc<dyn Trace>>,
    limits: RetryLimits,
}

/// What a cycle is run with, besides the Cluster and the state.
#[derive(Clone, Copy)]
pub struct CycleOptions<'a> {
    /// The configuration in force.
    pub conf: &'a Conf,
    /// How often waiting jobs are tried.
    pub limits: RetryLimits,
    /// Calls extenders.
    pub extender: &'a Arc<dyn Extender>,
    /// Limits searches in time; without it only steps limit them.
    pub stopwatch: Option<&'a Arc<dyn Stopwatch>>,
    /// Told of the stages of the cycle.
    pub trace: Option<&'a Arc<dyn Trace>>,
    /// When the cycle begins.
    pub now: Time,
}

impl Scheduler {
    /// A scheduler; the seed decides among nodes of equal score.
    pub fn new(conf: Conf, seed: u64) -> Self {
        Self {
            conf,
            state: SchedulerState::new(seed),
            extender: Arc::new(NoExtender),
            stopwatch: None,
            trace: None,
            limits: RetryLimits::default(),
        }
    }

    /// Sets what calls extenders. Before, no extender has an opinion.
    pub fn set_extender(&mut self, extender: Arc<dyn Extender>) {
        self.extender = extender;
    }

    /// Limits searches in time. Without a stopwatch, as at first, only steps limit them, so that cycles are
    /// deterministic.
    pub fn set_stopwatch(&mut self, stopwatch: Arc<dyn Stopwatch>) {
        self.stopwatch = Some(stopwatch);
    }

    /// Sets what is told of the stages of cycles. Nobody is at first.
    pub fn set_trace(&mut self, trace: Arc<dyn Trace>) {
        self.trace = Some(trace);
    }

    /// Has only a sample of the nodes scored, or all of them, as at first.
    pub fn set_sampling(&mut self, sampling: Option<Sampling>) {
        self.state.placement.set_sampling(sampling);
    }

    /// Sets how often waiting jobs are tried.
    pub fn set_retry_limits(&mut self, limits: RetryLimits) {
        self.limits = limits;
    }

    /// The configuration in force.
    pub fn conf(&self) -> &Conf {
        &self.conf
    }

    /// What the last cycle left.
    pub(crate) fn state(&self) -> &SchedulerState {
        &self.state
    }

    /// Why jobs wait.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.state.backlog.refusals
    }

    /// When the last cycle began.
    pub(crate) fn now(&self) -> Time {
        self.state.began.unwrap_or_default()
    }

    /// Active jobs, by id: the next cycle tries them in any case.
    pub fn active_jobs(&mut self, cluster: &mut Cluster) -> Vec<JobId> {
        self.state.backlog.follow(cluster);
        self.state.backlog.active_jobs()
    }

    /// How many jobs wait, by pool.
    pub fn pending(&mut self, cluster: &mut Cluster) -> Pending {
        self.state.backlog.follow(cluster);
        self.state.backlog.pending(cluster)
    }

    /// How many jobs became active since the last call, by the reason.
    pub fn take_activations(&mut self) -> BTreeMap<Activation, u64> {
        self.state.backlog.take_activations()
    }

    /// What is wrong with the indexes of the Cluster and with the backlog, one line each; empty when all is well. Costs
    /// a pass over all objects.
    pub fn check(&self, cluster: &Cluster) -> Vec<String> {
        let mut problems = cluster.check();
        self.state.backlog.check(cluster, &mut |right, what| problems.extend((!right).then_some(what)));
        problems
    }

    /// Sets the configuration, from the next cycle on.
    pub fn set_conf(&mut self, conf: Conf) {
        self.conf = conf;
        self.state.forget();
    }

    /// Runs one cycle. The Cluster then holds what was decided.
    pub fn run(&mut self, cluster: &mut Cluster, now: Time) -> Outcome {
        let mut decisions = Vec::new();
        let mut outcome = self.run_handing_out(cluster, now, &mut |some| decisions.extend(some));
        decisions.append(&mut outcome.decisions);
        Outcome { decisions, ..outcome }
    }

    /// Runs one cycle, and hands out the decisions of each action once it is over, so that binds do not wait for
    /// evictions. No later decision reverses a bind or an eviction. The outcome has the remaining decisions: statuses.
    pub fn run_handing_out(
        &mut self,
        cluster: &mut Cluster,
        now: Time,
        hand_out: &mut dyn FnMut(Vec<Decision>),
    ) -> Outcome {
        let Self { conf, state, extender, stopwatch, trace, limits } = self;
        let (stopwatch, trace) = (stopwatch.as_ref(), trace.as_ref());
        let options = CycleOptions { conf, limits: *limits, extender, stopwatch, trace, now };
        cycle(cluster, state, options, hand_out)
    }
}

/// Runs one cycle. Equal arguments give equal outcomes, and leave equal clusters and states. The decisions of each
/// action are handed out once it is over.
pub fn cycle(
    cluster: &mut Cluster,
    state: &mut SchedulerState,
    options: CycleOptions<'_>,
    hand_out: &mut dyn FnMut(Vec<Decision>),
) -> Outcome {
    let CycleOptions { conf, limits, extender, stopwatch, trace, now } = options;
    let ended = |stage| trace.into_iter().for_each(|trace| trace.ended(stage));
    let hyper_node_faults = cluster.follow_hyper_nodes();
    let before = begin(cluster, state, now);
    ended(Stage::Begun);
    let outside = SessionInputs { now, before, extender: Some(extender), stopwatch, trace };
    let mut session = Session::open(cluster, conf, state, outside);
    session.decisions.extend(hyper_node_faults.into_iter().map(Decision::from));
    // Nominations that another scheduler process decided. Whether they still hold is decided when the job is served.
    for (task, node) in session.cluster.take_nominated() {
        reservation::nominate_again(&mut session, task, node);
    }
    reservation::begin(&mut session);
    backlog::begin(&mut session, limits);
    ended(Stage::SessionOpened);
    for name in &session.conf.actions {
        if let Some(action) = actions::find(name) {
            (action.run)(&mut session);
            if !session.decisions.is_empty() {
                hand_out(std::mem::take(&mut session.decisions));
            }
            ended(Stage::Action(action.name));
        }
    }
    other_refusals::note(&mut session);
    let cycle = session.state.cycle;
    status::update_all(&mut session, cycle);
    backlog::end_cycle(&mut session, limits);
    ended(Stage::Statuses);
    session.tiers.close(session.cluster, trace);
    Outcome {
        cycle,
        wake: wake(&session),
        flush: flush(&session, limits),
        repair: session.state.reservations.repair_wake(now),
        victim_searches: session.victim_searches,
        decisions: session.decisions,
    }
}

/// Brings the Cluster to the time of the cycle. Returns when the previous cycle began.
fn begin(cluster: &mut Cluster, state: &mut SchedulerState, now: Time) -> Option<Time> {
    state.cycle += 1;
    state.placement.begin_cycle(cluster);
    cluster.expire_usage(now);
    cluster.refresh_devices();
    cluster.refresh_inqueue();
    if !std::mem::replace(&mut state.conf_is_known, true) {
        cluster.all_jobs_changed();
    }
    state.began.replace(now)
}

/// When a cycle may decide something new though nothing happens.
fn wake(session: &Session<'_>) -> Option<Time> {
    let Session { cluster, now, .. } = session;
    let SchedulerState { backlog, reservations, .. } = &*session.state;
    // At once for jobs that were refused before capacity was freed in this cycle, or admitted too late for it; later
    // for jobs for whose search there was no time.
    let again = (backlog.unschedulable() > 0 && backlog.was_freed() || session.changed_late).then_some(*now);
    let again = again.or(session.cut_short.then_some(Time(now.0.saturating_add(NO_TURN_MS))));
    let wakes = session.tiers.every().filter_map(|plugin| plugin.wake(cluster));
    wakes
        .chain(cluster.usage_ends())
        .chain(cluster.refusals_end(*now))
        .chain(backlog.next_retry())
        .chain(reservations.wake(*now))
        .chain(again)
        .min()
}

/// When a cycle tries unschedulable jobs again whatever happened.
fn flush(session: &Session<'_>, limits: RetryLimits) -> Option<Time> {
    let active =
        session.state.backlog.any_active().then_some(Time(session.now.0.saturating_add(limits.flush_ms)));
    session.state.backlog.timers.next(TimerKind::Flush).into_iter().chain(active).min()
}
