//! A Job that ends or has ended: its unfinished pods, its PodGroup and what its plugins made are deleted.

use super::marker::{self, is_discarded};
use super::status::{count, enter, transition};
use super::{JobPod, Look, group, sync};
use crate::change::Outcome;
use crate::plugin;

pub(crate) fn kill(look: &Look<'_>, outcome: &mut Outcome) {
    let gone = |pod: &&JobPod| !pod.is_terminating() && is_discarded(look.status(), pod);
    outcome.changes.extend(look.seen.pods.iter().filter(gone).map(|pod| sync::delete(look, pod)));
    group::delete(look, outcome);
    plugin::delete(look, outcome);
    let mut status = look.status().clone();
    count(&mut status, look.seen.pods);
    plugin::forget(&look.job, &mut status);
    let commands = look.seen.commands;
    marker::forget_commands(&mut status, |name| {
        commands.iter().any(|command| command.metadata.name.as_deref() == Some(name))
    });
    if let Some(next) = transition(&look.job.spec, &status, look.phase()) {
        enter(&mut status, next, &look.job, look.now);
    }
    if status != *look.status() {
        let urgent = status.state != look.status().state;
        outcome.changes.push(look.write(status, urgent));
    }
}
