//! The pools of the backlog, by job.
//!
//! A job for which nothing is to be decided is in no pool: its status is written, and a cycle would change nothing
//! until the job changes. A job with a refusal that stands is *unschedulable*, in an equivalence class (`equivalence`),
//! until something happens that may lift the refusal. A job whose try failed while many others wait is in
//! *backoff*. All other jobs are *active*.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::equivalence::{JobClassId, JobClasses};
use super::refusals::Refusals;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::{Phase, Time};
use phalanx_cluster::id::{Id, JobId, QueueId};
use phalanx_cluster::{Cluster, Job, JobChange, WaitingJob, backoff};

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
    /// Tells the job's entry in a heap from its stale entries.
    pub(super) serial: u32,
    /// The class that the job was tried for as its first job, until the next job of the class is tried.
    pub(super) first_of: Option<JobClassId>,
    /// Failed tries in a row.
    tries: u8,
    /// The job's entry in `timers`.
    timer: Option<Time>,
    /// The job has an entry in `flush`.
    in_flush: bool,
    /// The job is unschedulable because binds were refused.
    pub(super) denied: bool,
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
    backoff_jobs: BinaryHeap<Reverse<(Time, JobId, u32)>>,
    backoff_classes: BinaryHeap<Reverse<(Time, JobClassId)>>,
    timers: BinaryHeap<Reverse<(Time, JobId)>>,
    /// When unschedulable jobs are tried whatever happened, in the order of time.
    flush: VecDeque<(Time, JobId)>,
    serial: u32,
    /// Queues that were added, changed or removed since the last cycle.
    pub(super) changed_queues: Vec<QueueId>,
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
            cluster.jobs.ids().for_each(|id| self.make_active(id));
            return;
        }
        if !cluster.has_changes() {
            return;
        }
        let changes = cluster.take_changes();
        for id in changes.gone {
            self.leave_class(id);
            self.refusals.clear(id);
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
                self.activate(id);
            }
        }
        self.changed_queues.extend(changes.queues);
        changes.freed.into_iter().for_each(|node| self.classes.capacities.note_freed(node));
        self.activate_watchers(cluster);
    }

    /// Makes all jobs active.
    pub(crate) fn reset(&mut self) {
        *self = Self { refusals: std::mem::take(&mut self.refusals), ..Self::default() };
    }

    /// Activates unschedulable jobs whose volume or device claim changed.
    fn activate_watchers(&mut self, cluster: &mut Cluster) {
        for WaitingJob { job, serial } in cluster.take_watchers() {
            let row = self.row(job);
            if matches!(row.pool, Pool::Unschedulable(_)) && row.serial == serial {
                self.activate(job);
            }
        }
    }

    pub(super) fn row(&self, id: JobId) -> JobRow {
        self.rows.get(id.index()).copied().unwrap_or_default()
    }

    fn row_mut(&mut self, id: JobId) -> &mut JobRow {
        if self.rows.len() <= id.index() {
            self.rows.resize(id.index() + 1, JobRow::default());
        }
        &mut self.rows[id.index()]
    }

    /// Activates a job that changed, and ends its back-off.
    pub(crate) fn activate(&mut self, id: JobId) {
        if self.row(id).pool != Pool::Active {
            self.make_active(id);
            self.row_mut(id).tries = 0;
        }
    }

    fn leave_class(&mut self, id: JobId) {
        let row = self.row(id);
        if let Pool::Unschedulable(class) = row.pool {
            self.classes.leave(class, row.denied);
        }
    }

    fn make_active(&mut self, id: JobId) {
        self.leave_class(id);
        let row = self.row_mut(id);
        (row.pool, row.first_of) = (Pool::Active, None);
        self.active.push(id);
    }

    /// A serial number that no heap entry has.
    fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    /// Active jobs, by id.
    pub(crate) fn active_jobs(&self, cluster: &Cluster) -> Vec<JobId> {
        let mut jobs = self.active.clone();
        jobs.retain(|id| cluster.jobs.get(*id).is_some() && self.row(*id).pool == Pool::Active);
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// Activates a job that did not change, since its refusal may be lifted.
    pub(super) fn retry(&mut self, id: JobId) {
        self.make_active(id);
    }

    /// Sets the class that a job is tried for.
    pub(super) fn set_first_of(&mut self, id: JobId, class: JobClassId) {
        self.row_mut(id).first_of = Some(class);
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
    pub(super) fn is_entry(&self, class: JobClassId, entry: WaitingJob) -> bool {
        let row = self.row(entry.job);
        row.pool == Pool::Unschedulable(class) && row.serial == entry.serial
    }

    /// Takes a job out of all pools until it changes.
    pub(super) fn leave_pools(&mut self, id: JobId) {
        self.row_mut(id).pool = Pool::None;
    }

    /// Makes a job unschedulable, in a class. The job is tried at `flush` whatever happened; `until` is when its
    /// refusal may end by itself. Returns the serial number of its entry in the class.
    pub(super) fn add_unschedulable(
        &mut self,
        id: JobId,
        class: JobClassId,
        denied: bool,
        until: Time,
        flush: Time,
    ) -> u32 {
        let serial = self.next_serial();
        if until < Time::NEVER {
            self.retry_at(id, until);
        }
        if !self.row(id).in_flush {
            self.flush.push_back((flush, id));
        }
        let row = self.row_mut(id);
        *row = JobRow {
            pool: Pool::Unschedulable(class),
            serial,
            first_of: None,
            denied,
            in_flush: true,
            ..*row
        };
        self.classes.join(class, denied);
        serial
    }

    /// Sets the time at which a job is tried at the latest.
    pub(crate) fn retry_at(&mut self, id: JobId, time: Time) {
        let row = self.row_mut(id);
        let time = row.timer.map_or(time, |known| known.min(time));
        if row.timer.replace(time) != Some(time) {
            self.timers.push(Reverse((time, id)));
        }
    }

    /// Puts a job into backoff.
    pub(super) fn back_off(&mut self, id: JobId, now: Time) {
        let serial = self.next_serial();
        let row = self.row_mut(id);
        let tries = row.tries.saturating_add(1);
        *row = JobRow { pool: Pool::Backoff, serial, first_of: None, tries, ..*row };
        self.backoff_jobs.push(Reverse((backoff(now, tries), id, serial)));
    }

    /// Puts a class that is tried in each cycle into backoff.
    pub(super) fn back_off_class(&mut self, class: JobClassId, until: Time) {
        self.classes.tried_each_cycle.remove(&class);
        self.backoff_classes.push(Reverse((until, class)));
    }

    /// Activates jobs whose time has come, at most `flushed` of those in `flush`. Returns the classes whose back-off is
    /// over.
    pub(super) fn retry_due(&mut self, cluster: &Cluster, now: Time, flushed: usize) -> Vec<JobClassId> {
        while let Some(Reverse((_, id, serial))) =
            self.backoff_jobs.peek().copied().filter(|it| it.0.0 <= now)
        {
            self.backoff_jobs.pop();
            let row = self.row(id);
            if row.pool == Pool::Backoff && row.serial == serial {
                self.retry(id);
            }
        }
        while let Some(Reverse((time, id))) = self.timers.peek().copied().filter(|it| it.0.0 <= now) {
            self.timers.pop();
            if cluster.jobs.get(id).is_some() && self.row(id).timer == Some(time) {
                self.row_mut(id).timer = None;
                self.retry_if_unschedulable(id);
            }
        }
        for _ in 0..flushed {
            let Some((_, id)) = self.flush.front().copied().filter(|(at, _)| *at <= now) else { break };
            self.flush.pop_front();
            self.row_mut(id).in_flush = false;
            self.retry_if_unschedulable(id);
        }
        let mut classes = Vec::new();
        while let Some(Reverse((_, class))) = self.backoff_classes.peek().copied().filter(|it| it.0.0 <= now)
        {
            self.backoff_classes.pop();
            classes.push(class);
        }
        classes
    }

    fn retry_if_unschedulable(&mut self, id: JobId) {
        if matches!(self.row(id).pool, Pool::Unschedulable(_)) {
            self.retry(id);
        }
    }

    /// When the next job is to be tried though nothing happens.
    pub(crate) fn next_retry(&self) -> Option<Time> {
        let off = self.backoff_jobs.peek().map(|it| it.0.0);
        let class = self.backoff_classes.peek().map(|it| it.0.0);
        let timer = self.timers.peek().map(|it| it.0.0);
        let passed_over = self.classes.indexes.next_retry();
        off.into_iter().chain(class).chain(timer).chain(passed_over).min()
    }

    /// When unschedulable jobs are tried next whatever happened.
    pub(crate) fn next_flush(&self) -> Option<Time> {
        self.flush.front().map(|(time, _)| *time)
    }

    /// Whether any job is active after a cycle.
    pub(crate) fn any_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// Drops jobs from the list of active jobs that are in another pool by now.
    pub(super) fn tidy_active(&mut self, cluster: &Cluster) {
        let jobs = self.active_jobs(cluster);
        for id in &jobs {
            if let Some(class) = self.take_first_of(*id) {
                self.try_each_cycle(class);
            }
        }
        self.active = jobs;
        self.forget_timers(cluster);
    }

    /// Drops timers of jobs without pods that wait.
    fn forget_timers(&mut self, cluster: &Cluster) {
        while let Some(Reverse((time, id))) = self.timers.peek().copied() {
            let job = cluster.jobs.get(id).filter(|_| self.row(id).timer == Some(time));
            match job {
                Some(job) if job.waiting() > 0 => return,
                Some(_) => self.row_mut(id).timer = None,
                None => {}
            }
            self.timers.pop();
        }
    }

    /// Whether a job was refused because its binds were refused.
    pub(super) fn is_denied(&self, id: JobId) -> bool {
        self.refusals.of(id).iter().any(|refusal| matches!(refusal, Refusal::BindDenied { .. }))
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

    /// How many jobs are unschedulable.
    pub(crate) fn unschedulable(&self) -> usize {
        self.classes.unschedulable()
    }

    /// How many jobs wait, by pool.
    pub(crate) fn pending(&self, cluster: &Cluster) -> Pending {
        let denied = self.classes.denied();
        let mut pending = Pending {
            unschedulable: self.unschedulable() - denied,
            backoff: self.jobs_in_backoff().count() + denied,
            ..Pending::default()
        };
        for id in self.active_jobs(cluster) {
            let job = &cluster.jobs[id];
            let waits = job.waiting() > 0 || (job.phase == Phase::Pending && job.object.exists);
            let refused = !self.refusals.of(id).is_empty()
                && (!job.has_places() || job.grows())
                && !self.is_deferred(id);
            match (waits, refused) {
                (false, _) => {}
                _ if self.is_denied(id) => pending.backoff += 1,
                (true, true) => pending.unschedulable += 1,
                (true, false) => pending.active += 1,
            }
        }
        pending
    }

    fn jobs_in_backoff(&self) -> impl Iterator<Item = JobId> {
        self.backoff_jobs.iter().filter_map(|it| {
            let (_, id, serial) = it.0;
            let row = self.row(id);
            (row.pool == Pool::Backoff && row.serial == serial).then_some(id)
        })
    }

    /// Compares the pools with the jobs of the Cluster. Notes nothing while changes were not taken in.
    pub(crate) fn check(&self, cluster: &Cluster, note: &mut impl FnMut(bool, String)) {
        if !self.follows || cluster.has_changes() {
            return;
        }
        let rows = |id: JobId| self.row(id);
        for (id, job) in cluster.jobs.iter() {
            let overslept = rows(id).pool == Pool::None && !self.has_nothing_pending(id, job);
            note(!overslept, format!("job {} waits and is not looked at", job.key));
        }
        let unschedulable =
            cluster.jobs.ids().map(rows).filter(|row| matches!(row.pool, Pool::Unschedulable(_)));
        self.check_classes(&unschedulable.collect::<Vec<_>>(), note);
    }
}
