//! For whom tasks of other queues may be evicted, and whose.
use std::borrow::Cow;

use phalanx_resource::{Amounts, DimId};
use rustc_hash::FxHashMap;

use super::{Capacity, asked};
use phalanx_cluster::id::{ClaimId, QueueId, TaskId};
use phalanx_cluster::{Status, World};

/// What queues hold, counted down as victims are picked.
struct RemainingHoldings<'a> {
    plugin: &'a Capacity,
    world: &'a World,
    taken: FxHashMap<QueueId, Amounts>,
    /// Tasks of a queue that are picked and hold a claim.
    gone: FxHashMap<(QueueId, ClaimId), u32>,
}

impl RemainingHoldings<'_> {
    fn held(&self, queue: QueueId, dim: DimId) -> i64 {
        let taken = self.taken.get(&queue).map_or(0, |taken| taken.get(dim));
        self.plugin.held(self.world, queue, dim) - taken
    }

    fn take(&mut self, queue: QueueId, task: TaskId) {
        for id in self.plugin.path(self.world, queue) {
            let back = self.back(id, task).into_owned();
            self.taken.entry(id).or_default().add(&back);
            for claim in self.world.claims_of(task) {
                *self.gone.entry((id, *claim)).or_default() += 1;
            }
        }
    }

    /// What a queue has back without a task.
    fn back(&self, queue: QueueId, task: TaskId) -> Cow<'_, Amounts> {
        let (request, devices) = (self.world.request_of(task), &self.plugin.devices);
        if !devices.is_any() || self.world.claims_of(task).is_empty() {
            return Cow::Borrowed(request);
        }
        let mut all = request.clone();
        all.add(&devices.given_back(self.world, queue, task, &self.gone));
        Cow::Owned(all)
    }

    /// Without the request, a queue keeps of what is requested at least its guarantee.
    fn keeps_guarantee(&self, queue: QueueId, request: &Amounts) -> bool {
        let guarantee = &self.plugin.of(queue).guarantee;
        guarantee.iter().all(|(dim, least)| {
            let need = request.get(dim);
            need <= 0 || self.held(queue, dim) - need >= least
        })
    }

    /// A queue deserves nothing of what is requested, or has more of some of it than it deserves.
    fn can_give(&self, queue: QueueId, request: &Amounts) -> bool {
        let deserved = &self.plugin.of(queue).deserved;
        let mut relevant = relevant(deserved, request).peekable();
        relevant.peek().is_none() || relevant.any(|(dim, most)| self.held(queue, dim) > most)
    }
}

/// Why a task stays where it is.
#[derive(Clone, Copy)]
enum KeepReason {
    /// This queue would have less than its guarantee.
    Guarantee(QueueId),
    /// This queue has no more than it deserves.
    Deserved(QueueId),
    /// Neither its queue nor that of the other deserves anything of what is asked for.
    Alike,
}

/// What a task asks for, with what was promised to the others of its gang, but for their devices.
fn with_gang(world: &World, task: TaskId, request: &Amounts) -> Amounts {
    let mut asks = request.clone();
    if let Some(job) = world.tasks[task].job {
        asks.add(&world.jobs[job].pipelined);
    }
    asks
}

/// What is deserved of the things that are requested.
fn relevant<'a>(
    deserved: &'a phalanx_resource::Ceilings,
    request: &'a Amounts,
) -> impl Iterator<Item = (DimId, i64)> + 'a {
    deserved.iter().filter(|(dim, most)| *most > 0 && request.get(*dim) > 0)
}

impl Capacity {
    /// What a task and the others of its gang that have a place, or are promised one, ask for.
    pub(super) fn gang_request(&self, world: &World, queue: QueueId, task: TaskId) -> Amounts {
        let mut asks = with_gang(world, task, &self.request(world, queue, task));
        let others = world.tasks[task].job.filter(|_| self.devices.is_any());
        for other in others.iter().flat_map(|job| &world.jobs[*job].tasks) {
            if world.tasks[*other].status == Status::Pipelined {
                asks.max_with(&self.request(world, queue, *other));
            }
        }
        asks
    }

    /// The queues, from a task's own up to those that have a say, that have at most what they deserve with it.
    pub(super) fn entitled(&self, world: &World, queue: QueueId, task: TaskId) -> Vec<QueueId> {
        let above = (1..=self.levels).filter_map(|level| self.above(world, queue, level));
        let is_entitled = |id: &QueueId| {
            let named = self.named(world, *id, task);
            !named.is_empty() && named.iter().all(|(_, over)| *over <= 0)
        };
        std::iter::once(queue).chain(above).filter(is_entitled).collect()
    }

    /// What a task and the others of its gang ask for and a queue deserves any of, with how much more than it deserves the
    /// queue has with the task. Nothing where that would be no more than places for pods.
    fn named(&self, world: &World, id: QueueId, task: TaskId) -> Vec<(DimId, i64)> {
        let deserved = &self.of(id).deserved;
        let request = self.request(world, id, task);
        let asks = with_gang(world, task, &request);
        let named = |dim: DimId| asks.get(dim) > 0 && deserved.get(dim).is_some_and(|most| most > 0);
        let any = deserved.iter().any(|(dim, _)| dim != DimId::PODS && named(dim));
        let named = deserved.iter().filter(move |(dim, _)| any && named(*dim));
        named.map(|(dim, most)| (dim, self.held(world, id, dim) + request.get(dim) - most)).collect()
    }

    /// What keeps a queue from reclaiming for a task. Nothing where the task and the others of its gang request nothing.
    pub(super) fn beyond_deserved(&self, world: &World, queue: QueueId, task: TaskId) -> Vec<(DimId, i64)> {
        let mut over = self.named(world, queue, task);
        over.retain(|(_, over)| *over > 0);
        if !over.is_empty() {
            return over;
        }
        let request = self.request(world, queue, task);
        let asks = with_gang(world, task, &request);
        asked(&asks).map(|(dim, _)| (dim, self.held(world, queue, dim) + request.get(dim))).collect()
    }

    /// Which of these tasks may be evicted for a task, each on top of those before it. Without the other's request, any is
    /// as good as another.
    pub(super) fn victims(
        &self,
        world: &World,
        by: TaskId,
        wanted: Option<&Amounts>,
        of: &[TaskId],
    ) -> Vec<TaskId> {
        let Some(queue) = world.queue_of(by) else { return Vec::new() };
        let entitled = self.entitled(world, queue, by);
        let by = queue;
        let mut left = RemainingHoldings {
            plugin: self,
            world,
            taken: FxHashMap::default(),
            gone: FxHashMap::default(),
        };
        let mut take = |task: TaskId| {
            let Some(job) = world.tasks[task].job else { return false };
            let queue = world.jobs[job].queue;
            let request = left.back(queue, task);
            let of_use = |wanted: &Amounts| asked(wanted).any(|(dim, _)| request.get(dim) > 0);
            let taken = world.queues[queue].exists
                && self.is_outside(world, &entitled, queue)
                && wanted.is_none_or(of_use)
                && self.may_give(&left, by, wanted, (queue, task), &request).is_ok();
            if taken {
                left.take(queue, task);
            }
            taken
        };
        of.iter().copied().filter(|task| take(*task)).collect()
    }

    /// Whether a queue is not below all of those that are entitled: what is taken from it would be theirs already.
    fn is_outside(&self, world: &World, entitled: &[QueueId], queue: QueueId) -> bool {
        let holds = |id: &QueueId| self.path(world, queue).any(|above| above == *id);
        entitled.is_empty() || !entitled.iter().all(holds)
    }

    /// Why a task of another queue is not evicted for a task.
    pub(super) fn why_kept(&self, world: &World, by: TaskId, task: TaskId) -> String {
        let [Some(to), Some(from)] = [by, task].map(|task| world.queue_of(task)) else {
            return String::new();
        };
        let left = RemainingHoldings {
            plugin: self,
            world,
            taken: FxHashMap::default(),
            gone: FxHashMap::default(),
        };
        let name = |queue: QueueId| &world.queues[queue].name;
        if !world.queues[from].exists {
            return format!("in queue {}, which does not exist", name(from));
        }
        if !self.is_outside(world, &self.entitled(world, to, by), from) {
            return format!("in queue {}, below the queue that is to have more", name(from));
        }
        let wanted = self.gang_request(world, to, by);
        match self.may_give(&left, to, Some(&wanted), (from, task), &left.back(from, task)) {
            Err(KeepReason::Guarantee(of)) => {
                format!("in queue {}, which would have less than its guarantee", name(of))
            }
            Err(KeepReason::Deserved(of)) => {
                format!("in queue {}, which has no more than it deserves of what they hold", name(of))
            }
            Err(KeepReason::Alike) => {
                format!("in queue {}, which like its own deserves nothing of what is asked for", name(from))
            }
            Ok(()) => format!("in queue {} that hold nothing it asks for", name(from)),
        }
    }

    fn may_give(
        &self,
        left: &RemainingHoldings<'_>,
        by: QueueId,
        wanted: Option<&Amounts>,
        (queue, task): (QueueId, TaskId),
        request: &Amounts,
    ) -> Result<(), KeepReason> {
        let world = left.world;
        let (top, _) = world.queues_part(queue, by);
        let mut losing = self.path(world, queue).scan(false, |past, id| {
            let here = !*past;
            *past |= id == top;
            here.then_some(id)
        });
        if let Some(id) = losing.find(|id| !left.keeps_guarantee(*id, &left.back(*id, task))) {
            return Err(KeepReason::Guarantee(id));
        }
        let apart = (1..=self.levels).filter_map(|level| {
            let above = self.above(world, queue, level);
            above.filter(|above| self.path(world, by).nth(level) != Some(*above))
        });
        if let Some(id) = std::iter::once(queue).chain(apart).find(|id| !left.can_give(*id, request)) {
            return Err(KeepReason::Deserved(id));
        }
        if self.spared(world, by, wanted, queue, request) { Err(KeepReason::Alike) } else { Ok(()) }
    }

    /// Two queues near each other, neither of which deserves anything of what is asked for.
    fn spared(
        &self,
        world: &World,
        by: QueueId,
        wanted: Option<&Amounts>,
        queue: QueueId,
        request: &Amounts,
    ) -> bool {
        let deserves = |id, request| relevant(&self.of(id).deserved, request).next().is_some();
        let near = |id: QueueId| (1..=self.levels).filter_map(move |level| self.above(world, id, level));
        near(queue).any(|above| near(by).any(|other| other == above))
            && !deserves(queue, request)
            && wanted.is_some_and(|wanted| !deserves(by, wanted))
    }
}
