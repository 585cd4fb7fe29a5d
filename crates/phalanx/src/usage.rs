//! The command line: the parsed options, or one line on why it cannot be read, as for any other input.
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error, Parser};

/// The parsed command line of a program of this name, or the exit code: 0 after the help or the version, 2 after an error
/// of one line. `adorn` adds to the help of commands; `help` may know another text for what was asked; `tell` is given the error.
pub(crate) fn parse<C: Parser>(
    args: &[OsString],
    name: &'static str,
    adorn: impl Fn(Command) -> Command,
    help: impl Fn(&Error, &Command, &[OsString]) -> Option<String>,
    tell: impl Fn(String),
) -> Result<C, ExitCode> {
    let matches = adorn(C::command()).try_get_matches_from(args);
    let parsed = matches.and_then(|mut matches| C::from_arg_matches_mut(&mut matches));
    parsed.map_err(|error| {
        let args = args.get(1..).unwrap_or_default();
        let command = C::command().name(name);
        // A closed pipe is ignored.
        if let Some(help) = help(&error, &command, args) {
            let _ = write!(io::stdout(), "{help}");
            return ExitCode::SUCCESS;
        }
        if !error.use_stderr() {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        tell(line(&error, &command, args));
        ExitCode::from(2)
    })
}

/// What was found, what was expected, and which word was probably meant.
fn line(error: &Error, top: &Command, args: &[OsString]) -> String {
    let (path, command) = innermost(top, args);
    let help = format!("{path} --help");
    let expected = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            return format!(
                "error: found no command after {path:?}, expected {}; see {help:?}",
                one_of(command)
            );
        }
        ErrorKind::InvalidSubcommand => format!(", expected {}", one_of(command)),
        ErrorKind::UnknownArgument => format!(", expected what {help:?} lists"),
        _ => String::new(),
    };
    let meant =
        suggested(error).or_else(|| with_equals(error, command, args)).or_else(|| another_file(error, args));
    let hint = meant.map(|meant| format!(" (did you mean {meant}?)")).unwrap_or_default();
    format!("{}{expected}{hint}", what(error))
}

/// The first words of clap, without its tips and the usage.
fn what(error: &Error) -> String {
    let text = error.render().to_string();
    let ends = |line: &&str| {
        !["Usage:", "tip:", "For more information"].iter().any(|end| line.trim().starts_with(end))
    };
    let words: Vec<&str> = text.lines().take_while(ends).flat_map(str::split_whitespace).collect();
    let words = words.join(" ");
    match words.split_once(" [possible values: ") {
        Some((what, values)) => format!("{what}: expected one of {}", values.trim_end_matches(']')),
        None => words,
    }
}

/// The command that is being called, and how to call it.
pub(crate) fn innermost<'c>(top: &'c Command, args: &[OsString]) -> (String, &'c Command) {
    let mut found = (top.get_name().to_owned(), top);
    for arg in args {
        let Some(inner) = found.1.find_subcommand(arg) else { break };
        found = (format!("{} {}", found.0, inner.get_name()), inner);
    }
    found
}

fn one_of(command: &Command) -> String {
    let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
    format!("one of {}", names.join(", "))
}

fn suggested(error: &Error) -> Option<String> {
    const NEAR: [ContextKind; 3] =
        [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    NEAR.iter().find_map(|kind| match error.get(*kind)? {
        ContextValue::String(one) => Some(one.clone()),
        ContextValue::Strings(all) => all.first().cloned(),
        _ => None,
    })
}

/// A second value behind a `-f`, such as those that a shell makes of `*.yaml`.
fn another_file(error: &Error, args: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidArg) else { return None };
    let at = args.iter().position(|arg| arg == OsStr::new(value))?;
    let flag = args.get(at.checked_sub(2)?)?.to_str().filter(|_| !value.starts_with('-'))?;
    ["-f", "--filename"].contains(&flag).then(|| format!("{flag} {value}, or a folder behind one {flag}"))
}

/// `--flag value` of a flag whose value is optional and follows an equals sign only.
fn with_equals(error: &Error, command: &Command, args: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidArg) else { return None };
    let at = args.iter().position(|arg| arg == OsStr::new(value))?;
    let flag = args.get(at.checked_sub(1)?)?.to_str()?;
    let known = command.get_arguments().find(|arg| arg.get_long() == flag.strip_prefix("--"))?;
    known.is_require_equals_set().then(|| format!("{flag}={value}"))
}
