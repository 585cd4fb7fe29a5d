//! docs/reference/command-line.md names every command on live objects, and every flag of these.
use std::fs;

use crate::run::{phalanx, repository};

/// The words of a section of `--help` that begin its lines.
fn listed(help: &str, section: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != section).skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let first = |line: &str| line.split_whitespace().next().map(ToOwned::to_owned);
    lines.filter_map(first).filter(|word| word != "help").collect()
}

/// The long flags that `-h` shows, but those that every command has.
fn flags(help: &str) -> Vec<String> {
    let words = help.split(|char: char| char.is_whitespace() || ",[=".contains(char));
    let flags = words.filter(|word| word.starts_with("--") && word.len() > 2).map(ToOwned::to_owned);
    flags.filter(|flag| flag != "--help" && flag != "--version").collect()
}

#[test]
fn the_page_of_the_command_line_names_every_command_and_flag() {
    let page = fs::read_to_string(repository().join("docs/reference/command-line.md")).unwrap();
    let mut missing = Vec::new();
    let mut commands = 0;
    for group in ["job", "queue", "pod", "jobflow", "jobtemplate"] {
        for command in listed(phalanx(&[group, "-h"]).text(), "Commands:") {
            commands += 1;
            let row = format!("`{group} {command}`");
            if !page.contains(&row) {
                missing.push(row);
            }
            for flag in flags(phalanx(&[group, &command, "-h"]).text()) {
                if !page.contains(&format!("`{flag}`")) {
                    missing.push(format!("{group} {command} {flag}"));
                }
            }
        }
    }
    missing.dedup();
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(commands > 20, "{commands} commands");
}
