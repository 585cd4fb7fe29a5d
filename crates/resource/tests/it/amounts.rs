use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use phalanx_resource::{Amounts, DimId};
use proptest::prelude::*;

use crate::{amounts, any_amounts};

fn hash(amounts: &Amounts) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(amounts)
}

#[test]
fn a_missing_amount_is_zero() {
    let mut some = Amounts::new();
    assert_eq!(some.get(DimId(40)), 0);
    some.set(DimId(40), 7);
    assert_eq!(some.get(DimId(40)), 7);
    assert_eq!(some.iter().collect::<Vec<_>>(), [(DimId(40), 7)]);
    some.set(DimId(40), 0);
    assert!(some.is_zero());
    assert_eq!(some, Amounts::new());
    assert_eq!(hash(&some), hash(&Amounts::new()));
}

#[test]
fn items_of_one_dimension_are_added_up() {
    let sum = Amounts::from_iter([(DimId::CPU, 1), (DimId::MEMORY, 5), (DimId::CPU, 2)]);
    assert_eq!(sum, amounts(&[3, 5]));
}

#[test]
fn a_request_that_does_not_fit_names_what_is_missing() {
    type Case = (&'static [i64], &'static [i64], &'static [(u16, i64)]);
    let cases: &[Case] = &[
        (&[], &[], &[]),
        (&[], &[-5], &[]),
        (&[0, 3], &[-5, 3], &[]),
        (&[1], &[-5], &[(0, 6)]),
        (&[2, 3], &[2, 3], &[]),
        (&[2, 3, 0, 0, 9, 0, 0, 1], &[1, 3], &[(0, 1), (4, 9), (7, 1)]),
        (&[2], &[4, -1], &[]),
    ];
    for &(need, room, missing) in cases {
        let (request, room) = (amounts(need), amounts(room));
        let short: Vec<_> = request.short(&room).map(|(dim, by)| (dim.0, by)).collect();
        assert_eq!(short, missing, "{need:?}");
        assert_eq!(request.fits(&room), missing.is_empty(), "{need:?}");
        assert_eq!(request.first_short(&room).map(|dim| dim.0), missing.first().map(|&(dim, _)| dim));
    }
}

#[test]
fn a_best_effort_request_has_a_pod_only() {
    let place = Amounts::from_iter([(DimId::PODS, 1)]);
    assert!(place.is_best_effort() && !place.is_zero());
    assert!(Amounts::new().is_best_effort());
    assert!(!amounts(&[0, 1]).is_best_effort());
}

#[test]
fn sums_and_differences_are_taken_by_dimension() {
    let with = |change: fn(&mut Amounts, &Amounts), a: &[i64], b: &[i64]| {
        let mut result = amounts(a);
        change(&mut result, &amounts(b));
        result
    };
    assert_eq!(with(Amounts::add, &[1], &[2, 3]), amounts(&[3, 3]));
    assert_eq!(with(Amounts::sub, &[1], &[2, 3]), amounts(&[-1, -3]));
    assert_eq!(with(Amounts::sub_clamped, &[5, 1, 4], &[2, 3]), amounts(&[3, 0, 4]));
    assert_eq!(with(Amounts::max_with, &[5, -1], &[2, 3, 7]), amounts(&[5, 3, 7]));
    assert_eq!(with(Amounts::max_with, &[5, -1], &[2]), amounts(&[5]));
    assert_eq!(with(Amounts::min_with, &[5, 3, 7], &[2, 4]), amounts(&[2, 3]));
    assert_eq!(with(Amounts::min_with, &[5], &[6, -2]), amounts(&[5, -2]));
}

#[test]
fn scaling_rounds_down() {
    assert_eq!(amounts(&[10, 3, 0, -3]).scaled(1.5), amounts(&[15, 4, 0, -5]));
    assert_eq!(amounts(&[10, 3]).scaled(0.0), Amounts::new());
    assert_eq!(amounts(&[10, 3]).scaled(f64::NAN), Amounts::new());
    assert_eq!(amounts(&[10]).scaled(1e30), amounts(&[i64::MAX]));
}

#[test]
fn debug_shows_amounts_other_than_zero() {
    assert_eq!(format!("{:?}", amounts(&[1500, 0, 1])), "{0: 1500, 2: 1}");
}

const WIDE: std::ops::RangeInclusive<i64> = -(1 << 50)..=1 << 50;

proptest! {
    #[test]
    fn sub_undoes_add(a in any_amounts(WIDE), b in any_amounts(WIDE)) {
        let mut both = a.clone();
        both.add(&b);
        let mut there_and_back = both.clone();
        there_and_back.sub(&b);
        prop_assert_eq!(hash(&there_and_back), hash(&a));
        prop_assert_eq!(there_and_back, a.clone());
        both.sub(&a);
        prop_assert_eq!(both, b);
    }

    #[test]
    fn a_sum_does_not_depend_on_the_order(
        (items, shuffled) in proptest::collection::vec(any_amounts(WIDE), 0..12)
            .prop_flat_map(|items| (Just(items.clone()), Just(items).prop_shuffle())),
    ) {
        let sum = |items: &[Amounts]| {
            let mut sum = Amounts::new();
            for item in items {
                sum.add(item);
            }
            sum
        };
        prop_assert_eq!(sum(&items), sum(&shuffled));
        for dim in (0..9).map(DimId) {
            prop_assert_eq!(sum(&items).get(dim), items.iter().map(|item| item.get(dim)).sum::<i64>());
        }
    }

    #[test]
    fn a_request_that_fits_leaves_no_negative_amount(need in any_amounts(0..=9), room in any_amounts(0..=9)) {
        let mut left = room.clone();
        left.sub(&need);
        prop_assert_eq!(need.fits(&room), left.iter().all(|(_, value)| value > 0));
        let mut topped_up = room.clone();
        topped_up.add(&need.short(&room).collect());
        prop_assert!(need.fits(&topped_up));
    }

    #[test]
    fn a_difference_is_the_sum_of_its_clamped_parts(a in any_amounts(0..=9), b in any_amounts(0..=9)) {
        let mut above = a.clone();
        above.sub_clamped(&b);
        let mut common = a.clone();
        common.min_with(&b);
        above.add(&common);
        prop_assert_eq!(&above, &a);
        let mut most = a.clone();
        most.max_with(&b);
        common.add(&most);
        let mut sum = a;
        sum.add(&b);
        prop_assert_eq!(common, sum);
    }

    #[test]
    fn equality_is_by_dimension(a in any_amounts(0..=2), b in any_amounts(0..=2), zeros in 0..20_u16) {
        let mut longer = a.clone();
        longer.set(DimId(zeros), longer.get(DimId(zeros)) + 1);
        longer.set(DimId(zeros), longer.get(DimId(zeros)) - 1);
        prop_assert_eq!(hash(&longer), hash(&a));
        prop_assert_eq!(&longer, &a);
        prop_assert_eq!(a == b, a.iter().eq(b.iter()));
    }
}
