//! ResourceSlices, DeviceClasses, ResourceClaims, and the claims of pods.

use phalanx_cache::{Interner, Invalid};
use phalanx_cluster::event::{ClaimInfo, DeviceValue, LeftOut, SliceInfo, SliceNodes};

use crate::{object, pod};

fn slice(spec: &str) -> Result<SliceInfo, Invalid> {
    let slice = object(&format!("metadata: {{name: s}}\nspec: {spec}"));
    phalanx_cache::resource_slice(&slice, &mut Interner::default())
}

fn claim(spec: &str, status: &str) -> ClaimInfo {
    let claim = object(&format!(
        "metadata: {{name: c, namespace: ns, uid: u}}\nspec: {{devices: {spec}}}\nstatus: {status}"
    ));
    phalanx_cache::resource_claim(&claim, &mut Interner::default()).expect("a claim")
}

const POOL: &str = "driver: gpu.x, pool: {name: p, generation: 3, resourceSliceCount: 1}";

#[test]
fn a_slice_says_on_which_nodes_its_devices_are() {
    let terms = "nodeSelectorTerms: [{matchExpressions: [{key: rack, operator: In, values: [r1]}]}]";
    for (place, expected) in
        [("nodeName: n1", SliceNodes::Node("n1".into())), ("allNodes: true", SliceNodes::All)]
    {
        let slice = slice(&format!("{{{POOL}, {place}}}")).expect("a slice");
        assert_eq!((slice.nodes, slice.generation), (expected, 3), "{place}");
    }
    let matching = slice(&format!("{{{POOL}, nodeSelector: {{{terms}}}}}")).expect("a slice");
    let SliceNodes::Matching(terms) = matching.nodes else { panic!("{:?}", matching.nodes) };
    assert_eq!((&*terms[0].labels[0].key, &*terms[0].labels[0].values[0]), ("rack", "r1"));
}

#[test]
fn devices_with_an_unsupported_feature_are_left_out() {
    for (fields, left_out) in [
        ("", None),
        ("taints: [{key: t, effect: None}]", None),
        ("taints: [{key: t, effect: NoSchedule}]", Some("taints")),
        ("taints: [{key: t, effect: NoExecute}]", Some("taints")),
        ("allowMultipleAllocations: true", Some("allowMultipleAllocations")),
        ("bindsToNode: true", Some("bindsToNode")),
        ("bindingConditions: [ready]", Some("bindingConditions")),
        ("consumesCounters: [{counterSet: s, counters: {}}]", Some("consumesCounters")),
    ] {
        let slice =
            slice(&format!("{{{POOL}, nodeName: n, devices: [{{name: d, {fields}}}]}}")).expect("a slice");
        let found = slice.devices[0].left_out.map(LeftOut::field);
        assert_eq!(found, left_out, "{fields}");
    }
}

#[test]
fn attributes_and_capacities_of_a_device_are_read() {
    let device = "{name: d, attributes: {a: {int: 4}, b: {bool: true}, c: {string: x}, d: {version: 1.2.3}}, \
                  capacity: {memory: {value: 8Gi}}}";
    let found = slice(&format!("{{{POOL}, nodeName: n, devices: [{device}]}}")).expect("a slice");
    let values: Vec<_> = found.devices[0].attributes.iter().map(|(_, value)| value.clone()).collect();
    let (text, version) = (DeviceValue::Text("x".into()), DeviceValue::Version("1.2.3".into()));
    assert_eq!(values, [DeviceValue::Int(4), DeviceValue::Bool(true), text, version]);
    assert_eq!(found.devices[0].capacity[0].1.units(), 8 << 30);
    let fault =
        slice(&format!("{{{POOL}, nodeName: n, devices: [{{name: d, capacity: {{m: {{value: 8Q}}}}}}]}}"));
    let fault = fault.expect_err("no quantity").to_string();
    assert!(
        fault
            .starts_with("spec.devices[0].capacity.m.value: quantity \"8Q\": unknown suffix \"Q\", expected"),
        "{fault}"
    );
}

/// More than 32 devices the API server cannot write into the claim.
#[test]
fn requests_of_a_claim_are_read_and_unsupported_ones_are_named() {
    for (spec, unsupported) in [
        ("{requests: [{name: r, exactly: {deviceClassName: gpu}}]}", None),
        (
            "{requests: [{name: r, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 2}}]}",
            None,
        ),
        ("{requests: [{name: r, firstAvailable: []}]}", Some("request r: firstAvailable")),
        (
            "{requests: [{name: r, exactly: {deviceClassName: gpu, adminAccess: true}}]}",
            Some("request r: adminAccess"),
        ),
        (
            "{requests: [{name: r, exactly: {deviceClassName: gpu, allocationMode: All}}]}",
            Some("request r: an allocationMode other than ExactCount"),
        ),
        (
            "{requests: [{name: r, exactly: {deviceClassName: gpu, count: -1}}]}",
            Some("request r: a count below 1"),
        ),
        (
            "{requests: [{name: r, exactly: {deviceClassName: gpu, count: 30}}, {name: s, exactly: {deviceClassName: gpu, count: 2}}]}",
            None,
        ),
        (
            "{requests: [{name: r, exactly: {deviceClassName: gpu, count: 30}}, {name: s, exactly: {deviceClassName: gpu, count: 3}}]}",
            Some("request s: more than 32 devices in a claim"),
        ),
        (
            "{requests: [{name: r, exactly: {deviceClassName: gpu, count: 4294967295}}, {name: s, exactly: {deviceClassName: gpu, count: 2}}]}",
            Some("request r: more than 32 devices in a claim"),
        ),
        (
            "{requests: [{name: r, exactly: {deviceClassName: gpu}}], constraints: [{matchAttribute: a/b}]}",
            Some("constraints"),
        ),
    ] {
        assert_eq!(claim(spec, "{}").unsupported.as_deref(), unsupported, "{spec}");
    }
    let two = claim("{requests: [{name: r, exactly: {deviceClassName: gpu, count: 2}}]}", "{}");
    assert_eq!((two.requests[0].count, &*two.requests[0].class, two.allocation), (2, "gpu", None));
}

#[test]
fn devices_allocated_with_admin_access_are_not_counted() {
    let given = claim(
        "{}",
        "{allocation: {devices: {results: [{request: r, driver: gpu.x, pool: p, device: d0}, \
         {request: r, driver: gpu.x, pool: p, device: d1, adminAccess: true}]}}, \
         reservedFor: [{resource: pods, name: a, uid: ua}, {apiGroup: x, resource: jobs, name: b, uid: ub}]}",
    );
    let allocation = given.allocation.expect("an allocation");
    let devices: Vec<_> = allocation.devices.iter().map(|given| &*given.device.device).collect();
    assert_eq!((devices, allocation.nodes), (vec!["d0"], None));
    assert_eq!(given.reserved.iter().map(|uid| &**uid).collect::<Vec<_>>(), ["ua"]);
}

#[test]
fn claims_of_a_pod_are_named_or_made_from_a_template() {
    let info = pod("
metadata: {name: p, namespace: team, uid: u}
spec:
  schedulerName: volcano
  resourceClaims:
  - {name: a, resourceClaimName: shared}
  - {name: b, resourceClaimTemplateName: t}
  - {name: c, resourceClaimTemplateName: t}
  - {name: d, resourceClaimTemplateName: t}
status:
  resourceClaimStatuses: [{name: b, resourceClaimName: p-b-x}, {name: d}]");
    let claims = info.claims.expect("claims");
    let claims: Vec<_> = claims.iter().map(|it| (&*it.name, it.claim.as_deref())).collect();
    assert_eq!(claims, [("a", Some("shared")), ("b", Some("p-b-x")), ("c", None)]);
}
