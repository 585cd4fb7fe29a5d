//! Evictions end although a controller creates each victim again at once.
use std::collections::BTreeMap;
use std::fmt;

use phalanx_cluster::annotation::{HIERARCHY, HIERARCHY_WEIGHTS};
use phalanx_cluster::event::{Event, PodGroupInfo, PodInfo, PodLife, PodPhase, QueueInfo, Time};
use phalanx_framework::conf::{Arg, Conf, Flag, PluginConf, Position, Value};
use proptest::prelude::*;

use phalanx_framework::testing::{args, group, member, node, queue, resources};
use phalanx_testkit::{TestCluster, cases, helm};

/// The plugin that decides what a queue may hold.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Judge {
    Proportion,
    Capacity,
    /// Plugin capacity with a tree of queues and this `ancestorReclaimLevel`.
    Tree(i64),
    Hdrf,
}

/// The configuration of evictions.
#[derive(Clone, Debug)]
struct Rules {
    judge: Judge,
    actions: Vec<&'static str>,
    /// `enablePreemptable`, `enableReclaimable` and `enableJobStarving` of plugin gang, and `enablePreemptable` of
    /// plugin drf.
    flags: [bool; 4],
    /// Plugin priority is configured.
    priority: bool,
    /// Action shuffle moves pods each second from nodes with more than this percentage of use to nodes with less.
    shuffle: Option<i64>,
}

/// Jobs of one queue: their number, and `minMember`, pods, requests and priority class, which alternate.
#[derive(Clone, Debug)]
struct Load {
    jobs: usize,
    min: Vec<u32>,
    pods: Vec<u32>,
    shapes: Vec<&'static str>,
    priorities: Vec<i32>,
}

/// Figures of a queue: deserved of each resource, guaranteed cores, department, weight and priority.
#[derive(Clone, Debug)]
struct Figures {
    deserved: [Option<i64>; 3],
    guarantee: Option<i64>,
    department: usize,
    weight: u32,
    priority: i32,
}

#[derive(Clone)]
struct Contest {
    rules: Rules,
    nodes: Vec<[i64; 3]>,
    departments: Vec<[Option<i64>; 3]>,
    queues: Vec<(Figures, Load)>,
    /// Victims of every n-th cycle terminate slowly.
    linger: usize,
}

const UNITS: [&str; 3] = ["cpu=", "memory=Gi", "example.com/gpu="];

fn amounts(of: &[Option<i64>; 3]) -> String {
    let one = |(unit, amount): (&&str, &Option<i64>)| {
        let (name, suffix) = unit.split_once('=')?;
        amount.map(|amount| format!("{name}={amount}{suffix}"))
    };
    UNITS.iter().zip(of).filter_map(one).collect::<Vec<_>>().join(" ")
}

fn rules() -> impl Strategy<Value = Rules> {
    let judge = prop_oneof![
        1 => Just(Judge::Proportion),
        2 => Just(Judge::Capacity),
        3 => (0i64..3).prop_map(Judge::Tree),
        1 => Just(Judge::Hdrf),
    ];
    let actions = prop::sample::select(vec![
        vec!["reclaim"],
        vec!["preempt"],
        vec!["reclaim", "preempt"],
        vec!["gangpreempt"],
        vec!["gangreclaim"],
        vec!["gangreclaim", "preempt"],
        vec!["gangpreempt", "gangreclaim"],
    ]);
    let shuffle = prop::option::weighted(0.15, 2i64..7);
    (judge, actions, any::<[bool; 4]>(), prop::bool::weighted(0.6), shuffle).prop_map(
        |(judge, actions, flags, priority, shuffle)| Rules { judge, actions, flags, priority, shuffle },
    )
}

fn load() -> impl Strategy<Value = Load> {
    let shape = prop::sample::select(vec![
        "cpu=1",
        "cpu=2",
        "cpu=3",
        "cpu=1 memory=1Gi",
        "cpu=1 memory=2Gi",
        "cpu=2 memory=1Gi",
        "memory=2Gi",
        "cpu=1 example.com/gpu=1",
        "memory=1Gi example.com/gpu=2",
    ]);
    let few = |most: u32| prop::collection::vec(1..most, 1..3);
    (1usize..9, few(4), few(4), prop::collection::vec(shape, 1..4), prop::collection::vec(0i32..2, 1..3))
        .prop_map(|(jobs, min, pods, shapes, priorities)| Load { jobs, min, pods, shapes, priorities })
}

fn figures() -> impl Strategy<Value = Figures> {
    let some = |most: i64| prop::option::weighted(0.7, 1..most);
    let guarantee = prop::option::weighted(0.15, Just(1i64));
    ((some(6), some(7), some(4)), guarantee, 0usize..2, 1u32..3, 0i32..2).prop_map(
        |((cpu, memory, gpu), guarantee, department, weight, priority)| Figures {
            deserved: [cpu.max(guarantee), memory, gpu],
            guarantee,
            department,
            weight,
            priority,
        },
    )
}

fn contest() -> impl Strategy<Value = Contest> {
    let some = |most: i64| prop::option::weighted(0.7, 2..most);
    let department = (some(9), some(9), some(5)).prop_map(|(cpu, memory, gpu)| [cpu, memory, gpu]);
    let nodes = prop::collection::vec((3i64..9, 3i64..10, 0i64..4).prop_map(|(a, b, c)| [a, b, c]), 1..3);
    let queues = prop::collection::vec((figures(), load()), 2..4);
    (rules(), nodes, prop::collection::vec(department, 2), queues, 1usize..9).prop_map(
        |(rules, nodes, departments, queues, linger)| Contest { rules, nodes, departments, queues, linger },
    )
}

fn rescheduling(percent: i64) -> PluginConf {
    let pods = || Value::from([("pods", percent.into())]);
    let params = Value::from([("thresholds", pods()), ("targetThresholds", pods())]);
    let strategy = [("name", "lowNodeUtilization".into()), ("params", params)].into();
    let list = [("interval", "1s".into()), ("strategies", Value::List(vec![strategy]))];
    PluginConf { name: "rescheduling".into(), args: args(&list), ..PluginConf::default() }
}

impl Rules {
    fn conf(&self) -> Conf {
        let mut conf = helm();
        conf.actions.extend(self.actions.iter().map(|action| (*action).to_owned()));
        if let Some(percent) = self.shuffle {
            conf.actions.push("shuffle".into());
            conf.tiers[1].plugins.push(rescheduling(percent));
        }
        let [preempt, reclaim, starving, drf] = self.flags;
        for tier in &mut conf.tiers {
            tier.plugins.retain(|plugin| match plugin.name.as_str() {
                "priority" => self.priority,
                "proportion" => self.judge != Judge::Hdrf,
                _ => true,
            });
        }
        for plugin in conf.tiers.iter_mut().flat_map(|tier| &mut tier.plugins) {
            match plugin.name.as_str() {
                "gang" => {
                    plugin.flags.set(Flag::Preemptable, preempt);
                    plugin.flags.set(Flag::Reclaimable, reclaim);
                    plugin.flags.set(Flag::JobStarving, starving);
                }
                "drf" => {
                    plugin.flags.set(Flag::Preemptable, drf);
                    plugin.flags.set(Flag::Hierarchy, self.judge == Judge::Hdrf);
                }
                "proportion" if self.judge != Judge::Proportion => {
                    plugin.name = "capacity".into();
                    if let Judge::Tree(level) = self.judge {
                        plugin.flags.set(Flag::Hierarchy, true);
                        let level = Arg { value: Value::Int(level), at: Position::default() };
                        plugin.args.0.insert("ancestorReclaimLevel".into(), level);
                    } else {
                        plugin.flags.set(Flag::Hierarchy, false);
                    }
                }
                _ => {}
            }
        }
        conf
    }
}

impl Contest {
    fn events(&self) -> Vec<Event> {
        let class = |value: i32| Event::PriorityClass {
            name: format!("p{value}").into(),
            value,
            global_default: false,
        };
        let mut events: Vec<Event> = (0..2).map(class).collect();
        for (at, room) in self.nodes.iter().enumerate() {
            events.push(node(&format!("n{at}"), &format!("{} pods=99", amounts(&room.map(Some)))).into());
        }
        for (at, deserved) in self.departments.iter().enumerate() {
            if matches!(self.rules.judge, Judge::Tree(_)) {
                let deserved = resources(&amounts(deserved));
                events.push(QueueInfo { deserved, ..queue(&format!("d{at}"), 1) }.into());
            }
        }
        for (at, (figures, load)) in self.queues.iter().enumerate() {
            events.push(self.queue(at, figures).into());
            events.extend(load.events(at));
        }
        events
    }

    fn queue(&self, at: usize, figures: &Figures) -> QueueInfo {
        let mut info = QueueInfo { priority: figures.priority, ..queue(&format!("q{at}"), figures.weight) };
        match self.rules.judge {
            Judge::Proportion => {}
            Judge::Capacity => info.deserved = resources(&amounts(&figures.deserved)),
            Judge::Tree(_) => {
                info.deserved = resources(&amounts(&figures.deserved));
                info.parent = format!("d{}", figures.department).into();
            }
            Judge::Hdrf => {
                let way = format!("root/d{}/q{at}", figures.department);
                let pairs = [(HIERARCHY, way), (HIERARCHY_WEIGHTS, format!("1/1/{}", figures.weight))];
                info.annotations = pairs.map(|(key, value)| (key.into(), value.into())).into_iter().collect();
            }
        }
        if matches!(self.rules.judge, Judge::Capacity | Judge::Tree(_)) && figures.guarantee.is_some() {
            info.guarantee = resources(&amounts(&[figures.guarantee, None, None]));
        }
        info
    }

    fn test(&self) -> TestCluster {
        let mut test = TestCluster::with(self.rules.conf());
        for event in self.events() {
            test.add(event);
        }
        test
    }

    /// Evictions of each cycle until they end; each victim is created again as soon as it is gone.
    fn evictions(&self, test: &mut TestCluster) -> Vec<usize> {
        let (mut made, mut evicted) = (BTreeMap::new(), Vec::new());
        for at in 0..CYCLES {
            if at >= USUAL && is_quiet(&evicted) {
                break;
            }
            let cycle = test.run();
            evicted.push(cycle.evicted.len());
            let lingers = (at + 1) % self.linger == 0;
            for victim in &cycle.evicted {
                let pod = test.pod(victim);
                if lingers {
                    test.change(victim, |pod| pod.life.deleting = true);
                    test.cycle();
                }
                test.gone(victim);
                again(test, &mut made, pod);
            }
        }
        evicted
    }
}

/// Adds the pod that a controller creates in place of a deleted pod.
pub(crate) fn again(test: &mut TestCluster, made: &mut BTreeMap<String, u32>, pod: PodInfo) {
    let job = pod.group.as_deref().unwrap_or_default().to_owned();
    let number = made.entry(job.clone()).and_modify(|number| *number += 1).or_insert(100);
    let name: std::sync::Arc<str> = format!("{job}-{number}").into();
    let mut next = PodInfo {
        index: Some(*number),
        life: PodLife { node: None, phase: PodPhase::Pending, nominated: None, deleting: false, ..pod.life },
        ..pod
    };
    let of = std::sync::Arc::make_mut(&mut next.pod);
    (of.name, of.uid) = (name.clone(), name);
    test.add(next);
}

impl Load {
    fn events(&self, queue: usize) -> Vec<Event> {
        let mut events = Vec::new();
        for job in 0..self.jobs {
            let name = format!("q{queue}j{job}");
            let pods = self.pods[job % self.pods.len()];
            let info = PodGroupInfo {
                queue: format!("q{queue}").into(),
                priority_class: Some(format!("p{}", self.priorities[job % self.priorities.len()]).into()),
                created: Time(job as i64),
                ..group(&name, self.min[job % self.min.len()].min(pods))
            };
            events.push(info.into());
            let shape = |index: usize| self.shapes[(job + index) % self.shapes.len()];
            events.extend((0..pods).map(|index| member(&name, index, shape(index as usize)).into()));
        }
        events
    }
}

impl fmt::Debug for Contest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:?}\nnodes {:?}, departments {:?}, linger {}",
            self.rules, self.nodes, self.departments, self.linger
        )?;
        self.queues.iter().try_for_each(|(figures, load)| writeln!(f, "{figures:?}\n  {load:?}"))
    }
}

/// The number of cycles.
const USUAL: usize = 55;

/// Each pair of jobs that evict each other in turns is stopped on its own, so that many pairs take many cycles.
const CYCLES: usize = 400;

/// No pod was evicted in the last cycles.
fn is_quiet(evicted: &[usize]) -> bool {
    evicted.iter().rev().take(15).all(|count| *count == 0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(300)))]

    #[test]
    fn evictions_end_although_each_victim_is_created_again(contest in contest()) {
        let evicted = contest.evictions(&mut contest.test());
        prop_assert!(is_quiet(&evicted), "{evicted:?}");
    }
}

/// Two queues that each deserve one of two resources, and priorities in one queue: three jobs evict each other in a
/// circle.
fn three_by_turns() -> Contest {
    let rules = Rules {
        judge: Judge::Tree(0),
        actions: vec!["reclaim", "preempt"],
        flags: [false; 4],
        priority: true,
        shuffle: None,
    };
    let figures =
        |deserved, priority| Figures { deserved, guarantee: None, department: 0, weight: 1, priority };
    let load =
        |jobs, pods, shapes, priorities| Load { jobs, min: vec![1], pods: vec![pods], shapes, priorities };
    Contest {
        rules,
        nodes: vec![[3, 3, 0]],
        departments: vec![[None; 3]; 2],
        queues: vec![
            (
                figures([None, None, Some(2)], 0),
                load(3, 3, vec!["cpu=1 example.com/gpu=1", "cpu=1"], vec![0, 1]),
            ),
            (figures([Some(3), Some(1), None], 1), load(1, 2, vec!["cpu=1 memory=2Gi", "cpu=3"], vec![0])),
        ],
        linger: 3,
    }
}

#[test]
fn a_job_that_lost_many_pods_evicts_none_for_a_while() {
    let contest = three_by_turns();
    let mut test = contest.test();
    let evicted = contest.evictions(&mut test);
    assert!(is_quiet(&evicted), "{evicted:?}");
    assert!(evicted.iter().sum::<usize>() < 40, "{evicted:?}");
    let told: Vec<String> =
        ["q0j0", "q0j1", "q0j2", "q1j0"].into_iter().flat_map(|job| test.reasons(job)).collect();
    let why = "of jobs that it evicted again and again within ten minutes without lasting success";
    assert!(told.iter().any(|reason| reason.contains(why)), "{told:#?}");

    test.now.0 += 600_000;
    let after = contest.evictions(&mut test);
    assert!(after.iter().sum::<usize>() > 0 && is_quiet(&after), "{after:?}");
}
