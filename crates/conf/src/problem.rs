//! A problem of a file: its place, what was found, and what was expected instead.
use std::fmt;

use phalanx_framework::conf::Position;

/// The first character of a file.
pub(crate) const START: Position = Position { line: 1, column: 1 };

/// Whether a problem keeps the file from taking effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The file must not take effect.
    Error,
    /// The file works, but probably not as its author thinks.
    Warning,
    /// Volcano knows it and this version does not; the rest of the file works.
    Unsupported,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Unsupported => "not supported",
        })
    }
}

/// One problem. Its text is one line; the severity is the caller's to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// Where it is.
    pub at: Position,
    /// What was found.
    pub what: String,
    /// What would have been right.
    pub expected: String,
}

impl Problem {
    /// `FILE:LINE:COLUMN: what; expected what`, as every command and the log say it.
    pub fn in_file(&self, file: &str) -> String {
        let Position { line, column } = self.at;
        format!("{file}:{line}:{column}: {}", self.message())
    }

    /// `what; expected what`, on one line whatever the file names.
    pub fn message(&self) -> String {
        let text = format!("{}; expected {}", self.what, self.expected);
        text.split(char::is_control).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn error(at: Position, what: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { severity: Severity::Error, at, what: what.into(), expected: expected.into() }
    }
}

/// Without the name of the file.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = self.at;
        write!(f, "line {line}, column {column}: {}", self.message())
    }
}

impl std::error::Error for Problem {}

/// Collects problems, so that one reading of a file reports all of them.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    pub(crate) fn error(&mut self, at: Position, what: impl Into<String>, expected: impl Into<String>) {
        self.0.push(Problem::error(at, what, expected));
    }

    pub(crate) fn warning(&mut self, at: Position, what: impl Into<String>, expected: impl Into<String>) {
        self.0.push(Problem { severity: Severity::Warning, ..Problem::error(at, what, expected) });
    }

    pub(crate) fn unsupported(&mut self, at: Position, what: impl Into<String>, expected: impl Into<String>) {
        self.0.push(Problem { severity: Severity::Unsupported, ..Problem::error(at, what, expected) });
    }

    pub(crate) fn any_error(&self) -> bool {
        self.0.iter().any(|problem| problem.severity == Severity::Error)
    }

    pub(crate) fn error_at(&self, at: Position) -> bool {
        self.0.iter().any(|problem| problem.severity == Severity::Error && problem.at == at)
    }

    pub(crate) fn push(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    /// By position. What an alias repeats is said once.
    pub(crate) fn sorted(mut self) -> Vec<Problem> {
        self.0.sort_by_key(|problem| problem.at);
        self.0.dedup();
        self.0
    }
}

/// Text from the file as part of a message: quoted, on one line, and not too long.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN_MAX: usize = 60;
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    let more = if shown.len() < text.len() { "..." } else { "" };
    format!("{shown:?}{more}")
}
