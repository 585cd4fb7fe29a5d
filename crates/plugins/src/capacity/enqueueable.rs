//! Whether a job may be admitted: `inqueue + minResources ≤ realCapability` in its queue and in each ancestor.
use phalanx_resource::{Amounts, DimId};

use super::{Capacity, NAME};
use phalanx_cluster::Cluster;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::id::{Id, JobId, QueueId};
use phalanx_framework::plugin::EnqueueVote;

impl Capacity {
    pub(super) fn check_enqueueable(&self, cluster: &Cluster, id: JobId) -> EnqueueVote {
        let job = &cluster.jobs[id];
        let Some(min_resources) = &job.minimum.resources else { return EnqueueVote::Permit };
        let held = job.held_of_min_resources();
        let devices = if self.devices.is_any() { self.devices.missing(cluster, id) } else { Amounts::new() };
        for queue in self.path(cluster, job.queue) {
            let attributes = self.of(queue);
            let missing = |(dim, limit)| {
                let inqueue = attributes.inqueue.get(dim) - held.get(dim);
                let missing = min_resources.get(dim).saturating_add(inqueue).saturating_sub(limit);
                (min_resources.get(dim) > 0 && missing > 0).then_some((dim, missing))
            };
            let missing: Vec<_> = attributes.enqueue_limits.iter().filter_map(missing).collect();
            let missing = [missing, self.missing_devices(cluster, queue, &devices)].concat();
            if !missing.is_empty() {
                let limit = self.limit(cluster, queue, &attributes.enqueue_limits, &missing);
                let queue = cluster.queues[queue].name.clone();
                return EnqueueVote::Reject(Refusal::InqueueLimit { plugin: NAME, queue, limit, missing });
            }
        }
        EnqueueVote::Permit
    }

    /// Which of the devices that a job needs exceed what its queue may admit.
    fn missing_devices(&self, cluster: &Cluster, queue: QueueId, needed: &Amounts) -> Vec<(DimId, i64)> {
        let limits = &self.of(queue).enqueue_limits;
        let missing = |(dim, need): (DimId, i64)| {
            let inqueue = self.devices.inqueue(cluster, queue, dim);
            let missing = inqueue.saturating_add(need).saturating_sub(limits.get(dim)?);
            (need > 0 && missing > 0).then_some((dim, missing))
        };
        needed.iter().filter_map(missing).collect()
    }

    /// Counts amounts of an admitted job in its queue and in each ancestor.
    pub(super) fn add_inqueue(&mut self, cluster: &Cluster, queue: QueueId, amounts: &Amounts) {
        for id in self.path(cluster, queue) {
            self.attributes[id.index()].inqueue.add(amounts);
        }
    }
}
