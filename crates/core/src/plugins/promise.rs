//! What admitted jobs were promised: shared by the plugins that admit jobs.
use phalanx_resource::Amounts;

use crate::event::Phase;
use crate::world::{Job, Status, World};

/// Whether any job waits for admission by its minResources; otherwise nobody will ask for the sums.
pub(super) fn any_asks(world: &World) -> bool {
    let asks = |job: &Job| job.phase == Phase::Pending && job.exists && job.min_resources.is_some();
    world.awake_jobs().iter().any(|job| asks(&world.jobs[*job]))
}

/// Whether a job may still claim all of its minResources: one that is Inqueue, or Running with `minMember` pods
/// allocated. One that runs with less is coming to its end, as a Spark job without its driver.
pub(super) fn is_whole(job: &Job) -> bool {
    use Status::{Allocated, Binding, Bound, Running};
    let allocated =
        || [Allocated, Binding, Bound, Running].iter().map(|status| job.counts.of(*status)).sum::<u32>();
    match job.phase {
        Phase::Inqueue => true,
        Phase::Running => allocated() >= job.min_member,
        Phase::Pending | Phase::Unknown | Phase::Completed => false,
    }
}

/// All that a job was promised: its minResources or, when it is not whole, the part of them that it holds.
pub(super) fn of(job: &Job) -> Amounts {
    let mut promise = job.min_resources.clone().unwrap_or_default();
    if !is_whole(job) {
        promise.min_with(&job.allocated);
    }
    promise
}

/// The part of its minResources that a job does not hold.
pub(super) fn missing(job: &Job) -> Amounts {
    let mut missing = job.min_resources.clone().unwrap_or_default();
    missing.sub_clamped(&job.allocated);
    missing
}
