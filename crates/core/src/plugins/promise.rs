//! What admitted jobs were promised: shared by the plugins that admit jobs.
use crate::event::Phase;
use crate::world::{Job, World};

/// Whether any job waits for admission by its minResources; otherwise nobody will ask for the sums.
pub(super) fn any_asks(world: &World) -> bool {
    let asks = |job: &Job| job.phase == Phase::Pending && job.exists && job.min_resources.is_some();
    world.awake_jobs().iter().any(|job| asks(&world.jobs[*job]))
}
