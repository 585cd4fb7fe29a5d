//! The dependency arrows of crates/README.md, and that pure crates depend on no client and no runtime.
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// The crate of the table that does IO; all others are pure.
const RUNTIME: &str = "phalanx-runtime";

/// Crates that the simulator and the live scheduler may depend on, which answers what-if questions by simulation.
const AROUND_CORE: &[&str] = &[
    "phalanx-api",
    "phalanx-cache",
    "phalanx-cel",
    "phalanx-cluster",
    "phalanx-conf",
    "phalanx-controllers",
    "phalanx-core",
    "phalanx-explain",
    "phalanx-framework",
    "phalanx-resource",
    "phalanx-sim",
    "phalanx-view",
];

/// Crates of the workspace that a crate may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("phalanx-resource", &[]),
    ("phalanx-cel", &["phalanx-resource"]),
    ("phalanx-cluster", &["phalanx-cel", "phalanx-resource"]),
    ("phalanx-framework", &["phalanx-cluster", "phalanx-resource"]),
    ("phalanx-plugins", &["phalanx-cluster", "phalanx-framework", "phalanx-resource"]),
    ("phalanx-core", &["phalanx-cluster", "phalanx-framework", "phalanx-plugins", "phalanx-resource"]),
    ("phalanx-conf", &["phalanx-cluster", "phalanx-core", "phalanx-framework", "phalanx-plugins"]),
    ("phalanx-api", &["phalanx-cluster"]),
    ("phalanx-controllers", &["phalanx-api", "phalanx-resource"]),
    (
        "phalanx-cache",
        &["phalanx-api", "phalanx-cel", "phalanx-cluster", "phalanx-framework", "phalanx-resource"],
    ),
    ("phalanx-view", &["phalanx-cluster", "phalanx-core", "phalanx-framework", "phalanx-resource"]),
    (
        "phalanx-explain",
        &["phalanx-api", "phalanx-cluster", "phalanx-core", "phalanx-framework", "phalanx-resource"],
    ),
    ("phalanx-sim", AROUND_CORE),
    (RUNTIME, AROUND_CORE),
];

/// Packages that no pure crate may depend on, directly or through another package.
const CLIENTS: &[&str] = &["tokio", "kube", "kube-client", "kube-runtime", "hyper", "reqwest"];
/// Packages that the core may not depend on either.
const NOT_IN_CORE: &[&str] = &["k8s-openapi", "kube-core", "yaml_serde", "serde-saphyr", "serde_json"];

/// This machine's platform: packages for other platforms need not be downloaded.
fn platform() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

/// Normal dependencies of every package, by name.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", &platform()])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| (package["id"].as_str().unwrap(), package["name"].as_str().unwrap()))
        .collect();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in metadata["resolve"]["nodes"].as_array().unwrap() {
        let normal =
            |dep: &&Value| dep["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].is_null());
        let deps = node["deps"].as_array().unwrap().iter().filter(normal);
        let deps = deps.map(|dep| names[dep["pkg"].as_str().unwrap()].to_owned());
        found.entry(names[node["id"].as_str().unwrap()].to_owned()).or_default().extend(deps);
    }
    found
}

fn reach(dependencies: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut todo = vec![from.to_owned()];
    while let Some(name) = todo.pop() {
        for dep in dependencies.get(&name).into_iter().flatten() {
            if seen.insert(dep.clone()) {
                todo.push(dep.clone());
            }
        }
    }
    seen
}

#[test]
fn crates_depend_on_crates_above_them_only() {
    let dependencies = dependencies();
    for (name, allowed) in ALLOWED {
        let ours = dependencies[*name].iter().filter(|dep| dep.starts_with("phalanx"));
        let wrong: Vec<_> = ours.filter(|dep| !allowed.contains(&dep.as_str())).collect();
        assert!(wrong.is_empty(), "{name} must not depend on {wrong:?}");
    }
}

#[test]
fn pure_crates_do_not_depend_on_clients_or_runtimes() {
    let dependencies = dependencies();
    for (name, _) in ALLOWED.iter().filter(|(name, _)| *name != RUNTIME) {
        let reached = reach(&dependencies, name);
        let wrong: Vec<_> = CLIENTS.iter().filter(|client| reached.contains(**client)).collect();
        assert!(wrong.is_empty(), "{name} reaches {wrong:?}");
    }
    let core = reach(&dependencies, "phalanx-core");
    let wrong: Vec<_> = NOT_IN_CORE.iter().filter(|name| core.contains(**name)).collect();
    assert!(wrong.is_empty(), "phalanx-core reaches {wrong:?}");
}

/// Modules of the core from the top down: one names none that stands before it. Modules without a line stand below
/// these.
const MODULES_OF_CORE: &[&str] = &["cycle", "status", "other_refusals", "actions", "eviction", "gang"];

#[test]
fn modules_of_the_core_depend_on_modules_below_them() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/src");
    let mut folders = vec![std::path::PathBuf::from(root)];
    let mut up = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let inside = path.strip_prefix(root).unwrap().with_extension("");
            let module = inside.iter().next().unwrap().to_str().unwrap();
            let above = MODULES_OF_CORE.iter().take_while(|name| **name != module);
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let named: Vec<&str> = code.flat_map(|line| line.split("crate::").skip(1)).collect();
            let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
            let is_named =
                |name: &&&str| named.iter().any(|rest| rest.strip_prefix(**name).is_some_and(ends));
            // `lib` lists all modules, and a report holds the outcome of a cycle.
            if !["lib", "report"].contains(&module) {
                up.extend(above.filter(is_named).map(|name| format!("{}: {name}", path.display())));
            }
        }
    }
    assert_eq!(up, Vec::<String>::new());
}
