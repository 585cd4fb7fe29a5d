//! `phalanx job`, `queue`, `jobflow`, `jobtemplate` and `pod` on a real API server. No controller runs: Commands stay.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Output;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use phalanx_e2e::{Plane, PlaneOptions, crds, phalanx};
use serde_json::{Value, json};

use super::cluster::volcano;

/// Definitions of ours, and a command line.
struct Cluster {
    plane: Plane,
}

impl Cluster {
    async fn start() -> Result<Self> {
        let plane = Plane::start(PlaneOptions::default()).await?;
        crds::apply(&plane.client(), &crds::dir()).await?;
        Ok(Self { plane })
    }

    /// What a command prints that ends well.
    async fn phalanx(&self, args: &[&str]) -> Result<String> {
        let output = self.run(args).await?;
        ensure!(output.status.success(), "{args:?}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The line of a command that does not.
    async fn refused(&self, args: &[&str]) -> Result<String> {
        let output = self.run(args).await?;
        ensure!(output.status.code() == Some(1), "{args:?}: {output:?}");
        Ok(String::from_utf8(output.stderr)?)
    }

    /// By the name of a plugin of kubectl, which finds the cluster in its environment.
    async fn run(&self, args: &[&str]) -> Result<Output> {
        let program = self.plane.dir().join("kubectl-phalanx");
        if !program.exists() {
            symlink(tokio::task::spawn_blocking(phalanx::binary).await??, &program)?;
        }
        let mut command = tokio::process::Command::new(program);
        Ok(command.args(args).env("KUBECONFIG", self.plane.kubeconfig()).output().await?)
    }

    /// The path of a file with this text.
    fn file(&self, name: &str, text: &str) -> Result<String> {
        let path = self.plane.dir().join(name);
        fs::write(&path, text)?;
        path.to_str().map(ToOwned::to_owned).context("a path")
    }

    fn objects(&self, kind: &str) -> Api<DynamicObject> {
        volcano(&self.plane.client(), kind)
    }

    async fn object(&self, kind: &str, name: &str) -> Result<Value> {
        Ok(serde_json::to_value(self.objects(kind).get(name).await?)?)
    }

    /// The actions of all Commands that are for an object, which owns them.
    async fn commands(&self, target: &Value) -> Result<Vec<String>> {
        let commands = self.objects("Command").list(&ListParams::default()).await?;
        let mut actions = Vec::new();
        for command in commands {
            let command = serde_json::to_value(command)?;
            if command["target"]["uid"] == target["metadata"]["uid"] {
                ensure!(command["metadata"]["ownerReferences"] == json!([command["target"]]), "{command}");
                let name = command["metadata"]["name"].as_str().unwrap_or_default();
                let action = command["action"].as_str().context("an action")?.to_owned();
                let prefix = format!("{}-{}-", target["metadata"]["name"], action.to_lowercase());
                ensure!(name.starts_with(&prefix.replace('"', "")), "{name}");
                actions.push(action);
            }
        }
        actions.sort();
        Ok(actions)
    }
}

const FLOWS: &str = "
kind: JobFlow
metadata: {name: flow}
spec: {flows: [{name: a}, {name: b, dependsOn: {targets: [a]}}]}
---
kind: JobFlow
metadata: {name: other}
spec: {flows: [{name: a}]}
";

const TEMPLATE: &str = "
metadata: {name: a}
spec: {tasks: [{name: main, replicas: 1, template: {spec: {containers: [{name: main, image: x}]}}}]}
";

#[tokio::test]
async fn flows_and_templates_are_created_shown_and_deleted() -> Result<()> {
    let cluster = Cluster::start().await?;
    let (flows, template) = (cluster.file("flows.yaml", FLOWS)?, cluster.file("template.yaml", TEMPLATE)?);
    let created = cluster.phalanx(&["jobflow", "create", "-f", &flows]).await?;
    assert_eq!(created, "Created JobFlow: default/flow\nCreated JobFlow: default/other\n");
    let created = cluster.phalanx(&["jobtemplate", "create", "-f", &template]).await?;
    assert_eq!(created, "Created JobTemplate: default/a\n");
    let list = cluster.phalanx(&["jobflow", "list"]).await?;
    ensure!(list.starts_with("Name     Namespace    Phase    Age    \nflow     default "), "{list}");
    let templates = cluster.phalanx(&["jobtemplate", "list"]).await?;
    assert_eq!(templates, "Name    Namespace    \na       default      \n");
    let described = cluster.phalanx(&["jobflow", "describe", "-N", "flow", "-o", "json"]).await?;
    let described: Value = serde_json::from_str(&described)?;
    assert_eq!(described["spec"]["flows"][1]["dependsOn"]["targets"], json!(["a"]));
    let deleted = cluster.phalanx(&["jobflow", "delete", "-N", "other"]).await?;
    assert_eq!(deleted, "Deleted JobFlow: default/other\n");
    let refused = cluster.refused(&["jobflow", "delete", "-f", &flows]).await?;
    let gone = "jobflows.flow.volcano.sh \"other\" not found";
    assert_eq!(refused, format!("error: Failed to delete JobFlow: {gone}\n"), "flow is deleted before it");
    assert_eq!(cluster.phalanx(&["jobflow", "list"]).await?, "No resources found\n");
    Ok(())
}

#[tokio::test]
async fn pods_of_jobs_and_queues_are_listed() -> Result<()> {
    let cluster = Cluster::start().await?;
    let pods: Api<Pod> = Api::default_namespaced(cluster.plane.client());
    for (name, labels, annotations) in [
        ("train-0", json!({"volcano.sh/job-name": "train", "volcano.sh/queue-name": "q"}), json!({})),
        ("alone", json!({}), json!({"scheduling.volcano.sh/queue-name": "q"})),
        ("other", json!({}), json!({})),
    ] {
        let pod = json!({
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    }
    let names = async |flags: &[&str]| -> Result<Vec<String>> {
        let list = cluster.phalanx(&[&["pod", "list"], flags].concat()).await?;
        let lines = list.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
        Ok(lines.map(|cells| cells[..4].join(" ")).collect())
    };
    let (train, alone) = ("train-0 0/1 Pending 0", "alone 0/1 Pending 0");
    assert_eq!(names(&[]).await?, [train]);
    assert_eq!(names(&["-j", "train"]).await?, [train]);
    assert_eq!(names(&["-q", "q"]).await?, [alone, train]);
    Ok(())
}

/// The cells of the line that begins with this word.
fn cells<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let mut lines = page.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.find(|cells| cells.first() == Some(&name)).unwrap_or_default()
}

#[tokio::test]
async fn a_job_is_run_listed_viewed_suspended_resumed_and_deleted() -> Result<()> {
    let cluster = Cluster::start().await?;
    let flags = ["-N", "train", "-r", "3", "-m", "2", "-R", "cpu=500m", "-L", ""];
    let ran = cluster.phalanx(&[&["job", "run"], &flags[..]].concat()).await?;
    assert_eq!(ran, "run job train successfully\n");
    let job = cluster.object("Job", "train").await?;
    assert_eq!(job["spec"]["minAvailable"], 2);
    let container = &job["spec"]["tasks"][0]["template"]["spec"]["containers"][0];
    assert_eq!(container["resources"], json!({"requests": {"cpu": "500m"}}));
    let again = cluster.refused(&["job", "run", "-N", "train"]).await?;
    assert_eq!(again, "error: jobs.batch.volcano.sh \"train\" already exists\n");

    let list = cluster.phalanx(&["job", "list"]).await?;
    let titles = "Name    Creation       Phase       JobType     Replicas    Min   Pending   Running   \
        Succeeded   Failed    Unknown     RetryCount\n";
    ensure!(list.starts_with(titles), "{list}");
    let day = job["metadata"]["creationTimestamp"].as_str().and_then(|time| time.split('T').next());
    assert_eq!(cells(&list, "train")[..4], ["train", day.unwrap_or_default(), "Batch", "3"]);
    let all = cluster.phalanx(&["job", "list", "--all-namespaces", "-q", "default", "-o", "wide"]).await?;
    assert_eq!(cells(&all, "default")[..2], ["default", "train"]);
    let none = cluster.phalanx(&["job", "list", "-n", "kube-system"]).await?;
    assert_eq!(none, "No resources found\n");

    let view = cluster.phalanx(&["job", "view", "-N", "train"]).await?;
    let uid = job["metadata"]["uid"].as_str().context("a UID")?;
    ensure!(view.contains(&format!("UID:               \t{uid}\n")), "{view}");
    ensure!(view.ends_with("Events: \t<none>\n"), "{view}");
    let json: Value =
        serde_json::from_str(&cluster.phalanx(&["job", "view", "-N", "train", "-o", "json"]).await?)?;
    assert_eq!(json["spec"], job["spec"]);

    for command in ["suspend", "resume"] {
        assert_eq!(cluster.phalanx(&["job", command, "-N", "train"]).await?, "");
    }
    assert_eq!(cluster.commands(&job).await?, ["AbortJob", "ResumeJob"]);

    let deleted = cluster.phalanx(&["job", "delete", "-N", "train"]).await?;
    assert_eq!(deleted, "delete job train successfully\n");
    for command in ["view", "suspend", "delete"] {
        let gone = cluster.refused(&["job", command, "-N", "train"]).await?;
        assert_eq!(gone, "error: jobs.batch.volcano.sh \"train\" not found\n");
    }
    Ok(())
}

const MANIFEST: &str = "
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: mpi, namespace: default}
spec:
  minAvailable: 3
  plugins: {ssh: [], svc: []}
  tasks:
  - {name: master, replicas: 1, template: {spec: {containers: [{name: main, image: mpi}]}}}
  - {name: worker, replicas: 2, template: {spec: {containers: [{name: main, image: mpi}]}}}
";

#[tokio::test]
async fn a_job_is_run_from_a_file_and_refused_with_the_path_of_a_field() -> Result<()> {
    let cluster = Cluster::start().await?;
    let file = cluster.file("job.yaml", MANIFEST)?;
    let ran = cluster.phalanx(&["job", "run", "-f", &file]).await?;
    assert_eq!(ran, "run job mpi successfully\n");
    assert_eq!(cluster.object("Job", "mpi").await?["spec"]["plugins"], json!({"ssh": [], "svc": []}));
    let refused = cluster.refused(&["job", "run", "-N", "a", "-m", "2"]).await?;
    ensure!(
        refused.starts_with("error: Job.batch.volcano.sh \"a\" is invalid: spec.minAvailable: "),
        "{refused}"
    );
    Ok(())
}

#[tokio::test]
async fn a_queue_is_created_got_listed_operated_and_deleted() -> Result<()> {
    let cluster = Cluster::start().await?;
    assert_eq!(cluster.phalanx(&["queue", "list"]).await?, "No resources found\n");
    let flags = ["-n", "research", "-w", "4", "--capability", "cpu=8"];
    assert_eq!(cluster.phalanx(&[&["queue", "create"], &flags[..]].concat()).await?, "");
    let queue = cluster.object("Queue", "research").await?;
    assert_eq!((&queue["spec"]["weight"], &queue["spec"]["capability"]), (&json!(4), &json!({"cpu": "8"})));

    let titles =
        "Name                     Weight  State   Parent  Inqueue Pending Running Unknown Completed\n";
    for command in [&["queue", "get", "-n", "research"][..], &["queue", "list"]] {
        let page = cluster.phalanx(command).await?;
        ensure!(page.starts_with(titles), "{page}");
        assert_eq!(cells(&page, "research")[..2], ["research", "4"]);
    }

    let operate = async |flags: &[&str]| {
        cluster.phalanx(&[&["queue", "operate", "-n", "research", "-a"], flags].concat()).await
    };
    for action in ["close", "open"] {
        assert_eq!(operate(&[action]).await?, "");
    }
    assert_eq!(cluster.commands(&queue).await?, ["CloseQueue", "OpenQueue"]);
    assert_eq!(operate(&["update", "-w", "7", "--capability", "memory=2048Mi"]).await?, "");
    let changed = cluster.object("Queue", "research").await?;
    assert_eq!(changed["spec"]["weight"], 7);
    assert_eq!(changed["spec"]["capability"], json!({"cpu": "8", "memory": "2Gi"}));

    assert_eq!(cluster.phalanx(&["queue", "create", "-n", "shut", "-S", "Closed"]).await?, "");
    assert_eq!(cluster.commands(&cluster.object("Queue", "shut").await?).await?, ["CloseQueue"]);

    assert_eq!(cluster.phalanx(&["queue", "delete", "-n", "research"]).await?, "");
    let gone = cluster.refused(&["queue", "get", "-n", "research"]).await?;
    assert_eq!(gone, "error: queues.scheduling.volcano.sh \"research\" not found\n");
    Ok(())
}
