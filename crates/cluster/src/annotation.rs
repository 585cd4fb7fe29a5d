//! Annotations as far as a plugin reads them: kept by key, so that a plugin that needs one more adds a line here.
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::label::KeyValue;

/// PodGroup: how long it may wait before it goes first; a duration.
pub const SLA_WAITING_TIME: &str = "volcano.sh/sla-waiting-time";
/// PodGroup: an older name for [`SLA_WAITING_TIME`].
pub const BARE_SLA_WAITING_TIME: &str = "sla-waiting-time";
/// Node, label: the zone of a node that is lent for a time.
pub const REVOCABLE_ZONE: &str = "volcano.sh/revocable-zone";
/// PodGroup: pods that evictions must leave, an integer or a percentage.
pub const JDB_MIN_AVAILABLE: &str = "volcano.sh/jdb-min-available";
/// PodGroup: pods that evictions may take, an integer or a percentage.
pub const JDB_MAX_UNAVAILABLE: &str = "volcano.sh/jdb-max-unavailable";
/// PodGroup: roles that want to be on one node.
pub const TASK_TOPOLOGY_AFFINITY: &str = "volcano.sh/task-topology-affinity";
/// PodGroup: roles that want to be on different nodes.
pub const TASK_TOPOLOGY_ANTI_AFFINITY: &str = "volcano.sh/task-topology-anti-affinity";
/// PodGroup: the order in which roles are placed.
pub const TASK_TOPOLOGY_TASK_ORDER: &str = "volcano.sh/task-topology-task-order";
/// Node, label: the node group it is part of.
pub const NODEGROUP_NAME: &str = "volcano.sh/nodegroup-name";

/// Pod, also as a label: how long after its start it is not evicted, a duration.
pub const COOLDOWN_TIME: &str = "volcano.sh/cooldown-time";

/// What is kept of a PodGroup's annotations, and of those of a pod without one.
pub const OF_GROUPS: &[&str] = &[
    SLA_WAITING_TIME,
    BARE_SLA_WAITING_TIME,
    JDB_MIN_AVAILABLE,
    JDB_MAX_UNAVAILABLE,
    TASK_TOPOLOGY_AFFINITY,
    TASK_TOPOLOGY_ANTI_AFFINITY,
    TASK_TOPOLOGY_TASK_ORDER,
];

/// What is kept of a pod's.
pub const OF_PODS: &[&str] = &[COOLDOWN_TIME];

/// Queue: its place in the tree of plugin drf, such as `root/eng/prod`.
pub const HIERARCHY: &str = "volcano.sh/hierarchy";
/// Queue: the weights along [`HIERARCHY`], such as `1/2/8`.
pub const HIERARCHY_WEIGHTS: &str = "volcano.sh/hierarchy-weights";

/// What is kept of a queue's.
pub const OF_QUEUES: &[&str] = &[HIERARCHY, HIERARCHY_WEIGHTS];

/// Annotations of one object, sorted by key. Objects without any cost no allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Annotations(Option<Arc<[KeyValue]>>);

impl Annotations {
    /// The value of a key; an empty one is as good as none.
    pub fn get(&self, key: &str) -> Option<&str> {
        let list = self.0.as_deref()?;
        let at = list.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
        Some(&*list[at].1).filter(|value| !value.is_empty())
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// Of several values of a key the last one counts.
impl FromIterator<KeyValue> for Annotations {
    fn from_iter<I: IntoIterator<Item = KeyValue>>(pairs: I) -> Self {
        let map: std::collections::BTreeMap<_, _> = pairs.into_iter().collect();
        if map.is_empty() { Self::default() } else { Self(Some(map.into_iter().collect())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_found_by_key() {
        let pairs = [("b", "1"), ("a", ""), ("c", "3"), ("b", "2")];
        let annotations: Annotations =
            pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        assert_eq!(["a", "b", "c", "d"].map(|key| annotations.get(key)), [None, Some("2"), Some("3"), None]);
        assert!(!annotations.is_empty());
        assert_eq!(Annotations::from_iter([]), Annotations::default());
        assert!(Annotations::default().is_empty());
    }
}
