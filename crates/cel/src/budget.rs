//! The budget of evaluations, in steps of about ten nanoseconds.
//!
//! Work that takes time or memory is charged before it is done. An evaluation without budget ends with an error, also
//! where another operand would decide the answer.
use std::collections::BTreeMap;

use crate::Error;
use crate::pattern::Pattern;

/// The number of regular expressions, compiled during evaluations, that are kept.
const PATTERNS_MAX: usize = 16;

/// Steps that are left, and the regular expressions that were prepared with them.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    left: u64,
    patterns: BTreeMap<String, Pattern>,
}

impl Budget {
    /// A budget of this many steps.
    pub fn new(steps: u64) -> Self {
        Self { left: steps, patterns: BTreeMap::new() }
    }

    /// Steps that are left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Adds steps.
    pub fn add(&mut self, steps: u64) {
        self.left = self.left.saturating_add(steps);
    }

    /// Whether no steps are left.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Takes steps; where fewer are left, takes all of them and fails.
    pub(crate) fn charge(&mut self, steps: u64) -> Result<(), Error> {
        let left = self.left.checked_sub(steps);
        self.left = left.unwrap_or(0);
        left.map(|_| ()).ok_or_else(|| Error("it takes too many steps".to_owned()))
    }

    /// Runs a closure that may take at most this many steps.
    pub(crate) fn within<T>(&mut self, most: u64, run: impl FnOnce(&mut Self) -> T) -> T {
        let rest = self.left.saturating_sub(most);
        self.left -= rest;
        let result = run(self);
        self.left += rest;
        result
    }

    /// Whether text matches a regular expression that is made anew only if it is not known.
    pub(crate) fn matches(&mut self, text: &str, pattern: &str) -> Result<bool, Error> {
        let known = match self.patterns.get(pattern) {
            Some(known) => known.clone(),
            None => Pattern::new(pattern, self)?,
        };
        let matches = known.matches(text, self);
        if self.patterns.len() >= PATTERNS_MAX && !self.patterns.contains_key(pattern) {
            self.patterns.clear();
        }
        self.patterns.insert(pattern.to_owned(), known);
        matches
    }
}
