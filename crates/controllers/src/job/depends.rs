//! Whether the pods of a task may be made yet.

use phalanx_api::batch::{Iteration, TaskSpec};

use super::marker::is_discarded;
use super::{JobView, PodPhase};

/// The tasks it depends on run.
pub(crate) fn may_start(view: &JobView<'_>, task: &TaskSpec) -> bool {
    let Some(depends_on) = &task.depends_on else { return true };
    match &depends_on.iteration {
        Some(Iteration::Any) if !depends_on.name.is_empty() => {
            depends_on.name.iter().any(|name| runs(view, name))
        }
        _ => depends_on.name.iter().all(|name| runs(view, name)),
    }
}

/// As many pods of a task as it needs are ready or succeeded.
fn runs(view: &JobView<'_>, name: &str) -> bool {
    let task = view.job.spec.tasks.iter().find(|task| task.name == name);
    let counts = view.pods_of(name).iter().filter(|pod| !is_discarded(view.status(), pod));
    let ready = counts.filter(|pod| {
        pod.phase == PodPhase::Succeeded
            || (pod.phase == PodPhase::Running && pod.ready && !pod.is_terminating())
    });
    let ready = i32::try_from(ready.count()).unwrap_or(i32::MAX);
    task.and_then(|task| task.min_available).is_some_and(|needed| ready >= needed)
}
