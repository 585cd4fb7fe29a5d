//! What the rules by topology domain say of the nodes with each attribute set, for one class. Topology keys are among
//! the attributes, so nodes with equal sets are in the same domains. After a change the rules are asked again for the
//! domains where a count changed.
use rustc_hash::FxHashMap;

use super::Fit;
use super::buckets::NodeBuckets;
use super::rating::{AttributeVerdict, in_millionths};
use crate::plugin::NodeRules;
use phalanx_cluster::id::{NodeId, TopologyId};
use phalanx_cluster::{Class, Cluster, TermChange};

/// What the rules by topology domain say of the nodes with an attribute set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TopologyVerdict {
    /// The filters pass with the pods as they are.
    pub(super) idle: bool,
    /// The filters pass once terminating pods are gone.
    pub(super) future_idle: bool,
    /// The sum of the scores, in millionths.
    pub(super) score: i64,
}

impl TopologyVerdict {
    /// Where no rule has an opinion.
    pub(super) const NO_OPINION: TopologyVerdict =
        TopologyVerdict { idle: true, future_idle: true, score: 0 };
}

/// The attribute sets of the nodes in each domain, for each topology that was asked for.
#[derive(Debug, Default)]
pub(super) struct DomainIndex(FxHashMap<TopologyId, TopologyIndex>);

#[derive(Debug)]
struct TopologyIndex {
    /// The stamps of the attribute sets and of the topology when the index was made.
    stamps: [u64; 2],
    /// By domain, where its attribute sets begin in `attribute_sets`.
    begins: Vec<u32>,
    attribute_sets: Vec<u32>,
}

impl DomainIndex {
    /// Forgets topologies that no longer exist.
    pub(super) fn retain(&mut self, cluster: &Cluster) {
        self.0.retain(|id, _| cluster.terms.has_topology(*id));
    }

    fn attribute_sets(
        &mut self,
        cluster: &Cluster,
        buckets: &NodeBuckets,
        id: TopologyId,
        domain: u32,
    ) -> &[u32] {
        let stamps = [buckets.attribute_sets().stamp(), cluster.terms.topology(id).version()];
        let index = self.0.entry(id).or_insert_with(|| TopologyIndex::new(cluster, buckets, id, stamps));
        if index.stamps != stamps {
            *index = TopologyIndex::new(cluster, buckets, id, stamps);
        }
        let [from, to] = [0, 1].map(|next| index.begins.get(domain as usize + next).copied());
        let end = index.attribute_sets.len() as u32;
        &index.attribute_sets[from.unwrap_or(end) as usize..to.unwrap_or(end) as usize]
    }
}

impl TopologyIndex {
    /// Counts the attribute sets of each domain, then sorts them by domain.
    fn new(cluster: &Cluster, buckets: &NodeBuckets, id: TopologyId, stamps: [u64; 2]) -> Self {
        let topology = cluster.terms.topology(id);
        let attribute_sets = 0..buckets.attribute_sets().bound() as u32;
        let of =
            |attribute_set: u32| Some((attribute_set, topology.domain_of(buckets.example(attribute_set)?)?));
        let domains: Vec<(u32, usize)> = attribute_sets.filter_map(of).collect();
        let mut begins = vec![0; topology.bound() + 1];
        for (_, domain) in &domains {
            begins[domain + 1] += 1;
        }
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        let mut next = begins.clone();
        let mut attribute_sets = vec![0; domains.len()];
        for (attribute_set, domain) in domains {
            attribute_sets[next[domain] as usize] = attribute_set;
            next[domain] += 1;
        }
        Self { stamps, begins, attribute_sets }
    }
}

/// What a ranking is made from.
pub(super) struct RankingInput<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) class: &'a Class,
    pub(super) rules: &'a NodeRules,
    pub(super) buckets: &'a NodeBuckets,
}

/// What the rules by topology domain say of all attribute sets.
#[derive(Debug, Default)]
pub(super) struct TopologyVerdicts {
    attribute_sets: Vec<TopologyVerdict>,
    /// By scorer, then by attribute set: the score before it is normalised.
    raw: Vec<Vec<f64>>,
    cursor: u64,
    /// The version of the terms that match the class.
    version: u64,
}

/// What changed when the rules were asked again.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TopologyChange {
    Sets(ChangedSets),
    All,
}

/// Which answers about one attribute set differ from those before.
#[derive(Clone, Copy, Default)]
struct RulesChanged {
    /// Whether an answer of a filter changed.
    feasibility: bool,
    /// Whether an answer of a scorer changed.
    scores: bool,
}

/// Attribute sets with another answer than before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ChangedSets {
    /// Sets whose nodes became feasible or infeasible.
    pub(super) attribute_sets: Vec<u32>,
    /// Sets whose score changed, and by how much it is larger now, in millionths.
    pub(super) scores: Vec<(u32, i64)>,
}

impl TopologyVerdicts {
    /// What the rules say of an attribute set.
    pub(super) fn of(&self, attribute_set: u32) -> TopologyVerdict {
        self.attribute_sets.get(attribute_set as usize).copied().unwrap_or(TopologyVerdict::NO_OPINION)
    }

    /// Asks the rules about all attribute sets.
    pub(super) fn ask_all(&mut self, input: &RankingInput<'_>, verdicts: &[Option<AttributeVerdict>]) {
        let RankingInput { rules, .. } = input;
        self.attribute_sets.clear();
        if rules.topology_filters.is_empty() && rules.topology_scorers.is_empty() {
            return;
        }
        self.cursor = input.cluster.terms.changes_end();
        self.version = input.cluster.terms.version(input.class);
        self.attribute_sets.resize(verdicts.len(), TopologyVerdict::NO_OPINION);
        self.raw.clear();
        self.raw.resize(rules.topology_scorers.len(), vec![0.0; verdicts.len()]);
        for attribute_set in 0..verdicts.len() as u32 {
            self.ask(input, verdicts, attribute_set);
        }
        self.score(input, verdicts);
    }

    /// Catches up with the pods that are counted in topology domains.
    pub(super) fn catch_up(
        &mut self,
        input: &RankingInput<'_>,
        verdicts: &[Option<AttributeVerdict>],
        domains: &mut DomainIndex,
    ) -> TopologyChange {
        if self.attribute_sets.is_empty() {
            return TopologyChange::Sets(ChangedSets::default());
        }
        let RankingInput { cluster, class, buckets, .. } = *input;
        let same = self.version == cluster.terms.version(class);
        let changes = cluster.terms.changes(self.cursor).filter(|_| same);
        if changes.is_some_and(<[_]>::is_empty) {
            return TopologyChange::Sets(ChangedSets::default());
        }
        let Some(mut attribute_sets) =
            changes.and_then(|changes| touched(changes, cluster, class, buckets, domains))
        else {
            self.ask_all(input, verdicts);
            return TopologyChange::All;
        };
        self.cursor = cluster.terms.changes_end();
        attribute_sets.sort_unstable();
        attribute_sets.dedup();
        let mut rescored = false;
        attribute_sets.retain(|attribute_set| {
            let changed = self.ask(input, verdicts, *attribute_set);
            rescored |= changed.scores;
            changed.feasibility
        });
        let scores = if rescored { self.score(input, verdicts) } else { Vec::new() };
        TopologyChange::Sets(ChangedSets { attribute_sets, scores })
    }

    /// Asks the rules about one attribute set.
    fn ask(
        &mut self,
        input: &RankingInput<'_>,
        verdicts: &[Option<AttributeVerdict>],
        attribute_set: u32,
    ) -> RulesChanged {
        let at = attribute_set as usize;
        let RankingInput { cluster, rules, buckets, .. } = input;
        let (Some(Ok(_)), Some(node)) = (&verdicts[at], buckets.example(attribute_set)) else {
            return RulesChanged::default();
        };
        let passes = |fit| rules.topology_filters.iter().all(|filter| filter(cluster, node, fit).is_ok());
        let (idle, future_idle) = (passes(Fit::Idle), passes(Fit::FutureIdle));
        let now = TopologyVerdict { idle, future_idle, ..self.attribute_sets[at] };
        let feasibility = std::mem::replace(&mut self.attribute_sets[at], now) != now;
        RulesChanged { feasibility, scores: self.ask_scorers(input, node, at) }
    }

    fn ask_scorers(&mut self, input: &RankingInput<'_>, node: NodeId, attribute_set: usize) -> bool {
        let mut scored = false;
        for (scorer, raw) in input.rules.topology_scorers.iter().zip(&mut self.raw) {
            let score = scorer.score(input.cluster, node);
            scored |= (raw[attribute_set] - score).abs() > 0.0;
            raw[attribute_set] = score;
        }
        scored
    }

    /// Normalises the scores. Returns the attribute sets whose score changed, and by how much it is larger now, in
    /// millionths.
    fn score(&mut self, input: &RankingInput<'_>, verdicts: &[Option<AttributeVerdict>]) -> Vec<(u32, i64)> {
        let fit = |attribute_set: &usize| matches!(verdicts[*attribute_set], Some(Ok(_)));
        let attribute_sets: Vec<usize> = (0..verdicts.len()).filter(fit).collect();
        let mut sums = vec![0; attribute_sets.len()];
        for (scorer, raw) in input.rules.topology_scorers.iter().zip(&self.raw) {
            let mut scores: Vec<f64> =
                attribute_sets.iter().map(|attribute_set| raw[*attribute_set]).collect();
            scorer.normalise(&mut scores);
            for (sum, score) in sums.iter_mut().zip(scores) {
                *sum += in_millionths(score);
            }
        }
        let mut moved = Vec::new();
        for (attribute_set, sum) in attribute_sets.into_iter().zip(sums) {
            let before = std::mem::replace(&mut self.attribute_sets[attribute_set].score, sum);
            if before != sum {
                moved.push((attribute_set as u32, sum - before));
            }
        }
        moved
    }
}

/// The attribute sets of the nodes in domains where a count changed that concerns the class; `None` for all attribute
/// sets.
fn touched(
    changes: &[TermChange],
    cluster: &Cluster,
    class: &Class,
    buckets: &NodeBuckets,
    domains: &mut DomainIndex,
) -> Option<Vec<u32>> {
    let mut attribute_sets = Vec::new();
    for change in changes {
        match *change {
            TermChange::All => return None,
            TermChange::Term(term) if cluster.terms.concerns(term, class) => return None,
            TermChange::Domain(term, domain) if cluster.terms.concerns(term, class) => {
                if let Some(topology) = cluster.terms.topology_of(term) {
                    attribute_sets
                        .extend_from_slice(domains.attribute_sets(cluster, buckets, topology, domain));
                }
            }
            TermChange::Term(_) | TermChange::Domain(..) => {}
        }
    }
    Some(attribute_sets)
}
