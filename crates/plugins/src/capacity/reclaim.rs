//! Reclaim: which queues are entitled to have tasks of other queues evicted, and which tasks are reclaimable.
use std::borrow::Cow;

use phalanx_resource::{Amounts, Ceilings, DimId};
use rustc_hash::FxHashMap;

use super::{Capacity, requested};
use phalanx_cluster::id::{ClaimId, QueueId, TaskId};
use phalanx_cluster::{Cluster, Status};

/// What queues hold without the victims chosen so far.
struct RemainingHoldings<'a> {
    plugin: &'a Capacity,
    cluster: &'a Cluster,
    victims: FxHashMap<QueueId, Amounts>,
    /// How many victims of a queue hold a claim.
    claim_victims: FxHashMap<(QueueId, ClaimId), u32>,
}

impl<'a> RemainingHoldings<'a> {
    fn new(plugin: &'a Capacity, cluster: &'a Cluster) -> Self {
        Self { plugin, cluster, victims: FxHashMap::default(), claim_victims: FxHashMap::default() }
    }

    fn held(&self, queue: QueueId, dim: DimId) -> i64 {
        let evicted = self.victims.get(&queue).map_or(0, |evicted| evicted.get(dim));
        self.plugin.held(self.cluster, queue, dim) - evicted
    }

    /// Adds a victim of a queue.
    fn evict(&mut self, queue: QueueId, task: TaskId) {
        for id in self.plugin.path(self.cluster, queue) {
            let freed = self.freed(id, task).into_owned();
            self.victims.entry(id).or_default().add(&freed);
            for claim in self.cluster.claims_of(task) {
                *self.claim_victims.entry((id, *claim)).or_default() += 1;
            }
        }
    }

    /// What a queue holds less without a task: its request, and the devices of claims that no remaining task holds.
    fn freed(&self, queue: QueueId, task: TaskId) -> Cow<'_, Amounts> {
        let (request, devices) = (self.cluster.request_of(task), &self.plugin.devices);
        if !devices.is_any() || self.cluster.claims_of(task).is_empty() {
            return Cow::Borrowed(request);
        }
        let mut all = request.clone();
        all.add(&devices.freed(self.cluster, queue, task, &self.claim_victims));
        Cow::Owned(all)
    }

    /// Whether a queue keeps its guarantee of each requested resource without the request.
    fn keeps_guarantee(&self, queue: QueueId, request: &Amounts) -> bool {
        let guarantee = &self.plugin.of(queue).guarantee;
        guarantee.iter().all(|(dim, least)| {
            let need = request.get(dim);
            need <= 0 || self.held(queue, dim) - need >= least
        })
    }

    /// Whether a queue deserves nothing that is requested, or holds more than it deserves of a requested resource.
    fn exceeds_deserved(&self, queue: QueueId, request: &Amounts) -> bool {
        let deserved = &self.plugin.of(queue).deserved;
        let mut deserved = deserved_of(deserved, request).peekable();
        deserved.peek().is_none() || deserved.any(|(dim, deserved)| self.held(queue, dim) > deserved)
    }
}

/// A task that may become a victim.
#[derive(Clone, Copy)]
struct Reclaimee<'a> {
    queue: QueueId,
    task: TaskId,
    /// What its queue holds less without it.
    freed: &'a Amounts,
}

/// Why a task is not reclaimable.
#[derive(Clone, Copy)]
enum KeepReason {
    /// The queue would hold less than its guarantee.
    Guarantee(QueueId),
    /// The queue holds no more than it deserves.
    Deserved(QueueId),
    /// Neither the task's queue nor that of the reclaimer deserves a requested resource.
    NeitherDeserves,
}

/// The request of a task and of the pipelined tasks of its gang; of devices only the task's own.
fn with_gang(cluster: &Cluster, task: TaskId, request: &Amounts) -> Amounts {
    let mut all = request.clone();
    if let Some(job) = cluster.tasks[task].job {
        all.add(&cluster.jobs[job].sums.pipelined);
    }
    all
}

/// The deserved amounts of the requested resources.
fn deserved_of<'a>(deserved: &'a Ceilings, request: &'a Amounts) -> impl Iterator<Item = (DimId, i64)> + 'a {
    deserved.iter().filter(|(dim, deserved)| *deserved > 0 && request.get(*dim) > 0)
}

impl Capacity {
    /// The request of a task and of the pipelined tasks of its gang, with the devices of their claims.
    pub(super) fn gang_request(&self, cluster: &Cluster, queue: QueueId, task: TaskId) -> Amounts {
        let mut all = with_gang(cluster, task, &self.request(cluster, queue, task));
        let others = cluster.tasks[task].job.filter(|_| self.devices.is_any());
        for other in others.iter().flat_map(|job| &cluster.jobs[*job].tasks) {
            if cluster.tasks[*other].status == Status::Pipelined {
                all.max_with(&self.request(cluster, queue, *other));
            }
        }
        all
    }

    /// The ancestor of a queue at a level, 1 for its parent; `None` for `root`.
    fn ancestor(&self, cluster: &Cluster, queue: QueueId, level: usize) -> Option<QueueId> {
        self.path(cluster, queue).nth(level).filter(|ancestor| !cluster.queues[*ancestor].is_root())
    }

    /// The ancestors of a queue within `ancestorReclaimLevel`.
    fn ancestors(&self, cluster: &Cluster, queue: QueueId) -> impl Iterator<Item = QueueId> {
        (1..=self.ancestor_levels).filter_map(move |level| self.ancestor(cluster, queue, level))
    }

    /// The queues, of a task's queue and its ancestors, that hold at most their deserved amounts with the task.
    pub(super) fn entitled(&self, cluster: &Cluster, queue: QueueId, task: TaskId) -> Vec<QueueId> {
        let is_entitled = |id: &QueueId| {
            let excess = self.excess_with(cluster, *id, task);
            !excess.is_empty() && excess.iter().all(|(_, over)| *over <= 0)
        };
        std::iter::once(queue).chain(self.ancestors(cluster, queue)).filter(is_entitled).collect()
    }

    /// By how much a queue with a task exceeds its deserved amounts (below 0 where it does not), of the resources that
    /// the task's gang requests and the queue deserves. Empty when `pods` is the only such resource.
    fn excess_with(&self, cluster: &Cluster, id: QueueId, task: TaskId) -> Vec<(DimId, i64)> {
        let deserved = &self.of(id).deserved;
        let request = self.request(cluster, id, task);
        let of_gang = with_gang(cluster, task, &request);
        let counts = |dim: DimId| of_gang.get(dim) > 0 && deserved.get(dim).is_some_and(|amount| amount > 0);
        let any = deserved.iter().any(|(dim, _)| dim != DimId::PODS && counts(dim));
        let counted = deserved.iter().filter(move |(dim, _)| any && counts(*dim));
        counted
            .map(|(dim, deserved)| (dim, self.held(cluster, id, dim) + request.get(dim) - deserved))
            .collect()
    }

    /// By how much a queue with a task exceeds its deserved amounts; a queue that deserves nothing exceeds by all that
    /// it holds. Empty when the task and the pipelined tasks of its gang request nothing.
    pub(super) fn beyond_deserved(
        &self,
        cluster: &Cluster,
        queue: QueueId,
        task: TaskId,
    ) -> Vec<(DimId, i64)> {
        let mut over = self.excess_with(cluster, queue, task);
        over.retain(|(_, over)| *over > 0);
        if !over.is_empty() {
            return over;
        }
        let request = self.request(cluster, queue, task);
        let of_gang = with_gang(cluster, task, &request);
        requested(&of_gang).map(|(dim, _)| (dim, self.held(cluster, queue, dim) + request.get(dim))).collect()
    }

    /// The tasks that may be evicted for a reclaimer, each judged without the victims before it. With `request`, what
    /// the reclaimer's gang requests, a victim has to free a requested resource.
    pub(super) fn victims(
        &self,
        cluster: &Cluster,
        reclaimer: TaskId,
        request: Option<&Amounts>,
        reclaimees: &[TaskId],
    ) -> Vec<TaskId> {
        let Some(to) = cluster.queue_of(reclaimer) else { return Vec::new() };
        let entitled = self.entitled(cluster, to, reclaimer);
        let mut remaining = RemainingHoldings::new(self, cluster);
        let mut take = |task: TaskId| {
            let Some(job) = cluster.tasks[task].job else { return false };
            let queue = cluster.jobs[job].queue;
            let freed = remaining.freed(queue, task);
            let helps = |request: &Amounts| requested(request).any(|(dim, _)| freed.get(dim) > 0);
            let reclaimee = Reclaimee { queue, task, freed: &freed };
            let is_victim = cluster.queues[queue].object.exists
                && self.is_outside(cluster, &entitled, queue)
                && request.is_none_or(helps)
                && self.check_reclaimable(&remaining, to, request, reclaimee).is_ok();
            if is_victim {
                remaining.evict(queue, task);
            }
            is_victim
        };
        reclaimees.iter().copied().filter(|task| take(*task)).collect()
    }

    /// Whether a queue is outside at least one of the entitled queues: inside, its tasks count as the entitled queue's
    /// own.
    fn is_outside(&self, cluster: &Cluster, entitled: &[QueueId], queue: QueueId) -> bool {
        let holds = |id: &QueueId| self.path(cluster, queue).any(|ancestor| ancestor == *id);
        entitled.is_empty() || !entitled.iter().all(holds)
    }

    /// Why a task is not reclaimable for a reclaimer.
    pub(super) fn why_kept(&self, cluster: &Cluster, reclaimer: TaskId, task: TaskId) -> String {
        let [Some(to), Some(from)] = [reclaimer, task].map(|task| cluster.queue_of(task)) else {
            return String::new();
        };
        let remaining = RemainingHoldings::new(self, cluster);
        let name = |queue: QueueId| &cluster.queues[queue].name;
        if !cluster.queues[from].object.exists {
            return format!("in queue {}, which does not exist", name(from));
        }
        if !self.is_outside(cluster, &self.entitled(cluster, to, reclaimer), from) {
            return format!("in queue {}, below the queue that is to have more", name(from));
        }
        let request = self.gang_request(cluster, to, reclaimer);
        let reclaimee = Reclaimee { queue: from, task, freed: &remaining.freed(from, task) };
        match self.check_reclaimable(&remaining, to, Some(&request), reclaimee) {
            Err(KeepReason::Guarantee(of)) => {
                format!("in queue {}, which would have less than its guarantee", name(of))
            }
            Err(KeepReason::Deserved(of)) => {
                format!("in queue {}, which has no more than it deserves of what they hold", name(of))
            }
            Err(KeepReason::NeitherDeserves) => {
                format!("in queue {}, which like its own deserves nothing of what is asked for", name(from))
            }
            Ok(()) => format!("in queue {} that hold nothing it asks for", name(from)),
        }
    }

    fn check_reclaimable(
        &self,
        remaining: &RemainingHoldings<'_>,
        to: QueueId,
        request: Option<&Amounts>,
        reclaimee: Reclaimee<'_>,
    ) -> Result<(), KeepReason> {
        let (cluster, Reclaimee { queue, task, freed }) = (remaining.cluster, reclaimee);
        // The queue and those ancestors that the reclaimer's queue is not in lose the task.
        let (top, _) = cluster.queues_part(queue, to);
        let mut losing = self.path(cluster, queue).scan(false, |past_top, id| {
            let loses = !*past_top;
            *past_top |= id == top;
            loses.then_some(id)
        });
        if let Some(id) = losing.find(|id| !remaining.keeps_guarantee(*id, &remaining.freed(*id, task))) {
            return Err(KeepReason::Guarantee(id));
        }
        let other_ancestors = (1..=self.ancestor_levels).filter_map(|level| {
            let ancestor = self.ancestor(cluster, queue, level);
            ancestor.filter(|ancestor| self.path(cluster, to).nth(level) != Some(*ancestor))
        });
        let mut queues = std::iter::once(queue).chain(other_ancestors);
        if let Some(id) = queues.find(|id| !remaining.exceeds_deserved(*id, freed)) {
            return Err(KeepReason::Deserved(id));
        }
        if self.neither_deserves(cluster, to, request, reclaimee) {
            return Err(KeepReason::NeitherDeserves);
        }
        Ok(())
    }

    /// Whether two queues have a common ancestor within `ancestorReclaimLevel`, and neither deserves a requested
    /// resource.
    fn neither_deserves(
        &self,
        cluster: &Cluster,
        to: QueueId,
        request: Option<&Amounts>,
        reclaimee: Reclaimee<'_>,
    ) -> bool {
        let Reclaimee { queue, freed, .. } = reclaimee;
        let deserves = |id, request| deserved_of(&self.of(id).deserved, request).next().is_some();
        self.ancestors(cluster, queue)
            .any(|ancestor| self.ancestors(cluster, to).any(|other| other == ancestor))
            && !deserves(queue, freed)
            && request.is_some_and(|request| !deserves(to, request))
    }
}
