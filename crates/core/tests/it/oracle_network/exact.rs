//! The rules of network topologies, by trying all: which HyperNodes are allowed, and which can hold the gang.
use std::collections::HashSet;

use phalanx_cluster::event::{NetworkTopology, TierLimit};

use super::case::{Case, Figures, PARTS, Set};

/// A HyperNode, or `None` for anywhere.
pub(super) type Where = Option<usize>;

impl Case {
    /// The nodes of a HyperNode, or all.
    pub(super) fn set(&self, domain: Where) -> Set {
        domain.map_or((1 << self.nodes.len()) - 1, |domain| self.nodes_of(domain))
    }

    /// Where pods with a network topology may be that hold some nodes already, by tier and name; anywhere is last.
    pub(super) fn allowed(&self, topology: Option<&NetworkTopology>, held: Set) -> Vec<Where> {
        let highest = self.domains.iter().map(|domain| domain.tier).max();
        // A tier above all that there are is the whole cluster.
        let topology = match topology {
            Some(NetworkTopology::Hard(TierLimit::Number(tier))) if highest.is_some_and(|it| it < *tier) => {
                Some(&NetworkTopology::Soft)
            }
            other => other,
        };
        let may = |at: &usize| match topology {
            Some(NetworkTopology::Hard(TierLimit::Number(tier))) => self.domains[*at].tier <= *tier,
            Some(NetworkTopology::Hard(TierLimit::Name(name))) => self.is_below(*at, name),
            Some(NetworkTopology::Soft) => true,
            None => false,
        };
        let holds = |at: &usize| held & !self.nodes_of(*at) == 0;
        let mut domains: Vec<usize> = (0..self.domains.len()).filter(may).filter(holds).collect();
        domains.sort_by_key(|at| (self.domains[*at].tier, *at));
        let anywhere = !matches!(topology, Some(NetworkTopology::Hard(_)));
        domains.into_iter().map(Some).chain(anywhere.then_some(None)).collect()
    }

    /// Whether there are HyperNodes for each hard topology; a gang waits without, and says so.
    pub(super) fn has_hyper_nodes(&self) -> bool {
        let of_parts = self.entries.iter().filter_map(|entry| entry.topology.as_ref());
        self.topology.iter().chain(of_parts).all(|topology| !self.allowed(Some(topology), 0).is_empty())
    }

    /// Whether a HyperNode or one above it has this `tierName`.
    fn is_below(&self, domain: usize, name: &str) -> bool {
        let it = &self.domains[domain];
        it.tier_name == name || it.parent.is_some_and(|parent| self.is_below(parent, name))
    }

    /// Whether so many members, those that run among them, can be in a domain as the sub-groups want it.
    pub(super) fn fits(&self, domain: Where, min: usize) -> bool {
        let inside = self.set(domain);
        if !self.has_hyper_nodes() || self.held(|_| true) & !inside != 0 {
            return false;
        }
        let parts: Vec<usize> = (0..PARTS).filter(|part| self.size_of(*part) > 0).collect();
        self.choose(inside, min, &parts, &mut Vec::new())
    }

    fn size_of(&self, part: usize) -> usize {
        self.members.iter().filter(|member| member.part == Some(part)).count()
    }

    /// Tries for each sub-group to place nothing, and to make it whole in each domain that it may be in.
    fn choose(&self, inside: Set, min: usize, parts: &[usize], chosen: &mut Vec<Set>) -> bool {
        let Some(part) = parts.get(chosen.len()).copied() else {
            return Search::new(self, inside, min, parts, chosen).place(0);
        };
        let held = self.held(|member| member.part == Some(part));
        let domains = self.allowed(self.entry(part).topology.as_ref(), held);
        let sets = domains.into_iter().map(|domain| self.set(domain) & inside);
        sets.chain([0]).any(|set| {
            chosen.push(set);
            let found = self.choose(inside, min, parts, chosen);
            chosen.pop();
            found
        })
    }
}

/// A search over all nodes for each pending member.
struct Search<'a> {
    case: &'a Case,
    min: usize,
    parts: &'a [usize],
    /// For each member the nodes that it may get.
    may: Vec<Set>,
    free: Vec<Figures>,
    /// Members that are placed, for each sub-group and in all.
    placed: [usize; PARTS + 1],
    failed: HashSet<(usize, Vec<Figures>, [usize; PARTS + 1])>,
}

/// The place of the count of all members.
const ALL: usize = PARTS;

impl<'a> Search<'a> {
    fn new(case: &'a Case, inside: Set, min: usize, parts: &'a [usize], chosen: &[Set]) -> Self {
        let of_part = |part: usize| parts.iter().position(|it| *it == part).map_or(0, |at| chosen[at]);
        let may = case.members.iter().map(|member| member.part.map_or(inside, of_part)).collect();
        let mut placed = [0; PARTS + 1];
        for member in case.members.iter().filter(|member| member.on.is_some()) {
            placed[ALL] += 1;
            member.part.into_iter().for_each(|part| placed[part] += 1);
        }
        Self { case, min, parts, may, free: case.free(), placed, failed: HashSet::new() }
    }

    /// Whether the members from one on can be placed so that all minimums are reached.
    fn place(&mut self, at: usize) -> bool {
        let Some(member) = self.case.members.get(at) else { return self.is_end() };
        if member.on.is_some() {
            return self.place(at + 1);
        }
        let key = (at, self.free.clone(), self.placed);
        if self.failed.contains(&key) {
            return false;
        }
        for node in (0..self.free.len()).filter(|node| self.may[at] & (1 << node) != 0).collect::<Vec<_>>() {
            if (0..2).all(|dim| member.asks[dim] <= self.free[node][dim]) {
                self.put(at, node, 1);
                let found = self.place(at + 1);
                self.put(at, node, -1);
                if found {
                    return true;
                }
            }
        }
        let found = self.place(at + 1);
        if !found {
            self.failed.insert(key);
        }
        found
    }

    fn put(&mut self, at: usize, node: usize, sign: i64) {
        let member = &self.case.members[at];
        (0..2).for_each(|dim| self.free[node][dim] -= sign * member.asks[dim]);
        for count in member.part.into_iter().chain([ALL]) {
            self.placed[count] = self.placed[count].wrapping_add_signed(sign as isize);
        }
    }

    fn is_end(&self) -> bool {
        let is_whole = |part: usize| self.placed[part] >= self.case.entry(part).size;
        let has_new = |part: usize| self.placed[part] > self.case.running_of(part);
        self.placed[ALL] >= self.min
            && self.case.has_whole(is_whole)
            && self.parts.iter().all(|part| is_whole(*part) || !has_new(*part))
    }
}
