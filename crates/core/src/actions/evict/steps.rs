//! The budget of a search, in what a search for victims counts.
use super::{MAX_STEPS, MAX_STEPS_ARG, MAX_TIME, MAX_TIME_ARG};
use crate::budget::{Budget, Cut};
use crate::diagnosis::NoEviction;
use crate::session::Session;

/// Things that are looked at in the time in which one place is tried.
const SCANNED: usize = 16;

/// Steps that are left to an action in this cycle.
#[derive(Debug)]
pub(super) struct Steps(Budget);

impl Steps {
    /// What an action may take by its arguments.
    pub(super) fn of_action(session: &Session<'_>, action: &str) -> Self {
        let args = session.conf.action_args(action);
        let steps = args.int(MAX_STEPS_ARG.name, MAX_STEPS);
        Self(session.budget(steps, args.duration(MAX_TIME_ARG.name, MAX_TIME)))
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
