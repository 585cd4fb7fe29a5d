//! Topology keys that are a label of no node, most often because of a spelling mistake.
use phalanx_cluster::World;
use phalanx_cluster::diagnosis::{FitError, Unfit};
use phalanx_cluster::id::{ClassId, TermId};

/// Adds such keys to the reasons why no node is feasible.
pub(super) fn name(world: &World, class: ClassId, error: &mut FitError) {
    let carried = &world.classes[class].carried;
    if error.reasons.contains_key(&Unfit::PodAffinity) {
        name_all(world, carried.affinity.iter().copied(), "pod affinity", error);
    }
    if error.reasons.contains_key(&Unfit::SpreadLabel) {
        let required = carried.spread.iter().filter(|spread| spread.required);
        name_all(world, required.map(|spread| spread.term), "topology spread", error);
    }
}

fn name_all(world: &World, terms: impl Iterator<Item = TermId>, of: &str, error: &mut FitError) {
    for key in terms.filter_map(|term| world.terms.label_of_none(term)) {
        error.add(0, Unfit::Pod(format!("no node has label {key:?} (topologyKey of {of})").into()));
    }
}
