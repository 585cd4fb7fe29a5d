//! Why a `networkTopology` keeps pods waiting.
use std::sync::Arc;

use phalanx_resource::{Amounts, Dims};

use super::nodes::named;
use crate::event::TierLimit;

/// Why a network topology is not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyFault {
    /// scheduler.conf has no plugin that honours network topologies.
    NoPlugin,
    /// No HyperNode has this `tierName`.
    NoTierName {
        /// The name.
        name: Arc<str>,
        /// Some names that HyperNodes have, in order.
        known: Vec<Arc<str>>,
    },
    /// No HyperNode has this tier or a lower one.
    NoTier(u32),
    /// No HyperNode of this tier or a lower one holds all pods that have nodes already.
    Apart(TierLimit),
    /// No HyperNode has room for all; of those with the pods that have nodes, where there are any.
    NoRoom {
        /// Pods of the gang or sub-group have nodes already.
        beside: bool,
        /// The HyperNode with room for the most pods; of several, the one that lacks the least.
        best: Arc<str>,
        /// For so many.
        fits: u32,
        /// The pods that need nodes together.
        wanted: u32,
        /// What its nodes lack for the others; nothing where node filters refuse the pods.
        missing: Amounts,
    },
    /// No HyperNode that the topology allows is inside the one in which the gang is tried, if that is one.
    NoneInside(Option<Arc<str>>),
    /// The network topology of a sub-group is not met.
    SubGroup {
        /// `name` of the entry of `subGroupPolicy`.
        policy: Arc<str>,
        /// The values of its `matchLabelKeys`.
        group: Arc<str>,
        /// The HyperNode in which the gang was tried, if that was one.
        inside: Option<Arc<str>>,
        /// How many other sub-groups of the gang were placed before it there.
        beside: u32,
        /// Why.
        fault: Box<TopologyFault>,
    },
}

/// How a sub-group is told: `sub-group 1 of subGroupPolicy worker`.
fn sub_group_name(policy: &str, group: &str) -> String {
    let space = if group.is_empty() { "" } else { " " };
    format!("sub-group{space}{group} of subGroupPolicy {policy}")
}

impl TopologyFault {
    /// Whether more capacity may lift it.
    pub fn is_of_room(&self) -> bool {
        match self {
            TopologyFault::NoRoom { .. } | TopologyFault::NoneInside(_) => true,
            TopologyFault::SubGroup { fault, .. } => fault.is_of_room(),
            _ => false,
        }
    }

    pub(super) fn text(&self, dims: &Dims) -> String {
        match self {
            TopologyFault::NoPlugin => {
                "networkTopology of mode hard needs plugin network-topology-aware in scheduler.conf, with its \
                 enabledHyperNodeGradient"
                    .to_owned()
            }
            TopologyFault::NoTierName { name, known } if known.is_empty() => {
                format!("networkTopology: no HyperNode has tierName {name}, or any other")
            }
            TopologyFault::NoTierName { name, known } => {
                let known = known.join(", ");
                format!("networkTopology: no HyperNode has tierName {name}, expected one such as {known}")
            }
            TopologyFault::NoTier(tier) => {
                format!("networkTopology: no HyperNode has tier {tier} or a lower one")
            }
            TopologyFault::Apart(limit) => {
                let tier = match limit {
                    TierLimit::Number(tier) => format!("tier {tier}"),
                    TierLimit::Name(name) => format!("tierName {name}"),
                };
                format!(
                    "networkTopology: no HyperNode of {tier} or a lower one holds the nodes of all its pods"
                )
            }
            TopologyFault::NoRoom { beside, best, fits, wanted, missing } => {
                let which = if *beside { "HyperNode of its other pods" } else { "HyperNode" };
                let lacks = if missing.is_zero() {
                    "and node filters leave no other node of it".to_owned()
                } else {
                    format!("lacks {}", named(missing, dims))
                };
                format!(
                    "networkTopology: no {which} has room for {wanted} pod(s): HyperNode {best} has room for {fits}, \
                     {lacks}"
                )
            }
            TopologyFault::NoneInside(Some(name)) => {
                format!("networkTopology: no HyperNode that it allows is inside HyperNode {name}")
            }
            TopologyFault::NoneInside(None) => {
                "networkTopology: no HyperNode that it allows is inside that of its gang".to_owned()
            }
            TopologyFault::SubGroup { policy, group, inside, beside, fault } => {
                let inside = inside.as_ref().map(|name| format!(" in HyperNode {name}")).unwrap_or_default();
                let beside = match beside {
                    0 => String::new(),
                    others => format!(" beside {others} other sub-group(s)"),
                };
                let name = sub_group_name(policy, group);
                format!("{name}{inside}{beside}: {}", fault.text(dims))
            }
        }
    }
}
