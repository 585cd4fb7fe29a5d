//! The HyperNode controller: counts of members, and HyperNodes made from labels of nodes.
//!
//! All HyperNodes are reconciled together, since one is made of others.

mod discovery;
mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_api::topology::{HyperNode, HyperNodeStatus};

use crate::change::{Change, Object, Outcome};
use crate::meta::text;

pub use settings::{KEY, Level, Settings, TopologyType};

/// The labels of a node.
pub type Labels = BTreeMap<String, String>;

/// HyperNodes and what they depend on.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// All HyperNodes.
    pub hyper_nodes: &'a [&'a HyperNode],
    /// All nodes, by name.
    pub nodes: &'a BTreeMap<&'a str, &'a Labels>,
    /// How many members each HyperNode has itself, by its name.
    pub counts: &'a BTreeMap<Arc<str>, usize>,
    /// What is to be discovered; nothing where no discovery is enabled.
    pub settings: Option<&'a Settings>,
}

/// Reconciles all HyperNodes.
pub fn reconcile(seen: &Observed<'_>) -> Outcome {
    let discovered = seen.settings.into_iter().flat_map(|settings| discovery::changes(seen, settings));
    let counted = seen.hyper_nodes.iter().filter_map(|hyper_node| counted(hyper_node, seen));
    Outcome { changes: discovered.chain(counted).collect(), ..Outcome::default() }
}

fn counted(hyper_node: &HyperNode, seen: &Observed<'_>) -> Option<Change> {
    if hyper_node.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let count = *seen.counts.get(text(hyper_node.metadata.name.as_ref()))?;
    let node_count = i64::try_from(count).unwrap_or(i64::MAX);
    let before = hyper_node.status.as_ref();
    if before.is_some_and(|status| status.node_count == node_count) {
        return None;
    }
    let status = HyperNodeStatus { node_count, ..before.cloned().unwrap_or_default() };
    let object = Object::HyperNode(Box::new(HyperNode { status: Some(status), ..hyper_node.clone() }));
    Some(Change::Status { object, urgent: false })
}
