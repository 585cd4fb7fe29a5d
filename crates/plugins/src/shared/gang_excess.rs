//! By how much a whole gang would exceed a limit that one of its tasks exceeds. An operator who is told the excess of
//! one task raises the limit by that, and finds the next task refused.
use phalanx_resource::DimId;

use phalanx_cluster::id::TaskId;
use phalanx_cluster::{Cluster, Status};

/// By how much the gang of a task, with all tasks that it needs to start, exceeds the limits that the task exceeds by
/// `over`. Empty unless the excess of the gang is larger and plain to compute: the gang needs all its pending tasks, or
/// its pending tasks have equal requests.
pub(crate) fn gang_excess(cluster: &Cluster, task: TaskId, over: &[(DimId, i64)]) -> Vec<(DimId, i64)> {
    let Some(job) = cluster.tasks[task].job.map(|job| &cluster.jobs[job]) else { return Vec::new() };
    let placed = job.counts.ready() + job.counts.of(Status::Pipelined);
    let (needed, pending) = (job.min_member.saturating_sub(placed), job.counts.of(Status::Pending));
    if needed < 2 || needed > pending || cluster.tasks[task].status != Status::Pending {
        return Vec::new();
    }
    let request = cluster.request_of(task);
    let others = |dim: DimId| {
        let (own, all) = (request.get(dim), job.sums.pending.get(dim));
        let are_equal = own.checked_mul(i64::from(pending)) == Some(all);
        if needed == pending { Some(all - own) } else { are_equal.then(|| own * i64::from(needed - 1)) }
    };
    let of_gang = |(dim, over): &(DimId, i64)| Some((*dim, over.saturating_add(others(*dim)?)));
    over.iter()
        .filter_map(of_gang)
        .zip(over)
        .filter(|(gang, one)| gang.1 > one.1)
        .map(|(gang, _)| gang)
        .collect()
}
