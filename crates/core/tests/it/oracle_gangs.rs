//! Gangs of unlike members against brute force on tiny clusters: a gang that waits cannot be placed.
use std::sync::Arc;

use phalanx_cluster::event::{Constraints, PodGroupInfo, PodInfo, QueueInfo};
use phalanx_framework::conf::Conf;
use proptest::prelude::*;

use phalanx_framework::testing::{group, member, node, pod, queue, resources, running};
use phalanx_testkit::{TestCluster, cases, one_tier};

const ROLES: [&str; 2] = ["chief", "worker"];

#[derive(Clone, Debug)]
struct Member {
    role: usize,
    cores: i64,
    gpus: i64,
    only: Option<usize>,
}

/// A cluster with running pods and one waiting gang.
#[derive(Clone, Debug)]
struct Case {
    /// Cores and cards.
    nodes: Vec<[i64; 2]>,
    /// Cores that running pods use.
    held: Vec<i64>,
    members: Vec<Member>,
    min: usize,
    /// minTaskMember of each role.
    roles: [usize; 2],
    /// The capability of the queue, in cores.
    capability: Option<i64>,
}

prop_compose! {
    fn one()(role in 0usize..2, cores in 0i64..4, gpus in 0i64..3, only in prop::option::weighted(0.2, 0usize..3)) -> Member {
        Member { role, cores, gpus, only }
    }
}

prop_compose! {
    fn case()(
        nodes in prop::collection::vec([1i64..7, 0i64..3], 1..4),
        held in prop::collection::vec(0i64..3, 3),
        members in prop::collection::vec(one(), 1..6),
        min in 1usize..6,
        roles in [0usize..3, 0usize..3],
        capability in prop::option::weighted(0.3, 1i64..12),
        strict in any::<bool>(),
    ) -> Case {
        let roles = if strict { roles } else { [0, 0] };
        Case { min: min.min(members.len()), nodes, held, members, roles, capability }
    }
}

impl Case {
    fn conf() -> Conf {
        one_tier(&["allocate", "backfill"], &["gang", "predicates", "capacity", "nodeorder"])
    }

    fn held(&self, at: usize) -> i64 {
        self.held[at].min(self.nodes[at][0])
    }

    fn test(&self) -> TestCluster {
        let mut test = TestCluster::with(Self::conf());
        let capability = self.capability.map(|cores| resources(&format!("cpu={cores}")));
        test.add(QueueInfo { capability: capability.unwrap_or_default(), ..queue("asks", 1) });
        for (at, [cores, gpus]) in self.nodes.iter().enumerate() {
            test.add(node(&format!("n{at}"), &format!("cpu={cores} nvidia.com/gpu={gpus}")));
            let other = pod(&format!("other-{at}"), &format!("cpu={}", self.held(at)));
            test.add(running(PodInfo { ours: false, ..other }, &format!("n{at}")));
        }
        let needs = ROLES.iter().zip(self.roles).filter(|(_, min)| *min > 0);
        test.add(PodGroupInfo {
            queue: "asks".into(),
            min_task_member: needs.map(|(role, min)| ((*role).into(), min as u32)).collect(),
            ..group("asks", self.min as u32)
        });
        for (at, of) in self.members.iter().enumerate() {
            test.add(of.info(at as u32));
        }
        test
    }

    /// Whether these members reach the minimums of the gang.
    fn is_whole(&self, at: &[Option<usize>]) -> bool {
        let count = |role: usize| {
            self.members.iter().zip(at).filter(|(of, node)| of.role == role && node.is_some()).count()
        };
        // As in Volcano, minTaskMember counts only when minMember covers it.
        let asks_roles = self.roles.iter().sum::<usize>() <= self.min;
        at.iter().flatten().count() >= self.min
            && (!asks_roles || (0..2).all(|role| count(role) >= self.roles[role]))
    }

    /// Whether the members fit their nodes.
    fn fits(&self, at: &[Option<usize>]) -> bool {
        let placed = || self.members.iter().zip(at).filter_map(|(of, node)| Some((of, (*node)?)));
        let on = |node: usize| placed().filter(move |(_, at)| *at == node);
        let within = |node: usize| {
            on(node).map(|(of, _)| of.cores).sum::<i64>() <= self.nodes[node][0] - self.held(node)
                && on(node).map(|(of, _)| of.gpus).sum::<i64>() <= self.nodes[node][1]
        };
        let cores: i64 = placed().map(|(of, _)| of.cores).sum();
        placed().all(|(of, node)| of.only.is_none_or(|only| only == node))
            && (0..self.nodes.len()).all(within)
            && self.capability.is_none_or(|most| cores <= most)
    }

    /// Whether the gang can be placed.
    fn way(&self, at: &mut Vec<Option<usize>>) -> bool {
        if !self.fits(at) {
            return false;
        }
        if at.len() == self.members.len() {
            return self.is_whole(at);
        }
        let homes = std::iter::once(None).chain((0..self.nodes.len()).map(Some));
        homes.into_iter().any(|home| {
            at.push(home);
            let found = self.way(at);
            at.pop();
            found
        })
    }
}

impl Member {
    fn info(&self, index: u32) -> PodInfo {
        let only = |at: usize| ("kubernetes.io/hostname".into(), format!("n{at}").into());
        let constraints = Constraints {
            node_selector: self.only.map(only).into_iter().collect(),
            ..Constraints::default()
        };
        PodInfo {
            role: ROLES[self.role].into(),
            constraints: Arc::new(constraints),
            ..member("asks", index, &format!("cpu={} nvidia.com/gpu={}", self.cores, self.gpus))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(8000)))]

    #[test]
    fn a_gang_waits_only_if_brute_force_finds_no_placement(case in case()) {
        let cycle = case.test().cycle();
        let node = |at: usize| cycle.bound.get(&format!("asks-{at}"));
        let at: Vec<Option<usize>> = (0..case.members.len())
            .map(|member| Some(node(member)?.trim_start_matches('n').parse().unwrap()))
            .collect();
        if cycle.bound_of("asks") > 0 {
            prop_assert!(case.is_whole(&at) && case.fits(&at), "{at:?}");
        } else {
            let mut at = Vec::new();
            prop_assert!(!case.way(&mut at), "it can be placed");
        }
    }
}
