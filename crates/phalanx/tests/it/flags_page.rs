//! `docs/reference/flags.md`: prose, written by hand, and in each section the tables of a command's flags, written from
//! its `--help`.
use std::fmt::Write;
use std::fs;

use crate::run::{phalanx, repository};

/// If this variable is set, the test writes the tables anew.
const WRITE: &str = "WRITE_FLAGS";

/// A flag in the words of `--help`.
struct Flag {
    /// `--name VALUE`.
    usage: String,
    text: String,
    /// The values that it takes, if they are listed.
    values: Vec<String>,
    /// Accepted for Volcano.
    ignored: bool,
}

/// The arguments and flags of a command, without `--help` and `--version`.
fn flags(command: &str) -> Vec<Flag> {
    let mut flags: Vec<Flag> = Vec::new();
    let mut ignored = false;
    let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
    let help = phalanx(&words);
    for line in help.text().lines().take_while(|line| *line != "Examples:") {
        let text = line.trim();
        if line.ends_with(':') && !line.starts_with(' ') {
            ignored = line == "Accepted for Volcano:";
        } else if let (Some(value), Some(flag)) = (text.strip_prefix("- "), flags.last_mut()) {
            flag.values.push(format!("`{}`", value.split(':').next().unwrap()));
        } else if text.starts_with('-') || line.starts_with("  <") || line.starts_with("  [") {
            // Short helps stand on the line of the flag.
            let (usage, text) = text.split_once("  ").unwrap_or((text, ""));
            let usage = usage.replace(['<', '>'], "").replace("...", "").replace('|', " or ");
            flags.push(Flag { usage, text: text.trim().to_owned(), values: Vec::new(), ignored });
        } else if let Some(flag) = flags.last_mut().filter(|_| !text.is_empty() && text != "Possible values:")
        {
            write!(flag.text, "{}{text}", if flag.text.is_empty() { "" } else { " " }).unwrap();
        }
    }
    flags.retain(|flag| !flag.usage.contains("--help") && !flag.usage.contains("--version"));
    flags
}

/// The tables of a command: flags with their defaults, and those without effect, if there are any.
fn tables(command: &str) -> String {
    let flags = flags(command);
    assert!(!flags.is_empty(), "no flags of {command}");
    let mut tables = "| argument or flag | default | meaning |\n|---|---|---|\n".to_owned();
    for flag in flags.iter().filter(|flag| !flag.ignored) {
        let (text, rest) = flag.text.split_once('[').unwrap_or((&flag.text, ""));
        let default = rest.split_once("default: ").map(|(_, rest)| rest.split(']').next().unwrap());
        let default = default.map_or_else(String::new, |default| format!("`{default}`"));
        let mut text = text.trim().replace('|', "\\|");
        if !flag.values.is_empty() {
            write!(text, ": {}", flag.values.join(", ")).unwrap();
        }
        writeln!(tables, "| `{}` | {default} | {text} |", flag.usage).unwrap();
    }
    if flags.iter().any(|flag| flag.ignored) {
        tables += "\n| flag without effect | why |\n|---|---|\n";
    }
    for flag in flags.iter().filter(|flag| flag.ignored) {
        let name = flag.usage.split([' ', '[']).next().unwrap();
        writeln!(tables, "| `{name}` | {} |", flag.text.trim_start_matches("No effect: ")).unwrap();
    }
    tables
}

/// The page with its tables written anew, its prose kept.
fn with_fresh_tables(page: &str) -> String {
    let mut sections = page.split("\n## ");
    let mut fresh = sections.next().unwrap().to_owned();
    for section in sections {
        let command = section.split('`').nth(1).unwrap().trim_start_matches("phalanx ");
        let prose = section.split("\n|").next().unwrap().trim_end();
        write!(fresh, "\n## {prose}\n\n{}", tables(command)).unwrap();
    }
    fresh
}

/// The commands with a section: those that are not on the page of commands on live objects.
const COMMANDS: [&str; 15] = [
    "scheduler",
    "controllers",
    "simulate",
    "explain",
    "whatif",
    "top",
    "capture",
    "replay",
    "conf check",
    "conf diff",
    "conf show",
    "trace openb",
    "trace generate",
    "trace journal",
    "trace pods",
];

#[test]
fn the_page_of_flags_has_the_flags_of_each_command_and_their_defaults() {
    let path = repository().join("docs/reference/flags.md");
    let page = fs::read_to_string(&path).unwrap();
    let sections: Vec<&str> =
        page.split("\n## `phalanx ").skip(1).filter_map(|section| section.split('`').next()).collect();
    assert_eq!(sections, COMMANDS);
    let fresh = with_fresh_tables(&page);
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, fresh).unwrap();
        return;
    }
    assert!(
        page == fresh,
        "docs/reference/flags.md is stale; write it anew: {WRITE}=1 cargo test -p phalanx --test it flags_page"
    );
}
