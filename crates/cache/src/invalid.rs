//! What is wrong with an object, in one line.

use std::fmt;

use phalanx_cluster::diagnosis::clipped;

/// The longest part of a line in bytes: objects of a megabyte hold names and values that are as long.
const PART_MAX: usize = 512;

/// A field that cannot be honoured. `Display` gives `FIELD: PROBLEM`, such as
/// `spec.priority: found "high", expected an integer`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub struct Invalid {
    /// The path of the field, `spec.containers[0].resources.requests.cpu`; empty for the whole object.
    pub field: String,
    /// What was found and what was expected.
    pub problem: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", clipped(&self.field, PART_MAX))?;
        }
        f.write_str(&clipped(&self.problem, PART_MAX))
    }
}

impl Invalid {
    /// A problem with the field at hand; the callers put the path in front.
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self { field: String::new(), problem: problem.into() }
    }

    fn under(mut self, parent: &str) -> Self {
        let dot = if self.field.is_empty() || self.field.starts_with('[') { "" } else { "." };
        self.field = format!("{parent}{dot}{}", self.field);
        self
    }
}

/// Puts a path in front of an [`Invalid`]; costs nothing when all is well.
pub(crate) trait At<T> {
    /// In the field of this name.
    fn at(self, field: &str) -> Result<T, Invalid>;
    /// In this item of a list.
    fn item(self, index: usize) -> Result<T, Invalid>;
}

impl<T> At<T> for Result<T, Invalid> {
    fn at(self, field: &str) -> Self {
        self.map_err(|invalid| invalid.under(field))
    }

    fn item(self, index: usize) -> Self {
        self.map_err(|invalid| invalid.under(&format!("[{index}]")))
    }
}
