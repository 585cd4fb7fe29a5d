//! What is wrong with HyperNodes: members that are left out.
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::HyperNodes;

/// Members of one HyperNode that are named; there may be thousands.
const MEMBERS_MAX: usize = 3;

/// A HyperNode some of whose members are left out, for what other HyperNodes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HyperNodeFault {
    /// The HyperNode.
    pub hyper_node: Arc<str>,
    /// Its UID.
    pub uid: Arc<str>,
    /// Which members are left out, and why.
    pub text: Arc<str>,
}

impl fmt::Display for HyperNodeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HyperNode {}: {}", self.hyper_node, self.text)
    }
}

/// Members that are left out, by the HyperNode that names them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LeftOut(BTreeMap<Arc<str>, Vec<String>>);

impl LeftOut {
    pub(super) fn add(&mut self, hyper_node: &Arc<str>, member: &str, why: &str) {
        let text = format!("member HyperNode {member} is left out: {why}");
        self.0.entry(Arc::clone(hyper_node)).or_default().push(text);
    }

    fn texts(&self) -> impl Iterator<Item = (&Arc<str>, Arc<str>)> {
        self.0.iter().map(|(hyper_node, left_out)| {
            let more = left_out.len().saturating_sub(MEMBERS_MAX);
            let more = (more > 0).then(|| format!("and {more} more"));
            let named: Vec<String> = left_out.iter().take(MEMBERS_MAX).cloned().chain(more).collect();
            (hyper_node, named.join("; ").into())
        })
    }

    /// Whether the same is wrong with a HyperNode in both.
    fn agrees(&self, other: &Self, hyper_node: &str) -> bool {
        self.0.get(hyper_node) == other.0.get(hyper_node)
    }
}

impl HyperNodes {
    /// HyperNodes some of whose members are left out, by name. What cannot be read of one itself is not among it.
    pub fn faults(&self) -> impl Iterator<Item = HyperNodeFault> {
        self.tree.left_out.texts().map(|(name, text)| HyperNodeFault {
            hyper_node: Arc::clone(name),
            uid: self.objects.get(name).map_or_else(Default::default, |info| Arc::clone(&info.uid)),
            text,
        })
    }

    /// The faults that were not there before, or were others.
    pub(super) fn new_faults(&self, before: &LeftOut) -> Vec<HyperNodeFault> {
        self.faults().filter(|fault| !self.tree.left_out.agrees(before, &fault.hyper_node)).collect()
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
    fn members_are_counted_as_in_volcano() {
        let named = |name: &str| HyperNodeMember::Node(name.into());
        let mut cluster = cluster_of(["n0", "n1", "m0"].map(|name| node(name, "cpu=8")));
        let pattern = HyperNodeMember::NodePattern("^n".into());
        cluster.apply(hyper_node("rack", 1, vec![pattern, named("n0"), named("m0"), named("gone")]).into());
        cluster.apply(above("spine", 2, &["rack", "none"]).into());
        let counts: Vec<(Arc<str>, usize)> = cluster.members_of_hyper_nodes().into_iter().collect();
        assert_eq!(counts, [("rack".into(), 4), ("spine".into(), 2)]);
    }
}
