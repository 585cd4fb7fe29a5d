//! The pages in Markdown: links and names of code lead somewhere, and lines have the width that CONTRIBUTING names.
use std::fs;
use std::path::{Path, PathBuf};

use crate::run::repository;

/// The widest line of prose. Tables, code and links alone on a line may be wider.
const WIDTH: usize = 120;

/// All files of the repository with this extension, except in folders that tools create.
fn files(extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![repository()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn pages() -> Vec<PathBuf> {
    files("md")
}

/// The page without its blocks of code, line by line; a line of code is empty.
fn prose(text: &str) -> Vec<&str> {
    let mut in_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        lines.push(if in_code || fence { "" } else { line });
    }
    lines
}

/// The targets of the links `[text](target)` on a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// The anchor that GitHub gives a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars()
        .filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'))
        .map(|char| if char == ' ' { '-' } else { char })
        .collect()
}

/// Whether a page has a heading with this anchor.
fn has_heading(page: &Path, wanted: &str) -> bool {
    let text = fs::read_to_string(page).unwrap_or_default();
    prose(&text)
        .iter()
        .filter_map(|line| line.strip_prefix('#'))
        .any(|line| anchor(line.trim_start_matches('#')) == wanted)
}

/// Whether a link on a page leads to a file, a folder or a heading; links out of the repository are not tried.
fn leads_somewhere(page: &Path, target: &str) -> bool {
    if target.contains("://") {
        return true;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let aim = if file.is_empty() { page.to_path_buf() } else { page.parent().unwrap().join(file) };
    aim.exists() && (heading.is_empty() || has_heading(&aim, heading))
}

fn shown(page: &Path) -> String {
    page.strip_prefix(repository()).unwrap_or(page).display().to_string()
}

#[test]
fn every_relative_link_of_a_page_leads_to_a_file_or_a_heading() {
    let mut broken = Vec::new();
    let mut links = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for target in prose(&text).into_iter().flat_map(targets) {
            links += 1;
            if !leads_somewhere(&page, target) {
                broken.push(format!("{}: {target}", shown(&page)));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
    assert!(links > 80, "{links} links");
}

/// The texts between backticks on a line.
fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

#[test]
fn source_files_and_functions_that_pages_of_the_code_name_exist() {
    let sources: Vec<(PathBuf, String)> =
        files("rs").into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect();
    let is_source = |name: &str| Path::new(name).extension().is_some_and(|it| it == "rs");
    // `plugins/src/X.rs` and `oracle*.rs` stand for several files.
    let one = |name: &str| !name.contains(['*', 'X']);
    let exists = |name: &str| match name.rsplit_once("::") {
        Some((file, item)) if is_source(file) => {
            sources.iter().any(|(path, code)| path.ends_with(file) && code.contains(&format!("fn {item}(")))
        }
        Some((_, item)) => sources.iter().any(|(_, code)| code.contains(&format!("fn {item}"))),
        None => !is_source(name) || sources.iter().any(|(path, _)| path.ends_with(name)),
    };
    let mut stale = Vec::new();
    let of_code = |page: &PathBuf| {
        page.starts_with(repository().join("crates")) || *page == repository().join("SECURITY.md")
    };
    for page in pages().into_iter().filter(of_code) {
        let text = fs::read_to_string(&page).unwrap();
        let names = prose(&text).into_iter().flat_map(names).filter(|name| one(name));
        stale.extend(names.filter(|name| !exists(name)).map(|name| format!("{}: {name}", shown(&page))));
    }
    assert!(stale.is_empty(), "names of code that does not exist:\n{}", stale.join("\n"));
}

#[test]
fn lines_of_prose_are_at_most_120_characters_wide() {
    let mut wide = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for (at, line) in prose(&text).into_iter().enumerate() {
            let unbroken = line.trim_start().starts_with('|') || !line.trim().contains(' ');
            if !unbroken && line.chars().count() > WIDTH {
                wide.push(format!("{}:{}", shown(&page), at + 1));
            }
        }
    }
    assert!(wide.is_empty(), "wider than {WIDTH}:\n{}", wide.join("\n"));
}

#[test]
fn the_map_of_the_code_fits_on_two_screens() {
    let lines = |page: &str| fs::read_to_string(repository().join(page)).unwrap().lines().count();
    assert!(lines("crates/README.md") <= 100, "{} lines", lines("crates/README.md"));
}

#[test]
fn the_glossary_has_at_most_forty_entries() {
    let text = fs::read_to_string(repository().join("crates/GLOSSARY.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with('|')).count() - 2;
    assert!(rows <= 40, "{rows} entries");
}
