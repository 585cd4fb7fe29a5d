//! Nodes where devices can be allocated to the claims of a pod. Source: kube-scheduler 1.36, plugin DynamicResources.
use std::sync::Arc;

use super::node_term_reads;
use phalanx_cluster::diagnosis::Unfit;
use phalanx_cluster::event::NodeTerm;
use phalanx_cluster::matching::node_term_matches;
use phalanx_cluster::{DeviceNeed, Local, Node, Shared, Wanted};
use phalanx_framework::placement::Fit;
use phalanx_framework::plugin::{Attribute, NodeFilter, NodeRules, ResourceFilter, Values};

/// Adds the filters for what the claims of a task need.
pub(super) fn add(need: DeviceNeed, rules: &mut NodeRules) {
    match need {
        DeviceNeed::Nothing => {}
        DeviceNeed::Blocked(why) => rules.filters.push(Box::new(UnservableClaims(why))),
        DeviceNeed::Wanted(wanted) => add_wanted(*wanted, rules),
    }
}

fn add_wanted(wanted: Wanted, rules: &mut NodeRules) {
    let Wanted { node, terms, local, shared } = wanted;
    if let Some(name) = node {
        rules.reads.push((Attribute::Name, Values::These(vec![name.clone()])));
        rules.filters.push(Box::new(ClaimNodeFilter(name)));
    }
    for terms in terms {
        rules.reads.extend(terms.iter().flat_map(node_term_reads));
        rules.filters.push(Box::new(AllocatedDevicesFilter(terms)));
    }
    if !local.is_empty() {
        rules.resource_filters.push(Box::new(NodeDevicesFilter(local)));
    }
    if let Some(shared) = shared {
        let terms = shared.domains.iter().filter_map(|domain| domain.terms.as_ref()).flatten();
        rules.reads.extend(terms.flat_map(node_term_reads));
        rules.resource_filters.push(Box::new(SharedDevicesFilter(shared)));
    }
}

/// Refuses all nodes: no devices can be allocated to a claim, for this reason.
struct UnservableClaims(Arc<str>);

impl NodeFilter for UnservableClaims {
    fn check(&self, _: &Node) -> Result<(), Unfit> {
        Err(Unfit::Pod(self.0.clone()))
    }
}

/// Passes the node that a claim is allocated on.
struct ClaimNodeFilter(Arc<str>);

impl NodeFilter for ClaimNodeFilter {
    fn check(&self, node: &Node) -> Result<(), Unfit> {
        if node.name == self.0 { Ok(()) } else { Err(Unfit::ClaimElsewhere) }
    }
}

/// Passes the nodes that reach the devices allocated to a claim.
struct AllocatedDevicesFilter(Vec<NodeTerm>);

impl NodeFilter for AllocatedDevicesFilter {
    fn check(&self, node: &Node) -> Result<(), Unfit> {
        let here = self.0.iter().any(|term| node_term_matches(term, node));
        if here { Ok(()) } else { Err(Unfit::ClaimElsewhere) }
    }
}

/// Devices of the node itself.
struct NodeDevicesFilter(Local);

impl ResourceFilter for NodeDevicesFilter {
    fn check(&self, node: &Node, fit: Fit) -> Result<(), Unfit> {
        if self.0.serves(node, fit) { Ok(()) } else { Err(self.0.unfit()) }
    }
}

/// Devices that several nodes share.
struct SharedDevicesFilter(Shared);

impl ResourceFilter for SharedDevicesFilter {
    fn check(&self, node: &Node, fit: Fit) -> Result<(), Unfit> {
        if self.0.serves(node, fit) { Ok(()) } else { Err(self.0.unfit()) }
    }
}
