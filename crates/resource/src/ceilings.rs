//! What may not be exceeded: an integer a dimension, no limit where nothing is said.

use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use crate::{Amounts, DimId};

/// Limits by dimension, each in the unit of its dimension; a missing one is no limit.
///
/// Not an [`Amounts`], where a missing dimension is 0; mixing them up does not compile:
///
/// ```compile_fail,E0308
/// use phalanx_resource::{Amounts, Ceilings};
/// let (request, capability) = (Amounts::new(), Ceilings::new());
/// request.fits(&capability);
/// ```
#[derive(Clone, Default)]
pub struct Ceilings {
    limits: SmallVec<[Option<i64>; 6]>,
}

impl Ceilings {
    /// No limit on anything.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// The limit of one dimension, `None` if there is none.
    #[inline]
    pub fn get(&self, dim: DimId) -> Option<i64> {
        self.limits.get(dim.index()).copied().flatten()
    }

    /// Limits one dimension.
    pub fn set(&mut self, dim: DimId, limit: i64) {
        if self.limits.len() <= dim.index() {
            self.limits.resize(dim.index() + 1, None);
        }
        self.limits[dim.index()] = Some(limit);
    }

    /// Lifts the limit of one dimension.
    pub fn clear(&mut self, dim: DimId) {
        if let Some(limit) = self.limits.get_mut(dim.index()) {
            *limit = None;
        }
    }

    /// The first dimension by id of which `amounts` has more than the limit.
    #[inline]
    pub fn exceeded_by(&self, amounts: &Amounts) -> Option<DimId> {
        self.over(amounts).next().map(|(dim, _)| dim)
    }

    /// Every dimension of which `amounts` has more than the limit, with the excess (above 0).
    #[inline]
    pub fn over(&self, amounts: &Amounts) -> impl Iterator<Item = (DimId, i64)> {
        self.iter()
            .map(|(dim, limit)| (dim, amounts.get(dim).saturating_sub(limit)))
            .filter(|&(_, over)| over > 0)
    }

    /// The limits there are, in the order of ids.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (DimId, i64)> {
        self.limits.iter().enumerate().filter_map(|(i, limit)| limit.map(|limit| (DimId::at(i), limit)))
    }

    /// The stricter of both in each dimension.
    pub fn min_with(&mut self, other: &Self) {
        for (dim, theirs) in other.iter() {
            self.set(dim, self.get(dim).map_or(theirs, |mine| mine.min(theirs)));
        }
    }

    /// There is no limit at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.limits.iter().all(Option::is_none)
    }
}

impl PartialEq for Ceilings {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Ceilings {}

impl Hash for Ceilings {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.iter().for_each(|limit| limit.hash(state));
    }
}

/// Of several limits of the same dimension the last one counts.
impl FromIterator<(DimId, i64)> for Ceilings {
    fn from_iter<I: IntoIterator<Item = (DimId, i64)>>(items: I) -> Self {
        let mut ceilings = Self::new();
        for (dim, limit) in items {
            ceilings.set(dim, limit);
        }
        ceilings
    }
}

impl std::fmt::Debug for Ceilings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter().map(|(dim, limit)| (dim.0, limit))).finish()
    }
}
