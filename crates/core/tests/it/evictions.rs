//! Which pods are evicted, and for which preemptor.
use std::sync::Arc;

use phalanx_cluster::event::{Event, Key, PdbInfo, PodGroupInfo, PodInfo, QueueInfo, Time};
use phalanx_cluster::label::Selector;
use phalanx_core::decision::Decision;
use phalanx_framework::conf::{ActionConf, Arg, Args, Conf, Flag, PluginConf, Position, Value};
use phalanx_framework::extender::{ExtenderRecorder, NoExtender};

use phalanx_framework::testing::{args, group, leaving, member, node, pod, queue, running};
use phalanx_testkit::{Cycle, TestCluster, helm, set_flag};

/// The tiers of Volcano's chart with these actions after the usual ones.
fn with_actions(actions: &[&str]) -> Conf {
    let mut conf = helm();
    conf.actions.extend(actions.iter().map(|action| (*action).to_owned()));
    conf
}

/// The same with `enablePreemptable` of plugin gang, as in Volcano's built-in configuration.
fn keeping_gangs(actions: &[&str]) -> Conf {
    let mut conf = with_actions(actions);
    set_flag(&mut conf, "gang", Flag::Preemptable, true);
    conf
}

/// A cluster with the priority classes low (1), mid (5) and high (10).
fn test(conf: Conf) -> TestCluster {
    let mut test = TestCluster::with(conf);
    for (name, value) in [("low", 1), ("mid", 5), ("high", 10)] {
        test.add(Event::PriorityClass { name: name.into(), value, global_default: false });
    }
    test
}

fn of_class(group: PodGroupInfo, class: &str) -> PodGroupInfo {
    PodGroupInfo { priority_class: Some(class.into()), ..group }
}

/// A gang whose members run on these nodes.
fn runs(test: &mut TestCluster, group: PodGroupInfo, requests: &str, nodes: &[&str]) {
    let name = group.key.name.to_string();
    test.add(group);
    for (index, node) in nodes.iter().enumerate() {
        test.add(running(member(&name, index as u32, requests), node));
    }
}

fn sorted(cycle: &Cycle) -> Vec<&str> {
    let mut names: Vec<&str> = cycle.evicted.iter().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// Two nodes of four cores: a low gang of four fills n0, a mid gang of four fills n1.
fn full() -> TestCluster {
    let mut test = test(with_actions(&["preempt"]));
    test.nodes(2, "cpu=4");
    runs(&mut test, of_class(group("lows", 1), "low"), "cpu=1", &["n0"; 4]);
    runs(&mut test, of_class(group("mids", 1), "mid"), "cpu=1", &["n1"; 4]);
    test
}

#[test]
fn a_pod_whose_pod_group_is_not_known_is_kept_by_its_own_priority() {
    let with = |name: &str, class: &str| PodInfo { priority_class: Some(class.into()), ..pod(name, "cpu=2") };
    for (class, is_evicted) in [("low", true), ("high", false)] {
        let mut test = test(with_actions(&["preempt"]));
        test.add(node("n", "cpu=2"));
        test.add(running(PodInfo { group: Some("unknown".into()), ..with("old", class) }, "n"));
        test.add(with("new", "mid"));
        assert_eq!(test.run().evicted == ["old"], is_evicted, "{class}");
    }
}

#[test]
fn as_few_pods_as_needed_are_evicted_lowest_priority_first() {
    // minMember, cores each, class => evicted
    for (min, cores, class, expected) in [
        (1, 1, "high", &["lows-3"][..]),
        (2, 1, "high", &["lows-2", "lows-3"]),
        (1, 4, "high", &["lows-0", "lows-1", "lows-2", "lows-3"]),
        (2, 2, "mid", &["lows-0", "lows-1", "lows-2", "lows-3"]),
        (2, 3, "mid", &[]),
        (2, 3, "high", &["lows-1", "lows-2", "lows-3", "mids-1", "mids-2", "mids-3"]),
        (3, 3, "high", &[]),
        (1, 5, "high", &[]),
        (1, 1, "low", &[]),
    ] {
        let mut test = full();
        test.gang(of_class(group("g", min), class), min, &format!("cpu={cores}"));
        let cycle = test.cycle();
        let case = format!("{min} of {cores} cores, {class}");
        assert_eq!(sorted(&cycle), expected, "{case}");
        let nominated = if expected.is_empty() { 0 } else { min as usize };
        assert_eq!(cycle.nominated.len(), nominated, "{case}");
        assert!(cycle.bound.is_empty(), "{case}");
    }
}

#[test]
fn an_eviction_names_its_preemptor_and_reason() {
    let mut test = full();
    test.gang(of_class(group("g", 1), "high"), 1, "cpu=1");
    let cycle = test.cycle();
    let reason = cycle.decisions.iter().find_map(|decision| match decision {
        Decision::Evict { pod, cause, .. } => Some((pod.to_string(), cause.reason.to_string())),
        _ => None,
    });
    let expected = "preempted by ns/g (priority 10) in queue default";
    assert_eq!(reason, Some(("ns/lows-3".into(), expected.into())));
    assert_eq!(test.reasons("g"), ["1 pod(s) are nominated and wait for terminating pods"]);
}

#[test]
fn the_reason_of_a_waiting_job_says_why_no_pod_is_evicted() {
    for (class, cores, expected) in [
        (
            "low",
            1,
            "preempt: there is no pod that may be evicted for it (8 of equal or higher priority than its 1 of PriorityClass low)",
        ),
        ("mid", 5, "preempt: it would not fit if there were no other pods at all"),
    ] {
        let mut test = full();
        test.gang(of_class(group("g", 1), class), 1, &format!("cpu={cores}"));
        test.cycle();
        assert_eq!(test.reasons("g").last().map(String::as_str), Some(expected));
    }
}

#[test]
fn non_preempting_pods_use_idle_room_and_evict_none() {
    let mut test = full();
    test.add(node("n2", "cpu=1")).add(of_class(group("g", 2), "high"));
    let never = PodInfo { never_preempts: true, ..member("g", 0, "cpu=1") };
    test.add(never.clone()).add(member("g", 1, "cpu=1"));
    let cycle = test.cycle();
    assert_eq!((sorted(&cycle), cycle.nominated["g-0"].as_deref()), (vec!["lows-3"], Some("n2")));

    let mut test = full();
    test.add(of_class(group("g", 1), "high")).add(never);
    assert!(test.cycle().evicted.is_empty());
    assert_eq!(test.reasons("g")[1..], ["preempt: its pods' preemptionPolicy is Never"]);
}

#[test]
fn protected_pods_are_not_evicted() {
    type Change = fn(&mut PodInfo);
    let protected: [(&str, Change); 5] = [
        ("annotation", |pod| pod.preemptable = Some(false)),
        ("kube-system", |pod| Arc::make_mut(&mut pod.pod).namespace = "kube-system".into()),
        ("critical", |pod| pod.priority_class = Some("system-node-critical".into())),
        ("leaving", |pod| pod.life.deleting = true),
        ("another scheduler's", |pod| (pod.ours, pod.group) = (false, None)),
    ];
    for (what, change) in protected {
        let mut test = test(with_actions(&["preempt"]));
        test.nodes(1, "cpu=2").add(of_class(group("lows", 1), "low"));
        for index in 0..2 {
            let mut pod = running(member("lows", index, "cpu=1"), "n0");
            if index == 1 {
                change(&mut pod);
                if &*pod.pod.namespace == "kube-system" {
                    let of = of_class(group("lows", 1), "low");
                    test.add(PodGroupInfo { key: Key::new("kube-system", "lows"), ..of });
                }
            }
            test.add(pod);
        }
        test.gang(of_class(group("g", 2), "high"), 2, "cpu=1");
        // A terminating pod makes room too.
        let expected: &[&str] = if what == "leaving" { &["lows-0"] } else { &[] };
        assert_eq!(sorted(&test.cycle()), expected, "{what}");
        test.gang(of_class(group("h", 1), "high"), 1, "cpu=1");
        let expected: &[&str] = if what == "leaving" { &[] } else { &["lows-0"] };
        assert_eq!(sorted(&test.cycle()), expected, "{what}");
    }
}

#[test]
fn the_preemptable_annotation_of_a_podgroup_counts_for_its_pods() {
    for (of_group, of_pod, expected) in
        [(Some(false), None, 0), (Some(false), Some(true), 1), (Some(true), Some(false), 0), (None, None, 1)]
    {
        let mut test = test(with_actions(&["preempt"]));
        test.nodes(1, "cpu=1")
            .add(PodGroupInfo { preemptable: of_group, ..of_class(group("lows", 1), "low") });
        test.add(running(PodInfo { preemptable: of_pod, ..member("lows", 0, "cpu=1") }, "n0"));
        test.gang(of_class(group("g", 1), "high"), 1, "cpu=1");
        assert_eq!(test.cycle().evicted.len(), expected, "group {of_group:?}, pod {of_pod:?}");
    }
}

fn pdb(name: &str, allowed: u32) -> PdbInfo {
    PdbInfo { key: Key::new("ns", name), selector: Some(Selector::default()), allowed, ..PdbInfo::default() }
}

#[test]
fn evictions_stay_within_disruption_budgets() {
    for (allowed, min, expected) in [(0, 1, 0), (1, 1, 1), (1, 2, 0), (2, 2, 2), (9, 2, 2)] {
        let mut test = full();
        test.add(pdb("all", allowed)).gang(of_class(group("g", min), "high"), min, "cpu=1");
        assert_eq!(test.cycle().evicted.len(), expected, "{min} needed, {allowed} allowed");
    }
    let mut test = full();
    test.add(pdb("all", 9)).add(pdb("too", 9)).gang(of_class(group("g", 1), "high"), 1, "cpu=1");
    assert!(test.cycle().evicted.is_empty(), "the eviction API refuses pods that two budgets mean");
}

#[test]
fn a_terminating_pod_counts_against_its_disruption_budget() {
    let mut test = full();
    test.add(pdb("all", 1)).gang(of_class(group("g", 1), "high"), 1, "cpu=1");
    assert_eq!(test.cycle().evicted.len(), 1);
    test.gang(of_class(group("h", 1), "high"), 1, "cpu=1");
    assert!(test.cycle().evicted.is_empty(), "the budget's status is old still");
    test.add(pdb("all", 2));
    assert_eq!(test.cycle().evicted.len(), 1);
}

#[test]
fn surplus_pods_are_evicted_first() {
    for conf in [with_actions(&["preempt"]), keeping_gangs(&["preempt"])] {
        let mut test = test(conf);
        test.nodes(3, "cpu=2");
        // Gangs of one priority class; by job order the first two, which are older, would be evicted last.
        let old = |name: &str, min| PodGroupInfo { created: Time(-9), ..of_class(group(name, min), "low") };
        runs(&mut test, old("elastic", 1), "cpu=1", &["n0", "n1"]);
        runs(&mut test, old("solid", 2), "cpu=1", &["n0", "n1"]);
        runs(&mut test, of_class(group("young", 2), "low"), "cpu=1", &["n2", "n2"]);
        test.gang(of_class(group("g", 1), "high"), 1, "cpu=1");
        assert_eq!(sorted(&test.cycle()), ["elastic-1"]);
    }
}

#[test]
fn plugin_gang_protects_the_minimum_of_a_gang() {
    let mut test = test(keeping_gangs(&["preempt"]));
    test.nodes(2, "cpu=2");
    runs(&mut test, of_class(group("solid", 2), "low"), "cpu=1", &["n0", "n1"]);
    runs(&mut test, of_class(group("elastic", 0), "low"), "cpu=1", &["n0", "n1"]);
    test.gang(of_class(group("g", 3), "high"), 3, "cpu=1");
    assert!(test.cycle().evicted.is_empty(), "two may go, three would have to");
    test.gang(of_class(group("h", 2), "high"), 2, "cpu=1");
    assert_eq!(sorted(&test.cycle()), ["elastic-0", "elastic-1"]);
}

#[test]
fn one_whole_gang_is_evicted_rather_than_members_of_several() {
    let mut test = test(with_actions(&["preempt"]));
    test.nodes(4, "cpu=4");
    for name in ["a", "b", "c", "d"] {
        runs(&mut test, of_class(group(name, 4), "low"), "cpu=1", &["n0", "n1", "n2", "n3"]);
    }
    test.gang(of_class(group("g", 4), "high"), 4, "cpu=1");
    let first = test.cycle();
    assert_eq!(sorted(&first), ["d-0", "d-1", "d-2", "d-3"]);
}

#[test]
fn members_of_a_broken_gang_are_evicted_before_those_of_a_whole_gang() {
    let mut test = test(with_actions(&["preempt"]));
    test.nodes(1, "cpu=5");
    // By job order the younger gang would be evicted first.
    runs(
        &mut test,
        PodGroupInfo { created: Time(-9), ..of_class(group("half", 3), "low") },
        "cpu=1",
        &["n0"; 2],
    );
    runs(&mut test, of_class(group("solid", 3), "low"), "cpu=1", &["n0"; 3]);
    test.gang(of_class(group("g", 2), "high"), 2, "cpu=1");
    assert_eq!(sorted(&test.cycle()), ["half-0", "half-1"]);
}

#[test]
fn victims_are_taken_from_one_node_before_the_next() {
    let mut test = test(keeping_gangs(&["preempt"]));
    test.nodes(3, "cpu=2");
    runs(&mut test, of_class(group("lows", 4), "low"), "cpu=1", &["n0", "n1", "n2", "n2", "n1", "n0"]);
    test.gang(of_class(group("g", 1), "high"), 1, "cpu=2");
    let cycle = test.cycle();
    assert_eq!((sorted(&cycle), cycle.nominated["g-0"].as_deref()), (vec!["lows-0", "lows-5"], Some("n0")));
}

#[test]
fn of_several_nodes_the_one_with_the_cheapest_victims_is_chosen() {
    // On n0 and on n1: class, minMember, pods and cores of each => evicted for a pod of four cores.
    type Gang = (&'static str, u32, usize, &'static str);
    let cases: [([Gang; 2], &str, usize); 5] = [
        ([("low", 0, 4, "cpu=1"), ("low", 0, 1, "cpu=4")], "g1", 1),
        ([("low", 0, 1, "cpu=4"), ("low", 0, 4, "cpu=1")], "g0", 1),
        ([("low", 0, 4, "cpu=1"), ("mid", 0, 1, "cpu=4")], "g0", 4),
        ([("low", 0, 2, "cpu=2"), ("low", 1, 1, "cpu=4")], "g0", 2),
        ([("low", 4, 4, "cpu=1"), ("low", 2, 2, "cpu=2")], "g1", 2),
    ];
    for (gangs, expected, count) in cases {
        let mut test = test(with_actions(&["preempt"]));
        test.nodes(2, "cpu=4");
        for (at, (class, min, pods, requests)) in gangs.into_iter().enumerate() {
            let (name, node) = (format!("g{at}"), format!("n{at}"));
            runs(&mut test, of_class(group(&name, min), class), requests, &vec![&*node; pods]);
        }
        test.gang(of_class(group("urgent", 1), "high"), 1, "cpu=4");
        let evicted = test.cycle().evicted;
        assert!(evicted.len() == count && evicted.iter().all(|pod| pod.starts_with(expected)), "{evicted:?}");
    }
}

#[test]
fn no_pod_is_evicted_on_a_node_that_the_preemptor_cannot_use() {
    let mut test = full();
    test.add(of_class(group("g", 1), "high"));
    let mut pod = member("g", 0, "cpu=1");
    pod.constraints = std::sync::Arc::new(phalanx_cluster::event::Constraints {
        node_selector: vec![("kubernetes.io/hostname".into(), "n1".into())],
        ..Default::default()
    });
    test.add(pod);
    assert_eq!(sorted(&test.cycle()), ["mids-3"], "n0 has less important pods, but will not do");
}

#[test]
fn idle_room_is_used_before_a_pod_is_evicted() {
    let mut test = full();
    test.add(node("n2", "cpu=2")).gang(of_class(group("g", 3), "high"), 3, "cpu=1");
    let cycle = test.cycle();
    assert_eq!(sorted(&cycle), ["lows-3"]);
    assert_eq!(cycle.nominated.values().filter(|node| node.as_deref() == Some("n2")).count(), 2);
}

#[test]
fn best_effort_pods_evict_no_pods_with_requests() {
    let mut test = test(with_actions(&["preempt"]));
    test.nodes(1, "cpu=4 pods=2");
    runs(&mut test, of_class(group("lows", 1), "low"), "cpu=1", &["n0"]);
    runs(&mut test, of_class(group("idle", 1), "mid"), "", &["n0"]);
    test.gang(of_class(group("g", 1), "high"), 1, "");
    assert_eq!(sorted(&test.cycle()), ["idle-0"]);
    test.gang(of_class(group("h", 1), "high"), 1, "");
    assert!(test.cycle().evicted.is_empty());
}

// ---------------------------------------------------------------- over several cycles

/// Deletes the victims of a cycle.
fn end(test: &mut TestCluster, cycle: &Cycle) {
    for victim in &cycle.evicted {
        test.gone(victim);
    }
}

#[test]
fn freed_room_is_reserved_and_no_second_victim_is_taken() {
    let mut test = full();
    test.gang(of_class(group("g", 2), "high"), 2, "cpu=1");
    let cycle = test.cycle();
    assert_eq!(cycle.evicted.len(), 2);
    // Their controller creates new pods at once, and a pod of another job comes too.
    test.gang(of_class(group("again", 1), "low"), 2, "cpu=1");
    for victim in &cycle.evicted {
        test.change(victim, |pod| *pod = leaving(pod.clone()));
        let cycle = test.cycle();
        assert_eq!((cycle.evicted.len(), cycle.bound.len()), (0, 0));
    }
    test.gone(&cycle.evicted[0]);
    assert!(test.cycle().bound.is_empty(), "half a gang is not started, nor is its room lent");
    test.gone(&cycle.evicted[1]);
    assert_eq!(test.run().bound_of("g"), 2);
    for _ in 0..3 {
        let cycle = test.run();
        assert_eq!((cycle.evicted.len(), cycle.bound.len()), (0, 0));
    }
}

#[test]
fn after_a_refused_eviction_other_victims_are_found() {
    let mut test = full();
    test.gang(of_class(group("g", 1), "high"), 1, "cpu=1");
    let cycle = test.cycle();
    assert_eq!(cycle.evicted, ["lows-3"]);
    test.add(Event::EvictFailed("lows-3".into(), "Cannot evict pod".into()));
    let cycle = test.cycle();
    assert_eq!(cycle.evicted, ["lows-2"], "the one that was refused is left alone for a time");
    assert_eq!(cycle.nominated["g-0"].as_deref(), Some("n0"));
    end(&mut test, &cycle);
    assert_eq!(test.run().names(), ["g-0"]);
}

#[test]
fn a_gang_that_cannot_start_after_a_refused_eviction_gives_up_its_nominations() {
    let mut test = test(with_actions(&["preempt"]));
    test.nodes(1, "cpu=2");
    runs(&mut test, of_class(group("lows", 1), "low"), "cpu=1", &["n0"; 2]);
    test.gang(of_class(group("g", 2), "high"), 2, "cpu=1");
    assert_eq!(test.cycle().evicted.len(), 2);
    test.gone("lows-1").add(Event::EvictFailed("lows-0".into(), "Cannot evict pod".into()));
    let cycle = test.cycle();
    assert_eq!(cycle.nominated.values().flatten().count(), 0);
    test.add(pod("small", "cpu=1"));
    assert_eq!(test.cycle().names(), ["small"]);
}

/// With an argument of an action.
fn with_arg(mut conf: Conf, action: &str, key: &str, value: Value) -> Conf {
    let arg = Arg { value, at: Position::default() };
    let args = Args([(key.to_owned(), arg)].into());
    conf.configurations.push(ActionConf { name: action.into(), args, at: Position::default() });
    conf
}

#[test]
fn jobs_behind_a_search_that_ran_out_of_steps_come_next_cycle() {
    // Steps => evicted in each cycle: nothing at all, enough for the smaller gang, for the larger, for both.
    for (steps, expected) in [(0, [0, 0, 0]), (15, [0, 1, 0]), (25, [3, 1, 0]), (1000, [4, 0, 0])] {
        let conf = with_arg(with_actions(&["preempt"]), "preempt", "maxSteps", Value::Int(steps));
        let mut test = test(conf);
        test.nodes(2, "cpu=4");
        runs(&mut test, of_class(group("lows", 1), "low"), "cpu=1", &["n0"; 4]);
        runs(&mut test, of_class(group("mids", 1), "mid"), "cpu=1", &["n1"; 4]);
        test.gang(of_class(group("a", 1), "high"), 1, "cpu=3");
        test.gang(of_class(group("b", 1), "high"), 1, "cpu=1");
        let mut evicted = vec![test.cycle().evicted.len()];
        if expected[0] == 0 {
            let told = format!("preempt: the search was ended after {steps} steps (maxSteps)");
            assert!(["a", "b"].iter().all(|name| test.reasons(name).contains(&told)));
        }
        evicted.extend([0; 2].map(|_| test.cycle().evicted.len()));
        assert_eq!(evicted, expected, "{steps} steps");
    }
}

#[test]
fn a_running_gang_that_lost_a_role_preempts_for_the_role() {
    let mut test = test(with_actions(&["preempt"]));
    test.nodes(1, "cpu=4");
    let roles = vec![("master".into(), 1), ("worker".into(), 1)];
    test.add(PodGroupInfo { min_task_member: roles, ..of_class(group("g", 2), "high") });
    for index in 0..2 {
        test.add(running(PodInfo { role: "worker".into(), ..member("g", index, "cpu=1") }, "n0"));
    }
    runs(&mut test, of_class(group("lows", 1), "low"), "cpu=1", &["n0"; 2]);
    test.add(PodInfo { role: "master".into(), ..member("g", 2, "cpu=1") });
    assert_eq!(sorted(&test.cycle()), ["lows-1"]);
}

#[test]
fn a_pod_of_a_full_queue_is_evicted_on_any_node() {
    let mut test = test(with_actions(&["preempt"]));
    test.add(QueueInfo { capability: phalanx_framework::testing::resources("cpu=4"), ..queue("q", 1) });
    test.nodes(2, "cpu=4");
    runs(&mut test, in_queue(of_class(group("lows", 1), "low"), "q"), "cpu=1", &["n0"; 4]);
    test.gang(in_queue(of_class(group("g", 2), "high"), "q"), 2, "cpu=1");
    let cycle = test.cycle();
    assert_eq!(sorted(&cycle), ["lows-2", "lows-3"]);
    let nodes: Vec<_> =
        cycle.bound.values().cloned().chain(cycle.nominated.values().flatten().cloned()).collect();
    assert_eq!(nodes, ["n1", "n1"], "there is room, only the quota was full");
}

// ---------------------------------------------------------------- within a job

#[test]
fn surplus_members_preempt_only_without_enable_job_starving_of_gang() {
    let mut conf = with_actions(&["preempt"]);
    set_flag(&mut conf, "gang", Flag::JobStarving, false);
    for (conf, expected) in [(with_actions(&["preempt"]), 0), (conf, 3)] {
        let mut test = test(conf);
        test.nodes(1, "cpu=4");
        runs(&mut test, of_class(group("g", 1), "high"), "cpu=1", &["n0"]);
        runs(&mut test, of_class(group("lows", 1), "low"), "cpu=1", &["n0"; 3]);
        for index in 1..6 {
            test.add(member("g", index, "cpu=1"));
        }
        assert_eq!(test.cycle().evicted.len(), expected);
    }
}

#[test]
fn a_task_evicts_a_task_of_lower_priority_in_its_own_job() {
    let mut conf = with_actions(&["preempt"]);
    set_flag(&mut conf, "gang", Flag::JobStarving, false);
    let mut test = test(conf);
    test.nodes(1, "cpu=2").add(group("g", 1));
    let with = |index, priority| PodInfo { priority: Some(priority), ..member("g", index, "cpu=1") };
    test.add(running(with(0, 5), "n0")).add(running(with(1, 1), "n0")).add(with(2, 5)).add(with(3, 5));
    assert_eq!(test.cycle().evicted, ["g-1"]);
}

// ---------------------------------------------------------------- reclaim

fn in_queue(group: PodGroupInfo, queue: &str) -> PodGroupInfo {
    PodGroupInfo { queue: queue.into(), ..group }
}

/// Queues a and b of equal weight on eight cores, all of which a's gang of this `minMember` holds.
fn taken(conf: Conf, change: impl Fn(QueueInfo) -> QueueInfo, min: u32) -> TestCluster {
    let mut test = test(conf);
    test.nodes(2, "cpu=4").add(change(queue("a", 1))).add(queue("b", 1));
    runs(
        &mut test,
        in_queue(group("rich", min), "a"),
        "cpu=1",
        &["n0", "n0", "n0", "n0", "n1", "n1", "n1", "n1"],
    );
    test
}

#[test]
fn a_queue_reclaims_up_to_its_deserved() {
    // minMember of the gang above its share, of the gang below its share, cores of each pod => evicted
    for (rich, poor, cores, expected) in
        [(1, 4, 1, 4), (1, 2, 2, 4), (1, 5, 1, 0), (8, 4, 1, 4), (1, 1, 1, 1), (1, 1, 4, 4), (1, 2, 3, 0)]
    {
        let mut test = taken(with_actions(&["reclaim"]), |queue| queue, rich);
        test.gang(in_queue(group("poor", poor), "b"), poor, &format!("cpu={cores}"));
        let cycle = test.cycle();
        assert_eq!(cycle.evicted.len(), expected, "{poor} of {cores} cores from a gang of {rich}");
        let reason = cycle.decisions.iter().find_map(|decision| match decision {
            Decision::Evict { cause, .. } => Some(&*cause.reason),
            _ => None,
        });
        let says = "reclaimed by ns/poor (priority 0) in queue b";
        assert_eq!(reason, (expected > 0).then_some(says));
    }
}

#[test]
fn a_queue_that_is_not_reclaimable_loses_no_pods() {
    let keeps = |queue: QueueInfo| QueueInfo { reclaimable: false, ..queue };
    let mut test = taken(with_actions(&["reclaim"]), keeps, 1);
    test.gang(in_queue(group("poor", 1), "b"), 1, "cpu=1");
    assert!(test.cycle().evicted.is_empty());
}

#[test]
fn reclaim_evicts_in_other_queues_and_preempt_in_the_own_queue() {
    for (action, expected) in [("reclaim", &["rich-7"][..]), ("preempt", &["own-0"])] {
        let mut test = taken(with_actions(&[action]), |queue| queue, 1);
        test.add(node("n2", "cpu=1"));
        runs(&mut test, in_queue(group("own", 1), "b"), "cpu=1", &["n2"]);
        test.gang(of_class(in_queue(group("poor", 1), "b"), "high"), 1, "cpu=1");
        assert_eq!(sorted(&test.cycle()), expected, "{action}");
    }
}

#[test]
fn queues_end_with_their_deserved_after_reclaims() {
    let mut test = taken(with_actions(&["preempt", "reclaim"]), |queue| queue, 1);
    test.gang(in_queue(group("poor", 1), "b"), 8, "cpu=1");
    let (mut evicted, mut next) = (0, 8);
    for _ in 0..12 {
        let cycle = test.run();
        evicted += cycle.evicted.len();
        for victim in &cycle.evicted {
            test.gone(victim);
            // Its controller creates another pod.
            test.add(member("rich", next, "cpu=1"));
            next += 1;
        }
    }
    // Only the first pod of queue b starves: the others are surplus and use idle resources only.
    assert_eq!(evicted, 1);
}

// ---------------------------------------------------------------- gangs as a whole

#[test]
fn gangpreempt_evicts_surplus_first_and_then_whole_gangs() {
    // minMember of each => evicted
    for (min, allow, expected) in [
        (1, true, &["lows-3"][..]),
        (4, true, &["lows-3", "mids-1", "mids-2", "mids-3"]),
        (5, true, &["lows-0", "lows-1", "lows-2", "lows-3", "mids-3"]),
        (5, false, &[]),
        (8, true, &["lows-0", "lows-1", "lows-2", "lows-3", "mids-0", "mids-1", "mids-2", "mids-3"]),
    ] {
        let conf =
            with_arg(with_actions(&["gangpreempt"]), "gangpreempt", "allowWholeBundle", Value::Bool(allow));
        let mut test = test(conf);
        test.nodes(2, "cpu=4");
        runs(&mut test, of_class(group("lows", 3), "low"), "cpu=1", &["n0"; 4]);
        runs(&mut test, of_class(group("mids", 1), "mid"), "cpu=1", &["n1"; 4]);
        test.gang(of_class(group("g", min), "high"), min, "cpu=1");
        assert_eq!(sorted(&test.cycle()), expected, "{min} needed");
    }
}

#[test]
fn gangreclaim_evicts_whole_gangs_of_queues_above_their_deserved() {
    let mut test = test(with_actions(&["gangreclaim"]));
    test.nodes(2, "cpu=4").add(queue("a", 1)).add(queue("b", 1));
    runs(&mut test, in_queue(group("old", 4), "a"), "cpu=1", &["n0"; 4]);
    runs(&mut test, in_queue(group("young", 4), "a"), "cpu=1", &["n1"; 4]);
    test.gang(in_queue(group("small", 2), "b"), 2, "cpu=1");
    assert!(test.cycle().evicted.is_empty(), "without four a would have less than it deserves");
    test.gone("small-0").gone("small-1");
    test.gang(in_queue(group("poor", 4), "b"), 4, "cpu=1");
    let cycle = test.cycle();
    assert_eq!(sorted(&cycle), ["young-0", "young-1", "young-2", "young-3"]);
    end(&mut test, &cycle);
    assert_eq!(test.run().bound_of("poor"), 4);
    test.gang(in_queue(group("poorer", 3), "b"), 3, "cpu=1");
    assert!(test.cycle().evicted.is_empty(), "a has no more than it deserves now");
}

#[test]
fn queues_do_not_reclaim_best_effort_pods_from_each_other_in_turns() {
    let mut conf = with_actions(&["reclaim"]);
    for plugin in conf.tiers.iter_mut().flat_map(|tier| &mut tier.plugins) {
        match plugin.name.as_str() {
            "gang" => {
                plugin.flags.set(Flag::Preemptable, false);
                plugin.flags.set(Flag::JobStarving, false);
            }
            "drf" => plugin.flags.set(Flag::Preemptable, false),
            _ => {}
        }
    }
    let mut test = test(conf);
    test.add(queue("q0", 1));
    test.add(queue("q1", 1));
    test.add(node("n0", "cpu=0 memory=0 pods=1"));
    for (name, of) in [("g0", "q0"), ("g1", "q0"), ("g2", "q1")] {
        test.add(PodGroupInfo { queue: of.into(), ..group(name, 0) });
    }
    test.add(running(member("g0", 0, "cpu=1"), "n1"));
    test.add(member("g1", 0, ""));
    test.add(member("g2", 0, ""));
    test.add(running(member("g2", 1, "cpu=1"), "n1"));
    let mut made = 10;
    let mut last = Vec::new();
    for _ in 0..30 {
        let cycle = test.run();
        last.push(cycle.evicted.clone());
        for victim in &cycle.evicted {
            let pod = test.pod(victim);
            test.gone(victim);
            made += 1;
            let group = pod.group.clone().expect("of a group");
            test.add(member(&group, made, ""));
        }
    }
    assert!(last[20..].iter().all(Vec::is_empty), "{last:?}");
}

#[test]
fn an_extender_gets_many_victims_in_one_request() {
    let mut conf = with_actions(&["preempt"]);
    let verbs = [("extender.urlPrefix", "http://x".into()), ("extender.preemptableVerb", "p".into())];
    let extender = PluginConf { name: "extender".into(), args: args(&verbs), ..PluginConf::default() };
    conf.tiers[0].plugins.push(extender);
    let mut test = test(conf);
    let recorder = Arc::new(ExtenderRecorder::new(Arc::new(NoExtender)));
    test.set_extender(recorder.clone());
    test.nodes(10, "cpu=4");
    for at in 0..10 {
        runs(&mut test, of_class(group(&format!("low{at}"), 1), "low"), "cpu=1", &[&*format!("n{at}"); 4]);
    }
    test.gang(of_class(group("urgent", 2), "high"), 2, "cpu=4");
    let cycles: usize = (0..2).map(|_| test.run().evicted.len()).sum();
    let asked = recorder.take().iter().filter(|one| &*one.verb == "p").count();
    assert!(cycles == 8 && (1..10).contains(&asked), "{cycles} evicted, {asked} questions");
}

#[test]
fn nominations_of_lower_priority_are_revoked_before_a_pod_is_evicted() {
    let mut test = test(with_actions(&["preempt"]));
    test.nodes(1, "cpu=3");
    runs(&mut test, of_class(group("low", 1), "low"), "cpu=1", &["n0"]);
    test.add(leaving(running(pod("old", "cpu=2"), "n0")));
    test.gang(of_class(group("mid", 2), "mid"), 2, "cpu=1");
    assert_eq!(test.cycle().nominated.len(), 2);
    // Two cores are nominated to a gang of lower priority: they suffice, and the running pod stays.
    test.gang(of_class(group("high", 1), "high"), 1, "cpu=2");
    let cycle = test.cycle();
    assert_eq!(cycle.nominated["high-0"].as_deref(), Some("n0"));
    assert!(cycle.evicted.iter().all(|name| !name.starts_with("mid")), "{cycle:?}");
    test.gone("old");
    let cycle = test.run();
    assert_eq!(cycle.bound.get("high-0").map(String::as_str), Some("n0"));
}

#[test]
fn a_revoked_nomination_and_a_victim_make_room_together() {
    let mut test = test(with_actions(&["preempt"]));
    test.nodes(1, "cpu=3");
    runs(&mut test, of_class(group("low", 1), "low"), "cpu=1", &["n0"]);
    test.add(leaving(running(pod("old", "cpu=2"), "n0")));
    test.gang(of_class(group("mid", 1), "mid"), 1, "cpu=2");
    assert_eq!(test.cycle().nominated.len(), 1);
    test.gang(of_class(group("high", 3), "high"), 3, "cpu=1");
    let cycle = test.cycle();
    assert_eq!(cycle.evicted, ["low-0"]);
    assert_eq!(cycle.nominated["mid-0"], None);
    assert_eq!(cycle.nominated.values().flatten().count(), 3);
}

#[test]
fn a_pod_is_evicted_once_its_protection_ends() {
    let mut test = test(with_actions(&["preempt"]));
    test.nodes(1, "cpu=1");
    test.add(running(PodInfo { preemptable: Some(false), ..pod("keeper", "cpu=1") }, "n0"));
    test.add(PodInfo { priority: Some(10), ..pod("urgent", "cpu=1") });
    assert_eq!(sorted(&test.cycle()), [""; 0]);
    test.change("keeper", |pod| pod.preemptable = None);
    assert_eq!(sorted(&test.cycle()), ["keeper"]);
}
