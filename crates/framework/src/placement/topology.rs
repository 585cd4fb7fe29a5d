//! What the rules by topology domain say of nodes, for one class.
//!
//! These rules read what terms count in the domains of a node, so nodes with equal counts are one *domain group*: the
//! rules are asked once for each group, and scores are normalised over groups. Where a count changes, the nodes of a
//! small domain (a host) go over to another group. The nodes of a large domain (a zone) would be many, so the domain
//! itself tells them apart from other nodes instead of its counts: they stay, and their groups are asked again. Where
//! HyperNodes have scores, they tell the groups of their nodes apart too.
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::buckets::NodeBuckets;
use super::domains::DomainIndex;
use super::group_scores::GroupScores;
use super::heap::NIL;
use super::hyper_node_scores::HyperNodeScores;
use super::rating::AttributeVerdict;
use super::{Fit, Limits};
use crate::plugin::NodeRules;
use phalanx_cluster::id::{NodeId, TermId, TopologyId};
use phalanx_cluster::{Class, Cluster, HyperNodeId, Tally, TermChange};

/// What the rules by topology domain say of the nodes in a domain group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TopologyVerdict {
    /// The filters pass with the pods as they are.
    pub(super) idle: bool,
    /// The filters pass once terminating pods are gone.
    pub(super) future_idle: bool,
}

impl TopologyVerdict {
    /// Where no rule has an opinion.
    const NO_OPINION: TopologyVerdict = TopologyVerdict { idle: true, future_idle: true };
}

/// What a ranking is made from.
pub(super) struct RankingInput<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) class: &'a Class,
    pub(super) rules: &'a NodeRules,
    pub(super) buckets: &'a NodeBuckets,
    pub(super) limits: Limits,
}

/// What tells the nodes of a domain group from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mark {
    /// They are in no domain of the topology.
    NoDomain(TopologyId),
    /// They are in this large domain.
    Large(TopologyId, u32),
    /// They are in small domains of the term's topology for which the term counts this. No mark for nothing.
    Counts(TermId, Tally),
    /// They are in this HyperNode.
    HyperNode(HyperNodeId),
}

/// Nodes of which the topology rules of the class say the same.
#[derive(Debug)]
struct DomainGroup {
    marks: Arc<[Mark]>,
    /// The number of its attribute sets; a group without any waits to be used again.
    attribute_sets: u32,
    /// One of its attribute sets.
    example: u32,
    verdict: TopologyVerdict,
}

impl DomainGroup {
    fn hyper_nodes(&self) -> impl Iterator<Item = HyperNodeId> {
        self.marks.iter().filter_map(|mark| match mark {
            Mark::HyperNode(id) => Some(*id),
            Mark::NoDomain(_) | Mark::Large(..) | Mark::Counts(..) => None,
        })
    }
}

/// What the rules by topology domain say of all attribute sets.
#[derive(Debug, Default)]
pub(super) struct TopologyVerdicts {
    /// The terms that concern the class.
    terms: Vec<TermId>,
    groups: Vec<DomainGroup>,
    free: Vec<u32>,
    by_marks: FxHashMap<Arc<[Mark]>, u32>,
    scores: GroupScores,
    hyper_nodes: HyperNodeScores,
    /// By group: the sum of both, in millionths. All are compared for each pod.
    sums: Vec<i64>,
    /// By attribute set; [`NIL`] for those whose nodes do not pass the filters by attributes. Empty without rules.
    group_of: Vec<u32>,
    cursor: u64,
    /// The version of the terms that match the class.
    version: u64,
}

/// What changed since the rules were asked last.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TopologyChange {
    Sets(ChangedSets),
    All,
}

/// Attribute sets of which something else is said than before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ChangedSets {
    /// Sets with another answer of a filter.
    pub(super) feasibility: Vec<u32>,
    /// Other sets that are in another group.
    pub(super) moved: Vec<u32>,
}

/// Where counts changed that concern a class.
#[derive(Default)]
struct Touched {
    large: Vec<(TopologyId, u32)>,
    /// The attribute sets of the nodes in small domains.
    attribute_sets: Vec<u32>,
    /// Something changed that rules read for every domain.
    everywhere: bool,
}

impl TopologyVerdicts {
    /// Whether there are rules by topology domain.
    pub(super) fn has_groups(&self) -> bool {
        !self.group_of.is_empty()
    }

    /// The group of an attribute set; [`NIL`] for none.
    pub(super) fn group_of(&self, attribute_set: u32) -> u32 {
        self.group_of.get(attribute_set as usize).copied().unwrap_or(NIL)
    }

    /// What the filters say of an attribute set.
    #[inline]
    pub(super) fn of(&self, attribute_set: u32) -> TopologyVerdict {
        let group = self.groups.get(self.group_of(attribute_set) as usize);
        group.map_or(TopologyVerdict::NO_OPINION, |group| group.verdict)
    }

    /// The scores of all groups, in millionths.
    pub(super) fn scores(&self) -> &[i64] {
        &self.sums
    }

    /// The score of a group, in millionths; 0 for [`NIL`].
    pub(super) fn score_of(&self, group: u32) -> i64 {
        self.sums.get(group as usize).copied().unwrap_or(0)
    }

    fn sum_up(&mut self) {
        self.sums.clear();
        self.sums.extend(self.scores.all().zip(self.hyper_nodes.all()).map(|(score, added)| score + added));
    }

    /// Groups all attribute sets, and asks the rules about all groups.
    pub(super) fn ask_all(
        &mut self,
        input: &RankingInput<'_>,
        verdicts: &[Option<AttributeVerdict>],
        domains: &mut DomainIndex,
    ) {
        let RankingInput { cluster, class, rules, buckets, .. } = input;
        *self = Self::default();
        if rules.topology_filters.is_empty()
            && rules.topology_scorers.is_empty()
            && rules.hyper_node_scorers.is_empty()
        {
            return;
        }
        self.hyper_nodes = HyperNodeScores::new(cluster, &rules.hyper_node_scorers);
        self.cursor = cluster.terms.changes_end();
        self.version = cluster.terms.version(class);
        self.terms = cluster.terms.concerning(class).collect();
        self.terms.sort_unstable();
        self.terms.dedup();
        self.group_of.resize(verdicts.len(), NIL);
        self.scores = GroupScores::of_scorers(rules.topology_scorers.len());
        let mut marks = Vec::new();
        for (attribute_set, verdict) in (0..).zip(verdicts) {
            if let (Some(Ok(_)), Some(node)) = (verdict, buckets.example(attribute_set)) {
                self.find_marks(input, domains, node, &mut marks);
                self.join(attribute_set, &marks);
            }
        }
        for group in 0..self.groups.len() {
            self.ask(input, group);
        }
        self.scores.normalise(&rules.topology_scorers);
        self.sum_up();
    }

    /// Catches up with the pods that are counted in topology domains.
    pub(super) fn catch_up(
        &mut self,
        input: &RankingInput<'_>,
        verdicts: &[Option<AttributeVerdict>],
        domains: &mut DomainIndex,
    ) -> TopologyChange {
        if !self.has_groups() {
            return TopologyChange::Sets(ChangedSets::default());
        }
        let RankingInput { cluster, class, rules, .. } = *input;
        if self.hyper_nodes.catch_up(cluster, &rules.hyper_node_scorers) {
            let groups = self.groups.iter().map(DomainGroup::hyper_nodes);
            self.hyper_nodes.add_up(groups);
            self.sum_up();
        }
        let same = self.version == cluster.terms.version(class);
        let changes = cluster.terms.changes(self.cursor).filter(|_| same);
        if changes.is_some_and(<[_]>::is_empty) {
            return TopologyChange::Sets(ChangedSets::default());
        }
        let Some(touched) = changes.and_then(|changes| self.touched(changes, input, domains)) else {
            self.ask_all(input, verdicts, domains);
            return TopologyChange::All;
        };
        self.cursor = cluster.terms.changes_end();
        TopologyChange::Sets(self.follow(input, &touched, domains))
    }

    /// Where a count changed that concerns the class; `None` for everywhere.
    fn touched(
        &self,
        changes: &[TermChange],
        input: &RankingInput<'_>,
        domains: &mut DomainIndex,
    ) -> Option<Touched> {
        let RankingInput { cluster, class, buckets, limits, .. } = *input;
        let mut touched = Touched::default();
        for change in changes {
            let (TermChange::Domain(term, _) | TermChange::Term(term)) = *change else { return None };
            if self.terms.binary_search(&term).is_err() {
                if cluster.terms.is_symmetric(term, class) {
                    // It came after the attribute sets were grouped, unlike the terms of the class's own rules.
                    return None;
                }
                continue;
            }
            let (TermChange::Domain(_, domain), Some(topology)) = (*change, cluster.terms.topology_of(term))
            else {
                touched.everywhere = true;
                continue;
            };
            let attribute_sets = domains.attribute_sets(cluster, buckets, topology, domain);
            if attribute_sets.len() > limits.small_domain_sets {
                touched.large.push((topology, domain));
            } else {
                touched.attribute_sets.extend_from_slice(attribute_sets);
            }
        }
        touched.large.sort_unstable();
        touched.large.dedup();
        touched.attribute_sets.sort_unstable();
        touched.attribute_sets.dedup();
        Some(touched)
    }

    /// Moves attribute sets to other groups, and asks the rules about groups again.
    fn follow(
        &mut self,
        input: &RankingInput<'_>,
        touched: &Touched,
        domains: &mut DomainIndex,
    ) -> ChangedSets {
        let mut moved = Vec::new();
        let mut marks = Vec::new();
        let mut asked = Vec::new();
        for attribute_set in touched.attribute_sets.iter().copied() {
            let group = self.group_of(attribute_set);
            let Some(node) = input.buckets.example(attribute_set).filter(|_| group != NIL) else { continue };
            self.find_marks(input, domains, node, &mut marks);
            if *self.groups[group as usize].marks != *marks {
                moved.push((attribute_set, self.of(attribute_set)));
                self.leave(attribute_set);
                asked.extend(self.join(attribute_set, &marks));
            }
        }
        let new = asked.len();
        if touched.everywhere || !touched.large.is_empty() {
            asked.extend((0..self.groups.len()).filter(|group| touched.has(&self.groups[*group])));
        }
        let mut flipped = Vec::new();
        for (at, group) in asked.iter().copied().enumerate() {
            if self.ask(input, group) && at >= new {
                flipped.push(group as u32);
            }
        }
        if !asked.is_empty() || !moved.is_empty() {
            self.scores.normalise(&input.rules.topology_scorers);
            self.sum_up();
        }
        self.changed(&flipped, &moved)
    }

    /// What changed: the `flipped` groups, sorted, have another answer of a filter, and sets `moved`, each with the
    /// answer before.
    fn changed(&self, flipped: &[u32], moved: &[(u32, TopologyVerdict)]) -> ChangedSets {
        let mut changed = ChangedSets::default();
        if !flipped.is_empty() {
            let of_flipped =
                self.group_of.iter().zip(0..).filter(|(group, _)| flipped.binary_search(group).is_ok());
            changed.feasibility.extend(of_flipped.map(|(_, attribute_set)| attribute_set));
        }
        for (attribute_set, before) in moved {
            let same = self.of(*attribute_set) == *before;
            let list = if same { &mut changed.moved } else { &mut changed.feasibility };
            list.push(*attribute_set);
        }
        changed
    }

    /// Finds what tells the group of a node from others.
    fn find_marks(
        &self,
        input: &RankingInput<'_>,
        domains: &mut DomainIndex,
        node: NodeId,
        marks: &mut Vec<Mark>,
    ) {
        let RankingInput { cluster, rules, buckets, limits, .. } = *input;
        marks.clear();
        if !rules.hyper_node_scorers.is_empty() {
            marks.extend(cluster.hyper_nodes.by_tier(node).map(Mark::HyperNode));
        }
        for term in self.terms.iter().copied() {
            let Some(topology) = cluster.terms.topology_of(term) else { continue };
            let mark = match cluster.terms.topology(topology).domain_of(node) {
                None => Mark::NoDomain(topology),
                Some(domain) => {
                    let number = domain as u32;
                    if domains.attribute_sets(cluster, buckets, topology, number).len()
                        > limits.small_domain_sets
                    {
                        Mark::Large(topology, number)
                    } else {
                        Mark::Counts(term, cluster.terms.tally_of(term, domain))
                    }
                }
            };
            let nothing = matches!(mark, Mark::Counts(_, tally) if tally == Tally::default());
            if !nothing && !marks.contains(&mark) {
                marks.push(mark);
            }
        }
    }

    /// Counts an attribute set in, and returns its group if that is new.
    fn join(&mut self, attribute_set: u32, marks: &[Mark]) -> Option<usize> {
        let known = self.by_marks.get(marks).copied();
        let id = known.unwrap_or_else(|| self.new_group(marks));
        let group = &mut self.groups[id as usize];
        group.attribute_sets += 1;
        group.example = attribute_set;
        self.group_of[attribute_set as usize] = id;
        known.is_none().then_some(id as usize)
    }

    fn new_group(&mut self, marks: &[Mark]) -> u32 {
        let group = DomainGroup {
            marks: marks.into(),
            attribute_sets: 0,
            example: NIL,
            verdict: TopologyVerdict::NO_OPINION,
        };
        let id = self.free.pop().unwrap_or(self.groups.len() as u32);
        self.by_marks.insert(group.marks.clone(), id);
        self.hyper_nodes.set(id as usize, group.hyper_nodes());
        match self.groups.get_mut(id as usize) {
            Some(free) => *free = group,
            None => self.groups.push(group),
        }
        id
    }

    /// Counts an attribute set out of its group.
    fn leave(&mut self, attribute_set: u32) {
        let id = std::mem::replace(&mut self.group_of[attribute_set as usize], NIL);
        let group = &mut self.groups[id as usize];
        group.attribute_sets -= 1;
        if group.attribute_sets == 0 {
            self.by_marks.remove(&group.marks);
            self.scores.remove(id as usize);
            self.free.push(id);
        } else if group.example == attribute_set {
            let other = self.group_of.iter().position(|other| *other == id);
            group.example = other.map_or(NIL, |other| other as u32);
        }
    }

    /// Asks the rules about a group. Returns whether an answer of a filter changed.
    fn ask(&mut self, input: &RankingInput<'_>, group: usize) -> bool {
        let RankingInput { cluster, rules, buckets, .. } = input;
        let (at, group) = (group, &mut self.groups[group]);
        let Some(node) = buckets.example(group.example) else { return false };
        let passes = |fit| rules.topology_filters.iter().all(|filter| filter(cluster, node, fit).is_ok());
        let now = TopologyVerdict { idle: passes(Fit::Idle), future_idle: passes(Fit::FutureIdle) };
        self.scores.set(at, rules.topology_scorers.iter().map(|scorer| scorer.score(cluster, node)));
        std::mem::replace(&mut group.verdict, now) != now
    }
}

impl Touched {
    /// Whether rules may say something else of a group.
    fn has(&self, group: &DomainGroup) -> bool {
        let large = |mark: &Mark| match mark {
            Mark::Large(topology, domain) => self.large.binary_search(&(*topology, *domain)).is_ok(),
            Mark::NoDomain(_) | Mark::Counts(..) | Mark::HyperNode(_) => false,
        };
        group.attribute_sets > 0 && (self.everywhere || group.marks.iter().any(large))
    }
}
