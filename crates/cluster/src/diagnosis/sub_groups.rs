//! Why `minSubGroups` of a `subGroupPolicy` keeps a gang waiting.
use std::sync::Arc;

/// The pods of an entry of `subGroupPolicy` form too few sub-groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubGroupFault {
    /// `name` of the entry.
    pub policy: Arc<str>,
    /// Sub-groups with `subGroupSize` pods.
    pub found: u32,
    /// `minSubGroups`.
    pub wanted: u32,
    /// `subGroupSize`.
    pub size: u32,
}

impl SubGroupFault {
    pub(super) fn text(&self) -> String {
        let Self { policy, found, wanted, size } = self;
        format!(
            "subGroupPolicy {policy}: {found} sub-group(s) of {size} pod(s) exist, minSubGroups is {wanted}"
        )
    }
}
