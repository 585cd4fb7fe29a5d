//! Regular expressions. Those of Go's RE2 are read by the crate `regex`, whose syntax and guarantees are the same: time
//! grows with the text only.
use regex::{Regex, RegexBuilder};

use crate::Error;

/// What one may take when it is prepared, in bytes.
const SIZE_MAX: usize = 1 << 20;

/// A regular expression that was read. Equal texts are equal.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Result<Self, Error> {
        let read = RegexBuilder::new(text).size_limit(SIZE_MAX).build();
        read.map(Self)
            .map_err(|error| Error(format!("{text:?} is no regular expression: {}", reason(&error))))
    }

    /// Anywhere in the text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// The last line of several, in which the crate draws the place.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}
