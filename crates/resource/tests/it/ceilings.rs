use phalanx_resource::{Ceilings, DimId};
use proptest::prelude::*;

use crate::{amounts, any_amounts};

#[test]
fn a_missing_ceiling_is_no_limit() {
    let mut ceilings = Ceilings::new();
    assert!(ceilings.is_empty());
    assert_eq!(ceilings.get(DimId(9)), None);
    assert_eq!(ceilings.exceeded_by(&amounts(&[i64::MAX, i64::MAX])), None);
    ceilings.set(DimId::MEMORY, 0);
    assert_eq!(ceilings.get(DimId::MEMORY), Some(0));
    assert_eq!(ceilings.exceeded_by(&amounts(&[5])), None);
    assert_eq!(ceilings.exceeded_by(&amounts(&[5, 1])), Some(DimId::MEMORY));
    ceilings.clear(DimId::MEMORY);
    ceilings.clear(DimId(9));
    assert!(ceilings.is_empty());
    assert_eq!(ceilings, Ceilings::new());
}

#[test]
fn every_excess_is_named() {
    let ceilings = Ceilings::from_iter([(DimId(0), 4), (DimId(2), 1), (DimId(7), -3)]);
    let over: Vec<_> = ceilings.over(&amounts(&[4, 99, 3])).collect();
    assert_eq!(over, [(DimId(2), 2), (DimId(7), 3)]);
    assert_eq!(ceilings.exceeded_by(&amounts(&[4, 99, 3])), Some(DimId(2)));
    assert_eq!(format!("{ceilings:?}"), "{0: 4, 2: 1, 7: -3}");
}

#[test]
fn the_stricter_limit_wins() {
    let mut ceilings = Ceilings::from_iter([(DimId(0), 4), (DimId(1), 5)]);
    ceilings.min_with(&Ceilings::from_iter([(DimId(1), 3), (DimId(6), 9)]));
    assert_eq!(ceilings, Ceilings::from_iter([(DimId(0), 4), (DimId(1), 3), (DimId(6), 9)]));
}

proptest! {
    #[test]
    fn the_minimum_of_two_ceilings_keeps_both_limits(a in any_amounts(0..=5), b in any_amounts(0..=5), used in any_amounts(0..=7)) {
        let (a, b): (Ceilings, Ceilings) = (a.iter().collect(), b.iter().collect());
        let mut both = a.clone();
        both.min_with(&b);
        let within = |ceilings: &Ceilings| ceilings.exceeded_by(&used).is_none();
        prop_assert_eq!(within(&both), within(&a) && within(&b));
        let mut reduced = used.clone();
        reduced.sub(&both.over(&used).collect());
        prop_assert!(both.exceeded_by(&reduced).is_none());
    }
}
