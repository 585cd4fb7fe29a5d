//! The cells as one class sees them, in a tournament that catches up with them.
use rayon::prelude::*;

use super::cells::Cells;
use super::rating::{Opinions, Verdict};
use super::standings::{Domains, Moved, Question};
use super::tournament::{Rating, Tournament};
use crate::plugin::NodeRules;
use phalanx_cluster::{Class, World};

/// Below this many cells a pass over them is not worth a second thread. Few in tests, so that they take both ways.
const PARALLEL_FROM: usize = if cfg!(test) { 2 } else { 1 << 12 };
/// Cells that are rated in one go.
const AT_ONCE: usize = if cfg!(test) { 4 } else { 128 };
/// So many cells are always rated one by one.
const MANY: usize = if cfg!(test) { 2 } else { 64 };
/// No more new cells than that make no ranking stale.
const FEW: usize = if cfg!(test) { 4 } else { 512 };

/// The cells, rated for a class.
#[derive(Debug, Default)]
pub(super) struct Ranking {
    /// The stamp of the kinds that were judged; 0 for none yet.
    kinds: u64,
    cursor: u64,
    /// The newest cell that it has seen.
    newest: u64,
    opinions: Opinions,
    scores: Scores,
}

/// The scores of the cells.
#[derive(Debug, Default)]
pub(super) struct Scores {
    /// By slot, the cell whose score the tournament has.
    rated: Vec<u64>,
    tournament: Tournament,
}

impl Ranking {
    /// The slot of the best cell, and its rating.
    pub(super) fn best(&self) -> Option<(usize, Rating)> {
        self.scores.tournament.best()
    }

    /// The rating of the cell in a slot.
    pub(super) fn rating(&self, slot: usize) -> Rating {
        self.scores.tournament.rating(slot)
    }

    /// How many slots it covers.
    pub(super) fn len(&self) -> usize {
        self.scores.rated.len()
    }

    /// So many cells are new to it that rating all of them from scratch is hardly more work than catching up.
    pub(super) fn is_stale(&self, cells: &Cells) -> bool {
        cells.newest() - self.newest > cells.slots().len().max(FEW) as u64
    }

    /// Forgets all scores, and hands out the memory they had.
    pub(super) fn release(&mut self) -> Scores {
        std::mem::take(&mut self.scores)
    }

    /// Takes memory for scores.
    pub(super) fn adopt(&mut self, scores: Scores) {
        self.scores = scores;
        self.scores.rated.clear();
    }

    /// The verdict on a kind of nodes.
    pub(super) fn verdict(&self, kind: u32) -> Option<&Verdict> {
        self.opinions.verdicts[kind as usize].as_ref()
    }

    /// Catches up with the cells, and with what is counted in their topology domains.
    pub(super) fn catch_up(
        &mut self,
        world: &World,
        class: &Class,
        rules: &NodeRules,
        cells: &Cells,
        domains: &mut Domains,
    ) {
        let question = &Question { world, class, rules, cells };
        self.newest = cells.newest();
        if self.kinds != cells.kinds().stamp() {
            self.kinds = cells.kinds().stamp();
            self.opinions.judge(question);
            self.scores.rated.fill(0);
            return self.rate_all(question);
        }
        let Opinions { verdicts, standings, .. } = &mut self.opinions;
        let moved = match standings.catch_up(question, verdicts, domains) {
            Moved::Kinds(moves) => {
                let forgotten = self.forget(cells, &moves.kinds);
                self.shift(cells, &moves.scores);
                forgotten
            }
            Moved::All => None,
        };
        let Some(moved) = moved else {
            self.scores.rated.fill(0);
            return self.rate_all(question);
        };
        match cells.changed_since(self.cursor) {
            Some(changed) if changed.len() <= cells.slots().len() && cells.slots().len() <= self.len() => {
                self.cursor = cells.changed_end();
                for slot in changed.iter().chain(&moved) {
                    self.update(question, *slot as usize);
                }
            }
            _ => self.rate_all(question),
        }
    }

    /// Forgets the scores of the cells of some kinds. Returns their slots; `None` when they are so many that rating all
    /// cells is less work.
    fn forget(&mut self, cells: &Cells, kinds: &[u32]) -> Option<Vec<u32>> {
        let slots: Vec<u32> = kinds.iter().flat_map(|kind| cells.of_kind(*kind)).copied().collect();
        if slots.len() > MANY.max(cells.slots().len() / 8) {
            return None;
        }
        for slot in &slots {
            if let Some(rated) = self.scores.rated.get_mut(*slot as usize) {
                *rated = 0;
            }
        }
        Some(slots)
    }

    /// Adds to the scores of the cells of some kinds, where they are known.
    fn shift(&mut self, cells: &Cells, scores: &[(u32, i64)]) {
        let mut shifts = Vec::new();
        for (kind, more) in scores {
            let known = |slot: &&u32| {
                let slot = **slot as usize;
                let serial = cells.slots()[slot].serial;
                self.scores.rated.get(slot) == Some(&serial) && self.rating(slot) != Rating::NONE
            };
            shifts.extend(cells.of_kind(*kind).iter().filter(known).map(|slot| (*slot as usize, *more)));
        }
        self.scores.tournament.shift(&shifts);
    }

    fn update(&mut self, question: &Question<'_>, slot: usize) {
        let (rated, mut rating) =
            (&mut self.scores.rated[slot..=slot], [self.scores.tournament.rating(slot)]);
        self.opinions.rate::<1>(question, slot, rated, &mut rating);
        self.scores.tournament.update(slot, rating[0]);
    }

    fn rate_all(&mut self, question: &Question<'_>) {
        let slots = question.cells.slots();
        // With room for more cells, so that few of them cost a rating of all.
        let width = slots.len().next_power_of_two();
        let Self { opinions, scores: Scores { rated, tournament }, .. } = self;
        let mut ratings = tournament.take();
        ratings.resize(width, Rating::NONE);
        ratings[slots.len()..].fill(Rating::NONE);
        rated.resize(width, 0);
        rated[slots.len()..].fill(0);
        let (known, list) = (&mut rated[..slots.len()], &mut ratings[..slots.len()]);
        let some = |(at, (rated, ratings)): (usize, (&mut [u64], &mut [Rating]))| {
            opinions.rate::<AT_ONCE>(question, at * AT_ONCE, rated, ratings);
        };
        if slots.len() < PARALLEL_FROM {
            known.chunks_mut(AT_ONCE).zip(list.chunks_mut(AT_ONCE)).enumerate().for_each(some);
        } else {
            let chunks = known.par_chunks_mut(AT_ONCE).zip(list.par_chunks_mut(AT_ONCE)).enumerate();
            chunks.with_min_len(PARALLEL_FROM / AT_ONCE / 2).for_each(some);
        }
        tournament.rebuild(ratings);
        self.cursor = question.cells.changed_end();
    }
}
