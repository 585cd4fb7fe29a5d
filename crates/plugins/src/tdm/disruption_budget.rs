//! The disruption budget of a job: annotations `volcano.sh/jdb-min-available` and `volcano.sh/jdb-max-unavailable`.
use std::collections::BTreeMap;

use phalanx_cluster::annotation::{JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE};
use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::{Cluster, Job, Status};

/// How many pods of a job its budget permits to evict now.
pub(super) fn evictable_pods(job: &Job) -> u32 {
    let (all, running) = (job.counts.total(), job.counts.of(Status::Running));
    let figure = |key| job.annotations.get(key).map(|text| int_or_percent(text, all));
    if let Some(most) =
        figure(JDB_MAX_UNAVAILABLE).filter(|_| job.annotations.get(JDB_MIN_AVAILABLE).is_none())
    {
        let ended = job.counts.of(Status::Succeeded) + job.counts.of(Status::Failed);
        return most.saturating_sub(all - ended - running);
    }
    match figure(JDB_MIN_AVAILABLE) {
        Some(least) => running.saturating_sub(least),
        None => 1,
    }
}

/// A number, or a percentage of `all`, rounded up; 0 for other texts.
fn int_or_percent(text: &str, all: u32) -> u32 {
    match text.strip_suffix('%') {
        Some(percent) => {
            let percent: u64 = percent.parse().unwrap_or(0);
            u32::try_from((u64::from(all) * percent).div_ceil(100)).unwrap_or(u32::MAX)
        }
        None => text.parse().unwrap_or(0),
    }
}

/// The tasks that may be evicted within the budgets of their jobs, each judged with the tasks before it gone.
pub(super) fn within_budget(cluster: &Cluster, of: impl Iterator<Item = TaskId>) -> Vec<TaskId> {
    let mut left: BTreeMap<JobId, u32> = BTreeMap::new();
    let fits = |task: &TaskId| {
        let Some(job) = cluster.tasks[*task].job else { return false };
        let left = left.entry(job).or_insert_with(|| evictable_pods(&cluster.jobs[job]));
        *left > 0 && {
            *left -= 1;
            true
        }
    };
    of.filter(fits).collect()
}
