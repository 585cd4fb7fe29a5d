//! Queues.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::{names, v1beta1};
use phalanx_cluster::annotation;
use phalanx_cluster::event::{Dequeue, GroupLimits, NodeGroups, QueueInfo, QueueState};

use crate::group::Faults;
use crate::invalid::{At, Invalid};
use crate::pod::{Marks, created};
use crate::{Identity, Interner, Kind, decode, requests, slim};

/// A queue as the Cluster sees it. What cannot be honoured is left out and named in `invalid`.
pub fn queue(queue: &v1beta1::Queue, interner: &mut Interner) -> QueueInfo {
    let identity = v1beta1::Queue::identity(&queue.metadata, interner);
    reduce(queue, &identity, interner)
}

/// A queue of which everything can be honoured, or all that cannot.
///
/// # Errors
/// Each field that cannot be honoured.
pub fn sound_queue(queue: &v1beta1::Queue, interner: &mut Interner) -> Result<QueueInfo, Vec<Invalid>> {
    let mut faults = Faults::default();
    let identity = v1beta1::Queue::identity(&queue.metadata, interner);
    let queue = parts(queue, &identity, &mut faults, interner);
    faults.or(queue)
}

pub(crate) fn reduce(queue: &v1beta1::Queue, identity: &Identity, interner: &mut Interner) -> QueueInfo {
    let mut faults = Faults::default();
    let queue = parts(queue, identity, &mut faults, interner);
    QueueInfo { invalid: faults.text(), ..queue }
}

fn parts(
    queue: &v1beta1::Queue,
    identity: &Identity,
    faults: &mut Faults,
    interner: &mut Interner,
) -> QueueInfo {
    let v1beta1::Queue { metadata, spec, status } = queue;
    let none = v1beta1::ResourceList::new();
    let allocated = status.as_ref().map_or(&none, |status| &status.allocated);
    let state = status.as_ref().and_then(|status| status.state.as_ref());
    QueueInfo {
        name: identity.key.name.clone(),
        uid: Arc::clone(&identity.uid),
        created: created(metadata),
        weight: weight(spec.weight, faults),
        capability: faults.resources("spec.capability", &spec.capability, interner),
        deserved: faults.resources("spec.deserved", &spec.deserved, interner),
        guarantee: faults.resources("spec.guarantee.resource", &spec.guarantee.resource, interner),
        reclaimable: queue.is_reclaimable(),
        parent: interner.string(spec.parent.as_deref().unwrap_or_default()),
        priority: spec.priority,
        state: state.map(queue_state).unwrap_or_default(),
        dequeue: dequeue(&spec.dequeue_strategy, faults),
        // Written by the scheduler: an error there is overwritten, and is no problem of the queue.
        allocated: Faults::default().resources("status.allocated", allocated, interner),
        annotations: Marks(metadata).kept(&[annotation::OF_QUEUES], interner),
        node_groups: spec.affinity.as_ref().map(|affinity| node_groups(affinity, interner)),
        group_limits: group_limits(metadata, interner),
        invalid: None,
    }
}

fn node_groups(from: &v1beta1::Affinity, interner: &mut Interner) -> NodeGroups {
    let mut names = |list: Option<&Vec<String>>| {
        list.into_iter().flatten().map(|name| interner.string(name)).collect::<Vec<_>>()
    };
    let (to, anti) = (from.node_group_affinity.as_ref(), from.node_group_anti_affinity.as_ref());
    NodeGroups {
        required: names(to.map(|to| &to.required)),
        preferred: names(to.map(|to| &to.preferred)),
        anti_required: names(anti.map(|anti| &anti.required)),
        anti_preferred: names(anti.map(|anti| &anti.preferred)),
    }
}

/// `volcano.sh/nodegroup-resource-limits`: a JSON object of resource lists by group.
fn group_limits(metadata: &ObjectMeta, interner: &mut Interner) -> GroupLimits {
    let Some(text) = Marks(metadata).annotation(names::NODEGROUP_RESOURCE_LIMITS) else {
        return GroupLimits::default();
    };
    read_group_limits(text, interner).unwrap_or_else(|invalid| {
        let at = format!("metadata.annotations.{}: ", names::NODEGROUP_RESOURCE_LIMITS);
        GroupLimits::Unreadable(format!("{at}{invalid}").into())
    })
}

fn read_group_limits(text: &str, interner: &mut Interner) -> Result<GroupLimits, Invalid> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| {
        Invalid::new(format!("{error}, expected a JSON object of resources by node group"))
    })?;
    let groups: BTreeMap<String, slim::ResourceList> = decode(&value)?;
    let one = |(group, list): (&String, &slim::ResourceList)| {
        Ok((interner.string(group), requests::resources(list, interner).at(group)?))
    };
    groups.iter().map(one).collect::<Result<_, Invalid>>().map(GroupLimits::Each)
}

/// 0 cannot come here: decoding takes it for absent.
fn weight(weight: i32, faults: &mut Faults) -> u32 {
    u32::try_from(weight).unwrap_or_else(|_| {
        let problem = format!("{weight} is negative, expected 1 or more");
        faults.note(Invalid { field: "spec.weight".to_owned(), problem });
        1
    })
}

/// A queue of which only the metadata could be read.
pub(crate) fn undecodable(identity: &Identity, invalid: &Invalid) -> QueueInfo {
    QueueInfo {
        name: identity.key.name.clone(),
        uid: Arc::clone(&identity.uid),
        weight: 1,
        invalid: Some(invalid.to_string().into()),
        ..QueueInfo::default()
    }
}

fn dequeue(strategy: &v1beta1::DequeueStrategy, faults: &mut Faults) -> Dequeue {
    match strategy {
        v1beta1::DequeueStrategy::Traverse => Dequeue::Traverse,
        v1beta1::DequeueStrategy::Fifo => Dequeue::Fifo,
        // Go clients write an absent value so.
        v1beta1::DequeueStrategy::Other(other) if other.is_empty() => Dequeue::default(),
        v1beta1::DequeueStrategy::Other(other) => {
            let problem = format!("{other:?}: expected fifo or traverse");
            faults.note(Invalid { field: "spec.dequeueStrategy".to_owned(), problem });
            Dequeue::default()
        }
    }
}

fn queue_state(state: &v1beta1::QueueState) -> QueueState {
    match state {
        v1beta1::QueueState::Open => QueueState::Open,
        v1beta1::QueueState::Closed => QueueState::Closed,
        v1beta1::QueueState::Closing => QueueState::Closing,
        v1beta1::QueueState::Unknown | v1beta1::QueueState::Other(_) => QueueState::Unknown,
    }
}
