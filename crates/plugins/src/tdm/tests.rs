use super::disruption_budget::evictable_pods;
use super::*;
use phalanx_cluster::annotation::{JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE};
use phalanx_cluster::event::{Constraints, Event, NodeInfo, PodGroupInfo, PodInfo};
use phalanx_framework::conf::Value;
use phalanx_framework::testing::{
    cluster_of, eviction, group, job_of, member, node, opened, pod, running, task_of,
};

const HOUR: i64 = 60 * MINUTE_MS;

fn zones() -> Vec<(&'static str, Value)> {
    vec![("tdm.revocable-zone.day", "10:00-21:00".into()), ("tdm.revocable-zone.night", "22:00-6:00".into())]
}

fn open(cluster: &Cluster, now: i64) -> Tdm {
    opened(Tdm::open, cluster, Time(now), &zones())
}

fn lent(name: &str, zone: &str) -> NodeInfo {
    let mut info = node(name, "cpu=10");
    info.labels.push((REVOCABLE_ZONE.into(), zone.into()));
    info
}

fn revocable(pod: PodInfo) -> PodInfo {
    PodInfo { constraints: Arc::new(Constraints { revocable: true, ..Constraints::default() }), ..pod }
}

fn names(cluster: &Cluster, tasks: &[TaskId]) -> String {
    tasks.iter().map(|task| &*cluster.tasks[*task].pod.name).collect::<Vec<_>>().join(" ")
}

#[test]
fn zones_and_offsets_are_times_of_day() {
    for (text, expected) in [
        ("10:00-21:30", Some((10 * 60, 21 * 60 + 30))),
        (" 0:00-23:59 ", Some((0, 23 * 60 + 59))),
        ("10:00", None),
        ("10:00-24:00", None),
        ("10:60-11:00", None),
        ("10:0-11:00", None),
        ("+9:00-11:00", None),
        ("", None),
    ] {
        let minutes = ZoneHours::parse(text).map(|zone| (zone.from_ms / MINUTE_MS, zone.to_ms / MINUTE_MS));
        assert_eq!(minutes, expected, "{text:?}");
    }
    for (text, expected) in [("+08:00", Some(480)), ("-03:30", Some(-210)), ("0:00", Some(0)), ("CET", None)]
    {
        assert_eq!(utc_offset(text).map(|offset| offset / MINUTE_MS), expected, "{text}");
    }
}

#[test]
fn revocable_nodes_are_usable_during_the_hours_of_their_zone() {
    let mut cluster =
        cluster_of([lent("d", "day"), lent("n", "night"), lent("x", "other"), node("own", "cpu=10")]);
    cluster.apply(revocable(pod("guest", "cpu=1")).into());
    cluster.apply(pod("plain", "cpu=1").into());
    let usable = |pod: &str, now: i64| {
        let (plugin, mut rules) = (open(&cluster, now), NodeRules::default());
        plugin.task_filters(&cluster, task_of(&cluster, pod), &mut rules);
        plugin.task_scorers(&cluster, task_of(&cluster, pod), &mut rules);
        let fits = |node: &&Node| rules.filters.iter().all(|filter| filter(node).is_ok());
        let score = |node: &Node| rules.scorers.iter().fold(0.0, |sum, scorer| sum + scorer.score(node));
        let nodes = cluster.nodes.iter().map(|(_, node)| node).filter(fits);
        nodes.map(|node| format!("{}={}", node.name, score(node))).collect::<Vec<_>>().join(" ")
    };
    for (hour, guest) in
        [(12, "d=100 own=0"), (23, "n=100 own=0"), (3, "n=100 own=0"), (8, "own=0"), (21, "d=100 own=0")]
    {
        assert_eq!(usable("guest", 5 * DAY_MS + hour * HOUR), guest, "at {hour}");
        assert_eq!(usable("plain", hour * HOUR), "own=0", "at {hour}");
    }
    assert_eq!(open(&cluster, HOUR).scope, open(&cluster, 2 * HOUR).scope);
    assert_ne!(open(&cluster, HOUR).scope, open(&cluster, 12 * HOUR).scope);
}

#[test]
fn the_utc_offset_shifts_the_hours() {
    let cluster = cluster_of::<Event>([]);
    let at = |offset: &str, hour: i64| {
        let mut list = zones();
        list.push((OFFSET, offset.into()));
        opened(Tdm::open, &cluster, Time(hour * HOUR), &list).zones["day"].is_open
    };
    assert_eq!(
        [at("+00:00", 3), at("+08:00", 3), at("-08:00", 7), at("-08:00", 20)],
        [false, true, false, true]
    );
}

#[test]
fn pods_are_evicted_after_the_hours_within_their_budget() {
    let with = |annotations: &[(&str, &str)]| PodGroupInfo {
        annotations: annotations.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        ..group("g", 1)
    };
    for (annotations, expected) in [
        (vec![], "g-0"),
        (vec![(JDB_MAX_UNAVAILABLE, "2")], "g-0 g-1"),
        (vec![(JDB_MAX_UNAVAILABLE, "30%")], "g-0 g-1"),
        (vec![(JDB_MAX_UNAVAILABLE, "0")], ""),
        (vec![(JDB_MIN_AVAILABLE, "3")], "g-0"),
        (vec![(JDB_MIN_AVAILABLE, "50%")], "g-0 g-1"),
        (vec![(JDB_MIN_AVAILABLE, "9")], ""),
        (vec![(JDB_MIN_AVAILABLE, "4"), (JDB_MAX_UNAVAILABLE, "4")], ""),
    ] {
        let mut cluster = cluster_of([lent("d", "day"), node("own", "cpu=10")]);
        cluster.apply(with(&annotations).into());
        for index in 0..4 {
            cluster.apply(running(member("g", index, "cpu=1"), "d").into());
        }
        let fixed = PodInfo { preemptable: Some(false), ..member("h", 0, "cpu=1") };
        cluster.apply(running(fixed, "d").into());
        cluster.apply(running(member("h", 1, "cpu=1"), "own").into());
        let all: Vec<TaskId> = cluster.tasks.ids().collect();
        let victims = |hour: i64| names(&cluster, &open(&cluster, hour * HOUR).victims(&cluster, &all));
        assert_eq!(victims(9), expected, "{annotations:?}");
        assert_eq!(victims(12), "", "during the hours");
    }
}

#[test]
fn missing_pods_count_against_max_unavailable() {
    let mut cluster = cluster_of([PodGroupInfo {
        annotations: [(JDB_MAX_UNAVAILABLE.into(), "3".into())].into_iter().collect(),
        ..group("g", 1)
    }]);
    cluster.apply(running(member("g", 0, "cpu=1"), "n").into());
    cluster.apply(member("g", 1, "cpu=1").into());
    assert_eq!(evictable_pods(&cluster.jobs[job_of(&cluster, "g")]), 2);
}

#[test]
fn pods_are_evicted_once_in_a_period() {
    let cluster = cluster_of::<Event>([]);
    let at = |before: Option<i64>, now: i64| {
        let args = phalanx_framework::testing::args(&[(PERIOD, "10s".into())]);
        let (flags, before) = (phalanx_framework::conf::Flags::default(), before.map(Time));
        Tdm::open(PluginContext {
            cluster: &cluster,
            args: &args,
            flags,
            now: Time(now),
            before,
            extender: None,
        })
        .evicts
    };
    assert!(at(None, 5));
    assert!(!at(Some(11_000), 19_999));
    assert!(at(Some(19_999), 20_000) && at(Some(1), 99_000));
}

#[test]
fn jobs_that_are_not_preemptable_go_first_and_preempt_on_other_nodes() {
    let mut cluster = cluster_of([lent("d", "day"), node("own", "cpu=10")]);
    cluster.apply(PodGroupInfo { preemptable: Some(true), ..group("low", 1) }.into());
    cluster.apply(PodGroupInfo { preemptable: Some(false), ..group("high", 1) }.into());
    for (index, on) in [(0, "own"), (1, "own"), (2, "d")] {
        cluster.apply(running(member("low", index, "cpu=1"), on).into());
    }
    let firm = |pod: PodInfo| PodInfo { preemptable: Some(false), ..pod };
    cluster.apply(firm(member("high", 0, "cpu=1")).into());
    let plugin = open(&cluster, 0);
    let (low, high) = (job_of(&cluster, "low"), job_of(&cluster, "high"));
    assert_eq!(plugin.job_order(&cluster, high, low), Ordering::Less);
    assert_eq!(
        (plugin.job_starving(&cluster, high), plugin.job_starving(&cluster, low)),
        (Some(true), Some(false))
    );
    let all: Vec<TaskId> = cluster.tasks.ids().collect();
    let victims = |by: &str| {
        names(
            &cluster,
            &plugin
                .evictable(&cluster, eviction(EvictionKind::Preempt, task_of(&cluster, by)), &all)
                .unwrap(),
        )
    };
    assert_eq!(victims("high-0"), "low-0", "one pod without a budget, none on a revocable node");
    assert_eq!(victims("low-0"), "");
    assert_eq!(plugin.job_pipelined(&cluster, high), Vote::Reject);
    assert_eq!(plugin.job_pipelined(&cluster, low), Vote::Permit);
}

#[test]
fn the_next_cycle_comes_when_the_hours_of_a_zone_begin_or_end() {
    let cluster = cluster_of([lent("d", "day")]);
    let wake = |cluster: &Cluster, now: i64| open(cluster, now).wake(cluster).map(|time| time.0);
    assert_eq!(wake(&cluster, 9 * HOUR), Some(10 * HOUR));
    assert_eq!(wake(&cluster, 10 * HOUR), Some(21 * HOUR + 1));
    assert_eq!(wake(&cluster, 23 * HOUR), Some(DAY_MS + 6 * HOUR + 1));
    assert_eq!(wake(&cluster_of([node("own", "cpu=1")]), 9 * HOUR), None);
    let mut late = cluster.clone();
    late.apply(running(member("g", 0, "cpu=1"), "d").into());
    assert_eq!(wake(&late, 9 * HOUR + 5), Some(9 * HOUR + MINUTE_MS), "a pod has to leave");
}
