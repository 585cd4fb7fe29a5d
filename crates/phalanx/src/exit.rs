//! How a command ends: 0 when it ran, 2 with one line when its input is at fault, 1 with one line otherwise.
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use anyhow::Context as _;

/// What the user gave cannot be used; the text names the place and what was expected.
#[derive(Debug)]
pub(crate) struct BadInput(pub(crate) String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// Several faults as one line: the first, and how many more there are.
pub(crate) fn first_of(faults: &[impl fmt::Display]) -> BadInput {
    let first = faults.first().map(ToString::to_string).unwrap_or_default();
    BadInput(match faults.len() {
        0 | 1 => first,
        2 => format!("{first} (and 1 more problem)"),
        count => format!("{first} (and {} more problems)", count - 1),
    })
}

/// `1 pod`, `2 pods`.
pub(crate) fn counted(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

/// Prints to stdout. A reader that has seen enough (`| head`) is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("writing to standard output"),
    }
}

/// Prints a line to stderr. Where nobody reads it any more (`2>&1 | head`) there is nothing to be done about that.
pub(crate) fn tell(line: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The exit code of a command, after its error line.
pub(crate) fn code(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    tell(format_args!("error: {error:#}"));
    if error.is::<BadInput>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}
