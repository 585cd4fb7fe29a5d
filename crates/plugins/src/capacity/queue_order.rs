//! The order of queues, by priority and share, and the order in which queues lose victims.
use std::cmp::Ordering;

use super::Capacity;
use crate::shared::share::Share;
use phalanx_cluster::Cluster;
use phalanx_cluster::id::QueueId;

impl Capacity {
    pub(super) fn compare_queues(&self, cluster: &Cluster, a: QueueId, b: QueueId) -> Ordering {
        let priority = |id| cluster.queues[id].priority;
        let by_share = || {
            if self.tree { self.compare_in_tree(cluster, a, b) } else { self.compare_shares(cluster, a, b) }
        };
        priority(b).cmp(&priority(a)).then_with(by_share)
    }

    /// Of two queues in a tree, leaves go before others, then the queues are compared where their paths to `root` part.
    fn compare_in_tree(&self, cluster: &Cluster, a: QueueId, b: QueueId) -> Ordering {
        let [a_is_leaf, b_is_leaf] = [a, b].map(|id| cluster.queues[id].tree.children == 0);
        if !a_is_leaf || !b_is_leaf {
            return b_is_leaf.cmp(&a_is_leaf).then_with(|| self.compare_shares(cluster, a, b));
        }
        let (a, b) = cluster.queues_part(a, b);
        self.compare_shares(cluster, a, b).then_with(|| {
            let [a, b] = [a, b].map(|id| &cluster.queues[id]);
            a.created.cmp(&b.created).then_with(|| a.name.cmp(&b.name))
        })
    }

    /// By dominant share; of equal shares, queues that deserve something go first.
    fn compare_shares(&self, cluster: &Cluster, a: QueueId, b: QueueId) -> Ordering {
        let key = |id| (self.share(cluster, id), self.deserves_nothing(id));
        key(a).cmp(&key(b))
    }

    fn deserves_nothing(&self, id: QueueId) -> bool {
        self.of(id).deserved.iter().all(|(_, deserved)| deserved == 0)
    }

    /// The dominant share of a queue: the largest `held / deserved`; 1 for a queue that deserves nothing.
    pub(super) fn share(&self, cluster: &Cluster, id: QueueId) -> Share {
        if self.deserves_nothing(id) {
            return Share::new(1, 1);
        }
        let deserved = self.of(id).deserved.iter();
        Share::largest(deserved.map(|(dim, deserved)| Share::new(self.held(cluster, id, dim), deserved)))
    }
}
