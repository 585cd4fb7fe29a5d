//! The pools of the backlog, by job.
//!
//! A job for which nothing is to be decided is in no pool: its status is written, and a cycle would change nothing
//! until the job changes. A job with a refusal that stands is *unschedulable*, in an equivalence class (`equivalence`),
//! until something happens that may lift the refusal. A job whose try failed while many others wait is in
//! *backoff*. All other jobs are *active*.
use std::collections::BTreeMap;

use super::equivalence::{JobClassId, JobClasses};
use super::members::Member;
use super::refusals::Refusals;
use super::timers::{TimerKind, Timers};
use crate::backoff::{Backoff, BackoffTimes};
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::{Phase, Time};
use phalanx_cluster::id::{AnyClaimId, Id, JobId, QueueId};
use phalanx_cluster::{Cluster, Job, JobChange};
use rustc_hash::FxHashMap;

/// The pool of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pool {
    #[default]
    None,
    Active,
    Unschedulable(JobClassId),
    Backoff,
}

/// One job in the backlog.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JobRow {
    pub(super) pool: Pool,
    /// Tells the job's entry in a class from its stale entries.
    serial: u32,
    /// The class that the job was tried for as its first job, until the next job of the class is tried.
    pub(super) first_of: Option<JobClassId>,
    /// Failed tries while many others wait.
    backoff: Backoff,
    /// A search for its places was left to the next cycle, in which the job goes first.
    placing_deferred: bool,
    /// A search for its victims was left to the next cycle, in which the job goes first.
    eviction_deferred: bool,
}

/// All jobs by pool, and what moves them back to the active pool.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// By job id.
    rows: Vec<JobRow>,
    /// The jobs that the Cluster had at the start were taken in.
    follows: bool,
    /// Active jobs. Stale entries, of jobs in another pool, are skipped.
    active: Vec<JobId>,
    pub(super) classes: JobClasses,
    /// Why jobs wait.
    pub(crate) refusals: Refusals,
    pub(crate) timers: Timers,
    /// The back-offs of jobs whose binds the API server refused: it will most often refuse again.
    pub(super) refused_binds: BTreeMap<JobId, Backoff>,
    /// Unschedulable jobs by the claims that only they use.
    watchers: FxHashMap<AnyClaimId, Member>,
    serial: u32,
    /// Queues that were added, changed or removed since the last cycle.
    pub(super) changed_queues: Vec<QueueId>,
    /// How long back-offs last.
    pub(super) backoff_times: BackoffTimes,
    /// How many jobs became active, until somebody takes the counts.
    activations: BTreeMap<Activation, u64>,
}

/// Why jobs became active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activation {
    /// The job is new, or changed.
    Changed,
    /// Its queue changed.
    Queue,
    /// It leads its equivalence class: room was freed, the job before it was served, or its turn came.
    Class,
    /// Its back-off ended.
    Backoff,
    /// The refusal may have ended by itself.
    Expired,
    /// It was unschedulable for as long as a job is at most.
    Flush,
}

/// How many jobs wait, by pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// New or changed jobs, jobs that wait for terminating pods, and jobs whose search was cut short.
    pub active: usize,
    /// Jobs that are not tried for some seconds: a try failed while many others wait, or binds were refused.
    pub backoff: usize,
    /// Jobs refused until an event lifts the refusal. A few of them are tried in each cycle all the same.
    pub unschedulable: usize,
}

impl Backlog {
    /// Takes in what changed in the Cluster since the last call: jobs that changed become active.
    pub(crate) fn follow(&mut self, cluster: &mut Cluster) {
        if !std::mem::replace(&mut self.follows, true) {
            let changes = cluster.take_changes();
            changes.gone.into_iter().for_each(|id| self.refusals.clear(id));
            self.changed_queues.extend(changes.queues);
            for id in cluster.jobs.ids() {
                self.count_change(id);
                self.make_active(id);
            }
            return;
        }
        if !cluster.has_changes() {
            return;
        }
        let changes = cluster.take_changes();
        for id in changes.gone {
            self.leave_class(id);
            self.refusals.clear(id);
            self.clear_timers(id);
            self.refused_binds.remove(&id);
            if let Some(row) = self.rows.get_mut(id.index()) {
                *row = JobRow::default();
            }
        }
        if changes.order {
            self.classes.unrank_all();
        }
        self.rows.resize(cluster.jobs.bound().max(self.rows.len()), JobRow::default());
        for (id, change) in changes.jobs {
            let sleeps = change == JobChange::Minor && self.row(id).pool == Pool::None;
            if cluster.jobs.get(id).is_some() && !sleeps {
                self.count_change(id);
                self.activate(id);
            }
        }
        self.changed_queues.extend(changes.queues);
        self.classes.capacities.freed_in_cycle.extend(changes.freed);
        for claim in changes.claims {
            self.activate_watcher(claim);
        }
    }

    /// Makes all jobs active.
    pub(crate) fn reset(&mut self) {
        use TimerKind::{ClassBackoff, Flush, Retry, Scan};
        for kind in [ClassBackoff, Flush, Retry, Scan] {
            self.timers.clear_all(kind);
        }
        *self = Self {
            refusals: std::mem::take(&mut self.refusals),
            timers: std::mem::take(&mut self.timers),
            refused_binds: std::mem::take(&mut self.refused_binds),
            activations: std::mem::take(&mut self.activations),
            ..Self::default()
        };
    }

    /// Has a job activated when one of the claims changes that only it uses.
    pub(super) fn watch_claims(&mut self, cluster: &Cluster, member: Member) {
        self.watchers.extend(cluster.own_claims(member.job).map(|claim| (claim, member)));
    }

    /// Activates the unschedulable job that alone uses a claim which changed.
    fn activate_watcher(&mut self, claim: AnyClaimId) {
        let Some(member) = self.watchers.remove(&claim) else { return };
        if let Pool::Unschedulable(class) = self.row(member.job).pool
            && self.is_entry(class, member)
        {
            self.count_change(member.job);
            self.activate(member.job);
        }
    }

    pub(super) fn row(&self, id: JobId) -> JobRow {
        self.rows.get(id.index()).copied().unwrap_or_default()
    }

    pub(super) fn row_mut(&mut self, id: JobId) -> &mut JobRow {
        if self.rows.len() <= id.index() {
            self.rows.resize(id.index() + 1, JobRow::default());
        }
        &mut self.rows[id.index()]
    }

    /// Activates a job that changed, and ends its back-off.
    pub(crate) fn activate(&mut self, id: JobId) {
        if self.row(id).pool != Pool::Active {
            self.make_active(id);
            self.row_mut(id).backoff = Backoff::default();
        }
    }

    fn leave_class(&mut self, id: JobId) {
        if let Pool::Unschedulable(class) = self.row(id).pool {
            self.classes.leave(class);
            self.timers.clear(TimerKind::Flush, id);
        }
    }

    fn clear_timers(&mut self, id: JobId) {
        for kind in [TimerKind::JobBackoff, TimerKind::Retry, TimerKind::Flush] {
            self.timers.clear(kind, id);
        }
    }

    fn make_active(&mut self, id: JobId) {
        self.leave_class(id);
        let row = self.row_mut(id);
        (row.pool, row.first_of) = (Pool::Active, None);
        self.active.push(id);
    }

    /// Active jobs, by id, of the Cluster as it was followed last.
    pub(crate) fn active_jobs(&self) -> Vec<JobId> {
        let mut jobs = self.active.clone();
        jobs.retain(|id| self.row(*id).pool == Pool::Active);
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// Activates a job that did not change, since its refusal may be lifted.
    pub(super) fn retry(&mut self, id: JobId, why: Activation) {
        *self.activations.entry(why).or_default() += 1;
        self.make_active(id);
    }

    fn count_change(&mut self, id: JobId) {
        if self.row(id).pool != Pool::Active {
            *self.activations.entry(Activation::Changed).or_default() += 1;
        }
    }

    /// How many jobs became active since the last call, by the reason.
    pub(crate) fn take_activations(&mut self) -> BTreeMap<Activation, u64> {
        std::mem::take(&mut self.activations)
    }

    /// Takes the class that a job was tried for.
    pub(super) fn take_first_of(&mut self, id: JobId) -> Option<JobClassId> {
        self.row_mut(id).first_of.take()
    }

    /// Whether a job is tried as the first job of a class.
    pub(crate) fn is_first_of_class(&self, id: JobId) -> bool {
        self.row(id).first_of.is_some()
    }

    /// Whether a job's entry in a class is current.
    pub(super) fn is_entry(&self, class: JobClassId, entry: Member) -> bool {
        let row = self.row(entry.job);
        row.pool == Pool::Unschedulable(class) && row.serial == entry.serial
    }

    /// Takes a job out of all pools until it changes.
    pub(super) fn leave_pools(&mut self, id: JobId) {
        self.row_mut(id).pool = Pool::None;
        self.timers.clear(TimerKind::JobBackoff, id);
        self.timers.clear(TimerKind::Retry, id);
    }

    /// Makes a job unschedulable, in a class. The job is tried at `flush` whatever happened. Returns its entry in the
    /// class.
    pub(super) fn add_unschedulable(&mut self, job: JobId, class: JobClassId, flush: Time) -> Member {
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        let row = self.row_mut(job);
        (row.pool, row.serial, row.first_of) = (Pool::Unschedulable(class), serial, None);
        self.timers.set(TimerKind::Flush, job, flush);
        self.classes.join(class);
        Member { job, serial }
    }

    /// Sets the time at which a job is tried at the latest.
    pub(crate) fn retry_at(&mut self, id: JobId, time: Time) {
        self.timers.set_earlier(TimerKind::Retry, id, time);
    }

    /// Puts a job into backoff after a failed try.
    pub(super) fn back_off(&mut self, id: JobId, now: Time) {
        let times = self.backoff_times;
        let row = self.row_mut(id);
        row.backoff.extend(now, times);
        let until = row.backoff.until;
        self.rest(id, until);
    }

    /// Puts a job into backoff.
    pub(super) fn rest(&mut self, id: JobId, until: Time) {
        if let Some(class) = self.take_first_of(id) {
            self.try_each_cycle(class);
        }
        self.row_mut(id).pool = Pool::Backoff;
        self.timers.set(TimerKind::JobBackoff, id, until);
    }

    /// Begins the back-offs of jobs with binds refused since the last cycle.
    pub(super) fn take_refused_binds(&mut self, cluster: &mut Cluster, now: Time) {
        let is_refused = |id| cluster.jobs.get(id).is_some_and(|job| job.denied.is_some());
        self.refused_binds.retain(|id, _| is_refused(*id));
        for id in cluster.take_denied() {
            let backoff = self.refused_binds.entry(id).or_default();
            // Several pods of one attempt are refused one after the other.
            if backoff.until <= now {
                backoff.extend(now, self.backoff_times);
            } else {
                backoff.restart(now, self.backoff_times);
            }
            self.timers.set(TimerKind::JobBackoff, id, backoff.until);
        }
    }

    /// The end of the back-off after refused binds of a job, if it is in one.
    pub(super) fn refused_until(&self, cluster: &Cluster, id: JobId, now: Time) -> Option<Time> {
        cluster.jobs[id].denied.as_ref()?;
        self.refused_binds.get(&id)?.end(now)
    }

    /// Why a job is in back-off after refused binds, if it is.
    pub(crate) fn bind_refusal(&self, cluster: &Cluster, id: JobId, now: Time) -> Option<Refusal> {
        self.refused_until(cluster, id, now)?;
        cluster.jobs[id].denied.clone()
    }

    /// Puts a class that is tried in each cycle into backoff.
    pub(super) fn back_off_class(&mut self, class: JobClassId, until: Time) {
        self.classes.tried_each_cycle.remove(&class);
        self.timers.set(TimerKind::ClassBackoff, class, until);
    }

    /// Activates jobs whose time has come, at most `flushed` of those that are tried whatever happened. Returns the
    /// classes whose back-off is over.
    pub(super) fn retry_due(&mut self, now: Time, flushed: usize) -> Vec<JobClassId> {
        while let Some(id) = self.timers.take_due(TimerKind::JobBackoff, now) {
            if self.row(id).pool == Pool::Backoff {
                self.retry(id, Activation::Backoff);
            }
        }
        while let Some(id) = self.timers.take_due(TimerKind::Retry, now) {
            self.retry_if_unschedulable(id, Activation::Expired);
        }
        for _ in 0..flushed {
            let Some(id) = self.timers.take_due(TimerKind::Flush, now) else { break };
            self.retry_if_unschedulable(id, Activation::Flush);
        }
        self.timers.clear_all(TimerKind::Scan);
        std::iter::from_fn(|| self.timers.take_due(TimerKind::ClassBackoff, now)).collect()
    }

    fn retry_if_unschedulable(&mut self, id: JobId, why: Activation) {
        if matches!(self.row(id).pool, Pool::Unschedulable(_)) {
            self.retry(id, why);
        }
    }

    /// When the next job is to be tried though nothing happens.
    pub(crate) fn next_retry(&self) -> Option<Time> {
        use TimerKind::{ClassBackoff, JobBackoff, Retry, Scan};
        [JobBackoff, ClassBackoff, Retry, Scan].into_iter().filter_map(|kind| self.timers.next(kind)).min()
    }

    /// Whether any job is active after a cycle.
    pub(crate) fn any_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// Drops jobs from the list of active jobs that are in another pool by now.
    pub(super) fn tidy_active(&mut self) {
        let jobs = self.active_jobs();
        for id in &jobs {
            if let Some(class) = self.take_first_of(*id) {
                self.try_each_cycle(class);
            }
        }
        self.active = jobs;
    }

    /// Whether nothing is to be decided for a job until it changes.
    pub(super) fn has_nothing_pending(&self, id: JobId, job: &Job) -> bool {
        let to_admit = job.phase == Phase::Pending && job.object.exists;
        job.waiting() == 0 && !to_admit && !self.is_deferred(id) && self.refusals.of(id).is_empty()
    }

    /// Whether a search for a job was left to the next cycle.
    pub(crate) fn is_deferred(&self, id: JobId) -> bool {
        let row = self.row(id);
        row.placing_deferred || row.eviction_deferred
    }

    /// Whether a search for the places of a job was left to the next cycle.
    pub(crate) fn is_placing_deferred(&self, id: JobId) -> bool {
        self.row(id).placing_deferred
    }

    /// A job whose search for places was left to the next cycle has its turn. Returns whether the job is one of these.
    pub(crate) fn take_deferred(&mut self, id: JobId) -> bool {
        self.row(id).placing_deferred && std::mem::take(&mut self.row_mut(id).placing_deferred)
    }

    /// Whether the next cycle is to search for the places of a job first.
    pub(crate) fn defer_placing(&mut self, id: JobId, deferred: bool) {
        self.row_mut(id).placing_deferred = deferred;
    }

    /// Whether a search for the victims of a job was left to the next cycle.
    pub(crate) fn is_eviction_deferred(&self, id: JobId) -> bool {
        self.row(id).eviction_deferred
    }

    /// Whether the next cycle is to search for the victims of a job first.
    pub(crate) fn defer_eviction(&mut self, id: JobId, deferred: bool) {
        if self.row(id).eviction_deferred != deferred {
            self.row_mut(id).eviction_deferred = deferred;
        }
    }

    /// The ends of the back-offs of jobs.
    pub(crate) fn backoffs(&self, cluster: &Cluster, now: Time) -> BTreeMap<JobId, Time> {
        let rests = |(_, id): &(Time, JobId)| self.row(*id).pool == Pool::Backoff;
        let resting = self.timers.of(TimerKind::JobBackoff).filter(rests).map(|(until, id)| (id, until));
        let refused = |(id, backoff): (&JobId, &Backoff)| Some((*id, backoff.end(now)?));
        let exists = |(id, _): &(JobId, Time)| cluster.jobs.get(*id).is_some();
        resting.chain(self.refused_binds.iter().filter_map(refused)).filter(exists).collect()
    }

    /// How many jobs are unschedulable.
    pub(crate) fn unschedulable(&self) -> usize {
        self.classes.unschedulable
    }

    /// How many jobs wait, by pool.
    pub(crate) fn pending(&self, cluster: &Cluster) -> Pending {
        let in_backoff = |(_, id): &(Time, JobId)| self.row(*id).pool == Pool::Backoff;
        let mut pending = Pending {
            unschedulable: self.unschedulable(),
            backoff: self.timers.of(TimerKind::JobBackoff).filter(in_backoff).count(),
            ..Pending::default()
        };
        for id in self.active_jobs() {
            let Some(job) = cluster.jobs.get(id) else { continue };
            let waits = job.waiting() > 0 || (job.phase == Phase::Pending && job.object.exists);
            let refusals = self.refusals.of(id);
            let refused = !refusals.is_empty() && (!job.has_places() || job.grows()) && !self.is_deferred(id);
            match (waits, refused) {
                (false, _) => {}
                _ if refusals.iter().any(|it| matches!(it, Refusal::BindDenied { .. })) => {
                    pending.backoff += 1;
                }
                (true, true) => pending.unschedulable += 1,
                (true, false) => pending.active += 1,
            }
        }
        pending
    }

    /// Compares the pools with the jobs of the Cluster. Notes nothing while changes were not taken in.
    pub(crate) fn check(&self, cluster: &Cluster, note: &mut impl FnMut(bool, String)) {
        if !self.follows || cluster.has_changes() {
            return;
        }
        self.timers.check(note);
        for (id, job) in cluster.jobs.iter() {
            let row = self.row(id);
            let overslept = row.pool == Pool::None && !self.has_nothing_pending(id, job);
            note(!overslept, format!("job {} waits and is not looked at", job.key));
            let is_unschedulable = matches!(row.pool, Pool::Unschedulable(_));
            let flush = self.timers.get(TimerKind::Flush, id).is_some();
            note(flush == is_unschedulable, format!("time at which job {} is flushed", job.key));
            let returns = row.pool != Pool::Backoff || self.timers.get(TimerKind::JobBackoff, id).is_some();
            note(returns, format!("end of the back-off of job {}", job.key));
        }
        let exists = |(_, class)| self.classes.all.get(class).is_some();
        note(self.timers.of(TimerKind::ClassBackoff).all(exists), "ends of back-offs of classes".to_owned());
        self.check_classes(cluster, note);
    }
}
