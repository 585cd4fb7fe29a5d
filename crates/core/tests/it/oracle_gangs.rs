//! `allocate` against brute force for gangs whose members have several sizes, with minTaskMember and the capability of
//! the queue.
use phalanx_cluster::event::{PodGroupInfo, PodInfo, QueueInfo};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use phalanx_framework::testing::{group, node, pod, queue, resources, running};
use phalanx_testkit::rates::{Rate, holds};
use phalanx_testkit::small::{Host, Member, Small};
use phalanx_testkit::{TestCluster, cases, one_tier};

const ROLES: [&str; 2] = ["chief", "worker"];

/// A cluster with pods of another scheduler and one waiting gang.
#[derive(Clone, Debug)]
struct Case {
    /// What is free on the nodes, and the gang.
    small: Small,
    /// Cores of each node that pods of another scheduler use.
    used: Vec<i64>,
    /// The role of each member.
    roles: Vec<usize>,
    /// minTaskMember of each role.
    min_task_member: [usize; 2],
    /// The capability of the queue, in cores.
    capability: Option<i64>,
}

prop_compose! {
    fn case()(
        nodes in prop::collection::vec((1i64..7, 0i64..3, 0i64..3), 1..4),
        members in prop::collection::vec(
            (0usize..2, 0i64..4, 0i64..3, prop::option::weighted(0.2, 0usize..3)), 1..6,
        ),
        min in 1usize..6,
        min_task_member in prop_oneof![Just([0, 0]), [0usize..3, 0usize..3]],
        capability in prop::option::weighted(0.3, 1i64..12),
    ) -> Case {
        let used: Vec<i64> = nodes.iter().map(|(cores, _, used)| *used.min(cores)).collect();
        let host = |((cores, cards, _), used): (&(i64, i64, i64), &i64)| {
            Host { room: [cores - used, *cards], rack: None }
        };
        let roles = members.iter().map(|(role, ..)| *role).collect();
        let member = |(_, cores, cards, only)| Member { asks: [cores, cards], only, ..Member::default() };
        let small = Small {
            hosts: nodes.iter().zip(&used).map(host).collect(),
            pods: Vec::new(),
            min: min.min(members.len()),
            members: members.into_iter().map(member).collect(),
        };
        Case { small, used, roles, min_task_member, capability }
    }
}

impl Case {
    fn test(&self) -> TestCluster {
        let plugins = ["gang", "predicates", "capacity", "nodeorder"];
        let mut test = TestCluster::with(one_tier(&["allocate", "backfill"], &plugins));
        let capability = self.capability.map(|cores| resources(&format!("cpu={cores}")));
        test.add(QueueInfo { capability: capability.unwrap_or_default(), ..queue("asks", 1) });
        for (at, (host, used)) in self.small.hosts.iter().zip(&self.used).enumerate() {
            let [cores, cards] = host.room;
            let name = format!("n{at}");
            test.add(node(&name, &format!("cpu={} nvidia.com/gpu={cards}", cores + used)));
            let other = pod(&format!("other-{at}"), &format!("cpu={used}"));
            test.add(running(PodInfo { ours: false, ..other }, &name));
        }
        let roles = ROLES.iter().zip(self.min_task_member).filter(|(_, min)| *min > 0);
        test.add(PodGroupInfo {
            queue: "asks".into(),
            min_task_member: roles.map(|(role, min)| ((*role).into(), min as u32)).collect(),
            ..group("asks", self.small.min as u32)
        });
        for (member, role) in self.small.asking().zip(&self.roles) {
            test.add(PodInfo { role: ROLES[*role].into(), ..member });
        }
        test
    }

    /// Whether the members with a place reach the minimums of the gang.
    fn is_whole(&self, places: &[Option<usize>]) -> bool {
        let count = |role: usize| {
            self.roles.iter().zip(places).filter(|(of, node)| **of == role && node.is_some()).count()
        };
        // As in Volcano, minTaskMember counts only when minMember covers it.
        let counts_roles = self.min_task_member.iter().sum::<usize>() <= self.small.min;
        places.iter().flatten().count() >= self.small.min
            && (!counts_roles || (0..2).all(|role| count(role) >= self.min_task_member[role]))
    }

    /// Whether the queue may hold the members with a place.
    fn may_have(&self, places: &[Option<usize>]) -> bool {
        let placed = self.small.members.iter().zip(places).filter(|(_, node)| node.is_some());
        let cores: i64 = placed.map(|(member, _)| member.asks[0]).sum();
        self.capability.is_none_or(|most| cores <= most)
    }
}

fn check(case: &Case, rate: &Rate) -> TestCaseResult {
    let (small, mut test) = (&case.small, case.test());
    let cycle = test.cycle();
    let places = small.places(&cycle);
    if places.iter().any(Option::is_some) {
        rate.served();
        prop_assert!(case.is_whole(&places), "{places:?}");
        prop_assert!(small.leads_to(0, &|places| case.may_have(places), &places), "{places:?}");
    } else if small.reaches(0, &|places| case.may_have(places), &|places| case.is_whole(places)) {
        rate.not_placed();
    }
    Ok(())
}

#[test]
fn allocate_for_gangs_of_unlike_members_is_sound_and_nearly_complete() {
    holds("allocate, unlike members", cases(8000), case(), check);
}
