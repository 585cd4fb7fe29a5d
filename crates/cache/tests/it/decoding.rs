//! Objects as the API server sends them.

use kube_core::Resource;
use phalanx_api::v1beta1::{PodGroup, Queue};
use phalanx_cache::{Change, Guarded, Interner, Kind, Names, Page, decode, slim};
use phalanx_cluster::event::{Event, PodInfo};

use serde::de::DeserializeOwned;

use crate::{object, shown, value};

const POD: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: train-worker-3
  generateName: train-worker-
  namespace: ml
  uid: 5b9c1f5e-0b7e-4a55-9a7e-2f8f6a1c0d11
  resourceVersion: '812349'
  generation: 2
  creationTimestamp: '2026-11-01T10:00:00Z'
  labels: {app: train, volcano.sh/task-spec: worker, pod-template-hash: 7d4b9}
  annotations:
    scheduling.k8s.io/group-name: train
    kubectl.kubernetes.io/last-applied-configuration: '{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}'
  ownerReferences:
  - {apiVersion: batch/v1, kind: Job, name: train, uid: x, controller: true, blockOwnerDeletion: true}
  finalizers: [batch.kubernetes.io/job-tracking]
  managedFields:
  - manager: kube-controller-manager
    operation: Update
    apiVersion: v1
    time: '2026-11-01T10:00:00Z'
    fieldsType: FieldsV1
    fieldsV1: {'f:metadata': {'f:labels': {'.': {}, 'f:app': {}}}, 'f:spec': {'f:containers': {'k:{\"name\":\"main\"}': {'.': {}}}}}
spec:
  schedulerName: volcano
  serviceAccountName: default
  enableServiceLinks: true
  terminationGracePeriodSeconds: 30
  dnsPolicy: ClusterFirst
  restartPolicy: Never
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  priority: 100
  preemptionPolicy: PreemptLowerPriority
  someFieldOfTheFuture: {deep: [1, {er: true}]}
  volumes:
  - name: kube-api-access
    projected: {defaultMode: 420, sources: [{serviceAccountToken: {expirationSeconds: 3607, path: token}}]}
  initContainers:
  - name: fetch
    image: example.com/fetch:1
    command: [sh, -c, 'sleep 1']
    resources: {requests: {cpu: 100m}}
    volumeMounts: [{name: kube-api-access, mountPath: /var/run, readOnly: true}]
  containers:
  - name: main
    image: example.com/train@sha256:abc
    env: [{name: A, value: b}, {name: NODE, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: spec.nodeName}}}]
    ports: [{containerPort: 2222, name: ssh, protocol: TCP}]
    resources: {limits: {nvidia.com/gpu: '8', memory: 512Gi}, requests: {nvidia.com/gpu: '8', cpu: '96', memory: 512Gi}}
    livenessProbe: {httpGet: {path: /, port: 80, scheme: HTTP}, periodSeconds: 10}
    imagePullPolicy: IfNotPresent
  affinity:
    podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: zone}}]}
    nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: Exists}]}]}}
  tolerations:
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
status:
  phase: Pending
  qosClass: Burstable
  observedGeneration: 2
  conditions:
  - {type: PodScheduled, status: 'False', reason: Unschedulable, message: '0/5 nodes are available', lastProbeTime: null, lastTransitionTime: '2026-11-01T10:00:01Z'}
  containerStatuses: [{name: main, ready: false, restartCount: 0, image: x, imageID: '', state: {waiting: {reason: ContainerCreating}}}]
";

fn reduced(pod: &slim::Pod) -> PodInfo {
    phalanx_cache::pod(pod, &Names::default(), &mut Interner::default()).expect("a pod in order")
}

#[test]
fn a_pod_of_a_real_cluster_is_decoded_whole() {
    let pod: slim::Pod = object(POD);
    assert_eq!(pod.metadata.managed_fields, None);
    assert_eq!(pod.metadata.resource_version.as_deref(), Some("812349"));
    let info = reduced(&pod);
    assert_eq!(info.pod.to_string(), "ml/train-worker-3");
    assert_eq!((info.group.as_deref(), &*info.role, info.index), (Some("train"), "worker", Some(3)));
    assert_eq!(shown(&info.requests.containers[0]), "cpu=96 memory=549755813888 nvidia.com/gpu=8");
    assert_eq!(info.life.unscheduled_message.as_deref(), Some("0/5 nodes are available"));
    assert!(info.constraints.host_ports.is_empty());
}

#[test]
fn lists_and_watches_decode_to_the_same() {
    let json = value(POD).to_string();
    let watched = format!(r#"{{"type":"ADDED","object":{json}}}"#);
    let Ok(Change::Applied(Guarded::Read(pod))) = Change::from_json(watched.as_bytes()) else {
        panic!("expected ADDED")
    };
    let list = format!(r#"{{"apiVersion":"v1","kind":"PodList","metadata":{{}},"items":[{json}]}}"#);
    let list: Page<slim::Pod> = Page::from_json(list.as_bytes()).unwrap();
    assert_eq!(reduced(&pod), reduced(list.items[0].read().unwrap()));
    assert_eq!(slim::Pod::url_path(&(), Some("ml")), "/api/v1/namespaces/ml/pods");
    assert_eq!(slim::Node::url_path(&(), None), "/api/v1/nodes");
    assert_eq!(slim::PriorityClass::url_path(&(), None), "/apis/scheduling.k8s.io/v1/priorityclasses");
}

#[test]
fn a_wrong_type_is_an_error_with_its_field() {
    for (yaml, expected) in [
        ("metadata: [a]", "metadata: found a list, expected a mapping"),
        ("metadata: {labels: {a: 1}}", "metadata.labels.a: found 1, expected text"),
        ("spec: {priority: high}", "spec.priority: found \"high\", expected an integer"),
        (
            "spec: {containers: [{ports: [{containerPort: http}]}]}",
            "spec.containers[0].ports[0].containerPort: found \"http\", expected an integer",
        ),
        (
            "spec: {containers: [{}, {resources: {requests: {cpu: [1]}}}]}",
            "spec.containers[1].resources.requests.cpu: found a list, \
             expected a quantity such as 2, \"500m\" or \"1.5Gi\"",
        ),
        ("spec: {nodeSelector: {zone: true}}", "spec.nodeSelector.zone: found true, expected text"),
        (
            "spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: 3}}}}",
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: \
             found 3, expected a list",
        ),
        (
            "spec: {containers: [{resources: []}]}",
            "spec.containers[0].resources: found a list, expected a mapping",
        ),
        ("spec: {containers: [main]}", "spec.containers[0]: found \"main\", expected a mapping"),
        ("spec: {containers: {name: main}}", "spec.containers: found a mapping, expected a list"),
        ("spec: {containers: [null]}", "spec.containers[0]: found null, expected a mapping"),
        ("[]", "found a list, expected a mapping"),
    ] {
        let error = decode::<slim::Pod>(&value(yaml)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let error = decode::<slim::Pod>(&value("metadata: {creationTimestamp: yesterday}")).unwrap_err();
    assert_eq!(error.field, "metadata.creationTimestamp");
}

#[test]
fn a_custom_resource_that_does_not_decode_is_invalid_and_others_are_kept() {
    let list = "
metadata: {}
items:
- {metadata: {name: good, namespace: a, uid: u1, managedFields: []}, spec: {minMember: 2}}
- {metadata: {name: bad, namespace: a, uid: u2}, spec: {minMember: two}}";
    let list: Page<PodGroup> = Page::from_json(value(list).to_string().as_bytes()).unwrap();
    let (mut interner, names) = (Interner::default(), Names::default());
    let told = list.items.iter().map(|item| {
        let identity = Guarded::<PodGroup>::identity(item.meta(), &mut interner);
        match item.event(&identity, &names, &mut interner) {
            Ok(Some(Event::PodGroup(info))) => (info.key.to_string(), info.min_member, info.invalid),
            other => panic!("{other:?}"),
        }
    });
    let invalid = "spec.minMember: found \"two\", expected an integer";
    assert_eq!(
        told.collect::<Vec<_>>(),
        [("a/good".to_owned(), 2, None), ("a/bad".to_owned(), 0, Some(invalid.into()))]
    );
}

fn guarded<K: Kind + DeserializeOwned>(yaml: &str) -> Guarded<K> {
    Guarded::from_json(&value(yaml).to_string())
}

#[test]
fn a_queue_that_does_not_decode_is_invalid() {
    let item: Guarded<Queue> = guarded("{metadata: {name: q}, spec: {weight: heavy}}");
    let (mut interner, names) = (Interner::default(), Names::default());
    let identity = Guarded::<Queue>::identity(item.meta(), &mut interner);
    let event = item.event(&identity, &names, &mut interner).unwrap();
    let Some(Event::Queue(info)) = event else { panic!("expected a queue") };
    assert_eq!((&*info.name, info.weight), ("q", 1));
    assert_eq!(info.invalid.as_deref(), Some("spec.weight: found \"heavy\", expected an integer"));
}

#[test]
fn a_pod_that_does_not_decode_is_rejected() {
    let item: Guarded<slim::Pod> = guarded("{metadata: {name: p}, spec: {hostNetwork: 1}}");
    let (mut interner, names) = (Interner::default(), Names::default());
    let identity = Guarded::<slim::Pod>::identity(item.meta(), &mut interner);
    let error = item.event(&identity, &names, &mut interner).unwrap_err();
    assert_eq!(error.to_string(), "spec.hostNetwork: found 1, expected true or false");
}

#[test]
fn of_an_object_that_nests_too_deep_the_metadata_is_read() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let text = format!(r#"{{"spec": {{"x": {deep}}}, "metadata": {{"name": "q", "uid": "u"}}}}"#);
    let Guarded::<Queue>::Unread(unread) = Guarded::from_json(&text) else {
        panic!("expected metadata only")
    };
    assert_eq!((unread.metadata.name.as_deref(), unread.metadata.uid.as_deref()), (Some("q"), Some("u")));
    assert!(unread.invalid.to_string().starts_with("found more than 127 levels"), "{}", unread.invalid);
}
