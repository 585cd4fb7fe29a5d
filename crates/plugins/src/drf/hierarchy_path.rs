//! The place of a queue in the hierarchy: the annotations `volcano.sh/hierarchy` and `volcano.sh/hierarchy-weights`.
use rustc_hash::FxHashMap;

use phalanx_cluster::annotation::{HIERARCHY, HIERARCHY_WEIGHTS};
use phalanx_cluster::id::QueueId;
use phalanx_cluster::{Queue, ROOT};

/// The names and weights of the nodes on the path to a queue, without the root.
pub(super) type HierarchyPath<'q> = Vec<(&'q str, f64)>;

/// Reads the annotations of a queue. Volcano's admission webhook refuses the same faults.
pub(super) fn path(queue: &Queue) -> Result<HierarchyPath<'_>, String> {
    let (names, weights) = (queue.annotations.get(HIERARCHY), queue.annotations.get(HIERARCHY_WEIGHTS));
    let names: Vec<&str> = names.map(|text| text.split('/').collect()).unwrap_or_default();
    let weights: Vec<&str> = weights.map(|text| text.split('/').collect()).unwrap_or_default();
    if names.len() != weights.len() {
        let (found, expected) = (weights.len(), names.len());
        return Err(format!(
            "{HIERARCHY_WEIGHTS} has {found} parts, expected {expected}, as many as {HIERARCHY}"
        ));
    }
    let weight = |text: &str| text.parse::<f64>().ok().filter(|weight| weight.is_finite() && *weight > 0.0);
    let part = |(name, text): (&str, &str)| match (name, weight(text)) {
        ("", _) => Err(format!("{HIERARCHY} has an empty part")),
        (_, None) => Err(format!("{HIERARCHY_WEIGHTS} has {text:?}, expected numbers above 0")),
        (_, Some(_)) => Ok(()),
    };
    names.iter().copied().zip(weights.iter().copied()).try_for_each(part)?;
    let parts =
        names.into_iter().zip(weights).map(|(name, text)| (name, weight(text).unwrap_or(1.0).max(1.0)));
    let mut parts: HierarchyPath<'_> = parts.collect();
    if parts.first().is_some_and(|(name, _)| *name == ROOT) {
        parts.remove(0);
    }
    Ok(parts)
}

/// Queues that contradict other queues: a queue whose node is an ancestor of another queue's node, and a queue that
/// gives a node another weight than an older queue does.
pub(super) fn contradictions(queues: &[(QueueId, &Queue)]) -> FxHashMap<QueueId, String> {
    let mut paths: Vec<(QueueId, &Queue, HierarchyPath<'_>)> =
        queues.iter().filter_map(|(id, queue)| Some((*id, *queue, path(queue).ok()?))).collect();
    paths.sort_by(|a, b| (a.1.created, &a.1.name).cmp(&(b.1.created, &b.1.name)));
    let mut descendants: FxHashMap<String, &str> = FxHashMap::default();
    for (_, queue, path) in &paths {
        for (place, _) in places(path).into_iter().rev().skip(1) {
            descendants.entry(place).or_insert(&queue.name);
        }
    }
    let mut contradictions = FxHashMap::default();
    let mut known: FxHashMap<String, (&str, f64)> = FxHashMap::default();
    for (id, queue, path) in &paths {
        let places = places(path);
        if let Some(why) = contradiction(&places, &descendants, &known) {
            contradictions.insert(*id, why);
            continue;
        }
        for (place, weight) in places {
            known.entry(place).or_insert((&queue.name, weight));
        }
    }
    contradictions
}

/// Why a queue cannot have these places. `descendants` has a queue below each inner node, `known` the weight that an
/// older queue gives each place, with the name of that queue.
fn contradiction(
    places: &[(String, f64)],
    descendants: &FxHashMap<String, &str>,
    known: &FxHashMap<String, (&str, f64)>,
) -> Option<String> {
    if let Some(other) = places.last().and_then(|(place, _)| descendants.get(place)) {
        return Some(format!("{HIERARCHY} has a place above that of queue {other}"));
    }
    let differs = |(place, weight): &(String, f64)| {
        let (other, other_weight) = known.get(place).filter(|(_, known)| known != weight)?;
        Some(format!(
            "{HIERARCHY_WEIGHTS} has {weight} for {place}, to which queue {other} gives {other_weight}, expected the same"
        ))
    };
    places.iter().find_map(differs)
}

/// The places on a path, such as `root/eng`, from the top down, each with its weight.
fn places(path: &HierarchyPath<'_>) -> Vec<(String, f64)> {
    let mut prefix = ROOT.to_owned();
    let place = |(name, weight): &(&str, f64)| {
        prefix = format!("{prefix}/{name}");
        (prefix.clone(), *weight)
    };
    path.iter().map(place).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use phalanx_cluster::event::QueueInfo;
    use phalanx_framework::testing::{cluster_of, queue, queue_of};

    /// A queue with both annotations.
    pub(in crate::drf) fn queue_at(name: &str, hierarchy: &str, weights: &str) -> QueueInfo {
        let pairs = [(HIERARCHY, hierarchy), (HIERARCHY_WEIGHTS, weights)];
        let annotations = pairs.map(|(key, value)| (key.into(), value.into())).into_iter().collect();
        QueueInfo { annotations, ..queue(name, 1) }
    }

    #[test]
    fn a_path_is_read_from_both_annotations() {
        for (hierarchy, weights, expected) in [
            ("", "", Ok(vec![])),
            ("root", "1", Ok(vec![])),
            ("root/eng/prod", "1/2/8", Ok(vec![("eng", 2.0), ("prod", 8.0)])),
            ("eng", "0.5", Ok(vec![("eng", 1.0)])),
            ("root/eng", "1", Err("has 1 parts, expected 2")),
            ("root/eng", "1/x", Err("has \"x\", expected numbers above 0")),
            ("root/eng", "1/0", Err("has \"0\", expected numbers above 0")),
            ("root//prod", "1/1/1", Err("has an empty part")),
        ] {
            let cluster = cluster_of([queue_at("q", hierarchy, weights)]);
            let found = path(&cluster.queues[queue_of(&cluster, "q")]).map_err(|why| why.clone());
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{hierarchy} {weights}"),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
                (found, expected) => panic!("{hierarchy} {weights}: {found:?}, expected {expected:?}"),
            }
        }
    }
}
