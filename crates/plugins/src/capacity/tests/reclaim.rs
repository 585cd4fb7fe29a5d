//! Which queues reclaim, and which tasks are reclaimable.
use super::*;

#[test]
fn queues_with_a_nearer_common_ancestor_lose_victims_first() {
    let queues = &["p", "q < p", "by < q", "near < q", "far < p", "out", "lost < missing"];
    let cluster = cluster(4, queues, &[]);
    let plugin = plugin(&cluster, true, 0);
    let by = queue_of(&cluster, "by");
    let mut order = ["lost", "out", "far", "near", "by"].map(|name| queue_of(&cluster, name));
    order.sort_by(|a, b| plugin.victim_queue_order(&cluster, by, *a, *b));
    let names: Vec<&str> = order.iter().map(|id| &*cluster.queues[*id].name).collect();
    assert_eq!(names, ["by", "near", "far", "out", "lost"]);
}

#[test]
fn a_queue_is_preemptive_up_to_its_deserved() {
    let rows = [
        ("below", vec!["a:||cpu=2"], "a", 1, 0, true),
        ("at", vec!["a:||cpu=2"], "a", 2, 0, false),
        ("nothing deserved", vec!["a"], "a", 0, 0, false),
        ("deserves another resource", vec!["a:||memory=2Gi"], "a", 0, 0, false),
        ("its capability", vec!["a: cpu=1"], "a", 1, 0, false),
        ("parent entitled, ancestorReclaimLevel 0", vec!["p:||cpu=4", "a < p:||cpu=1"], "a", 1, 0, false),
        ("parent entitled, ancestorReclaimLevel 1", vec!["p:||cpu=4", "a < p:||cpu=1"], "a", 1, 1, true),
        ("capability of the parent", vec!["p: cpu=1||cpu=1", "a < p:||cpu=1"], "a", 1, 1, false),
    ];
    for (what, queues, name, runs, levels, expected) in rows {
        let cluster = cluster(9, &queues, &[(name, runs, 1)]);
        let (plugin, task) = (plugin(&cluster, true, levels), task_of(&cluster, &format!("{name}-{runs}")));
        assert_eq!(plugin.preemptive(&cluster, queue_of(&cluster, name), task).is_ok(), expected, "{what}");
    }
}

#[test]
fn holdings_of_other_queues_in_an_ancestor_do_not_stop_reclaim() {
    for (queues, expected) in [
        (["p: cpu=4||cpu=4", "a < p:||cpu=2", "b < p:||cpu=2"], true),
        (["p: cpu=1||cpu=1", "a < p:||cpu=2", "b < p:||cpu=1"], true),
        (["p: cpu=0||cpu=0", "a < p:||cpu=2", "b < p:||cpu=1"], false),
        (["p: cpu=4||cpu=4", "a < p: cpu=0||", "b < p:||cpu=2"], false),
    ] {
        let cluster = cluster(9, &queues, &[("a", 0, 1), ("b", 4, 0)]);
        let reclaims =
            plugin(&cluster, true, 0).preemptive(&cluster, queue_of(&cluster, "a"), task_of(&cluster, "a-0"));
        assert_eq!(reclaims.is_ok(), expected, "{queues:?}: {reclaims:?}");
    }
}

#[test]
fn a_queue_beyond_deserved_of_a_requested_resource_does_not_reclaim() {
    for (deserved, request, expected) in [
        ("cpu=3 memory=3Gi", "cpu=1 memory=1Gi", Ok(())),
        ("cpu=2 memory=3Gi", "cpu=1 memory=1Gi", Err("cpu (1 more)")),
        ("cpu=2 memory=2Gi", "cpu=1 memory=1Gi", Err("cpu (1 more), memory (1Gi more)")),
        // Resources that are not requested, or not deserved, do not count.
        ("cpu=2 memory=3Gi", "memory=1Gi", Ok(())),
        ("cpu=3", "cpu=1 memory=1Gi", Ok(())),
        ("memory=9Gi", "cpu=1", Err("cpu (3 more)")),
        ("cpu=3 pods=2", "cpu=1", Err("pods (1 more)")),
    ] {
        let mut cluster = cluster(9, &[&format!("a:||{deserved}")], &[]);
        fill(&mut cluster, "a", 2, 0, "cpu=1 memory=1Gi");
        cluster.apply(PodGroupInfo { queue: "a".into(), ..group("more", 1) }.into());
        cluster.apply(member("more", 0, request).into());
        let reclaims = plugin(&cluster, false, 0).preemptive(
            &cluster,
            queue_of(&cluster, "a"),
            task_of(&cluster, "more-0"),
        );
        let why = reclaims.map_err(|refusal| refusal.text(&cluster.dims));
        let expected = expected
            .map_err(|over: &str| format!("queue a would exceed its deserved: {over} (plugin capacity)"));
        assert_eq!(why, expected, "deserved {deserved}, asks {request}");
    }
}

/// How many of the first `count` tasks of a queue are reclaimable for task `by-0`.
fn victims(cluster: &Cluster, levels: i64, of: &str, count: u32) -> usize {
    let of: Vec<TaskId> = (0..count).map(|index| task_of(cluster, &format!("{of}-{index}"))).collect();
    let evict = eviction(EvictionKind::Reclaim, task_of(cluster, "by-0"));
    plugin(cluster, true, levels).evictable(cluster, evict, &of).unwrap().len()
}

#[test]
fn reclaim_leaves_a_queue_its_deserved_and_its_guarantee() {
    for (what, queues, levels, expected) in [
        ("nothing deserved: all", vec!["by:||cpu=4", "a"], 0, 5),
        ("down to what it deserves", vec!["by:||cpu=4", "a:||cpu=2"], 0, 3),
        ("down to what it is guaranteed", vec!["by:||cpu=4", "a:|cpu=3"], 0, 2),
        ("deserves another resource: all", vec!["by:||cpu=4", "a:||memory=1Gi"], 0, 5),
        ("its parent's guarantee", vec!["by:||cpu=4", "p:|cpu=4", "a < p"], 0, 1),
        ("the guarantee of a common parent", vec!["p:|cpu=4", "by < p:||cpu=4", "a < p"], 0, 5),
        ("its parent has no more than it deserves", vec!["by:||cpu=4", "p:||cpu=5", "a < p:||cpu=1"], 1, 0),
        ("its parent has more than it deserves", vec!["by:||cpu=4", "p:||cpu=3", "a < p:||cpu=1"], 1, 2),
        ("the same with ancestorReclaimLevel 0", vec!["by:||cpu=4", "p:||cpu=5", "a < p:||cpu=1"], 0, 4),
        ("a common parent", vec!["p:||cpu=9", "by < p:||cpu=4", "a < p:||cpu=1"], 1, 4),
        ("a common parent that alone deserves it", vec!["p:||cpu=9", "by < p", "a < p:||cpu=1"], 1, 0),
        ("siblings that deserve nothing", vec!["p:||cpu=9", "by < p", "a < p"], 1, 0),
        ("the same with ancestorReclaimLevel 0", vec!["p:||cpu=9", "by < p", "a < p"], 0, 5),
    ] {
        let cluster = cluster(9, &queues, &[("by", 0, 1), ("a", 5, 0)]);
        assert_eq!(victims(&cluster, levels, "a", 5), expected, "{what}");
    }
}

#[test]
fn tasks_without_a_requested_resource_are_not_reclaimed() {
    let mut cluster = cluster(9, &["by:||cpu=4", "a"], &[("by", 0, 1)]);
    fill(&mut cluster, "a", 2, 0, "memory=1Gi");
    assert_eq!(victims(&cluster, 0, "a", 2), 0);
    let (by, of) = (task_of(&cluster, "by-0"), ["a-0", "a-1"].map(|name| task_of(&cluster, name)));
    let plugin = plugin(&cluster, true, 0);
    let evictable =
        |kind| plugin.evictable(&cluster, Eviction { whole_gangs: true, ..eviction(kind, by) }, &of);
    assert_eq!(evictable(EvictionKind::Reclaim), Some(of.to_vec()));
    assert_eq!(evictable(EvictionKind::Preempt), None);
}
