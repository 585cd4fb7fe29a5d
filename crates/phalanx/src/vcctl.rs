//! The help of Volcano's command line, for when the program is named vcctl.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Command, Error};

use crate::usage::innermost;

/// A section for each command of vcctl that this program has.
const PAGES: &str = include_str!("vcctl.txt");

/// What vcctl's help has at the end of each page.
const GLOBAL: &str = "
Global Flags:
      --log-flush-frequency duration   Maximum number of seconds between log flushes (default 5s)
  -v, --v Level                        number for the log level verbosity
      --vmodule moduleSpec             comma-separated list of pattern=N settings for file-filtered logging (only works for the default text log format)
";

/// vcctl's help, where help was asked for and not given already.
pub(crate) fn help(error: &Error, command: &Command, args: &[OsString]) -> Option<String> {
    let asked = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::MissingSubcommand
    );
    let args = args.strip_prefix(&[OsString::from("help")]).unwrap_or(args);
    asked.then(|| page(&innermost(command, args).0)).flatten()
}

/// vcctl's help of a command: `vcctl job list`.
fn page(path: &str) -> Option<String> {
    let pages = PAGES.split("== ").filter_map(|page| page.split_once('\n'));
    let (_, page) = pages.into_iter().find(|(title, _)| *title == path)?;
    let is_group = page.contains("[command]");
    let more = format!("\nUse \"{path} [command] --help\" for more information about a command.\n");
    // The first page has these flags among its own.
    let global = if path.contains(' ') { GLOBAL } else { "" };
    Some(format!("{page}{global}{}", if is_group { &more } else { "" }))
}
