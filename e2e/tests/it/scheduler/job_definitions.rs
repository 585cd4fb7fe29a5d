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

fn cron(schedule: &str) -> Value {
    json!({"spec": {"schedule": schedule, "jobTemplate": job(&json!({}))}})
}

pub(super) fn cases() -> Vec<Case> {
    [jobs(), tasks(), policies(), crons(), flows()].into_iter().flatten().collect()
}

const MPI: &str = "spec.plugins: Invalid value: plugin mpi needs a task for its master, which is master or what --master names";
const LONG: &str =
    "spec.tasks: Invalid value: names of pods, such as JOB-TASK-0, must not be longer than 63 characters";

fn jobs() -> Vec<Case> {
    let volumes = |list: Value| job(&json!({ "volumes": list }));
    let named = |length: usize, replicas: i32| {
        let mut job = worker(&json!({ "replicas": replicas }));
        job["metadata"] = json!({ "name": "j".repeat(length) });
        job
    };
    let mpi = |arguments: Value| job(&json!({"plugins": {"mpi": arguments}}));
    let good = [
        json!({}),
        json!({"minAvailable": 5, "plugins": {"svc": null, "ssh": [], "pytorch": ["--port=1"]}, "queue": ""}),
        json!({"volumes": [{"mountPath": "/a", "volumeClaimName": "data"}, {"mountPath": "/b", "volumeClaim": {}}]}),
        json!({"ttlSecondsAfterFinished": 0, "minSuccess": 1, "maxRetry": 0}),
        json!({"volumes": [{"mountPath": "/a", "volumeClaimName": "data.v2-3"}]}),
    ];
    let mut good: Vec<Value> = good.map(|change| job(&change)).into();
    good.extend([json!([]), json!(["--master=worker", "--port=1"]), json!(["-master", "worker"])].map(mpi));
    good.push(named(54, 10));
    let words = "either VolumeClaim or VolumeClaimName must be specified";
    let bad = [
        (
            job(&json!({"minAvailable": 6})),
            "job 'minAvailable' should not be greater than total replicas in tasks",
        ),
        (job(&json!({"tasks": []})), "spec.tasks in body should have at least 1 items"),
        (
            job(&json!({"plugins": {"horovod": []}})),
            "plugins are env, hcclrank, mpi, pytorch, ray, ssh, svc, tensorflow",
        ),
        (volumes(json!([{"mountPath": "/a"}])), words),
        (
            volumes(json!([{"mountPath": "/a", "volumeClaim": {}, "volumeClaimName": "b"}])),
            "only one of volumeClaim or volumeClaimName",
        ),
        (volumes(json!([{"mountPath": "a:b", "volumeClaim": {}}])), "spec.volumes[0].mountPath"),
        (volumes(json!([{"mountPath": "", "volumeClaim": {}}])), "spec.volumes[0].mountPath"),
        (volumes(json!([{"mountPath": "/a", "volumeClaimName": "Data"}])), "spec.volumes[0].volumeClaimName"),
        (json!({}), "spec.tasks: Invalid value: No task specified in job spec"),
        (json!({"spec": {"queue": "q"}}), "spec.tasks: Invalid value: No task specified in job spec"),
        (
            job(
                &json!({"tasks": [chain(1, None)["spec"]["tasks"][0]], "plugins": {"mpi": ["--worker=master"]}}),
            ),
            MPI,
        ),
        (mpi(json!(["--master=other"])), MPI),
        (job(&json!({"ttlSecondsAfterFinished": -1})), "spec.ttlSecondsAfterFinished in body"),
        (job(&json!({"maxRetry": -1})), "spec.maxRetry in body"),
        (job(&json!({"queue": "Team"})), "spec.queue in body should match"),
        (job(&json!({"priorityClassName": "High"})), "spec.priorityClassName in body should match"),
        (
            job(&json!({"networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"}})),
            "spec.networkTopology.highestTierName: Invalid value: highestTierAllowed and highestTierName exclude each other",
        ),
        (
            volumes(json!([{"mountPath": "/a", "volumeClaim": {}}, {"mountPath": "/a", "volumeClaim": {}}])),
            "duplicated mountPath",
        ),
        (job(&json!({"minSuccess": 0})), "spec.minSuccess in body should be greater than or equal to 1"),
        (named(55, 1), LONG),
        (named(54, 11), LONG),
    ];
    table("Job", good, bad.into())
}

const RING: &str = "spec.tasks: Invalid value: tasks must not wait for each other by dependsOn";

/// Tasks of which each waits for the one before, and the first perhaps for one behind it.
fn chain(length: usize, first_waits_for: Option<usize>) -> Value {
    let task = |index: usize| {
        let mut task = job(&json!({}))["spec"]["tasks"][0].clone();
        task["name"] = json!(format!("t{index}"));
        if let Some(before) = index.checked_sub(1).or(first_waits_for) {
            task["dependsOn"] = json!({"name": [format!("t{before}")]});
        }
        task
    };
    job(&json!({"tasks": (0..length).map(task).collect::<Vec<_>>()}))
}

/// As many tasks and dependencies as there may be: the cost of the rules is bounded.
fn dense() -> Value {
    let mut job = chain(128, None);
    for index in 1..128_usize {
        let before: Vec<String> =
            (index.saturating_sub(16)..index).map(|other| format!("t{other}")).collect();
        job["spec"]["tasks"][index]["dependsOn"]["name"] = json!(before);
    }
    job
}

/// A task that waits for itself, and for a chain of so many tasks.
fn ring_behind(length: usize) -> Value {
    let mut job = chain(length + 1, None);
    let last = format!("t{length}");
    merge(
        &mut job["spec"]["tasks"][length],
        &json!({"dependsOn": {"name": [format!("t{}", length - 1), last]}}),
    );
    job
}

fn tasks() -> Vec<Case> {
    let partitions = |total: i32, size: i32, min: i32| json!({"totalPartitions": total, "partitionSize": size, "minPartitions": min});
    let good = [
        json!({"minAvailable": 4, "maxRetry": -1}),
        json!({"minAvailable": 2, "partitionPolicy": partitions(2, 2, 1)}),
        json!({"dependsOn": {"name": ["master"], "iteration": "any"}}),
        json!({"name": ""}),
        json!({"minAvailable": 0, "replicas": 0}),
    ];
    let mut good: Vec<Value> = good.map(|change| worker(&change)).into();
    good.extend([2, 9, 128].map(|length| chain(length, None)));
    // The controller finds it.
    good.push(ring_behind(8));
    good.push(dense());
    let bad = [
        (worker(&json!({"minAvailable": 5})), "'minAvailable' is greater than 'replicas' in task"),
        (worker(&json!({"name": "master"})), "duplicated task name"),
        (worker(&json!({"name": "Worker"})), "spec.tasks[1].name in body should match"),
        (
            worker(&json!({"partitionPolicy": partitions(3, 2, 0)})),
            "replicas must equal totalPartitions * partitionSize",
        ),
        (
            worker(&json!({"minAvailable": 4, "partitionPolicy": partitions(2, 2, 1)})),
            "minAvailable must equal minPartitions * partitionSize",
        ),
        (
            worker(&json!({"minAvailable": -1})),
            "spec.tasks[1].minAvailable in body should be greater than or equal to 0",
        ),
        (
            worker(&json!({"replicas": -1})),
            "spec.tasks[1].replicas in body should be greater than or equal to 0",
        ),
        (
            worker(&json!({"dependsOn": {"name": ["ps"]}})),
            "spec.tasks: Invalid value: dependsOn must name tasks of the job",
        ),
        (worker(&json!({"dependsOn": {"name": ["worker"]}})), RING),
        (worker(&json!({"replicas": 100_000})), "spec.tasks: Invalid value: a job has at most 100000 pods"),
        (chain(20, Some(0)), RING),
        (chain(9, Some(2)), RING),
        (ring_behind(7), RING),
        (worker(&json!({"dependsOn": {"name": ["master"], "iteration": "some"}})), "\"any\", \"all\""),
    ];
    table("Job", good, bad.into())
}

fn policies() -> Vec<Case> {
    let none = "spec.policies[0]: Invalid value: either event and exitCode should be specified";
    let both = "spec.policies[0]: Invalid value: must not specify event and exitCode simultaneously";
    let exit = |code: i32| json!({"exitCode": code, "action": "RestartPod"});
    let events = |events: &[&str]| json!({"events": events, "action": "RestartTask"});
    let pending = json!({"event": "PodPending", "action": "AbortJob", "timeout": "1h"});
    let good = [
        json!([{"event": "PodFailed", "action": "RestartJob"}, events(&["PodEvicted", "TaskFailed"]), pending]),
        json!([exit(137), exit(-1), {"exitCode": 3}]),
        json!([{"event": "*", "events": ["*", "*"], "action": "AbortJob"}, exit(1)]),
        json!([events(&["PodFailed", "PodFailed"])]),
        json!([events(&["PodFailed", "PodPending"])]),
    ];
    let bad = [
        (json!([{"action": "AbortJob"}]), none),
        (json!([{"event": "PodFailed", "exitCode": 1, "action": "AbortJob"}]), both),
        (json!([exit(0)]), "spec.policies[0].exitCode: Invalid value: 0 is not a valid error code"),
        (json!([{"event": "PodFailed"}]), "spec.policies[0]: Invalid value: an event needs an action"),
        (json!([events(&["PodRunning"])]), "spec.policies[0].events[0]: Unsupported value: \"PodRunning\""),
        (
            json!([{"event": "PodFailed", "action": "SyncJob"}]),
            "spec.policies[0].action: Invalid value: \"SyncJob\": invalid policy action, expected one of AbortJob, RestartJob, \
             RestartTask, RestartPod, RestartPartition, TerminateJob, CompleteJob, ResumeJob",
        ),
        (json!([events(&["PodFailed"]), events(&["PodEvicted", "PodFailed"])]), TWICE),
        (json!([events(&["*"]), events(&["*"])]), TWICE),
        (
            json!([exit(1), exit(2), exit(1)]),
            "spec.policies: Invalid value: duplicate exitCode: it can be in one policy only",
        ),
        (json!([events(&["*"]), events(&["PodFailed"])]), STAR),
        (json!([events(&["PodFailed", "*"])]), STAR),
    ];
    let mut bad: Vec<_> =
        bad.map(|(policies, words)| (job(&json!({ "policies": policies })), words.to_owned())).into();
    // Those of a task are checked alike.
    let of_task = worker(&json!({"policies": [exit(1), exit(1)]}));
    bad.push((
        of_task,
        "spec.tasks[1].policies: Invalid value: duplicate exitCode: it can be in one policy only".to_owned(),
    ));
    let good = good.map(|policies| job(&json!({ "policies": policies })));
    let bad = bad.iter().map(|(object, words)| (object.clone(), words.as_str())).collect();
    table("Job", good.into(), bad)
}

const TWICE: &str = "spec.policies: Invalid value: duplicate event: it can be in one policy only";
const STAR: &str = "spec.policies: Invalid value: if there's * here, no other policy should be here";

const SCHEDULE: &str = "expected minute (0-59), hour (0-23), day of month (1-31), month (1-12) and day of week (0-7), \
                        as in '30 4 * * 1-5', or @hourly, @daily, @weekly, @monthly, @yearly or '@every 2h'";

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
    let mut bad: Vec<_> = ["* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "TZ=UTC * * * * *", "often"]
        .map(|schedule| (cron(schedule), SCHEDULE))
        .into();
    bad.push((cron(""), "spec.schedule"));
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
    let ring = "spec.flows: Invalid value: jobflow Flow is not DAG: Jobs must not wait for each other";
    let bad = vec![
        (flow(json!([{"name": "a"}, {"name": "a"}])), "names of flows must be unique"),
        (
            flow(json!([{"name": "a", "dependsOn": {"targets": ["b"]}}])),
            "spec.flows: Invalid value: jobflow Flow is not DAG: vertex is not defined: dependsOn must name Jobs of the flow",
        ),
        (flow(json!([{"name": "a", "dependsOn": {"targets": ["a"]}}])), ring),
        (
            flow(json!([
                {"name": "a", "dependsOn": {"targets": ["b"]}}, {"name": "b", "dependsOn": {"targets": ["a"]}},
            ])),
            ring,
        ),
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
    (r#"{"tasks": [{"name": "worker", "replicas": 4}]}"#, "job updates may not add or remove tasks"),
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
