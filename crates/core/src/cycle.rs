//! The cycle, and the scheduler, which holds what a cycle takes and leaves.
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::actions;
use crate::backlog::{self, Patience, Pending, Refusals};
use crate::decision::Decision;
use crate::session::Session;
use crate::state::SchedulerState;
use crate::status;
use crate::unserved;
use phalanx_cluster::budget::Stopwatch;
use phalanx_cluster::event::Time;
use phalanx_cluster::id::JobId;
use phalanx_cluster::{Cluster, Status};
use phalanx_framework::conf::Conf;
use phalanx_framework::extender::{Extender, NoExtender};
use phalanx_framework::placement::Sampling;
use phalanx_framework::plugin::SessionInputs;

/// After so many milliseconds a cycle goes on with searches that were cut short, even if nothing happens.
const CUT_SHORT: i64 = 5_000;

/// So many milliseconds a reservation lasts at most.
const RESERVATION_MS: i64 = 600_000;

/// What a cycle came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// What is to be done outside, in order.
    pub decisions: Vec<Decision>,
    /// The number of the cycle, from 1.
    pub cycle: u64,
    /// When a cycle could decide something new though nothing has happened.
    pub wake: Option<Time>,
    /// When a cycle looks at jobs again that wait for something that has not happened: to be on the safe side.
    pub flush: Option<Time>,
    /// When room that is gathered for a gang is let go, or gathered again, if nothing happens before.
    pub turns: Option<Time>,
}

/// Schedules a Cluster by a configuration, and holds the state from cycle to cycle.
pub struct Scheduler {
    conf: Conf,
    state: SchedulerState,
    extender: Arc<dyn Extender>,
    stopwatch: Option<Arc<dyn Stopwatch>>,
    patience: Patience,
}

/// What a cycle is run with, besides the Cluster and the state.
#[derive(Clone, Copy)]
pub struct CycleOptions<'a> {
    /// The configuration in force.
    pub conf: &'a Conf,
    /// How often jobs that wait are looked at.
    pub patience: Patience,
    /// Asks extenders.
    pub extender: &'a Arc<dyn Extender>,
    /// Ends searches after some time; without it they end after so many steps only.
    pub stopwatch: Option<&'a Arc<dyn Stopwatch>>,
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
            patience: Patience::default(),
        }
    }

    /// Asks extenders with this from now on; before, with nothing that has an opinion.
    pub fn set_extender(&mut self, extender: Arc<dyn Extender>) {
        self.extender = extender;
    }

    /// Searches for victims, and for the places of gangs of unlike members, end after some time by this. Without it, as
    /// at first, they end after so many steps only, always at the same point.
    pub fn set_stopwatch(&mut self, stopwatch: Arc<dyn Stopwatch>) {
        self.stopwatch = Some(stopwatch);
    }

    /// Compares only some of the nodes from now on, or all of them, as it is at first.
    pub fn set_sampling(&mut self, sampling: Option<Sampling>) {
        self.state.placement.set_sampling(sampling);
    }

    /// Looks at jobs that wait as often as this says.
    pub fn set_patience(&mut self, patience: Patience) {
        self.patience = patience;
    }

    /// The configuration in force.
    pub fn conf(&self) -> &Conf {
        &self.conf
    }

    /// Why jobs wait.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.state.backlog.refusals
    }

    /// When the last cycle began.
    pub(crate) fn now(&self) -> Time {
        self.state.began.unwrap_or_default()
    }

    /// Jobs that the next cycle looks at in any case, by id.
    pub fn active_jobs(&mut self, cluster: &mut Cluster) -> Vec<JobId> {
        self.state.backlog.follow(cluster);
        self.state.backlog.active_jobs(cluster)
    }

    /// How many jobs wait, by pool.
    pub fn pending(&mut self, cluster: &mut Cluster) -> Pending {
        self.state.backlog.follow(cluster);
        self.state.backlog.pending(cluster)
    }

    /// What is wrong with the sums of the Cluster and with the backlog, one line each; empty when all is well. Costs a pass over
    /// all objects.
    pub fn check(&self, cluster: &Cluster) -> Vec<String> {
        let mut problems = cluster.check();
        self.state.backlog.check(cluster, &mut |right, what| problems.extend((!right).then_some(what)));
        problems
    }

    /// Takes another configuration into force with the next cycle.
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

    /// The same, with what an action decided handed out as soon as it is over: binds of `allocate` need not wait for who
    /// is to be evicted. No later decision takes a bind or an eviction back. The outcome has what is left: statuses.
    pub fn run_handing_out(
        &mut self,
        cluster: &mut Cluster,
        now: Time,
        hand_out: &mut dyn FnMut(Vec<Decision>),
    ) -> Outcome {
        let Self { conf, state, extender, stopwatch, patience } = self;
        let stopwatch = stopwatch.as_ref();
        let options = CycleOptions { conf, patience: *patience, extender, stopwatch, now };
        cycle(cluster, state, options, hand_out)
    }
}

/// Runs one cycle: equal arguments give equal outcomes, and leave equal clusters and states. What an action decided is handed
/// out as soon as the action is over.
pub fn cycle(
    cluster: &mut Cluster,
    state: &mut SchedulerState,
    options: CycleOptions<'_>,
    hand_out: &mut dyn FnMut(Vec<Decision>),
) -> Outcome {
    let CycleOptions { conf, patience, extender, stopwatch, now } = options;
    let before = begin(cluster, state, now);
    let SchedulerState { backlog, past, failed_searches, placement, cycle, .. } = state;
    let outside = SessionInputs { now, before, extender: Some(extender), stopwatch };
    let mut session = Session::open(cluster, conf, placement, outside);
    session.past = std::mem::take(past);
    session.failed_searches = std::mem::take(failed_searches);
    session.backlog = std::mem::take(backlog);
    give_up_seats(&mut session);
    renew_nominations(&mut session);
    note_reserved(&mut session);
    backlog::begin(&mut session, patience);
    run_actions(&mut session, hand_out);
    unserved::note(&mut session);
    status::close(&mut session, *cycle);
    backlog::settle(&mut session, patience);
    session.tiers.every().for_each(|plugin| plugin.close(session.cluster));
    let outcome = Outcome {
        cycle: *cycle,
        wake: wake(&session),
        flush: flush(&session, patience),
        turns: actions::gather::turns(session.cluster, &session.backlog.active_jobs(session.cluster), now),
        decisions: std::mem::take(&mut session.decisions),
    };
    *past = session.past;
    *failed_searches = session.failed_searches;
    *backlog = session.backlog;
    outcome
}

/// Brings the Cluster up to the time of the cycle. Returns when the cycle before began.
fn begin(cluster: &mut Cluster, state: &mut SchedulerState, now: Time) -> Option<Time> {
    state.cycle += 1;
    state.placement.begin_cycle(cluster);
    cluster.expire_usage(now);
    cluster.refresh_devices();
    cluster.refresh_inqueue();
    cluster.tend_seats(now);
    if std::mem::take(&mut state.conf_is_new) {
        cluster.all_jobs_changed();
        cluster.note_news();
    }
    state.began.replace(now)
}

fn run_actions(session: &mut Session<'_>, hand_out: &mut dyn FnMut(Vec<Decision>)) {
    for name in &session.conf.actions {
        if let Some(action) = actions::find(name) {
            (action.run)(session);
            if !session.decisions.is_empty() {
                hand_out(std::mem::take(&mut session.decisions));
            }
        }
    }
}

/// When a cycle could decide something new though nothing has happened.
fn wake(session: &Session<'_>) -> Option<Time> {
    let Session { cluster, backlog, now, .. } = session;
    // For jobs that were refused before capacity was given back in this cycle, or admitted too late for it, and for those whose
    // search was cut short.
    let again = (backlog.unschedulable() > 0 && backlog.was_freed() || session.admitted_late).then_some(*now);
    let again = again.or(session.cut_short.then_some(Time(now.0.saturating_add(CUT_SHORT))));
    let wakes = session.tiers.every().filter_map(|plugin| plugin.wake(cluster));
    wakes
        .chain(cluster.usage_ends())
        .chain(cluster.refusals_end(*now))
        .chain(backlog.next_retry())
        .chain(session.rests_until)
        .chain(session.reserved.iter().filter_map(|job| reservation_ends(cluster, *job)))
        .chain(cluster.seats_end())
        .chain(again)
        .min()
}

/// When a cycle looks at jobs again though nothing has happened that may help them.
fn flush(session: &Session<'_>, patience: Patience) -> Option<Time> {
    let active = session.backlog.any_active().then_some(Time(session.now.0.saturating_add(patience.flush)));
    session.backlog.next_flush().into_iter().chain(active).min()
}

/// What another process has promised is kept for those it was promised to, as in all cycles after. Whether they may
/// still have it is asked when it is their turn.
fn renew_nominations(session: &mut Session<'_>) {
    for (task, node) in session.cluster.take_promised() {
        if session.takes(task, node) {
            let mut statement = session.statement();
            statement.pipeline(task, node);
            statement.commit(&Arc::default());
        }
    }
}

/// Which jobs have reservations, and since when. Reservations end after ten minutes and are planned anew: one that rests on
/// pod affinity or spread may wait for pods that will not come.
fn note_reserved(session: &mut Session<'_>) {
    let (mut reserved, mut changed) = (BTreeSet::new(), Vec::new());
    for id in session.waiting_jobs() {
        let job = &session.cluster.jobs[id];
        let promised = job.counts.of(Status::Pipelined) > 0;
        reserved.extend(promised.then_some(id));
        changed.extend((promised != job.promised.is_some()).then_some((id, promised)));
    }
    for (id, promised) in changed {
        session.cluster.jobs[id].promised = promised.then_some(session.now);
    }
    for id in &reserved {
        if reservation_ends(session.cluster, *id).is_some_and(|end| end <= session.now) {
            actions::release(session, *id);
            session.cluster.jobs[*id].promised = None;
        }
    }
    session.reserved = reserved;
}

/// When the reservation of a job ends, if it has one. Room that is gathered for a repair has its own time.
fn reservation_ends(cluster: &Cluster, job: JobId) -> Option<Time> {
    let since = cluster.jobs[job].promised.filter(|_| !actions::gather::is_gathering(cluster, job))?;
    Some(Time(since.0.saturating_add(RESERVATION_MS)))
}

/// Places that are kept where the pod they are kept for could not go any more are given back.
fn give_up_seats(session: &mut Session<'_>) {
    for seat in session.cluster.seats().collect::<Vec<_>>() {
        let node = session.cluster.tasks[seat].node;
        let before = session.suppose(seat, Status::Pending, None);
        if node.is_some_and(|node| session.takes(seat, node)) {
            session.put_back(seat, &before);
        } else {
            session.cluster.end_seat(seat);
        }
    }
}
