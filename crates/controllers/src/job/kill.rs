//! A Job that ends or has ended: its unfinished pods, its PodGroup and what its plugins made are deleted.

use super::marker::{self, is_discarded};
use super::status::{count, enter, transition};
use super::{JobPod, JobView, group, sync};
use crate::change::Outcome;
use crate::plugin;

pub(crate) fn kill(view: &JobView<'_>, outcome: &mut Outcome) {
    let gone = |pod: &&JobPod| !pod.is_terminating() && is_discarded(view.status(), pod);
    outcome.changes.extend(view.seen.pods.iter().filter(gone).map(|pod| sync::delete(view, pod)));
    group::delete(view, outcome);
    plugin::delete(view, outcome);
    let mut status = view.status().clone();
    count(&mut status, &view.job.spec, view.seen.pods);
    plugin::forget(&view.job, &mut status);
    marker::forget_commands(&mut status, view.seen.commands);
    if let Some(next) = transition(&view.job.spec, &status, view.phase()) {
        enter(&mut status, next, &view.job, view.now);
    }
    if status != *view.status() {
        let urgent = status.state != view.status().state;
        outcome.changes.push(view.write(status, urgent));
    }
}
