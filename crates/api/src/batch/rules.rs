//! What the schemas of Job and CronJob check beyond types: enumerations, patterns and CEL rules.
//!
//! As for queues, a rule sees one object, and the API server bounds its estimated cost; hence the limits on the lengths
//! of lists. Messages use the words of Volcano's webhooks, which Volcano's tests look for.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::PLUGINS;
use crate::ring::Steps;

/// Actions that users may name in a policy.
const ACTIONS: [&str; 8] = [
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
];

/// Events that users may name in a policy.
const EVENTS: [&str; 8] =
    ["*", "PodPending", "PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated"];

/// The longest name of a pod, which is its host name too.
const POD_NAME_MAX: usize = 63;

pub(crate) fn policy_action(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 63,
        "x-kubernetes-validations": [{
            "rule": format!("self in ['{}']", ACTIONS.join("', '")),
            "message": format!("invalid policy action, expected one of {}", ACTIONS.join(", ")),
        }],
    })
}

pub(crate) fn policy_event(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": EVENTS, "maxLength": 63 })
}

pub(crate) fn policy_events(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": policy_event(generator), "maxItems": 16 })
}

/// Plugins by name, with arguments that a rule can read at a bounded cost.
pub(crate) fn plugins(_: &mut SchemaGenerator) -> Schema {
    let arguments = json!({ "type": "array", "items": { "type": "string" }, "maxItems": 64 });
    json_schema!({ "type": "object", "additionalProperties": arguments, "maxProperties": 16 })
}

/// On a policy.
pub(crate) fn policy() -> Value {
    let events = "(has(self.events) && size(self.events) > 0)";
    json!([
        {
            "rule": format!("!((has(self.event) || {events}) && has(self.exitCode))"),
            "message": "must not specify event and exitCode simultaneously",
        },
        {
            "rule": format!("has(self.event) || {events} || has(self.exitCode)"),
            "message": "either event and exitCode should be specified",
        },
        {
            "rule": "!has(self.exitCode) || self.exitCode != 0",
            "message": "0 is not a valid error code",
            "fieldPath": ".exitCode",
        },
        {
            "rule": "has(self.exitCode) || has(self.action)",
            "message": "an event needs an action",
        },
    ])
}

/// On a list of policies: of two that answer the same, the second would never act.
pub(crate) fn policies() -> Value {
    let names = |policy: &str, event: &str| {
        format!(
            "(has({policy}.event) && {policy}.event == {event}) || (has({policy}.events) && {event} in {policy}.events)"
        )
    };
    let all = EVENTS.join("', '");
    json!([
        {
            "rule": format!("['{all}'].all(e, self.filter(p, {}).size() <= 1)", names("p", "e")),
            "message": "duplicate event: it can be in one policy only",
        },
        {
            "rule": format!(
                "!self.exists(p, {}) || self.all(p, (!has(p.event) || p.event == '*') \
                 && (!has(p.events) || p.events.all(e, e == '*')))",
                names("p", "'*'")
            ),
            "message": "if there's * here, no other policy should be here",
        },
        {
            "rule": "self.all(p, !has(p.exitCode) || self.exists_one(o, has(o.exitCode) && o.exitCode == p.exitCode))",
            "message": "duplicate exitCode: it can be in one policy only",
        },
    ])
}

/// On a volume.
pub(crate) fn volume() -> Value {
    json!([
        {
            "rule": "(has(self.volumeClaimName) && self.volumeClaimName != '') || has(self.volumeClaim)",
            "message": "either VolumeClaim or VolumeClaimName must be specified",
        },
        {
            "rule": "!has(self.volumeClaimName) || self.volumeClaimName == '' || !has(self.volumeClaim)",
            "message": "only one of volumeClaim or volumeClaimName",
        },
    ])
}

/// On a task.
pub(crate) fn task() -> Value {
    let replicas = "(has(self.replicas) ? self.replicas : 0)";
    json!([
        {
            "rule": format!("!has(self.minAvailable) || self.minAvailable <= {replicas}"),
            "message": "'minAvailable' is greater than 'replicas' in task",
            "fieldPath": ".minAvailable",
        },
        {
            "rule": format!(
                "!has(self.partitionPolicy) \
                 || self.partitionPolicy.totalPartitions * self.partitionPolicy.partitionSize == {replicas}"
            ),
            "message": "replicas must equal totalPartitions * partitionSize",
            "fieldPath": ".partitionPolicy",
        },
        {
            "rule": "!has(self.partitionPolicy) || !has(self.minAvailable) || self.partitionPolicy.minPartitions == 0 \
                     || self.partitionPolicy.minPartitions * self.partitionPolicy.partitionSize == self.minAvailable",
            "message": "minAvailable must equal minPartitions * partitionSize",
            "fieldPath": ".minAvailable",
        },
    ])
}

const STEPS: Steps = Steps {
    list: "self.tasks",
    is_named: "has(s.name)",
    waits: "has(s.dependsOn) && has(s.dependsOn.name)",
    after: "s.dependsOn.name",
};

/// On the spec of a job.
pub(crate) fn job() -> Value {
    let plugins = PLUGINS.join("', '");
    json!([
        {
            "rule": "!has(self.minAvailable) || !has(self.tasks) \
                     || self.minAvailable <= self.tasks.map(t, has(t.replicas) ? t.replicas : 0).sum()",
            "message": "job 'minAvailable' should not be greater than total replicas in tasks",
            "fieldPath": ".minAvailable",
        },
        {
            "rule": "!has(self.tasks) || self.tasks.map(t, has(t.replicas) ? t.replicas : 0).sum() <= 100000",
            "message": "a job has at most 100000 pods",
            "fieldPath": ".tasks",
        },
        {
            "rule": "!has(self.tasks) || self.tasks.all(t, !has(t.name) || self.tasks.exists_one(o, has(o.name) && o.name == t.name))",
            "message": "duplicated task name",
            "fieldPath": ".tasks",
        },
        {
            "rule": STEPS.are_known(),
            "message": "dependsOn must name tasks of the job",
            "fieldPath": ".tasks",
        },
        {
            "rule": STEPS.have_no_ring(),
            "message": "tasks must not wait for each other by dependsOn",
            "fieldPath": ".tasks",
        },
        {
            "rule": format!("!has(self.plugins) || self.plugins.all(n, n in ['{plugins}'])"),
            "message": format!("plugins are {}", PLUGINS.join(", ")),
            "fieldPath": ".plugins",
        },
        {
            "rule": "!has(self.volumes) || self.volumes.all(v, self.volumes.exists_one(o, o.mountPath == v.mountPath))",
            "message": "duplicated mountPath",
            "fieldPath": ".volumes",
        },
        {
            "rule": "!has(self.plugins) || !('mpi' in self.plugins) || !has(self.tasks) \
                     || (self.plugins['mpi'].exists(a, a.startsWith('--master') || a.startsWith('-master')) \
                     ? self.tasks.exists(t, has(t.name) && self.plugins['mpi'].exists(a, \
                     a == '--master=' + t.name || a == '-master=' + t.name || a == t.name)) \
                     : self.tasks.exists(t, has(t.name) && t.name == 'master'))",
            "message": "plugin mpi needs a task for its master, which is master or what --master names",
            "fieldPath": ".plugins",
        },
    ])
}

/// On a stored job: it has tasks, these are neither added nor removed, and the queue stays.
///
/// At the root nothing is ratcheted: names are checked when the job is created.
pub(crate) fn job_object() -> Value {
    json!([
        {
            "rule": "oldSelf.hasValue() || (has(self.spec) && has(self.spec.tasks))",
            "optionalOldSelf": true,
            "message": "No task specified in job spec",
            "fieldPath": ".spec.tasks",
        },
        {
            "rule": "oldSelf.hasValue() || !has(self.spec) || !has(self.spec.tasks) || self.spec.tasks.all(t, \
                     size(self.metadata.name) + 2 + size(has(t.name) ? t.name : 'default000') \
                     + size(string(has(t.replicas) && t.replicas > 0 ? t.replicas - 1 : 0)) <= 63)",
            "optionalOldSelf": true,
            "message": format!("names of pods, such as JOB-TASK-0, must not be longer than {POD_NAME_MAX} characters"),
            "fieldPath": ".spec.tasks",
        },
        {
            "rule": "!has(oldSelf.spec) || !has(oldSelf.spec.tasks) || (has(self.spec) && has(self.spec.tasks) \
                     && size(self.spec.tasks) == size(oldSelf.spec.tasks))",
            "message": "job updates may not add or remove tasks",
            "fieldPath": ".spec.tasks",
        },
        {
            "rule": "!has(oldSelf.spec) || !has(oldSelf.spec.queue) || (has(self.spec) && has(self.spec.queue) \
                     && self.spec.queue == oldSelf.spec.queue)",
            "message": "the queue of a job cannot be changed",
            "fieldPath": ".spec.queue",
        },
    ])
}

/// On a CronJob: its Jobs are named after it.
pub(crate) fn cron_job() -> Value {
    json!([{
        "rule": "oldSelf.hasValue() || size(self.metadata.name) <= 52",
        "optionalOldSelf": true,
        "message": "the name must not be longer than 52 characters, for the suffix of its Jobs",
    }])
}

/// Cron's five fields, or a nickname. A rule, since the API server would answer with the whole of a `pattern`.
pub(crate) fn schedule(_: &mut SchemaGenerator) -> Schema {
    let list = |value: &str| {
        let item = format!(r"(\*|\?|{value}(-{value})?)(/[1-9][0-9]*)?");
        format!("{item}(,{item})*")
    };
    let month = "(0?[1-9]|1[0-2]|[Jj][Aa][Nn]|[Ff][Ee][Bb]|[Mm][Aa][Rr]|[Aa][Pp][Rr]|[Mm][Aa][Yy]|[Jj][Uu][Nn]|[Jj][Uu][Ll]|[Aa][Uu][Gg]|[Ss][Ee][Pp]|[Oo][Cc][Tt]|[Nn][Oo][Vv]|[Dd][Ee][Cc])";
    let day =
        "([0-7]|[Ss][Uu][Nn]|[Mm][Oo][Nn]|[Tt][Uu][Ee]|[Ww][Ee][Dd]|[Tt][Hh][Uu]|[Ff][Rr][Ii]|[Ss][Aa][Tt])";
    let fields = ["[0-5]?[0-9]", "([01]?[0-9]|2[0-3])", "(0?[1-9]|[12][0-9]|3[01])", month, day].map(list);
    let nickname = "@(yearly|annually|monthly|weekly|daily|midnight|hourly|every [0-9hms.]+)";
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 253,
        "x-kubernetes-validations": [{
            "rule": format!("self.matches(r'^({nickname}|{})$')", fields.join(r"\s+")),
            "message": "expected minute (0-59), hour (0-23), day of month (1-31), month (1-12) and day of week (0-7), \
                        as in '30 4 * * 1-5', or @hourly, @daily, @weekly, @monthly, @yearly or '@every 2h'",
        }],
    })
}

/// A name of the time zone database.
pub(crate) fn time_zone(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 64,
        "pattern": r"^[A-Za-z_][A-Za-z0-9._+-]*(/[A-Za-z0-9_][A-Za-z0-9._+-]*)*$",
        "x-kubernetes-validations": [{
            "rule": "self.lowerAscii() != 'local'",
            "message": "the time zone must be a name of the time zone database",
        }],
    })
}
