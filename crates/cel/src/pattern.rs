//! Regular expressions. Those of Go's RE2 are read by the crate `regex`, whose syntax and guarantees are the same: time
//! grows with the text only.
use regex::{Regex, RegexBuilder};

use crate::Error;
use crate::budget::Budget;

/// What one may take when it is prepared, in KiB: tried in this order, so that a large one is paid for before it is
/// made.
const SIZES_KIB: [u64; 3] = [16, 128, 1024];
/// Groups within each other at most.
const NEST_MAX: u32 = 50;

/// Steps of preparing one: for each attempt, for a character, and for a KiB that it may take.
const ATTEMPT_STEPS: u64 = 1_000;
const CHARACTER_STEPS: u64 = 100;
const KIB_STEPS: u64 = 200;
/// A character of the text takes a step, and one more for so many KiB.
const MATCH_KIB: u64 = 64;

/// A regular expression that was read. Equal texts are equal.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    size_kib: u64,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.regex.as_str() == other.regex.as_str()
    }
}

impl Pattern {
    pub(crate) fn new(text: &str, budget: &mut Budget) -> Result<Self, Error> {
        let mut problem = String::new();
        for size_kib in SIZES_KIB {
            let characters = text.len() as u64 * CHARACTER_STEPS;
            budget.charge(ATTEMPT_STEPS + characters + size_kib * KIB_STEPS)?;
            let bytes = (size_kib as usize) << 10;
            let mut builder = RegexBuilder::new(text);
            match builder.size_limit(bytes).dfa_size_limit(bytes).nest_limit(NEST_MAX).build() {
                Ok(regex) => return Ok(Self { regex, size_kib }),
                Err(error @ regex::Error::CompiledTooBig(_)) => problem = reason(&error),
                Err(error) => return Err(unreadable(text, &reason(&error))),
            }
        }
        Err(unreadable(text, &problem))
    }

    /// Anywhere in the text.
    pub(crate) fn matches(&self, text: &str, budget: &mut Budget) -> Result<bool, Error> {
        budget.charge(1 + text.len() as u64 * (1 + self.size_kib / MATCH_KIB))?;
        Ok(self.regex.is_match(text))
    }
}

fn unreadable(text: &str, problem: &str) -> Error {
    Error(format!("{text:?} is no regular expression: {problem}"))
}

/// The last line of several, in which the crate draws the place.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}
