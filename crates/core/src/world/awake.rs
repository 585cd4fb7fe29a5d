//! Jobs that a cycle has to look at: those that wait, and those that changed since the last one.
//!
//! A cluster has many jobs that run and nothing is to be decided for. They are settled: their statuses are written, and
//! until something of theirs changes, a cycle would come to the same.
use super::promise::{Promise, Promises};
use super::{Job, World};
use crate::event::Phase;
use crate::id::JobId;

/// Whether a job is among them. No part of what the World is: undoing a change need not put it to sleep again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Awake {
    yes: bool,
    /// What was counted of it when it fell asleep.
    promise: Option<Box<Promise>>,
}

impl PartialEq for Awake {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The jobs that are awake, and some that are gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct AwakeJobs {
    jobs: Vec<JobId>,
    /// Of the jobs that sleep.
    promises: Promises,
}

impl PartialEq for AwakeJobs {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl AwakeJobs {
    #[inline]
    pub(super) fn add(&mut self, id: JobId, job: &mut Job) {
        if !job.awake.yes {
            job.awake.yes = true;
            self.jobs.push(id);
            if let Some(promise) = job.awake.promise.take() {
                self.promises.sub(&promise);
            }
        }
    }

    /// Whatever changes of a job wakes it: until then, what it was promised stays.
    fn settle(&mut self, job: &mut Job) {
        job.awake = Awake { yes: false, promise: Promise::of(job).map(Box::new) };
        job.awake.promise.iter().for_each(|promise| self.promises.add(promise));
    }

    pub(super) fn promises(&self) -> &Promises {
        &self.promises
    }
}

impl World {
    /// Something of a job changed.
    pub(crate) fn wake_job(&mut self, id: JobId) {
        self.awake.add(id, &mut self.jobs[id]);
    }

    /// What counts for jobs changed: the configuration, say.
    pub(crate) fn wake_all_jobs(&mut self) {
        for id in self.jobs.ids().collect::<Vec<_>>() {
            self.wake_job(id);
        }
    }

    /// Jobs that are not settled, by id.
    pub(crate) fn awake_jobs(&self) -> Vec<JobId> {
        let mut jobs = self.awake.jobs.clone();
        jobs.retain(|id| self.jobs.get(*id).is_some_and(|job| job.awake.yes));
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// Those of them that have tasks to place.
    pub(crate) fn waiting_jobs(&self) -> impl Iterator<Item = (JobId, &Job)> {
        let waiting = self.awake_jobs().into_iter().map(|id| (id, &self.jobs[id]));
        waiting.filter(|(_, job)| job.waiting() > 0)
    }

    /// The cycle ends: jobs that wait for nothing sleep until something of theirs changes.
    pub(crate) fn settle_jobs(&mut self) {
        let mut jobs = self.awake_jobs();
        jobs.retain(|id| {
            let job = &mut self.jobs[*id];
            if job.is_settled() {
                self.awake.settle(job);
            }
            job.awake.yes
        });
        self.awake.jobs = jobs;
    }

    /// Whether the sums of what jobs that sleep were promised are those of the jobs.
    pub(super) fn promises_are_kept(&self) -> bool {
        let mut sums = Promises::default();
        let asleep = || self.jobs.iter().map(|(_, job)| job).filter(|job| !job.awake.yes);
        asleep().filter_map(Promise::of).for_each(|promise| sums.add(&promise));
        let noted = |job: &Job| Promise::of(job).as_ref() == job.awake.promise.as_deref();
        asleep().all(noted) && self.awake.promises.are(&sums)
    }
}

impl Job {
    /// Whether it sleeps and has something to wait for.
    pub(super) fn overslept(&self) -> bool {
        !self.awake.yes && !self.is_settled()
    }

    fn is_settled(&self) -> bool {
        let to_admit = self.phase == Phase::Pending && self.exists;
        self.waiting() == 0 && !to_admit && !self.passed_over && self.refusals.is_empty()
    }
}
