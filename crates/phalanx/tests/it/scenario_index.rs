//! `scenarios/README.md`: a paragraph for each topic, written by hand, and under it a table of the topic's scenarios,
//! written from the first sentence of each `expect.yaml`.
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::scenarios::{entries, scenarios};

/// If this variable is set, the test writes the tables anew.
const WRITE: &str = "WRITE_SCENARIO_INDEX";

/// The name of a file or folder.
fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// The first sentence of the comment that `expect.yaml` begins with.
fn sentence(case: &Path) -> String {
    let text = fs::read_to_string(case.join("expect.yaml")).unwrap();
    let comment: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("# ")).collect();
    let comment = comment.join(" ");
    let end = comment.find(". ").map_or(comment.len(), |dot| dot + 1);
    comment[..end].replace('|', "\\|")
}

/// The table of a topic.
fn table(topic: &str) -> String {
    let mut table = "| scenario | what holds |\n|---|---|\n".to_owned();
    for case in entries(&scenarios().join(topic)) {
        let case_name = name(&case);
        writeln!(table, "| [{case_name}]({topic}/{case_name}) | {} |", sentence(&case)).unwrap();
    }
    table
}

/// The page with its tables written anew, its prose kept.
fn with_fresh_tables(page: &str) -> String {
    let mut sections = page.split("\n## ");
    let mut fresh = sections.next().unwrap().to_owned();
    for section in sections {
        let topic = section.lines().next().unwrap();
        let prose = section.split("\n|").next().unwrap().trim_end();
        write!(fresh, "\n## {prose}\n\n{}", table(topic)).unwrap();
    }
    fresh
}

#[test]
fn the_index_of_scenarios_has_every_topic_with_a_paragraph_and_a_fresh_table() {
    let path = scenarios().join("README.md");
    let page = fs::read_to_string(&path).unwrap();
    let headings: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let topics: Vec<String> =
        entries(&scenarios()).iter().filter(|it| it.is_dir()).map(|it| name(it)).collect();
    assert_eq!(headings, topics, "scenarios/README.md: a section `## TOPIC` for each folder, in this order");
    for section in page.split("\n## ").skip(1) {
        let prose = section.split("\n|").next().unwrap().lines().skip(1);
        assert!(prose.map(str::len).sum::<usize>() > 60, "a paragraph on {section:.20}");
    }
    let fresh = with_fresh_tables(&page);
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, fresh).unwrap();
        return;
    }
    assert!(
        page == fresh,
        "scenarios/README.md is stale; write it anew: {WRITE}=1 cargo test -p phalanx --test it scenario_index"
    );
}
