//! Opens the queue-admission gate (`scheduling.volcano.sh/queue-allocation-gate`) of pods that their queue may have. So
//! a cluster autoscaler does not see pods that only wait for their queue.
//!
//! Source: Volcano's allocate action and its gate manager. Pods are decided one by one, in the order of service.
use crate::decision::Decision;
use crate::session::Session;
use phalanx_cluster::Status;
use phalanx_cluster::event::Phase;
use phalanx_cluster::id::TaskId;

/// Opens the gates of pods whose queue has capacity.
pub(super) fn open(session: &mut Session<'_>) {
    for task in in_order(session) {
        let Some(job) = session.cluster.tasks[task].job else { continue };
        match session.job_blocked(job).and_then(|()| session.gate_removable(task)) {
            Ok(()) => {
                session.cluster.open_gate(task);
                session.tiers.changed(session.cluster, task, Status::Pending);
                let pod = session.cluster.tasks[task].pod.clone();
                session.decisions.push(Decision::OpenGate { pod });
            }
            Err(refusal) => session.refuse(job, refusal),
        }
    }
}

/// Pods of admitted jobs with a shut gate, in order.
fn in_order(session: &Session<'_>) -> Vec<TaskId> {
    let cluster = &*session.cluster;
    let job = |task: TaskId| cluster.tasks[task].job;
    let admitted = |task: &TaskId| {
        let waits = cluster.tasks[*task].status == Status::Pending;
        job(*task).is_some_and(|job| waits && cluster.jobs[job].phase != Phase::Pending)
    };
    let mut tasks: Vec<TaskId> = cluster.shut_gates().filter(admitted).collect();
    tasks.sort_by(|a, b| {
        let (Some(job_a), Some(job_b)) = (job(*a), job(*b)) else { return a.cmp(b) };
        let (queue_a, queue_b) = (cluster.jobs[job_a].queue, cluster.jobs[job_b].queue);
        let by_queue = if queue_a == queue_b {
            std::cmp::Ordering::Equal
        } else {
            session.queue_order(queue_a, queue_b)
        };
        by_queue.then_with(|| {
            if job_a == job_b { session.task_order(*a, *b) } else { session.job_order(job_a, job_b) }
        })
    });
    tasks
}
