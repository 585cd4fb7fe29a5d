//! The budget of a search: counted steps, so that it ends at the same point wherever it runs.
use crate::diagnosis::NoEviction;

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

    /// How many there were.
    pub(super) fn all(&self) -> u64 {
        self.all
    }

    /// There are none left.
    pub(super) fn are_spent(&self) -> bool {
        self.left == 0
    }
}
