//! What is found, and that nothing is found in this workspace.
use std::fs;

use phalanx_supply_chain::{Metadata, Policy, Skip};

use crate::{METADATA, policy, root};

#[test]
fn licences_sources_and_versions_of_all_packages_are_those_that_deny_toml_allows() {
    assert_eq!(policy().problems(&METADATA), Vec::<String>::new());
}

/// The problems after a change of what cargo says of `serde`.
fn after(change: impl FnOnce(&mut Metadata, usize)) -> Vec<String> {
    let mut metadata = METADATA.clone();
    let at = metadata.packages.iter().position(|package| package.name == "serde").unwrap();
    change(&mut metadata, at);
    let version = METADATA.packages[at].version.clone();
    let problems = policy().problems(&metadata);
    problems.into_iter().map(|problem| problem.replace(&version, "V")).collect()
}

#[test]
fn a_licence_that_is_not_listed_or_missing_is_a_problem() {
    let with = |licence: Option<&str>| after(|all, at| all.packages[at].license = licence.map(str::to_owned));
    for fine in ["MIT", "GPL-3.0-only OR MIT", "MIT/Apache-2.0", "MIT AND (ISC OR GPL-2.0-only)"] {
        assert_eq!(with(Some(fine)), Vec::<String>::new(), "{fine}");
    }
    let expected = "expected one that licenses.allow lists";
    for bad in ["AGPL-3.0-only", "MIT AND GPL-3.0-only", "MPL-2.0"] {
        assert_eq!(with(Some(bad)), [format!("serde@V: found licence {bad}, {expected}")]);
    }
    assert_eq!(with(None), ["serde@V: found no licence, expected an expression of SPDX"]);
    let odd = with(Some("Mine"));
    assert!(
        odd.len() == 1 && odd[0].starts_with("serde@V: found licence \"Mine\", expected an expression"),
        "{odd:?}"
    );
}

#[test]
fn a_package_from_elsewhere_is_a_problem() {
    for source in ["git+https://example.com/serde#1", "registry+https://example.com/index"] {
        let found = after(|all, at| all.packages[at].source = Some(source.to_owned()));
        assert_eq!(found, [format!("serde@V: found source {source}, expected crates.io or the workspace")]);
    }
}

#[test]
fn a_second_version_is_a_problem_unless_it_is_listed() {
    let found = after(|all, at| {
        let mut other = all.packages[at].clone();
        other.version = "0.0.1".to_owned();
        all.packages.push(other);
    });
    assert_eq!(found, ["serde: found versions V and 0.0.1, expected one, or others in bans.skip"]);
    let mut policy = policy();
    let skipped = policy.bans.skip.remove(0);
    let found = policy.problems(&METADATA);
    let name = skipped.package.split('@').next().unwrap();
    assert!(found.len() == 1 && found[0].starts_with(&format!("{name}: found versions ")), "{found:?}");
}

#[test]
fn an_entry_that_nothing_needs_is_a_problem() {
    let mut policy = policy();
    policy.bans.skip.push(Skip { package: "serde@0.1.0".to_owned(), reason: String::new() });
    policy.licenses.allow.push("MPL-2.0".to_owned());
    assert_eq!(
        policy.problems(&METADATA),
        [
            "licenses.allow: MPL-2.0: no package has it any more",
            "bans.skip: serde@0.1.0: nothing is built from it any more"
        ]
    );
}

#[test]
fn a_rule_that_is_not_checked_here_is_refused() {
    let text = fs::read_to_string(root().join("deny.toml")).unwrap();
    for (rule, other) in [
        ("unknown-git = \"deny\"", "unknown-git = \"warn\""),
        ("unknown-git = \"deny\"", "unknown-git = \"deny\"\nallow-git = [\"x\"]"),
        ("multiple-versions-include-dev = true", "multiple-versions-include-dev = false"),
        ("version = 2", "version = 1"),
    ] {
        assert!(text.contains(rule), "{rule}");
        assert!(Policy::parse(&text.replace(rule, other)).is_err(), "{other}");
    }
}
