//! Devices of nodes, and claims to them (resource.k8s.io).
use std::sync::Arc;

use phalanx_resource::Quantity;

use super::{Key, NodeTerm};

/// A DeviceClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeviceClassInfo {
    /// Name.
    pub name: Arc<str>,
    /// CEL expressions, all of which select a device of the class.
    pub selectors: Vec<Arc<str>>,
}

/// Where the devices of a slice can be used.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SliceNodes {
    /// On this node.
    Node(Arc<str>),
    /// On nodes that one of these terms matches.
    Matching(Vec<NodeTerm>),
    /// Everywhere.
    All,
}

/// The value of an attribute of a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeviceInfo {
    /// Name, of which there is one in a pool.
    pub name: Arc<str>,
    /// Attributes, some with a domain before a slash; sorted by name.
    pub attributes: Vec<(Arc<str>, DeviceValue)>,
    /// Capacities, likewise.
    pub capacity: Vec<(Arc<str>, Quantity)>,
    /// Why nobody is given it.
    pub left_out: Option<LeftOut>,
}

/// What of a device is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeftOut {
    /// Taints that keep claims away, whatever these tolerate.
    Tainted,
    /// It is a part of something, of which others are parts too.
    Counted,
    /// Several claims may have it.
    Several,
    /// It is bound when conditions are met.
    BoundLate,
    /// A claim that has it is bound to the node.
    BindsToNode,
    /// Its nodes are its own, and not those of its slice.
    OwnNodes,
}

impl LeftOut {
    /// The field that says so.
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SliceInfo {
    /// Name.
    pub name: Arc<str>,
    /// Driver.
    pub driver: Arc<str>,
    /// Pool.
    pub pool: Arc<str>,
    /// Of several generations of a pool the last one counts.
    pub generation: i64,
    /// Where they can be used.
    pub nodes: SliceNodes,
    /// The devices.
    pub devices: Vec<DeviceInfo>,
}

/// A device by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceName {
    /// Driver.
    pub driver: Arc<str>,
    /// Pool.
    pub pool: Arc<str>,
    /// The device in its pool.
    pub device: Arc<str>,
}

/// A device that was given to a request of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GivenDevice {
    /// The request.
    pub request: Arc<str>,
    /// The device.
    pub device: DeviceName,
}

/// What a claim was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClaimAllocation {
    /// Devices that nobody else can have.
    pub devices: Vec<GivenDevice>,
    /// Where they can be used; everywhere without it.
    pub nodes: Option<Vec<NodeTerm>>,
}

/// A request of a claim: so many devices of a class.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimRequest {
    /// Its name in the claim.
    pub name: Arc<str>,
    /// The DeviceClass.
    pub class: Arc<str>,
    /// CEL expressions besides those of the class.
    pub selectors: Vec<Arc<str>>,
    /// How many.
    pub count: u32,
}

/// A ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClaimInfo {
    /// Its name.
    pub key: Key,
    /// UID.
    pub uid: Arc<str>,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// What it asks for.
    pub requests: Vec<ClaimRequest>,
    /// A feature it asks for that is not supported.
    pub unsupported: Option<Arc<str>>,
    /// What it was given.
    pub allocation: Option<ClaimAllocation>,
    /// UIDs of the pods that may use it, `status.reservedFor`.
    pub reserved: Vec<Arc<str>>,
}

/// A claim of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodClaim {
    /// Its name in the pod.
    pub name: Arc<str>,
    /// The ResourceClaim; `None` until it is made from its template.
    pub claim: Option<Arc<str>>,
}
