//! docs/reference/jobs.md names the arguments of plugins with their defaults, and the reasons of events.
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use phalanx_controllers::plugin;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    fs::read_to_string(repository().join("docs/reference/jobs.md")).unwrap()
}

#[test]
fn the_page_of_jobs_has_every_plugin_with_its_arguments_and_their_defaults() {
    let page = page();
    let mut missing = Vec::new();
    for (name, arguments) in plugin::all() {
        let section =
            page.split(&format!("\n### `{name}`\n")).nth(1).unwrap_or_else(|| panic!("no section {name}"));
        let section = section.split("\n#").next().unwrap();
        for argument in arguments {
            let default = Some(argument.default).filter(|text| !text.is_empty());
            let row = format!(
                "| `--{}` | {} |",
                argument.name,
                default.map_or("none".to_owned(), |text| format!("`{text}`"))
            );
            if !section.contains(&row) {
                missing.push(format!("{name}: {row}"));
            }
        }
        let rows = section.lines().filter(|line| line.starts_with("| `--")).count();
        assert_eq!(rows, arguments.len(), "rows of arguments of {name}");
    }
    assert!(missing.is_empty(), "docs/reference/jobs.md lacks:\n{}", missing.join("\n"));
}

/// Kinds, which the code has between quotes too.
const KINDS: [&str; 2] = ["CronJob", "JobFlow"];

/// Words such as `PodGroupPending` between quotes in the files of a folder, outside tests: reasons of events among them.
fn words(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            words(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        let quoted = code.lines().flat_map(|line| line.split('"').skip(1).step_by(2));
        let is_reason = |word: &&str| {
            word.starts_with(char::is_uppercase)
                && word.chars().all(char::is_alphabetic)
                && word.chars().filter(|char| char.is_uppercase()).count() > 1
                && word.chars().any(char::is_lowercase)
                && !KINDS.contains(word)
        };
        found.extend(quoted.filter(is_reason).map(str::to_owned));
    }
}

#[test]
fn the_page_of_jobs_has_every_reason_of_an_event() {
    let mut reasons = BTreeSet::new();
    words(&repository().join("crates/controllers/src/job"), &mut reasons);
    for file in ["cron", "flow"] {
        words(&repository().join("crates/controllers/src").join(file), &mut reasons);
    }
    words(&repository().join("crates/runtime/src/controllers/machine"), &mut reasons);
    assert!(reasons.contains("PodGroupPending") && reasons.contains("FailedCreate"), "{reasons:?}");
    let page = page();
    let missing: Vec<_> = reasons.iter().filter(|reason| !page.contains(&format!("`{reason}`"))).collect();
    assert!(missing.is_empty(), "docs/reference/jobs.md lacks {missing:?}");
}
