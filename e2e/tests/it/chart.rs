//! The Helm chart: with default values it renders the plain manifests; what it renders works.

use std::{collections::BTreeMap, fs};

use anyhow::{Context as _, Result, ensure};
use kube::api::PostParams;
use phalanx_e2e::{
    Phalanx, PlaneOptions,
    chart::Release,
    crds,
    deploy::{apply, manifests, manifests_in},
    fake, wait,
};
use serde_json::{Value, json};

use crate::controllers::task;
use crate::scheduler::cluster::{Cluster, SOON, api_version};
use crate::scheduler::deploy::lacks_a_right;

/// Objects by kind and name.
type Objects = BTreeMap<(String, String), Value>;

fn keyed(objects: impl IntoIterator<Item = Value>) -> Objects {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let key = |object: &Value| (text(&object["kind"]), text(&object["metadata"]["name"]));
    objects.into_iter().map(|object| (key(&object), object)).collect()
}

/// Without the definitions, which are `crds/`.
fn rendered(release: &Release<'_>, values: &Value) -> Result<Objects> {
    let objects = release.render(values)?;
    Ok(keyed(objects.into_iter().filter(|object| object["kind"] != "CustomResourceDefinition")))
}

/// The objects of `deploy/` but for the namespace, which is the release's, and those of the controllers.
fn plain() -> Result<(Objects, Objects)> {
    let scheduler = manifests()?.into_iter().filter(|object| object["kind"] != "Namespace");
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let optional = manifests_in("optional")?.into_iter();
    let controllers = optional.filter(|object| name(object).starts_with("phalanx-controllers"));
    Ok((keyed(scheduler), keyed(controllers)))
}

fn ensure_equal(found: &Objects, expected: &Objects) -> Result<()> {
    ensure!(found.keys().eq(expected.keys()), "{:?}\n{:?}", found.keys(), expected.keys());
    for (key, object) in expected {
        ensure!(found[key] == *object, "{key:?}: {}\n{object}", found[key]);
    }
    Ok(())
}

#[test]
fn default_values_render_the_plain_manifests() -> Result<()> {
    let (scheduler, controllers) = plain()?;
    ensure!(scheduler.len() > 15 && controllers.len() > 5, "{} and {}", scheduler.len(), controllers.len());
    let without_controllers = json!({"custom": {"controller_enable": false}});
    ensure_equal(&rendered(&Release::PLAIN, &without_controllers)?, &scheduler)?;
    let all = scheduler.into_iter().chain(controllers).collect();
    ensure_equal(&rendered(&Release::PLAIN, &json!({}))?, &all)
}

#[test]
fn each_switch_renders_its_file() -> Result<()> {
    let before = rendered(&Release::PLAIN, &json!({}))?;
    for (switch, added) in [
        ("scheduling_gates_enable", &["phalanx-scheduler-gates", "phalanx-scheduler-gates"][..]),
        ("namespace_queues_enable", &["phalanx-namespace-queue", "phalanx-namespace-queue"]),
        ("queues_required_enable", &["phalanx-queues-required", "phalanx-queues-required"]),
        ("scheduler_required_enable", &["phalanx-scheduler-required", "phalanx-scheduler-required"]),
        ("monitoring_enable", &["phalanx-dashboard", "phalanx", "phalanx"]),
        (
            "viewer_enable",
            &[
                "phalanx-capture",
                "phalanx-viewer",
                "phalanx-capture",
                "phalanx-viewer",
                "phalanx-ask",
                "phalanx-live",
                "phalanx-capture",
                "phalanx-viewer",
            ],
        ),
    ] {
        let after = rendered(&Release::PLAIN, &json!({"custom": {switch: true}}))?;
        let new = after.keys().filter(|key| !before.contains_key(*key)).map(|(_, name)| name.as_str());
        ensure!(new.eq(added.iter().copied()), "{switch}: {:?}", after.keys());
    }
    for (switch, kind) in
        [("network_policy_enable", "NetworkPolicy"), ("admission_enable", "ValidatingAdmissionPolicy")]
    {
        let after = rendered(&Release::PLAIN, &json!({"custom": {switch: false}}))?;
        ensure!(!after.keys().any(|(of, _)| of == kind), "{switch}: {:?}", after.keys());
    }
    Ok(())
}

fn args(objects: &Objects, deployment: &str) -> Vec<String> {
    let object = &objects[&("Deployment".to_owned(), deployment.to_owned())];
    let args = &object["spec"]["template"]["spec"]["containers"][0]["args"];
    serde_json::from_value(args.clone()).unwrap_or_default()
}

fn spec<'o>(objects: &'o Objects, kind: &str, name: &str) -> &'o Value {
    &objects[&(kind.to_owned(), name.to_owned())]["spec"]
}

/// The root file system of the container is read-only.
#[test]
fn the_journal_is_written_to_a_volume() -> Result<()> {
    let values = json!({"custom": {"scheduler_journal_enable": true, "scheduler_journal_inputs": true,
        "scheduler_journal_size": "3Gi"}});
    let objects = rendered(&Release::PLAIN, &values)?;
    let own = ["--journal-path=/var/lib/phalanx/journal", "--journal-inputs"].map(str::to_owned);
    ensure!(args(&objects, "phalanx-scheduler").ends_with(&own), "{:?}", args(&objects, "phalanx-scheduler"));
    ensure!(!args(&objects, "phalanx-controllers").contains(&own[0]), "the controllers write none");
    let pod = &spec(&objects, "Deployment", "phalanx-scheduler")["template"]["spec"];
    assert_eq!(pod["volumes"][1], json!({"name": "journal", "emptyDir": {"sizeLimit": "3Gi"}}));
    let mount = json!({"name": "journal", "mountPath": "/var/lib/phalanx"});
    assert_eq!(pod["containers"][0]["volumeMounts"][1], mount);
    Ok(())
}

#[test]
fn pods_that_share_a_claim_for_the_journal_write_to_a_folder_each() -> Result<()> {
    let values = json!({"custom": {"scheduler_journal_enable": true, "scheduler_journal_claim": "logs",
        "scheduler_sc": {"runAsGroup": 7}}});
    let objects = rendered(&Release::PLAIN, &values)?;
    let pod = &spec(&objects, "Deployment", "phalanx-scheduler")["template"]["spec"];
    assert_eq!(pod["volumes"][1], json!({"name": "journal", "persistentVolumeClaim": {"claimName": "logs"}}));
    let container = &pod["containers"][0];
    assert_eq!(container["volumeMounts"][1]["subPathExpr"], "$(POD_NAME)");
    ensure!(container["env"].to_string().contains("\"POD_NAME\""), "{container}");
    assert_eq!(pod["securityContext"], json!({"fsGroup": 65532, "runAsGroup": 7}));
    Ok(())
}

#[test]
fn the_api_is_served_at_a_port_that_the_network_policy_opens() -> Result<()> {
    let peer = json!({"ipBlock": {"cidr": "10.0.0.0/28"}});
    let values = json!({"custom": {"scheduler_api_enable": true, "scheduler_api_from": [peer]}});
    let objects = rendered(&Release::PLAIN, &values)?;
    let flag = "--api-address=:8082".to_owned();
    ensure!(args(&objects, "phalanx-scheduler").contains(&flag), "{:?}", args(&objects, "phalanx-scheduler"));
    let container = &spec(&objects, "Deployment", "phalanx-scheduler")["template"]["spec"]["containers"][0];
    assert_eq!(container["ports"][2], json!({"name": "api", "containerPort": 8082}));
    let policy = &spec(&objects, "NetworkPolicy", "phalanx-scheduler")["ingress"];
    assert_eq!(policy[1], json!({"from": [peer], "ports": [{"protocol": "TCP", "port": "api"}]}));
    let ports = |of: &str| spec(&objects, "Service", of)["ports"].as_array().map_or(0, Vec::len);
    assert_eq!((ports("phalanx-scheduler"), ports("phalanx-controllers")), (2, 1));
    Ok(())
}

/// A canary: names, lease and policies are its own, and nothing of it is in Volcano's namespace.
#[test]
fn a_second_release_has_names_lease_and_scheduler_of_its_own() -> Result<()> {
    let release = Release { name: "try", namespace: "elsewhere" };
    let objects = rendered(&release, &json!({"custom": {"scheduler_name": "canary"}}))?;
    for (key, object) in &objects {
        let text = object.to_string();
        ensure!(key.1.starts_with("try-"), "{key:?}");
        ensure!(!text.contains("volcano-system") && !text.contains("phalanx-"), "{text}");
        ensure!(!text.contains("['volcano']"), "{text}");
    }
    let policy = objects[&("ValidatingAdmissionPolicy".to_owned(), "try-queues".to_owned())].to_string();
    ensure!(policy.contains("in ['canary']"), "{policy}");
    let lease = objects[&("Role".to_owned(), "try-scheduler-lease".to_owned())].to_string();
    ensure!(lease.contains(r#""resourceNames":["canary"]"#), "{lease}");
    let own = ["--scheduler-name=canary", "--leader-elect-resource-namespace=elsewhere"].map(str::to_owned);
    ensure!(args(&objects, "try-scheduler").ends_with(&own), "{:?}", args(&objects, "try-scheduler"));
    ensure!(args(&objects, "try-controllers").ends_with(&own), "{:?}", args(&objects, "try-controllers"));
    Ok(())
}

#[test]
fn values_of_volcanos_chart_mean_the_same() -> Result<()> {
    let labels = json!({"team": "batch"});
    let limits = json!({"limits": {"memory": "1Gi"}});
    let tolerations = json!([{"key": "control", "operator": "Exists"}]);
    let values = json!({
        "basic": {"image_registry": "registry.example.com", "scheduler_image_name": "team/phalanx",
            "image_tag_version": "1.2", "image_pull_policy": "Always", "image_pull_secret": "pull"},
        "custom": {"scheduler_replicas": 1, "leader_elect_enable": false, "scheduler_resources": limits,
            "controller_enable": false, "scheduler_metrics_enable": false, "scheduler_schedule_period": "2s",
            "scheduler_kube_api_qps": 2000, "scheduler_log_level": 4, "scheduler_percentage_nodes_to_find": 0,
            "common_labels": labels, "default_tolerations": tolerations, "default_ns": {"pool": "control"},
            "scheduler_config_override": "actions: allocate\n", "default_csc": {"runAsUser": 1000}},
    });
    let objects = rendered(&Release::PLAIN, &values)?;
    ensure!(objects.values().all(|object| object["metadata"]["labels"]["team"] == "batch"), "{objects:?}");
    let conf = &objects[&("ConfigMap".to_owned(), "phalanx-scheduler-conf".to_owned())];
    ensure!(conf["data"]["scheduler.conf"] == "actions: allocate\n", "{conf}");
    let deployment = &objects[&("Deployment".to_owned(), "phalanx-scheduler".to_owned())];
    let (pod, spec) = (&deployment["spec"]["template"], &deployment["spec"]["template"]["spec"]);
    let container = &spec["containers"][0];
    for (what, expected) in [
        (&deployment["spec"]["replicas"], json!(1)),
        (&pod["metadata"]["labels"], json!({"app": "phalanx-scheduler", "team": "batch"})),
        (&spec["tolerations"], tolerations),
        (&spec["nodeSelector"], json!({"pool": "control"})),
        (&spec["imagePullSecrets"], json!([{"name": "pull"}])),
        (&container["image"], json!("registry.example.com/team/phalanx:1.2")),
        (&container["imagePullPolicy"], json!("Always")),
        (&container["resources"], limits),
        (&container["securityContext"]["runAsUser"], json!(1000)),
        (&container["securityContext"]["runAsNonRoot"], json!(true)),
        (
            &container["args"],
            json!([
                "scheduler",
                "--scheduler-conf=/etc/phalanx/scheduler.conf",
                "--enable-healthz=true",
                "--log-format=json",
                "--leader-elect=false",
                "--kube-api-qps=2000",
                "--v=4",
                "--percentage-nodes-to-find=0",
                "--schedule-period=2s"
            ]),
        ),
    ] {
        ensure!(*what == expected, "{what}\n{expected}");
    }
    Ok(())
}

#[test]
fn the_service_monitor_finds_the_metrics_of_both_programs() -> Result<()> {
    let objects = rendered(
        &Release { name: "batch", ..Release::PLAIN },
        &json!({"custom": {"monitoring_enable": true}}),
    )?;
    let monitor = &objects[&("ServiceMonitor".to_owned(), "phalanx".to_owned())]["spec"];
    let selected = &monitor["selector"]["matchExpressions"][0];
    let (key, values) = (selected["key"].as_str().context("a label")?, &selected["values"]);
    let services = objects.iter().filter(|((kind, _), _)| kind == "Service").map(|(_, object)| object);
    let labels: Vec<&Value> = services.clone().map(|service| &service["metadata"]["labels"][key]).collect();
    assert_eq!(json!(labels), json!(["batch-controllers", "batch-scheduler"]));
    ensure!(labels.iter().all(|label| values.as_array().is_some_and(|all| all.contains(label))), "{values}");
    for service in services {
        ensure!(service["spec"]["ports"][0]["name"] == monitor["endpoints"][0]["port"], "{service}");
    }
    Ok(())
}

#[test]
fn a_value_that_is_unknown_or_of_another_type_is_refused_by_its_name() -> Result<()> {
    for (values, expected) in [
        (
            json!({"custom": {"scheduler_replica": 2}}),
            "at '/custom': additional properties 'scheduler_replica' not allowed",
        ),
        (json!({"customs": {}}), "at '': additional properties 'customs' not allowed"),
        (
            json!({"custom": {"scheduler_replicas": "two"}}),
            "at '/custom/scheduler_replicas': got string, want integer",
        ),
        (
            json!({"custom": {"leader_elect_enable": false}}),
            "custom.scheduler_replicas: several replicas need custom.leader_elect_enable: true; expected 1",
        ),
        (
            json!({"custom": {"scheduler_journal_inputs": true}}),
            "custom.scheduler_journal_inputs: expected custom.scheduler_journal_enable: true beside it",
        ),
    ] {
        let refused = Release::PLAIN.render(&values).err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(refused.contains(expected), "{values}: {refused}");
    }
    Ok(())
}

/// RBAC is on, as on every plane; both programs have the accounts and the arguments of the chart.
#[tokio::test]
async fn what_the_chart_renders_runs_a_job_under_its_accounts() -> Result<()> {
    let mut cluster = Cluster::bare(PlaneOptions::default(), fake::Nodes::new(2).cpu("4")).await?;
    let release = Release { name: "batch", namespace: "volcano-system" };
    let values = json!({"custom": {"scheduler_name": "phalanx", "scheduling_gates_enable": true}});
    let objects = tokio::task::spawn_blocking(move || release.render(&values)).await??;
    install(&cluster, &objects).await?;
    let objects = keyed(objects);
    let conf = &objects[&("ConfigMap".to_owned(), "batch-scheduler-conf".to_owned())];
    let path = cluster.file("scheduler.conf");
    fs::write(&path, conf["data"]["scheduler.conf"].as_str().context("the conf")?)?;

    let mounted = |arg: String| arg.replace("/etc/phalanx/scheduler.conf", &path.display().to_string());
    let mut flags: Vec<String> = args(&objects, "batch-scheduler").into_iter().skip(1).map(mounted).collect();
    flags.extend(login(&cluster, "batch-scheduler").await?);
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &borrowed(&flags)).await?);
    let mut flags: Vec<String> = args(&objects, "batch-controllers").into_iter().skip(1).collect();
    flags.extend(login(&cluster, "batch-controllers").await?);
    let controllers = Phalanx::start_controllers(&cluster.plane, &borrowed(&flags)).await?;

    let job = json!({
        "apiVersion": api_version("Job"), "kind": "Job", "metadata": {"name": "gang"},
        "spec": {"minAvailable": 6, "tasks": [task("worker", 6, None, "")]},
    });
    // A policy refuses everything until it knows the queues.
    wait::until(SOON, "the job to be taken", async || {
        let job = serde_json::from_value(job.clone())?;
        cluster.volcano("Job").create(&PostParams::default(), &job).await.context("creating the job")
    })
    .await?;
    cluster.until_bound("gang-worker-", 6).await?;
    cluster.until_status("Job", "gang", "Running", |status| status["state"]["phase"] == "Running").await?;
    for log in [cluster.phalanx().log_text(), controllers.log_text()] {
        ensure!(!lacks_a_right(&log), "{log}");
    }
    Ok(())
}

/// As helm does: the namespace, the definitions, then the objects.
async fn install(cluster: &Cluster, objects: &[Value]) -> Result<()> {
    let (definitions, others): (Vec<_>, Vec<_>) =
        objects.iter().cloned().partition(|object| object["kind"] == "CustomResourceDefinition");
    let namespace = manifests()?.into_iter().filter(|object| object["kind"] == "Namespace");
    apply(&cluster.client, &namespace.collect::<Vec<_>>()).await?;
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("crds.yaml"), documents(&definitions)?)?;
    crds::apply(&cluster.client, folder.path()).await?;
    apply(&cluster.client, &others).await
}

fn documents(objects: &[Value]) -> Result<String> {
    objects.iter().map(|object| Ok(format!("---\n{}", serde_yaml::to_string(object)?))).collect()
}

/// Flags by which a program works under an account of the chart, and with its lease.
async fn login(cluster: &Cluster, account: &str) -> Result<[String; 2]> {
    let kubeconfig = cluster.plane.log_in(account).await?;
    Ok([format!("--kubeconfig={}", kubeconfig.display()), "--leader-elect=true".to_owned()])
}

fn borrowed(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}
