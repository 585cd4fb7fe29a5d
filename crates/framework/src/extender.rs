//! Extenders: policies in another process. The core asks with ids of the Cluster; the crate `runtime` translates and
//! sends.
//!
//! Responses are inputs like events: a cycle is a function of the Cluster, the configuration, the seed, the time and
//! the responses. [`ExtenderRecorder`] keeps responses, and [`ExtenderReplay`] gives them again in the order of the
//! requests.
use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use phalanx_cluster::Cluster;
use phalanx_cluster::id::{JobId, NodeId, QueueId, TaskId};
use serde::{Deserialize, Serialize};

/// The server of an extender.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// The address, without the verb: a request goes to `url/verb`.
    pub url: Arc<str>,
    /// How long a response may take, in milliseconds.
    pub timeout_ms: i64,
    /// The server knows nodes and pods, so names and UIDs are sent instead of objects (kube-scheduler's
    /// `nodeCacheCapable`).
    pub knows_objects: bool,
}

/// A request. The first kinds are those of Volcano's extender plugin, those with `Kube` are those of kube-scheduler's
/// HTTP extender.
#[derive(Clone, Debug, PartialEq)]
pub enum ExtenderRequest {
    /// A session begins; the whole session is sent. Answered with [`ExtenderResponse::Nothing`].
    SessionOpen,
    /// A session ends. Answered with [`ExtenderResponse::Nothing`].
    SessionClose,
    /// Which nodes are feasible for a task; sent as one request for each node. Answered with
    /// [`ExtenderResponse::Nodes`].
    Predicate(TaskId, Vec<NodeId>),
    /// The scores of nodes for a task. Answered with [`ExtenderResponse::Scores`].
    Prioritize(TaskId, Vec<NodeId>),
    /// Which tasks may be evicted for a task of the same queue. Answered with [`ExtenderResponse::Victims`].
    Preemptable(TaskId, Vec<TaskId>),
    /// Which tasks may be evicted for a task of another queue. Answered with [`ExtenderResponse::Victims`].
    Reclaimable(TaskId, Vec<TaskId>),
    /// Whether a queue has all that it may have. Answered with [`ExtenderResponse::Flag`].
    QueueOverused(QueueId),
    /// Whether a job may become Inqueue. Answered with [`ExtenderResponse::Vote`].
    JobEnqueueable(JobId),
    /// A job became Inqueue. Answered with [`ExtenderResponse::Nothing`].
    JobEnqueued(JobId),
    /// Whether a job may start. Answered with [`ExtenderResponse::Flag`].
    JobReady(JobId),
    /// A task was given a node. Answered with [`ExtenderResponse::Nothing`].
    Allocate(TaskId),
    /// A task lost its node. Answered with [`ExtenderResponse::Nothing`].
    Deallocate(TaskId),
    /// Which nodes are feasible for a task, in one request. Answered with [`ExtenderResponse::Nodes`].
    KubeFilter(TaskId, Vec<NodeId>),
    /// The scores of nodes for a task, 0 to 10. Answered with [`ExtenderResponse::Scores`].
    KubePrioritize(TaskId, Vec<NodeId>),
    /// Which tasks may be evicted for a task. Answered with [`ExtenderResponse::Victims`].
    KubePreempt(TaskId, Vec<TaskId>),
}

/// A response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExtenderResponse {
    /// No opinion, or nothing to answer.
    Nothing,
    /// Nodes that are not feasible, and nodes for which the request failed, each with the reason.
    Nodes {
        /// Nodes that are not feasible.
        refused: Vec<(NodeId, Arc<str>)>,
        /// Nodes for which the request failed.
        failed: Vec<(NodeId, Arc<str>)>,
    },
    /// Scores of nodes; a node that is missing scores 0.
    Scores(#[serde(with = "bits")] Vec<(NodeId, f64)>),
    /// Tasks that may be evicted.
    Victims(Vec<TaskId>),
    /// Above 0 for yes, 0 for no opinion, below 0 for no.
    Vote(i64),
    /// Yes or no.
    Flag(bool),
}

/// Sends requests to extenders. A request that fails has the failure, as one line of text, for a response.
pub trait Extender: Debug + Send + Sync {
    /// Sends a request under a verb, and waits for the response.
    fn ask(
        &self,
        endpoint: &Endpoint,
        verb: &str,
        cluster: &Cluster,
        ask: &ExtenderRequest,
    ) -> Result<ExtenderResponse, Arc<str>>;
}

/// Sends nothing: no opinion on anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoExtender;

impl Extender for NoExtender {
    fn ask(
        &self,
        _: &Endpoint,
        _: &str,
        _: &Cluster,
        _: &ExtenderRequest,
    ) -> Result<ExtenderResponse, Arc<str>> {
        Ok(ExtenderResponse::Nothing)
    }
}

/// Scores as the bits of their numbers: text could round them.
mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::NodeId;

    pub(super) fn serialize<S: Serializer>(scores: &[(NodeId, f64)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(scores.iter().map(|(node, score)| (node, score.to_bits())))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(NodeId, f64)>, D::Error> {
        let scores = Vec::<(NodeId, u64)>::deserialize(from)?;
        Ok(scores.into_iter().map(|(node, bits)| (node, f64::from_bits(bits))).collect())
    }
}

/// A response with the verb of its request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedResponse {
    /// The verb.
    pub verb: Arc<str>,
    /// The response, or why the request failed.
    pub answer: Result<ExtenderResponse, Arc<str>>,
}

/// Sends requests through another extender, and keeps the responses.
#[derive(Debug)]
pub struct ExtenderRecorder {
    inner: Arc<dyn Extender>,
    log: Mutex<Vec<RecordedResponse>>,
}

impl ExtenderRecorder {
    /// Records what `inner` responds.
    pub fn new(inner: Arc<dyn Extender>) -> Self {
        Self { inner, log: Mutex::default() }
    }

    /// Takes out the responses so far.
    pub fn take(&self) -> Vec<RecordedResponse> {
        std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Extender for ExtenderRecorder {
    fn ask(
        &self,
        endpoint: &Endpoint,
        verb: &str,
        cluster: &Cluster,
        ask: &ExtenderRequest,
    ) -> Result<ExtenderResponse, Arc<str>> {
        let answer = self.inner.ask(endpoint, verb, cluster, ask);
        let recorded = RecordedResponse { verb: verb.into(), answer: answer.clone() };
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(recorded);
        answer
    }
}

/// Gives recorded responses again. A request that does not come next in the record has an error for a response.
#[derive(Debug)]
pub struct ExtenderReplay(Mutex<VecDeque<RecordedResponse>>);

impl ExtenderReplay {
    /// Replays these responses.
    pub fn new(answers: Vec<RecordedResponse>) -> Self {
        Self(Mutex::new(answers.into()))
    }
}

impl Extender for ExtenderReplay {
    fn ask(
        &self,
        _: &Endpoint,
        verb: &str,
        _: &Cluster,
        _: &ExtenderRequest,
    ) -> Result<ExtenderResponse, Arc<str>> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match answers.pop_front() {
            Some(recorded) if *recorded.verb == *verb => recorded.answer,
            Some(recorded) => {
                Err(format!("the record has an answer to {}, not to {verb}", recorded.verb).into())
            }
            None => Err(format!("the record has no answer to {verb}").into()),
        }
    }
}
