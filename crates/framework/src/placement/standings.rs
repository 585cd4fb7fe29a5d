//! What the rules by topology domain say of each kind of nodes, for one class. All nodes of a kind are in the same
//! domains, so they stand alike; what is asked again after a change is those in the domains where a count changed.
use rustc_hash::FxHashMap;

use super::cells::Cells;
use super::rating::{Verdict, in_units};
use crate::plugin::NodeRules;
use phalanx_cluster::id::{NodeId, TopologyId};
use phalanx_cluster::{Change, Class, World};

/// How a kind of nodes stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// Its nodes will do now.
    pub(super) now: bool,
    /// They will do when what is being released is gone.
    pub(super) later: bool,
    /// Score, in units.
    pub(super) score: i64,
}

impl Standing {
    /// Where no rule has anything to say.
    pub(super) const FINE: Standing = Standing { now: true, later: true, score: 0 };
}

/// Kinds by domain, for each topology that was asked about.
#[derive(Debug, Default)]
pub(super) struct Domains(FxHashMap<TopologyId, Index>);

#[derive(Debug)]
struct Index {
    /// Of the kinds and of the topology when it was made.
    stamps: [u64; 2],
    /// Where each domain's kinds begin in `kinds`.
    begins: Vec<u32>,
    kinds: Vec<u32>,
}

impl Domains {
    /// Forgets topologies that are no more.
    pub(super) fn retain(&mut self, world: &World) {
        self.0.retain(|id, _| world.terms.has_topology(*id));
    }

    fn kinds(&mut self, world: &World, cells: &Cells, id: TopologyId, domain: u32) -> &[u32] {
        let stamps = [cells.kinds().stamp(), world.terms.topology(id).version()];
        let index = self.0.entry(id).or_insert_with(|| Index::new(world, cells, id, stamps));
        if index.stamps != stamps {
            *index = Index::new(world, cells, id, stamps);
        }
        let [from, to] = [0, 1].map(|next| index.begins.get(domain as usize + next).copied());
        let end = index.kinds.len() as u32;
        &index.kinds[from.unwrap_or(end) as usize..to.unwrap_or(end) as usize]
    }
}

impl Index {
    /// Counts, then sorts by counts.
    fn new(world: &World, cells: &Cells, id: TopologyId, stamps: [u64; 2]) -> Self {
        let topology = world.terms.topology(id);
        let kinds = 0..cells.kinds().bound() as u32;
        let of = |kind: u32| Some((kind, topology.domain_of(cells.example(kind)?)?));
        let domains: Vec<(u32, usize)> = kinds.filter_map(of).collect();
        let mut begins = vec![0; topology.bound() + 1];
        for (_, domain) in &domains {
            begins[domain + 1] += 1;
        }
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        let mut next = begins.clone();
        let mut kinds = vec![0; domains.len()];
        for (kind, domain) in domains {
            kinds[next[domain] as usize] = kind;
            next[domain] += 1;
        }
        Self { stamps, begins, kinds }
    }
}

/// What is asked about.
pub(super) struct Question<'a> {
    pub(super) world: &'a World,
    pub(super) class: &'a Class,
    pub(super) rules: &'a NodeRules,
    pub(super) cells: &'a Cells,
}

/// The standings of all kinds.
#[derive(Debug, Default)]
pub(super) struct Standings {
    kinds: Vec<Standing>,
    /// By scorer, then by kind: the score before it is normalised.
    raw: Vec<Vec<f64>>,
    cursor: u64,
    /// Of the terms that mean the class.
    version: u64,
}

/// Kinds that stand differently now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Moved {
    Kinds(Moves),
    All,
}

/// Kinds that stand differently now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    /// Whether their nodes will do is another question now.
    pub(super) kinds: Vec<u32>,
    /// By how much their score is larger.
    pub(super) scores: Vec<(u32, i64)>,
}

impl Standings {
    /// How a kind stands.
    pub(super) fn of(&self, kind: u32) -> Standing {
        self.kinds.get(kind as usize).copied().unwrap_or(Standing::FINE)
    }

    /// Asks about all kinds.
    pub(super) fn ask_all(&mut self, question: &Question<'_>, verdicts: &[Option<Verdict>]) {
        let Question { rules, .. } = question;
        self.kinds.clear();
        if rules.domain_filters.is_empty() && rules.domain_scorers.is_empty() {
            return;
        }
        self.cursor = question.world.terms.changes_end();
        self.version = question.world.terms.version(question.class);
        self.kinds.resize(verdicts.len(), Standing::FINE);
        self.raw.clear();
        self.raw.resize(rules.domain_scorers.len(), vec![0.0; verdicts.len()]);
        for kind in 0..verdicts.len() as u32 {
            self.ask(question, verdicts, kind);
        }
        self.score(question, verdicts);
    }

    /// Catches up with the counts.
    pub(super) fn catch_up(
        &mut self,
        question: &Question<'_>,
        verdicts: &[Option<Verdict>],
        domains: &mut Domains,
    ) -> Moved {
        if self.kinds.is_empty() {
            return Moved::Kinds(Moves::default());
        }
        let Question { world, class, cells, .. } = *question;
        let same = self.version == world.terms.version(class);
        let changes = world.terms.changes(self.cursor).filter(|_| same);
        if changes.is_some_and(<[_]>::is_empty) {
            return Moved::Kinds(Moves::default());
        }
        let Some(mut kinds) = changes.and_then(|changes| touched(changes, world, class, cells, domains))
        else {
            self.ask_all(question, verdicts);
            return Moved::All;
        };
        self.cursor = world.terms.changes_end();
        kinds.sort_unstable();
        kinds.dedup();
        let mut rescored = false;
        kinds.retain(|kind| {
            let (moved, scored) = self.ask(question, verdicts, *kind);
            rescored |= scored;
            moved
        });
        let scores = if rescored { self.score(question, verdicts) } else { Vec::new() };
        Moved::Kinds(Moves { kinds, scores })
    }

    /// Asks about one kind. Whether it stands differently, and whether a score to be normalised does.
    fn ask(&mut self, question: &Question<'_>, verdicts: &[Option<Verdict>], kind: u32) -> (bool, bool) {
        let at = kind as usize;
        let Question { world, rules, cells, .. } = question;
        let (Some(Ok(_)), Some(node)) = (&verdicts[at], cells.example(kind)) else { return (false, false) };
        let passes = |later| rules.domain_filters.iter().all(|rule| rule.check(world, node, later).is_ok());
        let now = Standing { now: passes(false), later: passes(true), ..self.kinds[at] };
        let moved = std::mem::replace(&mut self.kinds[at], now) != now;
        (moved, self.ask_scorers(question, node, at))
    }

    fn ask_scorers(&mut self, question: &Question<'_>, node: NodeId, kind: usize) -> bool {
        let mut scored = false;
        for (scorer, raw) in question.rules.domain_scorers.iter().zip(&mut self.raw) {
            let score = scorer.score(question.world, node);
            scored |= (raw[kind] - score).abs() > 0.0;
            raw[kind] = score;
        }
        scored
    }

    /// Normalises the scores. Returns the kinds whose score is another one now, and by how much it is larger.
    fn score(&mut self, question: &Question<'_>, verdicts: &[Option<Verdict>]) -> Vec<(u32, i64)> {
        let fit = |kind: &usize| matches!(verdicts[*kind], Some(Ok(_)));
        let kinds: Vec<usize> = (0..verdicts.len()).filter(fit).collect();
        let mut sums = vec![0; kinds.len()];
        for (scorer, raw) in question.rules.domain_scorers.iter().zip(&self.raw) {
            let mut scores: Vec<f64> = kinds.iter().map(|kind| raw[*kind]).collect();
            scorer.normalise(&mut scores);
            for (sum, score) in sums.iter_mut().zip(scores) {
                *sum += in_units(score);
            }
        }
        let mut moved = Vec::new();
        for (kind, sum) in kinds.into_iter().zip(sums) {
            let before = std::mem::replace(&mut self.kinds[kind].score, sum);
            if before != sum {
                moved.push((kind as u32, sum - before));
            }
        }
        moved
    }
}

/// The kinds in domains where something changed that matters to a class; `None` for all kinds.
fn touched(
    changes: &[Change],
    world: &World,
    class: &Class,
    cells: &Cells,
    domains: &mut Domains,
) -> Option<Vec<u32>> {
    let mut kinds = Vec::new();
    for change in changes {
        match *change {
            Change::All => return None,
            Change::Term(term) if world.terms.concerns(term, class) => return None,
            Change::Domain(term, domain) if world.terms.concerns(term, class) => {
                if let Some(topology) = world.terms.topology_of(term) {
                    kinds.extend_from_slice(domains.kinds(world, cells, topology, domain));
                }
            }
            Change::Term(_) | Change::Domain(..) => {}
        }
    }
    Some(kinds)
}
