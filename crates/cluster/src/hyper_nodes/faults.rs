//! What is wrong with HyperNodes: members that are left out or select nothing, and nodes in two of one tier.
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::HyperNodes;
use crate::event::HyperNodeMember;

/// Faults of one HyperNode that are told; there may be thousands of members.
const TOLD_MAX: usize = 3;

/// A HyperNode that does not hold what it seems to, for what other HyperNodes and nodes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HyperNodeFault {
    /// The HyperNode.
    pub hyper_node: Arc<str>,
    /// Its UID.
    pub uid: Arc<str>,
    /// Which members are left out, and why, and the like.
    pub text: Arc<str>,
}

impl fmt::Display for HyperNodeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HyperNode {}: {}", self.hyper_node, self.text)
    }
}

/// What is wrong, by HyperNode.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Faults(BTreeMap<Arc<str>, Vec<String>>);

impl Faults {
    pub(super) fn left_out(&mut self, hyper_node: &Arc<str>, kind: &str, member: &str, why: &str) {
        self.add(hyper_node, format!("member {kind} {member} is left out: {why}"));
    }

    /// A member that selects no node.
    pub(super) fn selects_nothing(&mut self, hyper_node: &Arc<str>, member: &HyperNodeMember) {
        match member {
            HyperNodeMember::Node(name) => self.left_out(hyper_node, "Node", name, "it does not exist"),
            HyperNodeMember::NodePattern(pattern) => {
                self.add(hyper_node, format!("regexMatch {pattern} matches no node"));
            }
            HyperNodeMember::NodeLabels(selector) => {
                let keys: Vec<&str> = selector.0.iter().map(|of| &*of.key).collect();
                self.add(hyper_node, format!("labelMatch by {} matches no node", keys.join(", ")));
            }
            HyperNodeMember::HyperNode(_) => {}
        }
    }

    /// Members of a HyperNode that are members of another one of the same tier too.
    pub(super) fn shares(&mut self, hyper_node: &Arc<str>, first: &str, nodes: usize, other: &str) {
        let (more, verb) = if nodes > 1 {
            (format!(" and {} more of its nodes", nodes - 1), "are")
        } else {
            (String::new(), "is")
        };
        self.add(
            hyper_node,
            format!("node {first}{more} {verb} in HyperNode {other} too, which has the same tier"),
        );
    }

    fn add(&mut self, hyper_node: &Arc<str>, text: String) {
        self.0.entry(Arc::clone(hyper_node)).or_default().push(text);
    }

    fn texts(&self) -> impl Iterator<Item = (&Arc<str>, Arc<str>)> {
        self.0.iter().map(|(hyper_node, faults)| {
            let more = faults.len().saturating_sub(TOLD_MAX);
            let more = (more > 0).then(|| format!("and {more} more"));
            let told: Vec<String> = faults.iter().take(TOLD_MAX).cloned().chain(more).collect();
            (hyper_node, told.join("; ").into())
        })
    }

    /// Whether the same is wrong with a HyperNode in both.
    fn agrees(&self, other: &Self, hyper_node: &str) -> bool {
        self.0.get(hyper_node) == other.0.get(hyper_node)
    }
}

impl HyperNodes {
    /// What is wrong with HyperNodes, by name. What cannot be read of one itself is not among it.
    pub fn faults(&self) -> impl Iterator<Item = HyperNodeFault> {
        self.tree.faults.texts().map(|(name, text)| HyperNodeFault {
            hyper_node: Arc::clone(name),
            uid: self.objects.get(name).map_or_else(Default::default, |info| Arc::clone(&info.uid)),
            text,
        })
    }

    /// The faults that were not there before, or were others.
    pub(super) fn new_faults(&self, before: &Faults) -> Vec<HyperNodeFault> {
        self.faults().filter(|fault| !self.tree.faults.agrees(before, &fault.hyper_node)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cluster;
    use crate::event::{HyperNodeInfo, HyperNodeMember};
    use crate::testing::{cluster_of, node};

    fn hyper_node(name: &str, tier: u32, members: Vec<HyperNodeMember>) -> HyperNodeInfo {
        HyperNodeInfo {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            tier,
            members,
            ..HyperNodeInfo::default()
        }
    }

    fn above(name: &str, tier: u32, members: &[&str]) -> HyperNodeInfo {
        hyper_node(
            name,
            tier,
            members.iter().map(|name| HyperNodeMember::HyperNode((*name).into())).collect(),
        )
    }

    fn named(name: &str) -> HyperNodeMember {
        HyperNodeMember::Node(name.into())
    }

    fn told(cluster: &mut Cluster) -> Vec<String> {
        let faults = cluster.follow_hyper_nodes().into_iter();
        faults.map(|fault| format!("{} ({}): {}", fault.hyper_node, fault.uid, fault.text)).collect()
    }

    #[test]
    fn a_fault_is_told_when_it_is_new_and_no_second_time() {
        let mut cluster = cluster_of([node("n0", "cpu=8")]);
        for info in [above("a", 2, &["b", "rack"]), above("b", 2, &["rack", "none"]), above("rack", 1, &[])] {
            cluster.apply(info.into());
        }
        assert_eq!(
            told(&mut cluster),
            [
                "a (uid-a): member HyperNode b is left out: it has tier 2, expected less than 2",
                "b (uid-b): member HyperNode rack is left out: it is a member of a already; \
                 member HyperNode none is left out: it does not exist",
            ]
        );
        cluster.apply(node("n1", "cpu=8").into());
        assert_eq!(told(&mut cluster), [""; 0]);
        cluster.apply(above("none", 1, &[]).into());
        assert_eq!(
            told(&mut cluster),
            ["b (uid-b): member HyperNode rack is left out: it is a member of a already"],
            "b is another one, a is the same"
        );
        cluster.apply(above("b", 3, &["none"]).into());
        assert_eq!(
            told(&mut cluster),
            ["a (uid-a): member HyperNode b is left out: it has tier 3, expected less than 2"]
        );
        assert_eq!(cluster.hyper_nodes.faults().count(), 1);
    }

    #[test]
    fn of_many_members_that_are_left_out_three_are_named() {
        let mut cluster = cluster_of([above("a", 2, &["b", "c", "d", "e", "f"])]);
        let told = told(&mut cluster);
        assert!(
            told[0].ends_with("member HyperNode d is left out: it does not exist; and 2 more"),
            "{told:?}"
        );
    }

    #[test]
    fn members_that_select_no_node_are_told_while_there_are_nodes() {
        let pattern = HyperNodeMember::NodePattern("^gpu-".into());
        let by_label = crate::event::Requirement {
            key: "rack".into(),
            operator: crate::event::Operator::In,
            values: vec!["9".into()],
        };
        let labels = HyperNodeMember::NodeLabels(crate::label::Selector(vec![by_label]));
        let mut cluster =
            cluster_of([hyper_node("rack", 1, vec![named("n0"), named("gone"), pattern, labels])]);
        assert_eq!(told(&mut cluster), [""; 0], "nodes may not have been seen yet");
        cluster.apply(node("n0", "cpu=8").into());
        assert_eq!(
            told(&mut cluster),
            [
                "rack (uid-rack): member Node gone is left out: it does not exist; regexMatch ^gpu- matches no node; \
              labelMatch by rack matches no node"
            ]
        );
    }

    #[test]
    fn nodes_in_two_hyper_nodes_of_a_tier_are_told() {
        let mut cluster = cluster_of((0..12).map(|at| node(&format!("n{at}"), "cpu=8")));
        let pattern = |name: &str, tier, pattern: &str| {
            hyper_node(name, tier, vec![HyperNodeMember::NodePattern(pattern.into()), named("n5")])
        };
        let other_tree = HyperNodeInfo { tier_name: Some("block".into()), ..pattern("z", 1, "n") };
        for info in [pattern("a", 1, "^n1"), hyper_node("b", 1, vec![named("n10"), named("n5")]), other_tree]
        {
            cluster.apply(info.into());
        }
        cluster.apply(hyper_node("c", 1, vec![named("n11")]).into());
        cluster.apply(pattern("d", 2, "n").into());
        assert_eq!(
            told(&mut cluster),
            [
                "b (uid-b): node n10 and 1 more of its nodes are in HyperNode a too, which has the same tier",
                "c (uid-c): node n11 is in HyperNode a too, which has the same tier",
            ]
        );
    }

    #[test]
    fn members_are_counted_as_in_volcano() {
        let mut cluster = cluster_of(["n0", "n1", "m0"].map(|name| node(name, "cpu=8")));
        let pattern = HyperNodeMember::NodePattern("^n".into());
        cluster.apply(hyper_node("rack", 1, vec![pattern, named("n0"), named("m0"), named("gone")]).into());
        cluster.apply(above("spine", 2, &["rack", "none"]).into());
        let counts: Vec<(Arc<str>, usize)> = cluster.members_of_hyper_nodes().into_iter().collect();
        assert_eq!(counts, [("rack".into(), 4), ("spine".into(), 2)]);
    }
}
