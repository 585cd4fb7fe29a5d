//! Reclaim between queues against brute force: deserved, guarantee and capability, in a flat list and in a tree.
use std::collections::HashMap;
use std::ops::Range;

use phalanx_cluster::event::{QueueInfo, Resources};
use phalanx_framework::conf::{Arg, Conf, Flag, Position, Value};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use phalanx_framework::testing::{queue, resources};
use phalanx_testkit::rates::{Rate, holds};
use phalanx_testkit::small::{
    Figures, Gang, GangProtection, Host, Losses, Member, Rules, Set, Small, filled,
};
use phalanx_testkit::{TestCluster, cases, one_tier, set_flag};

/// Cores of a queue.
#[derive(Clone, Debug, Default)]
struct Quota {
    deserved: Option<i64>,
    guarantee: i64,
    capability: Option<i64>,
    reclaimable: bool,
}

/// Leaves `q0` and `q1` are below `t0`, `q2` and `q3` below `t1`; in a flat list there are only the leaves. The waiting
/// gang is in `q0`.
#[derive(Clone, Debug)]
struct Case {
    small: Small,
    gangs: Vec<Gang>,
    /// By pod.
    preemptable: Vec<bool>,
    leaves: Vec<Quota>,
    /// The capability of each team.
    teams: [Option<i64>; 2],
    tree: bool,
    /// `ancestorReclaimLevel`.
    levels: usize,
    protection: GangProtection,
}

/// A queue, as a leaf or a team.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Id {
    Leaf(usize),
    Team(usize),
}

impl Id {
    /// The leaves below it, or itself.
    fn below(self) -> Vec<usize> {
        match self {
            Id::Leaf(leaf) => vec![leaf],
            Id::Team(team) => vec![2 * team, 2 * team + 1],
        }
    }
}

fn quota() -> impl Strategy<Value = Quota> {
    let amount = |part: f64, most: i64| prop::option::weighted(part, 1i64..most);
    (amount(0.7, 5), amount(0.2, 3), amount(0.25, 6), prop::bool::weighted(0.9)).prop_map(
        |(deserved, guarantee, capability, reclaimable)| {
            let guarantee = guarantee.unwrap_or(0).min(deserved.unwrap_or(i64::MAX));
            let capability = capability.map(|most| most.max(guarantee).max(deserved.unwrap_or(0)));
            Quota { deserved, guarantee, capability, reclaimable }
        },
    )
}

/// How many nodes and pods there are.
#[derive(Clone, Copy)]
struct Size {
    hosts: (usize, usize),
    pods: (usize, usize),
}

const TINY: Size = Size { hosts: (1, 4), pods: (1, 8) };

/// So many pods that the scheduler does not try every set of them.
const SMALL: Size = Size { hosts: (2, 6), pods: (9, 14) };

prop_compose! {
    fn gang(queues: Range<usize>)(queue in queues, min in 0u32..4) -> Gang {
        Gang { queue, priority: 0, min }
    }
}

prop_compose! {
    fn case(whole_gangs: bool, size: Size)(
        hosts in prop::collection::vec((1i64..6, 0i64..2), size.hosts.0..size.hosts.1),
        pods in prop::collection::vec((0usize..3, 0usize..5, prop::sample::select(vec![[1i64, 0], [1, 0], [2, 0], [3, 0], [1, 1], [0, 1]])), size.pods.0..size.pods.1),
        gangs in prop::collection::vec(gang(0usize..4), 3),
        preemptable in prop::collection::vec(prop::bool::weighted(0.9), 16),
        (asks, count) in (prop::sample::select(vec![[1i64, 0], [2, 0], [3, 0], [1, 1]]), 1usize..5),
        leaves in prop::collection::vec(quota(), 4),
        teams in [prop::option::weighted(0.4, 2i64..10), prop::option::weighted(0.3, 2i64..10)],
        (tree, levels, minimums) in (any::<bool>(), 0usize..2, any::<bool>()),
    ) -> Case {
        let hosts: Vec<Host> = hosts.into_iter().map(|(cores, cards)| Host { room: [cores, cards], rack: None }).collect();
        let pods = pods.into_iter().map(|(gang, node, asks)| (gang, node, asks, Rules::default())).collect();
        let small = Small {
            pods: filled(&hosts, pods),
            hosts,
            members: vec![Member { asks, ..Member::default() }; count],
            min: count,
        };
        let mut case = Case {
            preemptable: preemptable[..small.pods.len()].to_vec(), small, gangs, leaves, teams, tree, levels,
            protection: GangProtection { whole_gangs, minimums },
        };
        case.add_up();
        case
    }
}

impl Case {
    /// Guarantees fit the cluster, and the capability of a team covers the guarantees of its queues.
    fn add_up(&mut self) {
        if (0..4).map(|at| self.leaves[at].guarantee).sum::<i64>() > self.total() {
            self.leaves.iter_mut().for_each(|leaf| leaf.guarantee = 0);
        }
        for team in 0..2 {
            let below = &self.leaves[2 * team..2 * team + 2];
            let least: i64 = below.iter().map(|leaf| leaf.guarantee.max(leaf.deserved.unwrap_or(0))).sum();
            self.teams[team] = self.teams[team].map(|most| most.max(least));
        }
    }

    fn total(&self) -> i64 {
        self.small.hosts.iter().map(|host| host.room[0]).sum()
    }

    fn conf(&self) -> Conf {
        let action = if self.protection.whole_gangs { "gangreclaim" } else { "reclaim" };
        let plugins = ["gang", "capacity", "predicates", "nodeorder"];
        let mut conf = one_tier(&["allocate", action], &plugins);
        set_flag(&mut conf, "gang", Flag::Reclaimable, self.protection.minimums);
        set_flag(&mut conf, "capacity", Flag::Hierarchy, self.tree);
        let levels = Arg { value: Value::Int(self.levels as i64), at: Position::default() };
        conf.tiers[0].plugins[1].args.0.insert("ancestorReclaimLevel".into(), levels);
        conf
    }

    fn test(&self) -> TestCluster {
        let mut test = TestCluster::with(self.conf());
        let cores = |amount: Option<i64>| -> Resources {
            amount.map(|amount| resources(&format!("cpu={amount}"))).unwrap_or_default()
        };
        if self.tree {
            for (at, most) in self.teams.iter().enumerate() {
                test.add(QueueInfo { capability: cores(*most), ..queue(&format!("t{at}"), 1) });
            }
        }
        for (at, quota) in self.leaves.iter().enumerate() {
            test.add(QueueInfo {
                parent: if self.tree { format!("t{}", at / 2) } else { String::new() }.into(),
                deserved: cores(quota.deserved),
                guarantee: cores(Some(quota.guarantee).filter(|amount| *amount > 0)),
                capability: cores(quota.capability),
                reclaimable: quota.reclaimable,
                ..queue(&format!("q{at}"), 1)
            });
        }
        self.small.fill(&mut test, &self.gangs, &self.preemptable);
        test
    }

    // ------------------------------------------------------------ queues

    /// A queue and those above it.
    fn path(&self, leaf: usize) -> Vec<Id> {
        if self.tree { vec![Id::Leaf(leaf), Id::Team(leaf / 2)] } else { vec![Id::Leaf(leaf)] }
    }

    fn queue_of(&self, pod: usize) -> usize {
        self.gangs[self.small.pods[pod].gang].queue
    }

    /// What a queue holds without some pods and with this many members of the gang.
    fn held(&self, id: Id, gone: Set, members: usize, dim: usize) -> i64 {
        let below = id.below();
        let pods = (0..self.small.pods.len())
            .filter(|at| gone & (1 << at) == 0 && below.contains(&self.queue_of(*at)));
        let own = if below.contains(&0) { members as i64 * self.small.members[0].asks[dim] } else { 0 };
        own + pods.map(|at| self.small.pods[at].asks[dim]).sum::<i64>()
    }

    fn guarantee(&self, id: Id) -> i64 {
        id.below().iter().map(|leaf| self.leaves[*leaf].guarantee).sum()
    }

    /// The guarantees of the siblings of a queue.
    fn beside(&self, leaf: usize) -> i64 {
        let family: Vec<usize> = if self.tree { Id::Team(leaf / 2).below() } else { (0..4).collect() };
        family.iter().filter(|other| **other != leaf).map(|other| self.leaves[*other].guarantee).sum()
    }

    /// What a team can hold beside the guarantee of the other team.
    fn room(&self, team: usize) -> i64 {
        (self.total() - self.guarantee(Id::Team(1 - team))).min(self.teams[team].unwrap_or(i64::MAX))
    }

    /// The most that a queue may hold. Without guarantees of siblings the nodes are the limit.
    fn limit(&self, id: Id) -> i64 {
        match id {
            Id::Team(team) if self.guarantee(Id::Team(1 - team)) > 0 => self.room(team),
            Id::Team(team) => self.teams[team].unwrap_or(i64::MAX),
            Id::Leaf(leaf) => {
                let above = if self.tree { self.room(leaf / 2) } else { self.total() };
                let room = if self.beside(leaf) > 0 { above - self.beside(leaf) } else { i64::MAX };
                room.min(self.leaves[leaf].capability.unwrap_or(i64::MAX))
            }
        }
    }

    /// Its deserved amount, if it has one.
    fn deserved(&self, id: Id) -> Option<i64> {
        let (written, real) = match id {
            Id::Team(team) => {
                let below: Vec<i64> =
                    id.below().iter().filter_map(|leaf| self.leaves[*leaf].deserved).collect();
                ((!below.is_empty()).then(|| below.iter().sum()), self.teams[team].unwrap_or(i64::MAX))
            }
            Id::Leaf(leaf) => {
                let above = if self.tree { self.teams[leaf / 2] } else { Some(self.total()) };
                let real = above.map_or(i64::MAX, |above| above - self.beside(leaf));
                (self.leaves[leaf].deserved, real.min(self.leaves[leaf].capability.unwrap_or(i64::MAX)))
            }
        };
        let least = Some(self.guarantee(id)).filter(|least| *least > 0);
        written.map(|amount: i64| amount.min(real)).max(least)
    }

    /// What a queue takes of its parent: its guarantee or, where that is more, what it and its children hold.
    fn claim(&self, id: Id, gone: Set, members: usize) -> i64 {
        let own =
            |leaf: &usize| self.guarantee(Id::Leaf(*leaf)).max(self.held(Id::Leaf(*leaf), gone, members, 0));
        self.guarantee(id).max(id.below().iter().map(own).sum())
    }

    /// Whether the last of this many members leaves other queues their guarantees.
    fn leaves_enough(&self, gone: Set, members: usize) -> bool {
        if (0..4).all(|leaf| self.leaves[leaf].guarantee == 0) || self.small.members[0].asks[0] == 0 {
            return true;
        }
        let path = self.path(0);
        for (at, id) in path.iter().enumerate() {
            let (family, room): (Vec<Id>, i64) = match path.get(at + 1) {
                Some(Id::Team(team)) => {
                    ((0..2).map(|leaf| Id::Leaf(2 * team + leaf)).collect(), self.room(*team))
                }
                _ if self.tree => ((0..2).map(Id::Team).collect(), self.total()),
                _ => ((0..4).map(Id::Leaf).collect(), self.total()),
            };
            if self.claim(*id, gone, members) == self.claim(*id, gone, members - 1) {
                return true;
            }
            let claims = |members| family.iter().map(|id| self.claim(*id, gone, members)).sum::<i64>();
            let held: i64 = family.iter().map(|id| self.held(*id, gone, members - 1, 0)).sum();
            if claims(members) > room && claims(members - 1) > held {
                return false;
            }
        }
        true
    }

    /// Whether the queue may hold the last of this many members.
    fn may_have(&self, gone: Set, members: usize) -> bool {
        let within = |id: &Id| self.held(*id, gone, members, 0) <= self.limit(*id);
        self.small.members[0].asks[0] == 0
            || (self.path(0).iter().all(within) && self.leaves_enough(gone, members))
    }

    /// Whether a queue with the whole gang stays within its deserved amount.
    fn entitles(&self, id: Id) -> bool {
        self.deserved(id).is_some_and(|most| self.held(id, 0, self.small.min, 0) <= most)
    }

    /// Whether the queue, or an ancestor up to `ancestorReclaimLevel`, deserves the whole gang.
    fn is_entitled(&self) -> bool {
        let path = self.path(0);
        let within = self.held(Id::Leaf(0), 0, self.small.min, 0) <= self.limit(Id::Leaf(0));
        let levels = if self.tree { self.levels } else { 0 };
        self.small.members[0].asks[0] > 0
            && within
            && path.iter().take(levels + 1).any(|id| self.entitles(*id))
    }

    /// Whether a pod may be reclaimed after others.
    fn gives(&self, gone: Set, pod: usize) -> bool {
        let (leaf, asks) = (self.queue_of(pod), self.small.pods[pod].asks);
        let own = self.small.members[0].asks;
        let of_use = self.protection.whole_gangs || (0..2).any(|dim| own[dim] > 0 && asks[dim] > 0);
        let together = self.tree && leaf / 2 == 0;
        let losing: Vec<Id> = self.path(leaf).into_iter().take(if together { 1 } else { 2 }).collect();
        let keeps = |id: &Id| {
            let least = self.guarantee(*id);
            least == 0 || asks[0] == 0 || self.held(*id, gone, 0, 0) - asks[0] >= least
        };
        let deserves = |id: Id, asks: Figures| asks[0] > 0 && self.deserved(id).is_some_and(|most| most > 0);
        let can_give = |id: Id| {
            !deserves(id, asks) || self.deserved(id).is_some_and(|most| self.held(id, gone, 0, 0) > most)
        };
        let levels = if self.tree { self.levels } else { 0 };
        let apart = levels > 0 && !together;
        // A common ancestor of both queues does not count: it holds the same without the pod.
        let justified = !together || self.entitles(Id::Leaf(0));
        leaf != 0
            && self.leaves[leaf].reclaimable
            && self.preemptable[pod]
            && of_use
            && losing.iter().all(keeps)
            && can_give(Id::Leaf(leaf))
            && justified
            && (!apart || can_give(Id::Team(leaf / 2)))
    }

    /// Whether the pods have an order in which each may be reclaimed after those before it.
    fn give(&self, gone: Set, known: &mut HashMap<Set, bool>) -> bool {
        self.small.go_in_turn(gone, &|gone, pod| self.gives(gone, pod), known)
    }

    fn mins(&self) -> impl Iterator<Item = u32> {
        self.gangs.iter().map(|gang| gang.min)
    }

    fn may_go(&self, gone: Set, known: &mut HashMap<Set, bool>) -> bool {
        self.small.may_lose(self.protection.losses(), gone, self.mins()) && self.give(gone, known)
    }

    fn fits(&self, gone: Set) -> bool {
        self.small.fits(gone, &|places| self.may_have(gone, places.iter().flatten().count()))
    }
}

fn check(case: &Case, rate: &Rate) -> TestCaseResult {
    let small = &case.small;
    let known = &mut HashMap::new();
    let mut test = case.test();
    let cycle = test.cycle();
    let evicted = small.set_of(&cycle.evicted);
    let places = small.places(&cycle);
    if places.iter().all(Option::is_none) {
        let entitled = case.is_entitled();
        return small.is_refused(&test, &cycle, rate, |gone| {
            (*gone == 0 || entitled) && case.may_go(*gone, known) && case.fits(*gone)
        });
    }
    if evicted != 0 {
        rate.served();
    }
    prop_assert!(places.iter().all(Option::is_some), "{:?}", places);
    prop_assert!(case.fits(evicted) && (evicted == 0 || case.is_entitled()), "{:?}", cycle.evicted);
    prop_assert!(case.may_go(evicted, known), "{:?}", cycle.evicted);
    let enough = small.find_part(evicted, |gone| case.may_go(gone, known) && case.fits(gone));
    prop_assert_eq!(enough, None, "a part of {:?} is enough", cycle.evicted);
    // Reclaim takes single pods, and in the end whole gangs; gangreclaim breaks a gang only where no surplus is enough.
    let breaks = if case.protection.whole_gangs {
        small.broken(evicted, case.mins()).contains(&true)
    } else {
        small.breaks_in_part(evicted, case.mins())
    };
    if breaks {
        let most = if case.protection.whole_gangs { u32::MAX } else { evicted.count_ones() };
        let is_better = |gone: &Set| {
            gone.count_ones() <= most
                && small.may_lose(Losses::Surplus, *gone, case.mins())
                && case.give(*gone, known)
                && case.fits(*gone)
        };
        if small.find(is_better).is_some() {
            rate.costly();
        }
    }
    small.starts_next(&mut test, &cycle)
}

#[test]
fn reclaim_between_queues_is_sound_and_nearly_complete() {
    holds("reclaim", cases(3000), case(false, TINY), check);
}

#[test]
fn gangreclaim_between_queues_is_sound_and_nearly_complete() {
    holds("gangreclaim", cases(3000), case(true, TINY), check);
}

#[test]
fn reclaim_of_many_pods_is_sound_and_nearly_complete() {
    holds("reclaim of many pods", cases(300), case(false, SMALL), check);
}

#[test]
fn gangreclaim_of_many_pods_is_sound_and_nearly_complete() {
    holds("gangreclaim of many pods", cases(300), case(true, SMALL), check);
}
