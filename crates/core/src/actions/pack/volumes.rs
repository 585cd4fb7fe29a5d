//! Which volumes the claims of a gang get that have none yet.
//!
//! A claim takes the smallest volume that will do where its pod is placed. That may be the only one that another member's
//! claim could have, or one that the next pod of the claim cannot reach. Whoever gets what, if claims are served in some
//! order and each takes the first that will do of a list, there is a list and an order by which they get just that. So
//! where there are few volumes the members are placed with each list.
use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Item, items};
use crate::budget::Cut;
use crate::id::TaskId;
use crate::session::Session;
use crate::statement::Statement;
use crate::world::{World, reaches};

/// Lists of so many volumes are all tried: 120.
const MOST: usize = 5;

/// Whether every way is looked at, as far as volumes go.
pub(in crate::actions) fn is_exhaustive(session: &Session<'_>, tasks: &[TaskId]) -> bool {
    tasks.len() < 2 || candidates(session.world, &items(session, tasks)).len() <= MOST
}

/// Looks for a way to place the items, with each list of volumes in turn.
pub(super) fn in_each_order(
    statement: &mut Statement<'_, '_>,
    items: &[Item],
    mut search: impl FnMut(&mut Statement<'_, '_>) -> Result<bool, Cut>,
) -> Result<bool, Cut> {
    let volumes = candidates(statement.session().world, items);
    let orders = if volumes.len() > MOST {
        vec![Vec::new(), widest_first(statement.session().world, volumes)]
    } else {
        orders(volumes)
    };
    let mut found = Ok(false);
    for order in orders {
        statement.session().world.volumes.prefer(order);
        found = search(statement);
        if found != Ok(false) {
            break;
        }
    }
    statement.session().world.volumes.prefer(Vec::new());
    found
}

/// Volumes that claims of the items could get, where there is a choice.
fn candidates(world: &World, items: &[Item]) -> Vec<Arc<str>> {
    let claims = items.iter().flat_map(|item| &world.class_of(item.tasks[0]).pvcs);
    let open: BTreeSet<_> = claims.copied().filter(|claim| world.volumes.waits(*claim)).collect();
    let wants = open.into_iter().filter_map(|claim| world.volumes.want(claim));
    let mut volumes: Vec<Arc<str>> = Vec::new();
    for volume in wants.filter(|want| want.candidates.len() > 1).flat_map(|want| want.candidates) {
        if !volumes.contains(&volume.name) {
            volumes.push(volume.name.clone());
        }
    }
    volumes
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
fn widest_first(world: &World, mut volumes: Vec<Arc<str>>) -> Vec<Arc<str>> {
    let width = |name: &Arc<str>| {
        let terms = world.volumes.nodes_of(name);
        terms.map_or(usize::MAX, |terms| {
            world.nodes.iter().filter(|(_, node)| reaches(Some(terms), node)).count()
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
