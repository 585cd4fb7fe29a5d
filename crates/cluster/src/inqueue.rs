//! Inqueue requests: what admitted jobs may still use of their minResources, summed by queue, over all, and by
//! namespace for ResourceQuotas.
//!
//! The sums hold the share of each job that did not change since they were refreshed. A job that changed is stale: its
//! share is taken out at once, is added when somebody reads, and is put back by the next refresh, at the begin of a
//! cycle.
use std::sync::Arc;

use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

use super::{Cluster, Job, Status};
use crate::event::{Phase, QueueGate};
use crate::id::{JobId, QueueId, TaskId};
use crate::marks::Dirty;

/// What one job adds to the sums.
#[derive(Clone, Debug, PartialEq)]
struct InqueueShare {
    queue: QueueId,
    /// What the job holds of its minResources, and will still use of them.
    claimed: Amounts,
    /// What the job will still use of its minResources: Volcano's `inqueue`.
    missing: Amounts,
    /// What the job's pods will add to the use of their namespace.
    quota: Option<(Arc<str>, Amounts)>,
    /// The job waits for admission.
    asks: bool,
}

/// The sums, and the jobs whose share they lack.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct InqueueRequests {
    sums: InqueueSums,
    shares: FxHashMap<JobId, InqueueShare>,
    stale: Dirty<JobId>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct InqueueSums {
    /// Without zeros, as `by_namespace`.
    by_queue: FxHashMap<QueueId, Amounts>,
    by_namespace: FxHashMap<Arc<str>, Amounts>,
    missing: Amounts,
    /// How many jobs wait for admission by their minResources.
    asking: usize,
}

impl InqueueSums {
    fn add(&mut self, share: &InqueueShare) {
        if !share.claimed.is_zero() {
            self.by_queue.entry(share.queue).or_default().add(&share.claimed);
        }
        if let Some((namespace, demand)) = &share.quota {
            self.by_namespace.entry(namespace.clone()).or_default().add(demand);
        }
        self.missing.add(&share.missing);
        self.asking += usize::from(share.asks);
    }

    fn sub(&mut self, share: &InqueueShare) {
        subtract(&mut self.by_queue, &share.queue, &share.claimed);
        if let Some((namespace, demand)) = &share.quota {
            subtract(&mut self.by_namespace, namespace, demand);
        }
        self.missing.sub(&share.missing);
        self.asking -= usize::from(share.asks);
    }
}

fn subtract<K: Eq + std::hash::Hash>(sums: &mut FxHashMap<K, Amounts>, key: &K, amounts: &Amounts) {
    if let Some(sum) = sums.get_mut(key) {
        sum.sub(amounts);
        if sum.is_zero() {
            sums.remove(key);
        }
    }
}

impl InqueueRequests {
    /// Takes the share of a job that changes out of the sums.
    #[inline]
    pub(super) fn mark(&mut self, job: JobId) {
        if self.stale.mark(job) {
            self.withdraw(job);
        }
    }

    fn withdraw(&mut self, job: JobId) {
        if let Some(share) = self.shares.remove(&job) {
            self.sums.sub(&share);
        }
    }

    fn add(&mut self, job: JobId, share: InqueueShare) {
        self.sums.add(&share);
        self.shares.insert(job, share);
    }
}

impl Job {
    /// Whether a job may still claim all of its minResources: one that is Inqueue, or Running with `minMember` pods
    /// allocated. One that runs with less is coming to its end, as a Spark job without its driver.
    fn may_claim(&self) -> bool {
        use Status::{Allocated, Binding, Bound, Running};
        let allocated =
            || [Allocated, Binding, Bound, Running].iter().map(|status| self.counts.of(*status)).sum::<u32>();
        match self.phase {
            Phase::Inqueue => true,
            Phase::Running => allocated() >= self.min_member,
            Phase::Pending | Phase::Unknown | Phase::Completed => false,
        }
    }

    /// Whether its phase and its pods matter for its share; `quotas`: there are ResourceQuotas.
    #[inline]
    pub(super) fn has_share(&self, quotas: bool) -> bool {
        self.minimum.resources.is_some() || quotas
    }

    /// The part of its minResources that its allocated pods request.
    pub fn held_of_min_resources(&self) -> Amounts {
        let mut held = self.minimum.resources.clone().unwrap_or_default();
        held.min_with(&self.sums.allocated);
        held
    }

    /// The part of its minResources that it does not hold.
    pub fn missing(&self) -> Amounts {
        let mut missing = self.minimum.resources.clone().unwrap_or_default();
        missing.sub_clamped(&self.sums.allocated);
        missing
    }
}

impl Cluster {
    /// What a job will still use of its minResources once it is admitted: what its pods do not hold yet, without what
    /// pods behind scheduling gates request, so that those do not keep other jobs from being admitted.
    ///
    /// Source: Volcano's `DeductSchGatedResources`.
    pub fn inqueue_request(&self, id: JobId) -> Amounts {
        let job = &self.jobs[id];
        let mut request = job.missing();
        if job.counts.of(Status::Pending) > 0 {
            job.tasks.iter().filter(|task| self.is_gated(**task)).for_each(|task| {
                request.sub_clamped(self.request_of(*task));
            });
        }
        request
    }

    /// Whether a pod waits behind a scheduling gate other than that of its queue.
    fn is_gated(&self, task: TaskId) -> bool {
        let task = &self.tasks[task];
        task.gated && task.written.queue_gate == QueueGate::None
    }

    /// What jobs hold and may still use of their minResources, by queue. A queue may come more than once.
    pub fn claimed_by_queue(&self) -> impl Iterator<Item = (QueueId, Amounts)> {
        let known = self.indexes.inqueue.sums.by_queue.iter().map(|(queue, sum)| (*queue, sum.clone()));
        known.chain(self.stale_shares().map(|it| (it.queue, it.claimed)))
    }

    /// What all admitted jobs may still use of their minResources.
    pub fn inqueue_requests(&self) -> Amounts {
        let mut sum = self.indexes.inqueue.sums.missing.clone();
        self.stale_shares().for_each(|share| sum.add(&share.missing));
        sum
    }

    /// What the pods of admitted jobs will add to the use of their namespaces, where there are ResourceQuotas at all.
    pub fn inqueue_by_namespace(&self) -> FxHashMap<Arc<str>, Amounts> {
        let mut sums = self.indexes.inqueue.sums.by_namespace.clone();
        for (namespace, demand) in self.stale_shares().filter_map(|share| share.quota) {
            sums.entry(namespace).or_default().add(&demand);
        }
        sums
    }

    /// Whether any job waits for admission by its minResources.
    pub fn any_asks(&self) -> bool {
        self.indexes.inqueue.sums.asking > 0 || self.stale_shares().any(|share| share.asks)
    }

    /// Puts the shares of jobs that changed back into the sums.
    pub fn refresh_inqueue(&mut self) {
        for id in self.indexes.inqueue.stale.take() {
            if let Some(share) = self.share(id) {
                self.indexes.inqueue.add(id, share);
            }
        }
    }

    /// Every share is another one: whether there are ResourceQuotas at all has changed.
    pub(super) fn refresh_all_inqueue(&mut self) {
        self.jobs.ids().for_each(|id| self.indexes.inqueue.mark(id));
    }

    /// Sets the phase that the scheduler has a job in.
    pub fn set_phase(&mut self, job: JobId, phase: Phase) {
        if std::mem::replace(&mut self.jobs[job].phase, phase) != phase {
            if self.jobs[job].has_share(!self.resource_quotas.is_empty()) {
                self.indexes.inqueue.mark(job);
            }
            self.mark_pending(job);
        }
    }

    fn stale_shares(&self) -> impl Iterator<Item = InqueueShare> {
        self.indexes.inqueue.stale.iter().filter_map(|id| self.share(id))
    }

    /// The share of a job that exists; none for a job that claims nothing and asks for nothing.
    fn share(&self, id: JobId) -> Option<InqueueShare> {
        let job = self.jobs.get(id)?;
        let quota = self.quota_share(job);
        if job.minimum.resources.is_none() && quota.is_none() {
            return None;
        }
        let missing = if job.may_claim() { self.inqueue_request(id) } else { Amounts::new() };
        let mut claimed = job.held_of_min_resources();
        claimed.add(&missing);
        let asks = job.phase == Phase::Pending && job.object.exists && job.minimum.resources.is_some();
        Some(InqueueShare { queue: job.queue, claimed, missing, quota, asks })
    }

    fn quota_share(&self, job: &Job) -> Option<(Arc<str>, Amounts)> {
        let admitted = !self.resource_quotas.is_empty() && job.object.exists && job.phase == Phase::Inqueue;
        let demand = admitted.then(|| self.quota_demand(job)).filter(|demand| !demand.is_zero())?;
        Some((job.key.namespace.clone(), demand))
    }

    /// What is wrong with the sums, against those of the jobs that are not stale.
    pub(super) fn check_inqueue(&self, note: &mut crate::check::Note<'_>) {
        let mut rebuilt = InqueueRequests::default();
        for id in self.jobs.ids().filter(|id| !self.indexes.inqueue.stale.has(*id)) {
            if let Some(share) = self.share(id) {
                rebuilt.add(id, share);
            }
        }
        for (id, share) in &self.indexes.inqueue.shares {
            note(rebuilt.shares.get(id) == Some(share), format!("inqueue request of {id:?}"));
        }
        note(
            rebuilt.shares.len() == self.indexes.inqueue.shares.len(),
            "jobs with inqueue requests".to_owned(),
        );
        note(rebuilt.sums == self.indexes.inqueue.sums, "sums of inqueue requests".to_owned());
    }
}
