//! Which object a Command is for, and Commands that are for none.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::bus::Command;
use phalanx_api::{batch, v1beta1};

use crate::change::{Change, Kind, Note, Outcome, Target};
use crate::meta::text;

/// Its object may be seen later than a Command: they come by different watches.
const GRACE_SECONDS: i64 = 60;

/// Kind and name of the Job, in the namespace of the Command, or of the Queue that a Command names.
pub fn target(command: &Command) -> Option<(Kind, &str)> {
    let target = command.target.as_ref()?;
    let group = target.api_version.split('/').next().unwrap_or_default();
    let kind = match (group, target.kind.as_str()) {
        (batch::GROUP, "Job") => Kind::Job,
        (v1beta1::GROUP, "Queue") => Kind::Queue,
        _ => return None,
    };
    Some((kind, &target.name))
}

/// Whether a Command that names this object is for it, and not for an earlier one of the name.
pub fn is_for(command: &Command, object: &ObjectMeta) -> bool {
    let uid = command.target.as_ref().map_or("", |target| target.uid.as_str());
    if uid.is_empty() {
        let times = command.metadata.creation_timestamp.as_ref().zip(object.creation_timestamp.as_ref());
        return times.is_none_or(|(command, object)| command.0 >= object.0);
    }
    Some(uid) == object.uid.as_deref()
}

/// Deletes Commands whose object is not there, or is a later one of the name.
pub fn drop_stale(stale: &[Command], now: Timestamp, outcome: &mut Outcome) {
    for command in stale {
        let created = command.metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0);
        let due = created.saturating_add(SignedDuration::from_secs(GRACE_SECONDS)).unwrap_or(Timestamp::MAX);
        if due > now {
            outcome.requeue_at(due);
            continue;
        }
        let on = Target::of(Kind::Command, &command.metadata);
        let (kind, name) = command.target.as_ref().map_or(("", ""), |target| (&*target.kind, &*target.name));
        let name_of = text(command.metadata.name.as_ref());
        let message =
            format!("Command {name_of}: {}: {kind} {name} is not there, or is a later one", command.action);
        outcome.changes.extend([
            Change::Note(Note { on: on.clone(), warning: true, reason: "CommandIssued", message }),
            Change::Delete(on),
        ]);
    }
}
