//! `phalanx capture`, and commands that read a live cluster: what is copied, and what is left out.
use serde_json::{Value, json};

use crate::api_server::{ApiServer, refusal};
use crate::run::{folder, phalanx_in};

/// A cluster with a node and a pod that is too large; it does not have devices, and its user may not list volumes.
fn cluster() -> ApiServer {
    let container = json!({"name": "main", "image": "i", "command": ["run"], "args": ["--token=x"],
        "env": [{"name": "PASSWORD", "value": "secret"}], "resources": {"requests": {"cpu": "8"}}});
    let labels = json!({"env": "prod", "command": "x"});
    let pod = json!({"metadata": {"name": "p", "namespace": "ml", "uid": "1", "labels": labels, "managedFields": [{"manager": "m"}]},
        "spec": {"schedulerName": "volcano", "containers": [container]}, "status": {"phase": "Pending"}});
    let allocatable = json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
    let node = json!({"metadata": {"name": "n1"},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}});
    ApiServer::start(move |line| match line.rsplit('/').next().unwrap_or_default() {
        "nodes" if line.contains("metrics.k8s.io") => refusal(404, "not found"),
        "nodes" => (200, json!({"items": [node]})),
        "pods" => (200, json!({"items": [pod]})),
        "persistentvolumes" => refusal(403, "persistentvolumes is forbidden"),
        "deviceclasses" => refusal(404, "not found"),
        _ => (200, json!({"items": []})),
    })
}

#[test]
fn a_copy_has_what_scheduling_reads_and_no_secrets() {
    let ran = cluster().phalanx(&["capture"]);
    let objects: Vec<Value> = ran.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Node", "Pod"]);
    for left_out in ["PASSWORD", "secret", "--token", "managedFields"] {
        assert!(!ran.stdout.contains(left_out), "{left_out}");
    }
    let labels = json!({"env": "prod", "command": "x"});
    assert_eq!(objects[1]["metadata"]["labels"], labels, "names of labels are no fields of containers");
    let note = "note: left out objects of kind PersistentVolume: persistentvolumes is forbidden\n";
    assert_eq!(ran.stderr, note);
    let copy = folder(&[("copy.json", &ran.stdout)]);
    let simulated = phalanx_in(copy.path(), &["simulate", "-f", "copy.json"], "");
    assert!(simulated.text().contains("0 pods bound, 1 waiting"), "{simulated:?}");
}

#[test]
fn long_lists_are_read_page_by_page() {
    let server = ApiServer::start(|line| match line {
        "GET /api/v1/nodes" => {
            (200, json!({"metadata": {"continue": ""}, "items": [{"metadata": {"name": "n"}}]}))
        }
        _ => (200, json!({"items": null})),
    });
    assert_eq!(server.phalanx(&["capture"]).text().lines().count(), 1);
    assert!(server.lines().contains(&"GET /api/v1/nodes?&limit=500".to_owned()), "{:?}", server.lines());
}

#[test]
fn without_files_a_live_cluster_is_explained_and_changed() {
    let explained = cluster().phalanx(&["explain", "pod", "p", "-n", "ml"]);
    assert!(explained.text().contains("1 Insufficient cpu"), "{explained:?}");
    let changed = cluster().phalanx(&["whatif", "--add-nodes", "n1=2"]);
    assert!(changed.text().starts_with("No difference"), "{changed:?}");
}

/// A cluster with this ConfigMap and nothing else.
fn with_configmap(path: &'static str, key: &'static str, conf: &'static str) -> ApiServer {
    ApiServer::start(move |line| match line.split_once(' ').map(|(_, asked)| asked) {
        Some(asked) if asked == path => (200, json!({"metadata": {"name": "c"}, "data": {key: conf}})),
        Some(asked) if asked.contains("configmaps") => refusal(404, "not found"),
        _ => (200, json!({"items": []})),
    })
}

#[test]
fn the_configuration_of_a_live_cluster_is_that_of_its_scheduler() {
    let volcano = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap";
    let wrong = "actions: \"alocate\"\n";
    let whatif = ["whatif", "--add-nodes", "n1=2"];
    let server = || with_configmap(volcano, "volcano-scheduler.conf", wrong);
    let ran = server().phalanx(&whatif);
    let place = "ConfigMap volcano-system/volcano-scheduler-configmap (volcano-scheduler.conf)";
    let note = format!("note: the configuration is that of {place}\n");
    assert!(ran.code == 2 && ran.stderr.starts_with(&note), "{ran:?}");
    assert!(ran.stderr.contains(&format!("error: {place}:1:")), "{ran:?}");
    let none = with_configmap("/elsewhere", "", "").phalanx(&whatif);
    assert!(none.stderr.starts_with("note: the configuration is Volcano's built-in default; "), "{none:?}");
    let own = with_configmap("/api/v1/namespaces/ml/configmaps/mine", "scheduler.conf", wrong);
    let ran = own.phalanx(&[&whatif[..], &["--scheduler-configmap", "ml/mine"]].concat());
    assert!(ran.stderr.starts_with("error: ConfigMap ml/mine (scheduler.conf):1:"), "{ran:?}");
    let ran = server().phalanx(&[&whatif[..], &["--scheduler-configmap", "ml/mine"]].concat());
    assert!(ran.stderr.starts_with("error: ConfigMap ml/mine: "), "{ran:?}");
}

#[test]
fn without_a_namespace_that_of_the_context_is_explained() {
    let server = cluster();
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server.url()}}], "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c", "namespace": "ml"}}]});
    let folder = folder(&[("kubeconfig", &config.to_string())]);
    let ran = phalanx_in(folder.path(), &["explain", "pod/p", "--kubeconfig", "kubeconfig"], "");
    assert!(ran.text().starts_with("Pod ml/p: waits\n"), "{ran:?}");
}
