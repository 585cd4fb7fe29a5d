//! Counting something in or out.
use std::collections::hash_map::Entry;

use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

/// Whether something is counted in, or out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// The item is added to the sums.
    In,
    /// The item is taken out of the sums that hold it.
    Out,
}

impl Count {
    #[inline]
    pub(crate) fn sign(self) -> i32 {
        match self {
            Count::In => 1,
            Count::Out => -1,
        }
    }

    /// Counts one.
    #[inline]
    pub(crate) fn step(self, counter: &mut u32) {
        match self {
            Count::In => *counter += 1,
            Count::Out => *counter -= 1,
        }
    }

    /// Counts one of a key, whose entry is dropped with the last one.
    pub(crate) fn entry<K: Eq + std::hash::Hash>(self, counters: &mut FxHashMap<K, u32>, key: K) {
        match counters.entry(key) {
            Entry::Occupied(entry) if self == Count::Out && *entry.get() == 1 => drop(entry.remove()),
            entry => self.step(entry.or_default()),
        }
    }

    /// Counts amounts in a sum.
    #[inline]
    pub(crate) fn add(self, sum: &mut Amounts, amounts: &Amounts) {
        match self {
            Count::In => sum.add(amounts),
            Count::Out => sum.sub(amounts),
        }
    }

    /// Counts amounts in a rest, which gets smaller by what is counted in.
    #[inline]
    pub(crate) fn take(self, rest: &mut Amounts, amounts: &Amounts) {
        match self {
            Count::In => rest.sub(amounts),
            Count::Out => rest.add(amounts),
        }
    }
}
