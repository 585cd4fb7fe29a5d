//! Jobs, CronJobs, Commands and flows as Volcano's users and controllers write them.

use phalanx_api::batch::{CronJob, Iteration, Job, JobPhase};
use phalanx_api::bus::{Action, Command, Event};
use phalanx_api::flow::{FlowPhase, JobFlow, JobTemplate};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::definitions::definition;

const JOB: &str = r#"
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train, namespace: vision}
spec:
  schedulerName: volcano
  minAvailable: 3
  minSuccess: 2
  volumes:
  - {mountPath: /in, volumeClaimName: data}
  - {mountPath: /out, volumeClaim: {storageClassName: fast, resources: {requests: {storage: 1Gi}}}}
  tasks:
  - name: worker
    replicas: 4
    minAvailable: 2
    template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}
    policies: [{events: [TaskFailed, "*"], action: RestartTask, timeout: 90s}]
    topologyPolicy: single-numa-node
    maxRetry: 5
    dependsOn: {name: [ps], iteration: any}
    partitionPolicy: {totalPartitions: 2, partitionSize: 2, minPartitions: 1, networkTopology: {mode: hard, highestTierName: rack}}
  policies: [{event: PodEvicted, action: RestartJob}, {exitCode: 3, action: TerminateJob}]
  plugins: {env: [], ssh: [--ssh-port=23]}
  runningEstimate: 3600s
  queue: gold
  maxRetry: 7
  ttlSecondsAfterFinished: 60
  priorityClassName: high
  networkTopology: {mode: soft, highestTierAllowed: 2}
status:
  state: {phase: Restarting, reason: RestartJob, message: m, lastTransitionTime: "2026-02-03T04:06:00Z"}
  minAvailable: 3
  taskStatusCount: {worker: {phase: {Running: 2, Failed: 1}}}
  pending: 1
  running: 2
  succeeded: 3
  failed: 4
  terminating: 5
  unknown: 6
  version: 7
  retryCount: 8
  runningDuration: 60s
  controlledResources: {plugin-env: env}
  conditions: [{status: Pending, lastTransitionTime: "2026-02-03T04:05:00Z"}]
"#;

const CRON: &str = r#"
apiVersion: batch.volcano.sh/v1alpha1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: 0 5 * * *
  timeZone: Europe/Berlin
  startingDeadlineSeconds: 60
  concurrencyPolicy: Replace
  suspend: true
  jobTemplate: {metadata: {labels: {a: b}}, spec: {queue: gold, maxRetry: 3}}
  successfulJobsHistoryLimit: 0
  failedJobsHistoryLimit: 0
status:
  active: [{kind: Job, name: nightly-1, uid: u}]
  lastScheduleTime: "2026-02-03T04:06:00Z"
  lastSuccessfulTime: "2026-02-03T04:07:00Z"
"#;

const FLOW: &str = r#"
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: f}
spec:
  jobRetainPolicy: delete
  flows:
  - name: b
    dependsOn:
      targets: [a]
      probe:
        httpGetList: [{taskName: t, path: /ok, port: 80, httpHeader: {name: h, value: v}}]
        tcpSocketList: [{taskName: t, port: 81}]
        taskStatusList: [{taskName: t, phase: Running}]
    patch: {jobSpec: {queue: gold}}
status:
  pendingJobs: [p]
  runningJobs: [r]
  failedJobs: [f]
  completedJobs: [c]
  terminatedJobs: [t]
  unKnowJobs: [u]
  jobStatusList:
  - name: c
    state: Completed
    startTimestamp: "2026-02-03T04:06:00Z"
    endTimestamp: "2026-02-03T04:07:00Z"
    restartCount: 1
    runningHistories: [{startTimestamp: "2026-02-03T04:06:00Z", endTimestamp: "2026-02-03T04:07:00Z", state: Running}]
  conditions: {c: {phase: Completed, createTime: "2026-02-03T04:06:00Z", runningDuration: 60s, taskStatusCount: {t: {phase: {Running: 1}}}}}
  state: {phase: Running}
"#;

const COMMAND: &str = r"
apiVersion: bus.volcano.sh/v1alpha1
kind: Command
metadata: {name: c}
action: AbortJob
target: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: train, uid: u}
reason: r
message: m
";

const TEMPLATE: &str = r"
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata: {name: a}
spec: {queue: gold, maxRetry: 3}
status: {jobDependsOnList: [f-a]}
";

/// Everything that was read is written again.
fn round_trip<T: DeserializeOwned + Serialize>(text: &str) -> T {
    let given: Value = serde_yaml::from_str(text).unwrap();
    let object: T = serde_json::from_value(given.clone()).unwrap();
    assert_eq!(without_empty(json!(object)), without_empty(given));
    object
}

fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().map(|(key, value)| (key, without_empty(value)));
            kept.filter(|(_, value)| *value != json!({}) && !value.is_null()).collect()
        }
        Value::Array(items) => items.into_iter().map(without_empty).collect(),
        value => value,
    }
}

#[test]
fn every_field_is_read_and_written() {
    let job: Job = round_trip(JOB);
    let status = job.status.unwrap();
    assert_eq!((status.state.phase, status.retry_count), (Some(JobPhase::Restarting), 8));
    let task = &job.spec.tasks[0];
    assert_eq!(task.depends_on.as_ref().unwrap().iteration, Some(Iteration::Any));
    assert_eq!(task.policies[0].events, [Event::TaskFailed, Event::Any]);
    assert_eq!(task.policies[0].action, Some(Action::RestartTask));
    round_trip::<CronJob>(CRON);
    let flow: JobFlow = round_trip(FLOW);
    assert_eq!(flow.status.unwrap().state.phase, Some(FlowPhase::Running));
    round_trip::<Command>(COMMAND);
    round_trip::<JobTemplate>(TEMPLATE);
}

/// The samples above have every field of the schemas, apart from those of Kubernetes' own types.
#[test]
fn the_samples_have_every_field() {
    for (kind, text) in
        [("Job", JOB), ("CronJob", CRON), ("JobFlow", FLOW), ("Command", COMMAND), ("JobTemplate", TEMPLATE)]
    {
        let given: Value = serde_yaml::from_str(text).unwrap();
        let schema = definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        has_all(&given, &schema, kind);
    }
}

/// Fields with types of Kubernetes, and jobs within other objects.
const FOREIGN: [&str; 7] =
    ["metadata", "template", "volumeClaim", "active", "httpHeader", "target", "jobTemplate"];

fn has_all(given: &Value, schema: &Value, path: &str) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if FOREIGN.contains(&name.as_str()) || path == "JobTemplate.spec" {
            continue;
        }
        // A policy has an event, events or an exit code; a volume has a claim or the name of one.
        let one_of = [
            "event",
            "events",
            "exitCode",
            "timeout",
            "volumeClaimName",
            "highestTierAllowed",
            "highestTierName",
        ];
        assert!(!given[name].is_null() || one_of.contains(&name.as_str()), "{path} is missing");
        match &given[name] {
            Value::Array(items) => items.iter().for_each(|item| has_all(item, &property["items"], &path)),
            value => has_all(value, property, &path),
        }
    }
}

#[test]
fn what_is_left_out_has_the_defaults_of_volcano() {
    let job: Job =
        serde_yaml::from_str("spec: {maxRetry: 0, queue: '', plugins: {svc: }, tasks: [{name: a}]}").unwrap();
    assert_eq!(
        (job.spec.max_retry, job.spec.queue.as_str(), job.spec.plugins["svc"].len()),
        (3, "default", 0)
    );
    let cron: CronJob = serde_yaml::from_str("spec: {schedule: '* * * * *', suspend: }").unwrap();
    assert_eq!((cron.spec.successful_jobs_history_limit, cron.spec.failed_jobs_history_limit), (3, 1));
    assert!(!cron.spec.suspend);
}
