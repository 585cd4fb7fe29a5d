//! Divides one resource by weight between bounds: weighted max-min fairness, in integers.

/// The demand of a queue: at least `least`, at most `most`, and by weight in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WeightedDemand<'a> {
    /// Breaks ties; unique among the demands.
    pub(crate) name: &'a str,
    pub(crate) weight: u32,
    pub(crate) least: i64,
    pub(crate) most: i64,
}

/// What each demand gets of `total`.
///
/// There is a level λ at which the sum of `clamp(λ·weight, least, most)` is `total`, or each demand has its `most`.
/// Volcano approaches λ by rounds of "divide the rest by weight among the unmet queues"; this function finds λ by a
/// walk over the levels at which a demand leaves its `least` or reaches its `most`. Units that rounding down leaves
/// over go to the largest fractions, and among equal fractions to the first names: the order of the demands does not
/// matter.
///
/// The sum of all `least` must not exceed `total`. The result adds up to `min(total, Σ most)` exactly.
pub(crate) fn fill(total: i64, demands: &[WeightedDemand<'_>]) -> Vec<i64> {
    let sum = |of: fn(&WeightedDemand<'_>) -> i64| {
        demands.iter().map(|demand| i128::from(of(demand))).sum::<i128>()
    };
    if sum(|demand| demand.most) <= i128::from(total) {
        return demands.iter().map(|demand| demand.most).collect();
    }
    let mut level = FillLevel { fixed: sum(|demand| demand.least), weight: 0 };
    let steps = steps(demands);
    let mut rising = vec![false; demands.len()];
    let mut filled: Vec<i64> = demands.iter().map(|demand| demand.least).collect();
    for step in &steps {
        if level.reaches(i128::from(total), step) {
            break;
        }
        level.pass(step);
        rising[step.demand] = !step.full;
        filled[step.demand] = step.amount;
    }
    divide(i128::from(total) - level.fixed, demands, &rising, &mut filled);
    filled
}

/// A level at which a demand leaves its `least` (and begins to rise) or reaches its `most` (and is full).
struct FillStep {
    amount: i64,
    weight: u32,
    demand: usize,
    full: bool,
}

/// All steps, from the lowest level to the highest.
fn steps(demands: &[WeightedDemand<'_>]) -> Vec<FillStep> {
    let open = demands.iter().enumerate().filter(|(_, demand)| demand.least < demand.most);
    let of = |(at, demand): (usize, &WeightedDemand<'_>)| {
        let step = |amount, full| FillStep { amount, weight: demand.weight.max(1), demand: at, full };
        [step(demand.least, false), step(demand.most, true)]
    };
    let mut steps: Vec<FillStep> = open.flat_map(of).collect();
    let cross = |a: &FillStep, b: &FillStep| i128::from(a.amount) * i128::from(b.weight);
    steps.sort_by(|a, b| cross(a, b).cmp(&cross(b, a)));
    steps
}

/// The amount given out at level λ: `fixed + λ·weight`.
struct FillLevel {
    fixed: i128,
    weight: i128,
}

impl FillLevel {
    /// Whether all of `total` is given out at the level of a step, or before it.
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

/// Divides the rest among the rising demands, by weight and to the unit.
fn divide(rest: i128, demands: &[WeightedDemand<'_>], rising: &[bool], filled: &mut [i64]) {
    let of = |at: usize| i128::from(demands[at].weight.max(1));
    let risen: Vec<usize> = (0..demands.len()).filter(|at| rising[*at]).collect();
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
    fractions.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| demands[a.1].name.cmp(demands[b.1].name)));
    for (_, at) in fractions.into_iter().take(left as usize) {
        filled[at] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Names in the order of the demands.
    const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

    fn demand(weight: u32, least: i64, most: i64) -> WeightedDemand<'static> {
        WeightedDemand { name: "", weight, least, most }
    }

    fn name(demands: &mut [WeightedDemand<'_>]) {
        demands.iter_mut().zip(NAMES).for_each(|(demand, name)| demand.name = name);
    }

    #[test]
    fn fill_divides_by_weight_between_least_and_most() {
        for (total, mut demands, expected) in [
            (10, vec![], vec![]),
            (0, vec![demand(1, 0, 5)], vec![0]),
            (8, vec![demand(1, 0, 99), demand(3, 0, 99)], vec![2, 6]),
            (8, vec![demand(1, 0, 99), demand(3, 0, 1)], vec![7, 1]),
            (8, vec![demand(1, 4, 99), demand(3, 0, 99)], vec![4, 4]),
            (10, vec![demand(1, 8, 99), demand(1, 0, 99)], vec![8, 2]),
            (10, vec![demand(1, 0, 2), demand(1, 0, 3)], vec![2, 3]),
            (10, vec![demand(1, 0, 99), demand(1, 0, 99), demand(1, 0, 99)], vec![4, 3, 3]),
            (10, vec![demand(1, 5, 5), demand(1, 5, 9)], vec![5, 5]),
            (11, vec![demand(2, 0, 99), demand(1, 0, 99)], vec![7, 4]),
        ] {
            name(&mut demands);
            assert_eq!(fill(total, &demands), expected, "{total} of {demands:?}");
        }
    }

    /// Demands whose `least` amounts add up to at most the total.
    fn case() -> impl Strategy<Value = (i64, Vec<WeightedDemand<'static>>)> {
        let one = (1u32..6, 0i64..20, 0i64..40)
            .prop_map(|(weight, least, more)| demand(weight, least, least + more));
        (prop::collection::vec(one, 0..7), 0i64..60, prop::sample::select(vec![1, 1, 1_000_003, 1 << 50]))
            .prop_map(|(mut demands, spare, unit)| {
                for demand in &mut demands {
                    demand.least *= unit;
                    demand.most *= unit;
                }
                name(&mut demands);
                (demands.iter().map(|demand| demand.least).sum::<i64>() + spare * unit, demands)
            })
    }

    proptest! {
        #[test]
        fn results_keep_their_bounds_and_add_up_to_the_total((total, demands) in case()) {
            let filled = fill(total, &demands);
            for (got, demand) in filled.iter().zip(&demands) {
                prop_assert!(demand.least <= *got && *got <= demand.most, "{got} of {demand:?}");
            }
            let most: i64 = demands.iter().map(|demand| demand.most).sum();
            prop_assert_eq!(filled.iter().sum::<i64>(), total.min(most));
        }

        /// The definition of weighted max-min fairness: no demand above its `least` has more by weight (beyond the unit
        /// of rounding) than a demand below its `most`.
        #[test]
        fn results_are_weighted_max_min_fair((total, demands) in case()) {
            let filled = fill(total, &demands);
            for (rich, a) in filled.iter().zip(&demands).filter(|(got, demand)| **got > demand.least) {
                for (poor, b) in filled.iter().zip(&demands).filter(|(got, demand)| **got < demand.most) {
                    let (rich, poor) = (i128::from(*rich - 1), i128::from(*poor + 1));
                    prop_assert!(rich * i128::from(b.weight) <= poor * i128::from(a.weight), "{filled:?}");
                }
            }
        }

        #[test]
        fn results_do_not_depend_on_the_order_of_demands(
            ((total, demands), order) in case().prop_flat_map(|(total, demands)| {
                let order = Just((0..demands.len()).collect::<Vec<_>>()).prop_shuffle();
                (Just((total, demands)), order)
            }),
        ) {
            let shuffled: Vec<WeightedDemand<'_>> = order.iter().map(|at| demands[*at]).collect();
            let filled = fill(total, &demands);
            let expected: Vec<i64> = order.iter().map(|at| filled[*at]).collect();
            prop_assert_eq!(fill(total, &shuffled), expected);
        }

        #[test]
        fn more_weight_never_gives_less((total, demands) in case(), at in 0usize..7, more in 1u32..5) {
            prop_assume!(at < demands.len());
            let mut heavier = demands.clone();
            heavier[at].weight += more;
            prop_assert!(fill(total, &heavier)[at] >= fill(total, &demands)[at]);
        }
    }
}
