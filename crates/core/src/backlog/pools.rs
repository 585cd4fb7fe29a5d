//! The pools of the backlog: which jobs a cycle looks at, and where the others are.
//!
//! A job for which nothing is to be decided is in no pool: its status is written, and until something of the job changes, a
//! cycle would decide the same. A job with a refusal that stands is *unschedulable*, in an equivalence class
//! (`equivalence`), until something happens that may lift the refusal. A job that was tried in vain beside many others is in
//! *backoff*. All other jobs are *active*.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::equivalence::{JobClassId, JobClasses};
use super::refusals::Refusals;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::{Phase, Time};
use phalanx_cluster::id::{Id, JobId, QueueId};
use phalanx_cluster::{Cluster, Job, JobChange, backoff};

/// The pool of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pool {
    #[default]
    None,
    Active,
    Unschedulable(JobClassId),
    Backoff,
}

/// What the backlog knows of a job.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    pub(super) state: Pool,
    /// Tells an entry in a heap from those that a job left behind.
    pub(super) serial: u32,
    /// The class whose first it was when it was tried, as long as the next was not called.
    pub(super) first_of: Option<JobClassId>,
    /// How often it was looked at in vain.
    tries: u8,
    /// When it is tried at the latest, as `timers` knows it.
    timer: Option<Time>,
    /// It stands in `flush`.
    listed: bool,
    /// It was unschedulable because binds were refused.
    pub(super) denied: bool,
}

/// The jobs that wait, by pool, and what retries those that are not looked at in each cycle.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// By job id.
    rows: Vec<Row>,
    /// The jobs of the Cluster are known.
    follows: bool,
    /// The jobs that are active, and some that are gone.
    active: Vec<JobId>,
    pub(super) classes: JobClasses,
    /// Why jobs wait.
    pub(crate) refusals: Refusals,
    off: BinaryHeap<Reverse<(Time, JobId, u32)>>,
    backoff_classes: BinaryHeap<Reverse<(Time, JobClassId)>>,
    timers: BinaryHeap<Reverse<(Time, JobId)>>,
    /// When unschedulable jobs are tried whatever happened, in the order of these times.
    flush: VecDeque<(Time, JobId)>,
    serial: u32,
    /// Queues that were added, changed or removed since the last cycle.
    pub(super) changed_queues: Vec<QueueId>,
}

/// How many jobs wait, by pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// No cycle has come to an end with them: new, changed, with places that are being freed, or cut short in a search.
    pub active: usize,
    /// Left alone for some seconds: looked at in vain beside many others, or binds were refused.
    pub backoff: usize,
    /// Refused for reasons that stand until something happens. A few of them are looked at in each cycle all the same.
    pub unschedulable: usize,
}

impl Backlog {
    /// Takes in what changed in the Cluster since the last call: jobs that changed become active.
    pub(crate) fn follow(&mut self, cluster: &mut Cluster) {
        if !std::mem::replace(&mut self.follows, true) {
            let changes = cluster.take_changes();
            changes.gone.into_iter().for_each(|id| self.refusals.clear(id));
            self.changed_queues.extend(changes.queues);
            cluster.jobs.ids().for_each(|id| self.wake(id));
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
                *row = Row::default();
            }
        }
        if changes.order {
            self.classes.unrank_all();
        }
        self.rows.resize(cluster.jobs.bound().max(self.rows.len()), Row::default());
        for (id, change) in changes.jobs {
            let sleeps = change == JobChange::Minor && self.row(id).state == Pool::None;
            if cluster.jobs.get(id).is_some() && !sleeps {
                self.activate(id);
            }
        }
        self.changed_queues.extend(changes.queues);
        changes.freed.into_iter().for_each(|node| self.classes.capacities.note(node));
        self.wake_watchers(cluster);
    }

    /// Looks at all jobs anew in the next cycle.
    pub(crate) fn begin_anew(&mut self) {
        *self = Self { refusals: std::mem::take(&mut self.refusals), ..Self::default() };
    }

    /// Activates unschedulable jobs of which a volume or device claim changed.
    fn wake_watchers(&mut self, cluster: &mut Cluster) {
        for (job, serial) in cluster.take_watchers() {
            let row = self.row(job);
            if matches!(row.state, Pool::Unschedulable(_)) && row.serial == serial {
                self.activate(job);
            }
        }
    }

    pub(super) fn row(&self, id: JobId) -> Row {
        self.rows.get(id.index()).copied().unwrap_or_default()
    }

    fn row_mut(&mut self, id: JobId) -> &mut Row {
        if self.rows.len() <= id.index() {
            self.rows.resize(id.index() + 1, Row::default());
        }
        &mut self.rows[id.index()]
    }

    /// Activates a job that changed.
    pub(crate) fn activate(&mut self, id: JobId) {
        if self.row(id).state != Pool::Active {
            self.wake(id);
            self.row_mut(id).tries = 0;
        }
    }

    fn leave_class(&mut self, id: JobId) {
        let row = self.row(id);
        if let Pool::Unschedulable(class) = row.state {
            self.classes.leave(class, row.denied);
        }
    }

    fn wake(&mut self, id: JobId) {
        self.leave_class(id);
        let row = self.row_mut(id);
        (row.state, row.first_of) = (Pool::Active, None);
        self.active.push(id);
    }

    /// A serial number that no entry of a job has yet.
    fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    /// Jobs that are active, by id.
    pub(crate) fn active_jobs(&self, cluster: &Cluster) -> Vec<JobId> {
        let mut jobs = self.active.clone();
        jobs.retain(|id| cluster.jobs.get(*id).is_some() && self.row(*id).state == Pool::Active);
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// Tries an unschedulable job: nothing of it changed, but its reason to wait may be gone.
    pub(super) fn call(&mut self, id: JobId) {
        self.wake(id);
    }

    /// The class whose first a job was when it was tried.
    pub(super) fn set_first_of(&mut self, id: JobId, class: JobClassId) {
        self.row_mut(id).first_of = Some(class);
    }

    /// Takes the class whose first a job was when it was tried.
    pub(super) fn take_first_of(&mut self, id: JobId) -> Option<JobClassId> {
        self.row_mut(id).first_of.take()
    }

    /// Whether a job is asked for others that wait for the same.
    pub(crate) fn is_called(&self, id: JobId) -> bool {
        self.row(id).first_of.is_some()
    }

    /// Whether a job is the one that an entry in a class means.
    pub(super) fn is_entry(&self, class: JobClassId, id: JobId, serial: u32) -> bool {
        let row = self.row(id);
        row.state == Pool::Unschedulable(class) && row.serial == serial
    }

    /// Takes a job out of all pools until something of the job changes.
    pub(super) fn settle_job(&mut self, id: JobId) {
        self.row_mut(id).state = Pool::None;
    }

    /// Puts a job into a class: `flush` is when it is tried in any case, `until` when its refusal may end by itself. Returns
    /// the number by which its entry in the class is known.
    pub(super) fn park(
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
        if !self.row(id).listed {
            self.flush.push_back((flush, id));
        }
        let row = self.row_mut(id);
        *row =
            Row { state: Pool::Unschedulable(class), serial, first_of: None, denied, listed: true, ..*row };
        self.classes.join(class, denied);
        serial
    }

    /// A cycle is due at this time, and looks at the job.
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
        *row = Row { state: Pool::Backoff, serial, first_of: None, tries, ..*row };
        self.off.push(Reverse((backoff(now, tries), id, serial)));
    }

    /// Puts a class into backoff: its first job was tried in vain.
    pub(super) fn back_off_class(&mut self, class: JobClassId, until: Time) {
        self.backoff_classes.push(Reverse((until, class)));
    }

    /// Tries those whose time has come; at most `flushed` of those that are tried in any case. Returns the classes whose turn
    /// it is again.
    pub(super) fn retry_due(&mut self, cluster: &Cluster, now: Time, flushed: usize) -> Vec<JobClassId> {
        while let Some(Reverse((_, id, serial))) = self.off.peek().copied().filter(|it| it.0.0 <= now) {
            self.off.pop();
            let row = self.row(id);
            if row.state == Pool::Backoff && row.serial == serial {
                self.call(id);
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
            self.row_mut(id).listed = false;
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
        if matches!(self.row(id).state, Pool::Unschedulable(_)) {
            self.call(id);
        }
    }

    /// When somebody is to be tried though nothing happens.
    pub(crate) fn next_retry(&self) -> Option<Time> {
        let off = self.off.peek().map(|it| it.0.0);
        let class = self.backoff_classes.peek().map(|it| it.0.0);
        let timer = self.timers.peek().map(|it| it.0.0);
        let passed_over = self.classes.indexes.wake();
        off.into_iter().chain(class).chain(timer).chain(passed_over).min()
    }

    /// When unschedulable jobs are tried next whatever happened.
    pub(crate) fn next_flush(&self) -> Option<Time> {
        self.flush.front().map(|(time, _)| *time)
    }

    /// Whether any job is active, when a cycle has ended.
    pub(crate) fn any_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// Drops jobs from the list of active jobs that are in another pool by now.
    pub(super) fn tidy_active(&mut self, cluster: &Cluster) {
        let jobs = self.active_jobs(cluster);
        for id in &jobs {
            if let Some(class) = self.take_first_of(*id) {
                self.doubt_class(class);
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

    /// Whether a job was left alone when a cycle looked at it last.
    pub(super) fn is_denied(&self, id: JobId) -> bool {
        self.refusals.of(id).iter().any(|refusal| matches!(refusal, Refusal::BindDenied { .. }))
    }

    /// Whether nothing is to be decided for a job until something of it changes.
    pub(super) fn is_settled(&self, id: JobId, job: &Job) -> bool {
        let to_admit = job.phase == Phase::Pending && job.exists;
        job.waiting() == 0 && !to_admit && !job.had_no_turn() && self.refusals.of(id).is_empty()
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
            backoff: self.backoff_jobs().count() + denied,
            ..Pending::default()
        };
        for id in self.active_jobs(cluster) {
            let job = &cluster.jobs[id];
            let waits = job.waiting() > 0 || (job.phase == Phase::Pending && job.exists);
            let refused =
                !self.refusals.of(id).is_empty() && (!job.has_places() || job.grows()) && !job.had_no_turn();
            match (waits, refused) {
                (false, _) => {}
                _ if self.is_denied(id) => pending.backoff += 1,
                (true, true) => pending.unschedulable += 1,
                (true, false) => pending.active += 1,
            }
        }
        pending
    }

    fn backoff_jobs(&self) -> impl Iterator<Item = JobId> {
        self.off.iter().filter_map(|it| {
            let (_, id, serial) = it.0;
            let row = self.row(id);
            (row.state == Pool::Backoff && row.serial == serial).then_some(id)
        })
    }

    /// What is wrong with the pools, against the jobs of the Cluster; nothing while changes are to be followed.
    pub(crate) fn check(&self, cluster: &Cluster, note: &mut impl FnMut(bool, String)) {
        if !self.follows || cluster.has_changes() {
            return;
        }
        let rows = |id: JobId| self.row(id);
        for (id, job) in cluster.jobs.iter() {
            let overslept = rows(id).state == Pool::None && !self.is_settled(id, job);
            note(!overslept, format!("job {} waits and is not looked at", job.key));
        }
        let unschedulable =
            cluster.jobs.ids().map(rows).filter(|row| matches!(row.state, Pool::Unschedulable(_)));
        self.check_classes(&unschedulable.collect::<Vec<_>>(), note);
    }
}
