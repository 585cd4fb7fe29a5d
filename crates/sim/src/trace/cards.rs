//! The cards of nodes: a share of a device has to be on one card, whole devices on cards that nobody else uses. The
//! scheduler counts the devices of a node together, so this says how far a run is from what cards could hold.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::Cluster;
use phalanx_resource::Quantity;
use serde::Serialize;

/// A whole card, in thousandths.
const CARD: i64 = 1_000;

/// Pods of a run that use a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OnCards {
    /// Pods that were bound.
    pub bound: usize,
    /// Of these, pods for which the node had enough in parts of several cards only.
    pub split: usize,
}

/// A node, and what a pod has of its cards.
type Held = (Arc<str>, Vec<(usize, i64)>);

/// The cards of a resource and who is on them.
#[derive(Debug, Default)]
pub(super) struct Cards {
    resource: Arc<str>,
    /// What is free of each card, by node.
    free: BTreeMap<Arc<str>, Vec<i64>>,
    /// By the UID of a pod.
    held: BTreeMap<Arc<str>, Held>,
    pub(super) told: OnCards,
}

impl Cards {
    /// Empty cards; none of what is no device.
    pub(super) fn of(cluster: &Cluster, resource: &Arc<str>) -> Self {
        let dim = cluster.dims.get(resource).filter(|_| resource.contains('/'));
        let one = dim.map(|dim| "1".parse().map_or(1, |one| cluster.dims.amount(dim, one)).max(1));
        let cards = dim.zip(one).into_iter().flat_map(|(dim, one)| {
            let nodes = cluster.nodes.iter().map(|(_, node)| node).filter(|node| node.exists);
            nodes.map(move |node| (node.name.clone(), vec![CARD; (node.allocatable.get(dim) / one) as usize]))
        });
        Self { resource: resource.clone(), free: cards.collect(), ..Self::default() }
    }

    /// A pod is bound: its share goes to the fullest card that has room, whole devices to empty cards.
    pub(super) fn bound(&mut self, uid: &Arc<str>, node: &Arc<str>, requests: &[(Arc<str>, Quantity)]) {
        let amount =
            requests.iter().find(|(name, _)| *name == self.resource).map(|(_, amount)| amount.milli());
        let (Some(amount), Some(free)) = (amount.filter(|amount| *amount > 0), self.free.get_mut(node))
        else {
            return;
        };
        self.told.bound += 1;
        let mut cards: Vec<usize> = (0..free.len()).filter(|card| free[*card] > 0).collect();
        cards.sort_by_key(|card| free[*card]);
        let fitting = |card: &usize| free[*card] >= amount.min(CARD);
        let places: Vec<usize> = cards.iter().copied().filter(fitting).collect();
        let needed = (amount / CARD).max(1) as usize;
        let fits = places.len() >= needed && (amount <= CARD || amount % CARD == 0);
        self.told.split += usize::from(!fits);
        let mut left = amount;
        let mut parts = Vec::new();
        for card in if fits { places } else { cards } {
            let part = left.min(free[card]);
            free[card] -= part;
            left -= part;
            parts.push((card, part));
            if left == 0 {
                break;
            }
        }
        self.held.insert(uid.clone(), (node.clone(), parts));
    }

    /// A pod is gone.
    pub(super) fn gone(&mut self, uid: &str) {
        let Some((node, parts)) = self.held.remove(uid) else { return };
        let Some(free) = self.free.get_mut(&node) else { return };
        for (card, part) in parts {
            free[card] += part;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_on_one_card_each_and_whole_devices_on_empty_cards() {
        let (gpu, node): (Arc<str>, Arc<str>) = ("a/gpu".into(), "n".into());
        let mut cards =
            Cards { resource: gpu.clone(), free: [(node.clone(), vec![CARD; 2])].into(), ..Cards::default() };
        let bind = |cards: &mut Cards, uid: &str, amount: &str| {
            cards.bound(&uid.into(), &node, &[(gpu.clone(), amount.parse().unwrap())]);
            cards.told.split
        };
        assert_eq!(bind(&mut cards, "half", "500m"), 0);
        assert_eq!(bind(&mut cards, "third", "300m"), 0, "on the same card");
        assert_eq!(bind(&mut cards, "whole", "1"), 0);
        cards.gone("whole");
        assert_eq!(bind(&mut cards, "most", "600m"), 0);
        assert_eq!(bind(&mut cards, "rest", "500m"), 1, "200m are free on one card and 400m on the other");
        assert_eq!(cards.told, OnCards { bound: 5, split: 1 });
    }
}
