//! Which volumes the claims of a gang get that have none yet.
//!
//! A claim takes the smallest volume that suits it and the node of its pod. That may be the only volume that the claim
//! of another member could have, or one that the next pod of the claim cannot reach. For every assignment of volumes
//! there is an order of volumes and of claims by which each claim takes the first volume that suits it, and all get
//! just these. So where volumes are few, the members are placed with each order of volumes.
use std::collections::BTreeSet;
use std::sync::Arc;

use super::Item;
use crate::session::Session;
use crate::statement::Statement;
use phalanx_cluster::id::TaskId;
use phalanx_cluster::search_budget::Cut;
use phalanx_cluster::{Cluster, reaches};

/// All orders of up to so many volumes are tried: 120 orders.
const VOLUMES_MAX: usize = 5;

/// Volumes times nodes up to which it is looked at whether their order makes a difference.
const COMPARED_MAX: usize = 100_000;

/// Whether a search tries every assignment of volumes.
pub(crate) fn is_exhaustive(session: &Session<'_>, tasks: &[TaskId]) -> bool {
    if tasks.len() < 2 {
        return true;
    }
    let volumes = candidates(session.cluster, tasks.iter().copied());
    volumes.len() <= VOLUMES_MAX || order_does_not_matter(session.cluster, &volumes)
}

/// Whether volumes make it matter which member is placed first: not where each member has claims of its own, and gets
/// the same volumes on a node as any other member would.
pub(super) fn matter(cluster: &Cluster, tasks: &[TaskId]) -> bool {
    let has_volumes = |task: &&TaskId| !cluster.class_of(**task).pvcs.is_empty();
    let own = |task: &TaskId| cluster.volumes_are_own(*task);
    let with: Vec<TaskId> = tasks.iter().filter(has_volumes).copied().collect();
    !(with.is_empty()
        || with.iter().all(own) && order_does_not_matter(cluster, &candidates(cluster, with.into_iter())))
}

/// Searches for places with each order of volumes.
pub(super) fn in_each_order(
    statement: &mut Statement<'_, '_>,
    items: &[Item],
    mut search: impl FnMut(&mut Statement<'_, '_>) -> Result<bool, Cut>,
) -> Result<bool, Cut> {
    let tasks = items.iter().flat_map(|item| &item.tasks).copied();
    let volumes = candidates(statement.session().cluster, tasks);
    let orders = if order_does_not_matter(statement.session().cluster, &volumes) {
        vec![Vec::new()]
    } else if volumes.len() > VOLUMES_MAX {
        vec![Vec::new(), widest_first(statement.session().cluster, volumes)]
    } else {
        orders(volumes)
    };
    let mut found = Ok(false);
    for order in orders {
        statement.session().cluster.prefer_volumes(order);
        found = search(statement);
        if found != Ok(false) {
            break;
        }
    }
    statement.session().cluster.prefer_volumes(Vec::new());
    found
}

/// The volumes among which claims of these tasks have a choice.
fn candidates(cluster: &Cluster, tasks: impl Iterator<Item = TaskId>) -> Vec<Arc<str>> {
    let claims = tasks.flat_map(|task| &cluster.class_of(task).pvcs);
    let open: BTreeSet<_> = claims.copied().filter(|claim| cluster.volumes().waits(*claim)).collect();
    let wants = open.into_iter().filter_map(|claim| cluster.volumes().want(claim));
    let mut volumes: Vec<Arc<str>> = Vec::new();
    for volume in wants.filter(|want| want.candidates.len() > 1).flat_map(|want| want.candidates) {
        if !volumes.contains(&volume.name) {
            volumes.push(volume.name.clone());
        }
    }
    volumes
}

/// Whether no node reaches two of these volumes that differ, as with local disks: then their order makes no difference.
fn order_does_not_matter(cluster: &Cluster, volumes: &[Arc<str>]) -> bool {
    if volumes.len() * cluster.nodes.len() > COMPARED_MAX {
        return false;
    }
    let alike = |of: &[&Arc<str>]| of.windows(2).all(|two| cluster.volumes().are_alike(two[0], two[1]));
    cluster.nodes.iter().all(|(_, node)| {
        let here = volumes.iter().filter(|name| reaches(cluster.volumes().nodes_of(name), node));
        alike(&here.collect::<Vec<_>>())
    })
}

/// All orders of the volumes, the given one first.
fn orders(volumes: Vec<Arc<str>>) -> Vec<Vec<Arc<str>>> {
    if volumes.len() < 2 {
        return vec![volumes];
    }
    let with_first = |at: usize| {
        let mut rest = volumes.clone();
        let first = rest.remove(at);
        orders(rest).into_iter().map(move |order| [vec![first.clone()], order].concat())
    };
    (0..volumes.len()).flat_map(with_first).collect()
}

/// The volumes, those first that the most nodes reach.
fn widest_first(cluster: &Cluster, mut volumes: Vec<Arc<str>>) -> Vec<Arc<str>> {
    let width = |name: &Arc<str>| {
        let terms = cluster.volumes().nodes_of(name);
        terms.map_or(usize::MAX, |terms| {
            cluster.nodes.iter().filter(|(_, node)| reaches(Some(terms), node)).count()
        })
    };
    volumes.sort_by_cached_key(|volume| std::cmp::Reverse(width(volume)));
    volumes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_permutations_are_tried_and_the_given_order_first() {
        let volumes: Vec<Arc<str>> = ["c", "a", "b"].map(Arc::from).into();
        let all = orders(volumes.clone());
        assert_eq!(all[0], volumes);
        assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (6, 6));
    }
}
