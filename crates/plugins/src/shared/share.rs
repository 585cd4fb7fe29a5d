//! Shares, such as `held / deserved`, compared exactly.
use std::cmp::Ordering;

/// A fraction. Where the whole is 0, the share of a part above 0 is 1, and that of no part is 0, as in Volcano's
/// `Share`.
///
/// Shares are compared by cross-multiplication: the order is total, and the same on every machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    part: i64,
    whole: i64,
}

impl Share {
    pub(crate) const NONE: Share = Share { part: 0, whole: 1 };

    /// The share of `part` in `whole`; amounts below 0 count as 0.
    #[inline]
    pub(crate) fn new(part: i64, whole: i64) -> Self {
        match (part.max(0), whole.max(0)) {
            (0, _) => Self::NONE,
            (_, 0) => Self { part: 1, whole: 1 },
            (part, whole) => Self { part, whole },
        }
    }

    /// As a number, for metrics.
    pub(crate) fn as_number(self) -> f64 {
        self.part as f64 / self.whole as f64
    }

    /// The largest share; over resources, the dominant share.
    #[inline]
    pub(crate) fn largest(shares: impl Iterator<Item = Share>) -> Self {
        shares.fold(Self::NONE, |a, b| if b > a { b } else { a })
    }
}

impl Ord for Share {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let cross = |a: &Share, b: &Share| i128::from(a.part) * i128::from(b.whole);
        cross(self, other).cmp(&cross(other, self))
    }
}

impl PartialOrd for Share {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Equal fractions are equal: 1 of 2 is 2 of 4.
impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Share {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_compare_as_fractions() {
        assert_eq!(Share::new(1, 2), Share::new(2, 4));
        assert_eq!(Share::new(5, 0), Share::new(3, 3));
        assert_eq!(Share::new(0, 0), Share::NONE);
        assert_eq!(Share::new(-3, 5), Share::NONE);
        // Floats cannot tell 2^53 + 1 from 2^53.
        let whole = (1 << 53) + 1;
        assert!(Share::new(whole - 1, whole) < Share::new(whole, whole));
        assert_eq!(Share::largest([Share::new(1, 3), Share::new(1, 2)].into_iter()), Share::new(2, 4));
    }

    proptest! {
        #[test]
        fn the_order_of_shares_is_total(values in prop::array::uniform3((0i64..9, 0i64..9))) {
            let [a, b, c] = values.map(|(part, whole)| Share::new(part, whole));
            prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
            prop_assert!(!(a <= b && b <= c) || a <= c);
        }
    }
}
