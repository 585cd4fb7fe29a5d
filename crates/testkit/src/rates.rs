//! Properties of gangs and evictions against brute force: soundness holds in every case, completeness in 99 of 100
//! cases.
use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestError, TestRunner};

/// Of this many gangs that brute force could serve one may be refused, and one may be served at too high a cost: it
/// breaks a gang, evicts a pod of higher priority or starts late although another plan would do.
const ONE_IN: u32 = 100;

/// Texts in refusals after a search that was not exhaustive.
const NOT_EXHAUSTIVE: [&str; 3] = ["not every", "too many", "was ended"];

/// Gangs that brute force could serve, counted over the cases of a property.
#[derive(Debug, Default)]
pub struct Rate {
    served: Cell<u32>,
    missed: Cell<u32>,
    /// Served gangs for which brute force finds a cheaper plan.
    costly: Cell<u32>,
}

impl Rate {
    /// A gang was served.
    pub fn served(&self) {
        self.served.set(self.served.get() + 1);
    }

    /// No victims were found though brute force finds some; the refusal has to say that it was not exhaustive.
    pub fn missed(&self, reasons: &[String]) -> TestCaseResult {
        self.missed.set(self.missed.get() + 1);
        let says_so = reasons.iter().any(|reason| NOT_EXHAUSTIVE.iter().any(|text| reason.contains(text)));
        prop_assert!(says_so, "the refusal claims to be exhaustive: {reasons:?}");
        Ok(())
    }

    /// A gang was not placed though brute force places it. `allocate` names what one pod lacks and claims nothing about
    /// other orders of the gang's pods.
    pub fn not_placed(&self) {
        self.missed.set(self.missed.get() + 1);
    }

    /// A gang was served although brute force finds a cheaper plan.
    pub fn costly(&self) {
        self.costly.set(self.costly.get() + 1);
    }

    /// A property with a rate holds in this case.
    pub fn right(&self) {
        self.served();
    }

    /// A property with a rate does not hold in this case.
    pub fn wrong(&self) {
        self.served();
        self.costly();
    }

    fn check(&self, name: &str) {
        let (served, missed, costly) = (self.served.get(), self.missed.get(), self.costly.get());
        println!("{name}: {served} of {} gangs served, {costly} of them at a cost too high", served + missed);
        let all = served + missed;
        assert!(served > 0, "{name}: none of {all} gangs was served");
        // Of fewer than a hundred gangs one may be missed.
        assert!(missed <= all.div_ceil(ONE_IN), "{name}: {missed} of {all} gangs were refused");
        assert!(costly <= served.div_ceil(ONE_IN), "{name}: {costly} of {served} gangs cost too much");
    }
}

/// Checks soundness in each case, and then the rates that the checks counted.
pub fn holds<S: Strategy>(
    name: &str,
    cases: u32,
    strategy: S,
    check: impl Fn(&S::Value, &Rate) -> TestCaseResult,
) {
    let rate = Rate::default();
    let outcome =
        TestRunner::new(ProptestConfig::with_cases(cases)).run(&strategy, |case| check(&case, &rate));
    match outcome {
        Ok(()) => rate.check(name),
        Err(TestError::Fail(why, case)) => panic!("{name}: {why}\n{case:#?}"),
        Err(TestError::Abort(why)) => panic!("{name}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(served: u32, missed: u32) -> Rate {
        Rate { served: Cell::new(served), missed: Cell::new(missed), costly: Cell::new(0) }
    }

    #[test]
    fn one_gang_of_a_hundred_may_be_missed() {
        for (served, missed) in [(1, 0), (18, 1), (99, 1), (198, 2)] {
            rate(served, missed).check("enough");
        }
    }

    #[test]
    #[should_panic(expected = "none of 0 gangs was served")]
    fn a_property_without_a_gang_to_serve_fails() {
        rate(0, 0).check("none");
    }

    #[test]
    #[should_panic(expected = "none of 1 gangs was served")]
    fn a_planner_that_never_serves_fails_also_with_few_gangs() {
        rate(0, 1).check("none");
    }

    #[test]
    #[should_panic(expected = "2 of 100 gangs were refused")]
    fn two_missed_gangs_of_a_hundred_fail() {
        rate(98, 2).check("too many");
    }
}
