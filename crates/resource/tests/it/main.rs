//! Behaviour of the public API, one file a module.

mod amounts;
mod ceilings;
mod dims;
mod quantity;
mod request;

use phalanx_resource::{Amounts, DimId};
use proptest::prelude::*;

/// `[3, 0, 7]` is 3 of the first dimension and 7 of the third.
fn amounts(values: &[i64]) -> Amounts {
    values.iter().enumerate().map(|(i, &value)| (DimId(i as u16), value)).collect()
}

/// Amounts of up to nine dimensions, so that some are on the heap.
fn any_amounts(values: std::ops::RangeInclusive<i64>) -> impl Strategy<Value = Amounts> {
    let value = prop_oneof![Just(0), values];
    proptest::collection::vec(value, 0..9).prop_map(|values| amounts(&values))
}
