//! The cases of Volcano's end-to-end tests of `gangpreempt` and `gangreclaim` (`test/e2e/gangevict`, commit ed72c7c8), by
//! their names there: a victim runs, five seconds later a gang comes that has no room.
use std::collections::BTreeMap;

use crate::run::{folder, node, phalanx_in, queue};

/// The configuration of these tests.
const CONF: &str = "actions: 'allocate, backfill, gangreclaim, gangpreempt'
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}, {name: sla},
    {name: capacity, enableHierarchy: false}]
- plugins: [{name: overcommit}, {name: drf, enablePreemptable: false}, {name: predicates}, {name: nodeorder},
    {name: binpack}, {name: network-topology-aware}]
";
/// HyperNodes over four nodes.
const TIERS: &str = "---
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: s0}
spec: {tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: '^n[01]$'}}}]}
---
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: s1}
spec: {tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: '^n[23]$'}}}]}
---
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: s2}
spec: {tier: 2, members: [{type: HyperNode, selector: {exactMatch: {name: s0}}},
  {type: HyperNode, selector: {exactMatch: {name: s1}}}]}
";
const PRIORITIES: &str = "---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 100
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: medium}
value: 50
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: 10
";
/// A victim of two partitions, of which one is enough.
const HALVES: &str = "partitionPolicy: {totalPartitions: 2, partitionSize: 2, minPartitions: 1},";
const ROLES: &[Task] = &[("ps", 1, Some(1)), ("worker", 3, Some(2))];
const ONE: &[Task] = &[("w", 1, None)];
const TWO: &[Task] = &[("w", 2, None)];
const THREE: &[Task] = &[("w", 3, None)];
const FOUR: &[Task] = &[("w", 4, None)];

/// The name of a task, its replicas and its minAvailable.
type Task = (&'static str, usize, Option<usize>);

/// A Job whose pods have a CPU each, unless it says otherwise.
#[derive(Clone, Copy)]
struct Gang {
    name: &'static str,
    queue: &'static str,
    priority: &'static str,
    min_available: usize,
    tasks: &'static [Task],
    /// The highest tier of its HyperNode.
    tier: Option<u32>,
    partitions: &'static str,
    cpu: u32,
}

impl Gang {
    /// Of low priority, in the queue q.
    fn of(name: &'static str, tasks: &'static [Task], min_available: usize) -> Self {
        Self { name, queue: "q", priority: "low", min_available, tasks, tier: None, partitions: "", cpu: 1 }
    }

    /// A gang that comes when there is no room, of high priority.
    fn late(tasks: &'static [Task], min_available: usize) -> Self {
        Self { priority: "high", ..Self::of("late", tasks, min_available) }
    }

    fn within(self, tier: u32) -> Self {
        Self { tier: Some(tier), ..self }
    }

    /// In another queue, and of low priority.
    fn in_queue(self, queue: &'static str) -> Self {
        Self { queue, priority: "low", ..self }
    }

    /// Its Job, created at this second.
    fn manifest(&self, second: usize) -> String {
        let Self { name, queue, priority, min_available, .. } = self;
        let topology = self.tier.map_or(String::new(), |tier| {
            format!("networkTopology: {{mode: hard, highestTierAllowed: {tier}}}, ")
        });
        let tasks: Vec<String> = self.tasks.iter().map(|task| self.task(task)).collect();
        format!(
            "---\napiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n\
             metadata: {{name: {name}, creationTimestamp: '2026-01-01T00:00:{second:02}Z'}}\n\
             spec: {{schedulerName: volcano, queue: {queue}, priorityClassName: {priority}, {topology}\
             minAvailable: {min_available}, tasks: [{}]}}\n",
            tasks.join(", ")
        )
    }

    fn task(&self, (name, replicas, min): &Task) -> String {
        let Self { priority, partitions, cpu, .. } = self;
        let min = min.map_or(String::new(), |min| format!("minAvailable: {min}, "));
        format!(
            "{{name: {name}, replicas: {replicas}, {min}{partitions} template: {{metadata: {{labels: \
             {{volcano.sh/preemptable: 'true'}}}}, spec: {{priorityClassName: {priority}, containers: [{{name: main, \
             image: train, resources: {{requests: {{cpu: {cpu}}}}}}}]}}}}}}"
        )
    }
}

/// Four nodes of so many CPUs, in two HyperNodes of tier 1.
fn nodes(cpu: u32) -> String {
    (0..4).map(|index| node(&format!("n{index}"), cpu)).collect::<String>() + TIERS
}

fn deserves(name: &str, cpu: u32) -> String {
    queue(name, &format!("deserved: {{cpu: {cpu}}}"))
}

/// How many pods of each task are bound at the end and not evicted, as `JOB-TASK=PODS`.
fn running(manifests: &str, gangs: &[Gang]) -> BTreeMap<String, usize> {
    let jobs: String = gangs.iter().enumerate().map(|(index, gang)| gang.manifest(5 * index)).collect();
    let files = [("m.yaml", &*(PRIORITIES.to_owned() + manifests + &jobs)), ("scheduler.conf", CONF)];
    let folder = folder(&files);
    let args = ["simulate", "-f", "m.yaml", "--scheduler-conf", "scheduler.conf", "--arrivals", "-o", "json"];
    let result = phalanx_in(folder.path(), &args, "").json();
    let evicted: Vec<&str> =
        result["evictions"].as_array().unwrap().iter().map(|pod| pod.as_str().unwrap()).collect();
    let mut running = BTreeMap::new();
    for pod in result["bindings"].as_object().unwrap().keys().filter(|pod| !evicted.contains(&&***pod)) {
        let task = pod.trim_start_matches("default/").rsplit_once('-').unwrap().0;
        *running.entry(task.to_owned()).or_default() += 1;
    }
    running
}

#[track_caller]
fn check(case: &str, manifests: &str, gangs: &[Gang], expected: &[(&str, usize)]) {
    let found = running(manifests, gangs);
    let found: Vec<(&str, usize)> = found.iter().map(|(task, pods)| (&**task, *pods)).collect();
    assert_eq!(found, expected, "case {case}");
}

#[test]
fn gangpreempt_takes_surplus_before_it_breaks_a_gang() {
    let cluster = nodes(1) + &deserves("q", 4);
    let (first, second) = (|min| Gang::of("first", TWO, min), |min| Gang::of("second", TWO, min));
    check("GP-1", &cluster, &[Gang::of("v", FOUR, 2), Gang::late(TWO, 2)], &[("late-w", 2), ("v-w", 2)]);
    let surplus = [first(1), second(1), Gang::late(TWO, 2)];
    check("GP-2", &cluster, &surplus, &[("first-w", 1), ("late-w", 2), ("second-w", 1)]);
    let one_is_broken = [first(2), second(2), Gang::late(TWO, 2)];
    check("GP-3", &cluster, &one_is_broken, &[("first-w", 2), ("late-w", 2)]);
    check("GP-4", &cluster, &[first(2), second(2), Gang::late(FOUR, 4)], &[("late-w", 4)]);
    check("GP-5", &cluster, &[Gang::of("v", FOUR, 4), Gang::late(TWO, 2)], &[("late-w", 2)]);
    let role = [Gang::of("v", ROLES, 3), Gang::late(ONE, 1)];
    check("GP-R1", &cluster, &role, &[("late-w", 1), ("v-ps", 1), ("v-worker", 2)]);
}

#[test]
fn gangpreempt_takes_nothing_of_another_queue_nor_of_equal_or_higher_priority() {
    let queues = deserves("other", 2) + &queue("q", "reclaimable: false, deserved: {cpu: 2}");
    let late = Gang { priority: "high", ..Gang::late(TWO, 2).in_queue("other") };
    check("GP-6", &(nodes(1) + &queues), &[Gang::of("v", FOUR, 4), late], &[("v-w", 4)]);
    let cluster = nodes(1) + &deserves("q", 4);
    let equal = Gang { priority: "low", ..Gang::late(TWO, 2) };
    check("GP-7", &cluster, &[Gang::of("v", FOUR, 4), equal], &[("v-w", 4)]);
    let high = Gang { priority: "high", ..Gang::of("first", TWO, 2) };
    let medium = Gang { priority: "medium", ..Gang::late(FOUR, 4) };
    let expected = [("first-w", 2), ("second-w", 2)];
    check("GP-8", &cluster, &[high, Gang::of("second", TWO, 2), medium], &expected);
}

#[test]
fn gangreclaim_takes_what_a_queue_has_beyond_what_it_deserves() {
    let cluster = nodes(1) + &deserves("q", 2) + &deserves("other", 2);
    let late = |tasks, min| Gang::late(tasks, min).in_queue("other");
    check("GR-1", &cluster, &[Gang::of("v", FOUR, 2), late(TWO, 2)], &[("late-w", 2), ("v-w", 2)]);
    let broken = [Gang::of("first", TWO, 2), Gang::of("second", TWO, 2), late(TWO, 2)];
    check("GR-2", &cluster, &broken, &[("first-w", 2), ("late-w", 2)]);
    let cluster = nodes(1) + &deserves("q", 3) + &deserves("other", 1);
    let role = [Gang::of("v", ROLES, 3), late(ONE, 1)];
    check("GR-R1", &cluster, &role, &[("late-w", 1), ("v-ps", 1), ("v-worker", 2)]);
}

#[test]
fn gangreclaim_takes_nothing_that_is_deserved_guaranteed_or_not_reclaimable() {
    let late = |tasks, min| Gang::late(tasks, min).in_queue("other");
    let cluster = nodes(1) + &deserves("q", 2) + &deserves("third", 2) + &deserves("other", 2);
    let within = [Gang::of("first", TWO, 2), Gang::of("second", TWO, 2).in_queue("third"), late(TWO, 2)];
    check("GR-4", &cluster, &within, &[("first-w", 2), ("second-w", 2)]);
    let kept = queue("q", "reclaimable: false, deserved: {cpu: 2}") + &deserves("other", 2);
    check("GR-5", &(nodes(1) + &kept), &[Gang::of("v", FOUR, 2), late(TWO, 2)], &[("v-w", 4)]);
    let guaranteed =
        queue("q", "guarantee: {resource: {cpu: 2}}, deserved: {cpu: 2}") + &deserves("other", 4);
    check("GR-6", &(nodes(1) + &guaranteed), &[Gang::of("v", FOUR, 2), late(FOUR, 4)], &[("v-w", 4)]);
    let cluster = nodes(1) + &deserves("q", 3) + &deserves("other", 1);
    let over = [Gang::of("first", TWO, 2).in_queue("other"), Gang::of("second", TWO, 2), late(TWO, 2)];
    check("GR-7", &cluster, &over, &[("first-w", 2), ("second-w", 2)]);
}

#[test]
fn a_gang_with_a_topology_is_placed_beside_a_victim_where_there_is_room() {
    let queues = deserves("q", 4) + &deserves("other", 4);
    for (prefix, queue) in [("GP", "q"), ("GR", "other")] {
        let late = |tasks, min, tier| Gang { queue, ..Gang::late(tasks, min).within(tier) };
        let victim = |min| Gang::of("v", FOUR, min).within(2);
        let check = |case: &str, gangs: &[Gang], pods: usize| {
            let expected: &[(&str, usize)] =
                if pods == 0 { &[("v-w", 4)] } else { &[("late-w", pods), ("v-w", 4)] };
            check(&format!("{prefix}-{case}"), &(nodes(8) + &queues), gangs, expected);
        };
        check("S1", &[Gang { partitions: HALVES, ..victim(2) }, late(TWO, 2, 2)], 2);
        check("T1", &[victim(2), late(TWO, 2, 1)], 2);
        check("T2", &[victim(4), Gang { cpu: 5, ..late(THREE, 3, 1) }], 0);
        check("T3", &[victim(2), late(THREE, 3, 2)], 3);
    }
}
