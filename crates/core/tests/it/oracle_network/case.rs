//! A small cluster with HyperNodes and one gang, in plain figures.
use std::sync::Arc;

use phalanx_cluster::event::{
    HyperNodeInfo, HyperNodeMember, NetworkTopology, PodGroupInfo, PodInfo, SubGroupPolicy, TierLimit,
};
use phalanx_framework::testing::{group, member, node, pod, running};
use phalanx_testkit::{Cycle, TestCluster, one_tier};
use proptest::prelude::*;

/// Cores and bytes.
pub(super) type Figures = [i64; 2];

/// Nodes, by bits.
pub(super) type Set = u32;

/// Sub-groups of the gang, at most.
pub(super) const PARTS: usize = 3;

/// A HyperNode.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    pub(super) tier: u32,
    pub(super) tier_name: String,
    /// The HyperNode that it is a member of.
    pub(super) parent: Option<usize>,
    /// Nodes that are its own members.
    own: Set,
}

/// A member of the gang.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) asks: Figures,
    /// The sub-group, for a pod that has its label.
    pub(super) part: Option<usize>,
    /// The node on which it runs.
    pub(super) on: Option<usize>,
}

/// An entry of `subGroupPolicy`, which selects pods with the label of their sub-group and its own name.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) size: usize,
    pub(super) min: usize,
    pub(super) topology: Option<NetworkTopology>,
}

/// A cluster with HyperNodes and one gang.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) nodes: Vec<Figures>,
    /// What pods of another scheduler use of each node.
    used: Vec<Figures>,
    pub(super) domains: Vec<Domain>,
    pub(super) members: Vec<Member>,
    pub(super) min: usize,
    pub(super) topology: Option<NetworkTopology>,
    /// None, for a gang without sub-groups; one; or one for the first sub-group and one for the others.
    pub(super) entries: Vec<Entry>,
}

fn text([cores, bytes]: Figures) -> String {
    format!("cpu={cores} memory={bytes}")
}

impl Case {
    /// The nodes of a HyperNode and of those below it.
    pub(super) fn nodes_of(&self, domain: usize) -> Set {
        let below = (0..self.domains.len()).filter(|at| self.domains[*at].parent == Some(domain));
        below.fold(self.domains[domain].own, |nodes, at| nodes | self.nodes_of(at))
    }

    /// The place of the entry that makes a sub-group.
    pub(super) fn entry_of(&self, part: usize) -> usize {
        part.min(self.entries.len().saturating_sub(1))
    }

    /// The entry that makes a sub-group.
    pub(super) fn entry(&self, part: usize) -> &Entry {
        &self.entries[self.entry_of(part)]
    }

    /// What is free on each node.
    pub(super) fn free(&self) -> Vec<Figures> {
        let mut free: Vec<Figures> = self.nodes.clone();
        for (free, used) in free.iter_mut().zip(&self.used) {
            *free = [free[0] - used[0], free[1] - used[1]];
        }
        for member in &self.members {
            if let Some(node) = member.on {
                free[node] = [free[node][0] - member.asks[0], free[node][1] - member.asks[1]];
            }
        }
        free
    }

    /// The nodes on which members run that `of` picks.
    pub(super) fn held(&self, of: impl Fn(&Member) -> bool) -> Set {
        let nodes = self.members.iter().filter(|member| of(member)).filter_map(|member| member.on);
        nodes.fold(0, |set, node| set | 1 << node)
    }

    pub(super) fn test(&self) -> TestCluster {
        let plugins = ["priority", "gang", "predicates", "nodeorder", "network-topology-aware"];
        let mut test = TestCluster::with(one_tier(&["allocate"], &plugins));
        for (at, (all, used)) in self.nodes.iter().zip(&self.used).enumerate() {
            let name = format!("n{at}");
            test.add(node(&name, &text(*all)));
            let other = running(pod(&format!("other-{at}"), &text(*used)), &name);
            test.add(PodInfo { ours: false, ..other });
        }
        for at in 0..self.domains.len() {
            test.add(self.hyper_node(at));
        }
        let policies = self.entries.iter().enumerate().map(|(at, entry)| SubGroupPolicy {
            name: format!("entry-{at}").into(),
            keys: vec![format!("entry-{at}").into()],
            size: entry.size as u32,
            min: entry.min as u32,
            topology: entry.topology.clone(),
            ..SubGroupPolicy::default()
        });
        test.add(PodGroupInfo {
            topology: self.topology.clone(),
            sub_groups: policies.collect(),
            ..group("g", self.min as u32)
        });
        for (at, it) in self.members.iter().enumerate() {
            let label = |part: usize| format!("entry-{}", self.entry_of(part));
            let part = it.part.map(|part| (label(part).into(), Arc::from(part.to_string())));
            let pod =
                PodInfo { labels: part.into_iter().collect(), ..member("g", at as u32, &text(it.asks)) };
            test.add(match it.on {
                Some(node) => running(pod, &format!("n{node}")),
                None => pod,
            });
        }
        test
    }

    fn hyper_node(&self, at: usize) -> HyperNodeInfo {
        let it = &self.domains[at];
        let nodes = (0..self.nodes.len()).filter(|node| it.own & (1 << node) != 0);
        let below = (0..self.domains.len()).filter(|below| self.domains[*below].parent == Some(at));
        let node = |node: usize| HyperNodeMember::Node(format!("n{node}").into());
        let hyper_node = |below: usize| HyperNodeMember::HyperNode(format!("h{below}").into());
        HyperNodeInfo {
            name: format!("h{at}").into(),
            uid: "".into(),
            tier: it.tier,
            tier_name: Some(it.tier_name.as_str().into()),
            members: nodes.map(node).chain(below.map(hyper_node)).collect(),
            invalid: None,
        }
    }

    /// The members, with the nodes to which they were bound in a cycle.
    pub(super) fn after(&self, cycle: &Cycle) -> Case {
        let mut after = self.clone();
        for (at, member) in after.members.iter_mut().enumerate() {
            if let Some(node) = cycle.bound.get(&format!("g-{at}")) {
                member.on = node[1..].parse().ok();
            }
        }
        after
    }
}

/// A HyperNode before it has its tier.
type Raw = (u32, prop::sample::Index, bool);

/// Trees: the first `leaves` HyperNodes have nodes, and each may be a member of a later one.
fn forest(
    leaves: usize,
    raw: &[Raw],
    homes: &[Option<prop::sample::Index>],
    offsets: &[usize],
) -> Vec<Domain> {
    let count = raw.len();
    let mut domains: Vec<Domain> = Vec::new();
    for (at, (more, parent, is_root)) in raw.iter().enumerate() {
        let first = (at + 1).max(leaves);
        let parent = (first < count && !is_root).then(|| first + parent.index(count - first));
        let below = domains.iter().filter(|it| it.parent == Some(at)).map(|it| it.tier).max();
        domains.push(Domain {
            tier: below.map_or(1, |tier| tier + 1) + more,
            tier_name: String::new(),
            parent,
            own: 0,
        });
    }
    // Nodes are members of leaves for the most part, and outside every HyperNode without a home.
    for (node, home) in homes.iter().enumerate() {
        if let Some(home) = home {
            domains[home.index(count + 2 * leaves) % count.max(1)].own |= 1 << node;
        }
    }
    for at in 0..count {
        let mut root = at;
        while let Some(parent) = domains[root].parent {
            root = parent;
        }
        // Trees of one depth may name their tiers differently.
        domains[at].tier_name = format!("t{}", domains[at].tier as usize + offsets[root % offsets.len()]);
    }
    domains
}

fn topology() -> impl Strategy<Value = Option<NetworkTopology>> {
    let hard = |limit| Some(NetworkTopology::Hard(limit));
    prop_oneof![
        4 => (1u32..6).prop_map(move |tier| hard(TierLimit::Number(tier))),
        3 => (1u32..6).prop_map(move |tier| hard(TierLimit::Name(format!("t{tier}").into()))),
        3 => Just(Some(NetworkTopology::Soft)),
        1 => Just(None),
    ]
}

prop_compose! {
    fn trees()(nodes in 2usize..7, leaves in 1usize..5, uppers in 0usize..4)(
        nodes in prop::collection::vec([1i64..7, 1i64..7], nodes),
        used in prop::collection::vec([0i64..3, 0i64..3], nodes),
        homes in prop::collection::vec(prop::option::weighted(0.93, any::<prop::sample::Index>()), nodes),
        raw in prop::collection::vec((0u32..2, any::<prop::sample::Index>(), prop::bool::weighted(0.2)), leaves + uppers),
        offsets in prop::collection::vec(0usize..2, 3),
        leaves in Just(leaves),
    ) -> (Vec<Figures>, Vec<Figures>, Vec<Domain>) {
        let used = nodes.iter().zip(used).map(|(all, used)| [used[0].min(all[0]), used[1].min(all[1])]).collect();
        (nodes, used, forest(leaves, &raw, &homes, &offsets))
    }
}

/// A member before it has a node: its class, a sub-group other than that of its neighbours, whether it is in none, and a
/// node on which it runs if there is room.
type RawMember = (usize, Option<usize>, bool, Option<prop::sample::Index>);

fn raw_member() -> impl Strategy<Value = RawMember> {
    let other = prop::option::weighted(0.1, 0usize..PARTS);
    let on = prop::option::weighted(0.2, any::<prop::sample::Index>());
    (0usize..2, other, prop::bool::weighted(0.1), on)
}

fn entry() -> impl Strategy<Value = Entry> {
    (1usize..4, 0usize..3, topology()).prop_map(|(size, min, topology)| Entry { size, min, topology })
}

prop_compose! {
    /// A gang whose pods are of one or two classes, in sub-groups or not.
    pub(super) fn case(classes: usize, count: usize)(
        (nodes, used, domains) in trees(),
        asks in [[1i64..4, 0i64..4], [0i64..5, 1i64..4]],
        raw in prop::collection::vec(raw_member(), 1..7),
        runs in prop::bool::weighted(0.4),
        min in any::<prop::sample::Index>(),
        is_whole in prop::bool::weighted(0.6),
        topology in topology(),
        entries in prop::collection::vec(entry(), count),
    ) -> Case {
        let mut case = Case { nodes, used, domains, members: Vec::new(), min: 1, topology, entries };
        let size = |part: usize| case.entries.get(case.entry_of(part)).map_or(1, |entry| entry.size);
        let parts: Vec<usize> = (0..PARTS).flat_map(|part| vec![part; size(part)]).collect();
        for (at, (class, other, in_none, on)) in raw.iter().enumerate() {
            let asks = asks[class % classes];
            let free = case.free();
            let on = on.filter(|_| runs).map(|on| on.index(case.nodes.len()));
            let on = on.filter(|node| (0..2).all(|dim| asks[dim] <= free[*node][dim]));
            let next = parts.get(at).copied().unwrap_or(PARTS - 1);
            let part = (count > 0 && !in_none).then(|| other.unwrap_or(next));
            case.members.push(Member { asks, part, on });
        }
        case.min = if is_whole { raw.len() } else { 1 + min.index(raw.len()) };
        case
    }
}
