//! Why no node will do: a look at one node of each cell.
use super::cells::Cell;
use super::{Asker, Known, Placement, labels};
use crate::tiers::Tiers;
use phalanx_cluster::diagnosis::{Distance, FitError, Shortage};
use phalanx_cluster::{Node, World};
use phalanx_resource::Amounts;

/// The nearest node so far to having room.
type Nearest<'w> = Option<(Distance, &'w Node)>;

impl Placement {
    /// Why no node will do.
    pub fn explain(&mut self, world: &World, tiers: &Tiers, asker: impl Into<Asker>) -> FitError {
        let asker = asker.into();
        let (known, cells) = self.fresh(world, tiers, asker);
        let request = &world.classes[asker.class].request;
        let mut error = FitError::default();
        let mut nearest: Nearest<'_> = None;
        for cell in cells.iter() {
            let refused = refuse(world, known, cell, request, &mut error);
            let node = &world.nodes[cell.top()];
            let near =
                refused.and_then(|refused| Distance::of(node, request, refused)).map(|far| (far, node));
            nearest = nearer(nearest, near);
        }
        error.nearest = nearest.map(|(distance, node)| {
            let missing = request.short(&node.idle).collect();
            Box::new(Shortage { node: node.name.clone(), missing, distance })
        });
        labels::name(world, asker.class, &mut error);
        error
    }
}

/// Counts the nodes of a cell for each of their reasons. `None` if they are refused whatever is on them; else whether
/// anything but room is missing.
fn refuse(
    world: &World,
    known: &Known,
    cell: &Cell,
    request: &Amounts,
    error: &mut FitError,
) -> Option<bool> {
    error.nodes += cell.nodes;
    if let Some(Err(unfit)) = known.ranking.verdict(cell.kind) {
        error.add(cell.nodes, unfit.clone());
        return None;
    }
    let (node, rules) = (&world.nodes[cell.top()], &known.rules);
    error.add_short(cell.nodes, node, request);
    let by_room = rules.room_filters.iter().find_map(|rule| rule.check(node, true).err());
    let by_domain = rules.domain_filters.iter().find_map(|rule| rule.check(world, cell.top(), true).err());
    let refused = by_room.is_some() || by_domain.is_some();
    by_room.into_iter().chain(by_domain).for_each(|unfit| error.add(cell.nodes, unfit));
    Some(refused)
}

/// The nearer of both; of equals the first by name, so that the order of cells does not matter.
fn nearer<'w>(one: Nearest<'w>, other: Nearest<'w>) -> Nearest<'w> {
    one.into_iter().chain(other).min_by_key(|(distance, node)| (*distance, &node.name))
}
