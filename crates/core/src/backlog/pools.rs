//! The pools of the backlog: which jobs a cycle has to look at, and where the others are.
//!
//! A cluster has many jobs that run and nothing is to be decided for. They are *settled*, in no pool: their statuses are
//! written, and until something of theirs changes, a cycle would come to the same. Others wait and were refused for a reason
//! that stands: they are *parked* in herds (`herds`), until something happens that may lift it. And those that were looked at
//! in vain too often are *off* for a while. All others are *awake*.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::herds::{HerdId, Herds};
use super::refusals::Refusals;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::{Phase, Time};
use phalanx_cluster::id::{Id, JobId, QueueId};
use phalanx_cluster::{Job, JobChange, World, backoff};

/// Where a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Settled,
    Awake,
    Parked(HerdId),
    Off,
}

/// Where a job is, and how it came there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    pub(super) state: State,
    /// Tells an entry in a heap from those that a job left behind.
    pub(super) serial: u32,
    /// The herd whose first it was when it was called, as long as the next was not called.
    pub(super) first_of: Option<HerdId>,
    /// How often it was looked at in vain.
    tries: u8,
    /// When it is called at the latest, as `timers` knows it.
    timer: Option<Time>,
    /// It stands in `flush`.
    listed: bool,
    /// It was parked because binds were refused.
    pub(super) denied: bool,
}

/// The jobs that wait, by pool, and what calls those that are not looked at in each cycle.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// By job.
    rows: Vec<Row>,
    /// The jobs of some Cluster were taken in.
    follows: bool,
    /// The jobs that are awake, and some that are gone.
    awake: Vec<JobId>,
    pub(super) herds: Herds,
    /// Why jobs wait.
    pub(crate) refusals: Refusals,
    off: BinaryHeap<Reverse<(Time, JobId, u32)>>,
    off_herds: BinaryHeap<Reverse<(Time, HerdId)>>,
    timers: BinaryHeap<Reverse<(Time, JobId)>>,
    /// When parked jobs are called whatever happened, in the order of these times.
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
    /// Takes in what changed in the Cluster since it was asked last: jobs that changed are woken.
    pub(crate) fn follow(&mut self, world: &mut World) {
        if !std::mem::replace(&mut self.follows, true) {
            let changes = world.take_changes();
            changes.gone.into_iter().for_each(|id| self.refusals.clear(id));
            self.changed_queues.extend(changes.queues);
            world.jobs.ids().for_each(|id| self.wake(id));
            return;
        }
        if !world.has_changes() {
            return;
        }
        let changes = world.take_changes();
        for id in changes.gone {
            self.leave_herd(id);
            self.refusals.clear(id);
            if let Some(row) = self.rows.get_mut(id.index()) {
                *row = Row::default();
            }
        }
        if changes.order {
            self.herds.unrank_all();
        }
        self.rows.resize(world.jobs.bound().max(self.rows.len()), Row::default());
        for (id, change) in changes.jobs {
            let sleeps = change == JobChange::Minor && self.row(id).state == State::Settled;
            if world.jobs.get(id).is_some() && !sleeps {
                self.activate(id);
            }
        }
        self.changed_queues.extend(changes.queues);
        changes.freed.into_iter().for_each(|node| self.herds.rooms.note(node));
        self.wake_watchers(world);
    }

    /// Looks at all jobs anew in the next cycle.
    pub(crate) fn begin_anew(&mut self) {
        *self = Self { refusals: std::mem::take(&mut self.refusals), ..Self::default() };
    }

    /// Wakes parked jobs to whose claims something happened.
    fn wake_watchers(&mut self, world: &mut World) {
        for (job, serial) in world.take_watchers() {
            let row = self.row(job);
            if matches!(row.state, State::Parked(_)) && row.serial == serial {
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

    /// Something of a job changed.
    pub(crate) fn activate(&mut self, id: JobId) {
        if self.row(id).state != State::Awake {
            self.wake(id);
            self.row_mut(id).tries = 0;
        }
    }

    fn leave_herd(&mut self, id: JobId) {
        let row = self.row(id);
        if let State::Parked(herd) = row.state {
            self.herds.leave(herd, row.denied);
        }
    }

    fn wake(&mut self, id: JobId) {
        self.leave_herd(id);
        let row = self.row_mut(id);
        (row.state, row.first_of) = (State::Awake, None);
        self.awake.push(id);
    }

    /// A number that no entry has.
    fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    /// Jobs that are awake, by id.
    pub(crate) fn awake_jobs(&self, world: &World) -> Vec<JobId> {
        let mut jobs = self.awake.clone();
        jobs.retain(|id| world.jobs.get(*id).is_some() && self.row(*id).state == State::Awake);
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// Calls a parked job: nothing of it changed, but its reason to wait may be gone.
    pub(super) fn call(&mut self, id: JobId) {
        self.wake(id);
    }

    /// The herd whose first a job was when it was called.
    pub(super) fn set_first_of(&mut self, id: JobId, herd: HerdId) {
        self.row_mut(id).first_of = Some(herd);
    }

    /// The same; then it is that no more.
    pub(super) fn take_first_of(&mut self, id: JobId) -> Option<HerdId> {
        self.row_mut(id).first_of.take()
    }

    /// Whether a job is asked for others that wait for the same.
    pub(crate) fn is_called(&self, id: JobId) -> bool {
        self.row(id).first_of.is_some()
    }

    /// Whether a job is the one that an entry in a herd means.
    pub(super) fn is_entry(&self, herd: HerdId, id: JobId, serial: u32) -> bool {
        let row = self.row(id);
        row.state == State::Parked(herd) && row.serial == serial
    }

    /// The job sleeps until something of it changes.
    pub(super) fn settle_job(&mut self, id: JobId) {
        self.row_mut(id).state = State::Settled;
    }

    /// Puts a job into a herd: `flush` is when it is called in any case, `until` when its refusal may end by itself. Returns
    /// the number by which its entry in the herd is known.
    pub(super) fn park(&mut self, id: JobId, herd: HerdId, denied: bool, until: Time, flush: Time) -> u32 {
        let serial = self.next_serial();
        if until < Time::NEVER {
            self.call_at(id, until);
        }
        if !self.row(id).listed {
            self.flush.push_back((flush, id));
        }
        let row = self.row_mut(id);
        *row = Row { state: State::Parked(herd), serial, first_of: None, denied, listed: true, ..*row };
        self.herds.join(herd, denied);
        serial
    }

    /// A cycle is due at this time, and looks at the job.
    pub(crate) fn call_at(&mut self, id: JobId, time: Time) {
        let row = self.row_mut(id);
        let time = row.timer.map_or(time, |known| known.min(time));
        if row.timer.replace(time) != Some(time) {
            self.timers.push(Reverse((time, id)));
        }
    }

    /// Leaves a job alone for a while.
    pub(super) fn put_off(&mut self, id: JobId, now: Time) {
        let serial = self.next_serial();
        let row = self.row_mut(id);
        let tries = row.tries.saturating_add(1);
        *row = Row { state: State::Off, serial, first_of: None, tries, ..*row };
        self.off.push(Reverse((backoff(now, tries), id, serial)));
    }

    /// Leaves a herd alone for a while: its first was called in vain.
    pub(super) fn put_off_herd(&mut self, herd: HerdId, until: Time) {
        self.off_herds.push(Reverse((until, herd)));
    }

    /// Calls those whose time has come; at most `flushed` of those that are called in any case. Returns the herds whose turn
    /// it is again.
    pub(super) fn call_due(&mut self, world: &World, now: Time, flushed: usize) -> Vec<HerdId> {
        while let Some(Reverse((_, id, serial))) = self.off.peek().copied().filter(|it| it.0.0 <= now) {
            self.off.pop();
            let row = self.row(id);
            if row.state == State::Off && row.serial == serial {
                self.call(id);
            }
        }
        while let Some(Reverse((time, id))) = self.timers.peek().copied().filter(|it| it.0.0 <= now) {
            self.timers.pop();
            if world.jobs.get(id).is_some() && self.row(id).timer == Some(time) {
                self.row_mut(id).timer = None;
                self.call_if_aside(id);
            }
        }
        for _ in 0..flushed {
            let Some((_, id)) = self.flush.front().copied().filter(|(at, _)| *at <= now) else { break };
            self.flush.pop_front();
            self.row_mut(id).listed = false;
            self.call_if_aside(id);
        }
        let mut herds = Vec::new();
        while let Some(Reverse((_, herd))) = self.off_herds.peek().copied().filter(|it| it.0.0 <= now) {
            self.off_herds.pop();
            herds.push(herd);
        }
        herds
    }

    fn call_if_aside(&mut self, id: JobId) {
        if matches!(self.row(id).state, State::Parked(_)) {
            self.call(id);
        }
    }

    /// When somebody is to be called though nothing happens.
    pub(crate) fn next_call(&self) -> Option<Time> {
        let off = self.off.peek().map(|it| it.0.0);
        let herd = self.off_herds.peek().map(|it| it.0.0);
        let timer = self.timers.peek().map(|it| it.0.0);
        let passed_over = self.herds.lineups.wake();
        off.into_iter().chain(herd).chain(timer).chain(passed_over).min()
    }

    /// When parked jobs are called next whatever happened.
    pub(crate) fn next_flush(&self) -> Option<Time> {
        self.flush.front().map(|(time, _)| *time)
    }

    /// Whether anybody is awake, when a cycle has ended.
    pub(crate) fn any_awake(&self) -> bool {
        !self.awake.is_empty()
    }

    /// Forgets who is no longer awake.
    pub(super) fn tidy_awake(&mut self, world: &World) {
        let jobs = self.awake_jobs(world);
        for id in &jobs {
            if let Some(herd) = self.take_first_of(*id) {
                self.doubt_herd(herd);
            }
        }
        self.awake = jobs;
        self.forget_timers(world);
    }

    /// Nobody need be called any more who has nothing to wait for.
    fn forget_timers(&mut self, world: &World) {
        while let Some(Reverse((time, id))) = self.timers.peek().copied() {
            let job = world.jobs.get(id).filter(|_| self.row(id).timer == Some(time));
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

    /// How many jobs are parked.
    pub(crate) fn parked(&self) -> usize {
        self.herds.parked()
    }

    /// How many jobs wait, by pool.
    pub(crate) fn pending(&self, world: &World) -> Pending {
        let denied = self.herds.denied();
        let mut pending = Pending {
            unschedulable: self.parked() - denied,
            backoff: self.off_jobs().count() + denied,
            ..Pending::default()
        };
        for id in self.awake_jobs(world) {
            let job = &world.jobs[id];
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

    fn off_jobs(&self) -> impl Iterator<Item = JobId> {
        self.off.iter().filter_map(|it| {
            let (_, id, serial) = it.0;
            let row = self.row(id);
            (row.state == State::Off && row.serial == serial).then_some(id)
        })
    }

    /// What is wrong with the pools, against the jobs of the Cluster; nothing while changes are to be followed.
    pub(crate) fn check(&self, world: &World, note: &mut impl FnMut(bool, String)) {
        if !self.follows || world.has_changes() {
            return;
        }
        let rows = |id: JobId| self.row(id);
        for (id, job) in world.jobs.iter() {
            let overslept = rows(id).state == State::Settled && !self.is_settled(id, job);
            note(!overslept, format!("job {} waits and is not looked at", job.key));
        }
        let parked = world.jobs.ids().map(rows).filter(|row| matches!(row.state, State::Parked(_)));
        self.check_herds(&parked.collect::<Vec<_>>(), note);
    }
}
