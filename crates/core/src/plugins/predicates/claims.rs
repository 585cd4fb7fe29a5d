//! Nodes on which the claims of a pod can be served (kube-scheduler's DynamicResources).
use std::sync::Arc;

use super::affinity;
use crate::diagnosis::Unfit;
use crate::event::NodeTerm;
use crate::plugin::{Attribute, NodeFilter, NodeRules, RoomFilter, Values};
use crate::world::{Local, Need, Node, Shared, Wanted};

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
        rules.room_filters.push(Box::new(local));
    }
    if let Some(shared) = shared {
        let terms = shared.domains.iter().filter_map(|domain| domain.terms.as_ref()).flatten();
        rules.reads.extend(terms.flat_map(affinity::reads));
        rules.room_filters.push(Box::new(shared));
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
        let here = self.0.iter().any(|term| affinity::matches(term, node));
        if here { Ok(()) } else { Err(Unfit::ClaimElsewhere) }
    }
}

impl RoomFilter for Local {
    fn check(&self, node: &Node, later: bool) -> Result<(), Unfit> {
        if self.serves(node, later) { Ok(()) } else { Err(self.unfit()) }
    }
}

impl RoomFilter for Shared {
    fn check(&self, node: &Node, later: bool) -> Result<(), Unfit> {
        if self.serves(node, later) { Ok(()) } else { Err(self.unfit()) }
    }
}
