//! What a view tells of the past.
use phalanx_cluster::event::{Event, Time};
use phalanx_cluster::testing::{group, node, pod};
use phalanx_testkit::{TestCluster, helm};
use phalanx_view::{GANGS_MAX, GangState, History, NODES_MAX, Seen, View};

fn view(test: &TestCluster, history: &History) -> View {
    let (groups, conf) = (test.groups(), helm());
    View::of(Seen { cluster: &test.cluster, conf: &conf, groups: &groups, history, now: test.now })
}

fn cycle(test: &mut TestCluster, history: &mut History) {
    let cycle = test.cycle();
    history.note(&cycle.decisions, test.now);
    for (pod, node) in &cycle.bound {
        test.start(pod, node);
    }
}

#[test]
fn a_gang_has_the_times_of_its_steps_and_a_new_one_of_its_name_has_not() {
    let (mut test, mut history) = (TestCluster::new(), History::default());
    test.gang(group("g", 2), 2, "cpu=1");
    cycle(&mut test, &mut history);
    test.nodes(1, "cpu=4 memory=1Gi");
    cycle(&mut test, &mut history);
    let seen = view(&test, &history);
    let gang = &seen.gangs.list[0];
    assert_eq!((gang.state, gang.pods.placed), (GangState::Running, 2), "{gang:?}");
    assert_eq!((gang.times.enqueued, gang.times.bound), (Some(1000), Some(2000)), "{gang:?}");
    assert_eq!(seen.state.nodes.list[gang.nodes[0].0 as usize].name, "n0");
    let whats: Vec<&str> = seen.events.iter().map(|event| event.what).collect();
    assert!(whats.contains(&"Bound") && whats.contains(&"Inqueue"), "{:?}", seen.events);

    test.gone("g-0").gone("g-1").add(Event::PodGroupGone(group("g", 2).key));
    let mut next = group("g", 2);
    next.created = Time(2500);
    test.add(next);
    assert_eq!(view(&test, &history).gangs.list[0].times.bound, None);
}

#[test]
fn a_waiting_gang_says_why_and_what_the_nearest_node_lacks() {
    let (mut test, mut history) = (TestCluster::new(), History::default());
    test.nodes(2, "cpu=4 memory=8Gi nvidia.com/gpu=4");
    for name in ["a", "b"] {
        test.gang(group(name, 2), 2, "cpu=1 nvidia.com/gpu=8");
    }
    cycle(&mut test, &mut history);
    let seen = view(&test, &history);
    assert_eq!((seen.gangs.waiting, seen.gangs.pods_waiting), (2, 4));
    let gang = &seen.gangs.list[0];
    let text = |at: u32| seen.reasons.texts[at as usize].as_str();
    assert!(text(gang.reasons[0]).contains("Insufficient nvidia.com/gpu"), "{gang:?}");
    assert!(text(gang.lack.unwrap()).contains("nvidia.com/gpu 4"), "{gang:?}");
    let kind = &seen.reasons.kinds[0];
    assert_eq!((kind.gangs, kind.pods), (2, 4), "equal reasons are told once: {:?}", seen.reasons.kinds);
    assert_eq!(seen.state.holes[0].sizes[0].nodes, 2);
}

#[test]
fn what_is_listed_is_bounded_and_what_is_counted_is_not() {
    let (mut test, history) = (TestCluster::new(), History::default());
    for at in 0..NODES_MAX + 3 {
        test.add(node(&format!("n{at:06}"), "cpu=4 memory=8Gi"));
    }
    for at in 0..GANGS_MAX + 5 {
        test.add(pod(&format!("p{at}"), "cpu=1"));
    }
    let seen = view(&test, &history);
    assert_eq!((seen.state.nodes.list.len(), seen.state.nodes.left_out), (NODES_MAX, 3));
    assert_eq!((seen.gangs.list.len(), seen.gangs.left_out), (GANGS_MAX, 5));
    assert_eq!(seen.gangs.waiting as usize, GANGS_MAX + 5);
    assert_eq!(seen.state.resources[0].allocatable, 4000 * (NODES_MAX as i64 + 3));
}
