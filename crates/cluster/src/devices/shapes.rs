//! Sets of shapes.
use smallvec::SmallVec;

/// A shape of requests: the number of its bit.
pub(crate) type ShapeId = u16;

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// Which shapes of requests a device is good for: a bit for each, without words of zeros at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Shapes(SmallVec<[u64; 2]>);

impl Shapes {
    pub(crate) fn has(&self, id: ShapeId) -> bool {
        let at = usize::from(id);
        self.0.get(at / WORD).is_some_and(|word| word & (1 << (at % WORD)) != 0)
    }

    pub(crate) fn add(&mut self, id: ShapeId) {
        let at = usize::from(id);
        if self.0.len() <= at / WORD {
            self.0.resize(at / WORD + 1, 0);
        }
        self.0[at / WORD] |= 1 << (at % WORD);
    }

    /// Those of another set too.
    pub(crate) fn unite(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    /// Without those of another set.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= !other);
        let len = self.0.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        self.0.truncate(len);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ShapeId> + '_ {
        (0..(self.0.len() * WORD) as ShapeId).filter(|id| self.has(*id))
    }
}

impl FromIterator<ShapeId> for Shapes {
    fn from_iter<I: IntoIterator<Item = ShapeId>>(ids: I) -> Self {
        let mut shapes = Self::default();
        ids.into_iter().for_each(|id| shapes.add(id));
        shapes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn any_set() -> impl Strategy<Value = BTreeSet<ShapeId>> {
        prop::collection::btree_set(0u16..300, 0..8)
    }

    proptest! {
        #[test]
        fn sets_of_shapes_are_sets(a in any_set(), b in any_set()) {
            let set = |ids: &BTreeSet<ShapeId>| ids.iter().copied().collect::<Shapes>();
            let (mut both, mut rest) = (set(&a), set(&a));
            both.unite(&set(&b));
            rest.subtract(&set(&b));
            prop_assert_eq!(&both, &set(&(&a | &b)));
            prop_assert_eq!(&rest, &set(&(&a - &b)));
            prop_assert_eq!(rest.ids().collect::<BTreeSet<_>>(), &a - &b);
            prop_assert_eq!((both.count() as usize, rest.is_empty()), ((&a | &b).len(), a.is_subset(&b)));
        }
    }
}
