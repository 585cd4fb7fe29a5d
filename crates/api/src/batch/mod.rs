//! `batch.volcano.sh/v1alpha1`: [`Job`] and [`CronJob`].

mod cronjob;
mod job;
pub(crate) mod rules;
mod status;
mod task;

pub use cronjob::{ConcurrencyPolicy, CronJob, CronJobSpec, CronJobStatus, JobTemplateSpec};
pub use job::{DEFAULT_MAX_RETRY, Job, JobSpec, LifecyclePolicy, VolumeSpec};
pub use status::{JobCondition, JobPhase, JobState, JobStatus, TaskState};
pub use task::{DependsOn, Iteration, NumaPolicy, PartitionPolicySpec, TaskSpec};

/// The API group of both kinds.
pub const GROUP: &str = "batch.volcano.sh";
/// The only version of both kinds.
pub const VERSION: &str = "v1alpha1";
/// Group and version as they stand in `apiVersion`.
pub const API_VERSION: &str = "batch.volcano.sh/v1alpha1";
/// The job plugins.
pub const PLUGINS: [&str; 8] = ["env", "hcclrank", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow"];
