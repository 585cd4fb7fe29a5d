//! Topologies: nodes in domains by the value of a label.
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::event::{Constraints, NodeTerm, PodRules, Spread, TaintEffect, Toleration};
use crate::id::{Id, NodeId, TermId};
use crate::matching::{node_term_matches, tolerates};
use crate::{Node, Stamp};

/// What makes two topologies be one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Where {
    /// The label.
    pub key: Arc<str>,
    /// Other labels that nodes must have to count.
    keys: Vec<Arc<str>>,
    node_selector: Vec<(Arc<str>, Arc<str>)>,
    node_affinity: Option<Vec<NodeTerm>>,
    tolerations: Option<Vec<Toleration>>,
}

impl Where {
    /// All nodes with the label count.
    pub(super) fn all(key: &Arc<str>) -> Self {
        Self { key: key.clone(), ..Self::default() }
    }

    /// Nodes count as kube-scheduler's PodTopologySpread counts them for a pod with these constraints.
    pub(super) fn of_spread(spread: &Spread, rules: &PodRules, constraints: &Constraints) -> Self {
        let key = &spread.term.topology_key;
        let alike = rules.spread.iter().filter(|other| other.required == spread.required);
        let mut keys: Vec<_> = alike.map(|other| other.term.topology_key.clone()).collect();
        keys.retain(|other| other != key);
        keys.sort_unstable();
        keys.dedup();
        let affinity = spread.honor_affinity.then_some(constraints);
        Self {
            key: key.clone(),
            keys,
            node_selector: affinity.map(|of| of.node_selector.clone()).unwrap_or_default(),
            node_affinity: affinity.and_then(|of| of.node_affinity.clone()),
            tolerations: spread.honor_taints.then(|| constraints.tolerations.clone()),
        }
    }

    fn counts(&self, node: &Node) -> bool {
        let selected = self.node_selector.iter().all(|(key, value)| node.label(key) == Some(value));
        let wanted = self
            .node_affinity
            .as_ref()
            .is_none_or(|terms| terms.iter().any(|term| node_term_matches(term, node)));
        let tolerated = self.tolerations.as_ref().is_none_or(|list| {
            let keeps_away = |taint: &&crate::event::Taint| taint.effect != TaintEffect::PreferNoSchedule;
            node.taints.iter().filter(keeps_away).all(|taint| tolerates(list, taint))
        });
        self.keys.iter().all(|key| node.label(key).is_some()) && selected && wanted && tolerated
    }
}

/// Where a node is in a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TopologyPlace {
    /// Its domain.
    pub(super) domain: u32,
    /// Its pods count, and so does its domain.
    pub(super) counts: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct TopologyDomain {
    value: Arc<str>,
    /// Nodes with the value.
    nodes: u32,
    /// The nodes that count.
    counting: u32,
}

/// Nodes by the value of a label.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    pub(super) place: Arc<Where>,
    /// Its terms.
    pub(super) terms: Vec<TermId>,
    nodes: Vec<Option<TopologyPlace>>,
    domains: Vec<TopologyDomain>,
    /// Domains with nodes that count.
    counting: u32,
    free: Vec<u32>,
    ids: FxHashMap<Arc<str>, u32>,
    /// Changes when a domain comes or goes.
    version: Stamp,
}

/// What a node's coming or going did to a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DomainShift {
    /// The domain counts from now on, or no more.
    Domain(u32),
    /// Nothing that matters to counts.
    Nothing,
}

impl Topology {
    pub(super) fn forget_history(&mut self) {
        self.version = Stamp(0);
    }

    pub(super) fn new(place: Arc<Where>, version: Stamp) -> Self {
        Self { place, version, ..Self::default() }
    }

    /// Changes when a domain comes or goes.
    pub fn version(&self) -> u64 {
        self.version.0
    }

    /// One more than the largest domain in use.
    pub fn bound(&self) -> usize {
        self.domains.len()
    }

    /// Where a node is; `None` without the label.
    pub(super) fn place_of(&self, node: NodeId) -> Option<TopologyPlace> {
        self.nodes.get(node.index()).copied().flatten()
    }

    /// The domain of a node.
    pub fn domain_of(&self, node: NodeId) -> Option<usize> {
        self.place_of(node).map(|place| place.domain as usize)
    }

    /// The value of a node's label.
    pub(super) fn value_of(&self, node: NodeId) -> Option<&str> {
        self.domain_of(node).map(|domain| &*self.domains[domain].value)
    }

    /// Whether no node has the label.
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// How many domains have nodes that count.
    pub(super) fn size(&self) -> usize {
        self.counting as usize
    }

    /// Domains with nodes that count.
    pub(super) fn counting(&self) -> impl Iterator<Item = u32> {
        self.domains.iter().enumerate().filter(|(_, domain)| domain.counting > 0).map(|(at, _)| at as u32)
    }

    /// Takes a node out of its domain. No pod of it may be counted there any more.
    pub(super) fn leave(&mut self, id: NodeId, version: Stamp) -> DomainShift {
        let Some(place) = self.nodes.get_mut(id.index()).and_then(Option::take) else {
            return DomainShift::Nothing;
        };
        let domain = &mut self.domains[place.domain as usize];
        domain.nodes -= 1;
        domain.counting -= u32::from(place.counts);
        let uncounted = place.counts && domain.counting == 0;
        self.counting -= u32::from(uncounted);
        if domain.nodes == 0 {
            self.ids.remove(&std::mem::take(domain).value);
            self.free.push(place.domain);
            self.version = version;
        }
        if uncounted { DomainShift::Domain(place.domain) } else { DomainShift::Nothing }
    }

    /// Puts a node into the domain of its label.
    pub(super) fn join(&mut self, id: NodeId, node: &Node, version: Stamp) -> DomainShift {
        let Some(value) = node.label_value(&self.place.key).filter(|_| node.exists) else {
            return DomainShift::Nothing;
        };
        let domain = match self.ids.get(value) {
            Some(domain) => *domain,
            None => self.new_domain(value, version),
        };
        let counts = self.place.counts(node);
        if self.nodes.len() <= id.index() {
            self.nodes.resize(id.index() + 1, None);
        }
        self.nodes[id.index()] = Some(TopologyPlace { domain, counts });
        let it = &mut self.domains[domain as usize];
        it.nodes += 1;
        it.counting += u32::from(counts);
        if !(counts && it.counting == 1) {
            return DomainShift::Nothing;
        }
        self.counting += 1;
        DomainShift::Domain(domain)
    }

    fn new_domain(&mut self, value: &Arc<str>, version: Stamp) -> u32 {
        self.version = version;
        let domain = TopologyDomain { value: value.clone(), ..TopologyDomain::default() };
        let id = if let Some(id) = self.free.pop() {
            self.domains[id as usize] = domain;
            id
        } else {
            self.domains.push(domain);
            self.domains.len() as u32 - 1
        };
        self.ids.insert(value.clone(), id);
        id
    }
}
