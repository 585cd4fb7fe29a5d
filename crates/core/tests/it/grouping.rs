//! Pods without a PodGroup beside a controller that puts them into one, as Volcano's does.
use phalanx_cluster::GroupWait;
use phalanx_cluster::event::{Dequeue, PodGroupInfo, PodInfo, QueueInfo, Time};
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

/// In all places where a pod can wait: looked at in each cycle, or parked.
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
fn pods_wait_until_the_controller_has_made_a_gang_of_them() {
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

#[test]
fn a_pod_is_scheduled_when_the_time_is_over_though_nothing_happens() {
    for mut test in clusters(GroupWait::Always(WAIT)) {
        test.now = Time(5_000);
        test.nodes(1, "cpu=6").add(plain("web", 5_000));
        let mut binds = 0;
        let mut count = |all: &[Decision]| {
            binds += all.iter().filter(|decision| matches!(decision, Decision::Bind { .. })).count();
        };
        assert_eq!(test.hand_outs(&mut count), Some(Time(35_000)));
        test.now = Time(33_999);
        assert_eq!(test.hand_outs(&mut count), Some(Time(35_000)), "it is not over yet");
        test.hand_outs(&mut count);
        assert_eq!(binds, 1, "at 35s");
    }
}

#[test]
fn pods_are_scheduled_at_once_where_no_controller_is_at_work() {
    for (wait, first) in [
        (GroupWait::Never, made("podgroup-other", 1)),
        (GroupWait::IfSeen(WAIT), group("mine", 1)),
        (GroupWait::IfSeen(0), made("podgroup-other", 1)),
    ] {
        for mut test in clusters(wait) {
            test.nodes(1, "cpu=6").add(first.clone()).add(plain("web", 0));
            assert_eq!(test.cycle().names(), ["web"], "{wait:?}");
        }
    }
}

#[test]
fn pods_of_pod_groups_wait_for_no_controller() {
    for mut test in clusters(GroupWait::Always(WAIT)) {
        test.nodes(1, "cpu=6").gang(group("g", 2), 2, "cpu=1");
        assert_eq!(test.cycle().names(), ["g-0", "g-1"]);
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
fn a_pod_that_waits_for_the_controller_holds_up_nobody() {
    for mut test in clusters(GroupWait::Always(WAIT)) {
        test.add(QueueInfo { dequeue: Dequeue::Fifo, ..queue("default", 1) });
        test.nodes(1, "cpu=1").add(plain("first", 0)).add(group("g", 1));
        test.add(PodInfo { created: Time(1), ..member("g", 0, "cpu=1") });
        assert_eq!(test.cycle().names(), ["g-0"]);
    }
}
