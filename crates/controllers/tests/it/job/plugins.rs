//! Job plugins: what they make, and what pods get.

use k8s_openapi::api::core::v1::{Container, Pod};
use phalanx_controllers::{Kind, Object};
use serde_json::{Value, json};

use super::spec;
use crate::cluster::Cluster;

fn cluster(more: &str) -> Cluster {
    let mut cluster = Cluster::new(&spec(more));
    cluster.settle();
    cluster
}

fn container(pod: &Pod) -> &Container {
    &pod.spec.as_ref().unwrap().containers[0]
}

/// The variables of a pod, in order.
fn env(cluster: &Cluster, pod: &str) -> Vec<String> {
    let env = container(cluster.pod(pod)).env.iter().flatten();
    env.map(|one| {
        let from = one.value_from.as_ref().and_then(|from| from.config_map_key_ref.as_ref());
        let value = from.map(|from| format!("<{}>", from.name)).or(one.value.clone()).unwrap_or_default();
        format!("{}={value}", one.name)
    })
    .filter(|text| !text.starts_with("VC_MASTER") && !text.starts_with("VC_WORKER"))
    .collect()
}

fn made(cluster: &Cluster, kind: Kind) -> Value {
    let found: Vec<&Object> = cluster.made.iter().filter(|object| object.kind() == kind).collect();
    assert_eq!(found.len(), 1, "{kind:?}");
    match found[0] {
        Object::Service(object) => json!(object),
        Object::Secret(object) => json!(object),
        Object::ConfigMap(object) => json!(object),
        Object::NetworkPolicy(object) => json!(object),
        object => panic!("{object:?}"),
    }
}

#[test]
fn variables_of_each_plugin() {
    let tf = |role: &str, index: i32| {
        format!(
            r#"TF_CONFIG={{"cluster":{{"worker":["train-worker-0.train:2222","train-worker-1.train:2222"],"chief":["train-master-0.train:2222"]}},"task":{{"type":"{role}","index":{index}}}}}"#
        )
    };
    let rank = |rank: &str| {
        ["MASTER_ADDR=train-master-0.train", "MASTER_PORT=23456", "WORLD_SIZE=3", rank]
            .map(str::to_owned)
            .to_vec()
    };
    for (plugins, pod, expected) in [
        ("env: []", "worker-1", vec!["VK_TASK_INDEX=1".to_owned(), "VC_TASK_INDEX=1".to_owned()]),
        ("pytorch: []", "master-0", rank("RANK=0")),
        ("pytorch: []", "worker-1", rank("RANK=2")),
        ("pytorch: ['--master=none']", "worker-1", vec![]),
        ("tensorflow: ['--chief=master']", "worker-1", vec![tf("worker", 1)]),
        ("tensorflow: ['--chief=master']", "master-0", vec![tf("chief", 0)]),
        ("mpi: []", "master-0", vec!["MPI_HOST=train-worker-0.train,train-worker-1.train".to_owned()]),
        ("mpi: []", "worker-0", vec![]),
        ("svc: []", "worker-0", vec![]),
        ("ssh: []", "worker-0", vec![]),
    ] {
        let cluster = cluster(&format!("plugins: {{{plugins}}}"));
        assert_eq!(env(&cluster, pod), expected, "{plugins} {pod}");
    }
}

#[test]
fn arguments_that_a_plugin_cannot_use_are_told_once_and_pods_are_made() {
    for (plugins, expected) in [
        (
            "svc: ['--bogus']",
            "PluginError: plugin svc: \"--bogus\" is not known, expected --publish-not-ready-addresses, \
             --disable-network-policy, --inject-hosts-env; it and what follows it have no effect",
        ),
        (
            "env: ['x']",
            "PluginError: plugin env: \"x\" is not known, expected none; it and what follows it have no effect",
        ),
        (
            "pytorch: ['--port=abc']",
            "PluginError: plugin pytorch: \"--port=abc\" is not a whole number, so it is 23456",
        ),
    ] {
        let mut cluster = cluster(&format!("plugins: {{{plugins}}}"));
        cluster.set_all("Running");
        cluster.settle();
        assert_eq!((&cluster.notes[..], cluster.names().len()), (&[expected.to_owned()][..], 3));
    }
}

#[test]
fn ports_of_each_plugin() {
    for (plugins, pod, expected) in [
        ("pytorch: []", "worker-0", vec![("pytorchjob-port", 23456)]),
        ("pytorch: ['--port=1']", "worker-0", vec![("pytorchjob-port", 1)]),
        ("mpi: []", "worker-0", vec![("mpijob-port", 22)]),
        (
            "ray: ['--head=master', '--headContainer=c']",
            "master-0",
            vec![("gcs", 6379), ("dashboard", 8265), ("client-server", 10001)],
        ),
        ("ray: ['--head=master', '--headContainer=c']", "worker-0", vec![]),
    ] {
        let cluster = cluster(&format!("plugins: {{{plugins}}}"));
        let ports = container(cluster.pod(pod)).ports.iter().flatten();
        let ports: Vec<_> = ports.map(|port| (port.name.as_deref().unwrap(), port.container_port)).collect();
        assert_eq!(ports, expected, "{plugins} {pod}");
    }
}

#[test]
fn ray_starts_a_head_and_workers_and_serves_the_head() {
    let cluster = cluster(
        "plugins: {ray: ['--head=master', '--headContainer=c', '--workerContainer=c', '--port', '7000']}",
    );
    let command = |pod: &str| container(cluster.pod(pod)).command.clone().unwrap();
    assert_eq!(
        command("master-0"),
        [
            "sh",
            "-c",
            "ray start --head --block --dashboard-host=0.0.0.0 --port=7000 --dashboard-port=8265 --ray-client-server-port=10001"
        ]
    );
    assert_eq!(command("worker-0"), ["sh", "-c", "ray start --block --address=train-master-0.train:7000"]);
    let services: Vec<_> = cluster.made.iter().filter(|one| one.kind() == Kind::Service).collect();
    assert_eq!(services.len(), 2, "svc is added for ray");
    let Some(Object::Service(head)) =
        services.iter().find(|one| one.metadata().name.as_deref() == Some("train-head-svc"))
    else {
        panic!("{services:?}")
    };
    let spec = head.spec.as_ref().unwrap();
    assert_eq!(spec.selector.as_ref().unwrap()["volcano.sh/task-spec"], "master");
    let ports: Vec<_> =
        spec.ports.iter().flatten().map(|port| (port.name.as_deref().unwrap(), port.port)).collect();
    assert_eq!(ports, [("gcs", 7000), ("dashboard", 8265), ("client-server", 10001)]);
}

#[test]
fn svc_names_the_pods() {
    let cluster = cluster("plugins: {svc: []}");
    let labels = json!({"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "vision"});
    let service = made(&cluster, Kind::Service);
    assert_eq!(service["metadata"]["name"], "train");
    assert_eq!(
        service["spec"],
        json!({"clusterIP": "None", "selector": labels, "publishNotReadyAddresses": false})
    );
    let policy = made(&cluster, Kind::NetworkPolicy);
    assert_eq!(policy["metadata"]["name"], "train");
    let pods = json!({"matchLabels": labels});
    assert_eq!(
        policy["spec"],
        json!({"podSelector": pods, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": pods}]}]})
    );
    let map = made(&cluster, Kind::ConfigMap);
    assert_eq!(map["metadata"]["name"], "train-svc");
    assert_eq!(
        map["data"],
        json!({
            "master.host": "train-master-0.train", "VC_MASTER_HOSTS": "train-master-0.train", "VC_MASTER_NUM": "1",
            "worker.host": "train-worker-0.train\ntrain-worker-1.train",
            "VC_WORKER_HOSTS": "train-worker-0.train,train-worker-1.train", "VC_WORKER_NUM": "2",
        })
    );
    let spec = cluster.pod("worker-1").spec.as_ref().unwrap();
    assert_eq!(
        (spec.hostname.as_deref(), spec.subdomain.as_deref()),
        (Some("train-worker-1"), Some("train"))
    );
    let mount = &spec.containers[0].volume_mounts.as_ref().unwrap()[0];
    assert_eq!((mount.name.as_str(), mount.mount_path.as_str()), ("train-svc", "/etc/volcano"));
    let env: Vec<_> = spec.containers[0].env.iter().flatten().map(|one| one.name.as_str()).collect();
    assert_eq!(env, ["VC_MASTER_HOSTS", "VC_MASTER_NUM", "VC_WORKER_HOSTS", "VC_WORKER_NUM"]);
}

#[test]
fn switches_of_svc() {
    let cluster = cluster(
        "plugins: {svc: ['--publish-not-ready-addresses=true', '--disable-network-policy', '--inject-hosts-env=false']}",
    );
    assert_eq!(made(&cluster, Kind::Service)["spec"]["publishNotReadyAddresses"], true);
    assert!(cluster.made.iter().all(|object| object.kind() != Kind::NetworkPolicy));
    assert_eq!(container(cluster.pod("worker-0")).env, None);
}

#[test]
fn hosts_follow_the_replicas() {
    let mut cluster = cluster("minAvailable: 1\nplugins: {svc: []}");
    cluster.job.as_mut().unwrap().spec.tasks[1].replicas = 1;
    cluster.job.as_mut().unwrap().spec.tasks[1].min_available = Some(1);
    cluster.settle();
    assert_eq!(made(&cluster, Kind::ConfigMap)["data"]["VC_WORKER_HOSTS"], "train-worker-0.train");
}

/// A Secret's text, from what JSON makes of bytes.
fn secret(cluster: &Cluster, key: &str) -> String {
    let object = cluster.made.iter().find(|object| object.kind() == Kind::Secret);
    let Some(Object::Secret(secret)) = object else { panic!("no Secret") };
    assert_eq!(secret.metadata.name.as_deref(), Some("train-ssh"));
    String::from_utf8(secret.data.as_ref().unwrap()[key].0.clone()).unwrap()
}

#[test]
fn ssh_keeps_a_key_pair_and_the_hosts_in_a_secret() {
    let with_key = "plugins: {ssh: ['--ssh-private-key=A', '--ssh-public-key=B', '--ssh-port=2222', '--ssh-key-file-path=/home/u/.ssh']}";
    for (plugins, private, public, port, path, mode) in [
        ("plugins: {ssh: []}", "PRIVATE", "PUBLIC", 22, "/root/.ssh", 0o600),
        (with_key, "A", "B", 2222, "/home/u/.ssh", 0o644),
    ] {
        let cluster = cluster(plugins);
        assert_eq!(
            (secret(&cluster, "id_rsa"), secret(&cluster, "id_rsa.pub")),
            (private.into(), public.into())
        );
        assert_eq!(secret(&cluster, "authorized_keys"), public);
        let config = secret(&cluster, "config");
        assert!(config.starts_with("StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"), "{config}");
        assert!(
            config
                .contains(&format!("Host train-worker-1\n  HostName train-worker-1.train\n  Port {port}\n")),
            "{config}"
        );
        let spec = cluster.pod("worker-0").spec.as_ref().unwrap();
        let mount = &spec.containers[0].volume_mounts.as_ref().unwrap()[0];
        assert_eq!((mount.mount_path.as_str(), mount.sub_path.as_deref()), (path, Some(".ssh")));
        let source = spec.volumes.as_ref().unwrap()[0].secret.as_ref().unwrap();
        assert_eq!((source.secret_name.as_deref(), source.default_mode), (Some("train-ssh"), Some(mode)));
    }
}

#[test]
fn the_key_pair_stays_over_a_restart_and_goes_with_the_job() {
    let mut cluster = cluster("plugins: {mpi: []}");
    cluster.command("RestartJob");
    cluster.settle();
    assert_eq!(cluster.made.iter().filter(|object| object.kind() == Kind::Secret).count(), 1);
    let marks = cluster.status().controlled_resources;
    assert_eq!(["plugin-mpi", "plugin-ssh", "plugin-svc"].map(|key| marks.contains_key(key)), [true; 3]);
    cluster.command("TerminateJob");
    cluster.settle();
    assert!(cluster.made.is_empty());
    assert!(cluster.status().controlled_resources.keys().all(|key| !key.starts_with("plugin-")));
}

#[test]
fn workers_of_pytorch_may_wait_for_the_master() {
    let cluster = cluster(
        "plugins: {pytorch: ['--wait-master-enabled', '--wait-master-timeout=9', '--wait-master-image=i']}",
    );
    let init =
        |pod: &str| cluster.pod(pod).spec.as_ref().unwrap().init_containers.clone().unwrap_or_default();
    assert_eq!(init("master-0"), []);
    let wait = &init("worker-0")[0];
    assert_eq!((wait.name.as_str(), wait.image.as_deref()), ("wait-for-master", Some("i")));
    let script = &wait.command.as_ref().unwrap()[2];
    assert!(script.contains("left=9") && script.contains("nc -z train-master-0.train 23456"), "{script}");
}

#[test]
fn ranks_of_hccl() {
    for (plugins, expected) in [
        ("hcclrank: []", ["0", "1", "2"]),
        ("hcclrank: ['--master=worker', '--worker=master']", ["2", "0", "1"]),
        ("hcclrank: [], pytorch: ['--master=worker', '--worker=master']", ["1", "0", "0"]),
    ] {
        let cluster = cluster(&format!("plugins: {{{plugins}}}"));
        let rank =
            |pod: &str| cluster.pod(pod).metadata.annotations.as_ref().unwrap()["hccl/rankIndex"].clone();
        assert_eq!(super::ALL.map(rank), expected, "{plugins}");
    }
}

#[test]
fn a_service_of_somebody_else_stays_when_the_job_ends() {
    let mut cluster = cluster("plugins: {svc: []}");
    let Some(Object::Service(service)) =
        cluster.made.iter_mut().find(|object| object.kind() == Kind::Service)
    else {
        panic!("a Service")
    };
    service.metadata.owner_references = None;
    cluster.command("AbortJob");
    cluster.settle();
    let kinds: Vec<Kind> = cluster.made.iter().map(Object::kind).collect();
    assert_eq!(kinds, [Kind::Service]);
}
