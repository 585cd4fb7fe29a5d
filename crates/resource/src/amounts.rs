//! What is requested, used or idle: an integer a dimension, 0 where nothing is said.

use std::hash::{Hash, Hasher};

use crate::DimId;

/// The number of dimensions that need no allocation.
const INLINE: usize = 6;

/// At least [`INLINE`] of them, so that the usual operations are loops of a known length.
#[derive(Clone)]
enum Values {
    Few([i64; INLINE]),
    Many(Vec<i64>),
}

/// Integers by dimension, each in the unit of its dimension; a missing one is 0.
///
/// No allocation for up to six dimensions.
#[derive(Clone)]
pub struct Amounts(Values);

impl Default for Amounts {
    #[inline]
    fn default() -> Self {
        Self(Values::Few([0; INLINE]))
    }
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
        self.at(dim.index())
    }

    /// Replaces the amount of one dimension.
    #[inline]
    pub fn set(&mut self, dim: DimId, value: i64) {
        if dim.index() < self.values().len() || value != 0 {
            self.cover(dim.index() + 1);
            self.values_mut()[dim.index()] = value;
        }
    }

    /// Adds dimension by dimension. Sums wrap at 2^63, so that what was added can always be taken away again;
    /// amounts of single objects are capped far below that.
    #[inline]
    pub fn add(&mut self, other: &Self) {
        self.merge(other, i64::wrapping_add);
    }

    /// Subtracts dimension by dimension; the result may be negative.
    #[inline]
    pub fn sub(&mut self, other: &Self) {
        self.merge(other, i64::wrapping_sub);
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
        if let (Values::Few(needs), Values::Few(room)) = (&self.0, &room.0) {
            // Without a branch for each.
            let short = |(need, room): (&i64, &i64)| u8::from(*need != 0) & u8::from(need > room);
            return needs.iter().zip(room).fold(0, |any, pair| any | short(pair)) == 0;
        }
        self.values().iter().enumerate().all(|(i, &need)| need == 0 || need <= room.at(i))
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
        match &self.0 {
            Values::Few(values) => values.iter().fold(0, |all, value| all | value) == 0,
            Values::Many(values) => values.iter().all(|value| *value == 0),
        }
    }

    /// Nothing is requested but the place of a pod.
    #[inline]
    pub fn is_best_effort(&self) -> bool {
        self.iter().all(|(dim, _)| dim == DimId::PODS)
    }

    /// The dimensions that are not 0, in the order of ids.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (DimId, i64)> {
        self.values()
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
    fn values(&self) -> &[i64] {
        match &self.0 {
            Values::Few(values) => values,
            Values::Many(values) => values,
        }
    }

    #[inline]
    fn values_mut(&mut self) -> &mut [i64] {
        match &mut self.0 {
            Values::Few(values) => values,
            Values::Many(values) => values,
        }
    }

    #[inline]
    fn at(&self, index: usize) -> i64 {
        self.values().get(index).copied().unwrap_or(0)
    }

    #[inline]
    fn cover(&mut self, len: usize) {
        if self.values().len() < len {
            self.grow(len);
        }
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        let mut values = self.values().to_vec();
        values.resize(len, 0);
        self.0 = Values::Many(values);
    }

    #[inline]
    fn merge(&mut self, other: &Self, pick: impl Fn(i64, i64) -> i64) {
        if let (Values::Few(mine), Values::Few(theirs)) = (&mut self.0, &other.0) {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine = pick(*mine, *theirs);
            }
            return;
        }
        self.cover(other.values().len());
        for (i, mine) in self.values_mut().iter_mut().enumerate() {
            *mine = pick(*mine, other.at(i));
        }
    }

    fn map_each(&mut self, change: impl Fn(i64) -> i64) {
        for value in self.values_mut() {
            *value = change(*value);
        }
    }

    /// What is beyond those that there always are, without the zeros at the end, which mean nothing.
    #[inline]
    fn further(&self) -> &[i64] {
        let Values::Many(values) = &self.0 else { return &[] };
        let further = &values[INLINE..];
        let len = further.iter().rposition(|&value| value != 0).map_or(0, |last| last + 1);
        &further[..len]
    }
}

impl PartialEq for Amounts {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        if let (Values::Few(mine), Values::Few(theirs)) = (&self.0, &other.0) {
            return mine.iter().zip(theirs).fold(0, |other, (mine, theirs)| other | (mine ^ theirs)) == 0;
        }
        self.values()[..INLINE] == other.values()[..INLINE] && self.further() == other.further()
    }
}

impl Eq for Amounts {}

impl Hash for Amounts {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        for value in &self.values()[..INLINE] {
            state.write_i64(*value);
        }
        let further = self.further();
        if !further.is_empty() {
            further.hash(state);
        }
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
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn six_dimensions_stay_off_the_heap() {
        let mut amounts: Amounts = (0..6).map(|i| (DimId(i), 1)).collect();
        amounts.add(&amounts.clone());
        amounts.sub(&Amounts::from_iter([(DimId(5), 9)]));
        amounts.set(DimId(40), 0);
        assert!(matches!(amounts.0, Values::Few(_)));
    }

    #[test]
    fn equality_ignores_dimensions_that_became_zero() {
        let hash = |amounts: &Amounts| rustc_hash::FxBuildHasher.hash_one(amounts);
        let few = Amounts::from_iter([(DimId(0), 7), (DimId(5), -3)]);
        let mut more = few.clone();
        more.set(DimId(8), 4);
        assert!(more != few && few.fits(&more) && !more.fits(&few));
        let mut sum = few.clone();
        sum.add(&more);
        assert_eq!((sum.get(DimId(0)), sum.get(DimId(8))), (14, 4));
        sum.sub(&few);
        assert_eq!(sum, more);
        more.set(DimId(8), 0);
        assert!(more == few && hash(&more) == hash(&few));
    }
}
