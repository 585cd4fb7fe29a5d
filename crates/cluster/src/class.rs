//! Classes: tasks that no filter or scorer can tell apart, since they ask for and restrict the same.
use std::sync::Arc;

use phalanx_resource::{Amounts, DimId};

use super::{Carried, Stamp};
use crate::event::Constraints;
use crate::id::{ImageId, ProfileId, PvcId};
use crate::unoffered::Unoffered;

/// What kube-scheduler counts for a pod without a cpu request when it spreads load: 100 millicores.
const DEFAULT_MILLI_CPU: i64 = 100;
/// The memory that a pod without a memory request counts with in scores: 200 MiB.
const DEFAULT_MEMORY: i64 = 200 << 20;

/// Requests and constraints shared by tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Total request of one task, `pods: 1` included.
    pub request: Amounts,
    /// What was asked for, when some of it is of resources that nobody offers.
    pub unoffered: Option<Arc<Unoffered>>,
    /// Constraints.
    pub constraints: Arc<Constraints>,
    /// Requests nothing but its place among the node's pods.
    pub best_effort: bool,
    /// cpu (milli) and memory (bytes) as scores count them.
    pub nonzero: [i64; 2],
    /// What its tasks are to terms; missing as long as there are no terms.
    pub profile: Option<ProfileId>,
    /// Its terms.
    pub carried: Carried,
    /// The images of `constraints`.
    pub images: Box<[ImageId]>,
    /// The claims of `constraints`, in that order.
    pub pvcs: Box<[PvcId]>,
    /// Tasks of this class.
    pub refs: u32,
    /// Distinguishes it from an earlier class in the same slot.
    pub serial: Stamp,
    /// When the first of its tasks waited; 0 if none ever has.
    pub sought: Stamp,
}

/// What makes two tasks be of one class.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClassKey {
    pub(crate) request: Amounts,
    pub(crate) constraints: Arc<Constraints>,
    pub(crate) profile: Option<ProfileId>,
    pub(crate) unoffered: Option<Arc<Unoffered>>,
}

impl Class {
    pub(crate) fn key(&self) -> ClassKey {
        ClassKey {
            request: self.request.clone(),
            constraints: self.constraints.clone(),
            profile: self.profile,
            unoffered: self.unoffered.clone(),
        }
    }

    pub(crate) fn new(
        ClassKey { request, constraints, profile, unoffered }: ClassKey,
        carried: Carried,
        images: Box<[ImageId]>,
        pvcs: Box<[PvcId]>,
        serial: u64,
    ) -> Self {
        let or = |dim, default| match request.get(dim) {
            0 => default,
            amount => amount,
        };
        let nonzero = [or(DimId::CPU, DEFAULT_MILLI_CPU), or(DimId::MEMORY, DEFAULT_MEMORY)];
        let best_effort = request.is_best_effort();
        let (serial, sought) = (Stamp(serial), Stamp(0));
        Self {
            request,
            unoffered,
            constraints,
            best_effort,
            nonzero,
            profile,
            carried,
            images,
            pvcs,
            refs: 0,
            serial,
            sought,
        }
    }
}
