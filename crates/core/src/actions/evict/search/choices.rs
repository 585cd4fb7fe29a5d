//! Victims chosen node by node, where what may go is limited: of each node those without any of whom it took fewer tasks.
//!
//! What makes no room is not taken. So with limits that sums tell of ([`Given`](super::Given)) little is tried that leads nowhere.
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::prospect::Prospect;
use super::{Choice, JobId, LAST_STEPS, NoEviction, NodeId, Search, Unit, Victim, proof};

/// With more nodes than this there are too many choices: those that are tried would be about a few nodes only.
const NODES: usize = 64;

/// Choices that are tried on a node, those that leave the least over first.
const OF_NODE: usize = 32;

/// Victims of a node of which every set is looked at; of more, the least important ones.
const EACH: usize = 10;

/// By their place in the order of importance.
type Chosen = BTreeSet<usize>;

/// A node and its victims.
type OfNode = (NodeId, Vec<usize>);

/// What is chosen so far.
struct Choices<'o> {
    offered: &'o [Victim],
    nodes: Vec<OfNode>,
    taken: Chosen,
    prospect: Prospect,
    /// It is given up when no more than so many steps are left.
    end: u64,
}

impl Choices<'_> {
    fn way(&self) -> Vec<Victim> {
        self.taken.iter().map(|at| self.offered[*at]).collect()
    }
}

impl Search<'_, '_> {
    /// Evicts the first choice that helps. False where none was found, though there may be some.
    pub(super) fn by_choice(&mut self, offered: &[Victim], tier: usize) -> Result<bool, NoEviction> {
        let nodes = self.of_use(offered);
        if nodes.len() > NODES {
            return Ok(false);
        }
        let units: Vec<Unit> = offered.iter().map(|victim| Unit::from_slice(&[*victim])).collect();
        let prospect = Prospect::of(self, &units);
        let end = self.steps.left().saturating_sub(LAST_STEPS);
        let mut choices = Choices { offered, nodes: Vec::new(), taken: Chosen::new(), prospect, end };
        for nodes in self.in_domains(nodes) {
            choices.nodes = nodes;
            if self.choose(&mut choices, 0, tier)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The nodes of each domain, where all of the gang has to be in one; those with the most of them first.
    fn in_domains(&self, nodes: Vec<OfNode>) -> Vec<Vec<OfNode>> {
        let world = &*self.session.world;
        let choice = Choice::of(world, &self.aim.tasks).filter(|_| !self.aim.single);
        let Some(choice) = choice else { return vec![nodes] };
        let mut domains: BTreeMap<u32, Vec<OfNode>> = BTreeMap::new();
        for (node, victims) in nodes {
            if let Some(domain) = choice.domain(world, node) {
                domains.entry(domain).or_default().push((node, victims));
            }
        }
        let mut domains: Vec<Vec<OfNode>> = domains.into_values().collect();
        domains.sort_by_key(|nodes| Reverse(nodes.len()));
        domains
    }

    /// The victims by node, those nodes first of which the least has to go for a task.
    fn of_use(&self, offered: &[Victim]) -> Vec<OfNode> {
        let mut by_node: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (at, victim) in offered.iter().enumerate() {
            by_node.entry(victim.node).or_default().push(at);
        }
        let first = |(node, victims): (NodeId, Vec<usize>)| (node, victims.into_iter().take(EACH).collect());
        let mut nodes: Vec<OfNode> = by_node.into_iter().map(first).collect();
        let world = &*self.session.world;
        let least = |(_, victims): &OfNode| {
            let all: Vec<Victim> = victims.iter().map(|at| offered[*at]).collect();
            let enough = self.enough_for(&all, 1);
            enough.map_or((usize::MAX, i128::MAX), |enough| (enough.len(), self.held_by(&enough)))
        };
        // Stable: the order of ids, that is of arrival, must not decide.
        nodes.sort_by_cached_key(|of_node| (least(of_node), world.nodes[of_node.0].name.clone()));
        nodes
    }

    /// Decides about the nodes from one on.
    fn choose(&mut self, choices: &mut Choices<'_>, at: usize, tier: usize) -> Result<bool, NoEviction> {
        self.steps.scan(self.session.world.nodes.len())?;
        if self.steps.left() < choices.end {
            return Ok(false);
        }
        if choices.prospect.now.may_do() && !choices.taken.is_empty() {
            let order = self.order_of(&choices.way(), tier)?;
            if let Some(order) = order
                && self.try_set(&order)?
            {
                return Ok(true);
            }
        }
        if at == choices.nodes.len() || !choices.prospect.may_do() {
            return Ok(false);
        }
        for chosen in self.choices_of(choices, at)? {
            if self.choose_with(choices, &chosen, at, tier)? {
                return Ok(true);
            }
        }
        self.choose(choices, at + 1, tier)
    }

    /// Goes on with these taken too, if they may go.
    fn choose_with(
        &mut self,
        choices: &mut Choices<'_>,
        chosen: &[usize],
        at: usize,
        tier: usize,
    ) -> Result<bool, NoEviction> {
        let mut taken = choices.taken.clone();
        taken.extend(chosen);
        let Some(taken) = self.with_their_gangs(choices.offered, taken) else { return Ok(false) };
        let before = std::mem::replace(&mut choices.taken, taken);
        let more: Vec<usize> = choices.taken.difference(&before).copied().collect();
        for at in &more {
            choices.prospect.take(self.session.world, &choices.offered[*at]);
        }
        let may = self.order_of(&choices.way(), tier)?.is_some();
        let found = may && self.choose(choices, at + 1, tier)?;
        for at in &more {
            choices.prospect.put_back(self.session.world, &choices.offered[*at]);
        }
        choices.taken = before;
        Ok(found)
    }

    /// The same with all of gangs that are broken, for the actions that take those as a whole; `None` where they may not.
    fn with_their_gangs(&self, offered: &[Victim], mut taken: Chosen) -> Option<Chosen> {
        if !self.of_gangs() {
            return Some(taken);
        }
        let world = &*self.session.world;
        let jobs: BTreeSet<JobId> = taken.iter().map(|at| offered[*at].job).collect();
        for job in jobs {
            let lost: Vec<Victim> =
                taken.iter().map(|at| offered[*at]).filter(|victim| victim.job == job).collect();
            if proof::can_spare(world, job, &lost) {
                continue;
            }
            let all = || (0..offered.len()).filter(|at| offered[*at].job == job);
            if !self.may_break() || !proof::is_all(world, job, all().count()) {
                return None;
            }
            taken.extend(all());
        }
        Some(taken)
    }

    /// Sets of a node's victims without any of whom it took fewer tasks.
    fn choices_of(&mut self, choices: &Choices<'_>, at: usize) -> Result<Vec<Vec<usize>>, NoEviction> {
        let (node, victims) = &choices.nodes[at];
        let left: Vec<usize> = victims.iter().copied().filter(|at| !choices.taken.contains(at)).collect();
        self.steps.scan(1 << left.len())?;
        let victims_of = |set: usize| members(set, left.len()).map(|at| choices.offered[left[at]]);
        let world = &*self.session.world;
        let takes = |set: usize| {
            let freed = victims_of(set).map(|victim| world.request_of(victim.task));
            choices.prospect.now.takes_with(*node, freed)
        };
        let takes: Vec<Vec<u32>> = (0..1 << left.len()).map(takes).collect();
        let is_needed = |set: usize, at: usize| takes[set & !(1 << at)] != takes[set];
        let needs_each = |set: &usize| members(*set, left.len()).all(|at| is_needed(*set, at));
        let mut sets: Vec<usize> = (1..1 << left.len()).filter(needs_each).collect();
        sets.sort_by_cached_key(|set| {
            (self.held_by(&victims_of(*set).collect::<Vec<_>>()), set.count_ones(), *set)
        });
        sets.truncate(OF_NODE);
        Ok(sets.into_iter().map(|set| members(set, left.len()).map(|at| left[at]).collect()).collect())
    }
}

/// The members of a set of so many.
fn members(set: usize, of: usize) -> impl Iterator<Item = usize> {
    (0..of).filter(move |at| set & (1 << at) != 0)
}
