//! What has to be written before a pod is bound: claims to devices and to volumes.
use std::sync::Arc;

use serde::Serialize;

use crate::event::{ClaimAllocation, Key, PodRef};

/// Something to be written before a pod is bound. To write it again changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Prepare {
    /// The status of a ResourceClaim.
    Claim(Arc<ClaimWrite>),
    /// A PersistentVolumeClaim is given its volume, and waited for until it is bound.
    Volume(Arc<VolumeBinding>),
}

/// What becomes of a ResourceClaim when a pod of it is bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimWrite {
    /// The claim.
    pub key: Key,
    /// Its UID.
    pub uid: Arc<str>,
    /// What it is given; `None` when it has its devices already.
    pub allocation: Option<Arc<ClaimAllocation>>,
    /// The pod for which it is reserved.
    pub pod: Arc<PodRef>,
}

/// A PersistentVolumeClaim that gets its volume because its pod is bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeBinding {
    /// The PersistentVolumeClaim.
    pub claim: Key,
    /// Its UID.
    pub uid: Arc<str>,
    /// The PersistentVolume it gets; without one, it is made for the node.
    pub volume: Option<Arc<str>>,
    /// The CSIStorageCapacity it is made of, where the driver tells of its room.
    pub made_of: Option<Key>,
}
