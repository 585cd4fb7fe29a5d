//! Rates cells for a class.
use super::LATER;
use super::SCORE_UNIT;
use super::cells::Cell;
use super::rooms::Plain;
use super::standings::{Question, Standings};
use super::tournament::Rating;
use crate::plugin::NodeScorer;
use phalanx_cluster::Node;
use phalanx_cluster::diagnosis::Unfit;

/// What the rules by attributes say of a kind of nodes: a score, or why they will not do.
pub(super) type Verdict = Result<i64, Unfit>;

/// What a class thinks of the kinds of nodes.
#[derive(Debug, Default)]
pub(super) struct Opinions {
    /// By kind; `None` for a number that is not in use.
    pub(super) verdicts: Vec<Option<Verdict>>,
    pub(super) standings: Standings,
    /// What the class requests, if that is little.
    plain: Option<Plain>,
}

impl Opinions {
    /// Rates the cells in the slots from `first` on, no more than `N`, by their tops. `rated` says by slot whose score the
    /// rating has: the score of a cell stays, whoever is on top.
    pub(super) fn rate<const N: usize>(
        &self,
        question: &Question<'_>,
        first: usize,
        rated: &mut [u64],
        ratings: &mut [Rating],
    ) {
        let cells = &question.cells.slots()[first..];
        let (mut fresh, mut count) = ([0; N], 0);
        for (at, ((cell, rating), rated)) in cells.iter().zip(&mut *ratings).zip(rated).enumerate() {
            let known = std::mem::replace(rated, cell.serial) == cell.serial;
            let score = match (cell.nodes, known) {
                (0, _) => None,
                (_, true) => (*rating != Rating::NONE).then_some(rating.score),
                (_, false) => self.base(question, first + at, cell),
            };
            *rating = score.map_or(Rating::NONE, |score| Rating { score, lot: cell.lot });
            if !known && score.is_some() {
                fresh[count] = (first + at) as u32;
                count += 1;
            }
        }
        let fresh = &fresh[..count];
        let mut sums = [0.0; N];
        for scorer in &question.rules.room_scorers {
            scorer.add_scores(question.cells.rooms(), fresh, &mut sums);
        }
        for (slot, sum) in fresh.iter().zip(sums) {
            ratings[*slot as usize - first].score += in_units(sum);
        }
    }

    /// The score of a cell but for the rules by room, below 0 when it has room only later; `None` when it will not do.
    #[inline]
    fn base(&self, question: &Question<'_>, slot: usize, cell: &Cell) -> Option<i64> {
        let Question { world, rules, .. } = question;
        let Some(Ok(fixed)) = self.verdicts[cell.kind as usize].as_ref() else { return None };
        let standing = self.standings.of(cell.kind);
        // Filters may read attributes that make kinds, too.
        let passes =
            |later| rules.room_filters.iter().all(|rule| rule.check(&world.nodes[cell.top()], later).is_ok());
        let [now, later] = self.fits(question, slot as u32);
        let offset = if standing.now && now && passes(false) {
            0
        } else if standing.later && later && passes(true) {
            -LATER
        } else {
            return None;
        };
        Some(fixed + standing.score + offset)
    }

    /// Whether the cell in a slot has room now, and whether it will have.
    #[inline]
    fn fits(&self, question: &Question<'_>, slot: u32) -> [bool; 2] {
        let rooms = question.cells.rooms();
        if let Some(fits) = self.plain.and_then(|plain| plain.fits(rooms.gauge(slot))) {
            return [fits; 2];
        }
        let (node, request) = (rooms.node(slot), &question.class.request);
        [node.fits_now(request), node.fits_later(request)]
    }

    /// Asks the rules by attributes about a node of every kind.
    pub(super) fn judge(&mut self, question: &Question<'_>) {
        let Question { world, rules, cells, .. } = question;
        self.plain = Plain::of(&question.class.request);
        let mut of_kind: Vec<Option<&Node>> = vec![None; cells.kinds().bound()];
        for cell in cells.iter() {
            of_kind[cell.kind as usize].get_or_insert_with(|| &world.nodes[cell.top()]);
        }
        let check = |node: &Node| match rules.filters.iter().find_map(|filter| filter.check(node).err()) {
            Some(unfit) => Err(unfit),
            None => Ok(0),
        };
        self.verdicts = of_kind.iter().map(|node| node.map(check)).collect();
        for scorer in &rules.scorers {
            add_scores(&of_kind, &mut self.verdicts, scorer.as_ref());
        }
        self.standings.ask_all(question, &self.verdicts);
    }
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

pub(super) fn in_units(score: f64) -> i64 {
    let units = score * SCORE_UNIT;
    // `units.round()`, which is a call where the processor is not known to have an instruction for it.
    let whole = units as i64;
    let rest = units - whole as f64;
    whole.saturating_add(i64::from(rest >= 0.5) - i64::from(rest <= -0.5))
}
