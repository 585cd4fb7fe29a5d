//! Reclaiming between queues that share the cluster by weight (proportion) against brute force, also for gangs whose
//! members ask for different things.
use std::collections::HashMap;
use std::ops::Range;

use phalanx_cluster::event::{QueueInfo, Resources};
use phalanx_framework::conf::{Conf, Flag};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use phalanx_framework::testing::{queue, resources};
use phalanx_testkit::rates::{Rate, holds};
use phalanx_testkit::small::{Figures, Gang, GangProtection, Host, Member, Rules, Set, Small, filled};
use phalanx_testkit::{TestCluster, cases, one_tier, set_flag};

#[derive(Clone, Debug)]
struct WeightedQueue {
    weight: u32,
    /// Cores.
    guarantee: i64,
    capability: Option<i64>,
    reclaimable: bool,
}

/// The waiting gang is in queue `q0`.
#[derive(Clone, Debug)]
struct Case {
    small: Small,
    gangs: Vec<Gang>,
    /// By pod.
    preemptable: Vec<bool>,
    queues: Vec<WeightedQueue>,
    protection: GangProtection,
}

/// The deserved amount and the limit of a queue for cores and cards, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    deserved: Figures,
    limit: [Option<i64>; 2],
}

fn weighted_queue() -> impl Strategy<Value = WeightedQueue> {
    let guarantee = prop::option::weighted(0.3, 1i64..4);
    (1u32..4, guarantee, prop::option::weighted(0.3, 1i64..7), prop::bool::weighted(0.9)).prop_map(
        |(weight, guarantee, capability, reclaimable)| {
            let guarantee = guarantee.unwrap_or(0).min(capability.unwrap_or(i64::MAX));
            WeightedQueue { weight, guarantee, capability, reclaimable }
        },
    )
}

fn asks() -> impl Strategy<Value = Figures> {
    prop::sample::select(vec![[1i64, 0], [1, 0], [2, 0], [3, 0], [1, 1], [0, 1], [2, 1]])
}

prop_compose! {
    fn gang(queues: Range<usize>)(queue in queues, min in 0u32..4) -> Gang {
        Gang { queue, priority: 0, min }
    }
}

prop_compose! {
    fn case(whole_gangs: bool)(
        hosts in prop::collection::vec((1i64..6, 0i64..3), 1..4),
        pods in prop::collection::vec((0usize..3, 0usize..3, asks()), 1..8),
        gangs in prop::collection::vec(gang(0usize..3), 3),
        preemptable in prop::collection::vec(prop::bool::weighted(0.9), 8),
        (members, alike) in (prop::collection::vec(asks(), 1..4), prop::bool::weighted(0.6)),
        mut queues in prop::collection::vec(weighted_queue(), 3),
        minimums in any::<bool>(),
    ) -> Case {
        let hosts: Vec<Host> = hosts.into_iter().map(|(cores, cards)| Host { room: [cores, cards], rack: None }).collect();
        let pods = pods.into_iter().map(|(gang, node, asks)| (gang, node, asks, Rules::default())).collect();
        let member = |asks: &Figures| Member { asks: if alike { members[0] } else { *asks }, ..Member::default() };
        let members: Vec<Member> = members.iter().map(member).collect();
        let small = Small { pods: filled(&hosts, pods), min: members.len(), hosts, members };
        let total: i64 = small.hosts.iter().map(|host| host.room[0]).sum();
        if queues.iter().map(|queue| queue.guarantee).sum::<i64>() > total {
            for queue in &mut queues {
                queue.guarantee = 0;
            }
        }
        Case { preemptable: preemptable[..small.pods.len()].to_vec(), small, gangs, queues, protection: GangProtection { whole_gangs, minimums } }
    }
}

impl Case {
    fn conf(&self) -> Conf {
        let action = if self.protection.whole_gangs { "gangreclaim" } else { "reclaim" };
        let plugins = ["gang", "proportion", "predicates", "nodeorder"];
        let mut conf = one_tier(&["allocate", action], &plugins);
        set_flag(&mut conf, "gang", Flag::Reclaimable, self.protection.minimums);
        conf
    }

    fn test(&self) -> TestCluster {
        let mut test = TestCluster::with(self.conf());
        let cores = |amount: Option<i64>| -> Resources {
            amount.map(|amount| resources(&format!("cpu={amount}"))).unwrap_or_default()
        };
        for (at, it) in self.queues.iter().enumerate() {
            test.add(QueueInfo {
                guarantee: cores(Some(it.guarantee).filter(|amount| *amount > 0)),
                capability: cores(it.capability),
                reclaimable: it.reclaimable,
                ..queue(&format!("q{at}"), it.weight)
            });
        }
        self.small.fill(&mut test, &self.gangs, &self.preemptable);
        test
    }

    // ------------------------------------------------------------ queues

    fn queue_of(&self, pod: usize) -> usize {
        self.gangs[self.small.pods[pod].gang].queue
    }

    /// What a queue holds without some pods, in thousandths.
    fn held(&self, queue: usize, gone: Set, dim: usize) -> i64 {
        let stays = |at: &usize| gone & (1 << at) == 0 && self.queue_of(*at) == queue;
        let pods = (0..self.small.pods.len()).filter(stays);
        1000 * pods.map(|at| self.small.pods[at].asks[dim]).sum::<i64>()
    }

    fn asked(&self, dim: usize) -> i64 {
        1000 * self.small.members.iter().map(|member| member.asks[dim]).sum::<i64>()
    }

    /// Deserved amounts: each piece goes to the queue with the least per weight.
    fn shares(&self) -> Vec<Share> {
        let mut shares = vec![Share::default(); self.queues.len()];
        for dim in 0..2 {
            let total: i64 = self.small.hosts.iter().map(|host| 1000 * host.room[dim]).sum();
            let least = |queue: &WeightedQueue| if dim == 0 { 1000 * queue.guarantee } else { 0 };
            let capability =
                |queue: &WeightedQueue| queue.capability.filter(|_| dim == 0).map(|most| 1000 * most);
            let spare = total - self.queues.iter().map(least).sum::<i64>();
            let request =
                |queue: usize| self.held(queue, 0, dim) + if queue == 0 { self.asked(dim) } else { 0 };
            let most: Vec<i64> = self
                .queues
                .iter()
                .enumerate()
                .map(|(at, queue)| {
                    let real = (spare + least(queue)).min(capability(queue).unwrap_or(i64::MAX));
                    least(queue).max(real.min(request(at)))
                })
                .collect();
            let mut given: Vec<i64> = self.queues.iter().map(least).collect();
            for _ in 0..total - given.iter().sum::<i64>() {
                let open = (0..given.len()).filter(|at| given[*at] < most[*at]);
                let level = |at: &usize| (given[*at] + 1) * 6 / i64::from(self.queues[*at].weight);
                let Some(next) = open.min_by_key(level) else { break };
                given[next] += 1;
            }
            for (at, share) in shares.iter_mut().enumerate() {
                share.deserved[dim] = given[at];
                let own = if given[at] < total { Some(given[at]) } else { capability(&self.queues[at]) };
                share.limit[dim] = own.filter(|_| given[at] < request(at));
            }
        }
        shares
    }

    /// Whether the queue of the gang holds its deserved amount and a limit keeps it from more.
    fn is_overused(&self, shares: &[Share]) -> bool {
        let own = shares[0];
        own.limit.iter().any(Option::is_some) && (0..2).all(|dim| self.held(0, 0, dim) >= own.deserved[dim])
    }

    /// Whether the queue may hold members with these requests.
    fn may_have(&self, shares: &[Share], asks: Figures) -> bool {
        let within = |dim: usize| {
            let over = |most| self.held(0, 0, dim) + 1000 * asks[dim] > most;
            asks[dim] == 0 || !shares[0].limit[dim].is_some_and(over)
        };
        (0..2).all(within)
    }

    /// Whether the queue deserves the whole gang.
    fn is_entitled(&self, shares: &[Share]) -> bool {
        self.may_have(shares, [0, 1].map(|dim| self.asked(dim) / 1000))
    }

    /// Whether a pod may be reclaimed after others.
    fn gives(&self, shares: &[Share], gone: Set, pod: usize) -> bool {
        let (queue, asks) = (self.queue_of(pod), self.small.pods[pod].asks);
        let more = |dim: usize| asks[dim] > 0 && self.held(queue, gone, dim) > shares[queue].deserved[dim];
        queue != 0 && self.queues[queue].reclaimable && self.preemptable[pod] && (0..2).any(more)
    }

    /// Whether these pods may be reclaimed: each after those before it.
    fn may_go(&self, shares: &[Share], gone: Set, known: &mut HashMap<Set, bool>) -> bool {
        let mins = self.gangs.iter().map(|gang| gang.min);
        self.small.may_lose(self.protection.losses(), gone, mins)
            && self.small.go_in_turn(gone, &|gone, pod| self.gives(shares, gone, pod), known)
    }

    fn fits(&self, shares: &[Share], gone: Set) -> bool {
        self.small.fits(gone, &|places| {
            let placed = places.iter().zip(&self.small.members).filter(|(node, _)| node.is_some());
            let asks = placed.fold([0; 2], |sum, (_, of)| [0, 1].map(|dim| sum[dim] + of.asks[dim]));
            self.may_have(shares, asks)
        })
    }
}

fn check(case: &Case, rate: &Rate) -> TestCaseResult {
    let (small, shares) = (&case.small, &case.shares()[..]);
    let known = &mut HashMap::new();
    let mut may_go = |gone: Set| case.may_go(shares, gone, known);
    let mut test = case.test();
    let cycle = test.cycle();
    let evicted = small.set_of(&cycle.evicted);
    let places = small.places(&cycle);
    if places.iter().all(Option::is_none) {
        let (may, entitled) = (!case.is_overused(shares), case.is_entitled(shares));
        return small.is_refused(&test, &cycle, rate, |gone| {
            may && (*gone == 0 || entitled) && may_go(*gone) && case.fits(shares, *gone)
        });
    }
    if evicted != 0 {
        rate.served();
    }
    prop_assert!(places.iter().all(Option::is_some), "{:?}", places);
    prop_assert!(
        case.fits(shares, evicted) && (evicted == 0 || case.is_entitled(shares)),
        "{:?}",
        cycle.evicted
    );
    prop_assert!(may_go(evicted), "{:?} {shares:?}", cycle.evicted);
    let enough = small.find_part(evicted, |gone| may_go(gone) && case.fits(shares, gone));
    prop_assert_eq!(enough, None, "a part of {:?} is enough", cycle.evicted);
    small.starts_next(&mut test, &cycle)
}

#[test]
fn reclaim_by_weight_is_sound_and_nearly_complete() {
    holds("reclaim by weight", cases(2000), case(false), check);
}

#[test]
fn gangreclaim_by_weight_is_sound_and_nearly_complete() {
    holds("gangreclaim by weight", cases(2000), case(true), check);
}
