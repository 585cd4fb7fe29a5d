//! `scheduling.volcano.sh/v1beta1`: [`PodGroup`] and [`Queue`].
//!
//! Decoding is lenient where a stored object may be older or newer than this code, because one
//! object that does not decode must not stop a watch: `spec` and `status` may be missing or null,
//! so may every field in them; an unknown enum value is kept as `Other`; a quantity may be text or
//! a number; unknown fields are ignored. Missing fields take the defaults of the schema, so that a
//! manifest read from a file means the same as one that went through the API server.
//!
//! Not to be confused with Kubernetes' own `scheduling.k8s.io` PodGroup.

mod podgroup;
mod queue;
pub(crate) mod rules;
pub(crate) mod schema;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

pub use podgroup::{
    NetworkTopologyMode, NetworkTopologySpec, PodGroup, PodGroupCondition, PodGroupConditionType,
    PodGroupPhase, PodGroupSpec, PodGroupStatus, SubGroupPolicySpec, is_made_for_pods, reasons,
};
pub use queue::{
    Affinity, Cluster, DequeueStrategy, Guarantee, NodeGroupAffinity, Queue, QueueSpec, QueueState,
    QueueStatus, Reservation,
};

/// The API group of both kinds.
pub const GROUP: &str = "scheduling.volcano.sh";
/// The only version of both kinds.
pub const VERSION: &str = "v1beta1";
/// Group and version as they stand in `apiVersion`.
pub const API_VERSION: &str = "scheduling.volcano.sh/v1beta1";

/// The queue of a PodGroup that names none; the scheduler creates it.
pub const DEFAULT_QUEUE: &str = "default";
/// The ancestor of all queues; the scheduler creates it. It has no parent and cannot be closed.
pub const ROOT_QUEUE: &str = "root";

/// Amounts by resource name, as in `resources.requests` of a container.
pub type ResourceList = BTreeMap<String, Quantity>;

/// The CEL rules on a whole Queue.
pub(crate) fn queue_rules() -> serde_json::Value {
    rules::not_own_parent()
}
