//! How many tasks of a class nodes take together.
use std::collections::BTreeMap;

use phalanx_cluster::id::{ClassId, Id, NodeId, TermId};
use phalanx_cluster::{Class, Cluster};

/// A domain of nodes, by a term of the class; none where a node is in none.
type Domain = Option<u32>;

/// What the nodes take, by what members of a class ask of each other.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sum {
    /// All together.
    All { total: u64 },
    /// One in each domain, and all together of those in none.
    Apart { domains: Domains, total: u64 },
    /// Those of one domain.
    Together {
        domains: Domains,
        /// How many domains take so many; of those that take any.
        by_sum: BTreeMap<u64, u32>,
    },
}

/// What the nodes of each domain take.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Domains {
    /// By node.
    of: Vec<Domain>,
    sums: Vec<u64>,
}

impl Domains {
    fn new(cluster: &Cluster, term: TermId) -> Self {
        let of = |at| cluster.terms.domain_of(term, NodeId::from_index(at));
        let of: Vec<Domain> = (0..cluster.nodes.bound()).map(of).collect();
        let count = of.iter().flatten().max().map_or(0, |last| *last as usize + 1);
        Self { of, sums: vec![0; count] }
    }

    /// What the domain of a node took and takes, now that the node takes others.
    fn change(&mut self, node: usize, before: u32, after: u32) -> Option<(u64, u64)> {
        let sum = &mut self.sums[self.of[node]? as usize];
        let old = *sum;
        *sum = old + u64::from(after) - u64::from(before);
        Some((old, *sum))
    }
}

/// The term by which all of a class have to be in one domain: its own, with most domains, where there is no such pod yet, and none
/// comes with them.
pub(super) fn gathering(
    cluster: &Cluster,
    class: &Class,
    others: impl Iterator<Item = ClassId>,
) -> Option<TermId> {
    let is_sought = |other: ClassId| {
        class.carried.affinity.iter().any(|term| cluster.terms.means(*term, &cluster.classes[other]))
    };
    cluster.terms.choice(class).filter(|_| !others.into_iter().any(is_sought))
}

/// The term that keeps those of a class apart, with the fewest domains.
fn parting(cluster: &Cluster, class: &Class) -> Option<TermId> {
    let own = class.carried.anti_affinity.iter().copied().filter(|term| cluster.terms.means(*term, class));
    own.min_by_key(|term| cluster.terms.domains(*term))
}

impl Sum {
    /// Of no nodes.
    pub(super) fn new(cluster: &Cluster, class: &Class, gathering: Option<TermId>) -> Self {
        let domains = |term| Domains::new(cluster, term);
        match (parting(cluster, class), gathering) {
            (Some(term), _) => Self::Apart { domains: domains(term), total: 0 },
            (None, Some(term)) => Self::Together { domains: domains(term), by_sum: BTreeMap::new() },
            (None, None) => Self::All { total: 0 },
        }
    }

    /// How many a node takes that has room for so many.
    pub(super) fn on_node(&self, node: usize, fits: u32) -> u32 {
        match self {
            Self::Apart { domains, .. } if domains.of[node].is_some() => fits.min(1),
            _ => fits,
        }
    }

    /// A node takes others than before.
    pub(super) fn change(&mut self, node: usize, before: u32, after: u32) {
        match self {
            Self::All { total } => *total = *total + u64::from(after) - u64::from(before),
            Self::Apart { domains, total } => match domains.change(node, before, after) {
                Some((before, after)) => *total = *total + u64::from(after > 0) - u64::from(before > 0),
                None => *total = *total + u64::from(after) - u64::from(before),
            },
            Self::Together { domains, by_sum } => {
                let Some((before, after)) = domains.change(node, before, after) else { return };
                if after > 0 {
                    *by_sum.entry(after).or_default() += 1;
                }
                if let Some(count) = by_sum.get_mut(&before) {
                    *count -= 1;
                    if *count == 0 {
                        by_sum.remove(&before);
                    }
                }
            }
        }
    }

    pub(super) fn total(&self) -> u64 {
        match self {
            Self::All { total } | Self::Apart { total, .. } => *total,
            Self::Together { by_sum, .. } => by_sum.last_key_value().map_or(0, |(sum, _)| *sum),
        }
    }
}
