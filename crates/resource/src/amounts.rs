//! What is requested, used or idle: an integer a dimension, 0 where nothing is said.

use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use crate::DimId;

/// Integers by dimension, each in the unit of its dimension; a missing one is 0.
///
/// No allocation for up to six dimensions.
#[derive(Clone, Default)]
pub struct Amounts {
    values: SmallVec<[i64; 6]>,
}

impl Amounts {
    /// Nothing of anything.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// The amount of one dimension.
    #[inline]
    pub fn get(&self, dim: DimId) -> i64 {
        self.values.get(dim.index()).copied().unwrap_or(0)
    }

    /// Replaces the amount of one dimension.
    #[inline]
    pub fn set(&mut self, dim: DimId, value: i64) {
        if dim.index() < self.values.len() || value != 0 {
            self.cover(dim.index() + 1);
            self.values[dim.index()] = value;
        }
    }

    /// Adds dimension by dimension. Sums wrap at 2^63, so that what was added can always be taken away again;
    /// amounts of single objects are capped far below that.
    #[inline]
    pub fn add(&mut self, other: &Self) {
        self.cover(other.values.len());
        for (mine, theirs) in self.values.iter_mut().zip(&other.values) {
            *mine = mine.wrapping_add(*theirs);
        }
    }

    /// Subtracts dimension by dimension; the result may be negative.
    #[inline]
    pub fn sub(&mut self, other: &Self) {
        self.cover(other.values.len());
        for (mine, theirs) in self.values.iter_mut().zip(&other.values) {
            *mine = mine.wrapping_sub(*theirs);
        }
    }

    /// Subtracts dimension by dimension, with 0 where the result would be negative.
    pub fn sub_clamped(&mut self, other: &Self) {
        self.sub(other);
        self.map_each(|value| value.max(0));
    }

    /// Whether every non-zero dimension of this request is there in `room`.
    ///
    /// A dimension that is not asked for does not matter, not even when `room` is negative there.
    #[inline]
    pub fn fits(&self, room: &Self) -> bool {
        self.values.iter().enumerate().all(|(i, &need)| need == 0 || need <= room.at(i))
    }

    /// The first dimension by id of which `room` has too little.
    #[inline]
    pub fn first_short(&self, room: &Self) -> Option<DimId> {
        self.short(room).next().map(|(dim, _)| dim)
    }

    /// Every dimension of which `room` has too little, with the missing amount (above 0).
    #[inline]
    pub fn short(&self, room: &Self) -> impl Iterator<Item = (DimId, i64)> {
        self.iter()
            .map(|(dim, need)| (dim, need.saturating_sub(room.get(dim))))
            .filter(|&(_, missing)| missing > 0)
    }

    /// All dimensions are 0.
    #[inline]
    pub fn is_zero(&self) -> bool {
        self.values.iter().all(|&value| value == 0)
    }

    /// Nothing is requested but the place of a pod.
    #[inline]
    pub fn is_best_effort(&self) -> bool {
        self.iter().all(|(dim, _)| dim == DimId::PODS)
    }

    /// The dimensions that are not 0, in the order of ids.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (DimId, i64)> {
        self.values
            .iter()
            .enumerate()
            .filter(|&(_, &value)| value != 0)
            .map(|(i, &value)| (DimId::at(i), value))
    }

    /// The larger of both in each dimension.
    pub fn max_with(&mut self, other: &Self) {
        self.merge(other, i64::max);
    }

    /// The smaller of both in each dimension; one that is missing counts as 0.
    pub fn min_with(&mut self, other: &Self) {
        self.merge(other, i64::min);
    }

    /// Every dimension times `factor`, rounded down.
    pub fn scaled(&self, factor: f64) -> Self {
        let mut scaled = self.clone();
        scaled.map_each(|value| (value as f64 * factor).floor() as i64);
        scaled
    }

    #[inline]
    fn at(&self, index: usize) -> i64 {
        self.values.get(index).copied().unwrap_or(0)
    }

    #[inline]
    fn cover(&mut self, len: usize) {
        if self.values.len() < len {
            self.values.resize(len, 0);
        }
    }

    fn merge(&mut self, other: &Self, pick: impl Fn(i64, i64) -> i64) {
        self.cover(other.values.len());
        for (i, mine) in self.values.iter_mut().enumerate() {
            *mine = pick(*mine, other.at(i));
        }
    }

    fn map_each(&mut self, change: impl Fn(i64) -> i64) {
        for value in &mut self.values {
            *value = change(*value);
        }
    }

    /// Without the zeros at the end, which mean nothing.
    fn significant(&self) -> &[i64] {
        let len = self.values.iter().rposition(|&value| value != 0).map_or(0, |last| last + 1);
        &self.values[..len]
    }
}

impl PartialEq for Amounts {
    fn eq(&self, other: &Self) -> bool {
        self.significant() == other.significant()
    }
}

impl Eq for Amounts {}

impl Hash for Amounts {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.significant().hash(state);
    }
}

/// Amounts of the same dimension are added up.
impl FromIterator<(DimId, i64)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (DimId, i64)>>(items: I) -> Self {
        let mut amounts = Self::new();
        for (dim, value) in items {
            amounts.set(dim, amounts.get(dim) + value);
        }
        amounts
    }
}

impl std::fmt::Debug for Amounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter().map(|(dim, value)| (dim.0, value))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_dimensions_stay_off_the_heap() {
        let mut amounts: Amounts = (0..6).map(|i| (DimId(i), 1)).collect();
        amounts.add(&amounts.clone());
        amounts.sub(&Amounts::from_iter([(DimId(5), 9)]));
        amounts.set(DimId(40), 0);
        assert!(!amounts.values.spilled());
    }
}
