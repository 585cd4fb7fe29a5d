//! The time of a cycle for searches, and its budget for searches for the placement of gangs.
//!
//! The searches of a cycle take [`CYCLE_MS`] together, so that pods that arrive meanwhile hardly wait. A search that
//! was cut short though it had most of this time gets twice as long in its next turn, up to `maxTime` of its action,
//! and has the turn after a hundred times the time that it took: see
//! [`FailedSearches`](crate::failed_searches::FailedSearches).
//!
//! Gangs are served in the same order in each cycle, so gangs at the end would never be searched for where the budget
//! does not last. A gang that was not searched for in a cycle goes first in the next one: the steps that it may need
//! and half of the time are kept for such gangs.
use std::sync::Arc;
use std::time::Duration;

use phalanx_cluster::id::JobId;
use phalanx_cluster::search_budget::{Budget, Cut, Stopwatch};

/// The most steps of the search for one gang.
const JOB_STEPS: u64 = 50_000;

/// All searches for the placement of gangs together take at most so many steps in a cycle.
const CYCLE_STEPS: u64 = 500_000;

/// The time that all searches of a cycle take together, in milliseconds.
const CYCLE_MS: u64 = 50;

/// What is left of the time of a cycle for searches of all kinds.
#[derive(Debug)]
pub(crate) struct SearchTime {
    stopwatch: Option<Arc<dyn Stopwatch>>,
    left: Duration,
    /// When the last search began.
    began: Duration,
}

/// The turn of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// The milliseconds that the search is to have.
    ms: u64,
    /// The search has most of that.
    whole: bool,
}

impl Turn {
    /// The milliseconds of a search that was cut short and that would not get further in the next cycle with as much.
    pub(crate) fn used_up(&self, cut: Cut) -> Option<u64> {
        (self.whole && matches!(cut, Cut::Time(_))).then_some(self.ms)
    }
}

impl SearchTime {
    pub(crate) fn new(stopwatch: Option<&Arc<dyn Stopwatch>>) -> Self {
        let began = stopwatch.map_or(Duration::ZERO, |stopwatch| stopwatch.elapsed());
        Self { stopwatch: stopwatch.cloned(), left: Duration::from_millis(CYCLE_MS), began }
    }

    /// A search begins, which gets what is left, or so many milliseconds if that is more. Its budget is limited to
    /// that.
    pub(crate) fn begin(&mut self, longer: Option<u64>, most: u64, budget: &mut Budget) -> Turn {
        let Some(stopwatch) = &self.stopwatch else {
            return Turn { ms: 0, whole: true };
        };
        let ms = longer.unwrap_or(CYCLE_MS).min(most);
        let whole_turn = Duration::from_millis(ms);
        let time =
            if longer.is_some() && !self.left.is_zero() { whole_turn } else { whole_turn.min(self.left) };
        budget.limit_time(stopwatch, time, ms);
        self.began = stopwatch.elapsed();
        Turn { ms, whole: 2 * time >= whole_turn }
    }

    /// The search is over.
    pub(crate) fn end(&mut self, budget: &mut Budget) {
        budget.unlimit_time();
        if let Some(stopwatch) = &self.stopwatch {
            let took = stopwatch.elapsed().saturating_sub(self.began);
            self.left = self.left.saturating_sub(took);
        }
    }

    /// Whether no time is left for a search that has not begun.
    pub(crate) fn is_spent(&self) -> bool {
        self.left.is_zero()
    }

    /// What to say where no time is left.
    pub(crate) fn cut() -> Cut {
        Cut::Time(CYCLE_MS)
    }
}

/// What is left of the budget for searches for the placement of gangs.
#[derive(Debug)]
pub(crate) struct PlacementBudget {
    budget: Budget,
    /// Number of jobs without a search in the last cycle that were not served in this one.
    deferred: u64,
    /// The job is one of these that is being served.
    deferred_job: Option<JobId>,
    /// No search took steps before the job that is being served.
    had_all: bool,
}

impl PlacementBudget {
    pub(crate) fn new() -> Self {
        Self { budget: Budget::new(CYCLE_STEPS), deferred: 0, deferred_job: None, had_all: false }
    }

    /// The budget, for the time of a search to limit it.
    pub(crate) fn budget(&mut self) -> &mut Budget {
        &mut self.budget
    }

    /// Sets the number of jobs without a search in the last cycle.
    pub(crate) fn set_deferred_jobs(&mut self, jobs: usize) {
        self.deferred = jobs as u64;
    }

    /// Starts serving a job; `deferred` when it is one without a search in the last cycle.
    pub(crate) fn begin_job(&mut self, deferred: Option<JobId>) {
        self.had_all = self.budget.is_whole();
        if deferred.is_some() {
            self.deferred = self.deferred.saturating_sub(1);
            self.deferred_job = deferred;
        }
    }

    /// Whether the job that is being served would get a larger budget in the next cycle.
    pub(crate) fn may_get_more(&self) -> bool {
        !self.had_all
    }

    /// The budget of one search for a job; the rest is to be [given back](Self::give_back).
    pub(crate) fn part(&mut self, job: JobId) -> Budget {
        let free = self.free(job);
        if self.waits(job) {
            self.budget.early_part(JOB_STEPS, free)
        } else {
            self.budget.part(JOB_STEPS, free)
        }
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
        let kept = if self.waits(job) { self.deferred.saturating_mul(JOB_STEPS) } else { 0 };
        self.budget.left().saturating_sub(kept)
    }

    /// Whether other jobs go before the job that is being served.
    fn waits(&self, job: JobId) -> bool {
        self.deferred > 0 && self.deferred_job != Some(job)
    }

    /// Whether a search that was cut short may get further in another cycle.
    pub(crate) fn is_cut_short(cut: Cut) -> bool {
        cut != Cut::Steps(JOB_STEPS)
    }
}
