//! What the API server refuses by `deploy/45-admission.yaml`, and the queue that a namespace gives.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use phalanx_e2e::{
    PlaneOptions,
    deploy::{apply, manifests, manifests_in},
    fake, wait,
};
use serde_json::{Value, json};

use super::deploy::start_by_manifests;
use super::{Cluster, SOON, api_version, task};
use crate::scheduler::definitions::named as typed;

/// A cluster without controllers, with those of these objects in force whose kind begins so.
async fn with_policies(objects: Vec<Value>, kinds: &str) -> Result<Cluster> {
    let cluster = Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(1)).await?;
    cluster.define_jobs().await?;
    let is_policy = |object: &Value| object["kind"].as_str().is_some_and(|kind| kind.starts_with(kinds));
    apply(&cluster.client, &objects.into_iter().filter(is_policy).collect::<Vec<_>>()).await?;
    Ok(cluster)
}

/// Something that somebody asks the API server for.
enum Request {
    Create(&'static str, Value),
    /// A merge patch.
    Change(&'static str, &'static str, Value),
    /// Of a queue.
    Delete(&'static str),
}

use Request::{Change, Create, Delete};

impl Request {
    /// Why it is refused; `None` if it is not. Nothing is stored.
    async fn refusal(&self, client: &Client) -> Result<Option<String>> {
        let api = |kind| crate::scheduler::cluster::volcano(client, kind);
        let answer = match self {
            Create(kind, object) => {
                let params = PostParams { dry_run: true, ..PostParams::default() };
                api(kind).create(&params, &typed(kind, object)?).await.map(drop)
            }
            Change(kind, name, patch) => {
                let params = PatchParams { dry_run: true, ..PatchParams::default() };
                api(kind).patch(name, &params, &Patch::Merge(patch)).await.map(drop)
            }
            Delete(name) => api("Queue").delete(name, &DeleteParams::default().dry_run()).await.map(drop),
        };
        match answer {
            Ok(()) => Ok(None),
            Err(kube::Error::Api(status)) if [403, 422].contains(&status.code) => {
                Ok(Some(status.message.clone()))
            }
            Err(error) => Err(error).with_context(|| self.text()),
        }
    }

    fn text(&self) -> String {
        match self {
            Create(kind, object) => format!("create {kind} {object}"),
            Change(kind, name, patch) => format!("change {kind} {name} {patch}"),
            Delete(name) => format!("delete queue {name}"),
        }
    }
}

const HIERARCHY: &str = "volcano.sh/hierarchy";
const WEIGHTS: &str = "volcano.sh/hierarchy-weights";

/// Queues by name: spec and status.
fn queues() -> Vec<(&'static str, Value, Value)> {
    let amounts =
        json!({"capability": {"cpu": "8"}, "deserved": {"cpu": 4}, "guarantee": {"resource": {"cpu": "2"}}});
    let below = |parent: &str| json!({ "parent": parent });
    let state = |state: &str| json!({ "state": state });
    vec![
        ("root", amounts.clone(), json!({})),
        ("default", below("root"), state("Open")),
        ("company", amounts, state("Open")),
        ("team", json!({"parent": "company", "capability": {"cpu": "8"}}), json!({})),
        ("busy", below("root"), json!({"state": "Open", "allocated": {"cpu": "1", "pods": "3"}})),
        ("counted", below("root"), json!({"state": "Open", "pending": 1, "running": 2})),
        (
            "done",
            below("root"),
            json!({"state": "Open", "completed": 5, "allocated": {"cpu": "0", "pods": 0}}),
        ),
        ("closed", below("root"), state("Closed")),
        ("closing", below("root"), state("Closing")),
    ]
}

async fn store(cluster: &Cluster) -> Result<()> {
    let api = cluster.volcano("Queue");
    for (name, spec, status) in queues() {
        cluster.queue(name, spec).await?;
        let status = Patch::Merge(json!({ "status": status }));
        api.patch_status(name, &PatchParams::default(), &status).await?;
    }
    let placed = json!({"metadata": {"name": "placed", "annotations": {HIERARCHY: "root/a/b", WEIGHTS: "1/2/3"}}, "spec": {}});
    api.create(&PostParams::default(), &typed("Queue", &placed)?).await?;
    let stored = json!({"metadata": {"name": "stored"}, "spec": job_spec(&json!({}))});
    cluster.volcano("Job").create(&PostParams::default(), &typed("Job", &stored)?).await?;
    cluster.pod_group("stored", json!({"minMember": 1})).await?;
    Ok(())
}

fn job_spec(change: &Value) -> Value {
    let mut spec = json!({
        "minAvailable": 1, "policies": [{"event": "PodFailed", "action": "RestartJob"}],
        "tasks": [task("master", 1, None, ""), task("worker", 4, None, "")],
    });
    for (field, value) in change.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    spec
}

/// What is refused, with words of the reason, and what is not.
type Table = (Vec<(Request, &'static str)>, Vec<Request>);

fn deletions() -> Table {
    let refused = vec![
        (Delete("root"), "queue root cannot be deleted"),
        (Delete("default"), "queue default cannot be deleted"),
        (Delete("company"), "queue company cannot be deleted: queue team is below it"),
        (Delete("busy"), "queue busy cannot be deleted: status.allocated says that it has 3 pods"),
        (
            Delete("counted"),
            "queue counted cannot be deleted: its status counts 3 PodGroups that have not completed",
        ),
    ];
    (refused, vec![Delete("team"), Delete("done"), Delete("closed"), Delete("placed")])
}

fn trees() -> Table {
    let child = |amounts: Value| {
        let mut spec = amounts;
        spec["parent"] = json!("company");
        Create("Queue", json!({ "spec": spec }))
    };
    let change = |name, spec: Value| Change("Queue", name, json!({ "spec": spec }));
    let guarantee = |cpu: &str| json!({"guarantee": {"resource": {"cpu": cpu}}});
    let refused = vec![
        (
            child(json!({"capability": {"cpu": "8001m"}})),
            "spec.capability of cpu is above that of its parent company",
        ),
        (child(json!({"deserved": {"cpu": 5}})), "spec.deserved of cpu is above that of its parent company"),
        (child(guarantee("2.5")), "spec.guarantee.resource of cpu is above that of its parent company"),
        (
            change("team", json!({"capability": {"cpu": 9}})),
            "spec.capability of cpu is above that of its parent company",
        ),
        (
            change("company", json!({"capability": {"cpu": "7"}})),
            "spec.capability of cpu is below that of its child team",
        ),
        (change("done", json!({"parent": "counted"})), "spec.parent: queue counted has jobs of its own"),
        (
            Create("Queue", json!({"spec": {"parent": "counted"}})),
            "spec.parent: queue counted has jobs of its own",
        ),
        (
            change("root", json!({"capability": {"cpu": "9"}})),
            "spec.capability: amounts of queue root cannot be changed",
        ),
        (change("root", json!({"deserved": null})), "spec.deserved: amounts of queue root cannot be changed"),
        (change("root", guarantee("1")), "spec.guarantee: amounts of queue root cannot be changed"),
    ];
    let accepted = vec![
        child(json!({"capability": {"cpu": 8, "memory": "1Ti"}, "deserved": {"cpu": "4000m"}})),
        child(guarantee("2")),
        change("company", json!({"capability": {"cpu": "8000m"}})),
        change("done", json!({"parent": "company"})),
        Create("Queue", json!({"spec": {"parent": "done"}})),
        // There are other ways to say that its parent does not exist.
        Create("Queue", json!({"spec": {"parent": "missing"}})),
        change("root", json!({"weight": 2})),
        Change("Queue", "counted", json!({"metadata": {"labels": {"a": "b"}}})),
    ];
    (refused, accepted)
}

fn places() -> Table {
    let at = |place: &str, weights: &str| {
        let annotations = json!({HIERARCHY: place, WEIGHTS: weights});
        Create("Queue", json!({"metadata": {"name": "x", "annotations": annotations}, "spec": {}}))
    };
    let parts = "metadata.annotations: volcano.sh/hierarchy-weights must have the same length with volcano.sh/hierarchy";
    let numbers = "metadata.annotations: parts of volcano.sh/hierarchy-weights must be numbers above 0";
    let refused = vec![
        (at("root/c", "1"), parts),
        (at("root/c", "1/0"), numbers),
        (at("root/c", "1/two"), numbers),
        (at("root/c", ""), parts),
        (at("root/a", "1/1"), "volcano.sh/hierarchy root/a is above the place of queue placed"),
    ];
    (
        refused,
        vec![
            at("root/c", "1/0.5"),
            at("root/c", ".5/1e1"),
            at("root/a/bc", "1/1/1"),
            at("root/a/b", "1/2/3"),
        ],
    )
}

fn new_jobs() -> Table {
    let job = |queue: &str| Create("Job", json!({"spec": job_spec(&json!({ "queue": queue }))}));
    let group = |queue: &str| Create("PodGroup", json!({"spec": {"minMember": 1, "queue": queue}}));
    let refused = vec![
        (job("closed"), "spec.queue: queue closed is Closed, expected Open"),
        (job("closing"), "spec.queue: queue closing is Closing, expected Open"),
        (group("closed"), "spec.queue: queue closed is Closed, expected Open"),
        // Only the controllers make PodGroups of vcjobs.
        (Create("PodGroup", of_vcjob()), "spec.queue: queue closing is Closing, expected Open"),
        (
            Change("PodGroup", "stored", json!({"spec": {"queue": "closed"}})),
            "spec.queue: queue closed is Closed, expected Open",
        ),
        (job("root"), "spec.queue: jobs cannot be in queue root"),
        (
            job("company"),
            "spec.queue: queue company has queues below it, such as team, so jobs cannot be in it",
        ),
    ];
    // Team has no state yet. That a queue does not exist is said in a condition.
    let accepted = vec![
        job("default"),
        job("team"),
        job(""),
        job("missing"),
        group("company"),
        Change("PodGroup", "stored", json!({"spec": {"minMember": 2}})),
    ];
    (refused, accepted)
}

/// The PodGroup of a vcjob in a queue that is closing.
fn of_vcjob() -> Value {
    let owner = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u"});
    json!({"metadata": {"name": "x", "ownerReferences": [owner]}, "spec": {"minMember": 1, "queue": "closing"}})
}

fn changes_of_jobs() -> Table {
    let change = |change: Value| Change("Job", "stored", json!({ "spec": change }));
    let second = |field: &str, value: Value| {
        let mut spec = job_spec(&json!({}));
        spec["tasks"][1][field] = value;
        change(json!({"tasks": spec["tasks"]}))
    };
    let template = |path: &str, value: Value| {
        let mut template = task("worker", 4, None, "")["template"].clone();
        *path.split('.').fold(&mut template, |at, field| &mut at[field]) = value;
        second("template", template)
    };
    let of_worker =
        "spec.tasks: job updates may not change fields other than replicas and minAvailable of task worker";
    let mut refused = vec![
        (template("spec.priorityClassName", json!("high")), of_worker),
        (template("metadata.labels", json!({"a": "b"})), of_worker),
        (second("maxRetry", json!(7)), of_worker),
        (second("policies", json!([{"exitCode": 3, "action": "AbortJob"}])), of_worker),
        (second("dependsOn", json!({"name": ["master"]})), of_worker),
        (
            second("name", json!("other")),
            "spec.tasks: job updates may not change fields other than replicas and minAvailable of task other",
        ),
        (change(json!({"queue": "team"})), "spec.queue: Invalid value: the queue of a job cannot be changed"),
        (
            change(json!({"tasks": [task("master", 1, None, "")]})),
            "spec.tasks: Invalid value: job updates may not add or remove tasks",
        ),
    ];
    for (words, value) in [
        (
            "spec.schedulerName: job updates may not change fields other than",
            json!({"schedulerName": "other"}),
        ),
        ("spec.policies: job updates may not change fields other than", json!({"policies": []})),
        ("spec.plugins: job updates may not change fields other than", json!({"plugins": {"svc": []}})),
        (
            "spec.volumes: job updates may not change fields other than",
            json!({"volumes": [{"mountPath": "/a", "volumeClaimName": "a"}]}),
        ),
        ("spec.maxRetry: job updates may not change fields other than", json!({"maxRetry": 9})),
        (
            "spec.ttlSecondsAfterFinished: job updates may not change fields other than",
            json!({"ttlSecondsAfterFinished": 9}),
        ),
        ("spec.minSuccess: job updates may not change fields other than", json!({"minSuccess": 1})),
        (
            "spec.networkTopology: job updates may not change fields other than",
            json!({"networkTopology": {"mode": "soft"}}),
        ),
    ] {
        refused.push((change(value), words));
    }
    let accepted = vec![
        change(json!({"minAvailable": 5, "priorityClassName": "high"})),
        // Clients of Go write this.
        template("metadata.creationTimestamp", Value::Null),
        template("metadata.labels", json!({})),
        second("replicas", json!(9)),
        second("minAvailable", json!(4)),
        Change("Job", "stored", json!({"metadata": {"labels": {"a": "b"}}})),
    ];
    (refused, accepted)
}

#[tokio::test]
async fn policies_refuse_what_the_webhooks_of_volcano_refuse() -> Result<()> {
    let cluster = with_policies(manifests()?, "ValidatingAdmission").await?;
    store(&cluster).await?;
    let tables = [deletions(), trees(), places(), new_jobs(), changes_of_jobs()];
    for (request, words) in tables.iter().flat_map(|(refused, _)| refused) {
        // A policy is in force, and knows queues, some time after they were made.
        wait::until(SOON, &request.text(), async || {
            let why = request.refusal(&cluster.client).await?.context("it is accepted")?;
            ensure!(why.contains(words), "{why}");
            Ok(())
        })
        .await?;
    }
    for request in tables.iter().flat_map(|(_, accepted)| accepted) {
        wait::until(SOON, &request.text(), async || {
            let why = request.refusal(&cluster.client).await?;
            ensure!(why.is_none(), "{why:?}");
            Ok(())
        })
        .await?;
    }
    by_controllers(&cluster.client).await
}

/// The controllers of Volcano write names of claims into a job, and a job that restarts gets its PodGroup.
async fn by_controllers(client: &Client) -> Result<()> {
    let by = |request: http::request::Builder, account: &str, content: &str, body: &Value| {
        let request = request
            .header(http::header::CONTENT_TYPE, content)
            .header("Impersonate-User", format!("system:serviceaccount:volcano-system:{account}"))
            .header("Impersonate-Group", "system:masters");
        Ok::<_, anyhow::Error>(request.body(serde_json::to_vec(body)?)?)
    };
    let volumes = json!([{"mountPath": "/a", "volumeClaimName": "a"}]);
    let path = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/stored?dryRun=All";
    let body = json!({"spec": {"volumes": volumes}});
    let request =
        by(http::Request::patch(path), "volcano-controllers", "application/merge-patch+json", &body)?;
    let changed: Value = client.request(request).await?;
    assert_eq!(changed["spec"]["volumes"], volumes);
    let path = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups?dryRun=All";
    let mut group = of_vcjob();
    group["apiVersion"] = json!(api_version("PodGroup"));
    group["kind"] = json!("PodGroup");
    let request = by(http::Request::post(path), "phalanx-controllers", "application/json", &group)?;
    client.request::<Value>(request).await?;
    Ok(())
}

/// The counts in the status are those of the scheduler and the controllers.
#[tokio::test]
async fn a_queue_takes_and_keeps_jobs_while_it_is_open_and_can_be_deleted_after_them() -> Result<()> {
    let cluster = Cluster::with(PlaneOptions::default(), fake::Nodes::new(1).cpu("4"), &[]).await?;
    cluster.define_jobs().await?;
    let world = start_by_manifests(cluster).await?;
    let is_policy =
        |object: &Value| object["kind"].as_str().is_some_and(|kind| kind.starts_with("ValidatingAdm"));
    let policies: Vec<Value> = manifests()?.into_iter().filter(is_policy).collect();
    apply(&world.cluster.client, &policies).await?;
    world.cluster.queue("batch", json!({"weight": 1})).await?;
    let spec = json!({"queue": "batch", "tasks": [task("worker", 1, None, "")]});
    world.create("Job", "first", spec.clone()).await?;
    world.until_pods("first", 1, "Running").await?;
    let until_refused = async |request: Request, words: &str| {
        wait::until(SOON, &request.text(), async || {
            let why = request.refusal(&world.cluster.client).await?.context("it is accepted")?;
            ensure!(why.contains(words), "{why}");
            Ok(())
        })
        .await
    };
    until_refused(Delete("batch"), "status.allocated says that it has 1 pods").await?;

    // A Job that restarts in a queue that closes gets its PodGroup; a flow gets no new Job, until the queue is open.
    world.command("CloseQueue", "Queue", "batch").await?;
    until_refused(Create("Job", json!({ "spec": spec })), "queue batch is Closing, expected Open").await?;
    world.command("RestartJob", "Job", "first").await?;
    wait::until(SOON, "the PodGroup of the restarted job", async || {
        let groups = world.cluster.volcano("PodGroup").list(&ListParams::default()).await?.items;
        let versions: Vec<_> =
            groups.iter().map(|group| group.annotations().get("volcano.sh/job-version")).collect();
        ensure!(versions == [Some(&"1".to_owned())], "{versions:?}");
        Ok(())
    })
    .await?;
    world.create("JobTemplate", "step", spec).await?;
    world.create("JobFlow", "flow", json!({"flows": [{"name": "step"}]})).await?;
    world.cluster.until_event_with("FailedCreate", "flow", "expected Open").await?;
    world.command("OpenQueue", "Queue", "batch").await?;
    world.until_pods("first", 1, "Running").await?;
    world.until_job("flow-step", "Running").await?;

    for job in ["first", "flow-step"] {
        world.command("CompleteJob", "Job", job).await?;
        world.until_job(job, "Completed").await?;
    }
    wait::until(SOON, "the queue to be free", async || {
        let refused = Delete("batch").refusal(&world.cluster.client).await?;
        ensure!(refused.is_none(), "{refused:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn jobs_and_podgroups_that_name_no_queue_get_that_of_their_namespace() -> Result<()> {
    let cluster = with_policies(manifests_in("optional")?, "MutatingAdmission").await?;
    let annotation = json!({"scheduling.volcano.sh/queue-name": "mine"});
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotation}}));
    namespaces.patch("default", &PatchParams::default(), &patch).await?;
    let queue_of = async |kind: &str, spec: Value| -> Result<Value> {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let made = cluster.volcano(kind).create(&params, &typed(kind, &json!({ "spec": spec }))?).await?;
        Ok(made.data["spec"]["queue"].clone())
    };
    for named in [json!(null), json!(""), json!("default")] {
        let job = job_spec(&if named.is_null() { json!({}) } else { json!({ "queue": named }) });
        let group = if named.is_null() { json!({"minMember": 1}) } else { json!({ "queue": named }) };
        for (kind, spec) in [("Job", job), ("PodGroup", group)] {
            wait::until(SOON, &format!("the queue of a {kind} that names {named}"), async || {
                let queue = queue_of(kind, spec.clone()).await?;
                ensure!(queue == "mine", "{queue}");
                Ok(())
            })
            .await?;
        }
    }
    assert_eq!(queue_of("Job", job_spec(&json!({"queue": "other"}))).await?, "other");
    let none = Patch::Merge(json!({"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": null}}}));
    namespaces.patch("default", &PatchParams::default(), &none).await?;
    wait::until(SOON, "the annotation to be gone", async || {
        let queue = queue_of("PodGroup", json!({"minMember": 1})).await?;
        ensure!(queue == "default", "{queue}");
        Ok(())
    })
    .await
}
