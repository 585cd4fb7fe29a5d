//! Nodes where devices can be allocated to the claims of a pod. Source: kube-scheduler 1.36, plugin DynamicResources.

use super::node_term_reads;
use phalanx_cluster::diagnosis::Unfit;
use phalanx_cluster::matching::node_term_matches;
use phalanx_cluster::{DeviceNeed, Wanted};
use phalanx_framework::plugin::{Attribute, NodeRules, Values};

/// Adds the filters for what the claims of a task need.
pub(super) fn add(need: DeviceNeed, rules: &mut NodeRules) {
    match need {
        DeviceNeed::Nothing => {}
        DeviceNeed::Blocked(why) => rules.filter(move |_| Err(Unfit::Pod(why.clone()))),
        DeviceNeed::Wanted(wanted) => add_wanted(*wanted, rules),
    }
}

fn add_wanted(wanted: Wanted, rules: &mut NodeRules) {
    let Wanted { node, terms, local, shared } = wanted;
    if let Some(name) = node {
        rules.reads.push((Attribute::Name, Values::These(vec![name.clone()])));
        rules.filter(move |node| if node.name == name { Ok(()) } else { Err(Unfit::ClaimElsewhere) });
    }
    for terms in terms {
        rules.reads.extend(terms.iter().flat_map(node_term_reads));
        rules.filter(move |node| {
            let here = terms.iter().any(|term| node_term_matches(term, node));
            if here { Ok(()) } else { Err(Unfit::ClaimElsewhere) }
        });
    }
    if !local.is_empty() {
        rules.resource_filter(move |node, fit| local.check(node, fit));
    }
    if let Some(shared) = shared {
        let terms = shared.domains.iter().filter_map(|domain| domain.terms.as_ref()).flatten();
        rules.reads.extend(terms.flat_map(node_term_reads));
        rules.resource_filter(move |node, fit| shared.check(node, fit));
    }
}
