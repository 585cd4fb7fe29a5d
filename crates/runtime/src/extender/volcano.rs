//! Volcano's questions and answers, as its extender plugin marshals its own types.
use phalanx_cluster::id::{JobId, NodeId, QueueId, TaskId};
use phalanx_cluster::{Cluster, JobKind, Status};
use phalanx_framework::extender::{ExtenderRequest, ExtenderResponse};
use phalanx_resource::{Amounts, DimId};
use serde_json::{Map, Value, json};

use super::field;
use super::objects;

/// The body of a question; those of kube-scheduler's kind are not asked here.
pub(super) fn question(cluster: &Cluster, ask: &ExtenderRequest) -> Value {
    match ask {
        ExtenderRequest::SessionOpen => session(cluster),
        ExtenderRequest::Prioritize(by, nodes) => {
            let nodes: Vec<Value> = nodes.iter().map(|id| node(cluster, *id)).collect();
            json!({"task": task(cluster, *by), "nodes": nodes})
        }
        ExtenderRequest::Preemptable(by, of) | ExtenderRequest::Reclaimable(by, of) => {
            let victims: Vec<Value> = of.iter().map(|id| task(cluster, *id)).collect();
            json!({"evictor": task(cluster, *by), "evictees": victims})
        }
        ExtenderRequest::QueueOverused(id) => json!({"queue": queue(cluster, *id)}),
        ExtenderRequest::JobEnqueueable(id)
        | ExtenderRequest::JobEnqueued(id)
        | ExtenderRequest::JobReady(id) => json!({"job": job(cluster, *id)}),
        ExtenderRequest::Allocate(id) | ExtenderRequest::Deallocate(id) => {
            json!({"task": task(cluster, *id)})
        }
        ExtenderRequest::SessionClose
        | ExtenderRequest::Predicate(..)
        | ExtenderRequest::KubeFilter(..)
        | ExtenderRequest::KubePrioritize(..)
        | ExtenderRequest::KubePreempt(..) => json!({}),
    }
}

/// What was answered.
pub(super) fn answer(
    cluster: &Cluster,
    ask: &ExtenderRequest,
    answer: &Value,
) -> Result<ExtenderResponse, String> {
    let number = |name| field(answer, name).and_then(Value::as_i64).unwrap_or_default();
    let flag =
        |name| ExtenderResponse::Flag(field(answer, name).and_then(Value::as_bool).unwrap_or_default());
    match ask {
        ExtenderRequest::Prioritize(_, nodes) => {
            if let Some(error) = message(answer, "errorMessage") {
                return Err(error.to_owned());
            }
            let scores = field(answer, "nodeScore").ok_or("the answer has no nodeScore")?;
            let score = |id: &NodeId| Some((*id, scores.get(&*cluster.nodes[*id].name)?.as_f64()?));
            Ok(ExtenderResponse::Scores(nodes.iter().filter_map(score).collect()))
        }
        // With an abstention there are no victims, whatever the list holds.
        ExtenderRequest::Preemptable(..) | ExtenderRequest::Reclaimable(..) if number("status") == 0 => {
            Ok(ExtenderResponse::Nothing)
        }
        ExtenderRequest::Preemptable(..) | ExtenderRequest::Reclaimable(..) => {
            let victims = field(answer, "victims").and_then(Value::as_array).into_iter().flatten();
            let uid = |victim: &Value| cluster.task_of(field(victim, "UID")?.as_str()?);
            Ok(ExtenderResponse::Victims(victims.filter_map(uid).collect()))
        }
        ExtenderRequest::QueueOverused(_) => Ok(flag("overused")),
        ExtenderRequest::JobReady(_) => Ok(flag("status")),
        ExtenderRequest::JobEnqueueable(_) => Ok(ExtenderResponse::Vote(number("status"))),
        ExtenderRequest::Allocate(_) | ExtenderRequest::Deallocate(_) => {
            match message(answer, "errorMessage") {
                Some(error) => Err(error.to_owned()),
                None => Ok(ExtenderResponse::Nothing),
            }
        }
        _ => Ok(ExtenderResponse::Nothing),
    }
}

/// Why a node will not do, by the answer about it.
pub(super) fn refusal(answer: &Value) -> Option<&str> {
    message(answer, "status")
}

fn message<'a>(answer: &'a Value, name: &str) -> Option<&'a str> {
    field(answer, name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn session(cluster: &Cluster) -> Value {
    let by_id = |entries: Vec<(String, Value)>| Value::Object(entries.into_iter().collect());
    let nodes = || cluster.nodes.iter().filter(|(_, node)| node.exists);
    let lent = nodes().filter(|(_, it)| !revocable_zone(it).is_empty());
    let names: Vec<&str> = nodes().map(|(_, node)| &*node.name).collect();
    let one = |(id, it): (NodeId, &phalanx_cluster::Node)| (it.name.to_string(), node(cluster, id));
    json!({
        "Jobs": by_id(cluster.jobs.iter().map(|(id, it)| (it.key.to_string(), job(cluster, id))).collect()),
        "Nodes": by_id(nodes().map(one).collect()),
        "Queues": by_id(cluster.queues.iter().map(|(id, it)| (it.name.to_string(), queue(cluster, id))).collect()),
        "NamespaceInfo": {},
        "RevocableNodes": by_id(lent.map(one).collect()),
        "NodeList": names,
    })
}

/// api.TaskInfo.
pub(super) fn task(cluster: &Cluster, id: TaskId) -> Value {
    let it = &cluster.tasks[id];
    let class = cluster.class_of(id);
    let job = it.job.map(|job| &cluster.jobs[job]);
    json!({
        "UID": it.pod.uid,
        "Job": job.map(|job| job.key.to_string()).unwrap_or_default(),
        "Name": it.pod.name,
        "Namespace": it.pod.namespace,
        "TaskRole": job.map(|job| &*job.roles[usize::from(it.role)].name).unwrap_or_default(),
        "Resreq": resource(cluster, &class.request),
        "InitResreq": resource(cluster, &class.request),
        "NodeName": it.node.map(|node| &*cluster.nodes[node].name).unwrap_or_default(),
        "Status": status(it.status),
        "Priority": it.priority,
        "Preemptable": it.details.preemptable != Some(false),
        "BestEffort": class.best_effort,
        "SchGated": it.gated,
        "RevocableZone": if class.constraints.revocable { "*" } else { "" },
        "Pod": objects::pod(cluster, id),
    })
}

/// api.NodeInfo.
pub(super) fn node(cluster: &Cluster, id: NodeId) -> Value {
    let it = &cluster.nodes[id];
    let mut used = it.allocatable.clone();
    used.sub(&it.idle);
    let pods = it.tasks.iter().filter(|id| cluster.tasks[**id].is_pod());
    let tasks: Map<String, Value> =
        pods.map(|id| (cluster.tasks[*id].pod.uid.to_string(), task(cluster, *id))).collect();
    json!({
        "Name": it.name,
        "Node": objects::node(cluster, id),
        "State": {"Phase": if it.ready { 1 } else { 2 }, "Reason": ""},
        "Releasing": resource(cluster, &it.releasing),
        "Pipelined": resource(cluster, &it.pipelined),
        "Idle": resource(cluster, &it.idle),
        "Used": resource(cluster, &used),
        "Allocatable": resource(cluster, &it.allocatable),
        "Capacity": resource(cluster, &it.allocatable),
        "Tasks": tasks,
        "RevocableZone": revocable_zone(it),
    })
}

fn revocable_zone(node: &phalanx_cluster::Node) -> &str {
    node.label(phalanx_cluster::annotation::REVOCABLE_ZONE).unwrap_or_default()
}

/// api.JobInfo.
fn job(cluster: &Cluster, id: JobId) -> Value {
    let it = &cluster.jobs[id];
    let mut request = it.sums.allocated.clone();
    request.add(&it.sums.pipelined);
    request.add(&it.sums.pending);
    let tasks: Map<String, Value> =
        it.tasks.iter().map(|id| (cluster.tasks[*id].pod.uid.to_string(), task(cluster, *id))).collect();
    let minimums: Map<String, Value> = it
        .roles
        .iter()
        .filter(|role| role.min > 0)
        .map(|role| (role.name.to_string(), json!(role.min)))
        .collect();
    json!({
        "UID": it.key.to_string(),
        "PgUID": it.object.uid,
        "Name": it.key.name,
        "Namespace": it.key.namespace,
        "Queue": cluster.queues[it.queue].name,
        "Priority": it.priority,
        "MinAvailable": it.min_member,
        "Tasks": tasks,
        "TaskMinAvailable": minimums,
        "Allocated": resource(cluster, &it.sums.allocated),
        "TotalRequest": resource(cluster, &request),
        "CreationTimestamp": objects::time(it.created),
        "Preemptable": it.preemptable == Some(true),
        "PodGroup": pod_group(cluster, id),
    })
}

fn pod_group(cluster: &Cluster, id: JobId) -> Value {
    let it = &cluster.jobs[id];
    if it.kind == JobKind::Solo {
        return Value::Null;
    }
    json!({
        "metadata": {
            "name": it.key.name, "namespace": it.key.namespace, "uid": it.object.uid,
            "creationTimestamp": objects::time(it.created),
        },
        "spec": {
            "minMember": it.min_member,
            "queue": cluster.queues[it.queue].name,
            "minResources": it.minimum.resources.as_ref().map(|min| objects::resources(cluster, min)),
        },
        "status": {
            "phase": it.phase.as_str(),
            "running": it.counts.of(Status::Running),
            "succeeded": it.counts.of(Status::Succeeded),
            "failed": it.counts.of(Status::Failed),
        },
        "Version": "v1beta1",
    })
}

/// api.QueueInfo.
fn queue(cluster: &Cluster, id: QueueId) -> Value {
    let it = &cluster.queues[id];
    let state = match it.state {
        phalanx_cluster::event::QueueState::Open => "Open",
        phalanx_cluster::event::QueueState::Closed => "Closed",
        phalanx_cluster::event::QueueState::Closing => "Closing",
        phalanx_cluster::event::QueueState::Unknown => "Unknown",
    };
    let limits = |limits: &phalanx_resource::Ceilings| objects::resources(cluster, &limits.iter().collect());
    json!({
        "UID": it.name,
        "Name": it.name,
        "Weight": it.weight,
        "Queue": {
            "metadata": {"name": it.name, "uid": it.object.uid, "creationTimestamp": objects::time(it.created)},
            "spec": {
                "weight": it.weight,
                "capability": limits(&it.capability),
                "deserved": limits(&it.deserved),
                "guarantee": {"resource": objects::resources(cluster, &it.guarantee)},
                "reclaimable": it.reclaimable,
                "parent": it.tree.parent,
                "priority": it.priority,
            },
            "status": {"state": state, "allocated": objects::resources(cluster, &it.own.allocated)},
        },
    })
}

/// api.Resource: cpu and scalars in thousandths, memory in bytes.
fn resource(cluster: &Cluster, amounts: &Amounts) -> Value {
    let scalar = |(dim, amount): (DimId, i64)| (cluster.dims.name(dim).to_owned(), json!(amount));
    let others = amounts.iter().filter(|(dim, _)| !matches!(*dim, DimId::CPU | DimId::MEMORY));
    json!({
        "MilliCPU": amounts.get(DimId::CPU),
        "Memory": amounts.get(DimId::MEMORY),
        "ScalarResources": Value::Object(others.map(scalar).collect()),
        "MaxTaskNum": amounts.get(DimId::PODS),
    })
}

/// api.TaskStatus, a bit each.
fn status(status: Status) -> u32 {
    1 << match status {
        Status::Pending => 0,
        Status::Allocated => 1,
        Status::Pipelined => 2,
        Status::Binding => 3,
        Status::Bound => 4,
        Status::Running => 5,
        Status::Releasing => 6,
        Status::Succeeded => 7,
        Status::Failed => 8,
        Status::Unknown => 9,
    }
}
