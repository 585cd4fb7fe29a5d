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
    assert_eq!(ran.stderr, "note: ignored 1 object of kind Service (v1), which scheduling does not read\n");
}

#[test]
fn a_dash_is_standard_input() {
    let folder = folder(&[("pods.yaml", &pod("p", 1, "", ""))]);
    let ran =
        phalanx_in(folder.path(), &["simulate", "-f", "-", "-f", "pods.yaml", "-o", "json"], &node("n1", 4));
    assert_eq!(ran.json()["bindings"], json!({"default/p": "n1"}));
}
