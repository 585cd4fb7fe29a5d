//! The SBOM is valid and complete.
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use phalanx_supply_chain::{Checksums, sbom};
use serde_json::Value;
use spdx::Expression;

use crate::{METADATA, root};

fn read() -> Value {
    let bom = sbom(&METADATA, &Checksums::read(&root()).unwrap(), "phalanx").unwrap();
    serde_json::to_value(bom).unwrap()
}

/// Components by their reference.
fn components(bom: &Value) -> BTreeMap<String, Value> {
    let all = bom["components"].as_array().unwrap().iter();
    let by_reference = |one: &Value| (one["bom-ref"].as_str().unwrap().to_owned(), one.clone());
    let components: BTreeMap<String, Value> = all.clone().map(by_reference).collect();
    assert_eq!(components.len(), all.len(), "a reference stands for one component");
    components
}

#[test]
fn the_sbom_is_in_the_format_cyclonedx() {
    let bom = read();
    assert_eq!(
        (&bom["bomFormat"], &bom["specVersion"], &bom["version"]),
        (&"CycloneDX".into(), &"1.5".into(), &1.into())
    );
    let program = &bom["metadata"]["component"];
    assert_eq!((&program["type"], &program["name"]), (&"application".into(), &"phalanx".into()));
}

#[test]
fn each_component_has_a_licence_and_those_of_crates_io_a_source_and_a_checksum() {
    for (reference, component) in components(&read()) {
        assert_eq!(component["type"], "library", "{reference}");
        let licence = component["licenses"][0]["expression"].as_str().unwrap();
        Expression::parse(licence).unwrap_or_else(|error| panic!("{reference}: {error}"));
        let (purl, checksum) = (component["purl"].as_str(), component["hashes"][0]["content"].as_str());
        if reference.starts_with("phalanx-") {
            assert_eq!((purl, checksum), (None, None), "{reference}");
        } else {
            assert_eq!(purl.unwrap(), format!("pkg:cargo/{}", reference.replace('+', "%2B")));
            assert!(
                checksum.unwrap().len() == 64 && component["hashes"][0]["alg"] == "SHA-256",
                "{reference}"
            );
        }
    }
}

/// Against what `cargo tree` lists, which finds the packages by itself.
#[test]
fn the_sbom_names_all_packages_that_the_program_is_built_from() {
    let named: BTreeSet<String> = components(&read()).into_keys().collect();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args("tree -p phalanx -e normal,build --prefix none --format {p} --locked --offline".split(' '));
    let output = command.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).unwrap();
    let listed: BTreeSet<String> = listed
        .lines()
        .filter_map(|line| line.split_once(" v"))
        .map(|(name, rest)| format!("{name}@{}", rest.split(' ').next().unwrap()))
        .filter(|package| !package.starts_with("phalanx@"))
        .collect();
    assert!(listed.len() > 100, "{listed:?}");
    let missing: Vec<_> = listed.difference(&named).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn each_dependency_in_the_sbom_is_a_component() {
    let bom = read();
    let mut names: BTreeSet<String> = components(&bom).into_keys().collect();
    names.insert(bom["metadata"]["component"]["bom-ref"].as_str().unwrap().to_owned());
    let dependencies = bom["dependencies"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let from: BTreeSet<String> = dependencies.iter().map(|one| text(&one["ref"])).collect();
    assert_eq!(from, names);
    for one in dependencies {
        assert!(one["dependsOn"].as_array().unwrap().iter().all(|on| names.contains(&text(on))), "{one}");
    }
}
