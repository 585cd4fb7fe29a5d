//! The scores of domain groups. Many groups have equal scores, and a normalised score does not depend on how many have
//! it: so each score that there is stands at a place of its own, and is normalised once, when one comes or goes.
use rustc_hash::FxHashMap;

use super::heap::NIL;
use super::rating::in_millionths;
use crate::plugin::TopologyScorer;

/// The scores of all groups.
#[derive(Debug, Default)]
pub(super) struct GroupScores {
    /// By group, the place of its scores; [`NIL`] for none.
    of_group: Vec<u32>,
    places: FxHashMap<Box<[u64]>, u32>,
    free: Vec<u32>,
    /// By place: the number of groups.
    groups: Vec<u32>,
    /// By scorer and place: the scores before they are normalised, [`f64::NAN`] where the place is free.
    raw: Vec<Vec<f64>>,
    /// By place: the sum of the normalised scores, in millionths.
    sums: Vec<i64>,
    /// A place came or went since they were normalised.
    changed: bool,
    /// Memory for a key of `places`.
    key: Vec<u64>,
}

impl GroupScores {
    pub(super) fn of_scorers(scorers: usize) -> Self {
        Self { raw: vec![Vec::new(); scorers], ..Self::default() }
    }

    /// Sets what each scorer gives a group.
    pub(super) fn set(&mut self, group: usize, scores: impl Iterator<Item = f64>) {
        self.key.clear();
        self.key.extend(scores.map(f64::to_bits));
        let known = self.places.get(&*self.key).copied();
        let place = known.unwrap_or_else(|| self.add());
        if self.of_group.len() <= group {
            self.of_group.resize(group + 1, NIL);
        }
        if self.of_group[group] != place {
            self.remove(group);
            self.of_group[group] = place;
            self.groups[place as usize] += 1;
        }
    }

    /// A place for the scores in `key`, which no group has.
    fn add(&mut self) -> u32 {
        self.changed = true;
        let place = self.free.pop().unwrap_or(self.groups.len() as u32);
        if place as usize == self.groups.len() {
            self.groups.push(0);
            self.raw.iter_mut().for_each(|raw| raw.push(f64::NAN));
        }
        for (raw, bits) in self.raw.iter_mut().zip(&self.key) {
            raw[place as usize] = f64::from_bits(*bits);
        }
        self.places.insert(self.key.as_slice().into(), place);
        place
    }

    /// Forgets the scores of a group.
    pub(super) fn remove(&mut self, group: usize) {
        let place = self.of_group.get_mut(group).map_or(NIL, |place| std::mem::replace(place, NIL)) as usize;
        let Some(groups) = self.groups.get_mut(place) else { return };
        *groups -= 1;
        if *groups == 0 {
            let bits = self.raw.iter_mut().map(|raw| std::mem::replace(&mut raw[place], f64::NAN).to_bits());
            self.key.clear();
            self.key.extend(bits);
            self.places.remove(&*self.key);
            self.free.push(place as u32);
            self.changed = true;
        }
    }

    /// Normalises the scores over all groups, where they changed.
    pub(super) fn normalise(&mut self, scorers: &[Box<dyn TopologyScorer>]) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        self.sums.clear();
        self.sums.resize(self.groups.len(), 0);
        for (scorer, raw) in scorers.iter().zip(&self.raw) {
            let mut normalised = raw.clone();
            scorer.normalise(&mut normalised);
            for (sum, score) in self.sums.iter_mut().zip(normalised) {
                *sum += in_millionths(score);
            }
        }
    }

    /// The sum of the scores of each group, in millionths; 0 for one without.
    pub(super) fn all(&self) -> impl Iterator<Item = i64> {
        self.of_group.iter().map(|place| self.at(*place))
    }

    #[inline]
    fn at(&self, place: u32) -> i64 {
        self.sums.get(place as usize).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use phalanx_cluster::Cluster;
    use phalanx_cluster::id::NodeId;

    /// The least score becomes 0, the largest 100 times the weight.
    struct Range(f64);

    impl TopologyScorer for Range {
        fn score(&self, _: &Cluster, _: NodeId) -> f64 {
            0.0
        }

        fn normalise(&self, scores: &mut [f64]) {
            let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
            let range = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least;
            let of_range = |score: f64| if range > 0.0 { 100.0 * (score - least) / range } else { 0.0 };
            for score in scores {
                *score = of_range(*score) * self.0;
            }
        }
    }

    const GROUPS: usize = 6;

    proptest! {
        #[test]
        fn scores_equal_those_normalised_over_all_groups(
            steps in prop::collection::vec((0..GROUPS, prop::option::of([-4i32..4, 0..2]), any::<bool>()), 0..40),
        ) {
            let scorers: Vec<Box<dyn TopologyScorer>> = vec![Box::new(Range(1.0)), Box::new(Range(3.0))];
            let mut scores = GroupScores::of_scorers(scorers.len());
            let mut plain = [[f64::NAN; GROUPS]; 2];
            for (group, given, looked_at) in steps {
                for (scorer, plain) in plain.iter_mut().enumerate() {
                    plain[group] = given.map_or(f64::NAN, |given| f64::from(given[scorer]));
                }
                match given {
                    Some(given) => scores.set(group, given.into_iter().map(f64::from)),
                    None => scores.remove(group),
                }
                if !looked_at {
                    continue;
                }
                scores.normalise(&scorers);
                let mut normalised = plain;
                scorers.iter().zip(&mut normalised).for_each(|(scorer, scores)| scorer.normalise(scores));
                for (group, sum) in scores.all().enumerate().filter(|(group, _)| !plain[0][*group].is_nan()) {
                    let expected = normalised.iter().map(|scores| in_millionths(scores[group])).sum::<i64>();
                    prop_assert_eq!(sum, expected);
                }
            }
        }
    }
}
