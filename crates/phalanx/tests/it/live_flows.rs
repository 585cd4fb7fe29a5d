//! `phalanx jobflow`, `phalanx jobtemplate` and `phalanx pod`: requests, messages and exit codes.
use serde_json::json;

use crate::api_server::{ApiServer, refusal};
use crate::run::folder;

const FLOWS: &str = "/apis/flow.volcano.sh/v1alpha1/namespaces/default/jobflows";
const FILE: &str = "apiVersion: flow.volcano.sh/v1alpha1\nkind: JobFlow\nmetadata: {name: test-a, namespace: default}\n\
    ---\nkind: JobFlow\nmetadata: {name: test-b}\nspec: {flows: [{name: a}]}\n---\n";

#[test]
fn the_objects_of_a_file_are_created_and_deleted_one_by_one() {
    let folder = folder(&[("flow.yaml", FILE)]);
    let file = folder.path().join("flow.yaml");
    let file = file.to_str().unwrap();
    let server = ApiServer::always(&json!({"metadata": {"name": "test-jobflow", "namespace": "default"}}));
    let created = server.phalanx(&["jobflow", "create", "-f", file]);
    assert_eq!(created.text(), "Created JobFlow: default/test-a\nCreated JobFlow: default/test-b\n");
    assert_eq!(server.lines(), [format!("POST {FLOWS}"), format!("POST {FLOWS}")]);
    let deleted = server.phalanx(&["jobflow", "delete", "-f", file]);
    assert_eq!(deleted.text(), "Deleted JobFlow: default/test-a\nDeleted JobFlow: default/test-b\n");
    assert_eq!(server.lines()[2..], [format!("DELETE {FLOWS}/test-a"), format!("DELETE {FLOWS}/test-b")]);
    let refused = server.phalanx(&["jobtemplate", "create", "-f", file]);
    let expected = format!("error: {file}, document 1: kind: found \"JobFlow\", expected \"JobTemplate\"\n");
    assert_eq!((refused.code, refused.stderr), (2, expected));
}

#[test]
fn an_object_that_is_refused_keeps_no_other_from_being_created() {
    let folder = folder(&[("flow.yaml", FILE)]);
    let server = ApiServer::start(move |_| refusal(409, "jobflows \"a\" already exists"));
    let file = folder.path().join("flow.yaml");
    let ran = server.phalanx(&["jobflow", "create", "-f", file.to_str().unwrap()]);
    let line = "error: Failed to create JobFlow: jobflows \"a\" already exists\n";
    assert_eq!((ran.code, ran.stderr, server.lines().len()), (1, line.repeat(2), 2));
}

#[test]
fn one_object_is_shown_described_and_deleted() {
    let object = json!({
        "kind": "JobFlow", "apiVersion": "flow.volcano.sh/v1alpha1",
        "metadata": {"name": "test-jobflow", "namespace": "default"}, "spec": {}, "status": {"state": {}},
    });
    let server = ApiServer::always(&object);
    let named = ["-N", "test-jobflow", "-n", "default"];
    let flow = |what: &str| server.phalanx(&[&["jobflow", what], &named[..]].concat());
    let line = "test-jobflow    default               <unknown>    ";
    assert_eq!(flow("get").text().lines().nth(1), Some(line));
    assert_eq!(
        flow("describe").text(),
        "apiVersion: flow.volcano.sh/v1alpha1\nkind: JobFlow\nmetadata:\n  name: test-jobflow\n  namespace: default\n\
         spec: {}\nstatus:\n  state: {}\n"
    );
    let json = server.phalanx(&["jobflow", "describe", "-N", "test-jobflow", "-o", "json"]);
    assert_eq!(json.json(), object);
    assert_eq!(flow("delete").text(), "Deleted JobFlow: default/test-jobflow\n");
    assert_eq!(server.lines().pop().unwrap(), format!("DELETE {FLOWS}/test-jobflow"));
}

#[test]
fn what_is_missing_is_named_in_vcctls_words() {
    let server = ApiServer::always(&json!({"items": []}));
    for (args, expected) in [
        (&["jobflow", "get"][..], "name is mandatory to get the particular jobflow details"),
        (&["jobtemplate", "get"], "name is mandatory to get the particular job template details"),
        (&["jobflow", "delete"], "jobflow name must be specified"),
        (&["jobtemplate", "delete"], "job template name must be specified"),
        (&["jobtemplate", "create", "-f", "none"], "open none: no such file or directory"),
    ] {
        let ran = server.phalanx(args);
        assert_eq!((ran.code, ran.stderr), (2, format!("error: {expected}\n")));
    }
    for kind in ["jobflow", "jobtemplate", "pod"] {
        assert_eq!(server.phalanx(&[kind, "list"]).text(), "No resources found\n");
    }
}

#[test]
fn pods_are_listed_by_label() {
    let pod = json!({
        "metadata": {"name": "train-0", "namespace": "default"},
        "spec": {"containers": [{"name": "main"}]}, "status": {"phase": "Pending"},
    });
    let server = ApiServer::always(&json!({"items": [pod]}));
    let ran = server.phalanx(&["pod", "list", "-j", "train"]);
    assert_eq!(
        ran.text(),
        "Name           Ready      Status         Restart  Age              \n\
         train-0        0/1        Pending        0        <unknown>        \n"
    );
    let path = "GET /api/v1/namespaces/default/pods?&labelSelector=volcano.sh%2Fjob-name%3Dtrain";
    assert_eq!(server.lines(), [path]);
}
