//! What a domain lacks for tasks that have no room in it.
use phalanx_cluster::id::{Id, NodeId};
use phalanx_cluster::{Cluster, HyperNodeId};
use phalanx_resource::{Amounts, DimId};

use super::room::{ClassRoom, Room};

/// What a domain lacks for more tasks: each of them counts what it lacks on the node that lacks the least for it, beside
/// the tasks that were counted there before.
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

/// Tasks for each of which a node lacks the same, beside those before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    /// For each.
    distance: Distance,
    node: NodeId,
    /// How many tasks the node holds with the first of them.
    first: i64,
    tasks: u64,
}

impl Room {
    /// What the nodes of a HyperNode lack to have room for so many of the tasks.
    pub(crate) fn lack(&self, cluster: &Cluster, id: HyperNodeId, wanted: u64) -> Lack {
        let nodes = &cluster.hyper_nodes.get(id).nodes;
        let mut left = wanted.saturating_sub(self.on(id));
        let mut lack = Lack::default();
        for class in &self.classes {
            let without = (class.tasks - class.on(id)).min(left);
            left -= without;
            self.add_lack(cluster, class, nodes, without, &mut lack);
        }
        lack
    }

    fn add_lack(&self, cluster: &Cluster, class: &ClassRoom, nodes: &[NodeId], tasks: u64, lack: &mut Lack) {
        let mut runs: Vec<Run> = nodes.iter().flat_map(|node| self.runs(cluster, class, *node)).collect();
        runs.sort_unstable();
        let mut left = tasks;
        for Run { distance, node, first, tasks } in runs {
            let count = tasks.min(left);
            left -= count;
            lack.distance.add(distance, count);
            for (dim, missing) in self.missing(cluster, class, node, first) {
                let missing = missing.saturating_mul(count as i64);
                lack.missing.set(dim, lack.missing.get(dim).saturating_add(missing));
            }
        }
        lack.distance.add(Distance { beyond: 1, share: 0 }, left);
    }

    /// The tasks that a node has no room for, however many: what it lacks for each grows with the tasks before it.
    fn runs(&self, cluster: &Cluster, class: &ClassRoom, node: NodeId) -> Vec<Run> {
        let Some(fits) = class.fits[node.index()].map(i64::from) else { return Vec::new() };
        let (it, freed) = (&cluster.nodes[node], self.freed.get(&node));
        let ends = class.request.iter().flat_map(|(dim, amount)| {
            let enough = self.of.amount(it, freed, *dim).div_euclid(*amount);
            [enough, enough.saturating_add(1), it.allocatable.get(*dim).div_euclid(*amount)]
        });
        let most = if class.apart { 1 } else { i64::MAX };
        let mut ends: Vec<i64> = ends.chain([fits, most]).filter(|end| (fits..=most).contains(end)).collect();
        ends.sort_unstable();
        ends.dedup();
        let between = |pair: &[i64]| {
            let first = pair[0].saturating_add(1);
            let distance = self.distance(cluster, class, node, first);
            Run { distance, node, first, tasks: pair[1].abs_diff(pair[0]) }
        };
        ends.windows(2).map(between).collect()
    }

    /// How far a node is from having room for so many tasks, where it is enough for one less.
    fn distance(&self, cluster: &Cluster, class: &ClassRoom, node: NodeId, tasks: i64) -> Distance {
        let request = |dim: DimId| class.request.iter().find(|(of, _)| *of == dim).map_or(1, |(_, it)| *it);
        let share = |(dim, missing): (DimId, i64)| 1000 * missing as u128 / request(dim) as u128;
        let room = &cluster.nodes[node].allocatable;
        let beyond = class.request.iter().any(|(dim, amount)| amount.saturating_mul(tasks) > room.get(*dim));
        let share = self.missing(cluster, class, node, tasks).map(share).fold(0, u128::saturating_add);
        Distance { beyond: beyond.into(), share }
    }

    /// What a node lacks for so many tasks beyond what it lacks for one less.
    fn missing<'r>(
        &'r self,
        cluster: &'r Cluster,
        class: &'r ClassRoom,
        node: NodeId,
        tasks: i64,
    ) -> impl Iterator<Item = (DimId, i64)> + 'r {
        let freed = self.freed.get(&node);
        let is_first = class.fits[node.index()].is_none_or(|fits| tasks == i64::from(fits) + 1);
        let missing = move |(dim, amount): &(DimId, i64)| {
            let room = self.of.amount(&cluster.nodes[node], freed, *dim);
            let missing = amount.saturating_mul(tasks).saturating_sub(room);
            (*dim, if is_first { missing } else { missing.min(*amount) })
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
    fn add(&mut self, other: Self, times: u64) {
        self.beyond = self.beyond.saturating_add(other.beyond.saturating_mul(times));
        self.share = self.share.saturating_add(other.share.saturating_mul(times.into()));
    }
}
