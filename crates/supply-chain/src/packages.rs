//! What cargo knows of the packages, without a network.
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

/// What `cargo metadata` prints, as far as it matters here.
#[derive(Clone, Debug, Deserialize)]
pub struct Metadata {
    /// The packages of the workspace and all that they depend on.
    pub packages: Vec<Package>,
    resolve: Resolve,
}

/// A package.
#[derive(Clone, Debug, Deserialize)]
pub struct Package {
    id: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// An expression of SPDX.
    pub license: Option<String>,
    /// Where it comes from; nothing for packages of the workspace.
    pub source: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// What its manifest asks for.
    pub dependencies: Vec<Dependency>,
}

impl Package {
    /// `NAME@VERSION`
    pub fn reference(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

/// A line of a manifest.
#[derive(Clone, Debug, Deserialize)]
pub struct Dependency {
    /// The name of the package.
    pub name: String,
    /// The versions that will do.
    pub req: String,
    /// The folder, for packages of the workspace.
    pub path: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Clone, Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Clone, Debug, Deserialize)]
struct EdgeKind {
    /// `dev` or `build`; nothing for what the code itself uses.
    kind: Option<String>,
}

/// The packages of the workspace at `root` and all that they depend on for these platforms (target triples).
pub fn packages(root: &Path, targets: &[String]) -> Result<Metadata> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--locked", "--offline"]).current_dir(root);
    for target in targets {
        command.args(["--filter-platform", target]);
    }
    let output = command.output().context("cargo metadata")?;
    ensure!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    let mut metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    // Packages for other platforms are listed too, but for the graph.
    let built: BTreeSet<&String> = metadata.resolve.nodes.iter().map(|node| &node.id).collect();
    metadata.packages.retain(|package| built.contains(&package.id));
    Ok(metadata)
}

/// The package of this name and all that it is built from, each with those that it depends on: libraries, macros and
/// what build scripts use. What only tests use is left out.
pub(crate) fn built_from<'m>(
    metadata: &'m Metadata,
    name: &str,
) -> Result<Vec<(&'m Package, Vec<&'m Package>)>> {
    let packages: BTreeMap<&str, &Package> =
        metadata.packages.iter().map(|package| (&*package.id, package)).collect();
    let nodes: BTreeMap<&str, &Node> = metadata.resolve.nodes.iter().map(|node| (&*node.id, node)).collect();
    let is_it = |package: &&Package| package.name == name && package.source.is_none();
    let first = metadata.packages.iter().find(is_it);
    let first = first.with_context(|| format!("found no package {name} in the workspace"))?;
    let (mut graph, mut todo) = (BTreeMap::new(), vec![first]);
    while let Some(package) = todo.pop() {
        if graph.contains_key(&*package.id) {
            continue;
        }
        let needed: Vec<&Package> =
            nodes[&*package.id].needed().filter_map(|id| packages.get(id).copied()).collect();
        todo.extend(&needed);
        graph.insert(&*package.id, (package, needed));
    }
    Ok(graph.into_values().collect())
}

impl Node {
    /// What the package depends on, but for its tests.
    fn needed(&self) -> impl Iterator<Item = &str> {
        let is_needed = |kind: &EdgeKind| kind.kind.as_deref() != Some("dev");
        self.deps.iter().filter(move |dep| dep.dep_kinds.iter().any(is_needed)).map(|dep| &*dep.pkg)
    }
}
