//! Network topologies against brute force on small forests of HyperNodes: gangs that run in part, sub-groups, tiers by
//! number and by name, soft topologies that fit no HyperNode, one and two classes of pods.
mod case;
mod exact;

use std::cmp::Reverse;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestCaseResult};

use case::{Case, Figures, Member, PARTS, Set, case};
use exact::Where;
use phalanx_testkit::rates::{Rate, holds};
use phalanx_testkit::{Cycle, cases};

impl Case {
    fn running(&self) -> usize {
        self.members.iter().filter(|member| member.on.is_some()).count()
    }

    /// Where the gang may be, the best first.
    fn order(&self) -> Vec<Where> {
        self.allowed(self.topology.as_ref(), self.held(|_| true))
    }

    /// The part of a HyperNode that is used once members that ask for so much have nodes there, by cores and bytes; 0
    /// without room.
    fn fullness(&self, domain: usize, asked: Figures) -> f64 {
        let (nodes, free) = (self.nodes_of(domain), self.free());
        let inside = (0..self.nodes.len()).filter(|node| nodes & (1 << node) != 0);
        let of = |dim: usize| {
            let asked = asked[dim];
            let all: i64 = inside.clone().map(|node| self.nodes[node][dim]).sum();
            let left: i64 = inside.clone().map(|node| free[node][dim]).sum();
            (asked, all - left + asked, all)
        };
        let parts: Vec<(i64, i64, i64)> = (0..2).map(of).filter(|(asked, ..)| *asked > 0).collect();
        if parts.is_empty() || parts.iter().any(|(_, used, all)| used > all) {
            return 0.0;
        }
        parts.iter().map(|(_, used, all)| *used as f64 / *all as f64).sum::<f64>() / parts.len() as f64
    }

    /// What pending members ask for that `of` picks.
    fn asked(&self, of: impl Fn(&Member) -> bool) -> Figures {
        let pending = self.members.iter().filter(|member| member.on.is_none() && of(member));
        pending.fold([0, 0], |sum, member| [sum[0] + member.asks[0], sum[1] + member.asks[1]])
    }

    /// Where a gang of equal pods starts: the lowest tier that can hold its minimum; there the HyperNode that is fullest
    /// with all pods, or else the one with room for the most, the fullest with the minimum, the first by name.
    fn best(&self) -> Option<Where> {
        let fitting: Vec<Where> =
            self.order().into_iter().filter(|domain| self.fits(*domain, self.min)).collect();
        let asked = self.asked(|_| true);
        let pending = self.members.iter().filter(|member| member.on.is_none());
        let lacks = self.min.saturating_sub(self.running()).max(1) as i64;
        let minimum = pending.clone().next().map_or([0, 0], |it| it.asks.map(|amount| amount * lacks));
        let room = |domain: usize| {
            let holds = |count: &usize| self.fits(Some(domain), *count);
            (0..=self.members.len()).rev().find(holds).unwrap_or(0)
        };
        let key = |domain: &usize| {
            let (tier, all) = (self.domains[*domain].tier, -self.fullness(*domain, asked));
            (tier, all, Reverse(room(*domain)), -self.fullness(*domain, minimum), *domain)
        };
        let hyper_nodes = fitting.iter().copied().flatten();
        let best = hyper_nodes.min_by(|a, b| key(a).partial_cmp(&key(b)).expect("numbers"));
        best.map(Some).or(fitting.contains(&None).then_some(None))
    }

    /// Where the gang is in the end, and how many of its pods: as many as fit where it started and around.
    fn end(&self, start: Where) -> (Where, usize) {
        let start = start.map_or(0, |domain| self.nodes_of(domain));
        let around = self.order().into_iter().filter(|domain| start & !self.set(*domain) == 0);
        let around: Vec<Where> = around.filter(|domain| start != 0 || domain.is_none()).collect();
        let holds = |count: &usize, domain: &Where| self.fits(*domain, *count);
        let most =
            (0..=self.members.len()).rev().find(|count| around.iter().any(|domain| holds(count, domain)));
        let most = most.unwrap_or(0);
        let lowest = around.into_iter().find(|domain| holds(&most, domain));
        (lowest.flatten(), most)
    }
}

fn nodes_bound(case: &Case, cycle: &Cycle) -> Set {
    let after = case.after(cycle);
    let is_new = |at: usize| case.members[at].on.is_none();
    let nodes = (0..case.members.len()).filter(|at| is_new(*at)).filter_map(|at| after.members[at].on);
    nodes.fold(0, |set, node| set | 1 << node)
}

fn equal_pods(case: &Case, rate: &Rate) -> TestCaseResult {
    let mut test = case.test();
    let cycle = test.cycle();
    let bound = cycle.bound_of("g");
    let Some(best) = case.best() else {
        prop_assert_eq!(bound, 0, "{:?}", cycle.bound);
        return Ok(());
    };
    rate.served();
    let (domain, count) = case.end(best);
    let expected = format!("{count} pods in {domain:?}, first in {best:?}");
    let why = test.reasons("g");
    prop_assert_eq!(case.running() + bound, count, "{}: {:?} {:?}", expected, cycle.bound, why);
    let outside = nodes_bound(case, &cycle) & !case.set(domain);
    prop_assert_eq!(outside, 0, "{}: {:?}", expected, cycle.bound);
    Ok(())
}

#[test]
fn equal_pods_get_the_lowest_tier_that_fits_and_there_the_fullest_hyper_node() {
    holds("network topology, equal pods", cases(10000), case(1, 0), equal_pods);
}

impl Case {
    fn running_of(&self, part: usize) -> usize {
        self.members.iter().filter(|member| member.part == Some(part) && member.on.is_some()).count()
    }

    /// Whether the gang runs with all that it needs.
    fn is_ready(&self) -> bool {
        self.running() >= self.min && self.has_whole(|part| self.running_of(part) >= self.entry(part).size)
    }

    /// Whether each entry has as many whole sub-groups as it requires.
    fn has_whole(&self, is_whole: impl Fn(usize) -> bool) -> bool {
        let of = |at: usize| (0..PARTS).filter(|part| self.entry_of(*part) == at && is_whole(*part)).count();
        self.entries.iter().enumerate().all(|(at, entry)| of(at) >= entry.min)
    }

    /// Whether what was bound since is within what nodes have, in one HyperNode that is allowed, and in whole sub-groups
    /// each of which is in one that it is allowed.
    fn is_sound(&self, before: &Case) -> bool {
        let has_room = self.free().iter().flatten().all(|free| *free >= 0);
        let is_near = !self.order().is_empty();
        let holds = |part: usize| {
            let (held, entry) = (self.held(|member| member.part == Some(part)), self.entry(part));
            let is_near = !self.allowed(entry.topology.as_ref(), held).is_empty();
            let is_new = self.running_of(part) > before.running_of(part);
            !is_new || (is_near && self.running_of(part) >= entry.size)
        };
        let parts_hold = self.entries.is_empty() || (0..PARTS).all(holds);
        has_room && is_near && self.is_ready() && parts_hold
    }

    /// The tier of the first of these domains; anywhere is above all tiers.
    fn tier(&self, domain: Option<Where>) -> u32 {
        domain.flatten().map_or(u32::MAX, |domain| self.domains[domain].tier)
    }
}

fn sound(case: &Case) -> Result<Cycle, TestCaseError> {
    let cycle = case.test().cycle();
    let is_sound = cycle.bound_of("g") == 0 || case.after(&cycle).is_sound(case);
    prop_assert!(is_sound, "{:?}", cycle.bound);
    Ok(cycle)
}

fn sound_and_nearly_complete(case: &Case, rate: &Rate) -> TestCaseResult {
    let cycle = sound(case)?;
    if case.is_ready() {
        return Ok(());
    }
    let lowest = case.order().into_iter().find(|domain| case.fits(*domain, case.min));
    match (cycle.bound_of("g"), lowest) {
        (0, None) => {}
        (0, Some(_)) => rate.not_placed(),
        _ => {
            rate.served();
            // A gang whose minimum is less than all of its pods may grow out of the HyperNode where it started.
            let is_whole = case.min == case.members.len();
            if is_whole && case.tier(case.after(&cycle).order().first().copied()) > case.tier(lowest) {
                rate.costly();
            }
        }
    }
    Ok(())
}

#[test]
fn gangs_of_unlike_pods_are_near_and_nearly_always_in_the_lowest_tier() {
    holds("network topology, two classes of pods", cases(10000), case(2, 0), sound_and_nearly_complete);
}

#[test]
fn sub_groups_of_equal_pods_are_whole_and_near_and_nearly_all_are_placed() {
    holds("network topology, sub-groups", cases(5000), case(1, 1), sound_and_nearly_complete);
}

#[test]
fn sub_groups_of_two_entries_are_whole_and_near_and_nearly_all_are_placed() {
    holds("network topology, two entries", cases(5000), case(1, 2), sound_and_nearly_complete);
}

impl Case {
    /// A gang without a topology of its own, all of which is new: whole sub-groups of equal pods.
    fn of_new_sub_groups(mut self) -> Self {
        self.topology = None;
        self.members.iter_mut().for_each(|member| member.on = None);
        let count = |part: usize| self.members.iter().filter(|member| member.part == Some(part)).count();
        let whole = [0, 1, 2].map(|part| count(part) == self.entry(part).size);
        self.members.retain(|member| member.part.is_some_and(|part| whole[part]));
        self.min = self.members.len();
        self
    }

    /// Whether this sub-group of equal pods, as the next one to be placed, gets these nodes by the rule: in the lowest
    /// tier that has room, then in the fullest HyperNode, then in the first by name.
    fn is_best(&self, part: usize, nodes: Set) -> bool {
        let of_part = |member: &Member| member.part == Some(part);
        let (asked, free, size) = (self.asked(of_part), self.free(), self.entry(part).size as i64);
        let on = |node: &usize| {
            let dims = (0..2).filter(|dim| asked[*dim] > 0);
            dims.map(|dim| (free[*node][dim] * size / asked[dim]).max(0)).min().unwrap_or(size)
        };
        let inside = |domain: Where| (0..free.len()).filter(move |node| self.set(domain) & (1 << node) != 0);
        let mut fitting = self.allowed(self.entry(part).topology.as_ref(), 0);
        fitting.retain(|domain| inside(*domain).map(|node| on(&node)).sum::<i64>() >= size);
        let key = |domain: &Where| {
            let fullness = domain.map_or(0.0, |domain| self.fullness(domain, asked));
            (self.tier(Some(*domain)), -fullness, *domain)
        };
        let best = fitting.into_iter().min_by(|a, b| key(a).partial_cmp(&key(b)).expect("numbers"));
        best.is_some_and(|best| nodes & !self.set(best) == 0)
    }

    /// Whether there is an order of the sub-groups, which are placed, in which each gets its best domain.
    fn is_in_order(&self, placed: &mut Vec<usize>) -> bool {
        let is_new = |part: &usize| self.members.iter().any(|member| member.part == Some(*part));
        let left: Vec<usize> = (0..PARTS).filter(is_new).filter(|part| !placed.contains(part)).collect();
        left.is_empty()
            || left.into_iter().any(|part| {
                let mut before = self.clone();
                let waits = |member: &Member| member.part.is_some_and(|part| !placed.contains(&part));
                before.members.iter_mut().filter(|member| waits(member)).for_each(|member| member.on = None);
                placed.push(part);
                let nodes = self.held(|member| member.part == Some(part));
                let found = before.is_best(part, nodes) && self.is_in_order(placed);
                placed.pop();
                found
            })
    }
}

fn best_domains(case: &Case, rate: &Rate) -> TestCaseResult {
    let cycle = sound(case)?;
    if cycle.bound_of("g") > 0 {
        let is_best = case.after(&cycle).is_in_order(&mut Vec::new());
        prop_assert!(is_best, "{:?}", cycle.bound);
        rate.served();
    }
    Ok(())
}

#[test]
fn each_sub_group_of_equal_pods_gets_the_lowest_tier_that_fits_and_there_the_fullest_hyper_node() {
    let cases_of = case(1, 1).prop_map(Case::of_new_sub_groups);
    let cases_of = cases_of.prop_filter("no whole sub-group", |case| !case.members.is_empty());
    holds("network topology, the domains of sub-groups", cases(5000), cases_of, best_domains);
}

#[test]
fn sub_groups_of_unlike_pods_are_whole_and_near_and_nearly_all_are_placed() {
    holds("network topology, sub-groups of unlike pods", cases(5000), case(2, 1), sound_and_nearly_complete);
}
