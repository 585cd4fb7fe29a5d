//! What a scan of a capacity index looks for, and how far it has come.
use phalanx_resource::Amounts;

use super::capacity_delta::{clamped, free};
use super::capacity_index::Bounds;
use phalanx_cluster::Cluster;
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{TermId, TopologyId};

/// Which classes a scan looks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sought<'a> {
    /// Classes that free capacity may serve, ruled out by the largest free capacity where it is known.
    Fitting(Option<&'a Largest>),
    /// Classes that tasks may be evicted for.
    Evicting,
    /// Classes that tasks may be evicted for, and that were not tried since this cycle.
    EvictingSince(u64),
}

/// A query of a capacity index.
pub(super) struct ClassQuery<'a> {
    pub(super) sought: Sought<'a>,
    /// Sum of free capacity of all nodes.
    pub(super) spare: &'a Amounts,
    /// Classes in backoff at this time are skipped; `None` skips no class.
    pub(super) in_backoff_at: Option<Time>,
    /// The cycle: classes tried in it are skipped.
    pub(super) cycle: u64,
}

/// The position of a scan in the capacity index of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    pub(super) block: usize,
    pub(super) at: usize,
    /// When the first back-off of a skipped class ends.
    pub(super) next_retry: Option<Time>,
}

/// Upper bounds of the free capacity of any node and domain, by resource.
#[derive(Clone, Debug)]
pub(super) struct Largest {
    /// Of any node.
    pub(super) node: Amounts,
    /// Of any domain, by topology; only of a few topologies, and only where classes await affinity.
    domains: Vec<(TopologyId, Amounts)>,
}

impl Largest {
    pub(super) fn new(cluster: &Cluster, seeking: bool) -> Self {
        let mut largest = Self { node: Amounts::new(), domains: Vec::new() };
        for (_, node) in cluster.nodes.iter() {
            largest.node.max_with(&free(node));
        }
        if seeking {
            let of = |id| (id, largest_domain(cluster, id));
            largest.domains = cluster.terms.topology_ids().take(TOPOLOGIES).map(of).collect();
        }
        largest
    }
}

/// The number of topologies whose domains are compared.
const TOPOLOGIES: usize = 4;

fn largest_domain(cluster: &Cluster, topology: TopologyId) -> Amounts {
    let topology = cluster.terms.topology(topology);
    let mut domains = vec![Amounts::new(); topology.bound()];
    for (id, node) in cluster.nodes.iter() {
        if let Some(domain) = topology.domain_of(id) {
            domains[domain].add(&clamped(&free(node)));
        }
    }
    let larger = |mut largest: Amounts, domain: &Amounts| {
        largest.max_with(domain);
        largest
    };
    domains.iter().fold(Amounts::new(), larger)
}

impl ClassQuery<'_> {
    /// Whether one domain may have so much capacity, for pods with affinity to each other by a term.
    pub(super) fn has_domain(&self, cluster: &Cluster, term: TermId, min_request: &Amounts) -> bool {
        let largest = || self.largest_domain(topology_to_share(cluster, term)?);
        !matches!(self.sought, Sought::Fitting(Some(_)))
            || largest().is_none_or(|most| min_request.fits(most))
    }

    /// The largest free capacity of any domain of a topology, where it is known.
    pub(super) fn largest_domain(&self, topology: TopologyId) -> Option<&Amounts> {
        let Sought::Fitting(Some(most)) = self.sought else { return None };
        most.domains.iter().find(|(id, _)| *id == topology).map(|(_, most)| most)
    }
}

impl Cursor {
    /// Whether a class is not to be skipped because of its back-off.
    pub(super) fn is_past_backoff(&mut self, bounds: &Bounds, search: &ClassQuery<'_>) -> bool {
        let rests = search.in_backoff_at.is_some_and(|now| bounds.backoff_until > now);
        if rests {
            self.next_retry = self.next_retry.into_iter().chain([bounds.backoff_until]).min();
        }
        !rests
    }
}

/// The topology of which pods with affinity to each other have to share a domain, as long as no pod that matches is
/// placed.
pub(super) fn topology_to_share(cluster: &Cluster, term: TermId) -> Option<TopologyId> {
    cluster.terms.topology_of(term).filter(|_| cluster.terms.total(term) == [0; 3])
}
