//! Searches for victims on clusters of a few nodes finish within their budget, whatever the gang and the limits of
//! queues are.
use std::sync::Arc;

use phalanx_cluster::event::{Constraints, PodGroupInfo, PodInfo, PodRules, QueueInfo};
use phalanx_framework::conf::{Conf, Flag};
use proptest::prelude::*;

use phalanx_framework::testing::{group, member, node, queue, resources, running};
use phalanx_testkit::small::{RACK, Topology, labels};
use phalanx_testkit::{TestCluster, cases, helm};

/// Rules among the members of the gang.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Manners {
    None,
    ApartByHost,
    ApartByRack,
    TogetherByRack,
}

/// A gang that runs.
#[derive(Clone, Debug)]
struct Gang {
    queue: usize,
    min: u32,
    asks: i64,
    /// By pod.
    nodes: Vec<usize>,
    priority: i32,
}

#[derive(Clone, Debug)]
struct Case {
    action: &'static str,
    capacity: bool,
    keeps_gangs: bool,
    nodes: usize,
    cores: i64,
    gangs: Vec<Gang>,
    deserved: Vec<i64>,
    min: u32,
    asks: i64,
    manners: Manners,
}

prop_compose! {
    fn gang(nodes: usize)(
        queue in 1usize..4, min in 1u32..6, more in 0usize..5, asks in 1i64..3, priority in 0i32..2,
        places in prop::collection::vec(0..nodes, 12),
    ) -> Gang {
        Gang { queue, min, asks, nodes: places[..min as usize + more].to_vec(), priority }
    }
}

fn case() -> impl Strategy<Value = Case> {
    (4usize..13, 3i64..9).prop_flat_map(|(nodes, cores)| {
        let action = prop::sample::select(vec![
            "reclaim",
            "reclaim",
            "gangreclaim",
            "gangreclaim",
            "preempt",
            "gangpreempt",
        ]);
        let manners = prop::sample::select(vec![
            Manners::None,
            Manners::ApartByHost,
            Manners::ApartByHost,
            Manners::ApartByRack,
            Manners::TogetherByRack,
        ]);
        let gangs = prop::collection::vec(gang(nodes), nodes / 2..3 * nodes);
        let asks = 1..=cores;
        let deserved = prop::collection::vec(0..nodes as i64 * cores / 4, 4);
        ((action, any::<bool>(), any::<bool>()), gangs, (1u32..9, asks, manners), deserved).prop_map(
            move |((action, capacity, keeps_gangs), gangs, (min, asks, manners), deserved)| {
                let case =
                    Case { action, capacity, keeps_gangs, nodes, cores, gangs, deserved, min, asks, manners };
                case.filled()
            },
        )
    })
}

impl Case {
    /// Removes pods that do not fit their node.
    fn filled(mut self) -> Self {
        let mut room = vec![self.cores; self.nodes];
        for gang in &mut self.gangs {
            let asks = gang.asks;
            gang.nodes.retain(|node| {
                let fits = room[*node] >= asks;
                room[*node] -= if fits { asks } else { 0 };
                fits
            });
        }
        self
    }

    fn conf(&self) -> Conf {
        let mut conf = helm();
        conf.actions.push(self.action.to_owned());
        for plugin in conf.tiers.iter_mut().flat_map(|tier| &mut tier.plugins) {
            match plugin.name.as_str() {
                "gang" => plugin.flags.set(Flag::Reclaimable, self.keeps_gangs),
                "proportion" if self.capacity => plugin.name = "capacity".into(),
                _ => {}
            }
        }
        conf
    }

    fn test(&self) -> TestCluster {
        let mut test = TestCluster::with(self.conf());
        for (at, deserved) in self.deserved.iter().enumerate() {
            let own = if at == 0 { self.nodes as i64 * self.cores } else { 0 };
            let deserved = resources(&format!("cpu={}", deserved + own));
            let info = queue(&format!("q{at}"), if at == 0 { 6 } else { at as u32 });
            test.add(if self.capacity { QueueInfo { deserved, ..info } } else { info });
        }
        for at in 0..self.nodes {
            let mut info = node(&format!("n{at}"), &format!("cpu={} pods=99", self.cores));
            info.labels.extend([(RACK.into(), format!("r{}", at % 3).into())]);
            test.add(info);
        }
        for (at, gang) in self.gangs.iter().enumerate() {
            let name = format!("g{at}");
            let queue = format!("q{}", if self.action.ends_with("preempt") { 0 } else { gang.queue });
            test.add(PodGroupInfo { queue: queue.into(), ..group(&name, gang.min) });
            for (pod, node) in gang.nodes.iter().enumerate() {
                let pod = member(&name, pod as u32, &format!("cpu={}", gang.asks));
                test.add(running(PodInfo { priority: Some(gang.priority), ..pod }, &format!("n{node}")));
            }
        }
        test.add(PodGroupInfo { queue: "q0".into(), ..group("asks", self.min) });
        for at in 0..self.min {
            test.add(self.asking(at));
        }
        test
    }

    fn asking(&self, at: u32) -> PodInfo {
        let mut pod = member("asks", at, &format!("cpu={}", self.asks));
        pod.priority = Some(1);
        pod.labels = labels(&[true, false], "colour").collect();
        let rules = |affinity, anti_affinity| PodRules { affinity, anti_affinity, ..PodRules::default() };
        let rules = match self.manners {
            Manners::None => return pod,
            Manners::ApartByHost => rules(vec![], vec![Topology::Host.term(0)]),
            Manners::ApartByRack => rules(vec![], vec![Topology::Rack.term(0)]),
            Manners::TogetherByRack => rules(vec![Topology::Rack.term(0)], vec![]),
        };
        pod.constraints =
            Arc::new(Constraints { pod_rules: Some(Arc::new(rules)), ..Constraints::default() });
        pod
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(500)))]

    #[test]
    fn searches_on_small_clusters_finish_within_their_budget(case in case()) {
        let mut test = case.test();
        test.cycle();
        let reasons = test.reasons("asks").join("; ");
        prop_assert!(!reasons.contains("was ended after"), "{reasons}");
    }
}

/// One queue holds a large cluster except for the request of the other, and ten cores more than it deserves.
#[test]
fn a_gang_larger_than_all_reclaimable_pods_is_refused_with_that_reason() {
    for action in ["reclaim", "gangreclaim"] {
        let places = (0..400).flat_map(|node| [node; 8]).collect();
        let runs = Gang { queue: 1, min: 1, asks: 1, nodes: places, priority: 0 };
        let case = Case {
            action,
            capacity: true,
            keeps_gangs: true,
            nodes: 400,
            cores: 8,
            gangs: vec![runs],
            deserved: vec![0, 3190, 0, 0],
            min: 20,
            asks: 1,
            manners: Manners::None,
        };
        let mut test = case.test();
        let cycle = test.cycle();
        assert_eq!(cycle.evicted, [""; 0], "{action}");
        let reasons = test.reasons("asks").join("; ");
        assert!(reasons.contains("no pods were found that may be evicted together"), "{reasons}");
    }
}
