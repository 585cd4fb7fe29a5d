//! The budget of a search: counted steps, so that it ends at the same point wherever it runs.
use crate::diagnosis::NoEviction;

/// Things that are looked at in the time in which one place is tried.
const SCANNED: usize = 16;

/// Steps that are left to an action in this cycle.
#[derive(Debug)]
pub(super) struct Steps {
    left: u64,
    all: u64,
}

impl Steps {
    pub(super) fn new(all: u64) -> Self {
        Self { left: all, all }
    }

    /// Takes steps before they are made.
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), NoEviction> {
        let Some(left) = self.left.checked_sub(steps as u64) else {
            self.left = 0;
            return Err(NoEviction::Steps(self.all));
        };
        self.left = left;
        Ok(())
    }

    /// Takes steps for looking at so many things, each of which costs a fraction of trying a place.
    pub(super) fn scan(&mut self, things: usize) -> Result<(), NoEviction> {
        self.spend(things.div_ceil(SCANNED))
    }

    /// How many there were.
    pub(super) fn all(&self) -> u64 {
        self.all
    }

    /// There are none left.
    pub(super) fn are_spent(&self) -> bool {
        self.left == 0
    }
}
