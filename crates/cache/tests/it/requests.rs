//! Requests of containers.

use std::sync::Arc;

use phalanx_cluster::event::PodRequests;

use crate::{pod, pod_spec, shown, try_pod};

fn requests(spec: &str) -> Arc<PodRequests> {
    pod(&pod_spec(spec)).requests
}

#[test]
fn limits_stand_in_for_missing_requests() {
    for (resources, expected) in [
        ("{}", ""),
        ("{requests: {cpu: 500m, memory: 1G}}", "cpu=500m memory=1G"),
        ("{requests: {cpu: 0.5, memory: 1e9}, limits: null}", "cpu=500m memory=1G"),
        ("{limits: {nvidia.com/gpu: 2, cpu: 1}}", "cpu=1 nvidia.com/gpu=2"),
        ("{requests: {cpu: 1}, limits: {cpu: 4, nvidia.com/gpu: '1'}}", "cpu=1 nvidia.com/gpu=1"),
        ("{requests: {cpu: 0}, limits: {cpu: 4}}", "cpu=0"),
        ("null", ""),
    ] {
        let requests = requests(&format!("containers: [{{name: c, resources: {resources}}}]"));
        assert_eq!(shown(&requests.containers[0]), expected, "{resources}");
    }
}

#[test]
fn requests_of_containers_init_containers_and_overhead_are_kept_apart() {
    let requests = requests(
        "
containers:
- {name: a, resources: {requests: {cpu: 1}}}
- {name: b}
initContainers:
- {name: first, resources: {limits: {cpu: 3}}}
- {name: side, restartPolicy: Always, resources: {requests: {memory: 1k}}}
- {name: other, restartPolicy: OnFailure}
overhead: {cpu: 10m}",
    );
    assert_eq!(requests.containers.iter().map(shown).collect::<Vec<_>>(), ["cpu=1", ""]);
    let init: Vec<_> = requests.init.iter().map(|(list, sidecar)| (shown(list), *sidecar)).collect();
    assert_eq!(init, [("cpu=3".to_owned(), false), ("memory=1k".to_owned(), true), (String::new(), false)]);
    assert_eq!(shown(&requests.overhead), "cpu=10m");
    assert_eq!(requests.pod_level, None);
}

#[test]
fn a_pod_level_limit_counts_for_resources_that_no_container_requests() {
    for (resources, expected) in [
        ("{requests: {cpu: 3}}", Some("cpu=3")),
        ("{limits: {cpu: 8, memory: 4k}}", Some("memory=4k")),
        ("{requests: {memory: 2k}, limits: {cpu: 8, memory: 4k}}", Some("memory=2k")),
        // Kubernetes allows no other pod-level resource.
        ("{requests: {nvidia.com/gpu: 1}, limits: {hugepages-2Mi: 1M}}", Some("hugepages-2Mi=1M")),
        ("{limits: {cpu: 8}}", None),
        ("{}", None),
        ("null", None),
    ] {
        let spec = format!("resources: {resources}\ncontainers: [{{resources: {{requests: {{cpu: 1}}}}}}]");
        assert_eq!(requests(&spec).pod_level.as_ref().map(shown).as_deref(), expected, "{resources}");
    }
}

#[test]
fn a_container_being_resized_counts_with_its_largest_request() {
    let resized = |condition: &str| {
        let requests = pod(&format!(
            "
metadata: {{name: p}}
spec: {{containers: [{{name: a, resources: {{requests: {{cpu: 2, memory: 1k}}}}}}, {{name: b}}]}}
status:
  conditions: [{condition}]
  containerStatuses:
  - {{name: b}}
  - {{name: a, allocatedResources: {{cpu: 3}}, resources: {{requests: {{cpu: 1, memory: 5k}}}}}}"
        ));
        shown(&requests.requests.containers[0])
    };
    assert_eq!(resized(""), "cpu=3 memory=5k");
    assert_eq!(resized("{type: PodResizePending, status: 'True', reason: Deferred}"), "cpu=3 memory=5k");
    let unasked = pod("
metadata: {name: p}
spec: {containers: [{name: a, resources: {requests: {cpu: 9}}}]}
status:
  conditions: [{type: PodResizePending, status: 'True', reason: Infeasible}]
  containerStatuses: [{name: a, resources: {requests: {cpu: 1}}}]");
    assert_eq!(shown(&unasked.requests.containers[0]), "cpu=1", "the node cannot do what is asked for");
}

#[test]
fn an_invalid_amount_is_named_with_its_field() {
    for (spec, expected) in [
        (
            "containers: [{resources: {requests: {cpu: 1x}}}]",
            "spec.containers[0].resources.requests.cpu: quantity \"1x\": unknown suffix \"x\", expected none or one of \
             n u m k M G T P E Ki Mi Gi Ti Pi Ei, or a decimal exponent such as e3",
        ),
        (
            "containers: [{}, {resources: {limits: {nvidia.com/gpu: two}}}]",
            "spec.containers[1].resources.limits.nvidia.com/gpu: quantity \"two\": expected a number such as \"2\", \
             \"500m\" or \"1.5Gi\"",
        ),
        (
            "initContainers: [{resources: {requests: {memory: -1Ki}}}]",
            "spec.initContainers[0].resources.requests.memory: -1024 is negative, expected 0 or more",
        ),
        ("overhead: {cpu: -1}", "spec.overhead.cpu: -1 is negative, expected 0 or more"),
        (
            "resources: {limits: {cpu: ''}}",
            "spec.resources.limits.cpu: quantity \"\": expected a number such as \"2\", \"500m\" or \"1.5Gi\"",
        ),
    ] {
        let error = try_pod(&pod_spec(spec)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
