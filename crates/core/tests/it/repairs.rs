//! A running gang that lost members is repaired before new gangs start, also where room becomes free little by little.
use phalanx_cluster::event::{Event, PodGroupInfo, Time};

use phalanx_framework::testing::{group, member, pod, running};
use phalanx_testkit::TestCluster;

/// A gang of three: two members run and one, which requests two cores, waits; pods of one core fill the node of five
/// cores.
fn broken() -> TestCluster {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=5").add(group("g", 3));
    for index in 0..2 {
        test.add(running(member("g", index, "cpu=1"), "n0"));
    }
    test.add(member("g", 2, "cpu=2"));
    for name in ["old-0", "old-1", "old-2"] {
        test.add(running(pod(name, "cpu=1"), "n0"));
    }
    test
}

fn newcomer(test: &mut TestCluster, name: &str) {
    let class = Event::PriorityClass { name: "high".into(), value: 9, global_default: false };
    let info = PodGroupInfo { priority_class: Some("high".into()), ..group(name, 1) };
    test.add(class).gang(info, 1, "cpu=1");
}

#[test]
fn freed_room_is_reserved_for_a_lost_member() {
    let mut test = broken();
    let cycle = test.cycle();
    assert_eq!(cycle.nominated["g-2"].as_deref(), Some("n0"));
    assert!(
        test.reasons("g")[0].starts_with("it lost members: node n0 is reserved"),
        "{:?}",
        test.reasons("g")
    );
    newcomer(&mut test, "new-a");
    test.gone("old-0");
    let cycle = test.cycle();
    assert!(cycle.bound.is_empty() && cycle.nominated.is_empty(), "{cycle:?}");
    newcomer(&mut test, "new-b");
    test.gone("old-1");
    assert_eq!(test.cycle().names(), ["g-2"]);
    test.gone("old-2");
    assert_eq!(test.cycle().bound.len(), 1, "the next is one of the new");
}

#[test]
fn a_lost_member_starts_on_another_node_with_room_at_once() {
    let mut test = broken();
    assert_eq!(test.cycle().nominated.len(), 1);
    test.add(phalanx_framework::testing::node("n1", "cpu=2"));
    assert_eq!(test.cycle().bound["g-2"], "n1");
    newcomer(&mut test, "new");
    test.gone("old-0");
    assert_eq!(test.cycle().names(), ["new-0"], "nothing is kept any more");
}

#[test]
fn no_node_is_reserved_that_can_never_fit_the_lost_member() {
    let mut test = broken();
    test.gone("g-2").add(member("g", 3, "cpu=4"));
    newcomer(&mut test, "new");
    test.gone("old-0");
    let cycle = test.cycle();
    assert_eq!(
        (cycle.names(), cycle.nominated.len()),
        (vec!["new-0"], 0),
        "two of its own pods hold what it lacks"
    );
}

#[test]
fn pods_start_on_nodes_that_are_not_reserved_for_a_repair() {
    let mut test = broken();
    test.add(phalanx_framework::testing::node("n1", "cpu=1"));
    newcomer(&mut test, "new");
    let cycle = test.cycle();
    assert_eq!(cycle.bound["new-0"], "n1");
    assert_eq!(cycle.nominated["g-2"].as_deref(), Some("n0"));
}

fn at(test: &mut TestCluster, minute: i64) -> phalanx_testkit::Cycle {
    test.now = Time(minute * 60_000);
    test.cycle()
}

#[test]
fn the_reservation_of_a_repair_ends_and_begins_again() {
    let mut test = broken();
    assert_eq!(test.cycle().nominated.len(), 1);
    newcomer(&mut test, "new-a");
    test.gone("old-0");
    assert!(at(&mut test, 9).bound.is_empty());
    let cycle = at(&mut test, 11);
    assert_eq!((cycle.names(), &cycle.nominated["g-2"]), (vec!["new-a-0"], &None));
    assert!(at(&mut test, 22).nominated.contains_key("g-2"));
}

#[test]
fn a_gang_that_is_whole_or_not_started_reserves_no_node_for_a_repair() {
    let mut test = broken();
    test.add(group("late", 2)).add(member("late", 0, "cpu=4")).add(member("late", 1, "cpu=1"));
    test.add(PodGroupInfo { ..group("g", 2) });
    test.gone("old-0");
    newcomer(&mut test, "new");
    let cycle = test.cycle();
    assert_eq!((cycle.names(), cycle.nominated.len()), (vec!["new-0"], 0));
}

#[test]
fn of_two_broken_gangs_one_reserves_room_at_a_time() {
    let mut test = TestCluster::new();
    test.nodes(2, "cpu=1");
    for (name, on) in [("a", "n0"), ("b", "n1")] {
        test.add(group(name, 2)).add(running(member(name, 0, "cpu=1"), on)).add(member(name, 1, "cpu=1"));
    }
    let first = test.cycle();
    assert_eq!(first.nominated.len(), 1, "{first:?}");
    for _ in 0..5 {
        assert_eq!(test.cycle().nominated.len(), 0);
    }
}
