//! Brute force over all placements of the waiting gang and over all sets of victims.
use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::{Even, Figures, Held, Member, Rules, Small, Topology};
use crate::rates::Rate;
use crate::{Cycle, TestCluster};

/// A set of pods, by bits.
pub type Set = u32;

/// For each member its node, if it has one.
pub type Places = Vec<Option<usize>>;

/// Whether a placement is allowed by rules outside the nodes, as those of queues.
type May<'a> = &'a dyn Fn(&[Option<usize>]) -> bool;

/// What a running gang may lose to evictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Losses {
    /// Any of its pods.
    Any,
    /// Its surplus.
    Surplus,
    /// Its surplus or all of its pods.
    SurplusOrWhole,
}

/// A running gang that loses some of its pods.
#[derive(Clone, Copy)]
struct Loss {
    min: usize,
    had: usize,
    left: usize,
}

impl Loss {
    fn is_surplus(self) -> bool {
        self.left == self.had || self.left >= self.min
    }

    fn breaks_gang(self) -> bool {
        self.had >= self.min && self.left < self.min
    }
}

/// How evictions treat gangs.
#[derive(Clone, Copy, Debug)]
pub struct GangProtection {
    /// `gangpreempt` or `gangreclaim`: gangs go as a whole.
    pub whole_gangs: bool,
    /// Plugin gang protects the minimums.
    pub minimums: bool,
}

impl GangProtection {
    /// What a running gang may lose.
    pub fn losses(self) -> Losses {
        match self {
            GangProtection { whole_gangs: true, .. } => Losses::SurplusOrWhole,
            GangProtection { minimums: true, .. } => Losses::Surplus,
            GangProtection { .. } => Losses::Any,
        }
    }
}

impl Losses {
    fn allow(self, loss: Loss) -> bool {
        match self {
            Losses::Any => true,
            Losses::Surplus => loss.is_surplus(),
            Losses::SurplusOrWhole => loss.is_surplus() || loss.left == 0,
        }
    }
}

/// Sets of running pods.
impl Small {
    /// All pods that run.
    pub fn all(&self) -> Set {
        (1 << self.pods.len()) - 1
    }

    /// The pods of these names.
    pub fn set_of<'a>(&self, names: impl IntoIterator<Item = &'a String>) -> Set {
        let at =
            |name: &String| self.pods.iter().position(|pod| pod.name == *name).expect("a pod that was there");
        names.into_iter().fold(0, |set, name| set | 1 << at(name))
    }

    /// The positions of the pods of a set.
    pub fn positions(&self, set: Set) -> impl Iterator<Item = usize> + Clone + use<> {
        (0..self.pods.len()).filter(move |at| set & (1 << at) != 0)
    }

    /// The pods of a set.
    pub fn pods_of(&self, set: Set) -> impl Iterator<Item = &Held> {
        self.positions(set).map(|at| &self.pods[at])
    }

    /// Each running gang as these pods leave it.
    fn losses(&self, gone: Set, mins: impl Iterator<Item = u32>) -> impl Iterator<Item = Loss> {
        let of = |at: usize, set: Set| self.pods_of(set).filter(|pod| pod.gang == at).count();
        mins.enumerate().map(move |(at, min)| Loss {
            min: min as usize,
            had: of(at, self.all()),
            left: of(at, self.all() & !gone),
        })
    }

    /// Whether all gangs may lose these pods.
    pub fn may_lose(&self, losses: Losses, gone: Set, mins: impl Iterator<Item = u32>) -> bool {
        self.losses(gone, mins).all(|loss| losses.allow(loss))
    }

    /// For each gang, whether it falls below its minimum without these pods.
    pub fn broken(&self, gone: Set, mins: impl Iterator<Item = u32>) -> Vec<bool> {
        self.losses(gone, mins).map(Loss::breaks_gang).collect()
    }

    /// Whether a gang that keeps some of its pods falls below its minimum without these pods.
    pub fn breaks_in_part(&self, gone: Set, mins: impl Iterator<Item = u32>) -> bool {
        self.losses(gone, mins).any(|loss| loss.breaks_gang() && loss.left > 0)
    }

    /// Whether the pods of a set can go one after the other. `gives` says whether a pod may go after others; `known`
    /// holds the answers so far.
    pub fn go_in_turn(
        &self,
        gone: Set,
        gives: &dyn Fn(Set, usize) -> bool,
        known: &mut HashMap<Set, bool>,
    ) -> bool {
        if gone == 0 {
            return true;
        }
        if let Some(known) = known.get(&gone) {
            return *known;
        }
        let mut lasts = self.positions(gone).filter(|at| gives(gone & !(1 << at), *at));
        let found = lasts.any(|at| self.go_in_turn(gone & !(1 << at), gives, known));
        known.insert(gone, found);
        found
    }

    /// A set of pods, perhaps empty, that is enough.
    pub fn find(&self, is_enough: impl FnMut(&Set) -> bool) -> Option<Set> {
        (0..=self.all()).find(is_enough)
    }

    /// A part of a set, other than the whole, that is enough.
    pub fn find_part(&self, set: Set, mut is_enough: impl FnMut(Set) -> bool) -> Option<Set> {
        (0..set).find(|part| part & !set == 0 && is_enough(*part))
    }
}

/// Placements of the waiting gang.
impl Small {
    /// Whether the gang fits without these pods.
    pub fn fits(&self, gone: Set, may: May<'_>) -> bool {
        self.reaches(gone, may, &|places| places.iter().flatten().count() >= self.min)
    }

    /// Whether members can be placed on these nodes one after the other.
    pub fn leads_to(&self, gone: Set, may: May<'_>, end: &Places) -> bool {
        let is_part =
            |places: &[Option<usize>]| places.iter().zip(end).all(|(at, end)| at.is_none() || at == end);
        self.reaches(gone, &|places| is_part(places) && may(places), &|places| places == &end[..])
    }

    /// Whether members can be placed one after the other until `is_end` holds.
    pub fn reaches(&self, gone: Set, may: May<'_>, is_end: May<'_>) -> bool {
        let stay: Vec<&Held> = self.pods_of(self.all() & !gone).collect();
        let (mut seen, mut open) = (HashSet::new(), vec![vec![None; self.members.len()]]);
        while let Some(places) = open.pop() {
            if is_end(&places) {
                return true;
            }
            let moment = Moment { small: self, stay: &stay, places: &places };
            for (member, node) in moment.moves() {
                let mut next = places.clone();
                next[member] = Some(node);
                if may(&next) && seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        false
    }

    /// Once the victims of a cycle are gone, the gang starts without further evictions.
    pub fn starts_next(&self, test: &mut TestCluster, cycle: &Cycle) -> TestCaseResult {
        for pod in &cycle.evicted {
            test.gone(pod);
        }
        let next = test.cycle();
        prop_assert!(cycle.bound_of("asks") + next.bound_of("asks") >= self.min, "{next:?}");
        prop_assert_eq!(next.evicted, Vec::<String>::new());
        Ok(())
    }

    /// A gang without a place: nobody was evicted for it, and it counts as missed if the eviction of some set of pods,
    /// perhaps empty, is enough.
    pub fn is_refused(
        &self,
        test: &TestCluster,
        cycle: &Cycle,
        rate: &Rate,
        is_enough: impl FnMut(&Set) -> bool,
    ) -> TestCaseResult {
        prop_assert!(cycle.evicted.is_empty(), "{:?} are evicted for nothing", cycle.evicted);
        if self.find(is_enough).is_some() {
            rate.missed(&test.reasons("asks"))?;
        }
        Ok(())
    }

    fn domain(&self, topology: Topology, node: usize) -> Option<usize> {
        match topology {
            Topology::Host => Some(node),
            Topology::Rack => self.hosts[node].rack,
        }
    }

    fn is_near(&self, topology: Topology, one: usize, other: usize) -> bool {
        let domain = self.domain(topology, one);
        domain.is_some() && domain == self.domain(topology, other)
    }
}

/// A pod on a node: one that runs, or a member that has a place.
struct Neighbour<'a> {
    rules: &'a Rules,
    asks: &'a Figures,
    node: usize,
}

/// The pods that stay and the members that have a place.
struct Moment<'a> {
    small: &'a Small,
    stay: &'a [&'a Held],
    places: &'a [Option<usize>],
}

impl Moment<'_> {
    /// Each member without a place, with each node that takes it.
    fn moves(&self) -> impl Iterator<Item = (usize, usize)> {
        let members = (0..self.places.len()).filter(|member| self.places[*member].is_none());
        let pairs = members.flat_map(|member| (0..self.small.hosts.len()).map(move |node| (member, node)));
        pairs.filter(|(member, node)| self.takes(&self.small.members[*member], *node))
    }

    fn neighbours(&self) -> impl Iterator<Item = Neighbour<'_>> {
        let stay =
            self.stay.iter().map(|pod| Neighbour { rules: &pod.rules, asks: &pod.asks, node: pod.node });
        let placed = self.places.iter().zip(&self.small.members);
        stay.chain(placed.filter_map(|(node, member)| {
            Some(Neighbour { rules: &member.rules, asks: &member.asks, node: (*node)? })
        }))
    }

    fn coloured(&self, colour: usize) -> impl Iterator<Item = usize> {
        self.neighbours().filter(move |pod| pod.rules.colours[colour]).map(|pod| pod.node)
    }

    fn takes(&self, member: &Member, node: usize) -> bool {
        member.only.is_none_or(|only| only == node)
            && self.has_room(member, node)
            && member
                .rules
                .with
                .is_none_or(|(colour, topology)| self.has_company(member, colour, topology, node))
            && !self.is_kept_out(member, node)
            && member.rules.spread.iter().all(|even| self.is_even(member, even, node))
    }

    fn has_room(&self, member: &Member, node: usize) -> bool {
        let held = |dim: usize| {
            self.neighbours().filter(|pod| pod.node == node).map(|pod| pod.asks[dim]).sum::<i64>()
        };
        (0..2).all(|dim| {
            member.asks[dim] == 0 || held(dim) + member.asks[dim] <= self.small.hosts[node].room[dim]
        })
    }

    /// Affinity. A pod in no domain satisfies none.
    fn has_company(&self, member: &Member, colour: usize, topology: Topology, node: usize) -> bool {
        let is_first = || {
            let mut domains = self.coloured(colour).map(|at| self.small.domain(topology, at));
            member.rules.colours[colour] && !domains.any(|domain| domain.is_some())
        };
        self.small.domain(topology, node).is_some()
            && (self.coloured(colour).any(|at| self.small.is_near(topology, node, at)) || is_first())
    }

    /// Anti-affinity of the member, or of another pod against it.
    fn is_kept_out(&self, member: &Member, node: usize) -> bool {
        let by_own_rule = member.rules.without.is_some_and(|(colour, topology)| {
            self.coloured(colour).any(|at| self.small.is_near(topology, node, at))
        });
        let by = |pod: Neighbour<'_>| {
            pod.rules.without.is_some_and(|(colour, topology)| {
                member.rules.colours[colour] && self.small.is_near(topology, node, pod.node)
            })
        };
        by_own_rule || self.neighbours().any(by)
    }

    fn is_even(&self, member: &Member, even: &Even, node: usize) -> bool {
        let small = self.small;
        let counts = |at: usize| {
            member.only.is_none_or(|only| only == at)
                && member.rules.spread.iter().all(|other| small.domain(other.topology, at).is_some())
        };
        let domain = |at: usize| small.domain(even.topology, at);
        let domains: HashSet<Option<usize>> =
            (0..small.hosts.len()).filter(|at| counts(*at)).map(domain).collect();
        let pods = |of: Option<usize>| {
            self.coloured(even.colour).filter(|at| counts(*at) && domain(*at) == of).count() as u32
        };
        let least = if domains.len() < even.domains as usize {
            0
        } else {
            domains.iter().map(|domain| pods(*domain)).min().unwrap_or(0)
        };
        let own = u32::from(member.rules.colours[even.colour]);
        counts(node) && pods(domain(node)) + own <= least + even.skew
    }
}
