//! The resources of node buckets, as scorers by resources read them.
use phalanx_cluster::Node;
use phalanx_resource::{Amounts, DimId};

/// The resources of a node that scorers read most, as floats: floats divide several times as fast as integers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeAmounts {
    /// Allocatable cpu in millicores and memory in bytes.
    pub allocatable: [f64; 2],
    /// Cpu in millicores and memory in bytes that pods of the node hold, or that are nominated.
    pub used: [f64; 2],
    /// Cpu and memory that pods of the node hold, where a pod without a request counts with kube-scheduler's defaults
    /// (100m, 200Mi).
    pub nonzero_used: [f64; 2],
    /// The [`balance`] of `used`.
    pub balance: f64,
    /// The number of pods that the node may still have.
    pods: i32,
    /// Nothing is being released or nominated and all amounts are exact, so idle and future idle are both allocatable
    /// less used.
    only_used: bool,
}

/// A request for cpu, memory and one or more pods alone, none of which is 0.
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

    /// Whether the request fits, idle as well as future idle; `None` where the amounts of the node have to be compared.
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
    /// The amounts of a node.
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

/// `part * 100 / whole` rounded down, for numbers that are not negative. Exact where both are below 2^45: a hundredfold
/// of them is exact in a float, and no quotient of such numbers is rounded up to a whole number.
#[inline]
pub fn percent(part: f64, whole: f64) -> f64 {
    floor(part * 100.0 / whole)
}

/// `value.floor()` for a value that is not negative and below 2^52. The standard function is a call where the processor
/// is not known to have an instruction for it.
#[inline]
pub fn floor(value: f64) -> f64 {
    const WHOLE: f64 = (1u64 << 52) as f64;
    let near = (value + WHOLE) - WHOLE;
    if near > value { near - 1.0 } else { near }
}

/// How balanced cpu and memory are, as a whole number: 100 for equal shares, 50 where one is full and the other empty.
/// Source: kube-scheduler's NodeResourcesBalancedAllocation for two resources, (1 - |a - b| / 2) * 100.
#[inline]
pub fn balance(requested: [f64; 2], allocatable: [f64; 2]) -> f64 {
    if allocatable[0] == 0.0 || allocatable[1] == 0.0 {
        return 100.0;
    }
    let shares = [(requested[0] / allocatable[0]).min(1.0), (requested[1] / allocatable[1]).min(1.0)];
    let deviation = ((shares[0] - shares[1]) / 2.0).abs();
    floor((1.0 - deviation) * 100.0)
}

/// The resources of all node buckets, by slot.
#[derive(Debug, Default)]
pub struct BucketAmounts {
    /// A node with the resources of the bucket and nothing else.
    nodes: Vec<Node>,
    amounts: Vec<NodeAmounts>,
}

impl BucketAmounts {
    /// A node with the resources of a bucket and no attributes.
    #[inline]
    pub fn node(&self, slot: u32) -> &Node {
        &self.nodes[slot as usize]
    }

    /// The amounts of a bucket as floats.
    #[inline]
    pub fn amounts(&self, slot: u32) -> &NodeAmounts {
        &self.amounts[slot as usize]
    }

    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.amounts.clear();
    }

    /// Sets the resources of a bucket to those of a node.
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
        fn percent_rounds_down_as_integer_division_does(
            part in 0i64..1 << 45,
            whole in prop_oneof![1i64..1000, 1i64..1 << 45],
        ) {
            let part = part.min(whole);
            prop_assert_eq!(percent(part as f64, whole as f64) as i64, part * 100 / whole);
        }
    }
}
