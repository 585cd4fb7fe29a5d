//! The cells as one class sees them, in a tournament that catches up with them.
use rayon::prelude::*;

use super::cells::{Cell, Cells};
use super::standings::{Domains, Moved, Question, Standing, Standings};
use super::tournament::{Rating, Tournament};
use super::{LATER, SCORE_UNIT};
use crate::diagnosis::Unfit;
use crate::plugin::{NodeRules, NodeScorer};
use crate::world::{Class, Node, World};

/// Below this many cells a pass over them is not worth a second thread.
const PARALLEL_FROM: usize = 1 << 11;
/// So many cells are always rated one by one.
const MANY: usize = if cfg!(test) { 2 } else { 64 };

/// What the rules by attributes say of a kind of nodes: a score, or why they will not do.
pub(super) type Verdict = Result<i64, Unfit>;

/// The cells, rated for a class.
#[derive(Debug, Default)]
pub(super) struct Ranking {
    /// By kind; `None` for a number that is not in use.
    verdicts: Vec<Option<Verdict>>,
    /// The stamp of the kinds that were judged; 0 for none yet.
    kinds: u64,
    cursor: u64,
    /// By slot, the cell whose score the tournament has.
    rated: Vec<u64>,
    standings: Standings,
    tournament: Tournament,
}

impl Ranking {
    /// The slot of the best cell, and its rating.
    pub(super) fn best(&self) -> Option<(usize, Rating)> {
        self.tournament.best()
    }

    /// The rating of the cell in a slot.
    pub(super) fn rating(&self, slot: usize) -> Rating {
        self.tournament.rating(slot)
    }

    /// How many slots it covers.
    pub(super) fn len(&self) -> usize {
        self.rated.len()
    }

    /// The verdict on a kind of nodes.
    pub(super) fn verdict(&self, kind: u32) -> Option<&Verdict> {
        self.verdicts[kind as usize].as_ref()
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
        if self.kinds != cells.kinds().stamp() {
            self.kinds = cells.kinds().stamp();
            self.verdicts = judge(world, rules, cells);
            self.standings.ask_all(question, &self.verdicts);
            self.rated.fill(0);
            return self.rate_all(question);
        }
        let moved = match self.standings.catch_up(question, &self.verdicts, domains) {
            Moved::Kinds(moves) => {
                let forgotten = self.forget(cells, &moves.kinds);
                self.shift(cells, &moves.scores);
                forgotten
            }
            Moved::All => None,
        };
        let Some(moved) = moved else {
            self.rated.fill(0);
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
            if let Some(rated) = self.rated.get_mut(*slot as usize) {
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
                self.rated.get(slot) == Some(&serial) && self.rating(slot) != Rating::NONE
            };
            shifts.extend(cells.of_kind(*kind).iter().filter(known).map(|slot| (*slot as usize, *more)));
        }
        self.tournament.shift(&shifts);
    }

    fn update(&mut self, question: &Question<'_>, slot: usize) {
        let cell = &question.cells.slots()[slot];
        let rating = self.rate(slot, cell, self.rating(slot), question);
        self.rated[slot] = cell.serial;
        self.tournament.update(slot, rating);
    }

    fn rate_all(&mut self, question: &Question<'_>) {
        let slots = question.cells.slots();
        // With room for more cells, so that few of them cost a rating of all.
        let width = slots.len().next_power_of_two();
        let mut ratings = self.tournament.take();
        ratings.resize(width, Rating::NONE);
        ratings[slots.len()..].fill(Rating::NONE);
        self.rated.resize(width, 0);
        let one = |(slot, rating): (usize, &mut Rating)| {
            *rating = self.rate(slot, &slots[slot], *rating, question);
        };
        if slots.len() < PARALLEL_FROM {
            ratings[..slots.len()].iter_mut().enumerate().for_each(one);
        } else {
            ratings[..slots.len()].par_iter_mut().enumerate().with_min_len(PARALLEL_FROM / 2).for_each(one);
        }
        for (rated, cell) in self.rated.iter_mut().zip(slots) {
            *rated = cell.serial;
        }
        self.rated[slots.len()..].fill(0);
        self.tournament.rebuild(ratings);
        self.cursor = question.cells.changed_end();
    }

    /// Rates a cell by its top. The score of a cell stays, whoever is on top.
    fn rate(&self, slot: usize, cell: &Cell, before: Rating, question: &Question<'_>) -> Rating {
        if cell.nodes == 0 {
            return Rating::NONE;
        }
        let score = if self.rated.get(slot) == Some(&cell.serial) {
            (before != Rating::NONE).then_some(before.score)
        } else {
            self.score(slot, cell, question)
        };
        score.map_or(Rating::NONE, |score| Rating { score, lot: cell.lot })
    }

    fn score(&self, slot: usize, cell: &Cell, question: &Question<'_>) -> Option<i64> {
        let Some(Ok(fixed)) = self.verdict(cell.kind) else { return None };
        let standing = self.standings.of(cell.kind);
        // Filters may read attributes that make kinds, too.
        let filters = &question.rules.room_filters;
        let passes =
            |later| filters.iter().all(|rule| rule.check(&question.world.nodes[cell.top()], later).is_ok());
        let score = room_score(question.cells.room(slot), standing, passes, question)?;
        Some(score + fixed + standing.score)
    }
}

/// What the rules by room say of a node, below 0 when it has room only later; `None` when it will not do.
fn room_score(
    node: &Node,
    standing: Standing,
    passes: impl Fn(bool) -> bool,
    question: &Question<'_>,
) -> Option<i64> {
    let Question { class, rules, .. } = question;
    let offset = if standing.now && node.fits_now(&class.request) && passes(false) {
        0
    } else if standing.later && node.fits_later(&class.request) && passes(true) {
        -LATER
    } else {
        return None;
    };
    let score: f64 = rules.room_scorers.iter().map(|rule| rule.score(node)).sum();
    Some(in_units(score) + offset)
}

pub(super) fn in_units(score: f64) -> i64 {
    let units = score * SCORE_UNIT;
    // `units.round()`, which is a call where the processor is not known to have an instruction for it.
    let whole = units as i64;
    let rest = units - whole as f64;
    whole.saturating_add(i64::from(rest >= 0.5) - i64::from(rest <= -0.5))
}

/// Asks the rules by attributes about a node of every kind.
fn judge(world: &World, rules: &NodeRules, cells: &Cells) -> Vec<Option<Verdict>> {
    let mut of_kind: Vec<Option<&Node>> = vec![None; cells.kinds().bound()];
    for cell in cells.iter() {
        of_kind[cell.kind as usize].get_or_insert_with(|| &world.nodes[cell.top()]);
    }
    let check = |node: &Node| match rules.filters.iter().find_map(|filter| filter.check(node).err()) {
        Some(unfit) => Err(unfit),
        None => Ok(0),
    };
    let mut verdicts: Vec<Option<Verdict>> = of_kind.iter().map(|node| node.map(check)).collect();
    for scorer in &rules.scorers {
        add_scores(&of_kind, &mut verdicts, scorer.as_ref());
    }
    verdicts
}

fn add_scores(of_kind: &[Option<&Node>], verdicts: &mut [Option<Verdict>], scorer: &dyn NodeScorer) {
    let mut fit: Vec<(&Node, &mut i64)> = of_kind
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
        **sum += in_units(score);
    }
}
