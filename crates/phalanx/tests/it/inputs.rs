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
fn a_field_that_the_kind_does_not_have_is_told_and_left_out() {
    let pods: String = (0..3).map(|index| pod(&format!("p-{index}"), 1, "", "shedulerName: x")).collect();
    let folder = folder(&[("m.yaml", &(node("n1", 4) + &pods))]);
    let ran = phalanx_in(folder.path(), &["simulate", "-f", "m.yaml", "-o", "json"], "");
    assert_eq!(ran.json()["stats"]["bound"], 3);
    let note = "note: m.yaml:10:22: document 2: Pod default/p-0: spec.shedulerName: unknown field, ignored (did you mean schedulerName?) (3 times in all)\n";
    assert_eq!(ran.stderr, note);
}
