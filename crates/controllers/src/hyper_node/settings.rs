//! What the ConfigMap of the controllers says of the discovery of HyperNodes, as in Volcano.
//!
//! A fault in one source or type of network holds up nothing else: the rest is discovered, and what was discovered for a
//! type with a fault stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::{Selector, SelectorExt as _};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_yaml::Value;

use super::Labels;

/// The key of the ConfigMap under which it stands.
pub const KEY: &str = "volcano-controller.conf";
/// The only source of HyperNodes.
pub(super) const SOURCE: &str = "label";
/// The longest name of a type, as in Volcano: it is a part of names of HyperNodes.
const TYPE_NAME_MAX: usize = 20;
/// The label of single nodes.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// What is discovered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The types, by name.
    pub types: Vec<TopologyType>,
    /// Types with a fault: their HyperNodes stay as they are.
    pub held: BTreeSet<String>,
}

/// Labels that make a tree of HyperNodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyType {
    /// Its name, as it stands in names of HyperNodes.
    pub name: String,
    /// The nodes that are in it; without it all that no other type selects.
    pub nodes: Option<Selector>,
    /// The levels, that of tier 1 first.
    pub levels: Vec<Level>,
}

/// Nodes with one value of a label are one HyperNode.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Level {
    /// The key of the label.
    pub node_label: String,
    /// The name of its tier, where it is not the key of the label.
    pub tier_name: Option<String>,
}

impl Level {
    /// The name of its tier.
    pub fn tier(&self) -> &str {
        self.tier_name.as_deref().unwrap_or(&self.node_label)
    }
}

/// The file. Fields that are not read are left out.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct File {
    network_topology_discovery: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    source: String,
    enabled: bool,
    config: Value,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Config {
    network_topology_types: Option<BTreeMap<String, Value>>,
}

/// A type in its longer form; the shorter one is a list of labels.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Profile {
    node_selector: Option<LabelSelector>,
    levels: Vec<Value>,
}

impl Settings {
    /// The types of a node: those that select it, else those that select no nodes.
    pub(super) fn types_of(&self, labels: &Labels) -> impl Iterator<Item = &TopologyType> {
        let selects = |of: &TopologyType| of.nodes.as_ref().is_some_and(|nodes| nodes.matches(labels));
        let selected = self.types.iter().any(selects);
        self.types.iter().filter(move |of| if selected { selects(of) } else { of.nodes.is_none() })
    }

    /// Reads the text under [`KEY`]: what is to be discovered, and all that is wrong with it. Nothing is, and nothing
    /// changes, where the source `label` cannot be read at all.
    pub fn read(text: &str) -> (Option<Self>, Vec<String>) {
        let file: Option<File> = match serde_yaml::from_str(text) {
            Ok(file) => file,
            Err(error) => return (None, vec![error.to_string()]),
        };
        let (mut faults, mut found) = (Vec::new(), None);
        let entries = file.and_then(|file| file.network_topology_discovery).unwrap_or_default();
        for (at, entry) in entries.into_iter().enumerate() {
            let field = format!("networkTopologyDiscovery[{at}]");
            let entry: Entry = match decode(entry) {
                Ok(entry) => entry,
                Err(problem) => {
                    faults.push(format!("{field}: {problem}"));
                    continue;
                }
            };
            match (entry.source.as_str(), entry.enabled) {
                (_, false) => {}
                (SOURCE, true) if found.is_none() => {
                    found = Some(Self::of(entry.config, &format!("{field}.config"), &mut faults));
                }
                (SOURCE, true) => faults.push(format!("{field}.source: label is there already, ignored")),
                (other, true) => {
                    faults.push(format!("{field}.source: {other:?} is not supported, expected label"));
                }
            }
        }
        (found.flatten(), faults)
    }

    fn of(config: Value, field: &str, faults: &mut Vec<String>) -> Option<Self> {
        let config: Option<Config> =
            decode(config).map_err(|problem| faults.push(format!("{field}: {problem}"))).ok()?;
        let types = config.and_then(|config| config.network_topology_types).unwrap_or_default();
        let mut names = BTreeMap::<String, usize>::new();
        for name in types.keys() {
            *names.entry(clean(name)).or_default() += 1;
        }
        let mut settings = Self::default();
        for (written, value) in types {
            let name = clean(&written);
            let one = match names[&name] {
                1 => one_type(&written, &name, value),
                _ => Err(format!("another type counts as {name:?} too")),
            };
            match one {
                Ok(one) => settings.types.push(one),
                Err(problem) => {
                    faults.push(format!("{field}.networkTopologyTypes.{written}: {problem}"));
                    settings.held.insert(name);
                }
            }
        }
        Some(settings)
    }
}

/// A value without a field's name: the caller adds it.
fn decode<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_yaml::from_value(value).map_err(|error| error.to_string())
}

/// The last level is that of single nodes, which are no HyperNode.
fn one_type(written: &str, name: &str, value: Value) -> Result<TopologyType, String> {
    if written.len() > TYPE_NAME_MAX {
        let length = written.len();
        return Err(format!(
            "the name of the type has {length} characters, expected at most {TYPE_NAME_MAX}"
        ));
    }
    if !name.split('.').all(is_label) {
        return Err("the name of the type cannot stand in names of objects, expected letters, digits and -"
            .to_owned());
    }
    let (nodes, mut levels) = match value {
        Value::Sequence(list) => (None, levels("", list)?),
        Value::Mapping(_) => {
            let profile: Profile = decode(value)?;
            let levels = levels("levels", profile.levels)?;
            let last = levels.last().filter(|last| last.node_label == HOSTNAME && last.tier_name.is_none());
            if last.is_none() || levels.len() < 2 {
                return Err(format!(
                    "levels: expected a nodeLabel for each tier, and {HOSTNAME} without tierName as the last one"
                ));
            }
            let nodes = profile.node_selector.map(Selector::try_from).transpose();
            (nodes.map_err(|error| format!("nodeSelector: {error}"))?, levels)
        }
        _ => return Err("expected a list of nodeLabel, or nodeSelector and levels".to_owned()),
    };
    levels.pop();
    levels.reverse();
    Ok(TopologyType { name: name.to_owned(), nodes, levels })
}

fn levels(field: &str, list: Vec<Value>) -> Result<Vec<Level>, String> {
    let mut found = Vec::<Level>::new();
    for (at, value) in list.into_iter().enumerate() {
        let level: Level = decode(value).map_err(|problem| format!("{field}[{at}]: {problem}"))?;
        if level.node_label.is_empty() || level.tier().is_empty() {
            return Err(format!("{field}[{at}]: nodeLabel and tierName must not be empty"));
        }
        if found.iter().any(|other| other.node_label == level.node_label) {
            return Err(format!("nodeLabel {} is there twice", level.node_label));
        }
        if found.iter().any(|other| other.tier() == level.tier()) {
            return Err(format!("tierName {} is there twice", level.tier()));
        }
        found.push(level);
    }
    Ok(found)
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
