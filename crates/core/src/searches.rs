//! What searches for the places of gangs may take in a cycle, and whose turn it is.
//!
//! Gangs are served in the same order in each cycle, so those at the end would never get a search where there is too
//! little for all. Whoever got none goes first in the next cycle: the steps they may need are kept for them from those
//! before, and half of the time.
use phalanx_cluster::budget::{Budget, Cut};
use phalanx_cluster::id::JobId;

/// Steps that the search for one gang may take.
const MOST: u64 = 50_000;

/// What is left of it.
#[derive(Debug)]
pub(crate) struct Searches {
    budget: Budget,
    /// Jobs that got no search in the last cycle and had no turn in this one.
    owed: u64,
    /// The one of them that is being served.
    due: Option<JobId>,
    /// Nothing was taken before the one that is being served.
    had_all: bool,
}

impl Searches {
    pub(crate) fn new(budget: Budget) -> Self {
        Self { budget, owed: 0, due: None, had_all: false }
    }

    /// So many are to be served that got none in the last cycle.
    pub(crate) fn owe(&mut self, jobs: usize) {
        self.owed = jobs as u64;
    }

    /// A job is served that got none in the last cycle, or did not ask for it.
    pub(crate) fn serve(&mut self, job: JobId, got_none: bool) {
        self.had_all = self.budget.is_whole();
        if got_none {
            self.owed = self.owed.saturating_sub(1);
            self.due = Some(job);
        }
    }

    /// Whether the job that is being served would get more of it in the next cycle.
    pub(crate) fn may_get_more(&self) -> bool {
        !self.had_all
    }

    /// A part for one search for a job, to be [given back](Self::give_back).
    pub(crate) fn part(&mut self, job: JobId) -> Budget {
        let free = self.free(job);
        if self.waits(job) { self.budget.early_part(MOST, free) } else { self.budget.part(MOST, free) }
    }

    pub(crate) fn give_back(&mut self, part: &Budget) {
        self.budget.give_back(part);
    }

    /// Takes steps for a job before they are made.
    pub(crate) fn spend(&mut self, job: JobId, steps: usize) -> Result<(), Cut> {
        if self.free(job) < steps as u64 {
            return Err(self.budget.cut());
        }
        self.budget.spend(steps)
    }

    /// Steps that are left.
    pub(crate) fn left(&self) -> u64 {
        self.budget.left()
    }

    /// What is not kept for others.
    fn free(&self, job: JobId) -> u64 {
        let kept = if self.waits(job) { self.owed.saturating_mul(MOST) } else { 0 };
        self.budget.left().saturating_sub(kept)
    }

    /// Whether others go before it.
    fn waits(&self, job: JobId) -> bool {
        self.owed > 0 && self.due != Some(job)
    }

    /// Whether a search that was ended so would go on with what it may take in another cycle.
    pub(crate) fn is_cut_short(cut: Cut) -> bool {
        cut != Cut::Steps(MOST)
    }
}
