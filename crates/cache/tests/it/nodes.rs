//! Nodes and PriorityClasses.

use phalanx_cache::{Interner, Invalid, decode, priority_class, slim};
use phalanx_cluster::event::{Event, NodeInfo, TaintEffect};

use crate::{object, shown, value};

fn try_node(yaml: &str) -> Result<NodeInfo, Invalid> {
    let node: slim::Node = decode(&value(yaml))?;
    phalanx_cache::node(&node, &mut Interner::default())
}

#[test]
fn all_fields_of_a_node_are_read() {
    let node = try_node(
        "
metadata: {name: n1, labels: {zone: a, disk: ssd}}
spec: {unschedulable: true, podCIDR: 10.0.0.0/24, taints: [{key: gpu, value: x, effect: NoSchedule}, {key: k, effect: NoExecute}]}
status:
  capacity: {cpu: 8}
  allocatable: {cpu: 7500m, pods: 110, nvidia.com/gpu: '4'}
  conditions: [{type: MemoryPressure, status: 'False'}, {type: Ready, status: 'True'}]",
    )
    .unwrap();
    assert_eq!(&*node.name, "n1");
    let labels: Vec<_> = node.labels.iter().map(|(key, value)| (&**key, &**value)).collect();
    assert_eq!(labels, [("disk", "ssd"), ("zone", "a")]);
    let taints: Vec<_> = node.taints.iter().map(|one| (&*one.key, &*one.value, one.effect)).collect();
    assert_eq!(taints, [("gpu", "x", TaintEffect::NoSchedule), ("k", "", TaintEffect::NoExecute)]);
    assert!(node.unschedulable && node.ready);
    assert_eq!(shown(&node.allocatable), "cpu=7500m nvidia.com/gpu=4 pods=110");
}

#[test]
fn a_node_is_ready_by_its_condition_or_without_conditions() {
    for (conditions, ready) in [
        ("[{type: Ready, status: 'True'}]", true),
        ("[{type: Ready, status: 'False'}]", false),
        ("[{type: Ready, status: Unknown}]", false),
        ("[{type: DiskPressure, status: 'False'}]", false),
        ("[]", true),
        ("null", true),
    ] {
        let node = try_node(&format!("status: {{conditions: {conditions}}}")).unwrap();
        assert_eq!(node.ready, ready, "{conditions}");
    }
}

#[test]
fn images_are_known_by_each_of_their_names() {
    let node = try_node(
        "status: {images: [{names: ['b@sha256:1', 'b:1'], sizeBytes: 5}, {names: [a:1], sizeBytes: 7}, {names: null}]}",
    );
    let images = node.unwrap().images;
    let images: Vec<_> = images.iter().map(|(name, size)| (&**name, *size)).collect();
    assert_eq!(images, [("a:1", 7), ("b:1", 5), ("b@sha256:1", 5)]);
}

#[test]
fn a_pod_has_one_image_for_each_container() {
    for (containers, expected) in [
        ("[{name: a}, {name: b}]", &[][..]),
        ("[{name: a, image: x}, {name: b}]", &["", "x:latest"]),
        (
            "[{name: a, image: 'h:5000/x'}, {name: b, image: 'h:5000/x:1'}]",
            &["h:5000/x:1", "h:5000/x:latest"],
        ),
        ("[{name: a, image: 'x@sha256:1'}]", &["x@sha256:1"]),
    ] {
        let images =
            crate::pod(&crate::pod_spec(&format!("containers: {containers}"))).constraints.images.clone();
        assert_eq!(images.iter().map(|name| &**name).collect::<Vec<_>>(), expected, "{containers}");
    }
}

#[test]
fn an_invalid_field_of_a_node_is_named() {
    for (yaml, expected) in [
        (
            "spec: {taints: [{key: a, effect: NoSchedul}]}",
            "spec.taints[0].effect: \"NoSchedul\" is unknown, expected NoSchedule, PreferNoSchedule or NoExecute",
        ),
        (
            "status: {allocatable: {cpu: many}}",
            "status.allocatable.cpu: quantity \"many\": expected a number such as \"2\", \"500m\" or \"1.5Gi\"",
        ),
    ] {
        assert_eq!(try_node(yaml).unwrap_err().to_string(), expected);
    }
}

#[test]
fn priority_classes_are_read() {
    let class: slim::PriorityClass = object("{metadata: {name: high}, value: 1000, globalDefault: true}");
    let event = priority_class(&class, &mut Interner::default());
    assert_eq!(event, Event::PriorityClass { name: "high".into(), value: 1000, global_default: true });
    for (found, shown) in
        [("high", "\"high\""), ("1000000000000", "1000000000000"), ("1.5", "floating point `1.5`")]
    {
        let error = decode::<slim::PriorityClass>(&value(&format!("{{value: {found}}}"))).unwrap_err();
        let expected = format!("value: found {shown}, expected an integer of at most 1000000000");
        assert_eq!(error.to_string(), expected);
    }
    let system: slim::PriorityClass = object("{value: 2000001000}");
    assert_eq!(system.value, 2_000_001_000, "Kubernetes' own classes are above what users may take");
}
