//! By how much a gang would exceed a limit that one of its tasks exceeds: who is told of the task alone makes room for it, and
//! is told the same of the next.
use phalanx_resource::DimId;

use phalanx_cluster::id::TaskId;
use phalanx_cluster::{Status, World};

/// By how much the rest of a gang, which it cannot start without, would exceed limits that a task of it exceeds by `over`;
/// only where that is more, and can be told at a glance: all that wait are needed, or ask for the same.
pub(crate) fn gang_excess(world: &World, task: TaskId, over: &[(DimId, i64)]) -> Vec<(DimId, i64)> {
    let Some(job) = world.tasks[task].job.map(|job| &world.jobs[job]) else { return Vec::new() };
    let placed = job.counts.ready() + job.counts.of(Status::Pipelined);
    let (needed, waiting) = (job.min_member.saturating_sub(placed), job.counts.of(Status::Pending));
    if needed < 2 || needed > waiting || world.tasks[task].status != Status::Pending {
        return Vec::new();
    }
    let request = world.request_of(task);
    let others = |dim: DimId| {
        let (own, all) = (request.get(dim), job.pending.get(dim));
        let alike = own.checked_mul(i64::from(waiting)) == Some(all);
        if needed == waiting { Some(all - own) } else { alike.then(|| own * i64::from(needed - 1)) }
    };
    let more = |(dim, over): &(DimId, i64)| Some((*dim, over.saturating_add(others(*dim)?)));
    over.iter()
        .filter_map(more)
        .zip(over)
        .filter(|(gang, one)| gang.1 > one.1)
        .map(|(gang, _)| gang)
        .collect()
}
