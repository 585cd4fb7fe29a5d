//! A running gang that lost members is repaired before anything new starts, also where room comes free little by little.
use phalanx_cluster::event::{Event, PodGroupInfo, Time};

use crate::cluster::Cluster;
use phalanx_framework::testing::{group, member, pod, running};

/// A gang of three of whom two run, and one that asks for two cores; pods of one core fill the rest of five.
fn broken() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.nodes(1, "cpu=5").add(group("g", 3));
    for index in 0..2 {
        cluster.add(running(member("g", index, "cpu=1"), "n0"));
    }
    cluster.add(member("g", 2, "cpu=2"));
    for name in ["old-0", "old-1", "old-2"] {
        cluster.add(running(pod(name, "cpu=1"), "n0"));
    }
    cluster
}

fn newcomer(cluster: &mut Cluster, name: &str) {
    let class = Event::PriorityClass { name: "high".into(), value: 9, global_default: false };
    let info = PodGroupInfo { priority_class: Some("high".into()), ..group(name, 1) };
    cluster.add(class).gang(info, 1, "cpu=1");
}

#[test]
fn room_is_gathered_for_what_a_gang_lost() {
    let mut cluster = broken();
    let cycle = cluster.cycle();
    assert_eq!(cycle.nominated["g-2"].as_deref(), Some("n0"));
    assert!(
        cluster.reasons("g")[0].starts_with("it lost members: node n0 is kept"),
        "{:?}",
        cluster.reasons("g")
    );
    newcomer(&mut cluster, "new-a");
    cluster.gone("old-0");
    let cycle = cluster.cycle();
    assert!(cycle.bound.is_empty() && cycle.nominated.is_empty(), "{cycle:?}");
    newcomer(&mut cluster, "new-b");
    cluster.gone("old-1");
    assert_eq!(cluster.cycle().names(), ["g-2"]);
    cluster.gone("old-2");
    assert_eq!(cluster.cycle().bound.len(), 1, "the next is one of the new");
}

#[test]
fn room_elsewhere_is_taken_at_once() {
    let mut cluster = broken();
    assert_eq!(cluster.cycle().nominated.len(), 1);
    cluster.add(phalanx_framework::testing::node("n1", "cpu=2"));
    assert_eq!(cluster.cycle().bound["g-2"], "n1");
    newcomer(&mut cluster, "new");
    cluster.gone("old-0");
    assert_eq!(cluster.cycle().names(), ["new-0"], "nothing is kept any more");
}

#[test]
fn no_node_is_kept_that_could_not_have_room() {
    let mut cluster = broken();
    cluster.gone("g-2").add(member("g", 3, "cpu=4"));
    newcomer(&mut cluster, "new");
    cluster.gone("old-0");
    let cycle = cluster.cycle();
    assert_eq!(
        (cycle.names(), cycle.nominated.len()),
        (vec!["new-0"], 0),
        "two of its own pods hold what it lacks"
    );
}

#[test]
fn other_nodes_go_on() {
    let mut cluster = broken();
    cluster.add(phalanx_framework::testing::node("n1", "cpu=1"));
    newcomer(&mut cluster, "new");
    let cycle = cluster.cycle();
    assert_eq!(cycle.bound["new-0"], "n1");
    assert_eq!(cycle.nominated["g-2"].as_deref(), Some("n0"));
}

fn at(cluster: &mut Cluster, minute: i64) -> crate::cluster::Cycle {
    cluster.now = Time(minute * 60_000);
    cluster.cycle()
}

#[test]
fn gathering_has_an_end_and_begins_again() {
    let mut cluster = broken();
    assert_eq!(cluster.cycle().nominated.len(), 1);
    newcomer(&mut cluster, "new-a");
    cluster.gone("old-0");
    assert!(at(&mut cluster, 9).bound.is_empty());
    let cycle = at(&mut cluster, 11);
    assert_eq!((cycle.names(), &cycle.nominated["g-2"]), (vec!["new-a-0"], &None));
    assert!(at(&mut cluster, 22).nominated.contains_key("g-2"));
}

#[test]
fn a_gang_that_is_whole_or_has_not_started_keeps_nothing() {
    let mut cluster = broken();
    cluster.add(group("late", 2)).add(member("late", 0, "cpu=4")).add(member("late", 1, "cpu=1"));
    cluster.add(PodGroupInfo { ..group("g", 2) });
    cluster.gone("old-0");
    newcomer(&mut cluster, "new");
    let cycle = cluster.cycle();
    assert_eq!((cycle.names(), cycle.nominated.len()), (vec!["new-0"], 0));
}

#[test]
fn two_gangs_do_not_gather_room_by_turns() {
    let mut cluster = Cluster::new();
    cluster.nodes(2, "cpu=1");
    for (name, on) in [("a", "n0"), ("b", "n1")] {
        cluster.add(group(name, 2)).add(running(member(name, 0, "cpu=1"), on)).add(member(name, 1, "cpu=1"));
    }
    let first = cluster.cycle();
    assert_eq!(first.nominated.len(), 1, "{first:?}");
    for _ in 0..5 {
        assert_eq!(cluster.cycle().nominated.len(), 0);
    }
}
