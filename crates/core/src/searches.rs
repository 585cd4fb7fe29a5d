//! The budget of a cycle for searches for the placement of gangs, shared fairly between gangs.
//!
//! Gangs are served in the same order in each cycle, so gangs at the end would never be searched for where the budget
//! does not last. A gang that was not searched for in a cycle goes first in the next one: the steps that it may need
//! and half of the time are kept for such gangs.
use phalanx_cluster::budget::{Budget, Cut};
use phalanx_cluster::id::JobId;

/// The most steps of the search for one gang.
const MOST: u64 = 50_000;

/// What is left of the budget.
#[derive(Debug)]
pub(crate) struct Searches {
    budget: Budget,
    /// Number of jobs without a search in the last cycle that were not served in this one.
    owed: u64,
    /// The job is one of these that is being served.
    due: Option<JobId>,
    /// No search took steps before the job that is being served.
    had_all: bool,
}

impl Searches {
    pub(crate) fn new(budget: Budget) -> Self {
        Self { budget, owed: 0, due: None, had_all: false }
    }

    /// Sets the number of jobs without a search in the last cycle.
    pub(crate) fn owe(&mut self, jobs: usize) {
        self.owed = jobs as u64;
    }

    /// Starts serving a job, which may be one without a search in the last cycle.
    pub(crate) fn serve(&mut self, job: JobId, got_none: bool) {
        self.had_all = self.budget.is_whole();
        if got_none {
            self.owed = self.owed.saturating_sub(1);
            self.due = Some(job);
        }
    }

    /// Whether the job that is being served would get a larger budget in the next cycle.
    pub(crate) fn may_get_more(&self) -> bool {
        !self.had_all
    }

    /// The budget of one search for a job; the rest is to be [given back](Self::give_back).
    pub(crate) fn part(&mut self, job: JobId) -> Budget {
        let free = self.free(job);
        if self.waits(job) { self.budget.early_part(MOST, free) } else { self.budget.part(MOST, free) }
    }

    pub(crate) fn give_back(&mut self, part: &Budget) {
        self.budget.give_back(part);
    }

    /// Takes steps of a job in advance.
    pub(crate) fn spend(&mut self, job: JobId, steps: usize) -> Result<(), Cut> {
        if self.free(job) < steps as u64 {
            return Err(self.budget.cut());
        }
        self.budget.spend(steps)
    }

    /// Steps left.
    pub(crate) fn left(&self) -> u64 {
        self.budget.left()
    }

    /// Steps that are not kept for other jobs.
    fn free(&self, job: JobId) -> u64 {
        let kept = if self.waits(job) { self.owed.saturating_mul(MOST) } else { 0 };
        self.budget.left().saturating_sub(kept)
    }

    /// Whether other jobs go before the job that is being served.
    fn waits(&self, job: JobId) -> bool {
        self.owed > 0 && self.due != Some(job)
    }

    /// Whether a search that was cut short may get further in another cycle.
    pub(crate) fn is_cut_short(cut: Cut) -> bool {
        cut != Cut::Steps(MOST)
    }
}
