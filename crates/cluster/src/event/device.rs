//! Devices of nodes, and claims to them (resource.k8s.io).
use std::sync::Arc;

use phalanx_resource::Quantity;
use serde::{Deserialize, Serialize};

use super::{Key, NodeTerm};

/// A DeviceClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceClassInfo {
    /// Name.
    pub name: Arc<str>,
    /// CEL expressions, all of which select a device of the class.
    pub selectors: Vec<Arc<str>>,
}

/// Where the devices of a slice can be used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SliceNodes {
    /// On this node.
    Node(Arc<str>),
    /// On nodes that one of these terms matches.
    Matching(Vec<NodeTerm>),
    /// Everywhere.
    All,
}

/// The value of an attribute of a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DeviceValue {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// Text.
    Text(Arc<str>),
    /// A semantic version.
    Version(Arc<str>),
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceInfo {
    /// Name, which is unique in the pool.
    pub name: Arc<str>,
    /// Attributes, some with a domain before a slash; sorted by name.
    pub attributes: Vec<(Arc<str>, DeviceValue)>,
    /// Capacities, likewise.
    pub capacity: Vec<(Arc<str>, Quantity)>,
    /// Why the device is not allocated.
    pub left_out: Option<LeftOut>,
}

/// An unsupported feature of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LeftOut {
    /// Taints; tolerations of claims are not supported.
    Tainted,
    /// The device consumes counters that it shares with other devices.
    Counted,
    /// Several claims may share the device.
    Several,
    /// The device has binding conditions.
    BoundLate,
    /// The device binds its claim to the node.
    BindsToNode,
    /// The device names nodes of its own instead of those of its slice.
    OwnNodes,
}

impl LeftOut {
    /// The field of the feature.
    pub fn field(self) -> &'static str {
        match self {
            LeftOut::Tainted => "taints",
            LeftOut::Counted => "consumesCounters",
            LeftOut::Several => "allowMultipleAllocations",
            LeftOut::BoundLate => "bindingConditions",
            LeftOut::BindsToNode => "bindsToNode",
            LeftOut::OwnNodes => "perDeviceNodeSelection",
        }
    }
}

/// A ResourceSlice: devices of a pool of a driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceInfo {
    /// Name.
    pub name: Arc<str>,
    /// Driver.
    pub driver: Arc<str>,
    /// Pool.
    pub pool: Arc<str>,
    /// The generation of the pool: only the newest counts.
    pub generation: i64,
    /// The nodes that can use them.
    pub nodes: SliceNodes,
    /// The devices.
    pub devices: Vec<DeviceInfo>,
}

/// A device by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceName {
    /// Driver.
    pub driver: Arc<str>,
    /// Pool.
    pub pool: Arc<str>,
    /// The device in its pool.
    pub device: Arc<str>,
}

/// A device that is allocated to a request of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GivenDevice {
    /// The request.
    pub request: Arc<str>,
    /// The device.
    pub device: DeviceName,
}

/// The allocation of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimAllocation {
    /// The devices, which no other claim can have.
    pub devices: Vec<GivenDevice>,
    /// The nodes that can use them; all nodes without it.
    pub nodes: Option<Vec<NodeTerm>>,
}

/// A request of a claim: a number of devices of a class.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRequest {
    /// Its name in the claim.
    pub name: Arc<str>,
    /// The DeviceClass.
    pub class: Arc<str>,
    /// CEL expressions besides those of the class.
    pub selectors: Vec<Arc<str>>,
    /// The number.
    pub count: u32,
}

/// A ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimInfo {
    /// Its name.
    pub key: Key,
    /// UID.
    pub uid: Arc<str>,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// Requests.
    pub requests: Vec<ClaimRequest>,
    /// A requested feature that is not supported.
    pub unsupported: Option<Arc<str>>,
    /// The allocation.
    pub allocation: Option<ClaimAllocation>,
    /// UIDs of the pods that may use it, `status.reservedFor`.
    pub reserved: Vec<Arc<str>>,
}

/// A claim of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodClaim {
    /// Its name in the pod.
    pub name: Arc<str>,
    /// The ResourceClaim; `None` until it is created from its template.
    pub claim: Option<Arc<str>>,
}
