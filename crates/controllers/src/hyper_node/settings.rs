//! What the ConfigMap of the controllers says of the discovery of HyperNodes, as in Volcano.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// The key of the ConfigMap under which it stands.
pub const KEY: &str = "volcano-controller.conf";
/// The only source of HyperNodes.
pub(super) const SOURCE: &str = "label";
/// The longest name of a type, as in Volcano: it is a part of names of HyperNodes.
const TYPE_NAME_MAX: usize = 20;

/// What is discovered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The types, by name.
    pub types: Vec<TopologyType>,
}

/// Labels that make a tree of HyperNodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyType {
    /// Its name, as it stands in names of HyperNodes.
    pub name: String,
    /// The keys of the labels, that of tier 1 first.
    pub keys: Vec<String>,
}

/// The file. Fields that are not read are left out.
#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct File {
    network_topology_discovery: Option<Vec<Entry>>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Entry {
    source: String,
    enabled: bool,
    config: Option<Config>,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct Config {
    network_topology_types: Option<BTreeMap<String, Vec<NodeLabel>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeLabel {
    node_label: String,
}

impl Settings {
    /// Reads the text under [`KEY`]: what is to be discovered, and all that is wrong with it. With a fault in the source
    /// `label` nothing is, so that a slip deletes no HyperNodes.
    pub fn read(text: &str) -> (Option<Self>, Vec<String>) {
        let file: Option<File> = match serde_yaml::from_str(text) {
            Ok(file) => file,
            Err(error) => return (None, vec![error.to_string()]),
        };
        let mut faults = Vec::new();
        let mut found = None;
        for (at, entry) in
            file.into_iter().filter_map(|file| file.network_topology_discovery).flatten().enumerate()
        {
            let field = format!("networkTopologyDiscovery[{at}]");
            match (entry.source.as_str(), entry.enabled) {
                (_, false) => {}
                (SOURCE, true) if found.is_none() => found = Some(types(entry.config, &field)),
                (SOURCE, true) => faults.push(format!("{field}.source: label is there already, ignored")),
                (other, true) => {
                    faults.push(format!("{field}.source: {other:?} is not supported, expected label"));
                }
            }
        }
        match found {
            Some(Ok(types)) => (Some(Self { types }), faults),
            Some(Err(wrong)) => (None, wrong.into_iter().chain(faults).collect()),
            None => (None, faults),
        }
    }
}

fn types(config: Option<Config>, field: &str) -> Result<Vec<TopologyType>, Vec<String>> {
    let types = config.and_then(|config| config.network_topology_types).unwrap_or_default();
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    for (name, labels) in types {
        let field = format!("{field}.config.networkTopologyTypes.{name}");
        match one_type(&name, labels) {
            Ok(one) => found.push(one),
            Err(problem) => faults.push(format!("{field}: {problem}")),
        }
    }
    let mut names = BTreeSet::new();
    for one in &found {
        if !names.insert(one.name.as_str()) {
            faults.push(format!("{field}.config.networkTopologyTypes: two types count as {:?}", one.name));
        }
    }
    if faults.is_empty() { Ok(found) } else { Err(faults) }
}

/// The last label is that of single nodes, such as `kubernetes.io/hostname`, which are no HyperNode.
fn one_type(name: &str, labels: Vec<NodeLabel>) -> Result<TopologyType, String> {
    if name.len() > TYPE_NAME_MAX {
        return Err(format!(
            "the name of the type has {} characters, expected at most {TYPE_NAME_MAX}",
            name.len()
        ));
    }
    let cleaned = clean(name);
    if !cleaned.split('.').all(is_label) {
        return Err("the name of the type cannot stand in names of objects, expected letters, digits and -"
            .to_owned());
    }
    let mut keys: Vec<String> = labels.into_iter().map(|label| label.node_label).collect();
    if let Some(twice) = keys.iter().enumerate().find(|(at, key)| keys[..*at].contains(key)) {
        return Err(format!("nodeLabel {} is there twice", twice.1));
    }
    keys.pop();
    keys.reverse();
    Ok(TopologyType { name: cleaned, keys })
}

/// The name as it stands in names of objects.
fn clean(name: &str) -> String {
    let clean = |char: char| {
        let lower = char.to_ascii_lowercase();
        if lower.is_ascii_alphanumeric() || matches!(lower, '.' | '-') { lower } else { '-' }
    };
    name.chars().map(clean).collect()
}

fn is_label(part: &str) -> bool {
    let ends_well = |char: char| char.is_ascii_alphanumeric();
    part.starts_with(ends_well) && part.ends_with(ends_well)
}
