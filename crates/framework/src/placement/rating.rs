//! Rates node buckets for a class.
use super::amounts::SimpleRequest;
use super::buckets::NodeBucket;
use super::domains::DomainIndex;
use super::heap::NIL;
use super::topology::{RankingInput, TopologyVerdicts};
use super::tournament::Rating;
use super::{FUTURE_IDLE_OFFSET, Fit, SCORE_MILLIONTHS};
use crate::plugin::NodeScorer;
use phalanx_cluster::Node;
use phalanx_cluster::diagnosis::Unfit;

/// What the filters and scorers by attributes say of an attribute set: a score in millionths, or why its nodes are not
/// feasible.
pub(super) type AttributeVerdict = Result<i64, Unfit>;

/// What the rules of a class by attributes and by topology say, by attribute set.
#[derive(Debug, Default)]
pub(super) struct ClassVerdicts {
    /// By number of the attribute set; `None` for a number that is not in use.
    pub(super) verdicts: Vec<Option<AttributeVerdict>>,
    pub(super) topology: TopologyVerdicts,
    /// The request of the class, if it asks for cpu, memory and pods alone.
    simple: Option<SimpleRequest>,
}

impl ClassVerdicts {
    /// Rates the buckets in the slots from `first` on, at most `N`, by their tops, without the score of their domain
    /// groups. `rated` has, by slot, the serial of the bucket whose score is in `ratings`: the score of a bucket stays
    /// when its top changes.
    pub(super) fn rate<const N: usize>(
        &self,
        input: &RankingInput<'_>,
        first: usize,
        rated: &mut [u64],
        ratings: &mut [Rating],
    ) {
        let buckets = &input.buckets.slots()[first..];
        let (mut fresh, mut count) = ([0; N], 0);
        for (at, ((bucket, rating), rated)) in buckets.iter().zip(&mut *ratings).zip(rated).enumerate() {
            let known = std::mem::replace(rated, bucket.serial) == bucket.serial;
            let score = match (bucket.nodes, known) {
                (0, _) => None,
                (_, true) => (*rating != Rating::NONE).then_some(rating.score),
                (_, false) => self.base(input, first + at, bucket),
            };
            *rating = score.map_or(Rating::NONE, |score| Rating { score, tie_break: bucket.tie_break });
            if !known && score.is_some() {
                fresh[count] = (first + at) as u32;
                count += 1;
            }
        }
        let fresh = &fresh[..count];
        let mut sums = [0.0; N];
        for scorer in &input.rules.resource_scorers {
            scorer.add_scores(input.buckets.amounts(), fresh, &mut sums);
        }
        for (slot, sum) in fresh.iter().zip(sums) {
            ratings[*slot as usize - first].score += in_millionths(sum);
        }
    }

    /// The domain group of the bucket in a slot; [`NIL`] for none.
    pub(super) fn group_of(&self, input: &RankingInput<'_>, slot: usize) -> u32 {
        input.buckets.slots().get(slot).map_or(NIL, |bucket| self.topology.group_of(bucket.attribute_set))
    }

    /// The score of a bucket by attributes, less [`FUTURE_IDLE_OFFSET`] when only future idle resources fit; `None` when
    /// the bucket is not feasible.
    #[inline]
    fn base(&self, input: &RankingInput<'_>, slot: usize, bucket: &NodeBucket) -> Option<i64> {
        let RankingInput { cluster, rules, .. } = input;
        let Some(Ok(fixed)) = self.verdicts[bucket.attribute_set as usize].as_ref() else { return None };
        let topology = self.topology.of(bucket.attribute_set);
        // The top is asked instead of `BucketAmounts::node`, for resource filters may read attributes too.
        let node = &cluster.nodes[bucket.top()];
        let passes = |fit| rules.resource_filters.iter().all(|filter| filter(node, fit).is_ok());
        let [idle, future_idle] = self.fits(input, slot as u32);
        let offset = if topology.idle && idle && passes(Fit::Idle) {
            0
        } else if topology.future_idle && future_idle && passes(Fit::FutureIdle) {
            -FUTURE_IDLE_OFFSET
        } else {
            return None;
        };
        Some(fixed + offset)
    }

    /// Whether the idle and the future idle resources of the bucket in a slot fit the request.
    #[inline]
    fn fits(&self, input: &RankingInput<'_>, slot: u32) -> [bool; 2] {
        let amounts = input.buckets.amounts();
        if let Some(fits) = self.simple.and_then(|simple| simple.fits(amounts.amounts(slot))) {
            return [fits; 2];
        }
        let (node, request) = (amounts.node(slot), &input.class.request);
        [node.fits_now(request), node.fits_later(request)]
    }

    /// Asks the filters and scorers by attributes about one node of every attribute set.
    pub(super) fn judge(&mut self, input: &RankingInput<'_>, domains: &mut DomainIndex) {
        let RankingInput { cluster, rules, buckets, .. } = input;
        self.simple = SimpleRequest::of(&input.class.request);
        let mut of_attribute_set: Vec<Option<&Node>> = vec![None; buckets.attribute_sets().bound()];
        for bucket in buckets.iter() {
            of_attribute_set[bucket.attribute_set as usize]
                .get_or_insert_with(|| &cluster.nodes[bucket.top()]);
        }
        let check = |node: &Node| match rules.filters.iter().find_map(|filter| filter(node).err()) {
            Some(unfit) => Err(unfit),
            None => Ok(0),
        };
        self.verdicts = of_attribute_set.iter().map(|node| node.map(check)).collect();
        for scorer in &rules.scorers {
            add_scores(&of_attribute_set, &mut self.verdicts, scorer.as_ref());
        }
        self.topology.ask_all(input, &self.verdicts, domains);
    }
}

fn add_scores(
    of_attribute_set: &[Option<&Node>],
    verdicts: &mut [Option<AttributeVerdict>],
    scorer: &dyn NodeScorer,
) {
    let mut fit: Vec<(&Node, &mut i64)> = of_attribute_set
        .iter()
        .zip(verdicts)
        .filter_map(|(node, verdict)| match (node, verdict) {
            (Some(node), Some(Ok(sum))) => Some((*node, sum)),
            _ => None,
        })
        .collect();
    let mut scores: Vec<f64> = fit.iter().map(|(node, _)| scorer.score(node)).collect();
    scorer.normalise(&mut scores);
    for ((_, sum), score) in fit.iter_mut().zip(scores) {
        **sum += in_millionths(score);
    }
}

/// A score in whole millionths.
pub(super) fn in_millionths(score: f64) -> i64 {
    let units = score * SCORE_MILLIONTHS;
    // Equal to `units.round()`, which is a function call where the processor is not known to have an instruction for
    // it.
    let whole = units as i64;
    let rest = units - whole as f64;
    whole.saturating_add(i64::from(rest >= 0.5) - i64::from(rest <= -0.5))
}
