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

/// Objects change while their list is read: a page may be gone when it is asked for.
#[test]
fn a_list_whose_next_page_has_expired_is_read_anew_as_a_whole() {
    let server = ApiServer::by_line(|line| match line {
        "GET /api/v1/nodes?&limit=500" => (
            200,
            json!({"metadata": {"continue": "next"}, "items": [{"metadata": {"name": "gone"}}, {"metadata": {"name": "a"}}]}),
        ),
        "GET /api/v1/nodes?&limit=500&continue=next" => {
            refusal(410, "the provided continue parameter is too old")
        }
        "GET /api/v1/nodes" => {
            (200, json!({"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}))
        }
        _ => (200, json!({"items": null})),
    });
    let ran = server.phalanx(&["capture"]);
    let name = |line: &str| serde_json::from_str::<Value>(line).unwrap()["metadata"]["name"].clone();
    assert_eq!(ran.text().lines().map(name).collect::<Vec<_>>(), ["a", "b"], "{ran:?}");
}

#[test]
fn names_are_replaced_on_request_and_the_copy_still_says_why_a_pod_waits() {
    let ran = cluster().phalanx(&["capture", "--replace-names"]);
    for named in ["\"ml\"", "\"p\"", "\"n1\"", "prod"] {
        assert!(!ran.text().contains(named), "{named}: {ran:?}");
    }
    let pod: Value = serde_json::from_str(ran.text().lines().last().unwrap()).unwrap();
    let [name, namespace] = ["name", "namespace"].map(|key| pod["metadata"][key].as_str().unwrap());
    let copy = folder(&[("copy.json", &ran.stdout)]);
    let explained =
        phalanx_in(copy.path(), &["explain", "pod", name, "-n", namespace, "-f", "copy.json"], "");
    assert!(explained.text().contains("1 Insufficient cpu"), "{explained:?}");
    let both = cluster().phalanx(&["capture", "--replace-names", "--live"]);
    assert_eq!(both.code, 2, "{both:?}");
}

/// A lease without a holder, and a service account that lends a token.
#[test]
fn a_scheduler_is_found_by_its_lease_with_the_token_of_an_account() {
    let server = ApiServer::start(|line| match line {
        "POST /api/v1/namespaces/batch/serviceaccounts/phalanx-viewer/token" => {
            let spec = json!({"audiences": []});
            (
                201,
                json!({"metadata": {}, "spec": spec, "status": {"token": "t", "expirationTimestamp": "2026-01-01T00:00:00Z"}}),
            )
        }
        "GET /apis/coordination.k8s.io/v1/namespaces/batch/leases/canary" => {
            (200, json!({"metadata": {}, "spec": {}}))
        }
        _ => refusal(404, "no such path"),
    });
    let ran = server.phalanx(&["explain", "pod", "p", "--live=batch/canary"]);
    let why = "lease batch/canary: no scheduler leads";
    assert!(ran.code == 1 && ran.stderr.contains(why), "{ran:?}");
    let refused = server.phalanx(&["top", "--live=volcano/volcano"]);
    let why = "gets none of ServiceAccount volcano/phalanx-viewer: no such path";
    assert!(refused.code == 1 && refused.stderr.contains(why), "{refused:?}");
    for wrong in [&["top", "--live=volcano"][..], &["explain", "pod", "p", "--live", "-f", "x.yaml"]] {
        assert_eq!(server.phalanx(wrong).code, 2, "{wrong:?}");
    }
}

#[test]
fn without_files_a_live_cluster_is_explained_and_changed() {
    let note = "note: a copy of the cluster is asked, not the scheduler: ";
    let explained = cluster().phalanx(&["explain", "pod", "p", "-n", "ml"]);
    assert!(explained.text().contains("1 Insufficient cpu"), "{explained:?}");
    assert!(explained.stderr.starts_with(note), "{explained:?}");
    let changed = cluster().phalanx(&["whatif", "--add-nodes", "n1=2"]);
    assert!(changed.text().starts_with("No difference") && changed.stderr.starts_with(note), "{changed:?}");
    // A configuration or names of schedulers are those of a copy.
    let copied = cluster().phalanx(&["explain", "pod", "p", "-n", "ml", "--scheduler-name", "volcano,other"]);
    assert!(copied.text().contains("1 Insufficient cpu") && !copied.stderr.contains(note), "{copied:?}");
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
    assert!(ran.code == 2 && ran.stderr.contains(&note), "{ran:?}");
    assert!(ran.stderr.contains(&format!("error: {place}:1:")), "{ran:?}");
    let none = with_configmap("/elsewhere", "", "").phalanx(&whatif);
    assert!(none.stderr.contains("\nnote: the configuration is Volcano's built-in default; "), "{none:?}");
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
