//! Properties of evictions against brute force: soundness holds in every case, completeness in a minimum share of
//! cases.
use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestError, TestRunner};

/// Of this many gangs for which brute force finds victims one may be refused, and one may break a
/// gang or evict a pod of higher priority although other victims would suffice.
const ONE_IN: u32 = 100;

/// Texts in refusals after a search that was not exhaustive.
const NOT_EXHAUSTIVE: [&str; 3] = ["not every", "too many", "was ended"];

/// Gangs that have to evict, counted over the cases of a property.
#[derive(Debug, Default)]
pub struct Rate {
    served: Cell<u32>,
    missed: Cell<u32>,
    /// Served gangs for which brute force finds cheaper victims.
    costly: Cell<u32>,
}

impl Rate {
    /// A gang was served by evictions.
    pub fn served(&self) {
        self.served.set(self.served.get() + 1);
    }

    /// A gang was refused though brute force finds victims; the refusal has to say that it was not exhaustive.
    pub fn missed(&self, reasons: &[String]) -> TestCaseResult {
        self.missed.set(self.missed.get() + 1);
        let says_so = reasons.iter().any(|reason| NOT_EXHAUSTIVE.iter().any(|text| reason.contains(text)));
        prop_assert!(says_so, "the refusal claims to be exhaustive: {reasons:?}");
        Ok(())
    }

    /// A gang was served although cheaper victims exist.
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
        // One more is allowed, because small numbers scatter.
        assert!(missed <= all.div_ceil(ONE_IN) + 1, "{name}: {missed} of {all} gangs were refused");
        assert!(costly <= served.div_ceil(ONE_IN) + 1, "{name}: {costly} of {served} gangs cost too much");
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
