//! Divides one resource by weight between bounds: weighted max-min fairness, in integers.

/// What somebody may get: at least `least`, at most `most`, in between by weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WeightedDemand<'a> {
    /// Decides among equals; no two claims have the same.
    pub(crate) name: &'a str,
    pub(crate) weight: u32,
    pub(crate) least: i64,
    pub(crate) most: i64,
}

/// What each claim gets of `total`.
///
/// There is one level λ at which the sum of `clamp(λ·weight, least, most)` is `total`, or all have their `most`; that is
/// what rounds of "divide the rest by weight among the unmet" approach, found here directly by a walk over the levels at
/// which a claim leaves its `least` or reaches its `most`. What is left after rounding down goes by one unit to the
/// largest fractions, of equal ones to the first names: the order of claims does not matter.
///
/// The sum of all `least` must not exceed `total`. Then the result sums to `min(total, Σ most)` exactly.
pub(crate) fn fill(total: i64, claims: &[WeightedDemand<'_>]) -> Vec<i64> {
    let sum =
        |of: fn(&WeightedDemand<'_>) -> i64| claims.iter().map(|claim| i128::from(of(claim))).sum::<i128>();
    if sum(|claim| claim.most) <= i128::from(total) {
        return claims.iter().map(|claim| claim.most).collect();
    }
    let mut level = FillLevel { fixed: sum(|claim| claim.least), weight: 0 };
    let steps = steps(claims);
    let mut rising = vec![false; claims.len()];
    let mut filled: Vec<i64> = claims.iter().map(|claim| claim.least).collect();
    for step in &steps {
        if level.reaches(i128::from(total), step) {
            break;
        }
        level.pass(step);
        rising[step.claim] = !step.full;
        filled[step.claim] = step.amount;
    }
    divide(i128::from(total) - level.fixed, claims, &rising, &mut filled);
    filled
}

/// A level at which a claim leaves its `least` (and begins to rise) or reaches its `most` (and is full).
struct FillStep {
    amount: i64,
    weight: u32,
    claim: usize,
    full: bool,
}

/// All steps from the lowest level to the highest.
fn steps(claims: &[WeightedDemand<'_>]) -> Vec<FillStep> {
    let open = claims.iter().enumerate().filter(|(_, claim)| claim.least < claim.most);
    let of = |(at, claim): (usize, &WeightedDemand<'_>)| {
        let step = |amount, full| FillStep { amount, weight: claim.weight.max(1), claim: at, full };
        [step(claim.least, false), step(claim.most, true)]
    };
    let mut steps: Vec<FillStep> = open.flat_map(of).collect();
    let cross = |a: &FillStep, b: &FillStep| i128::from(a.amount) * i128::from(b.weight);
    steps.sort_by(|a, b| cross(a, b).cmp(&cross(b, a)));
    steps
}

/// What is given out at level λ: `fixed + λ·weight`.
struct FillLevel {
    fixed: i128,
    weight: i128,
}

impl FillLevel {
    /// Whether all of `total` is given out at, or before, the level of a step.
    fn reaches(&self, total: i128, step: &FillStep) -> bool {
        let (amount, weight) = (i128::from(step.amount), i128::from(step.weight));
        (total - self.fixed) * weight <= amount * self.weight
    }

    fn pass(&mut self, step: &FillStep) {
        let (amount, weight) = (i128::from(step.amount), i128::from(step.weight));
        let sign = if step.full { 1 } else { -1 };
        self.fixed += sign * amount;
        self.weight -= sign * weight;
    }
}

/// Divides what is for the rising claims among them, by weight and to the unit.
fn divide(rest: i128, claims: &[WeightedDemand<'_>], rising: &[bool], filled: &mut [i64]) {
    let of = |at: usize| i128::from(claims[at].weight.max(1));
    let risen: Vec<usize> = (0..claims.len()).filter(|at| rising[*at]).collect();
    let weight: i128 = risen.iter().map(|at| of(*at)).sum();
    if weight == 0 {
        return;
    }
    let mut left = rest;
    let mut fractions: Vec<(i128, usize)> = Vec::with_capacity(risen.len());
    for at in risen {
        let share = rest * of(at);
        filled[at] = (share / weight) as i64;
        left -= share / weight;
        fractions.push((share % weight, at));
    }
    fractions.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| claims[a.1].name.cmp(claims[b.1].name)));
    for (_, at) in fractions.into_iter().take(left as usize) {
        filled[at] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Names in the order of claims.
    const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

    fn claim(weight: u32, least: i64, most: i64) -> WeightedDemand<'static> {
        WeightedDemand { name: "", weight, least, most }
    }

    fn name(claims: &mut [WeightedDemand<'_>]) {
        claims.iter_mut().zip(NAMES).for_each(|(claim, name)| claim.name = name);
    }

    #[test]
    fn known_cases() {
        for (total, mut claims, expected) in [
            (10, vec![], vec![]),
            (0, vec![claim(1, 0, 5)], vec![0]),
            (8, vec![claim(1, 0, 99), claim(3, 0, 99)], vec![2, 6]),
            (8, vec![claim(1, 0, 99), claim(3, 0, 1)], vec![7, 1]),
            (8, vec![claim(1, 4, 99), claim(3, 0, 99)], vec![4, 4]),
            (10, vec![claim(1, 8, 99), claim(1, 0, 99)], vec![8, 2]),
            (10, vec![claim(1, 0, 2), claim(1, 0, 3)], vec![2, 3]),
            (10, vec![claim(1, 0, 99), claim(1, 0, 99), claim(1, 0, 99)], vec![4, 3, 3]),
            (10, vec![claim(1, 5, 5), claim(1, 5, 9)], vec![5, 5]),
            (11, vec![claim(2, 0, 99), claim(1, 0, 99)], vec![7, 4]),
        ] {
            name(&mut claims);
            assert_eq!(fill(total, &claims), expected, "{total} of {claims:?}");
        }
    }

    /// Claims whose least amounts are feasible.
    fn case() -> impl Strategy<Value = (i64, Vec<WeightedDemand<'static>>)> {
        let one = (1u32..6, 0i64..20, 0i64..40)
            .prop_map(|(weight, least, more)| claim(weight, least, least + more));
        (prop::collection::vec(one, 0..7), 0i64..60, prop::sample::select(vec![1, 1, 1_000_003, 1 << 50]))
            .prop_map(|(mut claims, spare, unit)| {
                for claim in &mut claims {
                    claim.least *= unit;
                    claim.most *= unit;
                }
                name(&mut claims);
                (claims.iter().map(|claim| claim.least).sum::<i64>() + spare * unit, claims)
            })
    }

    proptest! {
        #[test]
        fn bounds_hold_and_the_sum_is_exact((total, claims) in case()) {
            let filled = fill(total, &claims);
            for (got, claim) in filled.iter().zip(&claims) {
                prop_assert!(claim.least <= *got && *got <= claim.most, "{got} of {claim:?}");
            }
            let most: i64 = claims.iter().map(|claim| claim.most).sum();
            prop_assert_eq!(filled.iter().sum::<i64>(), total.min(most));
        }

        /// The definition of weighted max-min fairness: nobody above its least has more by weight (beyond the unit of
        /// rounding) than somebody who could take more.
        #[test]
        fn nobody_gains_by_taking_from_one_who_has_less((total, claims) in case()) {
            let filled = fill(total, &claims);
            for (rich, a) in filled.iter().zip(&claims).filter(|(got, claim)| **got > claim.least) {
                for (poor, b) in filled.iter().zip(&claims).filter(|(got, claim)| **got < claim.most) {
                    let (rich, poor) = (i128::from(*rich - 1), i128::from(*poor + 1));
                    prop_assert!(rich * i128::from(b.weight) <= poor * i128::from(a.weight), "{filled:?}");
                }
            }
        }

        #[test]
        fn the_order_of_claims_does_not_matter(
            ((total, claims), order) in case().prop_flat_map(|(total, claims)| {
                let order = Just((0..claims.len()).collect::<Vec<_>>()).prop_shuffle();
                (Just((total, claims)), order)
            }),
        ) {
            let shuffled: Vec<WeightedDemand<'_>> = order.iter().map(|at| claims[*at]).collect();
            let filled = fill(total, &claims);
            let expected: Vec<i64> = order.iter().map(|at| filled[*at]).collect();
            prop_assert_eq!(fill(total, &shuffled), expected);
        }

        #[test]
        fn more_weight_is_never_less((total, claims) in case(), at in 0usize..7, more in 1u32..5) {
            prop_assume!(at < claims.len());
            let mut heavier = claims.clone();
            heavier[at].weight += more;
            prop_assert!(fill(total, &heavier)[at] >= fill(total, &claims)[at]);
        }
    }
}
