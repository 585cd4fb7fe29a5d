//! A HyperNode: nodes that are near to each other in the network.
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::label::Selector;

/// A HyperNode (`topology.volcano.sh/v1alpha1`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HyperNodeInfo {
    /// Name.
    pub name: Arc<str>,
    /// UID.
    #[serde(default)]
    pub uid: Arc<str>,
    /// `tier`: nodes of a lower tier are nearer to each other.
    pub tier: u32,
    /// `tierName`.
    pub tier_name: Option<Arc<str>>,
    /// `members`.
    pub members: Vec<HyperNodeMember>,
    /// Invalid fields: members that cannot be read are left out.
    pub invalid: Option<Arc<str>>,
}

/// What a HyperNode consists of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HyperNodeMember {
    /// The node of this name.
    Node(Arc<str>),
    /// The nodes whose name this regular expression (of Go's RE2) matches somewhere.
    NodePattern(Arc<str>),
    /// The nodes with such labels.
    NodeLabels(Selector),
    /// The HyperNode of this name.
    HyperNode(Arc<str>),
}
