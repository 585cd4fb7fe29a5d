//! Extenders: policies outside the process, asked over a wire the core knows nothing of.
//!
//! The core asks with ids of the World, the shell translates and sends. Answers are inputs like events: a cycle is a
//! function of the World, the configuration, the seed, the time and the answers. [`ExtenderRecorder`] keeps them, and [`ExtenderReplay`]
//! gives them again, in the order in which they were asked for.
use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use phalanx_cluster::World;
use phalanx_cluster::id::{JobId, NodeId, QueueId, TaskId};

/// One extender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Verbs are appended to it.
    pub url: Arc<str>,
    /// How long an answer may take, in milliseconds.
    pub timeout_ms: i64,
    /// It knows nodes and pods, so their names and UIDs are enough (kube-scheduler's `nodeCacheCapable`).
    pub knows_objects: bool,
}

/// What is asked. The first kinds are Volcano's, those with `Kube` are kube-scheduler's.
#[derive(Clone, Debug, PartialEq)]
pub enum ExtenderRequest {
    /// A session begins: all of it. Nothing is answered.
    SessionOpen,
    /// A session ends. Nothing is answered.
    SessionClose,
    /// Which of these nodes will do for a task; one request each. Answered with [`ExtenderResponse::Nodes`].
    Predicate(TaskId, Vec<NodeId>),
    /// How good these nodes are for a task. Answered with [`ExtenderResponse::Scores`].
    Prioritize(TaskId, Vec<NodeId>),
    /// Which of these may be evicted for a task of their queue. Answered with [`ExtenderResponse::Victims`].
    Preemptable(TaskId, Vec<TaskId>),
    /// Which of these may be evicted for a task of another queue. Answered with [`ExtenderResponse::Victims`].
    Reclaimable(TaskId, Vec<TaskId>),
    /// Whether a queue has all it may have. Answered with [`ExtenderResponse::Flag`].
    QueueOverused(QueueId),
    /// Whether a job may be admitted. Answered with [`ExtenderResponse::Vote`].
    JobEnqueueable(JobId),
    /// A job was admitted. Nothing is answered.
    JobEnqueued(JobId),
    /// Whether a job may start. Answered with [`ExtenderResponse::Flag`].
    JobReady(JobId),
    /// A task was given a node. Nothing is answered.
    Allocate(TaskId),
    /// A task lost its node. Nothing is answered.
    Deallocate(TaskId),
    /// Which of these nodes will do for a task, in one request. Answered with [`ExtenderResponse::Nodes`].
    KubeFilter(TaskId, Vec<NodeId>),
    /// How good these nodes are for a task, 0 to 10. Answered with [`ExtenderResponse::Scores`].
    KubePrioritize(TaskId, Vec<NodeId>),
    /// Which of these may be evicted for a task. Answered with [`ExtenderResponse::Victims`].
    KubePreempt(TaskId, Vec<TaskId>),
}

/// What was answered.
#[derive(Clone, Debug, PartialEq)]
pub enum ExtenderResponse {
    /// No opinion, or nothing to say.
    Nothing,
    /// Nodes that will not do, and nodes about which the question failed, each with the reason.
    Nodes {
        /// Will not do.
        refused: Vec<(NodeId, Arc<str>)>,
        /// Could not be asked about.
        failed: Vec<(NodeId, Arc<str>)>,
    },
    /// Scores of nodes; 0 for those that are missing.
    Scores(Vec<(NodeId, f64)>),
    /// Tasks that may be evicted.
    Victims(Vec<TaskId>),
    /// Above 0 for yes, 0 for no opinion, below 0 for no.
    Vote(i64),
    /// Yes or no.
    Flag(bool),
}

/// Asks extenders. A question that fails has an error for an answer.
pub trait Extender: Debug + Send + Sync {
    /// Asks under a verb, and waits for the answer.
    fn ask(
        &self,
        endpoint: &Endpoint,
        verb: &str,
        world: &World,
        ask: &ExtenderRequest,
    ) -> Result<ExtenderResponse, Arc<str>>;
}

/// Asks nobody: no opinion on anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoExtender;

impl Extender for NoExtender {
    fn ask(
        &self,
        _: &Endpoint,
        _: &str,
        _: &World,
        _: &ExtenderRequest,
    ) -> Result<ExtenderResponse, Arc<str>> {
        Ok(ExtenderResponse::Nothing)
    }
}

/// An answer with its verb.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedResponse {
    /// The verb.
    pub verb: Arc<str>,
    /// The answer.
    pub answer: Result<ExtenderResponse, Arc<str>>,
}

/// Passes questions on, and keeps the answers.
#[derive(Debug)]
pub struct ExtenderRecorder {
    inner: Arc<dyn Extender>,
    log: Mutex<Vec<RecordedResponse>>,
}

impl ExtenderRecorder {
    /// In front of another.
    pub fn new(inner: Arc<dyn Extender>) -> Self {
        Self { inner, log: Mutex::default() }
    }

    /// Takes the answers so far out.
    pub fn take(&self) -> Vec<RecordedResponse> {
        std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Extender for ExtenderRecorder {
    fn ask(
        &self,
        endpoint: &Endpoint,
        verb: &str,
        world: &World,
        ask: &ExtenderRequest,
    ) -> Result<ExtenderResponse, Arc<str>> {
        let answer = self.inner.ask(endpoint, verb, world, ask);
        let recorded = RecordedResponse { verb: verb.into(), answer: answer.clone() };
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(recorded);
        answer
    }
}

/// Gives recorded answers again. A question that was not asked then has an error for an answer.
#[derive(Debug)]
pub struct ExtenderReplay(Mutex<VecDeque<RecordedResponse>>);

impl ExtenderReplay {
    /// Of these answers.
    pub fn new(answers: Vec<RecordedResponse>) -> Self {
        Self(Mutex::new(answers.into()))
    }
}

impl Extender for ExtenderReplay {
    fn ask(
        &self,
        _: &Endpoint,
        verb: &str,
        _: &World,
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
