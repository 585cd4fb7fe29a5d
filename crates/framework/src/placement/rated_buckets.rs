//! The buckets of a class by rating, so that the best is found at once.
//!
//! Rules by topology domain change the scores of many buckets by the same at a time. Where a class has such rules,
//! ratings are therefore without the score by topology, and there is a heap of buckets for each domain group: the best
//! bucket is the top of a heap.
use super::heap::{Link, Links, NIL};
use super::tournament::{Rating, Tournament};

/// The ratings of buckets by slot, in order.
#[derive(Debug)]
pub(super) enum RatedBuckets {
    /// Without rules by topology domain.
    All(Tournament),
    ByGroup(GroupHeaps),
}

impl Default for RatedBuckets {
    fn default() -> Self {
        Self::All(Tournament::default())
    }
}

impl RatedBuckets {
    /// Replaces the ratings; `group_of` has the domain group of each slot, where there are groups.
    pub(super) fn rebuild(&mut self, ratings: Vec<Rating>, group_of: Option<impl Fn(usize) -> u32>) {
        match (&mut *self, group_of) {
            (_, Some(group_of)) => *self = Self::ByGroup(GroupHeaps::new(ratings, group_of)),
            (Self::All(tournament), None) => tournament.rebuild(ratings),
            (Self::ByGroup(_), None) => {
                let mut tournament = Tournament::default();
                tournament.rebuild(ratings);
                *self = Self::All(tournament);
            }
        }
    }

    /// Takes the ratings out, to be changed and passed to `rebuild`.
    pub(super) fn take(&mut self) -> Vec<Rating> {
        match self {
            Self::All(tournament) => tournament.take(),
            Self::ByGroup(heaps) => heaps.links.0.iter().map(|link| link.key).collect(),
        }
    }

    /// The rating of a slot, without the score of its group, and the group, [`NIL`] for none.
    pub(super) fn rating(&self, slot: usize) -> (Rating, u32) {
        match self {
            Self::All(tournament) => (tournament.rating(slot), NIL),
            Self::ByGroup(heaps) => heaps.rating(slot),
        }
    }

    /// Changes the rating and the group of a slot.
    pub(super) fn update(&mut self, slot: usize, rating: Rating, group: u32) {
        match self {
            Self::All(tournament) => tournament.update(slot, rating),
            Self::ByGroup(heaps) => heaps.update(slot, rating, group),
        }
    }

    /// The best slot and its rating with the score of its group; `scores` has those of all groups.
    pub(super) fn best(&self, scores: &[i64]) -> Option<(usize, Rating)> {
        match self {
            Self::All(tournament) => tournament.best(),
            Self::ByGroup(heaps) => heaps.best(scores),
        }
    }
}

/// A heap of buckets for each domain group.
#[derive(Debug, Default)]
pub(super) struct GroupHeaps {
    /// By slot, with the rating.
    links: Links<Rating>,
    /// By slot, the group in whose heap it is; [`NIL`] for a bucket that is not feasible.
    group_of: Vec<u32>,
    /// By group.
    tops: Vec<Top>,
}

/// The bucket on top of a heap. Its rating is here too: all tops are compared for each pod.
#[derive(Clone, Copy, Debug)]
struct Top {
    rating: Rating,
    /// [`NIL`] for an empty heap.
    slot: u32,
}

impl Top {
    const NONE: Top = Top { rating: Rating::NONE, slot: NIL };
}

impl GroupHeaps {
    fn new(ratings: Vec<Rating>, group_of: impl Fn(usize) -> u32) -> Self {
        let links = Links(ratings.iter().map(|_| Link::of(Rating::NONE)).collect());
        let mut heaps = Self { links, group_of: vec![NIL; ratings.len()], tops: Vec::new() };
        for (slot, rating) in ratings.into_iter().enumerate().filter(|(_, rating)| *rating != Rating::NONE) {
            heaps.update(slot, rating, group_of(slot));
        }
        heaps
    }

    fn rating(&self, slot: usize) -> (Rating, u32) {
        let group = self.group_of.get(slot).copied().unwrap_or(NIL);
        (self.links.key(slot as u32).unwrap_or(Rating::NONE), group)
    }

    fn update(&mut self, slot: usize, rating: Rating, group: u32) {
        let group = if rating == Rating::NONE { NIL } else { group };
        if self.rating(slot) == (rating, group) {
            return;
        }
        let before = std::mem::replace(&mut self.group_of[slot], group);
        if before != NIL {
            let top = self.links.remove(self.tops[before as usize].slot, slot as u32);
            self.set_top(before, top);
        }
        self.links.0[slot].key = rating;
        if group != NIL {
            if self.tops.len() <= group as usize {
                self.tops.resize(group as usize + 1, Top::NONE);
            }
            let top = self.links.meld(self.tops[group as usize].slot, slot as u32);
            self.set_top(group, top);
        }
    }

    fn set_top(&mut self, group: u32, slot: u32) {
        let rating = self.links.key(slot).unwrap_or(Rating::NONE);
        self.tops[group as usize] = Top { rating, slot };
    }

    fn best(&self, scores: &[i64]) -> Option<(usize, Rating)> {
        let mut best = (Rating::NONE, NIL);
        for (Top { rating, slot }, score) in self.tops.iter().zip(scores) {
            // The sum means nothing for an empty heap.
            let score = rating.score.wrapping_add(*score);
            // Most are worse by their scores alone.
            if score >= best.0.score && *slot != NIL {
                best = best.max((Rating { score, ..*rating }, *slot));
            }
        }
        (best.1 != NIL).then_some((best.1 as usize, best.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SLOTS: usize = 20;
    const GROUPS: usize = 5;

    proptest! {
        #[test]
        fn the_best_bucket_is_the_first_of_a_sort_after_any_updates(
            start in prop::collection::vec((-9i64..9, 0..GROUPS as u32), SLOTS),
            updates in prop::collection::vec((0..SLOTS, prop::option::of(-9i64..9), 0..GROUPS as u32), 0..60),
            scores in prop::array::uniform5(-20i64..20),
        ) {
            let rating = |slot, score| Rating { score, tie_break: slot as u64 };
            let mut buckets: Vec<(Rating, u32)> =
                start.into_iter().enumerate().map(|(slot, (score, group))| (rating(slot, score), group)).collect();
            let mut heaps = GroupHeaps::new(buckets.iter().map(|(rating, _)| *rating).collect(), |slot| buckets[slot].1);
            for (slot, score, group) in updates {
                let rating = score.map_or(Rating::NONE, |score| rating(slot, score));
                buckets[slot] = (rating, if score.is_some() { group } else { NIL });
                heaps.update(slot, rating, group);
                prop_assert_eq!(heaps.rating(slot), buckets[slot]);
                let feasible = buckets.iter().enumerate().filter(|(_, (_, group))| *group != NIL);
                let mut sorted: Vec<(Rating, usize)> = feasible
                    .map(|(slot, (rating, group))| (Rating { score: rating.score + scores[*group as usize], ..*rating }, slot))
                    .collect();
                sorted.sort_unstable();
                let best = heaps.best(&scores);
                prop_assert_eq!(best, sorted.last().map(|(rating, slot)| (*slot, *rating)));
            }
        }
    }
}
