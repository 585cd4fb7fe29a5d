//! kube-scheduler's questions and answers. Source: k8s.io/kube-scheduler/extender/v1, whose fields have no other names.
use std::collections::BTreeMap;

use phalanx_cluster::Cluster;
use phalanx_cluster::id::{NodeId, TaskId};
use phalanx_framework::extender::{ExtenderRequest, ExtenderResponse};
use serde_json::{Map, Value, json};

use super::{field, objects};

/// The body of a question of this kind.
pub(super) fn question(cluster: &Cluster, ask: &ExtenderRequest, names_only: bool) -> Option<Value> {
    match ask {
        ExtenderRequest::KubeFilter(task, nodes) | ExtenderRequest::KubePrioritize(task, nodes) => {
            let mut body = json!({"Pod": objects::pod(cluster, *task), "Nodes": null, "NodeNames": null});
            if names_only {
                body["NodeNames"] = nodes.iter().map(|id| json!(cluster.nodes[*id].name)).collect();
            } else {
                let items: Vec<Value> = nodes.iter().map(|id| objects::node(cluster, *id)).collect();
                body["Nodes"] = json!({"apiVersion": "v1", "kind": "NodeList", "items": items});
            }
            Some(body)
        }
        ExtenderRequest::KubePreempt(task, of) => {
            let (field, other) = if names_only {
                ("NodeNameToMetaVictims", "NodeNameToVictims")
            } else {
                ("NodeNameToVictims", "NodeNameToMetaVictims")
            };
            let victims = victims(cluster, of, names_only);
            Some(json!({"Pod": objects::pod(cluster, *task), field: victims, other: null}))
        }
        _ => None,
    }
}

/// By node.
fn victims(cluster: &Cluster, of: &[TaskId], names_only: bool) -> Value {
    let mut by_node = BTreeMap::<&str, Vec<Value>>::new();
    for id in of {
        let task = &cluster.tasks[*id];
        let Some(node) = task.node else { continue };
        let pod = if names_only { json!({"UID": task.pod.uid}) } else { objects::pod(cluster, *id) };
        by_node.entry(&cluster.nodes[node].name).or_default().push(pod);
    }
    let one =
        |(node, pods): (&str, Vec<Value>)| (node.to_owned(), json!({"Pods": pods, "NumPDBViolations": 0}));
    Value::Object(by_node.into_iter().map(one).collect::<Map<_, _>>())
}

/// Reads the answer to a question of this kind.
pub(super) fn answer(
    cluster: &Cluster,
    ask: &ExtenderRequest,
    answer: &Value,
) -> Option<Result<ExtenderResponse, String>> {
    match ask {
        ExtenderRequest::KubeFilter(_, nodes) => Some(filtered(cluster, nodes, answer)),
        ExtenderRequest::KubePrioritize(_, nodes) => Some(scores(cluster, nodes, answer)),
        ExtenderRequest::KubePreempt(_, of) => Some(Ok(spared(cluster, of, answer))),
        _ => None,
    }
}

fn filtered(cluster: &Cluster, nodes: &[NodeId], answer: &Value) -> Result<ExtenderResponse, String> {
    if let Some(error) = field(answer, "Error").and_then(Value::as_str).filter(|error| !error.is_empty()) {
        return Err(error.to_owned());
    }
    let kept = kept(answer);
    let why = |name: &str| {
        let of = |map| field(answer, map)?.get(name)?.as_str();
        of("FailedAndUnresolvableNodes").or_else(|| of("FailedNodes"))
    };
    let refused = |id: &NodeId| {
        let name = &*cluster.nodes[*id].name;
        let told = why(name);
        // With neither list, the answer is about the nodes that failed only.
        let passes = kept.as_ref().map_or(told.is_none(), |kept| kept.contains(&name));
        (!passes)
            .then(|| (*id, told.filter(|why| !why.is_empty()).unwrap_or("refused by an extender").into()))
    };
    Ok(ExtenderResponse::Nodes { refused: nodes.iter().filter_map(refused).collect(), failed: Vec::new() })
}

/// Names of the nodes that passed.
fn kept(answer: &Value) -> Option<Vec<&str>> {
    if let Some(names) = field(answer, "NodeNames").and_then(Value::as_array) {
        return Some(names.iter().filter_map(Value::as_str).collect());
    }
    let items = field(field(answer, "Nodes")?, "items")?.as_array()?;
    Some(items.iter().filter_map(|node| node.pointer("/metadata/name")?.as_str()).collect())
}

fn scores(cluster: &Cluster, nodes: &[NodeId], answer: &Value) -> Result<ExtenderResponse, String> {
    let list = answer.as_array().ok_or("the answer is no list of hosts and scores")?;
    let by_name: BTreeMap<&str, f64> = list
        .iter()
        .filter_map(|host| Some((field(host, "Host")?.as_str()?, field(host, "Score")?.as_f64()?)))
        .collect();
    let of = |id: &NodeId| Some((*id, *by_name.get(&*cluster.nodes[*id].name)?));
    Ok(ExtenderResponse::Scores(nodes.iter().filter_map(of).collect()))
}

/// Victims on the nodes that the extender accepts.
fn spared(cluster: &Cluster, of: &[TaskId], answer: &Value) -> ExtenderResponse {
    let Some(by_node) = field(answer, "NodeNameToMetaVictims").and_then(Value::as_object) else {
        return ExtenderResponse::Victims(Vec::new());
    };
    let pods = by_node.values().filter_map(|victims| field(victims, "Pods")?.as_array()).flatten();
    let uid = |pod: &Value| cluster.task_of(field(pod, "UID")?.as_str()?);
    let left: Vec<TaskId> = pods.filter_map(uid).filter(|task| of.contains(task)).collect();
    ExtenderResponse::Victims(left)
}
