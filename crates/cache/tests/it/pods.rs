//! Pods: identity, scheduler, and node constraints.

use std::sync::Arc;

use phalanx_cache::{Interner, Names, decode, slim};
use phalanx_cluster::annotation;
use phalanx_cluster::event::{
    Operator, PodInfo, PodPhase, RunTime, Scoring, TaintEffect, Time, TolerationOperator,
};

use crate::{pod, pod_spec, try_pod, value};

/// A pod with this metadata besides its name.
fn marked(name: &str, metadata: &str) -> PodInfo {
    pod(&format!("metadata: {{name: {name}, {metadata}}}"))
}

#[test]
fn identity_times_and_state_of_a_pod_are_read() {
    let info = pod("
apiVersion: v1
kind: Pod
metadata:
  name: w-0
  namespace: team
  uid: u-1
  creationTimestamp: 2026-11-01T10:00:00Z
  deletionTimestamp: 2026-11-01T10:00:01Z
spec: {nodeName: n1, priority: 7, priorityClassName: high, preemptionPolicy: Never, schedulerName: volcano}
status: {phase: Running, nominatedNodeName: n2}");
    assert_eq!(info.pod.to_string(), "team/w-0");
    assert_eq!(&*info.pod.uid, "u-1");
    assert_eq!(info.created, Time(1_793_527_200_000));
    assert!(info.life.deleting && info.ours && info.never_preempts && !info.gated);
    assert_eq!((info.life.node.as_deref(), info.life.nominated.as_deref()), (Some("n1"), Some("n2")));
    assert_eq!((info.priority, info.priority_class.as_deref()), (Some(7), Some("high")));
    assert_eq!(info.life.phase, PodPhase::Running);
}

#[test]
fn a_pod_tells_how_long_it_may_run_and_at_its_end_how_long_it_ran() {
    let run_time = |status: &str| {
        let deadline = "spec: {activeDeadlineSeconds: 60}";
        pod(&format!(
            "metadata: {{name: p}}\n{deadline}\nstatus: {{startTime: 2026-01-01T00:00:00Z, {status}}}"
        ))
        .run_time
    };
    let ends = |at: [&str; 2]| {
        let ended =
            at.map(|at| format!("{{name: {at}, state: {{terminated: {{finishedAt: '2026-01-01T{at}Z'}}}}}}"));
        format!("containerStatuses: [{}]", ended.join(", "))
    };
    let ended = ends(["00:00:20", "00:00:30"]);
    assert_eq!(run_time(&format!("phase: Succeeded, {ended}")), Some(RunTime::Ran(30)));
    assert_eq!(run_time(&format!("phase: Running, {ended}")), Some(RunTime::Deadline(60)));
    assert_eq!(run_time("phase: Succeeded"), Some(RunTime::Deadline(60)));
}

#[test]
fn missing_fields_of_a_pod_have_defaults() {
    let info = pod("
metadata: {name: p, creationTimestamp: null, labels: null, annotations: null}
spec: {nodeName: '', priorityClassName: '', containers: null, affinity: null, nodeSelector: null}
status: {}");
    assert_eq!(info.pod.to_string(), "default/p");
    assert_eq!(&*info.pod.uid, "default/p");
    assert_eq!((info.created, info.life.phase), (Time(0), PodPhase::Pending));
    assert_eq!(
        (info.life.node, info.life.nominated, info.priority_class, info.priority),
        (None, None, None, None)
    );
    assert_eq!((info.group, info.queue, &*info.role, info.index), (None, None, "", None));
    assert_eq!((info.preemptable, info.life.unscheduled_message), (None, None));
    assert!(!info.life.deleting && !info.never_preempts && !info.gated);
}

#[test]
fn each_phase_of_a_pod_is_read_and_others_are_unknown() {
    for (phase, expected) in [
        ("''", PodPhase::Pending),
        ("Pending", PodPhase::Pending),
        ("Running", PodPhase::Running),
        ("Succeeded", PodPhase::Succeeded),
        ("Failed", PodPhase::Failed),
        ("Unknown", PodPhase::Unknown),
        ("Hibernating", PodPhase::Unknown),
    ] {
        assert_eq!(pod(&format!("status: {{phase: {phase}}}")).life.phase, expected, "{phase}");
    }
}

#[test]
fn a_pod_is_ours_by_its_scheduler_name() {
    for (ours, name, expected) in [
        (&["volcano"][..], "volcano", true),
        (&["volcano"], "default-scheduler", false),
        (&["volcano"], "''", false),
        (&["volcano", "gang"], "gang", true),
        (&["default-scheduler"], "''", true),
    ] {
        let names =
            Names { schedulers: ours.iter().copied().map(str::to_owned).collect(), ..Names::default() };
        let pod: slim::Pod = decode(&value(&format!("spec: {{schedulerName: {name}}}"))).unwrap();
        let info = phalanx_cache::pod(&pod, &names, &mut Interner::default()).unwrap();
        assert_eq!(info.ours, expected, "{name} for {ours:?}");
    }
}

#[test]
fn only_the_group_name_annotation_puts_a_pod_into_a_gang() {
    let group = |metadata: &str| marked("p", metadata).group;
    let name = "scheduling.k8s.io/group-name";
    assert_eq!(group(&format!("annotations: {{{name}: g}}")).as_deref(), Some("g"));
    assert_eq!(group(&format!("annotations: {{{name}: ''}}")), None);
    assert_eq!(group(&format!("labels: {{{name}: g}}")), None);
    assert_eq!(group("annotations: {scheduling.volcano.sh/group-name: g}"), None);
}

#[test]
fn the_role_is_read_from_an_annotation_or_else_a_label() {
    let role = |metadata: &str| marked("p", metadata).role.to_string();
    let key = "volcano.sh/task-spec";
    assert_eq!(role(&format!("annotations: {{{key}: a}}, labels: {{{key}: l}}")), "a");
    assert_eq!(role(&format!("annotations: {{{key}: ''}}, labels: {{{key}: l}}")), "l");
    assert_eq!(role(&format!("labels: {{{key}: l}}")), "l");
    assert_eq!(role("labels: {}"), "");
}

#[test]
fn the_index_is_read_from_an_annotation_or_else_from_the_name() {
    for (name, annotation, expected) in [
        ("job-worker-12", None, Some(12)),
        ("job-worker-12", Some("3"), Some(3)),
        ("job-worker-12", Some("three"), Some(12)),
        ("web-0", None, Some(0)),
        ("web-7d4b9-x2k45", None, None),
        ("worker-99999999999", None, None),
        ("worker-", None, None),
        ("worker7", None, None),
    ] {
        let annotation = annotation.map(|index| format!("annotations: {{volcano.sh/task-index: '{index}'}}"));
        let info = marked(name, &annotation.clone().unwrap_or_default());
        assert_eq!(info.index, expected, "{name} {annotation:?}");
    }
}

#[test]
fn the_index_is_that_of_the_controller_that_made_the_pod() {
    let (worker, job) = ("leaderworkerset.sigs.k8s.io/worker-index", "jobset.sigs.k8s.io/job-global-index");
    let completion = "batch.kubernetes.io/job-completion-index";
    for (name, marks, expected) in [
        ("serve-3", format!("labels: {{{worker}: '0'}}"), Some(0)),
        ("train-2-x2k45", format!("annotations: {{{completion}: '2'}}"), Some(2)),
        ("train-2-12345", format!("labels: {{{completion}: '2'}}"), Some(2)),
        ("set-w-1-2-x2k45", format!("labels: {{{job}: '1', {completion}: '2'}}"), Some(65_538)),
        ("set-w-1-2-x2k45", format!("labels: {{{job}: '70000', {completion}: '2'}}"), None),
        ("job-4", format!("annotations: {{volcano.sh/task-index: '5', {completion}: '2'}}"), Some(5)),
    ] {
        assert_eq!(marked(name, &marks).index, expected, "{name} {marks}");
    }
}

/// The priority of a pod without a PodGroup is that of its job: anybody could put a pod before those of all others.
#[test]
fn the_priority_annotation_overrides_the_pods_own_within_a_group() {
    let group = "scheduling.k8s.io/group-name: g";
    for (annotations, expected) in [
        (format!("volcano.sh/task-priority: '5', {group}"), Some(5)),
        (format!("volcano.sh/task-priority: '-5', {group}"), Some(-5)),
        (format!("volcano.sh/task-priority: high, {group}"), Some(100)),
        (format!("volcano.sh/task-priority: '', {group}"), Some(100)),
        ("volcano.sh/task-priority: '2147483647'".to_owned(), Some(100)),
    ] {
        let info =
            pod(&format!("metadata: {{name: p, annotations: {{{annotations}}}}}\nspec: {{priority: 100}}"));
        assert_eq!(info.priority, expected, "{annotations}");
    }
}

#[test]
fn preemptable_is_read_from_an_annotation_or_else_a_label() {
    let key = "volcano.sh/preemptable";
    for (metadata, expected) in [
        (format!("annotations: {{{key}: 'true'}}, labels: {{{key}: 'false'}}"), Some(true)),
        (format!("annotations: {{{key}: 'false'}}"), Some(false)),
        (format!("labels: {{{key}: T}}"), Some(true)),
        (format!("labels: {{{key}: 'yes'}}"), Some(false)),
        ("labels: {}".to_owned(), None),
    ] {
        assert_eq!(marked("p", &metadata).preemptable, expected, "{metadata}");
    }
}

#[test]
fn a_pod_without_a_group_may_name_a_queue() {
    let info = marked("p", "annotations: {scheduling.volcano.sh/queue-name: research}");
    assert_eq!(info.queue.as_deref(), Some("research"));
}

#[test]
fn scheduling_gates_and_conditions_are_read() {
    assert!(pod(&pod_spec("schedulingGates: [{name: a}]")).gated);
    assert!(!pod(&pod_spec("schedulingGates: []")).gated);
    for (conditions, expected) in [
        ("[{type: PodScheduled, status: 'False', reason: Unschedulable, message: no room}]", Some("no room")),
        ("[{type: PodScheduled, status: 'True', message: old}]", None),
        ("[{type: PodScheduled, status: 'False'}]", Some("")),
        ("[{type: Ready, status: 'False', message: starting}]", None),
        ("null", None),
    ] {
        let info = pod(&format!("status: {{conditions: {conditions}}}"));
        assert_eq!(info.life.unscheduled_message.as_deref(), expected, "{conditions}");
    }
}

#[test]
fn node_selectors_and_affinities_are_read() {
    let info = pod(&pod_spec(
        "
nodeSelector: {zone: a, disk: ssd}
affinity:
  podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions:
        - {key: gpu, operator: In, values: [a100, h100]}
        - {key: spot, operator: DoesNotExist}
        - {key: cores, operator: Gt, values: ['16']}
      - matchFields: [{key: metadata.name, operator: In, values: [n1]}]
      - {}
    preferredDuringSchedulingIgnoredDuringExecution:
    - {weight: 100, preference: {matchExpressions: [{key: rack, operator: NotIn, values: [r1]}]}}",
    ));
    let constraints = &*info.constraints;
    let selector: Vec<_> = constraints.node_selector.iter().map(|(k, v)| (&**k, &**v)).collect();
    assert_eq!(selector, [("disk", "ssd"), ("zone", "a")]);
    let terms = constraints.node_affinity.as_ref().unwrap();
    let operators: Vec<_> = terms[0].labels.iter().map(|one| (&*one.key, one.operator)).collect();
    assert_eq!(operators, [("gpu", Operator::In), ("spot", Operator::DoesNotExist), ("cores", Operator::Gt)]);
    assert_eq!(terms[0].labels[0].values, ["a100".into(), "h100".into()] as [Arc<str>; 2]);
    assert_eq!(&*terms[1].fields[0].key, "metadata.name");
    assert!(terms[2].labels.is_empty() && terms[2].fields.is_empty(), "a term that matches nothing");
    let (weight, preferred) = &constraints.preferred_nodes[0];
    assert_eq!((*weight, preferred.labels[0].operator), (100, Operator::NotIn));
}

#[test]
fn tolerations_are_read_with_their_defaults() {
    let info = pod(&pod_spec(
        "
tolerations:
- {key: gpu, operator: Exists, effect: NoSchedule}
- {key: team, value: a}
- {operator: Exists}
- {key: sla, operator: Gt, value: '900'}
- {key: sla, operator: Lt, value: soon}
- {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}",
    ));
    let all: Vec<_> = info
        .constraints
        .tolerations
        .iter()
        .map(|one| (&*one.key, one.operator, &*one.value, one.effect))
        .collect();
    assert_eq!(
        all,
        [
            ("gpu", TolerationOperator::Exists, "", Some(TaintEffect::NoSchedule)),
            ("team", TolerationOperator::Equal, "a", None),
            ("", TolerationOperator::Exists, "", None),
            ("sla", TolerationOperator::Gt, "900", None),
            ("sla", TolerationOperator::Lt, "soon", None),
            ("node.kubernetes.io/not-ready", TolerationOperator::Exists, "", Some(TaintEffect::NoExecute)),
        ]
    );
}

#[test]
fn host_ports_are_those_of_containers_and_sidecars() {
    let ports = |spec: &str| -> Vec<String> {
        let info = pod(&pod_spec(spec));
        let ports = info.constraints.host_ports.iter();
        ports.map(|port| format!("{}:{}/{}", port.ip, port.port, port.protocol)).collect()
    };
    assert_eq!(
        ports(
            "
containers:
- ports:
  - {containerPort: 80}
  - {containerPort: 53, hostPort: 53, protocol: UDP, hostIP: 10.0.0.1}
  - {containerPort: 81, hostPort: 8081}
- ports: [{containerPort: 82, hostPort: 8081}]
initContainers:
- {restartPolicy: Always, ports: [{containerPort: 1, hostPort: 9000}]}
- {ports: [{containerPort: 1, hostPort: 9001}]}"
        ),
        ["0.0.0.0:8081/TCP", "0.0.0.0:9000/TCP", "10.0.0.1:53/UDP"]
    );
    assert_eq!(
        ports(
            "hostNetwork: true\ncontainers: [{ports: [{containerPort: 80}, {containerPort: 81, hostPort: 82}]}]"
        ),
        ["0.0.0.0:80/TCP", "0.0.0.0:82/TCP"]
    );
}

/// Each spec is refused with this text.
fn refused(cases: &[(String, String)]) {
    for (spec, expected) in cases {
        let error = try_pod(&pod_spec(spec)).expect_err(spec);
        assert_eq!(error.to_string(), *expected);
    }
}

#[test]
fn an_invalid_affinity_is_named_with_its_field() {
    let required = |term: &str| {
        format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
             {{nodeSelectorTerms: [{{}}, {term}]}}}}}}"
        )
    };
    let term =
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]";
    let preferred = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]";
    refused(&[
        (
            required("{matchExpressions: [{key: a, operator: Is}]}"),
            format!(
                "{term}.matchExpressions[0].operator: \"Is\" is unknown, expected In, NotIn, Exists, DoesNotExist, \
                 Gt or Lt"
            ),
        ),
        (
            required("{matchExpressions: [{key: a, operator: In}]}"),
            format!("{term}.matchExpressions[0].values: empty, expected at least one value"),
        ),
        (
            required("{matchExpressions: [{key: a, operator: Exists, values: [x]}]}"),
            format!("{term}.matchExpressions[0].values: expected no values"),
        ),
        (
            required("{matchExpressions: [{key: a, operator: Lt, values: ['1', '2']}]}"),
            format!("{term}.matchExpressions[0].values: expected one integer"),
        ),
        (
            required("{matchFields: [{key: spec.x, operator: In, values: [x]}]}"),
            format!("{term}.matchFields[0].key: \"spec.x\" is unknown, expected metadata.name"),
        ),
        (
            required("{matchFields: [{key: metadata.name, operator: In, values: [x, y]}]}"),
            format!("{term}.matchFields[0].values: expected one value"),
        ),
        (
            required("{matchFields: [{key: metadata.name, operator: Exists}]}"),
            format!("{term}.matchFields[0].operator: \"Exists\" is unknown, expected In or NotIn"),
        ),
        (
            "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0}]}}"
                .to_owned(),
            format!("{preferred}.weight: 0 is out of range, expected 1 to 100"),
        ),
    ]);
}

#[test]
fn an_invalid_toleration_or_port_is_named_with_its_field() {
    let owned = |(spec, expected): (&str, &str)| (spec.to_owned(), expected.to_owned());
    refused(&[
        (
            "tolerations: [{key: a, operator: Like, value: '1'}]",
            "spec.tolerations[0].operator: \"Like\" is unknown, expected Equal, Exists, Gt or Lt",
        ),
        (
            "tolerations: [{value: a}]",
            "spec.tolerations[0].operator: without a key it must be Exists",
        ),
        (
            "tolerations: [{operator: Exists, effect: NoStart}]",
            "spec.tolerations[0].effect: \"NoStart\" is unknown, expected NoSchedule, PreferNoSchedule or NoExecute"
                ,
        ),
        (
            "containers: [{ports: [{containerPort: 1, hostPort: 70000}]}]",
            "spec.containers[0].ports[0].hostPort: 70000 is no port, expected 1 to 65535",
        ),
        (
            "containers: [{ports: [{hostPort: 1, protocol: HTTP}]}]",
            "spec.containers[0].ports[0].protocol: \"HTTP\" is unknown, expected TCP, UDP or SCTP",
        ),
    ].map(owned));
}

#[test]
fn invalid_rules_of_pods_that_are_not_ours_to_bind_are_no_error() {
    let odd = "tolerations: [{key: a, operator: Like}]\ncontainers: [{ports: [{hostPort: 80}]}]\n";
    let bound = pod(&pod_spec(&format!("{odd}nodeName: n1")));
    assert_eq!(bound.constraints.host_ports.len(), 1, "what it uses still counts");
    let theirs = pod(&format!("metadata: {{name: p}}\nspec:\n  {}", odd.replace('\n', "\n  ")));
    assert_eq!(theirs.constraints.host_ports.len(), 1);
    assert!(theirs.constraints.tolerations.is_empty());
}

#[test]
fn pods_keep_their_constraints_when_they_are_bound() {
    let spec = pod_spec("nodeSelector: {zone: a}\ntolerations: [{operator: Exists}]");
    let (mut interner, names) = (Interner::default(), Names::default());
    let mut constraints = |yaml: &str| {
        let pod: slim::Pod = decode(&value(yaml)).unwrap();
        phalanx_cache::pod(&pod, &names, &mut interner).unwrap().constraints
    };
    let waiting = constraints(&spec);
    let bound = constraints(&format!("{spec}  nodeName: n1"));
    assert!(Arc::ptr_eq(&waiting, &bound), "equal constraints are held once");
}

#[test]
fn annotations_say_how_nodes_are_scored_for_a_pod() {
    let strategy = |annotations: &str| {
        let ours = "spec: {schedulerName: volcano}";
        let info = pod(&format!("metadata: {{name: p, annotations: {{{annotations}}}}}\n{ours}"));
        info.constraints.strategy.as_ref().map(|strategy| {
            let weights: Vec<_> =
                strategy.weights.iter().map(|(name, weight)| format!("{name}={weight}")).collect();
            (strategy.scoring, weights.join(" "))
        })
    };
    let both = |kind: &str, weights: &str| {
        strategy(&format!(
            "volcano.sh/resource-strategy-scoring-type: {kind}, volcano.sh/resource-strategy-weight: '{weights}'"
        ))
    };
    let weights = r#"{"nvidia.com/gpu": 2, "cpu": 1}"#;
    assert_eq!(both("MostAllocated", weights), Some((Scoring::Most, "cpu=1 nvidia.com/gpu=2".to_owned())));
    assert_eq!(both("LeastAllocated", weights).unwrap().0, Scoring::Least);
    assert_eq!(both("Sideways", weights).unwrap().0, Scoring::Unknown);
    for unreadable in ["", "many", "[1]", r#"{"cpu": 1.5}"#, r#"{"cpu": "1"}"#] {
        assert_eq!(both("MostAllocated", unreadable), Some((Scoring::Most, String::new())), "{unreadable}");
    }
    assert_eq!(strategy("volcano.sh/resource-strategy-scoring-type: MostAllocated").unwrap().1, "");
    assert_eq!(strategy("volcano.sh/resource-strategy-weight: '{}'"), None);
}

#[test]
fn revocable_pods_name_a_zone_or_are_preemptable() {
    for (metadata, expected) in [
        ("", false),
        ("annotations: {volcano.sh/revocable-zone: '*'}", true),
        ("annotations: {volcano.sh/revocable-zone: rz1}", false),
        ("annotations: {volcano.sh/preemptable: 'true'}", true),
        ("annotations: {volcano.sh/preemptable: 'false'}", false),
        ("annotations: {volcano.sh/preemptable: 'true', volcano.sh/revocable-zone: rz1}", false),
        ("labels: {volcano.sh/preemptable: 'true'}", false),
    ] {
        let info = pod(&format!("metadata: {{name: p, {metadata}}}\nspec: {{schedulerName: volcano}}"));
        assert_eq!(info.constraints.revocable, expected, "{metadata}");
    }
}

#[test]
fn annotations_that_plugins_read_are_kept() {
    let annotations = "annotations: {volcano.sh/sla-waiting-time: 1h, other: x}";
    let alone = marked("p", annotations);
    assert_eq!(alone.annotations.get(annotation::SLA_WAITING_TIME), Some("1h"));
    assert_eq!(alone.annotations.get("other"), None);
    let member = marked("p", &annotations.replace("other: x", "scheduling.k8s.io/group-name: g"));
    assert_eq!(member.annotations.get(annotation::SLA_WAITING_TIME), None, "its group's count");
}

#[test]
fn the_queue_gate_is_kept_for_pods_with_the_annotation_and_no_other_gate() {
    use phalanx_cluster::event::QueueGate::{None, Open, Shut};
    const GATE: &str = "scheduling.volcano.sh/queue-allocation-gate";
    let own = format!("schedulingGates: [{{name: {GATE}}}]");
    let both = format!("schedulingGates: [{{name: {GATE}}}, {{name: other}}]");
    for (annotation, spec, status, expected) in [
        ("'true'", own.as_str(), "{}", Shut),
        ("'true'", "schedulingGates: []", "{}", Open),
        ("'true'", both.as_str(), "{}", None),
        ("'true'", "schedulingGates: [{name: other}]", "{}", None),
        ("'true'", "nodeName: n", "{}", None),
        ("'true'", "nodeName: n", "{phase: Running}", None),
        ("'yes'", own.as_str(), "{}", None),
        ("'false'", "schedulingGates: []", "{}", None),
    ] {
        let info = pod(&format!(
            "{{metadata: {{name: p, annotations: {{{GATE}: {annotation}}}}}, spec: {{schedulerName: volcano, {spec}}}, status: {status}}}"
        ));
        assert_eq!(info.queue_gate, expected, "{annotation} {spec} {status}");
    }
}
