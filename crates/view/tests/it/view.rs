//! What holds of the view of any cluster.
use phalanx_cluster::event::Time;
use phalanx_testkit::random::{Script, script};
use phalanx_testkit::{TestCluster, cases, helm};
use phalanx_view::{Gang, GangState, History, Seen, View};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

/// The view of a random cluster after some cycles.
fn seen(script: &Script) -> (TestCluster, View) {
    let mut test = script.test();
    let mut history = History::default();
    for _ in 0..3 {
        let now = Time(test.now.0 + 1000);
        let cycle = test.cycle();
        history.note(&cycle.decisions, now);
        script.go_on(&mut test, &cycle.bound, &[], false);
    }
    let (groups, conf) = (test.groups(), helm());
    let view = View::of(Seen {
        cluster: &test.cluster,
        conf: &conf,
        groups: &groups,
        history: &history,
        now: test.now,
    });
    (test, view)
}

fn counts_are_of_all_jobs(test: &TestCluster, view: &View) -> TestCaseResult {
    let gangs = &view.gangs;
    let groups = test.groups();
    prop_assert_eq!((gangs.waiting + gangs.running + gangs.finished) as usize, groups.len());
    prop_assert_eq!(gangs.list.len() + gangs.left_out, groups.len());
    prop_assert_eq!(gangs.pods_waiting, groups.iter().map(|group| group.waiting).sum::<u32>());
    let waiting = gangs.list.iter().filter(|gang| gang.state == GangState::Waiting).count();
    prop_assert_eq!(waiting as u32, gangs.waiting);
    let grows = |gang: &&Gang| gang.state == GangState::Running && gang.pods.waiting > 0;
    prop_assert_eq!(gangs.list.iter().filter(grows).count() as u32, gangs.growing);
    let waits_whole = |gang: &Gang| gang.phase != "Running" || gang.pods.placed < gang.min.max(1);
    prop_assert!(gangs.list.iter().all(|gang| gang.state != GangState::Waiting || waits_whole(gang)));
    prop_assert!(gangs.list.is_sorted_by_key(|gang| gang.state), "those that wait come first");
    Ok(())
}

fn nodes_add_up_to_resources(view: &View) -> TestCaseResult {
    let state = &view.state;
    for (at, resource) in state.resources.iter().enumerate() {
        let used: i64 = state.nodes.list.iter().map(|node| node.used[at]).sum();
        let kinds = |kind: u32| state.nodes.kinds[kind as usize].allocatable[at];
        let allocatable: i64 = state.nodes.list.iter().map(|node| kinds(node.kind)).sum();
        prop_assert_eq!((used, allocatable), (resource.used, resource.allocatable), "{:?}", resource);
    }
    for holes in &state.holes {
        let free: i64 = holes.sizes.iter().map(|hole| hole.size * i64::from(hole.nodes)).sum();
        prop_assert_eq!(free, holes.free);
    }
    for gang in &view.gangs.list {
        let there = |(node, pods): &(u32, u32)| (*node as usize) < state.nodes.list.len() && *pods > 0;
        prop_assert!(gang.nodes.iter().all(there));
    }
    Ok(())
}

fn kinds_count_the_gangs_with_their_reasons(view: &View) -> TestCaseResult {
    for (at, kind) in view.reasons.kinds.iter().enumerate() {
        let gangs = view.gangs.list.iter().filter(|gang| gang.kind == Some(at as u32));
        let pods: u32 = gangs.clone().map(|gang| gang.pods.waiting).sum();
        prop_assert_eq!((kind.gangs as usize, kind.pods), (gangs.count(), pods), "{}", kind.example);
        prop_assert_eq!(kind.queues.values().sum::<u32>(), kind.gangs);
    }
    let with_reasons = view.gangs.list.iter().filter(|gang| !gang.reasons.is_empty()).count();
    prop_assert_eq!(view.reasons.kinds.iter().map(|kind| kind.gangs as usize).sum::<usize>(), with_reasons);
    Ok(())
}

fn times_are_in_order(view: &View) -> TestCaseResult {
    for gang in &view.gangs.list {
        let times = &gang.times;
        prop_assert!(times.bound <= times.last_bound, "{:?}", gang);
        if let (Some(enqueued), Some(bound)) = (times.enqueued, times.bound) {
            prop_assert!(gang.pods.placed == 0 || times.created <= enqueued.min(bound), "{:?}", gang);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(200)))]
    #[test]
    fn a_view_agrees_with_its_cluster(script in script()) {
        let (test, view) = seen(&script);
        counts_are_of_all_jobs(&test, &view)?;
        nodes_add_up_to_resources(&view)?;
        kinds_count_the_gangs_with_their_reasons(&view)?;
        times_are_in_order(&view)?;
        let json: serde_json::Value = serde_json::from_str(&view.to_json()).unwrap();
        prop_assert_eq!(json["gangs"]["list"].as_array().unwrap().len(), view.gangs.list.len());
    }
}
