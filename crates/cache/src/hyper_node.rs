//! HyperNodes.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use phalanx_api::topology::{HyperNode, HyperNodeSpec, MemberSelector, MemberSpec, MemberType};
use phalanx_cluster::PATTERN_BYTES_MAX;
use phalanx_cluster::event::{HyperNodeInfo, HyperNodeMember};
use phalanx_cluster::label::Selector;
use regex::RegexBuilder;

use crate::group::Faults;
use crate::invalid::{At, Invalid};
use crate::{Identity, Interner, Kind, pdb};

/// A HyperNode as the Cluster sees it. Members that cannot be honoured are left out and named in `invalid`.
pub fn hyper_node(hyper_node: &HyperNode, interner: &mut Interner) -> HyperNodeInfo {
    let identity = HyperNode::identity(&hyper_node.metadata, interner);
    reduce(hyper_node, &identity, interner)
}

/// What of a HyperNode cannot be honoured.
pub fn faults_of_hyper_node(hyper_node: &HyperNode) -> Vec<Invalid> {
    let mut faults = Faults::default();
    parts(&hyper_node.spec, &mut faults, &mut Interner::default());
    faults.or(()).err().unwrap_or_default()
}

pub(crate) fn reduce(hyper_node: &HyperNode, identity: &Identity, interner: &mut Interner) -> HyperNodeInfo {
    let mut faults = Faults::default();
    let info = parts(&hyper_node.spec, &mut faults, interner);
    HyperNodeInfo { invalid: faults.text(), ..identified(identity, info) }
}

/// A HyperNode of which only the metadata could be read: it has no members.
pub(crate) fn undecodable(identity: &Identity, invalid: &Invalid) -> HyperNodeInfo {
    let invalid = Some(invalid.to_string().into());
    HyperNodeInfo { invalid, ..identified(identity, HyperNodeInfo::default()) }
}

fn identified(identity: &Identity, info: HyperNodeInfo) -> HyperNodeInfo {
    HyperNodeInfo { name: Arc::clone(&identity.key.name), uid: Arc::clone(&identity.uid), ..info }
}

fn parts(spec: &HyperNodeSpec, faults: &mut Faults, interner: &mut Interner) -> HyperNodeInfo {
    let mut members = Vec::with_capacity(spec.members.len());
    for (at, one) in spec.members.iter().enumerate() {
        match member(one, interner).item(at).at("spec.members") {
            Ok(member) => members.push(member),
            Err(invalid) => faults.note(invalid),
        }
    }
    HyperNodeInfo {
        tier: tier(spec, faults),
        tier_name: spec.tier_name.as_deref().map(|name| interner.string(name)),
        members,
        ..HyperNodeInfo::default()
    }
}

/// Go clients do not write tier 0.
fn tier(spec: &HyperNodeSpec, faults: &mut Faults) -> u32 {
    let tier = spec.tier.unwrap_or(0);
    u32::try_from(tier).unwrap_or_else(|_| {
        let problem = format!("found {tier}, expected 0 to {}", u32::MAX);
        faults.note(Invalid { field: "spec.tier".to_owned(), problem });
        if tier < 0 { 0 } else { u32::MAX }
    })
}

fn member(member: &MemberSpec, interner: &mut Interner) -> Result<HyperNodeMember, Invalid> {
    let MemberSelector { exact_match, regex_match, label_match } = &member.selector;
    let name = exact_match.as_ref().map(|exact| interner.string(&exact.name));
    match (&member.type_, name, regex_match, label_match) {
        (Some(MemberType::Node), Some(name), None, None) => Ok(HyperNodeMember::Node(name)),
        (Some(MemberType::Node), None, Some(regex), None) => pattern(&regex.pattern)
            .map(|()| HyperNodeMember::NodePattern(interner.string(&regex.pattern)))
            .at("selector.regexMatch.pattern"),
        (Some(MemberType::Node), None, None, Some(labels)) => {
            labelled(labels, interner).map(HyperNodeMember::NodeLabels).at("selector.labelMatch")
        }
        (Some(MemberType::HyperNode), Some(name), None, None) => Ok(HyperNodeMember::HyperNode(name)),
        (Some(MemberType::HyperNode), None, ..) => {
            Err(Invalid::new("HyperNodes are named by exactMatch only")).at("selector")
        }
        (Some(MemberType::Other(other)), ..) => {
            Err(Invalid::new(format!("found {other:?}, expected Node or HyperNode"))).at("type")
        }
        (None, ..) => Err(Invalid::new("missing, expected Node or HyperNode")).at("type"),
        _ => {
            Err(Invalid::new("expected exactly one of exactMatch, regexMatch and labelMatch")).at("selector")
        }
    }
}

fn pattern(pattern: &str) -> Result<(), Invalid> {
    let compiled = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build();
    compiled.map(drop).map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            Invalid::new(format!("the regular expression takes more than {PATTERN_BYTES_MAX} bytes"))
        }
        _ => Invalid::new(format!("{pattern:?} is no regular expression (RE2)")),
    })
}

/// As in Volcano, an empty selector selects nothing.
fn labelled(labels: &LabelSelector, interner: &mut Interner) -> Result<Selector, Invalid> {
    let selector = pdb::selector(labels, interner)?;
    if selector.0.is_empty() {
        return Err(Invalid::new("empty, which selects no node; expected matchLabels or matchExpressions"));
    }
    Ok(selector)
}
