//! What admitted jobs were promised. The sums over jobs that sleep are kept, so that plugins that open have to look at
//! those that are awake only.
use std::sync::Arc;

use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

use super::{Job, Status, World};
use crate::event::{Phase, QueueGate};
use crate::id::{JobId, QueueId, TaskId};

/// What a job was promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Promise {
    queue: QueueId,
    promised: Amounts,
    /// What an admitted job will still use of its minResources: Volcano's `inqueue`.
    missing: Amounts,
}

/// Sums of promises.
#[derive(Clone, Debug, Default)]
pub(super) struct Promises {
    by_queue: FxHashMap<QueueId, Amounts>,
    missing: Amounts,
    /// The jobs that sleep, with what the sums contain of each: the job itself may have changed when it wakes.
    of_jobs: FxHashMap<JobId, Promise>,
    quotas: FxHashMap<JobId, (Arc<str>, Amounts)>,
    by_namespace: FxHashMap<Arc<str>, Amounts>,
}

impl Promises {
    pub(super) fn add(&mut self, job: JobId, promise: Promise) {
        self.by_queue.entry(promise.queue).or_default().add(&promise.promised);
        self.missing.add(&promise.missing);
        self.of_jobs.insert(job, promise);
    }

    pub(super) fn remove(&mut self, job: JobId) {
        if let Some(promise) = self.of_jobs.remove(&job) {
            self.by_queue.entry(promise.queue).or_default().sub(&promise.promised);
            self.missing.sub(&promise.missing);
        }
    }

    /// Keeps what the pods of a job that is admitted will add to the use of its namespace.
    pub(super) fn keep_quota(&mut self, job: JobId, namespace: &Arc<str>, demand: Amounts) {
        self.by_namespace.entry(namespace.clone()).or_default().add(&demand);
        self.quotas.insert(job, (namespace.clone(), demand));
    }

    pub(super) fn forget_quota(&mut self, job: JobId) {
        if let Some((namespace, demand)) = self.quotas.remove(&job)
            && let Some(sum) = self.by_namespace.get_mut(&namespace)
        {
            sum.sub(&demand);
            if sum.is_zero() {
                self.by_namespace.remove(&namespace);
            }
        }
    }

    /// Whether they are these sums; what is 0 need not be there.
    pub(super) fn are(&self, other: &Self) -> bool {
        let within = |one: &Self, other: &Self| {
            let same = |(id, sum): (&QueueId, &Amounts)| {
                other.by_queue.get(id).map_or_else(|| sum.is_zero(), |it| it == sum)
            };
            one.by_queue.iter().all(same)
        };
        within(self, other)
            && within(other, self)
            && self.missing == other.missing
            && self.of_jobs == other.of_jobs
            && self.by_namespace == other.by_namespace
    }
}

impl Job {
    /// Whether a job may still claim all of its minResources: one that is Inqueue, or Running with `minMember` pods
    /// allocated. One that runs with less is coming to its end, as a Spark job without its driver.
    fn is_whole(&self) -> bool {
        use Status::{Allocated, Binding, Bound, Running};
        let allocated =
            || [Allocated, Binding, Bound, Running].iter().map(|status| self.counts.of(*status)).sum::<u32>();
        match self.phase {
            Phase::Inqueue => true,
            Phase::Running => allocated() >= self.min_member,
            Phase::Pending | Phase::Unknown | Phase::Completed => false,
        }
    }

    /// The part of its minResources that its allocated pods request.
    pub fn held_of_min_resources(&self) -> Amounts {
        let mut held = self.min_resources.clone().unwrap_or_default();
        held.min_with(&self.allocated);
        held
    }

    /// The part of its minResources that it does not hold.
    pub fn missing(&self) -> Amounts {
        let mut missing = self.min_resources.clone().unwrap_or_default();
        missing.sub_clamped(&self.allocated);
        missing
    }
}

impl World {
    /// What a job was promised. Most jobs name no minResources.
    pub(super) fn promise(&self, id: JobId) -> Option<Promise> {
        let job = &self.jobs[id];
        job.min_resources.as_ref()?;
        let missing = if job.is_whole() { self.inqueue_request(id) } else { Amounts::new() };
        let mut promised = job.held_of_min_resources();
        promised.add(&missing);
        Some(Promise { queue: job.queue, promised, missing })
    }

    /// What a job will still use of its minResources once it is admitted: what its pods do not hold yet, without what pods
    /// behind scheduling gates request, so that those do not keep other jobs from being admitted.
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
        task.gated && task.queue_gate == QueueGate::None
    }

    /// What the jobs of queues were promised. A queue may come more than once.
    pub fn promises(&self) -> impl Iterator<Item = (QueueId, Amounts)> {
        let asleep = self.pools.promises().by_queue.iter().map(|(queue, sum)| (*queue, sum.clone()));
        asleep
            .filter(|(_, sum)| !sum.is_zero())
            .chain(self.awake_promises().map(|it| (it.queue, it.promised)))
    }

    /// What all whole jobs were promised and do not hold yet.
    pub fn promises_to_keep(&self) -> Amounts {
        let mut sum = self.pools.promises().missing.clone();
        self.awake_promises().for_each(|promise| sum.add(&promise.missing));
        sum
    }

    /// What the pods of admitted jobs will add to the use of their namespaces, where there are ResourceQuotas at all.
    pub fn quota_promises(&self) -> FxHashMap<Arc<str>, Amounts> {
        let mut sums = self.pools.promises().by_namespace.clone();
        for id in self.awake_jobs() {
            if let Some(demand) = self.quota_promise(id) {
                sums.entry(self.jobs[id].key.namespace.clone()).or_default().add(&demand);
            }
        }
        sums
    }

    /// The same of one job.
    pub(super) fn quota_promise(&self, id: JobId) -> Option<Amounts> {
        let job = &self.jobs[id];
        let admitted = !self.allowances.is_empty() && job.exists && job.phase == Phase::Inqueue;
        admitted.then(|| self.quota_demand(job)).filter(|demand| !demand.is_zero())
    }

    fn awake_promises(&self) -> impl Iterator<Item = Promise> {
        self.awake_jobs().into_iter().filter_map(|id| self.promise(id))
    }
}
