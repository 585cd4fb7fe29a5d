use phalanx_resource::{Amounts, DimId, InitContainer, PodResources};
use proptest::prelude::*;

use crate::{amounts, any_amounts};

fn init(values: &[i64]) -> InitContainer {
    InitContainer { request: amounts(values), sidecar: false }
}

fn sidecar(values: &[i64]) -> InitContainer {
    InitContainer { request: amounts(values), sidecar: true }
}

fn pod(containers: &[&[i64]], init: Vec<InitContainer>) -> PodResources {
    let containers = containers.iter().map(|values| amounts(values)).collect();
    PodResources { containers, init, ..PodResources::default() }
}

#[test]
fn a_request_is_the_maximum_of_containers_and_each_init_step() {
    let cases = [
        ("nothing but a place", pod(&[], vec![]), [0, 0]),
        ("containers are added up", pod(&[&[1, 2], &[3]], vec![]), [4, 2]),
        ("a smaller init step is covered", pod(&[&[4, 4]], vec![init(&[3]), init(&[4])]), [4, 4]),
        ("init steps follow each other", pod(&[&[1]], vec![init(&[3, 1]), init(&[2, 5])]), [3, 5]),
        ("a sidecar stays", pod(&[&[2, 2]], vec![sidecar(&[1, 1])]), [3, 3]),
        ("sidecars before a step are there", pod(&[&[1]], vec![sidecar(&[2]), init(&[4, 1])]), [6, 1]),
        ("sidecars after a step are not", pod(&[&[1]], vec![init(&[4, 1]), sidecar(&[2])]), [4, 1]),
        (
            "sidecars pile up",
            pod(&[&[1]], vec![sidecar(&[2]), init(&[1]), sidecar(&[3]), init(&[4]), sidecar(&[1])]),
            [9, 0],
        ),
    ];
    for (name, pod, [cpu, memory]) in cases {
        assert_eq!(pod.total(), amounts(&[cpu, memory, 1]), "{name}");
    }
}

#[test]
fn overhead_is_added_to_the_request() {
    let mut pod = pod(&[&[1, 1]], vec![init(&[3])]);
    pod.overhead = amounts(&[10, 20]);
    assert_eq!(pod.total(), amounts(&[13, 21, 1]));
}

#[test]
fn pod_level_requests_replace_those_of_containers() {
    let mut pod = pod(&[&[1, 1, 0, 7]], vec![init(&[3])]);
    pod.pod_level = Some(amounts(&[8]));
    assert_eq!(pod.total(), amounts(&[8, 1, 1, 7]), "memory and storage are still the containers'");
    pod.overhead = amounts(&[1]);
    assert_eq!(pod.total(), amounts(&[9, 1, 1, 7]), "overhead is on top of the pod level");
    pod.pod_level = Some(Amounts::new());
    assert_eq!(pod.total(), amounts(&[4, 1, 1, 7]));
}

#[test]
fn a_pod_requests_one_of_pods_whatever_its_spec_says() {
    let pod = pod(&[&[1, 1, 5]], vec![]);
    assert_eq!(pod.total().get(DimId::PODS), 1);
}

fn any_init() -> impl Strategy<Value = InitContainer> {
    (any_amounts(0..=9), any::<bool>()).prop_map(|(request, sidecar)| InitContainer { request, sidecar })
}

prop_compose! {
    fn any_pod()(
        containers in proptest::collection::vec(any_amounts(0..=9), 0..4),
        init in proptest::collection::vec(any_init(), 0..5),
        overhead in any_amounts(0..=9),
    ) -> PodResources {
        PodResources { containers, init, overhead, pod_level: None }
    }
}

/// What runs at one moment of the pod's start, and at last all containers.
fn moments(pod: &PodResources) -> Vec<Vec<&Amounts>> {
    let before = |step: usize| pod.init[..step].iter().filter(|i| i.sidecar).map(|i| &i.request);
    let steps = pod.init.iter().enumerate();
    let mut moments: Vec<Vec<_>> =
        steps.map(|(i, init)| before(i).chain([&init.request]).collect()).collect();
    moments.push(before(pod.init.len()).chain(&pod.containers).collect());
    moments
}

proptest! {
    #[test]
    fn the_request_covers_each_step_of_the_start(pod in any_pod()) {
        let total = pod.total();
        for dim in (0..9).map(DimId).filter(|&dim| dim != DimId::PODS) {
            let need = |running: Vec<&Amounts>| running.iter().map(|a| a.get(dim)).sum::<i64>();
            let worst = moments(&pod).into_iter().map(need).max().unwrap_or(0);
            prop_assert_eq!(total.get(dim), worst + pod.overhead.get(dim));
        }
    }

    #[test]
    fn a_request_does_not_depend_on_the_order_of_containers((pod, shuffled) in any_pod().prop_flat_map(|pod| {
        let containers = Just(pod.containers.clone()).prop_shuffle();
        (Just(pod.clone()), containers.prop_map(move |containers| PodResources { containers, ..pod.clone() }))
    })) {
        prop_assert_eq!(pod.total(), shuffled.total());
    }
}
