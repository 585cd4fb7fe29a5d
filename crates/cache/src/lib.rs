//! Kubernetes objects to Cluster events.
//!
//! Three steps, each usable alone: [`slim`] types decode only what scheduling needs; [`pod`],
//! [`node`], [`pod_group`], [`queue`] and [`priority_class`] reduce an object to what the Cluster is
//! told; [`Fold`] turns the stream of a watch into [`Event`](phalanx_cluster::event::Event)s, among
//! them the deletions that a relist shows only by absence, and drops what changes nothing.
//!
//! Pure: no IO, no client, no clock.

mod answer;
mod constraints;
mod decode;
mod device;
mod fold;
mod group;
mod guarded;
mod hyper_node;
mod intern;
mod invalid;
mod keys;
mod kind;
mod kubernetes_group;
mod names;
mod namespace;
mod node;
mod pdb;
mod pod;
mod pod_rules;
pub mod protobuf;
mod qualified;
mod queue;
mod quota;
mod remarks;
mod requests;
pub mod slim;
mod slips;
mod usage;
mod volumes;

pub use answer::{Change, Page};
pub use decode::decode;
pub use device::{claim_template, device_class, resource_claim, resource_slice};
pub use fold::{Fold, Folded, Rejected, WatchEvent};
pub use group::{pod_group, sound_pod_group};
pub use guarded::{Guarded, Unread, decode_object};
pub use hyper_node::{faults_of_hyper_node, hyper_node};
pub use intern::Interner;
pub use invalid::Invalid;
pub use kind::{Identity, Kind, priority_class};
pub use kubernetes_group::{PHASE, POD_GROUP_SCHEDULED, counts_text, kubernetes_pod_group};
pub use names::Names;
pub use namespace::namespace;
pub use node::node;
pub use pdb::pdb;
pub use pod::pod;
pub use qualified::{check_key, check_value, is_name};
pub use queue::{queue, sound_queue};
pub use quota::quota;
pub use remarks::{
    of_budget as remarks_of_budget, of_claim as remarks_of_claim, of_device_class as remarks_of_device_class,
    of_group as remarks_of_group, of_namespace as remarks_of_namespace, of_owner as remarks_of_owner,
    of_pod as remarks_of_pod, of_queue as remarks_of_queue,
};
pub use usage::node_usage;
pub use volumes::{attachment, csi_driver, csi_node, pvc, storage_capacity, storage_class, volume};
