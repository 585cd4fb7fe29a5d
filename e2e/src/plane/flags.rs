//! What each part of the plane is started with.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::PlaneOptions;

/// Workload controllers, and what tidies up after deletions. Without the node lifecycle controller:
/// fake nodes renew no leases and would be marked unreachable.
const CONTROLLERS: &str = "--controllers=deployment-controller,replicaset-controller,statefulset-controller,\
                           daemonset-controller,job-controller,cronjob-controller,disruption-controller,\
                           namespace-controller,garbage-collector-controller,pod-garbage-collector-controller,\
                           resourceclaim-controller,persistentvolume-binder-controller";
const GANG_GATES: &str = "--feature-gates=GenericWorkload=true,GangScheduling=true";

pub(super) fn etcd(data: &Path, url: &str, fsync: bool) -> Vec<String> {
    vec![with_path("--data-dir", data), format!("--client-url={url}"), format!("--fsync={fsync}")]
}

pub(super) fn audit_log(dir: &Path) -> PathBuf {
    dir.join("audit.log")
}

pub(super) fn audit_policy_file(dir: &Path) -> PathBuf {
    dir.join("audit-policy.yaml")
}

/// Who asked for what, once the answer is out.
pub(super) fn audit_policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    })
}

pub(super) fn apiserver(dir: &Path, etcd: &str, port: u16, options: &PlaneOptions) -> Vec<String> {
    let mut flags = vec![
        format!("--etcd-servers={etcd}"),
        with_path("--tls-cert-file", &dir.join("apiserver.crt")),
        with_path("--tls-private-key-file", &dir.join("apiserver.key")),
        with_path("--token-auth-file", &dir.join("tokens.csv")),
        with_path("--service-account-key-file", &dir.join("sa.key")),
        with_path("--service-account-signing-key-file", &dir.join("sa.key")),
        "--service-account-issuer=https://plane.phalanx.sh".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        // The first would hold pods back until a controller made their tokens; the second would give
        // every new node a taint that only the node lifecycle controller takes away.
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition".to_owned(),
        // Above what a benchmark sends at once: it should measure the server, not its queues.
        "--max-requests-inflight=3000".to_owned(),
        "--max-mutating-requests-inflight=1000".to_owned(),
    ];
    flags.extend(loopback(port));
    if options.audit {
        flags.push(with_path("--audit-log-path", &audit_log(dir)));
        flags.push(with_path("--audit-policy-file", &audit_policy_file(dir)));
    }
    if options.native_gangs {
        flags.push(GANG_GATES.to_owned());
        flags.push("--runtime-config=scheduling.k8s.io/v1alpha2=true".to_owned());
    }
    flags
}

pub(super) fn controller_manager(
    dir: &Path,
    kubeconfig: &Path,
    port: u16,
    native_gangs: bool,
) -> Vec<String> {
    let mut flags = served_component(dir, kubeconfig, port);
    flags.push(with_path("--kubeconfig", kubeconfig));
    flags.push("--leader-elect=false".to_owned());
    flags.extend(["--kube-api-qps=5000".to_owned(), "--kube-api-burst=10000".to_owned()]);
    flags.push(CONTROLLERS.to_owned());
    if native_gangs {
        flags.push(GANG_GATES.to_owned());
    }
    flags
}

pub(super) fn scheduler(dir: &Path, kubeconfig: &Path, config: &Path, port: u16, gangs: bool) -> Vec<String> {
    let mut flags = served_component(dir, kubeconfig, port);
    flags.push(with_path("--config", config));
    if gangs {
        flags.push(GANG_GATES.to_owned());
    }
    flags
}

/// kube-scheduler alone and unthrottled.
pub(super) fn scheduler_config(kubeconfig: &Path) -> Value {
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": { "kubeconfig": kubeconfig, "qps": 5000, "burst": 10000 },
        "leaderElection": { "leaderElect": false },
    })
}

pub(super) fn kubeconfig(dir: &Path, server: &str, token: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "plane",
            "cluster": { "server": server, "certificate-authority": dir.join("ca.crt") },
        }],
        "users": [{ "name": "admin", "user": { "token": token } }],
        "contexts": [{ "name": "plane", "context": { "cluster": "plane", "user": "admin" } }],
        "current-context": "plane",
    })
}

/// The certificate of the API server is for loopback and serves the others' health checks as well.
fn served_component(dir: &Path, kubeconfig: &Path, port: u16) -> Vec<String> {
    let mut flags = vec![
        with_path("--tls-cert-file", &dir.join("apiserver.crt")),
        with_path("--tls-private-key-file", &dir.join("apiserver.key")),
        with_path("--authentication-kubeconfig", kubeconfig),
        with_path("--authorization-kubeconfig", kubeconfig),
        "--authentication-skip-lookup=true".to_owned(),
    ];
    flags.extend(loopback(port));
    flags
}

fn loopback(port: u16) -> [String; 2] {
    ["--bind-address=127.0.0.1".to_owned(), format!("--secure-port={port}")]
}

fn with_path(flag: &str, path: &Path) -> String {
    format!("{flag}={}", path.display())
}
