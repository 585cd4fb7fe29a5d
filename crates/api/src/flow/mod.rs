//! `flow.volcano.sh/v1alpha1`: [`JobFlow`] and [`JobTemplate`].

mod jobflow;
pub(crate) mod rules;
mod status;

pub use jobflow::{
    Flow, FlowDependsOn, HttpGet, JobFlow, JobFlowSpec, JobTemplate, JobTemplateStatus, Patch, Probe,
    RetainPolicy, TaskStatus, TcpSocket,
};
pub use status::{FlowCondition, FlowJobStatus, FlowPhase, FlowState, JobFlowStatus, JobRunningHistory};

/// The API group of both kinds.
pub const GROUP: &str = "flow.volcano.sh";
/// The only version of both kinds.
pub const VERSION: &str = "v1alpha1";
/// Label and annotation of a Job: the JobFlow, `NAMESPACE.NAME`, that it was made for.
pub const CREATED_BY_JOB_FLOW: &str = "volcano.sh/createdByJobFlow";
/// Label and annotation of a Job: the JobTemplate, `NAMESPACE.NAME`, that it was made from.
pub const CREATED_BY_JOB_TEMPLATE: &str = "volcano.sh/createdByJobTemplate";
