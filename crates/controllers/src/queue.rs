//! The Queue controller: states, trees, Commands, counts.
//!
//! One queue is reconciled, beside its parent. A tree is closed from above: each child sees that its parent is closed,
//! notes in an annotation that this is why, and closes; and opens again when its parent does and the annotation is
//! there.
//!
//! Of a Queue's status the state and the counts are the controller's; the rest is the scheduler's.

use phalanx_api::bus::{Action, Command};
use phalanx_api::names::CLOSED_BY_PARENT;
use phalanx_api::v1beta1::{PodGroupPhase, Queue, QueueState, QueueStatus, ROOT_QUEUE};

use crate::change::{Change, Kind, Note, Object, Outcome, Target};
use crate::meta::{annotation, text};

/// A Queue and what its state depends on.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The Queue.
    pub queue: &'a Queue,
    /// Its parent, if there is one.
    pub parent: Option<&'a Queue>,
    /// The phases of the PodGroups that name the queue.
    pub groups: &'a [PodGroupPhase],
    /// Commands that name it, in the order of their creation.
    pub commands: &'a [Command],
}

/// Reconciles a Queue.
pub fn reconcile(seen: &Observed<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    if seen.queue.metadata.deletion_timestamp.is_some() {
        return outcome;
    }
    if !is_root(seen) && seen.queue.spec.parent.is_none() {
        let mut queue = seen.queue.clone();
        queue.spec.parent = Some(ROOT_QUEUE.to_owned());
        outcome.changes.push(Change::Replace(Object::Queue(Box::new(queue))));
        return outcome;
    }
    let commanded = commands(seen, &mut outcome);
    let is_commanded = commanded.is_some();
    let state = match commanded {
        Some(state) => state,
        None => match by_parent(seen) {
            ByParent::Mark(value) => {
                outcome
                    .changes
                    .insert(0, Change::Replace(Object::Queue(Box::new(marked(seen.queue, value)))));
                return outcome;
            }
            ByParent::State(state) => state,
        },
    };
    let status = counted(seen, state);
    // What was observed may be older than a write that was not answered: a commanded state is written in any case.
    if is_commanded || Some(&status) != seen.queue.status.as_ref() {
        let urgent =
            is_commanded || Some(&status.state) != seen.queue.status.as_ref().map(|status| &status.state);
        let object = Object::Queue(Box::new(Queue { status: Some(status), ..seen.queue.clone() }));
        // The state is the commit of a Command: it is written before the Command is deleted.
        outcome.changes.insert(0, Change::Status { object, urgent });
    }
    outcome
}

fn is_root(seen: &Observed<'_>) -> bool {
    text(seen.queue.metadata.name.as_ref()) == ROOT_QUEUE
}

/// The state of a queue; one that was not seen by the controller yet is open.
fn state(queue: &Queue) -> QueueState {
    queue.status.as_ref().and_then(|status| status.state.clone()).unwrap_or(QueueState::Open)
}

fn is_closed(state: &QueueState) -> bool {
    matches!(state, QueueState::Closed | QueueState::Closing)
}

/// A queue that closes is closed when it has no PodGroups.
fn closing(seen: &Observed<'_>) -> QueueState {
    if seen.groups.is_empty() { QueueState::Closed } else { QueueState::Closing }
}

/// Carries Commands out, the last one that counts; all are deleted.
fn commands(seen: &Observed<'_>, outcome: &mut Outcome) -> Option<QueueState> {
    let mut wanted = None;
    for command in seen.commands {
        let now = wanted.clone().unwrap_or_else(|| state(seen.queue));
        match Action::from(command.action.clone()) {
            Action::OpenQueue if parent_is_closed(seen) => {
                let parent = text(seen.queue.spec.parent.as_ref());
                outcome.changes.push(note(
                    seen,
                    format!("not opened: its parent {parent} is closed, which has to be opened first"),
                ));
            }
            Action::OpenQueue => wanted = Some(QueueState::Open),
            Action::CloseQueue if is_root(seen) => {
                outcome.changes.push(note(seen, "not closed: root cannot be closed".to_owned()));
            }
            Action::CloseQueue if now == QueueState::Closed => wanted = Some(now),
            Action::CloseQueue => wanted = Some(closing(seen)),
            action => outcome.changes.push(note(seen, format!("{action} has no effect on a queue"))),
        }
        outcome.changes.push(Change::Delete(Target::of(Kind::Command, &command.metadata)));
    }
    wanted
}

fn note(seen: &Observed<'_>, message: String) -> Change {
    let on = Target::of(Kind::Queue, &seen.queue.metadata);
    Change::Note(Note { on, warning: true, reason: "CommandIssued", message })
}

/// Root does not close its children.
fn parent_is_closed(seen: &Observed<'_>) -> bool {
    let parent = seen.parent.filter(|parent| text(parent.metadata.name.as_ref()) != ROOT_QUEUE);
    !is_root(seen) && parent.is_some_and(|parent| is_closed(&state(parent)))
}

/// What the state of the parent makes of that of the queue.
enum ByParent {
    /// The annotation is to be written first.
    Mark(bool),
    State(QueueState),
}

fn by_parent(seen: &Observed<'_>) -> ByParent {
    let own = state(seen.queue);
    let marked = annotation(&seen.queue.metadata, CLOSED_BY_PARENT) == Some("true");
    match (parent_is_closed(seen), is_closed(&own), marked) {
        (true, false, false) => ByParent::Mark(true),
        (true, false, true) => ByParent::State(closing(seen)),
        (false, true, true) if seen.parent.is_some() => ByParent::State(QueueState::Open),
        (false, false, true) => ByParent::Mark(false),
        _ if own == QueueState::Closing => ByParent::State(closing(seen)),
        _ => ByParent::State(own),
    }
}

fn marked(queue: &Queue, value: bool) -> Queue {
    let mut queue = queue.clone();
    let annotations = queue.metadata.annotations.get_or_insert_default();
    annotations.insert(CLOSED_BY_PARENT.to_owned(), value.to_string());
    queue
}

fn counted(seen: &Observed<'_>, state: QueueState) -> QueueStatus {
    let count = |phase: PodGroupPhase| {
        i32::try_from(seen.groups.iter().filter(|group| **group == phase).count()).unwrap_or(i32::MAX)
    };
    QueueStatus {
        state: Some(state),
        pending: count(PodGroupPhase::Pending),
        inqueue: count(PodGroupPhase::Inqueue),
        running: count(PodGroupPhase::Running),
        unknown: count(PodGroupPhase::Unknown),
        completed: count(PodGroupPhase::Completed),
        ..seen.queue.status.clone().unwrap_or_default()
    }
}
