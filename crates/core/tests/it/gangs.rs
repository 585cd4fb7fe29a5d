//! Gangs are bound whole, and in the right order.
use phalanx_cluster::event::{BindFailure, BindFault, Event, NodeInfo, Phase, PodGroupInfo, QueueInfo, Time};
use phalanx_core::decision::Decision;

use phalanx_framework::testing::{group, leaving, member, node, pod, queue, running};
use phalanx_testkit::{Cycle, TestCluster};

#[test]
fn a_gang_is_bound_whole_or_not_at_all() {
    // nodes of 4 cores, minMember, pods, cores each => bound
    for (nodes, min, pods, cores, bound) in [
        (1, 4, 4, 1, 4),
        (1, 5, 5, 1, 0),
        (2, 5, 5, 1, 5),
        (2, 2, 2, 3, 2),
        (2, 3, 3, 3, 0),
        (0, 1, 1, 1, 0),
        (1, 3, 2, 1, 0),
        (1, 2, 4, 1, 4),
        (1, 2, 6, 1, 4),
        (1, 0, 6, 1, 4),
    ] {
        let mut test = TestCluster::new();
        test.nodes(nodes, "cpu=4").gang(group("g", min), pods, &format!("cpu={cores}"));
        let cycle = test.cycle();
        let case = format!("{nodes} nodes, {pods} pods of {cores}, minMember {min}");
        assert_eq!(cycle.bound_of("g"), bound, "{case}");
        let phase = if bound > 0 { Phase::Running } else { Phase::Inqueue };
        assert_eq!(test.phase("g"), phase, "{case}");
    }
}

#[test]
fn the_reason_of_a_refused_gang_counts_members_and_nodes() {
    let mut test = TestCluster::new();
    test.nodes(3, "cpu=4").gang(group("g", 4), 4, "cpu=3");
    let cycle = test.cycle();
    assert_eq!(
        test.reasons("g"),
        [
            "g-3: 0/3 nodes are available: 3 Insufficient cpu.",
            "pod group is not ready: 3 of minMember 4 have room"
        ]
    );
    let status = cycle.status("g").unwrap();
    let condition = &status.conditions[0];
    assert_eq!((&*condition.kind, &*condition.reason), ("Unschedulable", "NotEnoughResources"));
    assert!(
        condition.message.starts_with("4/4 tasks in gang unschedulable: g-3: 0/3 nodes"),
        "{condition:?}"
    );
}

/// The condition says what the nearest node lacks, and is not written again because that is another node now.
#[test]
fn a_reason_names_what_the_nearest_node_lacks_and_is_not_written_again() {
    let mut test = TestCluster::new();
    test.add(node("east", "cpu=4 pods=9"));
    test.add(node("west", "cpu=4 pods=9"));
    test.add(running(member("one", 0, "cpu=1"), "east"));
    test.add(running(member("two", 0, "cpu=2"), "west"));
    test.gang(group("g", 1), 1, "cpu=4");
    let cycle = test.cycle();
    let message = &cycle.status("g").unwrap().conditions[0].message;
    let told = "g-0: 0/2 nodes are available: 2 Insufficient cpu.; least missing, on node east: cpu 1";
    assert!(message.ends_with(told), "{message}");
    let pods = |cycle: &Cycle| {
        let told = |decision: &&Decision| matches!(decision, Decision::PodUnscheduled { .. });
        cycle.decisions.iter().filter(told).count()
    };
    assert_eq!(pods(&cycle), 1);
    test.add(running(member("three", 0, "cpu=2"), "east"));
    let cycle = test.cycle();
    assert_eq!((cycle.status("g"), pods(&cycle)), (None, 0));
}

#[test]
fn a_gang_with_fewer_pods_than_min_member_is_not_bound() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=4").gang(group("g", 3), 2, "cpu=1");
    assert!(test.cycle().bound.is_empty());
    assert_eq!(test.reasons("g"), ["not enough valid tasks for gang-scheduling: 2 exist, minMember is 3"]);
    test.add(member("g", 2, "cpu=1"));
    assert_eq!(test.cycle().bound_of("g"), 3);
    assert_eq!(test.reasons("g"), Vec::<String>::new());
}

#[test]
fn of_two_gangs_with_room_for_one_exactly_one_starts() {
    let mut test = TestCluster::new();
    test.nodes(4, "cpu=1").gang(group("a", 3), 3, "cpu=1").gang(group("b", 3), 3, "cpu=1");
    let cycle = test.run();
    assert_eq!((cycle.bound_of("a"), cycle.bound_of("b"), &cycle.units[..]), (3, 0, &[3][..]));
    for index in 0..3 {
        test.gone(&format!("a-{index}"));
    }
    assert_eq!(test.cycle().bound_of("b"), 3);
}

#[test]
fn a_gang_starts_with_the_minimum_of_each_role() {
    let roles = |min_member, roles: &[(&str, u32)]| PodGroupInfo {
        min_task_member: roles.iter().map(|(role, min)| ((*role).into(), *min)).collect(),
        ..group("g", min_member)
    };
    // minMember, minTaskMember, cores => bound
    for (spec, cores, bound) in [
        (roles(3, &[("m", 1), ("w", 2)]), 4, 4),
        (roles(3, &[("m", 1), ("w", 2)]), 3, 3),
        // Workers come first by index, but the gang cannot start without the master.
        (roles(2, &[("m", 1), ("w", 1)]), 2, 2),
        (roles(2, &[("m", 1), ("w", 1)]), 1, 0),
        (roles(4, &[("m", 2), ("w", 2)]), 4, 0),
        // minMember below the sum of minTaskMember: minimums of roles do not count.
        (roles(1, &[("m", 2), ("w", 2)]), 1, 1),
    ] {
        let mut test = TestCluster::new();
        let case = format!("{spec:?} on {cores}");
        let asked = spec.min_member > 1;
        test.nodes(cores, "cpu=1").add(spec);
        for (index, role) in ["w", "w", "w", "m"].iter().enumerate() {
            let mut pod = member("g", index as u32, "cpu=1");
            pod.role = (*role).into();
            test.add(pod);
        }
        let cycle = test.cycle();
        assert_eq!(cycle.bound.len(), bound, "{case}");
        assert!(bound == 0 || !asked || cycle.bound.contains_key("g-3"), "{case}: no master");
    }
}

#[test]
fn jobs_of_higher_priority_are_bound_first() {
    let class = |name: &str, value| Event::PriorityClass { name: name.into(), value, global_default: false };
    let of = |name: &str, class: &str, created| PodGroupInfo {
        priority_class: Some(class.into()),
        created: Time(created),
        ..group(name, 2)
    };
    let mut test = TestCluster::new();
    test.add(class("high", 10)).add(class("low", -1)).nodes(2, "cpu=1");
    test.gang(of("a", "low", 1), 2, "cpu=1");
    test.gang(group("b", 2), 2, "cpu=1");
    test.gang(of("c", "high", 3), 2, "cpu=1");
    assert_eq!(test.cycle().names(), ["c-0", "c-1"]);
}

#[test]
fn members_of_a_gang_are_bound_by_priority_then_index() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=2").add(group("g", 1));
    for index in 0..4 {
        let mut pod = member("g", index, "cpu=1");
        pod.priority = Some(i32::from(index == 3));
        test.add(pod);
    }
    assert_eq!(test.cycle().names(), ["g-0", "g-3"]);
}

#[test]
fn best_effort_members_start_with_their_gang() {
    // Places for pods on the only node, minMember => bound
    for (places, min, bound) in [(9, 3, 3), (2, 3, 0), (2, 2, 2), (9, 2, 3)] {
        let mut test = TestCluster::new();
        test.nodes(1, &format!("cpu=4 pods={places}")).add(group("g", min));
        test.add(member("g", 0, "cpu=1")).add(member("g", 1, "cpu=1")).add(member("g", 2, ""));
        let cycle = test.cycle();
        assert_eq!(cycle.bound.len(), bound, "minMember {min}, {places} places");
        let first = if min == 3 { 3 } else { 2 };
        assert!(bound == 0 || cycle.units[0] == first, "minMember {min}: bound as {:?}", cycle.units);
    }
}

#[test]
fn a_gang_of_best_effort_pods_is_bound_whole() {
    for (places, bound) in [(3, 3), (2, 0)] {
        let mut test = TestCluster::new();
        test.nodes(1, &format!("cpu=4 pods={places}")).gang(group("g", 3), 3, "");
        assert_eq!(test.cycle().bound.len(), bound, "{places} places");
    }
}

#[test]
fn surplus_members_of_two_gangs_are_bound_in_turns() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=8").gang(group("a", 2), 8, "cpu=1").gang(group("b", 2), 8, "cpu=1");
    let cycle = test.cycle();
    assert_eq!((cycle.bound_of("a"), cycle.bound_of("b")), (4, 4));
    assert_eq!(cycle.units[..2], [2, 2], "both gangs are whole before one grows");
}

#[test]
fn a_gang_starts_before_another_gets_surplus_members() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=4").gang(group("a", 1), 5, "cpu=1").gang(group("z", 3), 3, "cpu=1");
    let cycle = test.cycle();
    assert_eq!((cycle.bound_of("a"), cycle.bound_of("z")), (1, 3));
}

#[test]
fn a_podgroup_created_after_its_pods_is_scheduled() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=4").add(member("g", 0, "cpu=1")).add(member("g", 1, "cpu=1"));
    assert!(test.cycle().bound.is_empty());
    assert_eq!(test.reasons("g"), ["its PodGroup ns/g does not exist"]);
    test.add(group("g", 2));
    assert_eq!(test.cycle().bound_of("g"), 2);
}

#[test]
fn a_gang_that_lost_a_member_keeps_its_other_members() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=3").gang(group("g", 3), 3, "cpu=1");
    assert_eq!(test.run().bound_of("g"), 3);
    test.gone("g-1");
    test.cycle();
    assert_eq!(test.phase("g"), Phase::Unknown);
    test.add(member("g", 1, "cpu=1"));
    assert_eq!(test.run().names(), ["g-1"]);
    assert_eq!(test.phase("g"), Phase::Running);
}

#[test]
fn a_failed_bind_is_repeated_in_the_next_cycle() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=2").gang(group("g", 2), 2, "cpu=1");
    assert_eq!(test.cycle().bound_of("g"), 2);
    test.start("g-0", "n0");
    let failure = BindFailure { message: "its node is gone".into(), fault: BindFault::Place };
    test.add(Event::BindFailed("g-1".into(), failure));
    test.add(pod("other", "cpu=1"));
    assert_eq!(test.cycle().names(), ["g-1"], "the broken gang goes first");
}

#[test]
fn a_running_gang_that_lost_a_member_is_repaired_before_new_gangs_start() {
    // The new gang's priority class and queue
    for (class, queue_of_new) in [("", "default"), ("high", "default"), ("", "vip"), ("high", "vip")] {
        let mut test = TestCluster::new();
        test.add(Event::PriorityClass { name: "high".into(), value: 9, global_default: false });
        test.add(QueueInfo { priority: 9, ..queue("vip", 1) });
        // The cordoned node raises the deserved shares: each queue deserves all that it requests.
        test.add(NodeInfo { unschedulable: true, ..node("shut", "cpu=9") });
        test.nodes(1, "cpu=3").gang(group("g", 3), 3, "cpu=1");
        assert_eq!(test.run().bound_of("g"), 3);
        let new = PodGroupInfo {
            created: Time(-9),
            queue: queue_of_new.into(),
            priority_class: (!class.is_empty()).then(|| class.into()),
            ..group("new", 1)
        };
        test.gang(new, 1, "cpu=1").gone("g-1").add(member("g", 3, "cpu=1"));
        assert_eq!(test.run().names(), ["g-3"], "{class:?} in {queue_of_new}");
        // Pods beyond minMember are no repair.
        test.add(member("g", 4, "cpu=1")).add(node("n1", "cpu=1"));
        assert_eq!(test.run().names(), ["new-0"], "{class:?} in {queue_of_new}");
    }
}

#[test]
fn a_pod_without_a_group_is_a_gang_of_one() {
    let mut test = TestCluster::new();
    test.nodes(2, "cpu=10");
    for name in ["a", "b", "c"] {
        test.add(pod(name, "cpu=6"));
    }
    assert_eq!(test.cycle().names(), ["a", "b"]);
    assert_eq!(test.reasons("c"), ["c: 0/2 nodes are available: 2 Insufficient cpu."]);
}

#[test]
fn best_effort_members_add_nothing_to_the_reasons_of_a_gang_without_room() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=2").gang(group("g", 4), 3, "cpu=1").add(member("g", 3, ""));
    assert!(test.cycle().bound.is_empty());
    assert_eq!(
        test.reasons("g"),
        [
            "g-2: 0/1 nodes are available: 1 Insufficient cpu.",
            "pod group is not ready: 3 of minMember 4 have room"
        ]
    );
}

#[test]
fn a_gated_pod_is_not_bound_and_its_gang_waits() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=4").gang(group("g", 2), 2, "cpu=1").change("g-1", |pod| pod.gated = true);
    assert!(test.cycle().bound.is_empty());
    assert!(test.reasons("g").iter().any(|why| why == "1 pod(s) wait for their scheduling gates"));
    test.change("g-1", |pod| pod.gated = false);
    assert_eq!(test.cycle().bound_of("g"), 2);
}

#[test]
fn terminating_pods_use_their_node_until_they_are_gone() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=1").add(leaving(running(pod("old", "cpu=1"), "n0"))).add(pod("new", "cpu=1"));
    assert!(test.cycle().bound.is_empty());
    test.gone("old");
    assert_eq!(test.cycle().names(), ["new"]);
}

#[test]
fn a_pod_that_gets_its_group_annotation_later_joins_the_gang() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=1").add(pod("g-0", "cpu=3")).add(group("g", 1));
    test.cycle();
    assert!(test.reasons("g")[0].contains("not enough valid tasks"), "{:?}", test.reasons("g"));
    test.change("g-0", |pod| pod.group = Some("g".into()));
    test.nodes(2, "cpu=4");
    assert_eq!(test.cycle().bound_of("g"), 1);
}

#[test]
fn an_update_older_than_a_bind_does_not_undo_the_bind() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=4").add(pod("z", "cpu=4"));
    assert_eq!(test.cycle().names(), ["z"]);
    test.add(Event::Bound("z".into()));
    // The echo of a condition that was written before, without a node.
    let mut refused = pod("z", "cpu=4");
    refused.life.unscheduled_message = Some("0/1 nodes".into());
    test.add(refused);
    test.add(pod("a", "cpu=4"));
    assert!(test.cycle().names().is_empty());
}

#[test]
fn huge_minimums_and_requests_do_not_panic() {
    let mut test = TestCluster::new();
    let min_task_member = ["a", "b", "c"].map(|role| (role.into(), u32::MAX / 2)).to_vec();
    test.nodes(1, "cpu=4").gang(PodGroupInfo { min_task_member, ..group("g", 1) }, 1, "cpu=1");
    for index in 0..300 {
        test.add(pod(&format!("p-{index}"), "cpu=9223372036854775807"));
    }
    assert_eq!(test.cycle().bound_of("g"), 1);
}

#[test]
fn a_new_leader_corrects_the_status_of_a_queue() {
    let mut test = TestCluster::new();
    let allocated = |text: &str| QueueInfo {
        allocated: phalanx_framework::testing::resources(text),
        ..queue("default", 1)
    };
    test.cluster.stand_by(true);
    test.add(allocated("")).add(allocated("cpu=4 pods=1"));
    test.cluster.stand_by(false);
    let decisions = format!("{:?}", test.decisions());
    assert!(decisions.contains("QueueStatus"), "the queue holds nothing now: {decisions}");
}

/// The PodGroup was deleted and created again while the watch was broken: no deletion is seen.
#[test]
fn a_podgroup_created_again_with_the_same_name_starts_anew() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=4").add(group("g", 1));
    assert_eq!(test.cycle().status("g").map(|status| status.phase), Some(Phase::Inqueue));
    test.add(PodGroupInfo { uid: "another".into(), ..group("g", 1) });
    assert_eq!(test.phase("g"), Phase::Pending);
    assert_eq!(test.cycle().status("g").map(|status| status.phase), Some(Phase::Inqueue));
}
