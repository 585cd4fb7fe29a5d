//! HyperNodes made from labels of nodes.
//!
//! Nodes with one value of the first label are a HyperNode of tier 1; such HyperNodes whose nodes have one value of the
//! next label are one of tier 2, and so on. Which HyperNodes were made so their label `volcano.sh/network-topology-source`
//! tells; no others are changed.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::names::{NETWORK_TOPOLOGY_PROFILE, NETWORK_TOPOLOGY_SOURCE};
use phalanx_api::topology::{ExactMatch, HyperNode, HyperNodeSpec, MemberSelector, MemberSpec, MemberType};

use super::settings::{SOURCE, Settings, TopologyType};
use super::{Labels, Observed};
use crate::change::{Change, Kind, Object, Target};
use crate::meta::{map, suffix, text};

/// What makes a HyperNode one of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place<'a> {
    tier: i64,
    of: &'a str,
    key: &'a str,
    value: &'a str,
    tier_name: &'a str,
}

/// A HyperNode that is to be there.
#[derive(Default)]
struct Wanted {
    name: String,
    members: BTreeSet<String>,
}

/// What is to be made, changed and deleted, lower tiers first.
pub(super) fn changes(seen: &Observed<'_>, settings: &Settings) -> Vec<Change> {
    let existing: BTreeMap<&str, &HyperNode> =
        seen.hyper_nodes.iter().map(|one| (text(one.metadata.name.as_ref()), *one)).collect();
    let wanted = wanted(seen, settings, &Made::of(seen.hyper_nodes));
    let made = wanted.iter().filter_map(|(place, wanted)| match existing.get(wanted.name.as_str()) {
        None => Some(Change::Create(object(new(*place, wanted)))),
        Some(one) if !is_made(one) || one.metadata.deletion_timestamp.is_some() => None,
        Some(one) => changed(one, new(*place, wanted)).map(|one| Change::Replace(object(one))),
    });
    let names: BTreeSet<&str> = wanted.values().map(|wanted| wanted.name.as_str()).collect();
    let has_no_nodes = |one: &&&HyperNode| is_made(one) && !names.contains(text(one.metadata.name.as_ref()));
    let gone = seen.hyper_nodes.iter().filter(has_no_nodes).filter(|one| !is_held(one, settings));
    let gone = gone.filter(|one| one.metadata.deletion_timestamp.is_none());
    let gone = gone.map(|one| Change::Delete(Target::of(Kind::HyperNode, &one.metadata)));
    made.chain(gone).collect()
}

fn object(hyper_node: HyperNode) -> Object {
    Object::HyperNode(Box::new(hyper_node))
}

fn is_made(hyper_node: &HyperNode) -> bool {
    label(hyper_node, NETWORK_TOPOLOGY_SOURCE) == Some(SOURCE)
}

/// Whether it is of a type with a fault in the settings.
fn is_held(hyper_node: &HyperNode, settings: &Settings) -> bool {
    let name = text(hyper_node.metadata.name.as_ref());
    settings.held.iter().any(|of| name.starts_with(&prefix(of)))
}

/// How names of HyperNodes of a type begin.
fn prefix(of: &str) -> String {
    format!("hypernode-{of}-tier")
}

fn label<'a>(hyper_node: &'a HyperNode, key: &str) -> Option<&'a str> {
    hyper_node.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// HyperNodes that were made from labels, by the label and its value: Volcano's names end at random.
struct Made<'a>(BTreeMap<(&'a str, &'a str), Vec<&'a str>>);

impl<'a> Made<'a> {
    fn of(hyper_nodes: &[&'a HyperNode]) -> Self {
        let mut found = BTreeMap::<_, Vec<_>>::new();
        for one in hyper_nodes.iter().filter(|one| is_made(one)) {
            for (key, value) in one.metadata.labels.iter().flatten() {
                found
                    .entry((key.as_str(), value.as_str()))
                    .or_default()
                    .push(text(one.metadata.name.as_ref()));
            }
        }
        for names in found.values_mut() {
            names.sort_unstable();
        }
        Self(found)
    }

    /// The name of the HyperNode that is there, or of that which is made.
    fn name(&self, place: Place<'_>) -> String {
        let Place { tier, of, key, value, .. } = place;
        let start = format!("{}{tier}-", prefix(of));
        let names = self.0.get(&(key, value)).map(Vec::as_slice).unwrap_or_default();
        let there = names.iter().find(|name| name.starts_with(&start));
        there.map_or_else(|| start.clone() + &suffix(&[of, key, value]), ToString::to_string)
    }
}

fn wanted<'a>(seen: &Observed<'a>, settings: &'a Settings, made: &Made<'_>) -> BTreeMap<Place<'a>, Wanted> {
    let mut wanted = BTreeMap::<_, Wanted>::new();
    for (node, labels) in seen.nodes {
        for of in settings.types_of(labels) {
            let mut member = (*node).to_owned();
            for place in places(of, labels) {
                let found = wanted
                    .entry(place)
                    .or_insert_with(|| Wanted { name: made.name(place), members: BTreeSet::new() });
                found.members.insert(std::mem::replace(&mut member, found.name.clone()));
            }
        }
    }
    wanted
}

/// The HyperNodes that a node is in, up to the first label that it lacks.
fn places<'a>(of: &'a TopologyType, labels: &'a Labels) -> impl Iterator<Item = Place<'a>> {
    let value = |key: &String| labels.get(key).filter(|value| !value.is_empty());
    let found = of.levels.iter().map_while(move |level| Some((level, value(&level.node_label)?)));
    (1..).zip(found).map(|(tier, (level, value))| Place {
        tier,
        of: &of.name,
        key: &level.node_label,
        value,
        tier_name: level.tier(),
    })
}

fn new(place: Place<'_>, wanted: &Wanted) -> HyperNode {
    let kind = if place.tier == 1 { MemberType::Node } else { MemberType::HyperNode };
    let member = |name: &String| MemberSpec {
        type_: Some(kind.clone()),
        selector: MemberSelector {
            exact_match: Some(ExactMatch { name: name.clone() }),
            ..MemberSelector::default()
        },
    };
    HyperNode {
        metadata: ObjectMeta {
            name: Some(wanted.name.clone()),
            labels: Some(map([
                (place.key, place.value),
                (NETWORK_TOPOLOGY_SOURCE, SOURCE),
                (NETWORK_TOPOLOGY_PROFILE, place.of),
            ])),
            ..ObjectMeta::default()
        },
        spec: HyperNodeSpec {
            tier: Some(place.tier),
            tier_name: Some(place.tier_name.to_owned()),
            members: wanted.members.iter().map(member).collect(),
        },
        status: None,
    }
}

/// The HyperNode with what it lacks, if it lacks anything; what others wrote beside that stays.
fn changed(before: &HyperNode, wanted: HyperNode) -> Option<HyperNode> {
    let mut after = HyperNode { spec: wanted.spec, ..before.clone() };
    after.metadata.labels.get_or_insert_default().extend(wanted.metadata.labels.into_iter().flatten());
    (after != *before).then_some(after)
}
