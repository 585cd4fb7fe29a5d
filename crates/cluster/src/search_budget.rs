//! Budgets of searches: steps, which are the same on every machine, and time, where a stopwatch measures it.
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// Measures time. The core has no clock: without one of these only steps are counted, so a run that is repeated ends
/// each search at the same point.
pub trait Stopwatch: Debug + Send + Sync {
    /// How much time has passed since a moment that stays the same.
    fn elapsed(&self) -> Duration;
}

/// Why a search was ended before it found an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cut {
    /// The search made its last step; the number of all steps.
    Steps(u64),
    /// The search took its time; in milliseconds.
    Time(u64),
}

impl Cut {
    /// Text for people.
    pub fn text(self) -> String {
        match self {
            Cut::Steps(steps) => format!("the search was ended after {steps} steps"),
            Cut::Time(ms) => format!("the search was ended after {ms} ms"),
        }
    }

    /// The argument of evicting actions that says how much it is.
    pub fn argument(self) -> &'static str {
        match self {
            Cut::Steps(_) => "maxSteps",
            Cut::Time(_) => "maxTime",
        }
    }
}

/// Steps between two looks at the time: looking costs a fraction of a step.
const STEPS_BETWEEN_CLOCK_READS: u64 = 16;

/// Steps and time that searches may still take.
#[derive(Clone, Debug)]
pub struct Budget {
    left: u64,
    all: u64,
    limit: Option<Deadline>,
    /// Steps until the next look at the time.
    untimed: u64,
    /// The time is over.
    late: bool,
}

#[derive(Clone, Debug)]
struct Deadline {
    stopwatch: Arc<dyn Stopwatch>,
    until: Duration,
    ms: u64,
}

impl Deadline {
    fn is_over(&self) -> bool {
        self.stopwatch.elapsed() >= self.until
    }
}

impl Budget {
    /// A budget of a number of steps, without a limit in time.
    pub fn new(steps: u64) -> Self {
        Self { left: steps, all: steps, limit: None, untimed: 0, late: false }
    }

    /// Limits it to so much time from now on, in place of an earlier limit. People are told of `ms` milliseconds.
    pub fn limit_time(&mut self, stopwatch: &Arc<dyn Stopwatch>, time: Duration, ms: u64) {
        let until = stopwatch.elapsed().saturating_add(time);
        self.limit = Some(Deadline { until, stopwatch: Arc::clone(stopwatch), ms });
        (self.untimed, self.late) = (0, false);
    }

    /// Takes the limit in time away.
    pub fn unlimit_time(&mut self) {
        (self.limit, self.late) = (None, false);
    }

    /// Takes steps before they are made. When there are too few, all are gone.
    pub fn spend(&mut self, steps: usize) -> Result<(), Cut> {
        let steps = steps as u64;
        if self.late {
            return Err(self.cut());
        }
        let Some(left) = self.left.checked_sub(steps) else {
            self.left = 0;
            return Err(self.cut());
        };
        self.left = left;
        match self.untimed.checked_sub(steps) {
            Some(untimed) => self.untimed = untimed,
            None if self.is_late() => {
                self.late = true;
                return Err(self.cut());
            }
            None => self.untimed = STEPS_BETWEEN_CLOCK_READS,
        }
        Ok(())
    }

    /// A part of what is free of it for one search, to be [given back](Self::give_back).
    pub fn part(&mut self, steps: u64, free: u64) -> Self {
        // Where it comes to its end, that is told of which there was too little.
        let all = if steps <= free { steps } else { self.all };
        let steps = steps.min(free);
        self.left -= steps;
        Self { left: steps, all, limit: self.limit.clone(), untimed: 0, late: self.late }
    }

    /// As [`spend`](Self::spend), and fails when half of the time is over.
    pub fn early_part(&mut self, steps: u64, free: u64) -> Self {
        let mut part = self.part(steps, free);
        if let Some(limit) = &mut part.limit {
            limit.until = limit.until.saturating_sub(Duration::from_millis(limit.ms / 2));
        }
        part
    }

    /// Takes back what is left of a part.
    pub fn give_back(&mut self, part: &Self) {
        self.left += part.left;
    }

    /// How many steps are left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Gives up what is left of the time.
    pub fn end_time(&mut self) {
        self.late = true;
    }

    /// Nothing was taken so far.
    pub fn is_whole(&self) -> bool {
        self.left == self.all
    }

    /// No steps are left.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// By what it is limited now.
    pub fn cut(&self) -> Cut {
        match &self.limit {
            Some(limit) if self.late => Cut::Time(limit.ms),
            _ => Cut::Steps(self.all),
        }
    }

    fn is_late(&self) -> bool {
        self.limit.as_ref().is_some_and(Deadline::is_over)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A millisecond passes with each look.
    #[derive(Debug, Default)]
    struct Ticking(AtomicU64);

    impl Stopwatch for Ticking {
        fn elapsed(&self) -> Duration {
            Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
        }
    }

    #[test]
    fn a_budget_of_steps_ends_at_the_same_step() {
        let mut budget = Budget::new(10);
        assert_eq!(budget.spend(10), Ok(()), "and without a stopwatch no time passes");
        assert_eq!(budget.spend(1), Err(Cut::Steps(10)));
        let mut budget = Budget::new(10);
        assert_eq!((budget.spend(11), budget.is_spent()), (Err(Cut::Steps(10)), true));
    }

    #[test]
    fn a_budget_of_time_ends_and_reads_the_stopwatch_every_few_steps() {
        let stopwatch: Arc<dyn Stopwatch> = Arc::new(Ticking::default());
        let mut budget = Budget::new(u64::MAX);
        budget.limit_time(&stopwatch, Duration::from_millis(5), 5);
        let steps = (0..1_000).take_while(|_| budget.spend(1).is_ok()).count() as u64;
        assert!((2 * STEPS_BETWEEN_CLOCK_READS..10 * STEPS_BETWEEN_CLOCK_READS).contains(&steps), "{steps}");
        assert_eq!((budget.cut(), budget.is_spent()), (Cut::Time(5), false));
        budget.limit_time(&stopwatch, Duration::from_millis(5), 5);
        assert_eq!(budget.spend(1), Ok(()), "the next search has time of its own");
    }

    #[test]
    fn a_part_of_a_budget_gives_back_unused_steps() {
        let mut budget = Budget::new(10);
        let mut part = budget.part(8, budget.left());
        assert_eq!(part.spend(3), Ok(()));
        budget.give_back(&part);
        let mut part = budget.part(8, budget.left());
        assert_eq!((part.left, budget.is_spent()), (7, true));
        assert_eq!(part.spend(8), Err(Cut::Steps(10)), "it was the whole that was too small");
    }
}
