//! Where manifests come from.
use serde_json::json;

use crate::run::{folder, node, phalanx_in, pod};

#[test]
fn folders_are_read_with_the_folders_in_them_and_hidden_ones_left_out() {
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
fn a_dash_is_standard_input() {
    let folder = folder(&[("pods.yaml", &pod("p", 1, "", ""))]);
    let ran =
        phalanx_in(folder.path(), &["simulate", "-f", "-", "-f", "pods.yaml", "-o", "json"], &node("n1", 4));
    assert_eq!(ran.json()["bindings"], json!({"default/p": "n1"}));
}

#[test]
fn a_file_without_any_object_is_told_beside_others() {
    let folder = folder(&[("n.yaml", &node("n1", 4)), ("empty.yaml", "# nothing\n---\n")]);
    let simulate = |stdin: &str, more: &[&str]| {
        let args = [&["simulate", "-f", "n.yaml", "-", "-o", "json"], more].concat();
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
fn what_to_give_in_place_of_objects_whose_controllers_are_missing_is_told() {
    let of = |api: &str, kind: &str| format!("---\napiVersion: {api}\nkind: {kind}\nmetadata: {{name: x}}\n");
    let kinds = of("batch.volcano.sh/v1alpha1", "Job") + &of("apps/v1", "DaemonSet") + &of("v1", "Service");
    let folder = folder(&[("m.yaml", &(node("n1", 4) + &kinds))]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml", "-o", "json"], "");
    let told: Vec<&str> =
        ran.stderr.lines().filter_map(|line| Some(line.split_once("object of kind ")?.1)).collect();
    let expected = [
        "Job (batch.volcano.sh/v1alpha1), whose pods and PodGroup Volcano's Job controller makes, expected those: kubectl get pods,podgroups -A -o yaml",
        "DaemonSet (apps/v1), whose pods its controller makes, expected those: kubectl get pods -A -o yaml",
        "Service (v1), which scheduling does not read",
    ];
    assert_eq!(told, expected);
}

#[test]
fn an_expression_that_cannot_be_read_is_told_of_a_class_that_nobody_names() {
    let class = "---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu}\n\
        spec: {selectors: [{cel: {expression: device.driver ==}}]}\n";
    let folder = folder(&[("m.yaml", &(node("n1", 4) + class))]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml", "-o", "json"], "");
    let expected = "note: m.yaml:10:39: document 2: DeviceClass gpu: spec.selectors[0].cel.expression: column 17: \
        found the end, expected a value; no device is of this class\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (0, expected));
}

#[test]
fn objects_about_nodes_that_are_not_there_are_told() {
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
        "6: ResourceSlice s-n2: spec.nodeName: node \"n2\" is not in the input; nobody can have these devices",
        "7: VolumeAttachment a-n2: spec.nodeName: node \"n2\" is not in the input; the volume counts for no node's limit",
        "8: CSINode n2: metadata.name: node \"n2\" is not in the input; its limits are nobody's",
        "9: NodeMetrics n2: metadata.name: node \"n2\" is not in the input; its figures are nobody's",
    ];
    assert_eq!(told, expected, "{}", ran.stderr);
}

#[test]
fn a_field_that_the_kind_does_not_have_is_told_and_left_out() {
    let pods: String = (0..3).map(|index| pod(&format!("p-{index}"), 1, "", "shedulerName: x")).collect();
    let folder = folder(&[("m.yaml", &(node("n1", 4) + &pods))]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml", "-o", "json"], "");
    assert_eq!(ran.json()["stats"]["bound"], 3);
    let note = "note: m.yaml:10:22: document 2: Pod default/p-0: spec.shedulerName: unknown field, ignored (did you mean schedulerName?) (3 times in all)\n";
    assert_eq!(ran.stderr, note);
}
