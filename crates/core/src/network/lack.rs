//! What a domain lacks for tasks that have no room in it.
use phalanx_cluster::Cluster;
use phalanx_cluster::id::{Id, NodeId};
use phalanx_resource::{Amounts, DimId};

use super::{ClassRoom, Room};

/// What a domain lacks for more tasks: each of them counts what it lacks on the node that lacks the least for it, a
/// node for each task.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Lack {
    distance: Distance,
    /// The amounts; nothing where node filters refuse the tasks on all nodes.
    pub(crate) missing: Amounts,
}

/// How far nodes are from having room: nearer ones come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Distance {
    /// Tasks without a node that could hold them if it were empty.
    beyond: u64,
    /// The missing part of the requests in thousandths, summed over resources.
    share: u128,
}

impl Room {
    /// What these nodes lack to have room for so many of the tasks.
    pub(crate) fn lack(&self, cluster: &Cluster, nodes: &[NodeId], wanted: u64) -> Lack {
        let mut left = wanted.saturating_sub(self.on(nodes));
        let mut lack = Lack::default();
        for class in &self.classes {
            let without = (class.tasks - class.on(nodes)).min(left);
            left -= without;
            self.add_lack(cluster, class, nodes, without, &mut lack);
        }
        lack
    }

    fn add_lack(&self, cluster: &Cluster, class: &ClassRoom, nodes: &[NodeId], tasks: u64, lack: &mut Lack) {
        let mut distances: Vec<(Distance, NodeId)> =
            nodes.iter().filter_map(|node| Some((self.distance(cluster, class, *node)?, *node))).collect();
        distances.sort_unstable();
        let on_nodes = distances.iter().take(tasks as usize);
        for (distance, node) in on_nodes.clone() {
            lack.distance.add(*distance);
            for (dim, missing) in self.missing(cluster, class, *node) {
                lack.missing.set(dim, lack.missing.get(dim) + missing);
            }
        }
        // The tasks that come after one on each node.
        let others = tasks - on_nodes.count() as u64;
        let whole =
            Distance { beyond: others, share: 1000 * u128::from(others) * class.request.len() as u128 };
        lack.distance.add(whole);
        for (dim, amount) in class.request.iter().filter(|_| !distances.is_empty()) {
            lack.missing
                .set(*dim, lack.missing.get(*dim).saturating_add(amount.saturating_mul(others as i64)));
        }
    }

    /// How far a node is from having room for one more task; `None` where node filters refuse it.
    fn distance(&self, cluster: &Cluster, class: &ClassRoom, node: NodeId) -> Option<Distance> {
        let next = i64::from(class.fits[node.index()]?) + 1;
        let request = |dim: DimId| class.request.iter().find(|(of, _)| *of == dim).map_or(1, |(_, it)| *it);
        let share = |(dim, missing): (DimId, i64)| 1000 * missing as u128 / request(dim) as u128;
        let room = &cluster.nodes[node].allocatable;
        let beyond = class.request.iter().any(|(dim, amount)| amount.saturating_mul(next) > room.get(*dim));
        let share = self.missing(cluster, class, node).map(share).fold(0, u128::saturating_add);
        Some(Distance { beyond: beyond.into(), share })
    }

    /// What a node lacks for one more task.
    fn missing<'r>(
        &'r self,
        cluster: &'r Cluster,
        class: &'r ClassRoom,
        node: NodeId,
    ) -> impl Iterator<Item = (DimId, i64)> + 'r {
        let next = i64::from(class.fits[node.index()].unwrap_or_default()) + 1;
        let freed = self.freed.get(&node);
        let missing = move |(dim, amount): &(DimId, i64)| {
            let room = self.of.amount(&cluster.nodes[node], freed, *dim);
            (*dim, amount.saturating_mul(next).saturating_sub(room))
        };
        class.request.iter().map(missing).filter(|(_, missing)| *missing > 0)
    }
}

impl Lack {
    /// The domain that lacks the least comes first, one that node filters refuse last.
    pub(crate) fn order(&self) -> impl Ord + use<> {
        (self.missing.is_zero(), self.distance)
    }
}

impl Distance {
    fn add(&mut self, other: Self) {
        self.beyond = self.beyond.saturating_add(other.beyond);
        self.share = self.share.saturating_add(other.share);
    }
}
