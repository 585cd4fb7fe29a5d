//! Manifests and stored objects as Volcano's users and controllers write them.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use phalanx_api::topology::HyperNode;
use phalanx_api::v1beta1::{
    DequeueStrategy, NetworkTopologyMode, PodGroup, PodGroupConditionType, PodGroupPhase, PodGroupSpec,
    Queue, QueueSpec, QueueState,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const POD_GROUP: &str = r#"
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata:
  name: training
  namespace: vision
  labels: {app: resnet}
  annotations: {volcano.sh/preemptable: "true"}
  creationTimestamp: "2026-02-03T04:05:06Z"
  uid: 0b7dcf19-54b2-4d2e-9c33-0c6f2a6a8f7b
  resourceVersion: "4711"
  generation: 3
spec:
  minMember: 5
  minTaskMember: {ps: 1, worker: 4}
  queue: vision.research
  priorityClassName: urgent
  minResources: {cpu: "20", memory: 80Gi, nvidia.com/gpu: "4"}
  networkTopology: {mode: soft, highestTierAllowed: 2}
  subGroupPolicy:
  - name: workers
    networkTopology: {mode: hard, highestTierName: rack}
    subGroupSize: 2
    minSubGroups: 2
    labelSelector:
      matchLabels: {role: worker}
      matchExpressions: [{key: zone, operator: In, values: [a, b]}]
    matchLabelKeys: [volcano.sh/partition-id]
status:
  phase: Inqueue
  running: 1
  succeeded: 2
  failed: 3
  conditions:
  - type: Unschedulable
    status: "True"
    transitionID: 6f1f5c0e-7f0b-44b6-a4e8-6c1e1cbb4f55
    lastTransitionTime: "2026-02-03T04:06:00Z"
    reason: NotEnoughResources
    message: 2/5 tasks in gang unschedulable
"#;

const QUEUE: &str = r#"
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: vision.research
  annotations: {volcano.sh/hierarchy: root/vision/research, volcano.sh/hierarchy-weights: 1/2/8}
spec:
  weight: 8
  capability: {cpu: "100", memory: 400Gi, nvidia.com/gpu: "16"}
  reclaimable: false
  extendClusters:
  - name: burst
    weight: 2
    capacity: {cpu: 1k}
  guarantee: {resource: {cpu: "10"}}
  affinity:
    nodeGroupAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: [gpu]
      preferredDuringSchedulingIgnoredDuringExecution: [gpu-new]
    nodeGroupAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: [infra]
      preferredDuringSchedulingIgnoredDuringExecution: [cpu]
  type: gpu
  parent: vision
  deserved: {cpu: "50", nvidia.com/gpu: "8"}
  priority: 7
  dequeueStrategy: fifo
status:
  state: Closing
  unknown: 1
  pending: 2
  running: 3
  inqueue: 4
  completed: 5
  reservation:
    nodes: [n1, n2]
    resource: {cpu: "8"}
  allocated: {cpu: 1500m, memory: 3Gi, pods: "3"}
"#;

/// The API server takes one field of each selector; decoding takes them all.
const HYPER_NODE: &str = r#"
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata:
  name: rack-1
  labels: {volcano.sh/network-topology-source: label}
spec:
  tier: 1
  tierName: rack
  members:
  - type: Node
    selector:
      exactMatch: {name: node-1}
      regexMatch: {pattern: "^node-[0-9]+$"}
      labelMatch:
        matchLabels: {rack: r1}
        matchExpressions: [{key: zone, operator: In, values: [a, b]}]
status:
  nodeCount: 4
  conditions:
  - type: Ready
    status: "True"
    observedGeneration: 2
    lastTransitionTime: "2026-02-03T04:06:00Z"
    reason: Counted
    message: all members exist
"#;

fn decode<T: DeserializeOwned>(yaml: &str) -> T {
    serde_yaml::from_str(yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"))
}

/// Every field of the text is in the object again when it is written.
fn keeps_everything<T: DeserializeOwned + Serialize>(yaml: &str) {
    let before: Value = decode(yaml);
    let after = serde_json::to_value(decode::<T>(yaml)).unwrap();
    assert_eq!(after, before);
}

#[test]
fn every_field_of_a_podgroup_is_read_and_written() {
    keeps_everything::<PodGroup>(POD_GROUP);
    let group: PodGroup = decode(POD_GROUP);
    assert_eq!(group.spec.min_member, 5);
    assert_eq!(group.spec.min_task_member["worker"], 4);
    assert_eq!(group.spec.min_resources.unwrap()["memory"], Quantity("80Gi".to_owned()));
    assert_eq!(group.spec.network_topology.unwrap().mode, NetworkTopologyMode::Soft);
    assert_eq!(group.spec.sub_group_policy[0].sub_group_size, 2);
    let status = group.status.unwrap();
    assert_eq!(status.phase, Some(PodGroupPhase::Inqueue));
    assert_eq!((status.running, status.succeeded, status.failed), (1, 2, 3));
    assert_eq!(status.conditions[0].type_, PodGroupConditionType::Unschedulable);
}

#[test]
fn every_field_of_a_queue_is_read_and_written() {
    keeps_everything::<Queue>(QUEUE);
    let queue: Queue = decode(QUEUE);
    assert!(!queue.is_reclaimable());
    assert_eq!(queue.spec.parent.as_deref(), Some("vision"));
    assert_eq!(queue.spec.dequeue_strategy, DequeueStrategy::Fifo);
    assert_eq!(queue.spec.guarantee.resource["cpu"], Quantity("10".to_owned()));
    let status = queue.status.unwrap();
    assert_eq!(status.state, Some(QueueState::Closing));
    assert_eq!(status.allocated["pods"], Quantity("3".to_owned()));
}

#[test]
fn every_field_of_a_hyper_node_is_read_and_written() {
    keeps_everything::<HyperNode>(HYPER_NODE);
    let bare: HyperNode = decode("{spec: {tierName: '', members: [{type: '', selector: null}]}}");
    assert_eq!((bare.spec.tier, bare.spec.tier_name), (None, None));
    assert_eq!(bare.spec.members[0].type_, None);
}

#[test]
fn the_samples_have_every_field_of_the_schemas() {
    for (kind, sample) in [("PodGroup", POD_GROUP), ("Queue", QUEUE), ("HyperNode", HYPER_NODE)] {
        let version = crate::definitions::definition(kind)["spec"]["versions"][0].clone();
        let mut missing = Vec::new();
        let sample: Value = decode(sample);
        missing_in(&version["schema"]["openAPIV3Schema"], &sample, kind, &mut missing);
        // The two ways to name the highest tier exclude each other.
        missing.retain(|path| !path.contains(".highestTier"));
        assert!(missing.is_empty(), "not covered: {missing:?}");
    }
}

fn missing_in(schema: &Value, sample: &Value, path: &str, missing: &mut Vec<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let value = sample[name].get(0).unwrap_or(&sample[name]);
        if value.is_null() {
            missing.push(path.clone());
        }
        let inner = property.get("items").unwrap_or(property);
        missing_in(inner, value, &path, missing);
    }
}

#[test]
fn missing_fields_have_the_defaults_of_the_schema() {
    let bare: PodGroup = decode("{kind: PodGroup, metadata: {name: a}}");
    assert_eq!(bare.spec, PodGroupSpec::default());
    assert_eq!((bare.spec.min_member, bare.spec.queue.as_str()), (0, "default"));
    assert_eq!(bare.spec.min_resources, None);
    assert_eq!(bare.status, None);

    let bare: Queue = decode("{kind: Queue, metadata: {name: a}}");
    assert_eq!(bare.spec, QueueSpec::default());
    assert_eq!(bare.spec.weight, 1);
    assert_eq!(bare.spec.dequeue_strategy, DequeueStrategy::Traverse);
    assert!(bare.is_reclaimable());

    let policy: PodGroup = decode("{spec: {subGroupPolicy: [{networkTopology: {}}]}}");
    let policy = &policy.spec.sub_group_policy[0];
    assert_eq!((policy.sub_group_size, policy.min_sub_groups), (1, 0));
    assert_eq!(policy.network_topology.as_ref().unwrap().mode, NetworkTopologyMode::Hard);
}

#[test]
fn a_null_field_counts_as_missing() {
    for (kind, sample) in [("PodGroup", POD_GROUP), ("Queue", QUEUE)] {
        let full: Value = decode(sample);
        let paths = paths(&full, "");
        assert!(paths.len() > 20, "{kind}: {paths:?}");
        for path in paths {
            let mut object = full.clone();
            *object.pointer_mut(&path).unwrap() = Value::Null;
            let result = match kind {
                "PodGroup" => serde_json::from_value::<PodGroup>(object).map(drop),
                _ => serde_json::from_value::<Queue>(object).map(drop),
            };
            assert!(result.is_ok(), "{kind} with {path} null: {}", result.unwrap_err());
        }
    }
    let queue: Queue = decode("{spec: {weight: null, dequeueStrategy: null, capability: null}}");
    assert_eq!(queue.spec, QueueSpec::default());
    let group: PodGroup = decode("{spec: {queue: null, minMember: null}, status: null}");
    assert_eq!(group, PodGroup::default());
}

/// JSON pointers of all named fields of spec and status; items of maps and selectors are not ours.
fn paths(value: &Value, path: &str) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, v)| (key.replace('/', "~1"), v)).collect(),
        Value::Array(items) if items.iter().all(Value::is_object) => {
            items.iter().enumerate().map(|(i, v)| (i.to_string(), v)).collect()
        }
        _ => Vec::new(),
    };
    let ours = |path: &str| {
        let in_map = ["minTaskMember/", "esources/", "esource/", "capability/", "deserved/", "capacity/"];
        let foreign = ["allocated/", "labelSelector/", "/metadata", "/kind", "/apiVersion"];
        !in_map.iter().chain(&foreign).any(|part| path.contains(part))
    };
    let mut found = Vec::new();
    for (key, child) in children {
        let path = format!("{path}/{key}");
        if !ours(&path) {
            continue;
        }
        if key.parse::<usize>().is_err() {
            found.push(path.clone());
        }
        found.extend(paths(child, &path));
    }
    found
}

#[test]
fn empty_fields_that_go_clients_write_are_read() {
    // Structs without omitempty, nil maps, zero times and empty strings.
    let queue: Queue = decode(
        "{metadata: {name: q, creationTimestamp: null}, spec: {weight: 0, guarantee: {}, parent: '', \
          type: ''}, status: {state: '', reservation: {}, allocated: null}}",
    );
    assert_eq!(queue.spec, QueueSpec::default());
    assert_eq!(queue.status.unwrap().state, None);
    let group: PodGroup = decode(
        "{spec: {queue: '', priorityClassName: ''}, status: {phase: '', conditions: \
          [{type: Scheduled, status: 'True', lastTransitionTime: null, reason: tasks in gang are ready to be scheduled}]}}",
    );
    assert_eq!(group.spec, PodGroupSpec::default());
    let status = group.status.unwrap();
    assert_eq!(status.phase, None);
    assert_eq!(status.conditions[0].type_, PodGroupConditionType::Scheduled);
}

#[test]
fn values_of_other_versions_are_kept() {
    let cases = [
        json!({ "status": { "phase": "Suspended", "conditions": [{ "type": "Throttled" }] } }),
        json!({ "spec": { "networkTopology": { "mode": "best-effort" } }, "status": { "phase": "Scheduling" } }),
    ];
    for case in cases {
        let group: PodGroup = serde_json::from_value(case.clone()).unwrap();
        let written = serde_json::to_value(&group).unwrap();
        for path in ["/status/phase", "/status/conditions/0/type", "/spec/networkTopology/mode"] {
            assert_eq!(written.pointer(path), case.pointer(path), "{path}");
        }
    }
    let queue: Queue = decode("{spec: {dequeueStrategy: lifo, newField: {a: 1}}, status: {state: Draining}}");
    assert_eq!(queue.spec.dequeue_strategy, DequeueStrategy::Other("lifo".to_owned()));
    assert_eq!(queue.status.unwrap().state.unwrap().as_str(), "Draining");
}

#[test]
fn quantities_may_be_numbers() {
    let queue: Queue = decode("{spec: {capability: {cpu: 4, memory: 1e3, nvidia.com/gpu: '8'}}}");
    assert_eq!(queue.spec.capability["cpu"], Quantity("4".to_owned()));
    assert_eq!(queue.spec.capability["nvidia.com/gpu"], Quantity("8".to_owned()));
    let group: PodGroup =
        serde_json::from_value(json!({ "spec": { "minResources": { "cpu": 1.5 } } })).unwrap();
    assert_eq!(group.spec.min_resources.unwrap()["cpu"], Quantity("1.5".to_owned()));
}

#[test]
fn a_status_patch_writes_counts_of_zero() {
    let group =
        PodGroup { status: Some(phalanx_api::v1beta1::PodGroupStatus::default()), ..PodGroup::default() };
    let written = serde_json::to_value(group).unwrap();
    assert_eq!(written["status"], json!({ "running": 0, "succeeded": 0, "failed": 0 }));
}

#[test]
fn a_new_object_has_its_kind_and_no_status() {
    let queue = Queue::new("root", QueueSpec { reclaimable: Some(false), ..QueueSpec::default() });
    assert_eq!(
        serde_json::to_value(queue).unwrap(),
        json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": { "name": "root" },
            "spec": { "weight": 1, "reclaimable": false, "dequeueStrategy": "traverse" },
        })
    );
}

#[test]
fn errors_name_the_field() {
    let error = serde_yaml::from_str::<PodGroup>("spec:\n  minMember: three\n").unwrap_err().to_string();
    assert!(error.contains("spec.minMember") && error.contains("line 2"), "{error}");
}
