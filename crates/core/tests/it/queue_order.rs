//! The queue that is served next is the one that a comparison of all queues before each job gives.
use std::sync::Arc;

use phalanx_cluster::Status;
use phalanx_cluster::annotation::{HIERARCHY, HIERARCHY_WEIGHTS};
use phalanx_cluster::event::{PodGroupInfo, QueueInfo, Time};
use phalanx_cluster::id::JobId;
use phalanx_core::SchedulerState;
use phalanx_core::decision::Decision;
use phalanx_core::session::Session;
use phalanx_framework::conf::Conf;
use proptest::prelude::*;

use phalanx_framework::testing::{group, member, queue, resources, running};
use phalanx_testkit::TestCluster;
use phalanx_testkit::settings::{Named, named};

/// Each plugin that orders queues, alone and with others.
fn confs(actions: &str) -> Vec<Named> {
    let (weights, shares) = ("- name: proportion", "- name: capacity");
    let (teams, places) =
        ("- name: capacity\n    enableHierarchy: true", "- name: drf\n    enableHierarchy: true");
    let each: [&[&str]; 8] = [
        &[weights],
        &[shares],
        &[teams],
        &[places],
        &[places, shares],
        &[places, weights],
        &[teams, places],
        &[places, teams],
    ];
    let tier = |plugin: &&str| format!("- plugins:\n  {plugin}\n");
    let text = |plugins: &[&str]| {
        let tiers: String = plugins.iter().map(tier).collect();
        format!(
            "actions: \"{actions}\"\ntiers:\n{tiers}- plugins:\n  - name: priority\n  - name: gang\n  - name: predicates\n"
        )
    };
    each.iter().map(|plugins| named(&plugins.concat(), &text(plugins))).collect()
}

/// Queues `t0` and `t1`, `t2` below `t1`, and leaf queues below them or below root; waiting and running gangs.
#[derive(Clone, Debug)]
struct Case {
    conf: Named,
    room: u32,
    queues: Vec<QueueInfo>,
    /// Queue, creation, requests of each pod, number of pods, number of running pods.
    gangs: Vec<(usize, i64, &'static str, u32, u32)>,
}

/// Parent, hierarchy path and weights, deserved, creation, priority, weight.
type Leaf = (&'static str, &'static str, &'static str, (i64, i32, u32));

fn leaf(at: usize, (parent, way, deserved, (created, priority, weight)): Leaf) -> QueueInfo {
    let (way, weights) = way.split_once('|').unwrap_or_default();
    let pairs = [(HIERARCHY, way), (HIERARCHY_WEIGHTS, weights)];
    QueueInfo {
        parent: parent.into(),
        annotations: pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
        deserved: resources(deserved),
        created: Time(created),
        priority,
        ..queue(&format!("q{at}"), weight)
    }
}

fn queues() -> impl Strategy<Value = Vec<QueueInfo>> {
    let parent = prop::sample::select(vec!["", "", "t0", "t1", "t2"]);
    let ways = ["", "root/d/a|1/2/1", "root/a/b|1/1/2", "root/a/c|1/1/3", "root/h|1/2", "root/e/f/g|1/1/1/2"];
    let way = prop::sample::select(ways.to_vec());
    let deserved = prop::sample::select(vec!["", "cpu=1", "cpu=3", "cpu=8 memory=2Gi"]);
    let figures = (0i64..3, prop::sample::select(vec![0, 0, 0, 1]), 1u32..4);
    prop::collection::vec((parent, way, deserved, figures), 2..24).prop_map(|list| {
        let team = |(name, parent): (&str, &str)| QueueInfo { parent: parent.into(), ..queue(name, 1) };
        let teams = [("t0", ""), ("t1", ""), ("t2", "t1")].map(team);
        let leaves = list.into_iter().enumerate().map(|(at, it)| leaf(at, it));
        teams.into_iter().chain(leaves).collect()
    })
}

fn case(actions: &'static str, pods: std::ops::Range<u32>) -> impl Strategy<Value = Case> {
    let request = prop::sample::select(vec!["cpu=1", "cpu=2 memory=1Gi", "memory=3Gi", "cpu=1 memory=4Gi"]);
    let gang = (0usize..24, 0i64..3, request, pods, prop::sample::select(vec![0, 0, 1, 2]));
    let gangs = prop::collection::vec(gang, 0..40);
    let conf = prop::sample::select(confs(actions));
    (conf, prop::sample::select(vec![6, 20, 60]), queues(), gangs)
        .prop_map(|(conf, room, queues, gangs)| Case { conf, room, queues, gangs })
}

impl Case {
    /// Without a tree, queues have no parents: a flat plugin would refuse them.
    fn test(&self) -> TestCluster {
        let conf: &Conf = &self.conf.conf;
        let mut test = TestCluster::with(conf.clone());
        let room = self.room;
        test.nodes(1, &format!("cpu={room} memory={room}Gi pods=1000"));
        let flat = !self.conf.name.contains("capacity\n    enableHierarchy");
        for queue in &self.queues {
            let parent = if flat { "".into() } else { queue.parent.clone() };
            test.add(QueueInfo { parent, ..queue.clone() });
        }
        let leaves = self.queues.len() - 3;
        for (at, (queue, created, request, pods, run)) in self.gangs.iter().enumerate() {
            let name = format!("g{at}");
            let queue = format!("q{}", queue % leaves).into();
            test.add(PodGroupInfo { queue, created: Time(*created), ..group(&name, 1.max(*pods)) });
            for index in 0..*pods {
                let pod = member(&name, index, request);
                test.add(if index < *run { running(pod, "n0") } else { pod });
            }
        }
        test
    }
}

/// Pods in the order in which they are placed when all queues are compared before each pod; every gang has one pod.
fn by_comparing_all(test: &mut TestCluster, conf: &Conf) -> Vec<String> {
    let mut state = SchedulerState::new(7);
    let mut cluster = test.cluster.clone();
    let mut session = Session::open(&mut cluster, conf, &mut state, Time(0));
    let waits = |session: &Session<'_>, job: &JobId| {
        session.cluster.jobs[*job].counts.of(Status::Pending) > 0 && session.job_blocked(*job).is_ok()
    };
    let mut jobs: Vec<JobId> = session.cluster.jobs.ids().filter(|job| waits(&session, job)).collect();
    let node = session.cluster.node_named("n0").expect("the node");
    let mut placed = Vec::new();
    while let Some(first) = jobs.iter().copied().min_by(|a, b| {
        let of = |job: &JobId| session.cluster.jobs[*job].queue;
        session.queue_order(of(a), of(b)).then_with(|| session.job_order(*a, *b))
    }) {
        let queue = session.cluster.jobs[first].queue;
        if session.overused(queue).is_some() {
            jobs.retain(|job| session.cluster.jobs[*job].queue != queue);
            continue;
        }
        jobs.retain(|job| *job != first);
        let task = session.cluster.jobs[first].tasks[0];
        let fits = session.cluster.request_of(task).short(&session.cluster.nodes[node].idle).next().is_none();
        if fits && session.allocatable(task).is_ok() {
            placed.push(session.cluster.tasks[task].pod.name.to_string());
            let mut statement = session.statement();
            statement.allocate(task, node);
            statement.commit(&Arc::default());
        }
    }
    placed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(phalanx_testkit::cases(600)))]

    #[test]
    fn queues_are_served_in_the_order_of_a_full_comparison(case in case("enqueue, allocate, backfill", 1..2)) {
        let mut test = case.test();
        let expected = by_comparing_all(&mut test, &case.conf.conf);
        let bound = test.cycle().decisions.into_iter().filter_map(|decision| match decision {
            Decision::Bind { pods, .. } => Some(pods),
            _ => None,
        });
        let bound: Vec<String> = bound.flatten().map(|binding| binding.pod.name.to_string()).collect();
        prop_assert_eq!(bound, expected);
    }

    /// The core itself compares all queues where it is built with debug assertions, as here.
    #[test]
    fn queues_are_served_in_the_order_of_a_full_comparison_with_evictions(case in case("enqueue, allocate, preempt, reclaim, backfill", 1..4)) {
        let mut test = case.test();
        for _ in 0..3 {
            let evicted = test.run().evicted;
            prop_assert_eq!(test.cluster.check(), Vec::<String>::new());
            for pod in evicted {
                test.gone(&pod);
            }
        }
    }
}
