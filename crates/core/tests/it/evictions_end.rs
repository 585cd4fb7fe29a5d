//! Evictions end in random clusters with pod affinity and topology spread whose controllers create every victim again.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::event::{Constraints, Event, PodGroupInfo, PodInfo, Time};
use proptest::prelude::*;

use crate::eviction_history::again;
use phalanx_framework::testing::{group, member, node, queue, running};
use phalanx_testkit::settings::{Named, evicting, named};
use phalanx_testkit::small::{self, Rules};
use phalanx_testkit::{TestCluster, cases};

/// A gang: `minMember`, nodes of its running pods, waiting pods, cores of each pod, priority class, queue, pod rules.
#[derive(Clone, Debug)]
struct Gang {
    min: u32,
    run_on: Vec<usize>,
    wait: u32,
    cores: i64,
    priority: i32,
    queue: usize,
    rules: Rules,
}

#[derive(Clone, Debug)]
struct Course {
    conf: Named,
    /// Cores and rack.
    nodes: Vec<(i64, usize)>,
    gangs: Vec<Gang>,
    /// Victims of every n-th cycle terminate one cycle later.
    linger: usize,
}

/// Any queue may reclaim from the others.
fn unjudged() -> Named {
    let tiers = "- plugins:\n  - name: priority\n  - name: gang\n    enableReclaimable: false\n    enablePreemptable: false\n  \
                 - name: conformance\n  - name: predicates\n  - name: nodeorder\n";
    named("unjudged", &format!("actions: \"enqueue, allocate, backfill, reclaim, preempt\"\ntiers:\n{tiers}"))
}

fn gang() -> impl Strategy<Value = Gang> {
    let rules = small::rules(0.5, 0.15, 0.3);
    let run_on = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(0usize..4, 1..4)];
    (1u32..4, run_on, 0u32..4, 1i64..3, 0i32..2, 0usize..2, rules).prop_map(
        |(min, run_on, wait, cores, priority, queue, rules)| {
            let min = min.min(run_on.len() as u32 + wait);
            Gang { min, run_on, wait, cores, priority, queue, rules }
        },
    )
}

fn course() -> impl Strategy<Value = Course> {
    let conf = prop::sample::select(evicting().into_iter().chain([unjudged()]).collect::<Vec<_>>());
    let nodes = prop::collection::vec((1i64..6, 0usize..2), 2..5);
    let gangs = prop::collection::vec(gang(), 2..7);
    (conf, nodes, gangs, 1usize..6).prop_map(|(conf, nodes, gangs, linger)| Course {
        conf,
        nodes,
        gangs,
        linger,
    })
}

impl Gang {
    fn pod(&self, at: usize, index: u32) -> PodInfo {
        let pod_rules = self.rules.info();
        PodInfo {
            labels: small::labels(&self.rules.colours, "colour").collect(),
            constraints: Arc::new(Constraints { pod_rules, ..Constraints::default() }),
            ..member(&format!("j{at}"), index, &format!("cpu={}", self.cores))
        }
    }
}

impl Course {
    fn test(&self) -> TestCluster {
        let mut test = TestCluster::with(self.conf.conf.clone());
        for value in 0..2 {
            let name = format!("p{value}").into();
            test.add(Event::PriorityClass { name, value, global_default: false });
            test.add(queue(&format!("q{value}"), 1));
        }
        let mut free: Vec<i64> = self.nodes.iter().map(|(cores, _)| *cores).collect();
        for (at, (cores, rack)) in self.nodes.iter().enumerate() {
            let mut info = node(&format!("n{at}"), &format!("cpu={cores} pods=99"));
            info.labels.push((small::RACK.into(), format!("r{rack}").into()));
            test.add(info);
        }
        for (at, gang) in self.gangs.iter().enumerate() {
            test.add(PodGroupInfo {
                queue: format!("q{}", gang.queue).into(),
                priority_class: Some(format!("p{}", gang.priority).into()),
                created: Time(at as i64),
                ..group(&format!("j{at}"), gang.min)
            });
            let mut pods = (0..).map(|index| gang.pod(at, index));
            for (place, pod) in gang.run_on.iter().zip(&mut pods) {
                let place = place % free.len();
                free[place] -= gang.cores;
                let there = free[place] >= 0;
                test.add(if there { running(pod, &format!("n{place}")) } else { pod });
                free[place] += if there { 0 } else { gang.cores };
            }
            for pod in pods.take(gang.wait as usize) {
                test.add(pod);
            }
        }
        test
    }

    /// Runs until no pod has been evicted or bound for a while; false if that does not happen.
    fn comes_to_rest(&self, test: &mut TestCluster) -> bool {
        let (mut made, mut quiet, mut leaving) = (BTreeMap::new(), 0, Vec::new());
        for at in 0..CYCLES {
            let cycle = test.run();
            quiet = if cycle.evicted.is_empty() && cycle.bound.is_empty() { quiet + 1 } else { 0 };
            if quiet == QUIET {
                return true;
            }
            let lingers = at % self.linger == 0;
            for victim in &cycle.evicted {
                test.change(victim, |pod| pod.life.deleting = lingers);
            }
            for victim in std::mem::take(&mut leaving)
                .into_iter()
                .chain(cycle.evicted.iter().filter(|_| !lingers).cloned())
            {
                let pod = test.pod(&victim);
                test.gone(&victim);
                again(test, &mut made, pod);
            }
            leaving.extend(cycle.evicted.into_iter().filter(|_| lingers));
        }
        false
    }
}

const CYCLES: usize = 600;

/// Longer than any failed search is cached.
const QUIET: usize = 15;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(300)))]

    #[test]
    fn evictions_end_with_pod_affinity_and_spread(course in course()) {
        let mut test = course.test();
        prop_assert!(course.comes_to_rest(&mut test), "it does not come to rest");
    }
}
