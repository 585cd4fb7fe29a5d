//! Which volumes the claims of a gang get that have none yet.
//!
//! A claim takes the smallest volume that will do where its pod is placed. That may be the only one that another member's
//! claim could have, or one that the next pod of the claim cannot reach. Whoever gets what, if claims are served in some
//! order and each takes the first that will do of a list, there is a list and an order by which they get just that. So
//! where there are few volumes the members are placed with each list.
use std::collections::BTreeSet;
use std::sync::Arc;

use super::Item;
use crate::session::Session;
use crate::statement::Statement;
use phalanx_cluster::budget::Cut;
use phalanx_cluster::id::TaskId;
use phalanx_cluster::{Cluster, reaches};

/// Lists of so many volumes are all tried: 120.
const MOST: usize = 5;

/// Volumes times nodes that are looked at for whether lists make a difference.
const LOOKED_AT: usize = 100_000;

/// Whether every way is looked at, as far as volumes go.
pub(crate) fn is_exhaustive(session: &Session<'_>, tasks: &[TaskId]) -> bool {
    if tasks.len() < 2 {
        return true;
    }
    let volumes = candidates(session.cluster, tasks.iter().copied());
    volumes.len() <= MOST || is_all_the_same(session.cluster, &volumes)
}

/// Whether it makes a difference which member comes first because of its volumes: not if each has claims of its own, and gets for
/// them on a node whatever any other would.
pub(super) fn matter(cluster: &Cluster, tasks: &[TaskId]) -> bool {
    let has_volumes = |task: &&TaskId| !cluster.class_of(**task).pvcs.is_empty();
    let own = |task: &TaskId| cluster.volumes_are_own(*task);
    let with: Vec<TaskId> = tasks.iter().filter(has_volumes).copied().collect();
    !(with.is_empty()
        || with.iter().all(own) && is_all_the_same(cluster, &candidates(cluster, with.into_iter())))
}

/// Looks for a way to place the items, with each list of volumes in turn.
pub(super) fn in_each_order(
    statement: &mut Statement<'_, '_>,
    items: &[Item],
    mut search: impl FnMut(&mut Statement<'_, '_>) -> Result<bool, Cut>,
) -> Result<bool, Cut> {
    let tasks = items.iter().flat_map(|item| &item.tasks).copied();
    let volumes = candidates(statement.session().cluster, tasks);
    let orders = if is_all_the_same(statement.session().cluster, &volumes) {
        vec![Vec::new()]
    } else if volumes.len() > MOST {
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

/// Volumes that claims of tasks could get, where there is a choice.
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

/// Whether no node can use two of these that are unlike, as with local disks: then it makes no difference which one is given first.
fn is_all_the_same(cluster: &Cluster, volumes: &[Arc<str>]) -> bool {
    if volumes.len() * cluster.nodes.len() > LOOKED_AT {
        return false;
    }
    let alike = |of: &[&Arc<str>]| of.windows(2).all(|two| cluster.volumes().are_alike(two[0], two[1]));
    cluster.nodes.iter().all(|(_, node)| {
        let here = volumes.iter().filter(|name| reaches(cluster.volumes().nodes_of(name), node));
        alike(&here.collect::<Vec<_>>())
    })
}

/// All orders, the given one first.
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

/// Those first that the most nodes can use.
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
    fn all_orders_are_tried_the_given_one_first() {
        let volumes: Vec<Arc<str>> = ["c", "a", "b"].map(Arc::from).into();
        let all = orders(volumes.clone());
        assert_eq!(all[0], volumes);
        assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (6, 6));
    }
}
