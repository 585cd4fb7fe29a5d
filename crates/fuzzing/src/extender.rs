//! Answers of extenders.
use std::sync::LazyLock;

use phalanx_cluster::Cluster;
use phalanx_cluster::id::{JobId, NodeId, QueueId, TaskId};
use phalanx_framework::extender::{ExtenderRequest, ExtenderResponse};
use phalanx_runtime::extender::read_answer;
use serde_json::json;

use crate::choice;
use crate::world::{cluster_of, node, pod};

/// Three nodes, a pod that waits and two that run.
static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| {
    let nodes = ["a", "b", "c"].iter().filter_map(|name| node(name));
    let pods =
        [("new", None), ("old-0", Some("a")), ("old-1", Some("a"))].into_iter().filter_map(|(name, node)| {
            let container = json!({"name": "main", "resources": {"requests": {"cpu": "1"}}});
            let spec = json!({"schedulerName": "volcano", "nodeName": node, "containers": [container]});
            pod(&json!({"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": spec}))
        });
    cluster_of(nodes.chain(pods))
});

/// An answer to the question that the first byte chooses.
pub fn extender_reply(bytes: &[u8]) {
    let cluster = &*CLUSTER;
    let (choice, answer) = choice(bytes);
    let questions = questions(cluster);
    assert_eq!(questions.len(), 11);
    let question = &questions[choice % questions.len()];
    if let Ok(answer) = read_answer(cluster, question, answer) {
        check(cluster, question, &answer);
    }
}

fn questions(cluster: &Cluster) -> Vec<ExtenderRequest> {
    let nodes: Vec<NodeId> = cluster.nodes.iter().map(|(id, _)| id).collect();
    let tasks: Vec<TaskId> =
        ["new", "old-0", "old-1"].iter().filter_map(|uid| cluster.task_of(uid)).collect();
    let [task, victims @ ..] = tasks.as_slice() else { return Vec::new() };
    let (task, victims) = (*task, victims.to_vec());
    let job: Option<JobId> = cluster.tasks[task].job;
    let queue: Option<QueueId> = job.map(|job| cluster.jobs[job].queue);
    let of_job = [ExtenderRequest::JobEnqueueable, ExtenderRequest::JobReady];
    [
        ExtenderRequest::SessionOpen,
        ExtenderRequest::Prioritize(task, nodes.clone()),
        ExtenderRequest::Preemptable(task, victims.clone()),
        ExtenderRequest::Reclaimable(task, victims.clone()),
        ExtenderRequest::Allocate(task),
        ExtenderRequest::KubeFilter(task, nodes.clone()),
        ExtenderRequest::KubePrioritize(task, nodes),
        ExtenderRequest::KubePreempt(task, victims),
    ]
    .into_iter()
    .chain(queue.map(ExtenderRequest::QueueOverused))
    .chain(job.into_iter().flat_map(|job| of_job.map(|question| question(job))))
    .collect()
}

/// An extender speaks of what it was asked about only.
fn check(cluster: &Cluster, question: &ExtenderRequest, answer: &ExtenderResponse) {
    match answer {
        ExtenderResponse::Nodes { refused, failed } => {
            let named = refused.iter().chain(failed);
            assert!(
                named.clone().count() <= cluster.nodes.len() && named.clone().all(|(_, why)| !why.is_empty())
            );
        }
        ExtenderResponse::Scores(scores) => assert!(scores.iter().all(|(_, score)| score.is_finite())),
        ExtenderResponse::Victims(victims) => {
            let exist = |victim: &TaskId| cluster.tasks.iter().any(|(id, _)| id == *victim);
            assert!(victims.iter().all(exist), "{question:?}: {victims:?}");
        }
        _ => {}
    }
}
