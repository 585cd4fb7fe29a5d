//! Jobs that a cycle has to look at, and where the others are.
//!
//! A cluster has many jobs that run and nothing is to be decided for. They are *settled*: their statuses are written, and
//! until something of theirs changes, a cycle would come to the same. Others wait and were refused for a reason that
//! stands: they are *parked* in herds (`herds`), until something happens that may lift it. And those that were looked at in
//! vain too often are *off* for a while. All others are *awake*.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::herds::Herds;
use super::{Job, World};
use crate::event::{Phase, Time};
use crate::id::{HerdId, JobId, QueueId};

/// How long a job or herd is left alone that was looked at in vain: a second, doubled each time.
const FIRST_BACKOFF_MS: i64 = 1000;
/// And no longer than this.
const LAST_BACKOFF_MS: i64 = 10_000;

/// Where a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Settled,
    Awake,
    Parked(HerdId),
    Off,
}

/// Where a job is, and how it came there. No part of what the World is: undoing a change need not put it back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    pub(super) state: State,
    /// Tells an entry in a heap from those that a job left behind.
    pub(super) serial: u32,
    /// The herd whose first it was when it was called, as long as the next was not called.
    pub first_of: Option<HerdId>,
    /// How often it was looked at in vain.
    tries: u8,
    /// When it is called at the latest, as `timers` knows it.
    timer: Option<Time>,
    /// It stands in `flush`.
    listed: bool,
    /// It was parked because binds were refused.
    pub(super) denied: bool,
}

impl PartialEq for Place {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The jobs that are awake, and some that are gone; and what calls the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pools {
    awake: Vec<JobId>,
    pub(super) herds: Herds,
    off: BinaryHeap<Reverse<(Time, JobId, u32)>>,
    off_herds: BinaryHeap<Reverse<(Time, HerdId)>>,
    timers: BinaryHeap<Reverse<(Time, JobId)>>,
    /// When parked jobs are called whatever happened, in the order of these times.
    flush: VecDeque<(Time, JobId)>,
    serial: u32,
    /// Queues that were added, changed or removed since the last cycle.
    pub(super) changed_queues: Vec<QueueId>,
}

impl PartialEq for Pools {
    fn eq(&self, _: &Self) -> bool {
        true
    }
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

/// When a job or herd has its turn again that was looked at so often in vain.
pub fn backoff(now: Time, tries: u8) -> Time {
    let wait = FIRST_BACKOFF_MS << tries.saturating_sub(1).min(8);
    Time(now.0.saturating_add(wait.min(LAST_BACKOFF_MS)))
}

impl Pools {
    #[inline]
    pub(super) fn add(&mut self, id: JobId, job: &mut Job) {
        if job.place.state != State::Awake {
            self.wake(id, job);
            job.place.tries = 0;
        }
    }

    fn wake(&mut self, id: JobId, job: &mut Job) {
        if let State::Parked(herd) = job.place.state {
            self.herds.leave(herd, job);
        }
        job.place.state = State::Awake;
        job.place.first_of = None;
        self.awake.push(id);
    }

    /// A number that no entry has.
    fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }
}

impl World {
    /// Something of a job changed.
    pub fn wake_job(&mut self, id: JobId) {
        self.inqueue.mark(id);
        self.pools.add(id, &mut self.jobs[id]);
    }

    /// What counts for jobs changed: the configuration, say, and with it their order.
    pub fn wake_all_jobs(&mut self) {
        self.doubt_queues();
        self.pools.herds.unrank_all();
        for id in self.jobs.ids().collect::<Vec<_>>() {
            self.wake_job(id);
        }
    }

    /// Jobs that are awake, by id.
    pub fn awake_jobs(&self) -> Vec<JobId> {
        let mut jobs = self.pools.awake.clone();
        jobs.retain(|id| self.jobs.get(*id).is_some_and(|job| job.place.state == State::Awake));
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// Jobs that are awake, and those that are off: all that are, or may be, served in a cycle but for parked ones.
    pub fn awake_and_off(&self) -> Vec<JobId> {
        let mut jobs = self.awake_jobs();
        jobs.extend(self.off_jobs());
        jobs
    }

    /// All jobs that have pending tasks, and some others: no settled one has any.
    pub fn unsettled_jobs(&self) -> Vec<JobId> {
        let mut jobs = self.awake_and_off();
        let parked = self.pools.herds.entries();
        let lives = |(herd, (id, serial)): (HerdId, (JobId, u32))| {
            self.jobs.get(id).is_some_and(|job| job.is_entry(herd, serial)).then_some(id)
        };
        jobs.extend(parked.filter_map(lives));
        jobs
    }

    /// Jobs that are awake and have tasks to place.
    pub fn waiting_jobs(&self) -> impl Iterator<Item = (JobId, &Job)> {
        let waiting = self.awake_jobs().into_iter().map(|id| (id, &self.jobs[id]));
        waiting.filter(|(_, job)| job.waiting() > 0)
    }

    /// Calls a parked job: nothing of it changed, but its reason to wait may be gone.
    pub fn call(&mut self, id: JobId) {
        let Self { pools, jobs, .. } = self;
        pools.wake(id, &mut jobs[id]);
    }

    /// The job sleeps until something of it changes.
    pub fn settle_job(&mut self, id: JobId) {
        self.jobs[id].place.state = State::Settled;
    }

    /// Changes something of a job that need not be looked at for it: if nothing is to be decided for it, it sleeps on.
    pub(super) fn without_waking(&mut self, id: Option<JobId>, change: impl FnOnce(&mut Self)) {
        let settled = id.filter(|id| self.jobs[*id].place.state == State::Settled);
        if let Some(id) = settled {
            self.jobs[id].place.state = State::Awake;
        }
        change(self);
        if let Some(id) = settled {
            self.jobs[id].place.state = State::Settled;
        }
    }

    /// Puts a job into a herd: `flush` is when it is called in any case, `until` when its refusal may end by itself. Returns
    /// the number by which its entry in the herd is known.
    pub fn park(&mut self, id: JobId, herd: HerdId, until: Time, flush: Time) -> u32 {
        let serial = self.pools.next_serial();
        if until < Time::NEVER {
            self.call_at(id, until);
        }
        let Self { pools, jobs, .. } = self;
        let job = &mut jobs[id];
        if !job.place.listed {
            pools.flush.push_back((flush, id));
            job.place.listed = true;
        }
        let denied = job.is_denied();
        job.place = Place { state: State::Parked(herd), serial, first_of: None, denied, ..job.place };
        pools.herds.join(herd, job);
        serial
    }

    /// A cycle is due at this time, and looks at the job.
    pub fn call_at(&mut self, id: JobId, time: Time) {
        let place = &mut self.jobs[id].place;
        let time = place.timer.map_or(time, |known| known.min(time));
        if place.timer.replace(time) != Some(time) {
            self.pools.timers.push(Reverse((time, id)));
        }
    }

    /// Leaves a job alone for a while.
    pub fn put_off(&mut self, id: JobId, now: Time) {
        let serial = self.pools.next_serial();
        let Self { pools, jobs, .. } = self;
        let place = &mut jobs[id].place;
        let tries = place.tries.saturating_add(1);
        *place = Place { state: State::Off, serial, first_of: None, tries, ..*place };
        pools.off.push(Reverse((backoff(now, tries), id, serial)));
    }

    /// Leaves a herd alone for a while: its first was called in vain.
    pub fn put_off_herd(&mut self, herd: HerdId, until: Time) {
        self.pools.off_herds.push(Reverse((until, herd)));
    }

    /// Calls those whose time has come; at most `flushed` of those that are called in any case. Returns the herds whose turn
    /// it is again.
    pub fn call_due(&mut self, now: Time, flushed: usize) -> Vec<HerdId> {
        while let Some(Reverse((_, id, serial))) = self.pools.off.peek().copied().filter(|it| it.0.0 <= now) {
            self.pools.off.pop();
            let at = self.jobs.get(id).map(|job| job.place);
            if at.is_some_and(|place| place.state == State::Off && place.serial == serial) {
                self.call(id);
            }
        }
        while let Some(Reverse((time, id))) = self.pools.timers.peek().copied().filter(|it| it.0.0 <= now) {
            self.pools.timers.pop();
            let Some(job) = self.jobs.get_mut(id).filter(|job| job.place.timer == Some(time)) else {
                continue;
            };
            job.place.timer = None;
            self.call_if_aside(id);
        }
        for _ in 0..flushed {
            let Some((_, id)) = self.pools.flush.front().copied().filter(|(at, _)| *at <= now) else { break };
            self.pools.flush.pop_front();
            let Some(job) = self.jobs.get_mut(id) else { continue };
            job.place.listed = false;
            self.call_if_aside(id);
        }
        let mut herds = Vec::new();
        while let Some(Reverse((_, herd))) = self.pools.off_herds.peek().copied().filter(|it| it.0.0 <= now) {
            self.pools.off_herds.pop();
            herds.push(herd);
        }
        herds
    }

    fn call_if_aside(&mut self, id: JobId) {
        if matches!(self.jobs[id].place.state, State::Parked(_)) {
            self.call(id);
        }
    }

    /// When somebody is to be called though nothing happens.
    pub fn next_call(&self) -> Option<Time> {
        let off = self.pools.off.peek().map(|it| it.0.0);
        let herd = self.pools.off_herds.peek().map(|it| it.0.0);
        let timer = self.pools.timers.peek().map(|it| it.0.0);
        let passed_over = self.pools.herds.lineups.wake();
        off.into_iter().chain(herd).chain(timer).chain(passed_over).min()
    }

    /// When parked jobs are called next whatever happened.
    pub fn next_flush(&self) -> Option<Time> {
        self.pools.flush.front().map(|(time, _)| *time)
    }

    /// Whether anybody is awake, when a cycle has ended.
    pub fn any_awake(&self) -> bool {
        !self.pools.awake.is_empty()
    }

    /// Forgets who is no longer awake.
    pub fn tidy_awake(&mut self) {
        let jobs = self.awake_jobs();
        for id in &jobs {
            if let Some(herd) = self.jobs[*id].place.first_of.take() {
                self.doubt_herd(herd);
            }
        }
        self.pools.awake = jobs;
        self.forget_timers();
    }

    /// Nobody need be called any more who has nothing to wait for.
    fn forget_timers(&mut self) {
        while let Some(Reverse((time, id))) = self.pools.timers.peek().copied() {
            match self.jobs.get_mut(id).filter(|job| job.place.timer == Some(time)) {
                Some(job) if job.waiting() > 0 => return,
                Some(job) => job.place.timer = None,
                None => {}
            }
            self.pools.timers.pop();
        }
    }

    /// How many jobs are parked.
    pub fn parked(&self) -> usize {
        self.pools.herds.parked()
    }

    /// A queue was added, changed or removed.
    pub(super) fn queue_changed(&mut self, id: QueueId) {
        self.pools.changed_queues.push(id);
        self.doubt_queues();
        self.devices_moved_about();
    }

    /// How many jobs wait, by pool.
    pub fn pending(&self) -> Pending {
        let denied = self.pools.herds.denied();
        let mut pending = Pending {
            unschedulable: self.parked() - denied,
            backoff: self.off_jobs().count() + denied,
            ..Pending::default()
        };
        for id in self.awake_jobs() {
            let job = &self.jobs[id];
            let waits = job.waiting() > 0 || (job.phase == Phase::Pending && job.exists);
            let refused =
                !job.refusals.is_empty() && (!job.has_places() || job.grows()) && !job.had_no_turn();
            match (waits, refused) {
                (false, _) => {}
                _ if job.is_denied() => pending.backoff += 1,
                (true, true) => pending.unschedulable += 1,
                (true, false) => pending.active += 1,
            }
        }
        pending
    }

    fn off_jobs(&self) -> impl Iterator<Item = JobId> {
        self.pools.off.iter().filter_map(|it| {
            let (_, id, serial) = it.0;
            let place = self.jobs.get(id)?.place;
            (place.state == State::Off && place.serial == serial).then_some(id)
        })
    }
}

impl Job {
    /// Whether it sleeps and has something to wait for.
    pub(super) fn overslept(&self) -> bool {
        self.place.state == State::Settled && !self.is_settled()
    }

    /// Whether a search for it was left to the next cycle.
    pub fn had_no_turn(&self) -> bool {
        self.passed_over || self.unsearched
    }

    /// Whether nothing is to be decided for it until something of it changes.
    pub fn is_settled(&self) -> bool {
        let to_admit = self.phase == Phase::Pending && self.exists;
        self.waiting() == 0 && !to_admit && !self.had_no_turn() && self.refusals.is_empty()
    }

    /// Whether it is asked for others that wait for the same.
    pub fn is_called(&self) -> bool {
        self.place.first_of.is_some()
    }

    /// Whether any task of it has a node, or one that is promised.
    pub fn has_places(&self) -> bool {
        let placed = self.counts.total() - self.counts.of(super::Status::Pending);
        placed > 0
    }

    /// Whether it is parked since it was given this number.
    pub(super) fn is_parked_as(&self, serial: u32) -> bool {
        matches!(self.place.state, State::Parked(_)) && self.place.serial == serial
    }

    /// Whether it is the one that an entry in a herd means.
    pub fn is_entry(&self, herd: HerdId, serial: u32) -> bool {
        self.place.state == State::Parked(herd) && self.place.serial == serial
    }
}
