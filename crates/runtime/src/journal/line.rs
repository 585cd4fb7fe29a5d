//! The lines of a journal: JSON objects with one field, which names the kind of the line.
use std::sync::Arc;

use phalanx_cluster::event::{Event, Time};
use phalanx_cluster::{ClusterOptions, GroupWait};
use phalanx_core::BackoffTimes;
use phalanx_framework::extender::RecordedResponse;
use phalanx_framework::placement::Sampling;
use serde::{Deserialize, Serialize};

use super::stopwatch::Reading;

/// A line. Decisions are written as data of the core, and read as JSON: only the writer has to know all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Line<D> {
    /// A scheduler begins.
    Start(Box<Start>),
    /// Another scheduler process leads, or this one does. Written with inputs.
    Standby(bool),
    /// scheduler.conf from the next cycle on. Written with inputs.
    Conf(Arc<str>),
    /// Changes, in the order in which the Cluster took them in. Written with inputs.
    Events(Vec<Event>),
    /// A cycle. Without inputs, only cycles that decided something are written.
    Cycle(Cycle<D>),
    /// So many lines are missing here: decisions came faster than they could be written.
    Dropped(u64),
}

/// What a scheduler begins with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Start {
    /// The version of the program: another one may decide differently.
    pub version: String,
    /// Inputs are written too, so that the cycles can be replayed.
    pub inputs: bool,
    /// `--seed`.
    pub seed: u64,
    /// `--default-queue`.
    pub default_queue: Arc<str>,
    /// Whether pods without a PodGroup wait for one.
    pub group_wait: GroupWait,
    /// `--percentage-nodes-to-find` and its like.
    pub sampling: Option<Sampling>,
    /// `--pod-initial-backoff-seconds` and its like.
    #[serde(default)]
    pub backoff: BackoffTimes,
    /// scheduler.conf. Without inputs it is not written.
    pub conf: Option<Arc<str>>,
}

impl Start {
    /// The settings of the Cluster.
    pub fn cluster(&self) -> ClusterOptions {
        ClusterOptions { default_queue: self.default_queue.clone(), group_wait: self.group_wait }
    }
}

/// A cycle and what it decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cycle<D> {
    /// Its number, from 1.
    pub number: u64,
    /// When it began.
    pub time: String,
    /// The same in milliseconds since 1970.
    pub now: Time,
    /// What it decided, in order.
    pub decisions: Vec<D>,
    /// What the stopwatch of searches showed. Written with inputs.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub stopwatch: Vec<Reading>,
    /// What extenders answered. Written with inputs.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub extenders: Vec<RecordedResponse>,
}
