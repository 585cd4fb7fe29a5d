//! The budget of an action that evicts, in steps and in time.
use crate::searches::Turn;
use crate::session::Session;
use phalanx_cluster::diagnosis::NoEviction;
use phalanx_cluster::search_budget::{Budget, Cut};
use phalanx_framework::conf::{Allowed, ArgKind, ArgSpec, Otherwise, Rule};

/// Of steps and milliseconds.
const BUDGET: Rule = Rule::new(Allowed::AtLeast(0), Otherwise::Does("the action finds nothing"));

/// How many steps an action may make in a cycle: a few tenths of a second.
const MAX_STEPS: i64 = 200_000;

/// The argument every evicting action has.
pub(crate) const MAX_STEPS_ARG: ArgSpec = ArgSpec {
    name: "maxSteps",
    kind: ArgKind::Int(&[BUDGET]),
    default: "200000",
    doc: "How many steps (mainly places tried, and victims put back) the action may make in a cycle. When they are used \
          up, the jobs that had no turn go first in the next cycle.",
};

/// How long one search of an action may take, in milliseconds.
const MAX_TIME_MS: i64 = 1_000;

/// The other argument every evicting action has.
pub(crate) const MAX_TIME_ARG: ArgSpec = ArgSpec {
    name: "maxTime",
    kind: ArgKind::Duration(&[BUDGET]),
    default: "1s",
    doc: "How long one search of the action may take on a cluster. The searches of a cycle take 50 ms together; one that was \
          cut short gets twice as long in its next turn, up to this. simulate counts steps only, so that it always comes \
          out the same. What allocate decided is carried out meanwhile.",
};

/// Things that are looked at in the time in which one place is tried.
const SCANS_PER_STEP: usize = 16;

/// Steps that backtracking may take to place one preemptor, where placing one by one fails.
const BACKTRACKING_STEPS: u64 = 20_000;

/// Steps that are left to an action in this cycle.
#[derive(Debug)]
pub(crate) struct Steps {
    budget: Budget,
    /// The most milliseconds of one search.
    most_ms: u64,
    /// What backtracking may still take for the preemptor.
    backtracking: u64,
    /// Backtracking did not try every way.
    gave_up: bool,
}

impl Steps {
    /// What an action may take by its arguments.
    pub(crate) fn of_action(session: &Session<'_>, action: &str) -> Self {
        let args = session.conf.action_args(action);
        let steps = args.int(MAX_STEPS_ARG.name, MAX_STEPS);
        let count = |number: i64| u64::try_from(number).unwrap_or_default();
        let most_ms = count(args.duration_ms(MAX_TIME_ARG.name, MAX_TIME_MS));
        Self { budget: Budget::new(count(steps)), most_ms, backtracking: BACKTRACKING_STEPS, gave_up: false }
    }

    /// A search begins that was cut short before if its turn is `longer`.
    pub(crate) fn begin_turn(&mut self, session: &mut Session<'_>, longer: Option<u64>) -> Turn {
        session.search_time.begin(longer, self.most_ms, &mut self.budget)
    }

    /// The search is over.
    pub(crate) fn end_turn(&mut self, session: &mut Session<'_>) {
        session.search_time.end(&mut self.budget);
    }

    /// Another preemptor, or another question about it.
    pub(crate) fn begin(&mut self) {
        (self.backtracking, self.gave_up) = (BACKTRACKING_STEPS, false);
    }

    /// Looks for a way with what may be spent on that. One that was not found may be there all the same when the search
    /// [gave up](Self::gave_up).
    pub(crate) fn backtrack(
        &mut self,
        search: impl FnOnce(&mut Budget) -> Result<bool, Cut>,
    ) -> Result<bool, NoEviction> {
        let mut part = self.budget.part(self.backtracking, self.budget.left());
        let before = part.left();
        let found = search(&mut part);
        self.backtracking -= before - part.left();
        self.budget.give_back(&part);
        match found {
            Err(Cut::Time(_)) => self.budget.end_time(),
            Err(Cut::Steps(_)) => self.gave_up = true,
            Ok(found) => return Ok(found),
        }
        self.spend(1).map(|()| false)
    }

    /// Sets aside all but so many, and half of the time.
    #[must_use]
    pub(crate) fn set_aside(&mut self, most: u64) -> Budget {
        self.begin();
        let part = self.budget.early_part(most, self.budget.left());
        std::mem::replace(&mut self.budget, part)
    }

    /// Takes back what was set aside, with what is left besides.
    pub(crate) fn take_back(&mut self, aside: Budget) {
        self.begin();
        let part = std::mem::replace(&mut self.budget, aside);
        self.budget.give_back(&part);
    }

    /// Records that the search was not exhaustive.
    pub(crate) fn give_up(&mut self) {
        self.gave_up = true;
    }

    /// Whether the search was not exhaustive.
    pub(crate) fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// Takes steps before they are made.
    pub(crate) fn spend(&mut self, steps: usize) -> Result<(), NoEviction> {
        self.budget.spend(steps).map_err(NoEviction::Cut)
    }

    /// Takes steps for looking at so many things, each of which costs a fraction of trying a place.
    pub(crate) fn scan(&mut self, things: usize) -> Result<(), NoEviction> {
        self.spend(things.div_ceil(SCANS_PER_STEP))
    }

    /// Steps left.
    pub(crate) fn left(&self) -> u64 {
        self.budget.left()
    }

    /// Whether no step was spent so far.
    pub(crate) fn are_whole(&self) -> bool {
        self.budget.is_whole()
    }

    /// Whether no steps are left.
    pub(crate) fn are_spent(&self) -> bool {
        self.budget.is_spent()
    }

    /// The limit that ended the last search.
    pub(crate) fn cut(&self) -> Cut {
        self.budget.cut()
    }
}
