//! What the CRDs of Job, CronJob, Command and JobFlow let in and keep out.

use anyhow::{Context as _, Result, ensure};
use kube::{
    Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::cluster::volcano;
use super::definitions::{Case, named};

/// A job of two tasks, with this change of its spec.
fn job(change: &Value) -> Value {
    let template =
        json!({"spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": 1}}}]}});
    let mut spec = json!({"tasks": [
        {"name": "master", "replicas": 1, "template": template},
        {"name": "worker", "replicas": 4, "template": template},
    ]});
    merge(&mut spec, change);
    json!({ "spec": spec })
}

/// A job with this change of its second task.
fn worker(change: &Value) -> Value {
    let mut job = job(&json!({}));
    merge(&mut job["spec"]["tasks"][1], change);
    job
}

fn merge(into: &mut Value, change: &Value) {
    for (key, value) in change.as_object().into_iter().flatten() {
        into[key] = value.clone();
    }
}

fn policy(policy: &Value) -> Value {
    job(&json!({ "policies": [policy] }))
}

fn cron(schedule: &str) -> Value {
    json!({"spec": {"schedule": schedule, "jobTemplate": job(&json!({}))}})
}

pub(super) fn cases() -> Vec<Case> {
    [jobs(), tasks(), policies(), crons(), flows()].into_iter().flatten().collect()
}

fn jobs() -> Vec<Case> {
    let volumes = |list: Value| job(&json!({ "volumes": list }));
    let mut long = job(&json!({}));
    long["metadata"]["name"] = json!("j".repeat(55));
    let good = [
        json!({}),
        json!({"minAvailable": 5, "plugins": {"svc": null, "ssh": [], "pytorch": ["--port=1"]}, "queue": ""}),
        json!({"volumes": [{"mountPath": "/a", "volumeClaimName": "data"}, {"mountPath": "/b", "volumeClaim": {}}]}),
        json!({"ttlSecondsAfterFinished": 0, "minSuccess": 1, "maxRetry": 0}),
    ];
    let words =
        "either volumeClaimName (a claim that exists) or volumeClaim (one that is made) must be given";
    let bad = [
        (job(&json!({"minAvailable": 6})), "minAvailable must not be greater than the replicas of all tasks"),
        (job(&json!({"tasks": []})), "spec.tasks in body should have at least 1 items"),
        (
            job(&json!({"plugins": {"horovod": []}})),
            "plugins are env, hcclrank, mpi, pytorch, ray, ssh, svc, tensorflow",
        ),
        (volumes(json!([{"mountPath": "/a"}])), words),
        (volumes(json!([{"mountPath": "/a", "volumeClaim": {}, "volumeClaimName": "b"}])), words),
        (volumes(json!([{"mountPath": "a:b", "volumeClaim": {}}])), "spec.volumes[0].mountPath"),
        (
            volumes(json!([{"mountPath": "/a", "volumeClaim": {}}, {"mountPath": "/a", "volumeClaim": {}}])),
            "each mountPath can be used once",
        ),
        (job(&json!({"minSuccess": 0})), "spec.minSuccess in body should be greater than or equal to 1"),
        (long, "names of pods, such as JOB-TASK-0, must not be longer than 63 characters"),
    ];
    table("Job", good.map(|change| job(&change)).into(), bad.into())
}

fn tasks() -> Vec<Case> {
    let partitions = |total: i32, size: i32, min: i32| json!({"totalPartitions": total, "partitionSize": size, "minPartitions": min});
    let good = [
        json!({"minAvailable": 4, "maxRetry": -1}),
        json!({"minAvailable": 2, "partitionPolicy": partitions(2, 2, 1)}),
        json!({"dependsOn": {"name": ["master"], "iteration": "any"}}),
        json!({"name": ""}),
    ];
    let bad = [
        (worker(&json!({"minAvailable": 5})), "minAvailable must not be greater than replicas"),
        (worker(&json!({"name": "master"})), "names of tasks must be unique"),
        (worker(&json!({"name": "Worker"})), "spec.tasks[1].name in body should match"),
        (
            worker(&json!({"partitionPolicy": partitions(3, 2, 0)})),
            "replicas must equal totalPartitions * partitionSize",
        ),
        (
            worker(&json!({"minAvailable": 4, "partitionPolicy": partitions(2, 2, 1)})),
            "minAvailable must equal minPartitions * partitionSize",
        ),
        (worker(&json!({"dependsOn": {"name": ["worker"]}})), "a task cannot depend on itself"),
        (worker(&json!({"dependsOn": {"name": ["ps"]}})), "dependsOn must name tasks of the job"),
        (worker(&json!({"dependsOn": {"name": ["master"], "iteration": "some"}})), "\"any\", \"all\""),
    ];
    table("Job", good.map(|change| worker(&change)).into(), bad.into())
}

fn policies() -> Vec<Case> {
    let one = "either an event or an exitCode must be given, and not both";
    let good = [
        json!({"event": "PodFailed", "action": "RestartJob"}),
        json!({"events": ["PodEvicted", "TaskFailed"], "action": "RestartTask", "timeout": "10m0s"}),
        json!({"exitCode": 137, "action": "RestartPod"}),
        json!({"event": "PodPending", "action": "AbortJob", "timeout": "1h"}),
    ];
    let bad = [
        (json!({"action": "AbortJob"}), one),
        (json!({"event": "PodFailed", "exitCode": 1, "action": "AbortJob"}), one),
        (json!({"exitCode": 0, "action": "AbortJob"}), "0 is not an exit code of a failure"),
        (json!({"event": "PodPending", "action": "AbortJob"}), "PodPending needs a timeout"),
        (json!({"event": "PodRunning", "action": "AbortJob"}), "Unsupported value: \"PodRunning\""),
        (json!({"event": "PodFailed", "action": "SyncJob"}), "Unsupported value: \"SyncJob\""),
    ];
    let bad = bad.map(|(object, words)| (policy(&object), words));
    table("Job", good.map(|object| policy(&object)).into(), bad.into())
}

fn crons() -> Vec<Case> {
    let zone = |zone: &str| {
        let mut cron = cron("0 5 * * *");
        cron["spec"]["timeZone"] = json!(zone);
        cron
    };
    let mut long = cron("@daily");
    long["metadata"]["name"] = json!("c".repeat(53));
    let good = ["0 5 * * *", "*/15 0-6,18-23 1,15 jan-MAR mon-fri", "@hourly", "59 23 31 12 7"].map(cron);
    let mut good: Vec<Value> = good.into();
    good.extend(["Europe/Berlin", "UTC", "Etc/GMT+3"].map(zone));
    let mut bad: Vec<_> =
        ["", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "TZ=UTC * * * * *", "often"]
            .map(|schedule| (cron(schedule), "spec.schedule"))
            .into();
    bad.push((zone("local"), "the time zone must be a name of the time zone database"));
    bad.push((zone(".."), "spec.timeZone"));
    bad.push((long, "the name must not be longer than 52 characters, for the suffix of its Jobs"));
    table("CronJob", good, bad)
}

fn flows() -> Vec<Case> {
    let flow = |flows: Value| json!({"spec": {"flows": flows}});
    let probe = json!({"tcpSocketList": [{"taskName": "a", "port": 80}], "httpGetList": [{"path": "/", "port": 80}],
                       "taskStatusList": [{"taskName": "a", "phase": "Running"}]});
    let good = vec![flow(json!([
        {"name": "a", "patch": {"jobSpec": {"minAvailable": 1}}},
        {"name": "b", "dependsOn": {"targets": ["a"], "probe": probe}},
    ]))];
    let bad = vec![
        (flow(json!([{"name": "a"}, {"name": "a"}])), "names of flows must be unique"),
        (flow(json!([{"name": "a", "dependsOn": {"targets": ["a"]}}])), "a Job cannot depend on itself"),
    ];
    let mut cases = table("JobFlow", good, bad);
    let target = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "x", "uid": "y"});
    let command = |action: &str| json!({"action": action, "target": target});
    cases.push(Case::good("Command", command("AbortJob")));
    cases.push(Case::bad("Command", command("Explode"), "Unsupported value: \"Explode\""));
    cases.push(Case::good("JobTemplate", job(&json!({}))));
    cases
}

fn table(kind: &'static str, good: Vec<Value>, bad: Vec<(Value, &str)>) -> Vec<Case> {
    let good = good.into_iter().map(|object| Case::good(kind, object));
    good.chain(bad.into_iter().map(|(object, words)| Case::bad(kind, object, words))).collect()
}

/// Changes of the spec of a stored job, and what the API server says about them.
pub(super) const UPDATES: [(&str, &str); 2] = [
    (r#"{"tasks": [{"name": "worker", "replicas": 4}]}"#, "tasks cannot be added or removed"),
    (r#"{"queue": "other"}"#, "the queue of a job cannot be changed"),
];

pub(super) async fn updates(client: &Client) -> Result<()> {
    let jobs = volcano(client, "Job");
    jobs.create(&PostParams::default(), &named("Job", &job(&json!({})))?).await.context("a job")?;
    let patch = async |spec: Value| {
        jobs.patch("x", &PatchParams::default(), &Patch::Merge(json!({ "spec": spec }))).await
    };
    for (change, words) in UPDATES {
        let error = patch(serde_json::from_str(change)?).await.err().context(change)?.to_string();
        ensure!(error.contains(words), "{change}: {error}");
    }
    let stored = patch(json!({"minAvailable": 2, "priorityClassName": "high"})).await?;
    let requests =
        &stored.data["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]["requests"];
    assert_eq!(requests, &json!({"cpu": 1}), "the template is stored as it came");
    Ok(())
}
