//! Which policy answers an event.

use std::time::Duration;

use phalanx_api::batch::{JobSpec, LifecyclePolicy};
use phalanx_api::bus::{Action, Event};

use super::events::Happened;

/// What a policy says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) action: Action,
    /// How long after the event.
    pub(crate) after: Option<Duration>,
}

/// The first policy of the task that answers, or else the first of the job. `None` where nothing is to be done.
pub(crate) fn answer(spec: &JobSpec, happened: &Happened<'_>) -> Option<Answer> {
    if is_internal(&happened.event) {
        return None;
    }
    let task = happened.task.into_iter().flat_map(|task| &task.policies);
    let policy = task.chain(&spec.policies).find(|policy| answers(policy, happened))?;
    let action = policy.action.clone().unwrap_or_default();
    let after = policy.timeout.map(Duration::from).filter(|after| !after.is_zero());
    Some(Answer { action, after })
}

fn answers(policy: &LifecyclePolicy, happened: &Happened<'_>) -> bool {
    let event = &happened.event;
    let named = policy.events.iter().chain(&policy.event).any(|one| one == event || *one == Event::Any);
    let waits = *event != Event::PodPending || policy.timeout.is_some();
    let code = policy.exit_code.is_some_and(|code| code != 0 && happened.exit_code == Some(code));
    (named && waits) || code
}

/// Events by which the controller is called; policies do not answer them, nor does `*`.
fn is_internal(event: &Event) -> bool {
    matches!(event, Event::OutOfSync | Event::CommandIssued | Event::PodRunning)
}
