//! Topology keys that are a label of no node, most often because of a spelling mistake.
use phalanx_cluster::Cluster;
use phalanx_cluster::diagnosis::{FitError, Unfit};
use phalanx_cluster::id::{ClassId, TermId};

/// Adds such keys to the reasons why no node is feasible.
pub(super) fn name(cluster: &Cluster, class: ClassId, error: &mut FitError) {
    let carried = &cluster.classes[class].carried;
    if error.reasons.contains_key(&Unfit::PodAffinity) {
        name_all(cluster, carried.affinity.iter().copied(), "pod affinity", error);
    }
    if error.reasons.contains_key(&Unfit::SpreadLabel) {
        let required = carried.spread.iter().filter(|spread| spread.required);
        name_all(cluster, required.map(|spread| spread.term), "topology spread", error);
    }
}

fn name_all(cluster: &Cluster, terms: impl Iterator<Item = TermId>, of: &str, error: &mut FitError) {
    for key in terms.filter_map(|term| cluster.terms.label_of_none(term)) {
        error.add(0, Unfit::Pod(format!("no node has label {key:?} (topologyKey of {of})").into()));
    }
}
