//! Required pod affinity and anti-affinity, and topology spread. Source: the InterPodAffinity and PodTopologySpread
//! plugins of kube-scheduler 1.36.
//!
//! Pods that are nominated count as they do there: a node has to do with them and without them. Pods that are leaving
//! keep others away until they are gone, but are no company any more and do not count for spreading.
use phalanx_cluster::diagnosis::Unfit;
use phalanx_cluster::id::{ClassId, NodeId};
use phalanx_cluster::{Held, World};
use phalanx_framework::placement::Fit;
use phalanx_framework::plugin::TopologyFilter;

/// InterPodAffinity.
pub(super) struct InterPodAffinityFilter(pub(super) ClassId);

impl TopologyFilter for InterPodAffinityFilter {
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

impl InterPodAffinityFilter {
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
        labelled && company(with_nominated) && (fit.is_future_idle() || company(staying))
    }
}

/// Pods that are there and stay.
pub(super) fn staying([used, ..]: Held<u32>) -> u32 {
    used
}

/// These, and those that are nominated.
pub(super) fn with_nominated([used, _, nominated]: Held<u32>) -> u32 {
    used + nominated
}

fn in_the_way([used, releasing, nominated]: Held<u32>, fit: Fit) -> bool {
    used + nominated > 0 || (fit == Fit::Idle && releasing > 0)
}
