//! Why `minSubGroups` of a `subGroupPolicy` keeps a gang waiting.
use std::sync::Arc;

/// What is wrong with `minSubGroups`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubGroupFault {
    /// The pods that exist form too few sub-groups.
    Missing {
        /// `name` of the entry of `subGroupPolicy`.
        policy: Arc<str>,
        /// Sub-groups with `subGroupSize` pods.
        found: u32,
        /// `minSubGroups`.
        wanted: u32,
        /// `subGroupSize`.
        size: u32,
    },
    /// There are more pods than `minMember`, which is not supported with `minSubGroups`.
    Optional {
        /// Pods that exist and may run.
        found: u32,
        /// `minMember`.
        min_member: u32,
    },
}

impl SubGroupFault {
    pub(super) fn text(&self) -> String {
        match self {
            SubGroupFault::Missing { policy, found, wanted, size } => {
                format!(
                    "subGroupPolicy {policy}: {found} sub-group(s) of {size} pod(s) exist, minSubGroups is {wanted}"
                )
            }
            SubGroupFault::Optional { found, min_member } => format!(
                "minSubGroups is not supported with more pods than minMember ({found} exist, minMember is {min_member}): \
                 set minMember to {found}, or leave minSubGroups out"
            ),
        }
    }
}
