//! Hostile objects of the controllers. Whatever pods come of them may use nodes of pool `bad` only, and ask for little:
//! what a queue is full of is for its capability to bound.
use serde_json::{Value, json};

use super::{INTEGERS, QUANTITIES, TEXTS, list, map, merge, metadata, numbered};

fn object(kind: &str, name: &str, spec: impl Into<Value>) -> Value {
    let spec: Value = spec.into();
    let version = if kind.starts_with("JobFlow") || kind == "JobTemplate" { "flow" } else { "batch" };
    json!({"apiVersion": format!("{version}.volcano.sh/v1alpha1"), "kind": kind, "metadata": metadata(name), "spec": spec})
}

fn task(name: &str, replicas: i64) -> Value {
    json!({"name": name, "replicas": replicas, "template": {"spec": {"restartPolicy": "Never", "nodeSelector": {"pool": "bad"},
        "containers": [{"name": "main", "image": "example.com/none", "resources": {"requests": {"cpu": "1m"}}}]}}})
}

fn one_task(more: Value) -> Value {
    let mut spec = json!({"schedulerName": "volcano", "tasks": [task("t", 1)]});
    merge(&mut spec, more);
    spec
}

fn job(name: &str, more: Value) -> Value {
    object("Job", name, one_task(more))
}

fn with_task(name: &str, more: Value) -> Value {
    let mut odd = task("t", 2);
    merge(&mut odd, more);
    job(name, json!({"tasks": [odd]}))
}

/// vcjobs.
pub(super) fn jobs() -> Vec<Value> {
    let extremes = INTEGERS.iter().enumerate().flat_map(|(at, count)| {
        let topology = json!({"mode": "hard", "highestTierAllowed": count});
        let parts = json!({"totalPartitions": count, "partitionSize": count, "minPartitions": count, "networkTopology": topology});
        [
            with_task(&numbered("replicas", at), json!({"replicas": count})),
            with_task(&numbered("least", at), json!({"minAvailable": count, "maxRetry": count})),
            with_task(&numbered("parts", at), json!({"partitionPolicy": parts})),
            job(&numbered("all", at), json!({"minAvailable": count, "minSuccess": count, "networkTopology": topology})),
            job(&numbered("ends", at), json!({"maxRetry": count, "ttlSecondsAfterFinished": count})),
        ]
    });
    let amounts = QUANTITIES.iter().enumerate().map(|(at, amount)| {
        let mut odd = task("t", 2);
        odd["template"]["spec"]["containers"][0]["resources"]["requests"] =
            json!({"cpu": amount, "nvidia.com/gpu": amount});
        let template =
            json!({"resources": {"requests": {"storage": amount}}, "accessModes": ["ReadWriteOnce"]});
        job(
            &numbered("job-amount", at),
            json!({"tasks": [odd], "volumes": [{"mountPath": "/a", "volumeClaim": template}]}),
        )
    });
    let texts = TEXTS.iter().enumerate().flat_map(|(at, text)| {
        let policies = json!([{"action": text, "event": text, "timeout": text}, {"exitCode": 0, "action": text, "events": [text]}]);
        [
            job(&numbered("job-text", at), json!({"queue": text, "priorityClassName": text, "schedulerName": text, "runningEstimate": text})),
            with_task(&numbered("task-text", at), json!({"name": text, "topologyPolicy": text, "dependsOn": {"name": [text], "iteration": text}})),
            job(&numbered("policy-text", at), json!({"policies": policies, "plugins": {*text: [text]}})),
            job(&numbered("volume-text", at), json!({"volumes": [{"mountPath": text, "volumeClaimName": text}]})),
            job(&numbered("plugin-text", at), json!({"plugins": plugins(&format!("--x={text}"), text)})),
        ]
    });
    extremes.chain(amounts).chain(texts).chain(large()).collect()
}

/// All plugins with these arguments.
fn plugins(first: &str, second: &str) -> Value {
    let names = ["env", "svc", "ssh", "tensorflow", "mpi", "pytorch", "hcclrank", "ray"];
    map(names.len(), |at| (names[at].to_owned(), json!([first, second])))
}

fn after(name: &str, before: impl Into<Value>) -> Value {
    let mut one = task(name, 1);
    one["dependsOn"]["name"] = before.into();
    one
}

/// vcjobs with much in them.
fn large() -> Vec<Value> {
    let name = |at: usize| numbered("t", at);
    let mut wide = task("t", 10);
    wide["template"]["spec"]["containers"][0]["args"] = list(100, |_| json!("x".repeat(1_000)));
    wide["template"]["metadata"]["labels"] = map(1_000, |at| (numbered("l", at), json!("v")));
    let policies = list(1_000, |at| json!({"exitCode": at + 1, "action": "RestartJob"}));
    let volumes =
        list(50, |at| json!({"mountPath": numbered("/v", at), "volumeClaimName": numbered("gone", at)}));
    let all = list(200, |at| json!(name(at)));
    vec![
        with_task("many-pods", json!({"replicas": 100})),
        job("wide-pods", json!({"tasks": [wide]})),
        job("many-tasks", json!({"tasks": list(100, |at| task(&name(at), 1))})),
        job("chain", json!({"tasks": list(300, |at| after(&name(at), json!([name(at + 1)])))})),
        job("ring", json!({"tasks": list(300, |at| after(&name(at), json!([name((at + 1) % 300)])))})),
        job("fan", json!({"tasks": list(50, |at| after(&name(at), all.clone()))})),
        job("many-policies", json!({"policies": policies.clone(), "tasks": [task("t", 1)]})),
        with_task("many-task-policies", json!({"policies": policies})),
        job("many-volumes", json!({"volumes": volumes})),
        job(
            "many-arguments",
            json!({"plugins": {"svc": list(1_000, |at| json!(format!("--a{at}=b"))), "env": []}}),
        ),
        job("many-plugins", json!({"plugins": map(2_000, |at| (numbered("p", at), json!([])))})),
        job(&"n".repeat(253), json!({})),
    ]
}

/// CronJobs that never start, always do, or are due since long.
pub(super) fn cron_jobs() -> Vec<Value> {
    let long = "0,".repeat(5_000) + "0 * * * *";
    let schedules = [
        "* * * * *",
        "0 0 30 2 *",
        "0 0 31 2,4,6 *",
        "@every 1ns",
        "@every 1m",
        "@every 9999999h",
        "@every -1h",
        "59 23 31 12 7",
        "*/0 * * * *",
        "0 0 * * 8",
        "0 0 L * *",
        "0 0 1W * 5#5",
        "@yearly",
        "@reboot",
        "TZ=../../etc/passwd * * * * *",
        "CRON_TZ=UTC * * * * *",
        "60 24 32 13 8",
        "0-59/1,0-59/1 * * * *",
        long.as_str(),
    ];
    let cron = |name: &str, more: Value| {
        let mut spec = json!({"schedule": "* * * * *", "jobTemplate": {"spec": one_task(json!({}))}});
        merge(&mut spec, more);
        object("CronJob", name, spec)
    };
    let timed = schedules.iter().chain(TEXTS).enumerate().map(|(at, schedule)| {
        let mut odd = cron(&numbered("schedule", at), json!({"schedule": schedule}));
        odd["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:00Z");
        odd
    });
    let zones =
        TEXTS.iter().chain(&["../../etc/passwd", "Local", "UTC"]).enumerate().map(|(at, zone)| {
            cron(&numbered("zone", at), json!({"timeZone": zone, "concurrencyPolicy": zone}))
        });
    let counts = INTEGERS.iter().enumerate().map(|(at, count)| {
        let limits = json!({"startingDeadlineSeconds": count, "successfulJobsHistoryLimit": count, "failedJobsHistoryLimit": count});
        let mut odd = cron(&numbered("limits", at), limits);
        odd["status"] = json!({"lastScheduleTime": "0001-01-01T00:00:00Z"});
        odd
    });
    let broken = cron("broken", json!({"jobTemplate": {"spec": {"tasks": [task("t", -1)]}}}));
    timed.chain(zones).chain(counts).chain([broken, cron(&"n".repeat(253), json!({}))]).collect()
}

/// JobFlows, and JobTemplates for them.
pub(super) fn flows() -> Vec<Value> {
    let name = |at: usize| numbered("step", at);
    let step = |at: usize, before: Value| json!({"name": name(at), "dependsOn": {"targets": before}});
    let flow =
        |of: &str, steps: Value| object("JobFlow", of, json!({"flows": steps, "jobRetainPolicy": "delete"}));
    let mut all: Vec<Value> =
        (0..100).map(|at| object("JobTemplate", &name(at), one_task(json!({})))).collect();
    all.extend((0..10).map(|at| flow(&numbered("flow", at), list(20, |at| json!({"name": name(at)})))));
    let probe = json!({"tcpSocketList": list(1_000, |at| json!({"taskName": "t", "port": at})),
        "httpGetList": list(1_000, |at| json!({"taskName": "t", "port": at, "path": "\r\nx: y", "httpHeader": {"name": "\r\n", "value": "\0"}})),
        "taskStatusList": [{"taskName": "gone", "phase": "Running"}]});
    let patches = TEXTS.iter().enumerate().map(|(at, text)| {
        let patch = json!({"jobSpec": {"tasks": text, "queue": [text], *text: {*text: text}}});
        flow(&numbered("patch", at), json!([{"name": name(at), "patch": patch}]))
    });
    all.extend(patches);
    all.extend([
        flow("flow-chain", list(5_000, |at| step(at, json!([name(at + 1)])))),
        flow("flow-ring", list(100, |at| step(at, json!([name((at + 1) % 100)])))),
        flow("flow-fan", list(100, |at| step(at, list(at, |of| json!(name(of)))))),
        flow("flow-twins", list(1_000, |_| json!({"name": name(0)}))),
        flow("flow-self", json!([step(0, json!([name(0)]))])),
        flow("flow-probes", json!([{"name": name(0)}, {"name": name(1), "dependsOn": {"targets": [name(0)], "probe": probe}}])),
        flow(&"n".repeat(253), json!([{"name": name(0)}])),
    ]);
    all
}

/// Commands, for objects of the namespace and for what there is not.
pub(super) fn commands() -> Vec<Value> {
    let command = |name: &str, action: &str, target: Value| json!({"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": metadata(name), "action": action, "target": target});
    let target = |kind: &str, name: &str| json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": kind, "name": name, "uid": name});
    let actions = [
        "AbortJob",
        "ResumeJob",
        "RestartJob",
        "CompleteJob",
        "TerminateJob",
        "EnqueueJob",
        "SyncJob",
        "*",
        "",
    ];
    let jobs = ["ends-0", "all-1", "replicas-3", "gone", "many-tasks", "", "../../good/j"];
    let of_jobs = (0..200).map(|at| {
        let mut odd = command(
            &numbered("command", at),
            actions[at % actions.len()],
            target("Job", jobs[at % jobs.len()]),
        );
        odd["reason"] = json!("r".repeat(10_000));
        odd["message"] = json!(TEXTS[at % TEXTS.len()]);
        odd
    });
    let odd = [
        command("no-target", "AbortJob", Value::Null),
        command("queue-of-none", "CloseQueue", target("Queue", "no-such-queue")),
        command("queue-as-job", "CloseQueue", target("Job", "ends-0")),
        command("pod", "AbortJob", target("Pod", "cpu-0")),
    ];
    of_jobs.chain(odd).collect()
}

/// An ordinary object of each kind, for mutants.
pub(super) fn kinds() -> Vec<Value> {
    let full = json!({"minAvailable": 1, "maxRetry": 3, "queue": "default", "plugins": {"env": [], "svc": ["--publish-not-ready-addresses=true"]},
        "policies": [{"event": "PodFailed", "action": "RestartJob", "timeout": "1s"}], "ttlSecondsAfterFinished": 1,
        "tasks": [task("a", 1), after("b", json!(["a"]))], "volumes": [{"mountPath": "/a", "volumeClaimName": "c"}]});
    let flow = json!({"flows": [{"name": "step-0"}, {"name": "step-1", "dependsOn": {"targets": ["step-0"], "probe": {"taskStatusList": [{"taskName": "t", "phase": "Running"}]}},
        "patch": {"jobSpec": {"queue": "default"}}}], "jobRetainPolicy": "retain"});
    let cron = json!({"schedule": "* * * * *", "timeZone": "UTC", "startingDeadlineSeconds": 10, "concurrencyPolicy": "Forbid", "suspend": false,
        "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1, "jobTemplate": {"spec": one_task(full.clone())}});
    vec![
        job("m", full.clone()),
        object("CronJob", "m", cron),
        object("JobFlow", "m", flow),
        object("JobTemplate", "m", one_task(full)),
    ]
}
