//! Topology spread constraints with DoNotSchedule. Source: kube-scheduler 1.36, plugin PodTopologySpread.
//!
//! Pods that are being deleted do not count. A node has to pass with nominated pods counted and without them.
use phalanx_cluster::diagnosis::Unfit;
use phalanx_cluster::id::{ClassId, NodeId};
use phalanx_cluster::{Cluster, SpreadTerm};
use phalanx_framework::placement::Fit;

use super::inter_pod_affinity::{staying, with_nominated};

/// kube-scheduler's PodTopologySpread filter.
pub(super) fn check(cluster: &Cluster, class: ClassId, node: NodeId, fit: Fit) -> Result<(), Unfit> {
    let it = &cluster.classes[class];
    for spread in it.carried.spread.iter().filter(|spread| spread.required) {
        let Some(tally) = cluster.terms.tally(spread.term, node) else { return Err(Unfit::SpreadLabel) };
        let own = u32::from(cluster.terms.matches(spread.term, it));
        let even = |pods: u32, nominated| {
            pods + own <= least(cluster, spread, nominated).saturating_add(spread.max_skew)
        };
        if !even(with_nominated(tally.pods), true)
            || !(fit.is_future_idle() || even(staying(tally.pods), false))
        {
            return Err(Unfit::Spread);
        }
    }
    Ok(())
}

/// The fewest matching pods of any domain; 0 with fewer domains than `minDomains`.
fn least(cluster: &Cluster, spread: &SpreadTerm, nominated: bool) -> u32 {
    let enough = spread.min_domains <= 1 || cluster.terms.domains(spread.term) >= spread.min_domains as usize;
    if enough { cluster.terms.least(spread.term, nominated) } else { 0 }
}
