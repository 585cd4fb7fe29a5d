//! Required pod affinity and anti-affinity, and topology spread. Source: the InterPodAffinity and PodTopologySpread
//! plugins of kube-scheduler 1.36.
//!
//! Pods that are nominated count as they do there: a node has to do with them and without them. Pods that are leaving
//! keep others away until they are gone, but are no company any more and do not count for spreading.
use phalanx_cluster::diagnosis::Unfit;
use phalanx_cluster::id::{ClassId, NodeId};
use phalanx_cluster::{Held, SpreadTerm, World};
use phalanx_framework::placement::Fit;
use phalanx_framework::plugin::TopologyFilter;

/// InterPodAffinity.
pub(super) struct PodAffinity(pub(super) ClassId);

impl TopologyFilter for PodAffinity {
    fn check(&self, world: &World, node: NodeId, fit: Fit) -> Result<(), Unfit> {
        let class = &world.classes[self.0];
        let pods = |term| world.terms.tally(term, node).map(|tally| tally.pods);
        if !class.carried.affinity.is_empty() && !self.in_company(world, node, fit) {
            return Err(Unfit::PodAffinity);
        }
        if class.carried.anti_affinity.iter().filter_map(|term| pods(*term)).any(|pods| in_the_way(pods, fit))
        {
            return Err(Unfit::PodAntiAffinity);
        }
        let mut guards = world.terms.outward(class).filter_map(|term| world.terms.tally(term, node));
        if guards.any(|tally| in_the_way(tally.guards, fit)) {
            return Err(Unfit::ExistingPodAntiAffinity);
        }
        Ok(())
    }
}

impl PodAffinity {
    /// Whether there is such a pod in the domain of each term. Where there is none anywhere, a pod that its own terms
    /// mean may be the first.
    fn in_company(&self, world: &World, node: NodeId, fit: Fit) -> bool {
        let class = &world.classes[self.0];
        let terms = &class.carried.affinity;
        let company = |see: fn(Held<u32>) -> u32| {
            let mut here =
                terms.iter().map(|term| world.terms.tally(*term, node).map(|tally| see(tally.pods)));
            let first = || {
                terms.iter().all(|term| see(world.terms.total(*term)) == 0 && world.terms.means(*term, class))
            };
            here.all(|pods| pods.is_some_and(|pods| pods > 0)) || first()
        };
        let labelled = terms.iter().all(|term| world.terms.tally(*term, node).is_some());
        labelled && company(with_nominated) && (fit.is_future_idle() || company(there))
    }
}

/// Pods that are there and stay.
fn there([used, ..]: Held<u32>) -> u32 {
    used
}

/// These, and those that are nominated.
fn with_nominated([used, _, nominated]: Held<u32>) -> u32 {
    used + nominated
}

fn in_the_way([used, releasing, nominated]: Held<u32>, fit: Fit) -> bool {
    used + nominated > 0 || (fit == Fit::Idle && releasing > 0)
}

/// PodTopologySpread.
pub(super) struct Spread(pub(super) ClassId);

impl TopologyFilter for Spread {
    fn check(&self, world: &World, node: NodeId, fit: Fit) -> Result<(), Unfit> {
        let class = &world.classes[self.0];
        for spread in class.carried.spread.iter().filter(|spread| spread.required) {
            let Some(tally) = world.terms.tally(spread.term, node) else { return Err(Unfit::SpreadLabel) };
            let own = u32::from(world.terms.means(spread.term, class));
            let even = |pods: u32, nominated| {
                pods + own <= least(world, spread, nominated).saturating_add(spread.max_skew)
            };
            if !even(with_nominated(tally.pods), true)
                || !(fit.is_future_idle() || even(there(tally.pods), false))
            {
                return Err(Unfit::Spread);
            }
        }
        Ok(())
    }
}

/// The fewest pods of any domain; none with fewer domains than there should be.
fn least(world: &World, spread: &SpreadTerm, nominated: bool) -> u32 {
    let enough = spread.min_domains <= 1 || world.terms.domains(spread.term) >= spread.min_domains as usize;
    if enough { world.terms.least(spread.term, nominated) } else { 0 }
}
