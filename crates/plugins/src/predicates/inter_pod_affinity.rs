//! Required pod affinity and anti-affinity. Source: kube-scheduler 1.36, plugin InterPodAffinity.
//!
//! As in kube-scheduler, a node has to pass with nominated pods counted and without them. Terminating pods count for
//! anti-affinity until they are gone, and not for affinity.
use phalanx_cluster::diagnosis::Unfit;
use phalanx_cluster::id::{ClassId, NodeId};
use phalanx_cluster::{Cluster, Held};
use phalanx_framework::placement::Fit;

/// kube-scheduler's InterPodAffinity filter.
pub(super) fn check(cluster: &Cluster, class: ClassId, node: NodeId, fit: Fit) -> Result<(), Unfit> {
    let it = &cluster.classes[class];
    let pods = |term| cluster.terms.tally(term, node).map(|tally| tally.pods);
    if !it.carried.affinity.is_empty() && !affinity_met(cluster, class, node, fit) {
        return Err(Unfit::PodAffinity);
    }
    if it
        .carried
        .anti_affinity
        .iter()
        .filter_map(|term| pods(*term))
        .any(|pods| violates_anti_affinity(pods, fit))
    {
        return Err(Unfit::PodAntiAffinity);
    }
    let mut guards = cluster.terms.symmetric(it).filter_map(|term| cluster.terms.tally(term, node));
    if guards.any(|tally| violates_anti_affinity(tally.guards, fit)) {
        return Err(Unfit::ExistingPodAntiAffinity);
    }
    Ok(())
}

/// Whether the domain of each affinity term has a matching pod. Where no domain has one, a pod that matches its own
/// terms may be the first.
fn affinity_met(cluster: &Cluster, class: ClassId, node: NodeId, fit: Fit) -> bool {
    let class = &cluster.classes[class];
    let terms = &class.carried.affinity;
    let met_with = |see: fn(Held<u32>) -> u32| {
        let mut here = terms.iter().map(|term| cluster.terms.tally(*term, node).map(|tally| see(tally.pods)));
        let first = || {
            terms
                .iter()
                .all(|term| see(cluster.terms.total(*term)) == 0 && cluster.terms.matches(*term, class))
        };
        here.all(|pods| pods.is_some_and(|pods| pods > 0)) || first()
    };
    let labelled = terms.iter().all(|term| cluster.terms.tally(*term, node).is_some());
    labelled && met_with(with_nominated) && (fit.is_future_idle() || met_with(staying))
}

/// Running and allocated pods, without terminating ones.
pub(super) fn staying([used, ..]: Held<u32>) -> u32 {
    used
}

/// Pods that stay, and nominated pods.
pub(super) fn with_nominated([used, _, nominated]: Held<u32>) -> u32 {
    used + nominated
}

fn violates_anti_affinity([used, releasing, nominated]: Held<u32>, fit: Fit) -> bool {
    used + nominated > 0 || (fit == Fit::Idle && releasing > 0)
}
