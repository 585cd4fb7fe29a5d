//! Why `minSubGroups` of a `subGroupPolicy` keeps a gang waiting.
use std::fmt;
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
    /// Why no pod is in a sub-group of the entry; `None` where some are.
    pub empty: Option<EmptyPolicy>,
}

/// Why no pod of a job is in a sub-group of an entry of `subGroupPolicy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmptyPolicy {
    /// `labelSelector` selects none of so many pods.
    SelectsNone(u32),
    /// All pods that it selects belong to entries before it.
    Taken,
    /// No pod that `labelSelector` selects has a value of each of these `matchLabelKeys`.
    NoValues(Vec<Arc<str>>),
}

impl fmt::Display for EmptyPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SelectsNone(pods) => write!(f, "its labelSelector selects none of the {pods} pod(s)"),
            Self::Taken => write!(f, "all pods that it selects belong to entries before it"),
            Self::NoValues(keys) => write!(
                f,
                "no pod that its labelSelector selects has the label(s) of its matchLabelKeys, {}",
                keys.join(", ")
            ),
        }
    }
}

impl SubGroupFault {
    pub(super) fn text(&self) -> String {
        let Self { policy, found, wanted, size, empty } = self;
        let why = empty.as_ref().map(|empty| format!(": {empty}")).unwrap_or_default();
        format!(
            "subGroupPolicy {policy}: {found} sub-group(s) of {size} pod(s) exist, minSubGroups is {wanted}{why}"
        )
    }
}
