//! The node buckets as one class rates them, which catches up with changes.
use rayon::prelude::*;

use super::Limits;
use super::buckets::NodeBuckets;
use super::domains::DomainIndex;
use super::heap::NIL;
use super::rated_buckets::RatedBuckets;
use super::rating::{AttributeVerdict, ClassVerdicts};
use super::topology::{ChangedSets, RankingInput, TopologyChange};
use super::tournament::Rating;

/// How many buckets are rated in one batch.
const BATCH_BUCKETS: usize = 128;

/// The buckets, rated for a class.
#[derive(Debug, Default)]
pub(super) struct ClassRanking {
    /// The stamp of the attribute sets that were judged; 0 for none yet.
    attribute_sets: u64,
    cursor: u64,
    /// The serial of the newest bucket that the ranking has seen.
    newest: u64,
    class_verdicts: ClassVerdicts,
    scores: BucketScores,
}

/// The scores of the buckets.
#[derive(Debug, Default)]
pub(super) struct BucketScores {
    /// By slot, the serial of the bucket whose score is known; 0 for none.
    rated: Vec<u64>,
    ratings: RatedBuckets,
}

impl ClassRanking {
    /// The slot of the best bucket, and its rating.
    pub(super) fn best(&self) -> Option<(usize, Rating)> {
        self.scores.ratings.best(self.class_verdicts.topology.scores())
    }

    /// The rating of the bucket in a slot.
    pub(super) fn rating(&self, slot: usize) -> Rating {
        let (rating, group) = self.scores.ratings.rating(slot);
        if group == NIL {
            return rating;
        }
        Rating { score: rating.score + self.class_verdicts.topology.score_of(group), ..rating }
    }

    /// The number of slots in the ranking.
    pub(super) fn len(&self) -> usize {
        self.scores.rated.len()
    }

    /// Whether so many buckets are new to the ranking that rating all buckets is hardly more work than catching up.
    pub(super) fn is_stale(&self, buckets: &NodeBuckets, limits: Limits) -> bool {
        buckets.newest() - self.newest > buckets.slots().len().max(limits.fresh_buckets) as u64
    }

    /// Forgets all scores, and returns their memory.
    pub(super) fn release(&mut self) -> BucketScores {
        std::mem::take(&mut self.scores)
    }

    /// Takes over memory for scores.
    pub(super) fn adopt(&mut self, scores: BucketScores) {
        self.scores = scores;
        self.scores.rated.clear();
    }

    /// What the filters and scorers by attributes say of an attribute set.
    pub(super) fn verdict(&self, attribute_set: u32) -> Option<&AttributeVerdict> {
        self.class_verdicts.verdicts[attribute_set as usize].as_ref()
    }

    /// Catches up with the buckets, and with the pods that are counted in their topology domains.
    pub(super) fn catch_up(&mut self, input: &RankingInput<'_>, domains: &mut DomainIndex) {
        let buckets = input.buckets;
        self.newest = buckets.newest();
        if self.attribute_sets != buckets.attribute_sets().stamp() {
            self.attribute_sets = buckets.attribute_sets().stamp();
            self.class_verdicts.judge(input, domains);
            self.scores.rated.fill(0);
            return self.rate_all(input);
        }
        let ClassVerdicts { verdicts, topology, .. } = &mut self.class_verdicts;
        let moved = match topology.catch_up(input, verdicts, domains) {
            TopologyChange::Sets(ChangedSets { feasibility, moved }) => {
                self.forget(input, &feasibility).map(|mut slots| {
                    slots.extend(slots_of(buckets, &moved));
                    slots
                })
            }
            TopologyChange::All => None,
        };
        let Some(moved) = moved else {
            self.scores.rated.fill(0);
            return self.rate_all(input);
        };
        match buckets.changed_since(self.cursor) {
            Some(changed)
                if changed.len() <= buckets.slots().len() && buckets.slots().len() <= self.len() =>
            {
                self.cursor = buckets.changed_end();
                // A node that is alone in its bucket leaves it and joins the next one in the same slot.
                for same in changed.chunk_by(|a, b| a == b) {
                    self.update(input, same[0] as usize);
                }
                for slot in moved {
                    self.update(input, slot as usize);
                }
            }
            _ => self.rate_all(input),
        }
    }

    /// Forgets the scores of the buckets with these attribute sets. Returns the slots; `None` when they are so many
    /// that rating all buckets is less work.
    fn forget(&mut self, input: &RankingInput<'_>, attribute_sets: &[u32]) -> Option<Vec<u32>> {
        let RankingInput { buckets, limits, .. } = *input;
        let slots: Vec<u32> = slots_of(buckets, attribute_sets).collect();
        if slots.len() > limits.singly_rated_buckets.max(buckets.slots().len() / 8) {
            return None;
        }
        for slot in &slots {
            if let Some(rated) = self.scores.rated.get_mut(*slot as usize) {
                *rated = 0;
            }
        }
        Some(slots)
    }

    fn update(&mut self, input: &RankingInput<'_>, slot: usize) {
        let BucketScores { rated, ratings } = &mut self.scores;
        let mut rating = [ratings.rating(slot).0];
        self.class_verdicts.rate::<1>(input, slot, &mut rated[slot..=slot], &mut rating);
        ratings.update(slot, rating[0], self.class_verdicts.group_of(input, slot));
    }

    fn rate_all(&mut self, input: &RankingInput<'_>) {
        let slots = input.buckets.slots();
        // The width is a power of two, so that a few more buckets do not cost a rating of all.
        let width = slots.len().next_power_of_two();
        let Self { class_verdicts, scores, .. } = self;
        let BucketScores { rated, ratings: rated_buckets } = scores;
        let mut ratings = rated_buckets.take();
        ratings.resize(width, Rating::NONE);
        ratings[slots.len()..].fill(Rating::NONE);
        rated.resize(width, 0);
        rated[slots.len()..].fill(0);
        let (known, list) = (&mut rated[..slots.len()], &mut ratings[..slots.len()]);
        let some = |(at, (rated, ratings)): (usize, (&mut [u64], &mut [Rating]))| {
            class_verdicts.rate::<BATCH_BUCKETS>(input, at * BATCH_BUCKETS, rated, ratings);
        };
        let parallel = input.limits.parallel_buckets;
        if slots.len() < parallel {
            known.chunks_mut(BATCH_BUCKETS).zip(list.chunks_mut(BATCH_BUCKETS)).enumerate().for_each(some);
        } else {
            let chunks =
                known.par_chunks_mut(BATCH_BUCKETS).zip(list.par_chunks_mut(BATCH_BUCKETS)).enumerate();
            chunks.with_min_len((parallel / BATCH_BUCKETS / 2).max(1)).for_each(some);
        }
        let group_of = |slot| class_verdicts.group_of(input, slot);
        rated_buckets.rebuild(ratings, class_verdicts.topology.has_groups().then_some(group_of));
        self.cursor = input.buckets.changed_end();
    }
}

/// The slots of the buckets with these attribute sets.
fn slots_of<'a>(buckets: &'a NodeBuckets, attribute_sets: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
    attribute_sets.iter().flat_map(|attribute_set| buckets.of_attribute_set(*attribute_set)).copied()
}
