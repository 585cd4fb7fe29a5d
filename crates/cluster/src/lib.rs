//! What the scheduler knows: nodes, tasks, jobs and queues under dense ids, with sums kept by every change.
//!
//! Events are folded in between cycles (`Cluster::apply`). During a cycle only a Statement changes what is known,
//! through `Cluster::place`, the one function that moves a task, so that room, counts and sums cannot drift apart.
//!
//! Nothing here reads files, sockets, clocks or the environment.
pub mod annotation;
mod apply;
mod changed;
mod check;
mod class;
mod cluster;
mod contents;
mod cooling;
mod count;
mod devices;
pub mod diagnosis;
pub mod duration;
pub mod event;
mod fingerprint;
mod fit;
mod gates;
mod grouping;
mod groups;
mod hyper_nodes;
pub mod id;
mod images;
mod inqueue;
mod job;
pub mod label;
mod log;
mod marks;
pub mod matching;
mod multi_map;
mod node;
mod objects;
mod pdb;
mod pdbs;
mod placeholders;
pub mod prepare;
mod priorities;
mod queue;
mod request_key;
mod resource_quota;
mod running_jobs;
pub mod search_budget;
mod sub_groups;
mod task;
mod terms;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tree;
mod unoffered;
mod usage;
mod volumes;
mod written;

pub use apply::rendered;
pub use changed::{Changed, JobChange};
pub use class::Class;
pub use cluster::{Before, Cluster, ClusterOptions, NodeSums};
pub use contents::Contents;
pub use devices::{DeviceNeed, DevicesOf, Local, Shared, Wanted, is_part};
pub use grouping::GroupWait;
pub use hyper_nodes::{
    HyperNode, HyperNodeFault, HyperNodeId, HyperNodes, NodeSet, PATTERN_BYTES_MAX, within,
};
pub use job::{GangMinimum, GroupObject, Job, JobKind, MAX_ROLES, Role};
pub use resource_quota::{NamespaceQuota, QuotasByName};
pub use unoffered::Unoffered;

pub use count::Count;
pub use fingerprint::Fingerprint;
pub use fit::Fit;
pub use node::{Node, NodeVolumes, Stamp, Taken};
pub use pdb::{Budgets, Pdb};
pub use pdbs::Pdbs;
pub use queue::{Queue, QueueLinks, QueueObject, Rendered};
pub use request_key::RequestKey;
pub use running_jobs::EqualPriority;
pub use sub_groups::SubGroup;
pub use task::{Counts, Hold, PodDetails, PodWritten, Refused, Status, Task};
pub use terms::{Carried, Held, SpreadTerm, Tally, TermChange, Terms};
pub use tree::{Part, ROOT, Sums};
pub use usage::{Newcomers, Usage};
pub use volumes::{ClaimDemand, Got, Problem, Pvc, Volumes, Want, reaches, solve};
pub use written::Written;

pub(crate) use class::ClassKey;
pub(crate) use log::Log;
pub(crate) use volumes::Chosen;
