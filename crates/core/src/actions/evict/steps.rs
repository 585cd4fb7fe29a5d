//! The budget of a search, in what a search for victims counts.
use crate::budget::{Budget, Cut};
use crate::diagnosis::NoEviction;

/// Things that are looked at in the time in which one place is tried.
const SCANNED: usize = 16;

/// Steps that are left to an action in this cycle.
#[derive(Debug)]
pub(super) struct Steps(Budget);

impl Steps {
    pub(super) fn new(budget: Budget) -> Self {
        Self(budget)
    }

    /// Takes steps before they are made.
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), NoEviction> {
        self.0.spend(steps).map_err(NoEviction::Cut)
    }

    /// Takes steps for looking at so many things, each of which costs a fraction of trying a place.
    pub(super) fn scan(&mut self, things: usize) -> Result<(), NoEviction> {
        self.spend(things.div_ceil(SCANNED))
    }

    /// None was taken so far.
    pub(super) fn are_whole(&self) -> bool {
        self.0.is_whole()
    }

    /// There are none left.
    pub(super) fn are_spent(&self) -> bool {
        self.0.is_spent()
    }

    /// There is no time left.
    pub(super) fn ended_by_time(&self) -> bool {
        self.are_spent() && matches!(self.0.cut(), Cut::Time(_))
    }

    /// What to say when there are none left.
    pub(super) fn ended(&self) -> NoEviction {
        NoEviction::Cut(self.0.cut())
    }
}
