//! Owners of pods whose annotation asks for a PodGroup that no controller makes: each gets an event, once.
//!
//! Nothing on a pod shows the annotation, for it stands in the owner's own metadata. Watching all ReplicaSets,
//! StatefulSets, DaemonSets and Jobs of a cluster would cost more than all that the scheduler decides on, so the
//! metadata of an owner is read once, when a pod of it waits without a PodGroup. One owner is read after the other, and
//! not at once: a PodGroup controller may be at work that has not made its first PodGroup yet.
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use phalanx_api::names::{GROUP_MIN_MEMBER_ANNOTATION, GROUP_NAME_ANNOTATION};
use phalanx_cache::{Names, is_name, remarks_of_owner, slim};
use phalanx_cluster::event::Key;
use rustc_hash::FxHashSet;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use crate::client::within;
use crate::outbox::driver::chain;
use crate::recorder::{Note, Regarding};

/// How long after a pod was seen its owner is read.
const LATER: Duration = Duration::from_secs(5);
/// An owner that is not read within this time is not read.
const ANSWER: Duration = Duration::from_secs(15);
/// Owners remembered.
const REMEMBERED_MAX: usize = 16_384;
/// Kinds of which Volcano's PodGroup controller reads the annotation, with the groups that they are of.
const KINDS: [(&str, &str); 4] =
    [("apps/", "ReplicaSet"), ("apps/", "StatefulSet"), ("apps/", "DaemonSet"), ("batch/", "Job")];

/// What watches have seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The owner of a pod that waits without a PodGroup.
    Owner(Regarding),
    /// A PodGroup that a PodGroup controller made, in this namespace.
    MadeGroup(Arc<str>),
    /// A PodGroup controller.
    Controller,
}

/// The owner of a pod of ours that waits without a PodGroup, if its annotation may ask for one.
pub fn owner(pod: &slim::Pod, names: &Names) -> Option<Seen> {
    let slim::Pod { metadata, spec, status } = pod;
    let pending = matches!(status.phase.as_deref(), None | Some("Pending")) && spec.node_name.is_none();
    let group = metadata.annotations.as_ref().and_then(|all| all.get(GROUP_NAME_ANNOTATION));
    if !pending
        || spec.scheduling_group.is_some()
        || group.is_some_and(|name| !name.is_empty())
        || !names.is_ours(spec.scheduler_name.as_deref())
    {
        return None;
    }
    let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let known = |(group, kind): &(&str, &str)| owner.kind == *kind && owner.api_version.starts_with(group);
    // Nobody checks the name of an owner: one that is no name could be another path.
    (is_name(&owner.name) && KINDS.iter().any(known)).then(|| {
        Seen::Owner(Regarding {
            api_version: owner.api_version.clone().into(),
            kind: owner.kind.clone().into(),
            key: Key::new(metadata.namespace.as_deref().unwrap_or_default(), &owner.name),
            uid: owner.uid.as_str().into(),
        })
    })
}

/// Reads owners and passes annotations without effect to `tell`, until a PodGroup controller is seen; those of a
/// namespace until a PodGroup is seen there that such a controller made.
pub async fn follow(client: Client, mut seen: UnboundedReceiver<Seen>, tell: impl Fn(Note)) {
    let (mut known, mut waiting) = (FxHashSet::default(), VecDeque::<(Instant, Regarding)>::new());
    let mut served = FxHashSet::default();
    let mut readable = true;
    loop {
        let due = waiting.front().map(|(at, _)| *at);
        tokio::select! {
            biased;
            next = seen.recv() => match next {
                Some(Seen::Owner(owner)) => {
                    if known.len() >= REMEMBERED_MAX {
                        known.clear();
                    }
                    if waiting.len() < REMEMBERED_MAX && known.insert(owner.uid.clone()) {
                        waiting.push_back((Instant::now() + LATER, owner));
                    }
                }
                Some(Seen::MadeGroup(namespace)) => {
                    served.insert(namespace);
                }
                Some(Seen::Controller) | None => return,
            },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                let Some((_, owner)) = waiting.pop_front() else { continue };
                if served.contains(&owner.key.namespace) {
                    continue;
                }
                readable &= look(&client, owner, readable, &tell).await;
            }
        }
    }
}

/// Reads an owner. False when that is not allowed, which is logged while `readable`.
async fn look(client: &Client, owner: Regarding, readable: bool, tell: &impl Fn(Note)) -> bool {
    let (group, version) = owner.api_version.split_once('/').unwrap_or_default();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &owner.kind));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &owner.key.namespace, &kind);
    let silence = format!("no answer within {ANSWER:?}");
    match within(ANSWER, silence, api.get_metadata(&owner.key.name)).await {
        Ok(object) => {
            let annotations = object.metadata.annotations.unwrap_or_default();
            let minimum = annotations.get(GROUP_MIN_MEMBER_ANNOTATION);
            if let Some(minimum) = minimum.filter(|_| object.metadata.uid.as_deref() == Some(&*owner.uid)) {
                let invalid = remarks_of_owner(minimum);
                warn!(kind = %owner.kind, object = %owner.key, "{invalid}");
                tell(Note::invalid(owner, &invalid.to_string(), std::time::Instant::now()));
            }
            true
        }
        Err(kube::Error::Api(status)) if status.code == 403 => {
            if readable {
                info!(
                    "owners of pods may not be read, so annotations on them that ask for a PodGroup are not told: {status}"
                );
            }
            false
        }
        Err(error) => {
            debug!(kind = %owner.kind, object = %owner.key, "cannot be read: {}", chain(&error));
            true
        }
    }
}
