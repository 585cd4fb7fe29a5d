//! Pods without a PodGroup beside a controller that puts them into one, as Volcano's does.
use phalanx_cluster::GroupWait;
use phalanx_cluster::event::{Dequeue, Event, Key, PodGroupInfo, PodInfo, QueueInfo, Time};
use phalanx_core::RetryLimits;
use phalanx_core::decision::Decision;

use phalanx_framework::testing::{group, member, node, pod, queue};
use phalanx_testkit::TestCluster;

const WAIT: i64 = 30_000;
const REASON: &str = "waits for the PodGroup controller to put it into a PodGroup (annotation scheduling.k8s.io/group-name), \
                      for 30s from its creation at most";

/// A PodGroup that a PodGroup controller made.
fn made(name: &str, min_member: u32) -> PodGroupInfo {
    PodGroupInfo { made_for_pods: true, ..group(name, min_member) }
}

/// A pod without a PodGroup that was created at this time.
fn plain(name: &str, created: i64) -> PodInfo {
    PodInfo { created: Time(created), ..pod(name, "cpu=1") }
}

/// Whether a note says that the pod waited for a PodGroup that was not created.
fn ungrouped(decisions: &[Decision]) -> bool {
    decisions.iter().any(|decision| matches!(decision, Decision::PodUngrouped { .. }))
}

/// Clusters in which a waiting pod is tried in each cycle, and clusters in which it is unschedulable.
fn clusters(wait: GroupWait) -> impl Iterator<Item = TestCluster> {
    [RetryLimits::unlimited(), RetryLimits { all_up_to: 0, ..RetryLimits::default() }].into_iter().map(
        move |patience| {
            let mut test = TestCluster::awaiting(wait);
            test.set_retry_limits(patience);
            test
        },
    )
}

#[test]
fn pods_wait_until_the_controller_has_created_their_podgroup() {
    for mut test in clusters(GroupWait::IfSeen(WAIT)) {
        test.nodes(1, "cpu=6").add(made("podgroup-other", 1));
        for index in 0..8 {
            test.add(plain(&format!("web-{index}"), 0));
        }
        assert_eq!(test.cycle().bound.len(), 0);
        assert_eq!(test.reasons("web-0"), [REASON]);
        test.add(made("podgroup-web", 8));
        for index in 0..8 {
            assert_eq!(test.cycle().bound.len(), 0, "{index} pods have their annotation");
            test.change(&format!("web-{index}"), |pod| pod.group = Some("podgroup-web".into()));
        }
        assert_eq!(test.cycle().bound.len(), 0, "there is room for 6");
        test.add(node("more", "cpu=2"));
        assert_eq!(test.cycle().units, [8]);
    }
}

/// Who may create PodGroups in one namespace could forge one.
#[test]
fn a_podgroup_of_another_namespace_makes_no_pod_wait() {
    for mut test in clusters(GroupWait::IfSeen(WAIT)) {
        let key = Key::new("other", "podgroup-x");
        test.nodes(1, "cpu=6").add(PodGroupInfo { key, ..made("podgroup-x", 1) }).add(plain("web", 0));
        assert_eq!(test.cycle().bound.len(), 1);
    }
}

#[test]
fn a_controller_that_is_seen_before_its_first_podgroup_counts() {
    for mut test in clusters(GroupWait::IfSeen(WAIT)) {
        test.nodes(1, "cpu=6").add(plain("web", 0));
        test.add(Event::GroupController);
        assert_eq!(test.cycle().bound.len(), 0);
        assert_eq!(test.reasons("web"), [REASON]);
    }
}

#[test]
fn a_wait_without_limit_ends_with_a_podgroup_only() {
    for mut test in clusters(GroupWait::Always(i64::MAX)) {
        test.nodes(1, "cpu=6").add(plain("web", 0));
        assert_eq!(test.hand_outs(&mut |_: &[Decision]| ()), None, "no time ends the wait");
        test.now = Time(1_000_000_000);
        assert_eq!(test.cycle().bound.len(), 0);
        assert_eq!(test.reasons("web"), [REASON.split(", for 30s").next().unwrap_or_default()]);
        test.add(made("podgroup-web", 1));
        test.change("web", |pod| pod.group = Some("podgroup-web".into()));
        assert_eq!(test.cycle().units, [1]);
    }
}

#[test]
fn a_pod_is_scheduled_when_its_wait_for_a_podgroup_ends() {
    for mut test in clusters(GroupWait::Always(WAIT)) {
        test.now = Time(5_000);
        test.nodes(1, "cpu=6").add(plain("web", 5_000));
        let (mut binds, mut told) = (0, Vec::new());
        let mut count = |all: &[Decision]| {
            binds += all.iter().filter(|decision| matches!(decision, Decision::Bind { .. })).count();
            told.extend(all.iter().filter_map(|decision| match decision {
                Decision::PodUngrouped { pod, message } => Some(format!("{pod}: {message}")),
                _ => None,
            }));
        };
        assert_eq!(test.hand_outs(&mut count), Some(Time(35_000)));
        test.now = Time(33_999);
        assert_eq!(test.hand_outs(&mut count), Some(Time(35_000)), "it is not over yet");
        test.hand_outs(&mut count);
        assert_eq!(binds, 1, "at 35s");
        let expected = "ns/web: the PodGroup controller did not put it into a PodGroup (annotation \
                        scheduling.k8s.io/group-name) within 30s from its creation, so it is a gang of one";
        assert_eq!(told, [expected]);
    }
}

#[test]
fn pods_are_scheduled_at_once_where_no_controller_was_seen() {
    for (wait, first) in [
        (GroupWait::Never, made("podgroup-other", 1)),
        (GroupWait::IfSeen(WAIT), group("mine", 1)),
        (GroupWait::IfSeen(0), made("podgroup-other", 1)),
    ] {
        for mut test in clusters(wait) {
            test.nodes(1, "cpu=6").add(first.clone()).add(plain("web", 0));
            let cycle = test.cycle();
            assert_eq!(cycle.names(), ["web"], "{wait:?}");
            assert!(!ungrouped(&cycle.decisions), "{wait:?}");
        }
    }
}

#[test]
fn pods_with_a_podgroup_wait_for_no_controller() {
    for mut test in clusters(GroupWait::Always(WAIT)) {
        test.nodes(1, "cpu=6").gang(group("g", 2), 2, "cpu=1");
        let cycle = test.cycle();
        assert_eq!(cycle.names(), ["g-0", "g-1"]);
        assert!(!ungrouped(&cycle.decisions));
    }
}

#[test]
fn a_pod_without_room_waits_for_the_controller_that_appears_later() {
    for mut test in clusters(GroupWait::IfSeen(WAIT)) {
        test.nodes(1, "cpu=0").add(plain("web", 0));
        test.cycle();
        assert_ne!(test.reasons("web"), [REASON]);
        test.add(made("podgroup-other", 1)).add(node("more", "cpu=2"));
        assert_eq!(test.cycle().bound.len(), 0);
        assert_eq!(test.reasons("web"), [REASON]);
    }
}

#[test]
fn a_pod_that_waits_for_the_controller_does_not_delay_other_pods() {
    for mut test in clusters(GroupWait::Always(WAIT)) {
        test.add(QueueInfo { dequeue: Dequeue::Fifo, ..queue("default", 1) });
        test.nodes(1, "cpu=1").add(plain("first", 0)).add(group("g", 1));
        test.add(PodInfo { created: Time(1), ..member("g", 0, "cpu=1") });
        assert_eq!(test.cycle().names(), ["g-0"]);
    }
}
