//! A pod of a Job, as far as the controller reads it.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use phalanx_api::names;

use crate::meta::{annotation, text};

/// Volcano's mark of a pod that it is about to delete.
pub(crate) const OUT_OF_SYNC: &str = "volcano.sh/controller-out-of-sync";

/// A pod of a Job, as far as the controller reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobPod {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its task.
    pub task: String,
    /// Its number within the task.
    pub index: i32,
    /// The version of the Job it was made for.
    pub version: i32,
    /// The retry of the Job it was made in.
    pub retry: i32,
    /// Its partition.
    pub partition: Option<String>,
    /// How far it has come.
    pub phase: PodPhase,
    /// When its deletion was asked for.
    pub deleted_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// When its last container ended.
    pub ended_at: Option<Timestamp>,
    /// Whether all its containers are ready.
    pub ready: bool,
    /// The exit code of its first container.
    pub exit_code: Option<i32>,
    /// Restarts of its containers together.
    pub restarts: i32,
    /// Whether Volcano marked it for deletion.
    pub out_of_sync: bool,
}

/// How far a pod has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodPhase {
    /// It waits, or starts.
    #[default]
    Pending,
    /// It runs.
    Running,
    /// It ended well.
    Succeeded,
    /// It failed.
    Failed,
    /// Nothing is known of it.
    Unknown,
}

impl PodPhase {
    /// The phase as it stands in the object.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }

    fn of(text: &str) -> Self {
        match text {
            "" | "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ => Self::Unknown,
        }
    }
}

impl JobPod {
    /// It has ended.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// It is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.deleted_at.is_some()
    }

    /// It was deleted before it ended: what its containers did after that does not count.
    pub(crate) fn was_evicted(&self) -> bool {
        let Some(deleted) = self.deleted_at else { return false };
        !self.is_finished()
            || (self.phase == PodPhase::Failed && self.ended_at.is_some_and(|ended| ended >= deleted))
    }
}

impl From<&Pod> for JobPod {
    fn from(pod: &Pod) -> Self {
        let metadata = &pod.metadata;
        let number = |key| annotation(metadata, key).and_then(|text| text.parse().ok()).unwrap_or(0);
        let name = text(metadata.name.as_ref()).to_owned();
        let last = name.rsplit('-').next().and_then(|text| text.parse().ok());
        let status = pod.status.clone().unwrap_or_default();
        let own: Vec<_> = status.container_statuses.iter().flatten().collect();
        Self {
            uid: text(metadata.uid.as_ref()).to_owned(),
            task: annotation(metadata, names::TASK_SPEC).unwrap_or_default().to_owned(),
            index: last.unwrap_or(-1),
            name,
            version: number(names::JOB_VERSION),
            retry: number(names::JOB_RETRY_COUNT),
            partition: metadata.labels.as_ref().and_then(|labels| labels.get(names::PARTITION_ID)).cloned(),
            phase: PodPhase::of(text(status.phase.as_ref())),
            deleted_at: deletion(pod),
            created_at: metadata.creation_timestamp.as_ref().map(|time| time.0),
            ended_at: all(&status).filter_map(ended).max(),
            ready: own.iter().all(|status| status.ready),
            exit_code: own
                .first()
                .and_then(|status| status.state.as_ref()?.terminated.as_ref())
                .map(|end| end.exit_code),
            restarts: all(&status).map(|status| status.restart_count).sum(),
            out_of_sync: annotation(metadata, OUT_OF_SYNC).is_some(),
        }
    }
}

/// The deletion timestamp is the time at which the pod will be gone at the latest.
fn deletion(pod: &Pod) -> Option<Timestamp> {
    let gone = pod.metadata.deletion_timestamp.as_ref()?.0;
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
    Some(gone.saturating_sub(SignedDuration::from_secs(grace)).unwrap_or(gone))
}

fn all(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    status.init_container_statuses.iter().chain(&status.container_statuses).flatten()
}

/// The end of this run of a container, or of the one before.
fn ended(status: &ContainerStatus) -> Option<Timestamp> {
    let state = status.state.as_ref().and_then(|state| state.terminated.as_ref());
    let before = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    Some(state.or(before)?.finished_at.as_ref()?.0)
}
