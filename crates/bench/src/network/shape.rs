//! A tree of HyperNodes in three tiers over equal nodes, and how many of their GPUs are free: arithmetic of its own, by
//! which the scheduler is judged.
use std::sync::Arc;

use phalanx_cluster::event::{Event, HyperNodeInfo, HyperNodeMember};

/// The tiers.
pub(super) const TIERS: usize = 3;

/// HyperNodes of tier 1 hold nodes, those of tier 2 hold HyperNodes of tier 1, and one of tier 3 holds all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) nodes: usize,
    /// GPUs of a node; each pod requests one.
    pub(super) gpus: usize,
    /// Nodes of a HyperNode of tier 1, and HyperNodes of tier 1 in one of tier 2.
    pub(super) fanout: [usize; 2],
}

impl Shape {
    /// HyperNodes of 16 nodes, of eight such, and of all.
    pub(super) fn large(nodes: usize, gpus: usize) -> Self {
        Self { nodes, gpus, fanout: [16, 8] }
    }

    /// The nodes of a HyperNode of a tier, at most.
    pub(super) fn width(self, tier: usize) -> usize {
        match tier {
            1 => self.fanout[0],
            2 => self.fanout[0] * self.fanout[1],
            _ => self.nodes.max(1),
        }
    }

    /// How many HyperNodes a tier has.
    pub(super) fn count(self, tier: usize) -> usize {
        self.nodes.div_ceil(self.width(tier))
    }

    /// The lowest tier in which a gang fits the empty cluster.
    pub(super) fn lowest_tier(self, size: usize) -> usize {
        (1..TIERS).find(|tier| size <= self.width(*tier) * self.gpus).unwrap_or(TIERS)
    }

    /// The tier of the lowest HyperNode that holds all of these nodes.
    pub(super) fn tier_of(self, nodes: &[usize]) -> usize {
        let is_one = |tier: &usize| {
            let mut domains = nodes.iter().map(|node| node / self.width(*tier));
            let first = domains.next();
            domains.all(|domain| Some(domain) == first)
        };
        (1..TIERS).find(is_one).unwrap_or(TIERS)
    }

    /// The HyperNodes, over nodes as `generate` names them.
    pub(super) fn hyper_nodes(self) -> Vec<Event> {
        let made = |tier: usize, at: usize| {
            let below = if tier == 1 { 1 } else { self.width(tier - 1) };
            let first = at * self.width(tier) / below;
            let last = ((at + 1) * self.width(tier)).min(self.nodes).div_ceil(below);
            let info = HyperNodeInfo {
                name: name(tier, at),
                tier: tier as u32,
                members: (first..last).map(|member| member_of(tier, member)).collect(),
                ..HyperNodeInfo::default()
            };
            Event::from(info)
        };
        (1..=TIERS).flat_map(|tier| (0..self.count(tier)).map(move |at| made(tier, at))).collect()
    }
}

fn name(tier: usize, at: usize) -> Arc<str> {
    format!("tier{tier}-{at:05}").into()
}

fn member_of(tier: usize, at: usize) -> HyperNodeMember {
    match tier {
        1 => HyperNodeMember::Node(format!("node-{at:06}").into()),
        _ => HyperNodeMember::HyperNode(name(tier - 1, at)),
    }
}

/// The GPUs that are free in each HyperNode.
pub(super) struct Free {
    shape: Shape,
    /// By tier, then by number.
    gpus: [Vec<usize>; TIERS],
}

impl Free {
    /// Of an empty cluster.
    pub(super) fn new(shape: Shape) -> Self {
        let of = |tier: usize, at: usize| {
            let width = shape.width(tier);
            (((at + 1) * width).min(shape.nodes) - at * width) * shape.gpus
        };
        let all = |tier: usize| (0..shape.count(tier)).map(|at| of(tier, at)).collect();
        Self { shape, gpus: [all(1), all(2), all(3)] }
    }

    /// The GPUs that are free in the HyperNodes of a tier.
    pub(super) fn of_tier(&self, tier: usize) -> &[usize] {
        &self.gpus[tier - 1]
    }

    /// The lowest tier of which a HyperNode has room for a gang.
    pub(super) fn lowest_with_room(&self, size: usize) -> Option<usize> {
        (1..=TIERS).find(|tier| self.of_tier(*tier).iter().any(|free| *free >= size))
    }

    /// A pod gets a GPU of each of these nodes.
    pub(super) fn take(&mut self, nodes: &[usize]) {
        self.change(nodes, |free| *free -= 1);
    }

    /// A pod on each of these nodes has ended.
    pub(super) fn give(&mut self, nodes: &[usize]) {
        self.change(nodes, |free| *free += 1);
    }

    fn change(&mut self, nodes: &[usize], by: impl Fn(&mut usize)) {
        for (tier, gpus) in (1..).zip(&mut self.gpus) {
            for node in nodes {
                by(&mut gpus[node / self.shape.width(tier)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_tier_with_room_follows_pods() {
        let shape = Shape { nodes: 6, gpus: 2, fanout: [2, 2] };
        assert_eq!([4, 5, 8, 9].map(|size| shape.lowest_tier(size)), [1, 2, 2, 3]);
        assert_eq!([&[0, 1][..], &[1, 2], &[0, 5], &[4, 4]].map(|nodes| shape.tier_of(nodes)), [1, 2, 3, 1]);
        let mut free = Free::new(shape);
        assert_eq!(free.of_tier(2), [8, 4]);
        free.take(&[0, 2, 4]);
        assert_eq!(
            [3, 4, 6, 7, 9, 10].map(|size| free.lowest_with_room(size)).map(Option::unwrap_or_default),
            [1, 2, 2, 3, 3, 0]
        );
        free.give(&[4]);
        assert_eq!(free.lowest_with_room(4), Some(1));
    }

    #[test]
    fn the_last_hyper_node_of_a_tier_may_be_smaller() {
        let shape = Shape { nodes: 6, gpus: 2, fanout: [2, 2] };
        assert_eq!([1, 2, 3].map(|tier| shape.count(tier)), [3, 2, 1]);
        assert_eq!(shape.hyper_nodes().len(), 6);
    }
}
