//! Sources of manifests.
use serde_json::json;

use crate::run::{folder, node, phalanx_in, pod};

#[test]
fn folders_are_read_recursively_without_hidden_files() {
    let files = [
        ("in/a.yaml", node("n1", 4)),
        ("in/deep/er/b.yml", pod("p", 1, "", "")),
        ("in/c.json", json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}).to_string()),
        ("in/README.md", "not: [yaml".to_owned()),
        ("in/..data/b.yaml", pod("p", 1, "", "")),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let folder = folder(&files);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "in", "-o", "json"], "");
    assert_eq!(ran.json()["bindings"], json!({"default/p": "n1"}));
    assert_eq!(
        ran.stderr,
        "note: in/c.json:1:1: document 1: ignored 1 object of kind Service (v1), which scheduling does not read\n"
    );
}

#[test]
fn a_dash_reads_standard_input() {
    let folder = folder(&[("pods.yaml", &pod("p", 1, "", ""))]);
    let ran =
        phalanx_in(folder.path(), &["simulate", "-f", "-", "-f", "pods.yaml", "-o", "json"], &node("n1", 4));
    assert_eq!(ran.json()["bindings"], json!({"default/p": "n1"}));
}

#[test]
fn a_file_without_objects_gets_a_note() {
    let folder = folder(&[("n.yaml", &node("n1", 4)), ("empty.yaml", "# nothing\n---\n")]);
    let simulate = |stdin: &str, more: &[&str]| {
        let args = [&["simulate", "-f", "n.yaml", "-f", "-", "-o", "json"], more].concat();
        let ran = phalanx_in(folder.path(), &args, stdin);
        assert_eq!(ran.json()["stats"]["nodes"], 1);
        ran.stderr
    };
    let nothing = "note: <stdin>:1: found no object in it\n";
    for empty in ["", "\n", "null", "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": []}"] {
        assert_eq!(simulate(empty, &[]), nothing, "{empty:?}");
    }
    assert_eq!(simulate(&pod("p", 1, "", ""), &[]), "");
    assert_eq!(
        simulate("", &["-f", "empty.yaml"]),
        format!("{nothing}note: empty.yaml:1: found no object in it\n")
    );
}

#[test]
fn a_running_pod_without_a_node_is_reported() {
    let folder = folder(&[("m.yaml", &(pod("p", 1, "", "") + "status: {phase: Running}\n"))]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml", "-o", "json"], "");
    let expected = "Pod default/p: status.phase: found Running without spec.nodeName; the pod is not placed and uses no node";
    assert!(ran.code == 0 && ran.stderr.contains(expected), "{ran:?}");
}

#[test]
fn standard_input_is_read_once() {
    let folder = folder(&[]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "-", "-f", "-", "-f", "-"], &node("n1", 4));
    assert_eq!((ran.code, &*ran.stdout), (2, ""));
    assert_eq!(ran.stderr, "error: --filename: found - again, expected standard input once\n");
}

#[test]
fn a_null_item_of_a_list_is_an_error() {
    let list =
        format!("{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [null]}}\n---\n{}", node("n1", 4));
    let folder = folder(&[("m.yaml", &list)]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml"], "");
    let expected = "error: m.yaml:1:48: document 1: List: items[0]: found nothing, expected an object with apiVersion and kind\n";
    assert_eq!((ran.code, &*ran.stderr), (2, expected));
}

/// As kubectl warns of it.
#[test]
fn an_unknown_field_of_a_workload_gets_a_note() {
    let template = "template: {spec: {containers: [{name: c}], schedulerName: volcano}}";
    let text = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d}}\nspec: {{replica: 3, {template}}}\n"
    );
    let folder = folder(&[("m.yaml", &(text + &node("n1", 4)))]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml", "-o", "json"], "");
    assert_eq!(ran.json()["bindings"], json!({"default/d-0": "n1"}));
    let expected = "note: m.yaml:4:17: document 1: Deployment default/d: spec.replica: unknown field, ignored (did you mean replicas?)\n";
    assert_eq!(ran.stderr, expected);
}

#[test]
fn a_resource_of_a_node_that_no_pod_can_request_is_reported() {
    let folder = folder(&[("m.yaml", &node("n1", 4).replace("cpu: 4", "cpus: 4"))]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml", "-o", "json"], "");
    let expected = "note: m.yaml:5:30: document 1: Node n1: status.allocatable.cpus: ignored, for no pod can ask for a resource of this name, expected cpu, ";
    assert!(ran.stderr.starts_with(expected) && ran.code == 0, "{ran:?}");
}

#[test]
fn an_ignored_workload_gets_a_note_on_which_objects_to_give_instead() {
    let of = |api: &str, kind: &str| format!("---\napiVersion: {api}\nkind: {kind}\nmetadata: {{name: x}}\n");
    let kinds =
        of("batch/v1", "CronJob") + &of("apps/v1", "DaemonSet") + &of("v1", "Service") + &of("v1", "Nodes");
    let folder = folder(&[("m.yaml", &(node("n1", 4) + &kinds))]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml", "-o", "json"], "");
    let told: Vec<&str> =
        ran.stderr.lines().filter_map(|line| Some(line.split_once("object of kind ")?.1)).collect();
    let expected = [
        "CronJob (batch/v1), whose pods its controller makes, expected those: kubectl get pods -A -o yaml",
        "DaemonSet (apps/v1), whose pods its controller makes, expected those: kubectl get pods -A -o yaml",
        "Service (v1), which scheduling does not read",
        "Nodes (v1), which scheduling does not read (did you mean Node?)",
    ];
    assert_eq!(told, expected);
}

#[test]
fn faults_of_cron_jobs_flows_and_commands_are_reported_with_their_field() {
    let task = "tasks: [{name: t, replicas: 1, template: {spec: {containers: [{name: main, image: x}]}}}]";
    let of = |api: &str, kind: &str, rest: &str| {
        format!("---\napiVersion: {api}.volcano.sh/v1alpha1\nkind: {kind}\nmetadata: {{name: x}}\n{rest}\n")
    };
    let cron = |spec: &str, task: &str| {
        of("batch", "CronJob", &format!("spec: {{{spec}, jobTemplate: {{spec: {{{task}}}}}}}"))
    };
    let hourly = "schedule: \"0 * * * *\"";
    for (object, field) in [
        (cron("schedule: soon", task), "spec.schedule: "),
        (cron(&format!("{hourly}, timeZone: Europe/Nowhere"), task), "spec.timeZone: "),
        (cron(hourly, "tasks: []"), "spec.jobTemplate.spec.tasks: none given"),
        (
            cron(hourly, &task.replace("image: x", "image: x, resources: {limits: {cpu: lots}}")),
            "limits.cpu: ",
        ),
        (of("flow", "JobTemplate", &format!("spec: {{minAvailable: 2, {task}}}")), "spec.minAvailable: 2"),
        (of("bus", "Command", "action: Stop\ntarget: {kind: Job, name: x}"), "action: found \"Stop\""),
        (of("bus", "Command", "action: AbortJob"), "target: expected kind Job"),
        (
            of("bus", "Command", "action: CloseQueue\ntarget: {kind: Job, name: x}"),
            "target: expected kind Queue",
        ),
    ] {
        let folder = folder(&[("m.yaml", &(node("n1", 4) + &object))]);
        let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml"], "");
        assert!(ran.code == 2 && ran.stderr.contains(field), "{field}: {ran:?}");
    }
}

#[test]
fn an_invalid_expression_of_an_unused_device_class_is_reported() {
    let selectors = "selectors: [{cel: {expression: device.driver ==}}]";
    let devices =
        format!("devices: {{requests: [{{name: r, exactly: {{deviceClassName: gpu, {selectors}}}}}]}}");
    let text = node("n1", 4)
        + &dra("DeviceClass", &format!("spec: {{{selectors}}}"))
        + &dra("ResourceClaim", &format!("spec: {{{devices}}}"))
        + &dra("ResourceClaimTemplate", &format!("spec: {{spec: {{{devices}}}}}"));
    let folder = folder(&[("m.yaml", &text)]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml", "-o", "json"], "");
    let told: Vec<&str> =
        ran.stderr.lines().filter_map(|line| line.split_once(": document ")).map(|told| told.1).collect();
    let cel = "selectors[0].cel.expression: column 17: found the end, expected a value";
    let expected = [
        format!("2: DeviceClass x: spec.{cel}; no device is of this class"),
        format!(
            "3: ResourceClaim default/x: spec.devices.requests[0].exactly.{cel}; no device is good for it"
        ),
        format!(
            "4: ResourceClaimTemplate default/x: spec.spec.devices.requests[0].exactly.{cel}; no device is good for it"
        ),
    ];
    assert_eq!((ran.code, told), (0, expected.iter().map(String::as_str).collect()), "{}", ran.stderr);
}

/// An object of the group resource.k8s.io.
fn dra(kind: &str, spec: &str) -> String {
    format!("---\napiVersion: resource.k8s.io/v1\nkind: {kind}\nmetadata: {{name: x}}\n{spec}\n")
}

#[test]
fn objects_of_missing_nodes_get_a_note() {
    let object = |api: &str, kind: &str, name: &str, body: &str| {
        format!("---\napiVersion: {api}\nkind: {kind}\nmetadata: {{name: {name}}}\n{body}\n")
    };
    let about = |node: &str| {
        let slice = format!(
            "spec: {{driver: d, nodeName: {node}, pool: {{name: {node}, generation: 1, resourceSliceCount: 1}}}}"
        );
        let attachment =
            format!("spec: {{attacher: d, nodeName: {node}, source: {{persistentVolumeName: v}}}}");
        let usage = "timestamp: 2026-01-31T08:00:00Z\nwindow: 10s\nusage: {cpu: 1, memory: 1Gi}";
        object("resource.k8s.io/v1", "ResourceSlice", &format!("s-{node}"), &slice)
            + &object("storage.k8s.io/v1", "VolumeAttachment", &format!("a-{node}"), &attachment)
            + &object("storage.k8s.io/v1", "CSINode", node, "spec: {drivers: []}")
            + &object("metrics.k8s.io/v1beta1", "NodeMetrics", node, usage)
    };
    let folder = folder(&[("m.yaml", &(node("n1", 4) + &about("n1") + &about("n2") + &pod("p", 1, "", "")))]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml", "-o", "json"], "");
    assert_eq!(ran.json()["bindings"], json!({"default/p": "n1"}));
    let told: Vec<&str> =
        ran.stderr.lines().filter_map(|line| Some(line.split_once(": document ")?.1)).collect();
    let expected = [
        "6: ResourceSlice s-n2: spec.nodeName: node \"n2\" is not in the input; no pod can use these devices",
        "7: VolumeAttachment a-n2: spec.nodeName: node \"n2\" is not in the input; the volume counts for no node's limit",
        "8: CSINode n2: metadata.name: node \"n2\" is not in the input; its limits have no effect",
        "9: NodeMetrics n2: metadata.name: node \"n2\" is not in the input; its figures have no effect",
    ];
    assert_eq!(told, expected, "{}", ran.stderr);
}

#[test]
fn an_unknown_field_of_an_object_gets_a_note_and_is_ignored() {
    let pods: String = (0..3).map(|index| pod(&format!("p-{index}"), 1, "", "shedulerName: x")).collect();
    let folder = folder(&[("m.yaml", &(node("n1", 4) + &pods))]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml", "-o", "json"], "");
    assert_eq!(ran.json()["stats"]["bound"], 3);
    let note = "note: m.yaml:10:22: document 2: Pod default/p-0: spec.shedulerName: unknown field, ignored (did you mean schedulerName?) (3 times in all)\n";
    assert_eq!(ran.stderr, note);
}
