//! Properties of random clusters whose gangs evict each other.
use std::cell::RefCell;

use phalanx_cluster::event::{Event, PodGroupInfo, PodInfo, PodLife, PodPhase};
use phalanx_cluster::{Cluster, Status};
use phalanx_framework::conf::{Conf, Flag};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use phalanx_testkit::invariants::{gangs_are_whole, no_node_is_overfull, no_queue_grows_over_its_capability};
use phalanx_testkit::random::{Script, script};
use phalanx_testkit::{Cycle, TestCluster, helm};

/// A script and the configuration of evictions.
#[derive(Clone)]
struct Play {
    script: Script,
    conf: Conf,
    /// The priority of each gang, by number.
    priorities: Vec<i32>,
    /// The eviction of one in this many pods is refused.
    refused: usize,
}

fn play() -> impl Strategy<Value = Play> {
    let actions = prop::sample::select(vec![
        &["preempt"][..],
        &["reclaim"],
        &["reclaim", "preempt"],
        &["gangpreempt", "gangreclaim"],
    ]);
    let flags = any::<[bool; 4]>();
    (script(), actions, flags, prop::collection::vec(0..3, 8), 1usize..9).prop_map(
        |(script, actions, [gang, starving, drf, maxed], priorities, refused)| {
            let mut conf = helm();
            conf.actions.extend(actions.iter().map(|action| (*action).to_owned()));
            for plugin in conf.tiers.iter_mut().flat_map(|tier| &mut tier.plugins) {
                match plugin.name.as_str() {
                    "gang" => {
                        plugin.flags.set(Flag::Preemptable, gang);
                        plugin.flags.set(Flag::JobStarving, starving);
                    }
                    "drf" => plugin.flags.set(Flag::Preemptable, drf),
                    _ => {}
                }
            }
            // A budget that allows evictions at some time.
            let refused = if maxed { refused } else { usize::MAX };
            Play { script, conf, priorities, refused }
        },
    )
}

/// One line for each object, for a failure to be read.
impl std::fmt::Debug for Play {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{:?}, refused {}, nodes {:?}", self.conf.actions, self.refused, self.script.nodes)?;
        for plugin in self.conf.tiers.iter().flat_map(|tier| &tier.plugins) {
            let off: Vec<_> =
                Flag::ALL.iter().filter(|(flag, _)| !plugin.flags.on(*flag)).map(|(_, name)| name).collect();
            write!(f, "{} without {off:?}; ", plugin.name)?;
        }
        writeln!(f)?;
        for event in self.events() {
            match event {
                Event::Queue(queue) => writeln!(
                    f,
                    "{} weight {} {:?} {:?} priority {}",
                    queue.name, queue.weight, queue.capability, queue.guarantee, queue.priority
                )?,
                Event::PodGroup(group) => writeln!(
                    f,
                    "{} in {} min {} {:?} {:?} created {:?} asks {:?}",
                    group.key,
                    group.queue,
                    group.min_member,
                    group.min_task_member,
                    group.priority_class,
                    group.created,
                    group.min_resources
                )?,
                Event::Pod(pod) => writeln!(
                    f,
                    "  {} {:?} {:?} on {:?} deleting {} gated {} role {:?}",
                    pod.pod,
                    pod.requests.containers,
                    pod.life.phase,
                    pod.life.node,
                    pod.life.deleting,
                    pod.gated,
                    pod.role
                )?,
                _ => {}
            }
        }
        writeln!(f, "{:?}", self.script.future)
    }
}

impl Play {
    fn events(&self) -> Vec<Event> {
        let class = |value: i32| format!("p{value}");
        let classes = (0..3).map(|value| Event::PriorityClass {
            name: class(value).into(),
            value,
            global_default: false,
        });
        let prioritised = |event| match event {
            Event::PodGroup(info) => {
                let number: usize = info.key.name.trim_start_matches('g').parse().unwrap_or_default();
                let priority_class = Some(class(self.priorities[number % self.priorities.len()]).into());
                PodGroupInfo { priority_class, ..*info }.into()
            }
            event => event,
        };
        classes.chain(self.script.events().into_iter().map(prioritised)).collect()
    }

    fn test(&self) -> TestCluster {
        let mut test = TestCluster::with(self.conf.clone());
        for event in self.events() {
            test.add(event);
        }
        test
    }

    /// Runs the script; victims are deleted at once, or their eviction is refused.
    fn run(&self, check: impl Fn(&Cluster, &TestCluster, &Cycle) -> TestCaseResult) -> TestCaseResult {
        let mut test = self.test();
        for (happenings, fails) in &self.script.future {
            let before = test.cluster.clone();
            let cycle = test.cycle();
            check(&before, &test, &cycle)?;
            for (at, victim) in cycle.evicted.iter().enumerate() {
                if (at + 1) % self.refused == 0 {
                    test.add(Event::EvictFailed(victim.as_str().into(), "no".into()));
                } else if *fails {
                    test.change(victim, |pod| pod.life.deleting = true);
                } else {
                    test.gone(victim);
                }
            }
            self.script.go_on(&mut test, &cycle.bound, happenings, *fails);
            prop_assert_eq!(test.cluster.check(), Vec::<String>::new());
        }
        Ok(())
    }
}

/// Each eviction has a preemptor with a nomination, and its victim was running or bound.
fn evictions_serve_somebody(before: &Cluster, after: &Cluster, cycle: &Cycle) -> TestCaseResult {
    for victim in &cycle.evicted {
        let task = before.task_of(victim).expect("a pod that was there");
        let status = before.tasks[task].status;
        prop_assert!(matches!(status, Status::Running | Status::Bound), "{victim} was {status:?}");
        prop_assert!(before.tasks[task].job.is_some());
    }
    let waits = after.tasks.iter().any(|(_, task)| task.status == Status::Pipelined);
    prop_assert!(cycle.evicted.is_empty() || waits || !cycle.bound.is_empty(), "{cycle:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(phalanx_testkit::cases(800)))]

    #[test]
    fn cycles_that_evict_keep_all_invariants(play in play()) {
        play.run(|before, test, cycle| {
            no_node_is_overfull(before, &test.cluster)?;
            gangs_are_whole(&test.cluster, cycle)?;
            no_queue_grows_over_its_capability(before, &test.cluster)?;
            evictions_serve_somebody(before, &test.cluster, cycle)
        })?;
    }

    #[test]
    fn equal_inputs_have_equal_evictions(play in play()) {
        let run = || {
            let cycles = RefCell::new(Vec::new());
            play.run(|_, _, cycle| {
                cycles.borrow_mut().push(cycle.clone());
                Ok(())
            })?;
            Ok::<_, TestCaseError>(cycles.into_inner())
        };
        prop_assert_eq!(run()?, run()?);
    }

    #[test]
    fn evictions_do_not_depend_on_the_order_of_events(play in play(), turn in 0usize..50) {
        let mut events = play.events();
        let end = events.len();
        events.rotate_left(turn % end.max(1));
        events.reverse();
        let mut turned = TestCluster::with(play.conf.clone());
        for event in events {
            turned.add(event);
        }
        let (straight, turned) = (play.test().cycle(), turned.cycle());
        prop_assert_eq!(straight.evicted, turned.evicted);
        prop_assert_eq!(straight.bound, turned.bound);
        prop_assert_eq!(straight.nominated, turned.nominated);
    }

    /// Evictions end although controllers create a new pod for each victim at once.
    #[test]
    fn evictions_of_random_clusters_end(play in play()) {
        let mut test = play.test();
        let (mut made, mut last) = (100, Vec::new());
        for _ in 0..30 {
            let cycle = test.run();
            last.push(cycle.evicted.len());
            for victim in &cycle.evicted {
                let pod = test.pod(victim);
                test.gone(victim);
                made += 1;
                let name: std::sync::Arc<str> = format!("{}-{made}", pod.group.as_deref().unwrap_or("solo")).into();
                let mut next = PodInfo { index: Some(made), life: PodLife { node: None, phase: PodPhase::Pending, nominated: None, ..pod.life }, ..pod };
                let of = std::sync::Arc::make_mut(&mut next.pod);
                (of.name, of.uid) = (name.clone(), name);
                test.add(next);
            }
        }
        prop_assert!(last[20..].iter().all(|evicted| *evicted == 0), "{last:?}");
    }
}
