//! The pools in which jobs wait, and the events that activate jobs.
use phalanx_cluster::event::{PodGroupInfo, PodInfo, PodPhase, Time};
use phalanx_core::decision::Decision;
use phalanx_core::{Pending, RetryLimits};
use phalanx_framework::conf::{ActionConf, Position, Value};

use crate::backlog::patient;
use phalanx_framework::testing::{args, group, member, node};
use phalanx_testkit::{TestCluster, helm};

fn pending(active: usize, backoff: usize, unschedulable: usize) -> Pending {
    Pending { active, backoff, unschedulable }
}

fn created(name: &str, min_member: u32, at: i64) -> PodGroupInfo {
    PodGroupInfo { created: Time(at), ..group(name, min_member) }
}

#[test]
fn a_gang_is_active_until_refused_and_again_after_a_change() {
    for patience in [RetryLimits::default(), patient()] {
        let mut test = TestCluster::new();
        test.set_retry_limits(patience);
        test.nodes(1, "cpu=2 pods=10").gang(group("large", 2), 2, "cpu=2");
        assert_eq!(test.pending(), pending(1, 0, 0), "it was not tried yet");
        test.run();
        assert_eq!(test.pending(), pending(0, 0, 1));
        test.add(node("n1", "cpu=2 pods=10"));
        assert_eq!(test.run().bound_of("large"), 2);
        assert_eq!(test.pending(), pending(0, 0, 0));
    }
}

#[test]
fn a_job_whose_search_had_no_steps_left_stays_active() {
    let mut conf = helm();
    conf.actions.push("preempt".into());
    let args = args(&[("maxSteps", Value::Int(1))]);
    conf.configurations.push(ActionConf { name: "preempt".into(), args, at: Position::default() });
    let mut test = TestCluster::with(conf);
    test.nodes(1, "cpu=2 pods=10").gang(group("runs", 1), 2, "cpu=1");
    test.run();
    test.gang(created("a", 1, 1), 1, "cpu=1").gang(created("b", 1, 2), 1, "cpu=1");
    test.cycle();
    assert_eq!(test.pending(), pending(1, 0, 1), "the first one's search took all steps");
}

#[test]
fn room_of_a_gang_that_gave_up_its_reservation_goes_to_an_unschedulable_job() {
    let mut test = TestCluster::new();
    test.set_retry_limits(patient());
    test.nodes(1, "cpu=2 pods=10").gang(group("runs", 1), 2, "cpu=1");
    test.run();
    for pod in ["runs-0", "runs-1"] {
        test.change(pod, |pod| pod.life.deleting = true);
    }
    test.gang(created("first", 2, 1), 2, "cpu=1").gang(created("second", 1, 2), 1, "cpu=1");
    let nominated = test.cycle().nominated;
    assert_eq!(nominated.keys().collect::<Vec<_>>(), ["first-0", "first-1"]);
    test.gone("first-1");
    let mut nominated = Vec::new();
    let mut nominates = |decisions: &[Decision]| {
        let node = |it: &Decision| match it {
            Decision::Nominate { pod, node: Some(_) } => Some(pod.name.to_string()),
            _ => None,
        };
        nominated.extend(decisions.iter().filter_map(node));
    };
    let wake = test.hand_outs(&mut nominates);
    if wake.is_some_and(|wake| wake <= test.now()) {
        test.hand_outs(&mut nominates);
    }
    assert_eq!(nominated, ["second-0"], "at once, for room was given back");
}

/// A gang of high priority that needs freed room and the reservation of a gang of low priority.
#[test]
fn room_reserved_for_a_gang_of_lower_priority_activates_an_unschedulable_gang() {
    for patience in [RetryLimits::unlimited(), patient()] {
        let mut test = TestCluster::new();
        test.set_retry_limits(patience);
        test.add(phalanx_cluster::event::Event::PriorityClass {
            name: "high".into(),
            value: 10,
            global_default: false,
        });
        test.nodes(1, "cpu=3 pods=10").gang(group("runs", 1), 3, "cpu=1");
        test.run();
        let high = Some("high".into());
        test.add(PodGroupInfo { priority_class: high.clone(), ..group("large", 3) });
        for at in 0..3 {
            test.add(PodInfo { priority_class: high.clone(), ..member("large", at, "cpu=1") });
        }
        test.gang(group("small", 2), 2, "cpu=1");
        for pod in ["runs-0", "runs-1"] {
            test.change(pod, |pod| pod.life.deleting = true);
        }
        assert_eq!(test.cycle().nominated.len(), 2, "the small one waits for two");
        test.change("runs-2", |pod| pod.life.phase = PodPhase::Succeeded);
        let nominated = test.cycle().nominated;
        let places = nominated.iter().filter(|(_, node)| node.is_some()).map(|(pod, _)| pod.as_str());
        assert_eq!(places.collect::<Vec<_>>(), ["large-0", "large-1", "large-2"]);
    }
}

#[test]
fn a_flush_activates_the_longest_waiting_jobs_up_to_its_limit() {
    let mut test = TestCluster::new();
    test.set_retry_limits(RetryLimits {
        all_up_to: 0,
        flush_ms: 5_000,
        flushed_per_cycle: 2,
        ..RetryLimits::default()
    });
    test.nodes(1, "cpu=1 pods=10");
    for at in 0..5 {
        test.gang(created(&format!("g{at}"), 1, at), 1, "cpu=9");
    }
    test.cycle();
    let told = |test: &TestCluster| {
        (0..5).filter(|at| test.reasons(&format!("g{at}")).iter().any(|it| it.contains("/2 nodes"))).count()
    };
    // The freed room fits no job: no job is activated.
    test.add(node("n1", "cpu=1 pods=10"));
    let looked_at: Vec<usize> = (0..8)
        .map(|_| {
            test.cycle();
            told(&test)
        })
        .collect();
    assert_eq!(looked_at, [0, 0, 0, 0, 2, 4, 5, 5]);
}
