//! A PodGroup's status that another client has written too. Its conditions are one list, which a patch replaces as a
//! whole: so a write names the version that it was made from, and after a conflict it is made anew from the present
//! list.
use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use hyper::body::Bytes;
use phalanx_cluster::event::Condition;
use serde::Deserialize;
use serde_json::Value;

use super::driver::{ask, fetch};
use super::reply::{Problem, Reply, Trouble, read};
use super::request::{get_pod_group, group_status_over};
use super::status::GroupWrite;
use crate::wire::Wire;

#[derive(Debug, Default, Deserialize)]
struct Seen {
    metadata: Meta,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
}

#[derive(Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Vec<Value>,
}

/// Notes the version that a write has made; empty if the answer does not say.
pub(super) fn note_version(write: &mut GroupWrite, answer: &[u8]) {
    let version = serde_json::from_slice(answer).map(|seen: Seen| seen.metadata.resource_version);
    write.stands = version.unwrap_or_default().into();
}

/// Writes the status anew, with the present conditions of other clients.
pub(super) async fn merge(wire: &Wire, write: &mut GroupWrite, path: &str, message: String) -> Reply {
    let others = match look(wire, write).await {
        Ok(seen) if seen.metadata.uid == *write.uid => {
            write.stands = seen.metadata.resource_version.into();
            seen.status.conditions.into_iter().filter(is_of_others).collect()
        }
        Ok(_) => return Reply::Gone(message),
        // Without the right to read, the decided status is all that is known.
        Err(Reply::Refused(_)) => {
            write.stands = Arc::from("");
            own_view_of_others(write)
        }
        Err(reply) => return reply,
    };
    let Ok(request) = group_status_over(write, path, others) else { return Reply::Gone(message) };
    match ask(wire, request).await {
        Ok(Ok(answer)) => {
            // A status that was decided from an older version lacks the conditions of other clients.
            write.version = Arc::clone(&write.stands);
            note_version(write, &answer);
            Reply::Done
        }
        Ok(Err(Problem::NotFound(message))) => Reply::Gone(message),
        Ok(Err(Problem::Conflict(message))) => Reply::Conflict(message),
        Ok(Err(Problem::Other(reply))) | Err(reply) => reply,
    }
}

async fn look(wire: &Wire, write: &GroupWrite) -> Result<Seen, Reply> {
    let gone = |error: http::Error| Reply::Gone(error.to_string());
    let (status, headers, body) = fetch(wire, get_pod_group(&write.group).map_err(gone)?).await?;
    parse(status, &headers, &body)
}

fn parse(status: StatusCode, headers: &HeaderMap, body: &Bytes) -> Result<Seen, Reply> {
    match read(status, headers, body) {
        Ok(()) => serde_json::from_slice(body).map_err(|error| Reply::Passing {
            message: format!("cannot read the PodGroup: {error}"),
            trouble: Trouble::Unknown,
            after: None,
        }),
        Err(Problem::Other(reply)) => Err(reply),
        Err(Problem::NotFound(message) | Problem::Conflict(message)) => Err(Reply::Gone(message)),
    }
}

fn is_of_others(condition: &Value) -> bool {
    !condition["type"].as_str().is_some_and(Condition::is_own)
}

fn own_view_of_others(write: &GroupWrite) -> Vec<Value> {
    let others = write.status.conditions.iter().filter(|condition| !Condition::is_own(&condition.kind));
    others.map(super::request::condition).collect()
}
