//! Properties of cycles on random clusters.
use std::collections::BTreeMap;

use phalanx_cluster::{Cluster, Status};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use phalanx_testkit::invariants::{gangs_are_whole, no_node_is_overfull, no_queue_grows_over_its_capability};
use phalanx_testkit::random::{Script, script};
use phalanx_testkit::{Cycle, TestCluster};

/// Runs a script, with a check after each cycle that gets the Cluster before and after the cycle.
fn play(script: &Script, check: impl Fn(&Cluster, &TestCluster, &Cycle) -> TestCaseResult) -> TestCaseResult {
    let mut test = script.test();
    for (happenings, fails) in &script.future {
        let before = test.cluster.clone();
        let cycle = test.cycle();
        check(&before, &test, &cycle)?;
        script.go_on(&mut test, &cycle.bound, happenings, *fails);
        prop_assert_eq!(test.cluster.check(), Vec::<String>::new());
    }
    Ok(())
}

/// Waiting pods have the nomination on the object that the Cluster has for them.
fn nominations_are_told(told: &BTreeMap<String, Option<String>>, cluster: &Cluster) -> TestCaseResult {
    let waits = |status| matches!(status, Status::Pending | Status::Pipelined);
    for (_, task) in cluster.tasks.iter().filter(|(_, task)| waits(task.status)) {
        let told = told.get(&*task.pod.name).cloned().flatten();
        let held = task.node.map(|node| cluster.nodes[node].name.to_string());
        prop_assert_eq!(&told, &held, "{}", task.pod);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(phalanx_testkit::cases(300)))]

    #[test]
    fn cycles_keep_all_invariants(script in script()) {
        play(&script, |before, test, cycle| {
            no_node_is_overfull(before, &test.cluster)?;
            gangs_are_whole(&test.cluster, cycle)?;
            no_queue_grows_over_its_capability(before, &test.cluster)
        })?;
    }

    #[test]
    fn equal_inputs_have_equal_decisions(script in script()) {
        let run = || {
            let cycles = std::cell::RefCell::new(Vec::new());
            play(&script, |_, _, cycle| {
                cycles.borrow_mut().push(cycle.clone());
                Ok(())
            })?;
            Ok::<_, TestCaseError>(cycles.into_inner())
        };
        prop_assert_eq!(run()?, run()?);
    }

    #[test]
    fn skipping_settled_jobs_does_not_change_decisions(script in script()) {
        let (mut test, mut thorough) = (script.test(), script.test());
        for (happenings, fails) in &script.future {
            thorough.forget();
            let (cycle, all) = (test.cycle(), thorough.cycle());
            prop_assert_eq!(&cycle.decisions, &all.decisions);
            script.go_on(&mut test, &cycle.bound, happenings, *fails);
            script.go_on(&mut thorough, &all.bound, happenings, *fails);
        }
    }

    #[test]
    fn decisions_do_not_depend_on_the_order_of_events(script in script(), turn in 0usize..50) {
        let mut events = script.events();
        let end = events.len();
        events.rotate_left(turn % end.max(1));
        events.reverse();
        let mut turned = TestCluster::new();
        for event in events {
            turned.add(event);
        }
        let (straight, turned) = (script.test().cycle(), turned.cycle());
        prop_assert_eq!(straight.bound, turned.bound);
        prop_assert_eq!(straight.nominated, turned.nominated);
    }

    #[test]
    fn a_cluster_without_events_comes_to_rest(script in script()) {
        let mut test = script.test();
        for _ in 0..4 {
            test.run();
        }
        prop_assert_eq!(test.cycle().decisions, vec![]);
    }

    #[test]
    fn written_nominations_equal_those_of_the_cluster(script in script()) {
        let told = std::cell::RefCell::new(BTreeMap::new());
        play(&script, |_, test, cycle| {
            told.borrow_mut().extend(cycle.nominated.clone());
            nominations_are_told(&told.borrow(), &test.cluster)
        })?;
    }
}
