//! The amounts of buckets, as scorers read them.
use phalanx_cluster::Node;
use phalanx_resource::{Amounts, DimId};

/// What scorers look at most, as floats: these divide several times as fast as integers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeAmounts {
    /// What pods can have, of cpu (milli) and memory (bytes).
    pub allocatable: [f64; 2],
    /// What they hold or are promised.
    pub used: [f64; 2],
    /// What they hold, where those without a request count as kube-scheduler counts them.
    pub nonzero_used: [f64; 2],
    /// The [`balance`] of what is used.
    pub balance: f64,
    /// Pods for which there is room.
    pods: i32,
    /// Nothing is being released or nominated, and all amounts are exact: what is free is allocatable less used.
    only_used: bool,
}

/// A request of cpu, memory and pods alone, none of which is 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimpleRequest {
    request: [f64; 2],
    pods: i32,
}

impl SimpleRequest {
    pub(super) fn of(request: &Amounts) -> Option<Self> {
        let amounts = AMOUNTS.map(|dim| request.get(dim));
        let known = amounts.iter().all(|amount| (1..EXACT).contains(amount)) && request.iter().count() == 3;
        let pods = i32::try_from(request.get(DimId::PODS)).ok().filter(|pods| known && *pods > 0)?;
        Some(Self { request: amounts.map(|amount| amount as f64), pods })
    }

    /// Whether there is room for it, now as well as later; `None` where that takes a closer look.
    #[inline]
    pub(super) fn fits(&self, amounts: &NodeAmounts) -> Option<bool> {
        let fits = |at: usize| amounts.used[at] + self.request[at] <= amounts.allocatable[at];
        amounts.only_used.then(|| fits(0) && fits(1) && self.pods <= amounts.pods)
    }
}

const AMOUNTS: [DimId; 2] = [DimId::CPU, DimId::MEMORY];
/// Sums of two amounts below this are exact in floats.
const EXACT: i64 = 1 << 52;

impl NodeAmounts {
    /// Of a node.
    pub fn of(node: &Node) -> Self {
        let amounts = [AMOUNTS.map(|dim| node.allocatable.get(dim)), AMOUNTS.map(|dim| node.used(dim))];
        let [allocatable, used] = amounts.map(|pair| pair.map(|amount| amount as f64));
        let exact = amounts.iter().flatten().all(|amount| (0..EXACT).contains(amount));
        Self {
            allocatable,
            used,
            nonzero_used: node.nonzero_used.map(|amount| amount as f64),
            balance: balance(used, allocatable),
            pods: node.idle.get(DimId::PODS).clamp(i32::MIN.into(), i32::MAX.into()) as i32,
            only_used: exact && node.releasing.is_zero() && node.pipelined.is_zero(),
        }
    }
}

/// Whole percents of what is not negative, rounded down as integers are: below 2^45 a hundredfold is exact, and no
/// quotient of numbers of so few bits is rounded up to a whole one.
#[inline]
pub fn percent(part: f64, whole: f64) -> f64 {
    floor(part * 100.0 / whole)
}

/// `floor` of what is neither negative nor large, which is a call where the processor is not known to have an
/// instruction for it.
#[inline]
pub fn floor(value: f64) -> f64 {
    const WHOLE: f64 = (1u64 << 52) as f64;
    let near = (value + WHOLE) - WHOLE;
    if near > value { near - 1.0 } else { near }
}

/// 100 for equal shares of cpu and memory, 50 for one full and the other empty; whole.
#[inline]
pub fn balance(requested: [f64; 2], allocatable: [f64; 2]) -> f64 {
    if allocatable[0] == 0.0 || allocatable[1] == 0.0 {
        return 100.0;
    }
    let shares = [(requested[0] / allocatable[0]).min(1.0), (requested[1] / allocatable[1]).min(1.0)];
    let deviation = ((shares[0] - shares[1]) / 2.0).abs();
    floor((1.0 - deviation) * 100.0)
}

/// BucketAmounts by slot.
#[derive(Debug, Default)]
pub struct BucketAmounts {
    /// A node of the room and nothing else.
    nodes: Vec<Node>,
    amounts: Vec<NodeAmounts>,
}

impl BucketAmounts {
    /// A node with the room, and no attributes.
    #[inline]
    pub fn node(&self, slot: u32) -> &Node {
        &self.nodes[slot as usize]
    }

    /// Its amounts.
    #[inline]
    pub fn amounts(&self, slot: u32) -> &NodeAmounts {
        &self.amounts[slot as usize]
    }

    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.amounts.clear();
    }

    /// Makes the room of a slot that of a node.
    pub(super) fn assume(&mut self, slot: u32, node: &Node) {
        let slot = slot as usize;
        if self.nodes.len() <= slot {
            self.nodes.resize_with(slot + 1, Node::default);
            self.amounts.resize(slot + 1, NodeAmounts::default());
        }
        self.nodes[slot].assume_room(node);
        self.amounts[slot] = NodeAmounts::of(node);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn percents_are_rounded_down_as_integers_are(
            part in 0i64..1 << 45,
            whole in prop_oneof![1i64..1000, 1i64..1 << 45],
        ) {
            let part = part.min(whole);
            prop_assert_eq!(percent(part as f64, whole as f64) as i64, part * 100 / whole);
        }
    }
}
