//! The records of gangs and pods that the checkers keep during a run.
use std::collections::BTreeSet;

use crate::story::Micros;

/// What was seen of a gang.
#[derive(Clone, Debug, Default)]
pub(super) struct GangRecord {
    /// Whether so many pods as the gang needs have had nodes at the same time, or a pod was lost. A gang whose last pod
    /// is gone starts anew.
    pub(super) started: bool,
    /// How many pods with nodes the gang had when it was looked at.
    pub(super) placed: usize,
    /// Since when the gang has fewer pods with nodes than it needs, but some, and has not started.
    pub(super) below: Option<Micros>,
    /// The pods that were lost and that the controllers had not deleted.
    pub(super) losses: Vec<String>,
    /// When a pod was lost last; 0 if none was.
    pub(super) last_loss: Micros,
    /// When a pod was bound last.
    pub(super) last_bound: Option<Micros>,
}

/// What was seen of a pod.
#[derive(Clone, Debug, Default)]
pub(super) struct PodRecord {
    /// When a bind was decided last.
    pub(super) bind_decided: Option<Micros>,
    /// When an eviction was sent, or a deletion carried out, last.
    pub(super) eviction_sent: Option<Micros>,
    /// Whether the controllers deleted the pod.
    pub(super) discarded: bool,
    /// The gangs for which a scheduler has decided to evict the pod.
    pub(super) preemptors: BTreeSet<usize>,
}
