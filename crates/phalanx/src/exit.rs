//! How a command ends: 0 when it ran, 2 with a line for each fault of its input, 1 with one line otherwise.
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use anstream::ColorChoice;
use anyhow::Context as _;

use crate::paint;

/// The user's input cannot be used; the text names the place and what was expected.
#[derive(Clone, Debug)]
pub(crate) struct BadInput(pub(crate) String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// Two inputs differ, which was told: only the exit code says it again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Differ;

impl fmt::Display for Differ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("they differ")
    }
}

impl std::error::Error for Differ {}

/// An error of a command under the name vcctl: its text.
#[derive(Debug)]
struct OfVcctl(String);

impl fmt::Display for OfVcctl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OfVcctl {}

/// The error in vcctl's form. It is printed to standard output, as vcctl does it, and the exit code is vcctl's.
pub(crate) fn of_vcctl(command: &str, error: &anyhow::Error) -> anyhow::Error {
    OfVcctl(format!("Failed to {command}: {error:#}")).into()
}

/// All faults, a line each.
pub(crate) fn all_of(faults: &[impl fmt::Display]) -> BadInput {
    BadInput(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// The system's text of an error, without its number.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// `1 pod`, `2 pods`.
pub(crate) fn counted(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

/// Prints to stdout. A closed pipe (`| head`) is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("writing to standard output"),
    }
}

/// Prints tables to stdout: with colours if it is a terminal and NO_COLOR is not set.
pub(crate) fn print_table(text: &str) -> anyhow::Result<()> {
    print(&painted(text))
}

/// Tables as standard output shows them.
pub(crate) fn painted(text: &str) -> String {
    if is_coloured(&io::stdout()) { paint::tables(text) } else { text.to_owned() }
}

/// Whether a stream is a terminal and its user wants colours.
pub(crate) fn is_coloured(stream: &impl anstream::stream::RawStream) -> bool {
    anstream::AutoStream::choice(stream) != ColorChoice::Never
}

/// Prints a line to stderr, with colours as above. A closed pipe (`2>&1 | head`) is ignored.
pub(crate) fn tell(line: impl fmt::Display) {
    let line = line.to_string();
    let shown = if is_coloured(&io::stderr()) { paint::message(&line) } else { line };
    let _ = writeln!(io::stderr(), "{shown}");
}

/// The exit code of a command, after its error: a line, or one for each fault of the input.
pub(crate) fn code(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if error.is::<OfVcctl>() {
        let _ = print(&format!("{error}\n"));
        return ExitCode::from(255);
    }
    if error.is::<Differ>() {
        return ExitCode::FAILURE;
    }
    format!("{error:#}").lines().for_each(|line| tell(format_args!("error: {line}")));
    if error.is::<BadInput>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}
