//! Problems of input files, one line each.
use std::fmt;

use crate::printable::printable;

/// A problem of the input with its place. `Display` gives the line:
/// `FILE:LINE:COLUMN: document N: KIND NAMESPACE/NAME: FIELD: what was found, what was expected`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BadInput {
    /// The file, as the caller named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1; 0 when only the line is known.
    pub column: usize,
    /// The document in the file, from 1; 0 when there is none.
    pub document: usize,
    /// `Kind namespace/name`, as far as it is known.
    pub object: String,
    /// The path of the field; empty if the problem is not in a single field.
    pub field: String,
    /// The found text and the expectation.
    pub problem: String,
}

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", printable(&self.file), self.line)?;
        if self.column > 0 {
            write!(f, "{}:", self.column)?;
        }
        f.write_str(" ")?;
        if self.document > 0 {
            write!(f, "document {}: ", self.document)?;
        }
        for part in [&self.object, &self.field] {
            if !part.is_empty() {
                write!(f, "{}: ", printable(part))?;
            }
        }
        f.write_str(&printable(&one_line(&self.problem)))
    }
}

impl std::error::Error for BadInput {}

/// The problems of an invalid input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// All problems, by file and line.
    pub faults: Vec<BadInput>,
    /// Notes on ignored objects, a line each.
    pub notes: Vec<String>,
}

/// Joins the lines of a parser's message: a problem is one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_line_without_unknown_parts() {
        let mut fault = BadInput {
            file: "a.yaml".into(),
            line: 3,
            document: 1,
            problem: "found\n  x".into(),
            ..BadInput::default()
        };
        assert_eq!(fault.to_string(), "a.yaml:3: document 1: found x");
        fault.column = 5;
        fault.object = "Pod a/b".into();
        fault.field = "spec".into();
        assert_eq!(fault.to_string(), "a.yaml:3:5: document 1: Pod a/b: spec: found x");
    }
}
