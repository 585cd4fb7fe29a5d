//! Nodes on which the claims of a pod can be served (kube-scheduler's DynamicResources).
use std::sync::Arc;

use super::affinity;
use phalanx_cluster::diagnosis::Unfit;
use phalanx_cluster::event::NodeTerm;
use phalanx_cluster::matching::node_term_matches;
use phalanx_cluster::{Local, Need, Node, Shared, Wanted};
use phalanx_framework::placement::Fit;
use phalanx_framework::plugin::{Attribute, NodeFilter, NodeRules, ResourceFilter, Values};

/// Adds what the claims of a task need.
pub(super) fn add(need: Need, rules: &mut NodeRules) {
    match need {
        Need::Nothing => {}
        Need::Blocked(why) => rules.filters.push(Box::new(Blocked(why))),
        Need::Wanted(wanted) => add_wanted(*wanted, rules),
    }
}

fn add_wanted(wanted: Wanted, rules: &mut NodeRules) {
    let Wanted { node, terms, local, shared } = wanted;
    if let Some(name) = node {
        rules.reads.push((Attribute::Name, Values::These(vec![name.clone()])));
        rules.filters.push(Box::new(Named(name)));
    }
    for terms in terms {
        rules.reads.extend(terms.iter().flat_map(affinity::reads));
        rules.filters.push(Box::new(Given(terms)));
    }
    if !local.is_empty() {
        rules.resource_filters.push(Box::new(OnNode(local)));
    }
    if let Some(shared) = shared {
        let terms = shared.domains.iter().filter_map(|domain| domain.terms.as_ref()).flatten();
        rules.reads.extend(terms.flat_map(affinity::reads));
        rules.resource_filters.push(Box::new(BetweenNodes(shared)));
    }
}

struct Blocked(Arc<str>);

impl NodeFilter for Blocked {
    fn check(&self, _: &Node) -> Result<(), Unfit> {
        Err(Unfit::Pod(self.0.clone()))
    }
}

struct Named(Arc<str>);

impl NodeFilter for Named {
    fn check(&self, node: &Node) -> Result<(), Unfit> {
        if node.name == self.0 { Ok(()) } else { Err(Unfit::ClaimElsewhere) }
    }
}

struct Given(Vec<NodeTerm>);

impl NodeFilter for Given {
    fn check(&self, node: &Node) -> Result<(), Unfit> {
        let here = self.0.iter().any(|term| node_term_matches(term, node));
        if here { Ok(()) } else { Err(Unfit::ClaimElsewhere) }
    }
}

/// Devices of the node itself.
struct OnNode(Local);

impl ResourceFilter for OnNode {
    fn check(&self, node: &Node, fit: Fit) -> Result<(), Unfit> {
        if self.0.serves(node, fit.is_future_idle()) { Ok(()) } else { Err(self.0.unfit()) }
    }
}

/// Devices that several nodes share.
struct BetweenNodes(Shared);

impl ResourceFilter for BetweenNodes {
    fn check(&self, node: &Node, fit: Fit) -> Result<(), Unfit> {
        if self.0.serves(node, fit.is_future_idle()) { Ok(()) } else { Err(self.0.unfit()) }
    }
}
