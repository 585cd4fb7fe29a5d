//! proportion: queues share the cluster by weight.
//!
//! Per resource, over the queues that exist, with *total* what all nodes can give:
//! - `guaranteed = min(guarantee, capability)`; where these exceed the total in sum, each is cut in proportion;
//! - `realCapability = min(total − Σ guaranteed of the others, capability)`, no capability being no limit;
//! - `deserved` is at least `guaranteed` and at most `min(request, realCapability)` (where that is more), and in between
//!   by weight: water-filling, see [`waterfill`](super::waterfill). *request* is all that the queue's jobs ask for, held
//!   or not; only what is held, for a queue that takes no jobs. Deserved amounts sum to the total where there is demand for
//!   it, and never to more.
//!
//! A queue with a parent other than `root` is refused: its jobs wait. Neither it nor one with another fault is guaranteed
//! anything, so that others get what they would get without it.
//!
//! Then, with *held* what a queue's pods have or are nominated for:
//! - queue order: larger `spec.priority`, then smaller `max over resources of held / deserved`;
//! - a queue is overused when its pods have all it deserves, and may have a task when `held + request ≤ deserved` in
//!   what the task asks for. Places for pods are left to the nodes. So is a resource of which the queue deserves all
//!   that there is or all that it asks for: the nodes' own reasons say more;
//! - a task may be reclaimed while its queue, without those picked before it, holds more than it deserves of something;
//! - a job is admitted when `promised + minResources ≤ realCapability` in what it names. A queue promised to each
//!   admitted job its minResources (to one that is Inqueue, or Running with `minMember` pods allocated), and to others
//!   the part of it that they hold. Pods beyond minResources are elastic, and promised nothing.
//!
//! Source: Volcano's proportion plugin; *promised* is its `allocated + inqueue − elastic`, job by job. Differences: shares
//! are exact and independent of the order of queues, where Volcano stops after some rounds; a queue without jobs takes
//! part with its guarantee, so that the same is not promised twice; and Volcano does not look at `parent`.
use std::cmp::Ordering;

use phalanx_resource::{Amounts, Ceilings, DimId};
use rustc_hash::FxHashMap;

use super::flat;
use super::promise;
use super::share::Share;
use super::waterfill::{Claim, fill};
use crate::conf::ArgSpec;
use crate::diagnosis::{QueueFault, Refusal};
use crate::id::{Id, JobId, QueueId, TaskId};
use crate::plugin::{EvictionKind, Plugin, PluginDef, Verdict};
use crate::world::{Queue, World};

const NAME: &str = "proportion";

const ARGS: &[ArgSpec] = &[];

pub(super) const DEF: PluginDef = PluginDef {
    name: NAME,
    summary: "Queues share the cluster by weight, between their guarantee and their capability.",
    args: ARGS,
    open: |opening| Box::new(Proportion::open(opening.world)),
};

/// What a queue may have.
#[derive(Clone, Debug, Default)]
struct Standing {
    deserved: Amounts,
    /// `deserved`, where it is less than the queue asks for; its capability, where it deserves all that there is.
    limits: Ceilings,
    real_capability: Amounts,
    promised: Amounts,
}

struct Proportion {
    /// By queue id.
    standings: Vec<Standing>,
}

impl Proportion {
    fn open(world: &World) -> Self {
        let mut standings = vec![Standing::default(); world.queues.bound()];
        let queues = world.queues.iter().filter(|(_, queue)| queue.exists);
        let parties: Vec<Party> = queues.map(|(id, _)| Party::new(world, id)).collect();
        for (dim, _) in world.dims.iter() {
            divide(world, dim, &parties, &mut standings);
        }
        if promise::any_asks(world) {
            for (_, job) in world.jobs.iter() {
                standings[job.queue.index()].promised.add(&promise::of(job));
            }
        }
        Self { standings }
    }

    fn of(&self, queue: QueueId) -> &Standing {
        &self.standings[queue.index()]
    }

    /// The dominant share of what a queue deserves that it holds.
    fn share(&self, world: &World, id: QueueId) -> Share {
        let (queue, deserved) = (&world.queues[id], &self.of(id).deserved);
        let of = |at: usize| {
            let dim = DimId(at as u16);
            Share::new(held(queue, dim), deserved.get(dim))
        };
        Share::largest((0..world.dims.len()).map(of))
    }
}

#[inline]
fn held(queue: &Queue, dim: DimId) -> i64 {
    queue.own.held(dim)
}

/// A queue that takes part.
struct Party {
    id: QueueId,
    /// What it asks for.
    request: Amounts,
    /// Its fault, or its parent, keeps it from being used.
    broken: bool,
}

impl Party {
    fn new(world: &World, id: QueueId) -> Self {
        let queue = &world.queues[id];
        let broken = world.queue_fault(id).is_some() || flat::valid(world, id, NAME).is_err();
        let request = if broken || !queue.is_open() { queue.held() } else { queue.request() };
        Self { id, request, broken }
    }
}

/// Divides one resource among queues.
fn divide(world: &World, dim: DimId, parties: &[Party], standings: &mut [Standing]) {
    let total = world.total.get(dim).max(0);
    let guaranteed = guaranteed(world, dim, parties, total);
    let spare = total - guaranteed.iter().sum::<i64>();
    let mut claims = Vec::with_capacity(parties.len());
    for (Party { id, request, .. }, least) in parties.iter().zip(guaranteed) {
        let queue = &world.queues[*id];
        let real = (spare + least).min(queue.capability.get(dim).unwrap_or(i64::MAX).max(0));
        standings[id.index()].real_capability.set(dim, real);
        claims.push(Claim {
            name: &queue.name,
            weight: queue.weight,
            least,
            most: least.max(real.min(request.get(dim))),
        });
    }
    for (Party { id, request, .. }, deserved) in parties.iter().zip(fill(total, &claims)) {
        let standing = &mut standings[id.index()];
        standing.deserved.set(dim, deserved);
        if dim == DimId::PODS || deserved >= request.get(dim) {
            continue;
        }
        // Pods on nodes that are gone may hold more than there is.
        let limit = if deserved < total { Some(deserved) } else { world.queues[*id].capability.get(dim) };
        if let Some(limit) = limit {
            standing.limits.set(dim, limit);
        }
    }
}

/// What queues are guaranteed of one resource: no more than their capability, and in sum no more than there is.
fn guaranteed(world: &World, dim: DimId, parties: &[Party], total: i64) -> Vec<i64> {
    let of = |party: &Party| {
        let queue = &world.queues[party.id];
        if party.broken {
            return 0;
        }
        queue.guarantee.get(dim).min(queue.capability.get(dim).unwrap_or(i64::MAX)).max(0)
    };
    let mut list: Vec<i64> = parties.iter().map(of).collect();
    let sum: i128 = list.iter().map(|amount| i128::from(*amount)).sum();
    if sum > i128::from(total) {
        for amount in &mut list {
            *amount = (i128::from(*amount) * i128::from(total) / sum) as i64;
        }
    }
    list
}

impl Plugin for Proportion {
    fn queue_order(&self, world: &World, a: QueueId, b: QueueId) -> Ordering {
        let priority = |id| world.queues[id].priority;
        priority(b).cmp(&priority(a)).then_with(|| self.share(world, a).cmp(&self.share(world, b)))
    }

    fn queue_valid(&self, world: &World, id: QueueId) -> Result<(), QueueFault> {
        flat::valid(world, id, NAME)
    }

    fn overused(&self, world: &World, id: QueueId) -> Option<Refusal> {
        let (queue, standing) = (&world.queues[id], self.of(id));
        // Nominated tasks do not count here: they must be able to take up the places they were promised.
        let has_all = |(dim, deserved)| dim == DimId::PODS || queue.own.allocated.get(dim) >= deserved;
        if standing.limits.is_empty() || !standing.deserved.iter().all(has_all) {
            return None;
        }
        Some(Refusal::Overused { plugin: NAME, queue: queue.name.clone() })
    }

    fn allocatable(&self, world: &World, id: QueueId, task: TaskId) -> Result<(), Refusal> {
        let (queue, standing) = (&world.queues[id], self.of(id));
        let request = world.request_of(task);
        let over = standing.limits.iter().filter_map(|(dim, limit)| {
            let need = request.get(dim);
            let over = held(queue, dim).saturating_add(need).saturating_sub(limit);
            (need > 0 && over > 0).then_some((dim, over))
        });
        let mut over = over.peekable();
        if over.peek().is_none() {
            return Ok(());
        }
        let over = over.collect();
        Err(Refusal::Quota { plugin: NAME, queue: queue.name.clone(), limit: "deserved", over })
    }

    fn preemptive(&self, world: &World, id: QueueId, task: TaskId) -> Result<(), Refusal> {
        self.allocatable(world, id, task)
    }

    fn guards_queues(&self) -> bool {
        true
    }

    fn unified_evictable(
        &self,
        world: &World,
        kind: EvictionKind,
        _: JobId,
        of: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        let any = of.first().copied()?;
        (kind == EvictionKind::Reclaim).then(|| self.reclaimable(world, any, of))?
    }

    fn reclaimable(&self, world: &World, _: TaskId, of: &[TaskId]) -> Option<Vec<TaskId>> {
        let mut left: FxHashMap<QueueId, Amounts> = FxHashMap::default();
        let mut take = |task: TaskId| {
            let Some(job) = world.tasks[task].job else { return false };
            let queue = world.jobs[job].queue;
            let held = left.entry(queue).or_insert_with(|| world.queues[queue].held());
            let more = |(dim, held)| dim != DimId::PODS && held > self.of(queue).deserved.get(dim);
            let taken = world.queues[queue].exists && held.iter().any(more);
            if taken {
                held.sub(world.request_of(task));
            }
            taken
        };
        Some(of.iter().copied().filter(|task| take(*task)).collect())
    }

    fn job_enqueueable(&self, world: &World, id: JobId) -> Verdict {
        let job = &world.jobs[id];
        let Some(min) = &job.min_resources else { return Verdict::Permit };
        let standing = self.of(job.queue);
        let mut room = standing.real_capability.clone();
        room.sub(&standing.promised);
        room.add(&promise::of(job));
        let missing: Vec<_> = min.short(&room).collect();
        if missing.is_empty() {
            return Verdict::Permit;
        }
        Verdict::Reject(Refusal::Enqueue { plugin: NAME, text: "queue resource quota insufficient", missing })
    }

    fn job_enqueued(&mut self, world: &World, id: JobId) {
        let job = &world.jobs[id];
        let promised = &mut self.standings[job.queue.index()].promised;
        promised.sub(&promise::of(job));
        if let Some(min) = &job.min_resources {
            promised.add(min);
        }
    }

    fn deserved(&self, world: &World, id: QueueId) -> Option<Amounts> {
        world.queues.get(id).filter(|queue| queue.exists)?;
        Some(self.standings.get(id.index())?.deserved.clone())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::{Event, GroupStatus, Phase, PodGroupInfo, QueueInfo, QueueState};
    use crate::testing::{
        group, job_of, member, node, queue, queue_of, resources, running, task_of, world_of,
    };

    fn cpu(cores: i64) -> String {
        format!("cpu={cores}")
    }

    /// A queue, how many pods of one core its gang runs, and how many more it asks for.
    struct Row {
        queue: QueueInfo,
        runs: u32,
        waits: u32,
    }

    fn row(queue: QueueInfo, runs: u32, waits: u32) -> Row {
        Row { queue, runs, waits }
    }

    /// One node of so many cores, and queues with one gang each (of the queue's name), if it has pods.
    fn world(cores: i64, rows: &[Row]) -> World {
        let mut world = world_of([node("n", &format!("{} pods=9999", cpu(cores)))]);
        for Row { queue, runs, waits } in rows {
            world.apply(queue.clone().into());
            if runs + waits == 0 {
                continue;
            }
            let status = GroupStatus { phase: Phase::Running, ..GroupStatus::default() };
            world.apply(PodGroupInfo { queue: queue.name.clone(), status, ..group(&queue.name, 1) }.into());
            for index in 0..runs + waits {
                let pod = member(&queue.name, index, "cpu=1");
                world.apply(if index < *runs { running(pod, "n") } else { pod }.into());
            }
        }
        world
    }

    fn with(name: &str, weight: u32, capability: &str, guarantee: &str) -> QueueInfo {
        QueueInfo {
            capability: resources(capability),
            guarantee: resources(guarantee),
            ..queue(name, weight)
        }
    }

    fn deserved(world: &World, queues: &[&str]) -> Vec<i64> {
        let plugin = Proportion::open(world);
        let of = |name: &&str| plugin.deserved(world, queue_of(world, name)).unwrap().get(DimId::CPU);
        queues.iter().map(of).collect()
    }

    #[test]
    fn queues_deserve_by_weight_within_their_bounds() {
        for (what, cores, rows, expected) in [
            ("1:3", 8, vec![row(queue("a", 1), 0, 9), row(queue("b", 3), 0, 9)], vec![2000, 6000]),
            (
                "what one does not ask for goes to the other",
                8,
                vec![row(queue("a", 1), 0, 9), row(queue("b", 3), 0, 1)],
                vec![7000, 1000],
            ),
            (
                "no more than is asked for",
                8,
                vec![row(queue("a", 1), 1, 1), row(queue("b", 3), 0, 1)],
                vec![2000, 1000],
            ),
            (
                "a capability",
                8,
                vec![row(with("a", 1, "cpu=1", ""), 0, 9), row(queue("b", 1), 0, 9)],
                vec![1000, 7000],
            ),
            (
                "a guarantee",
                8,
                vec![row(with("a", 1, "", "cpu=5"), 0, 9), row(queue("b", 1), 0, 9)],
                vec![5000, 3000],
            ),
            (
                "a guarantee that nobody asks for",
                8,
                vec![row(with("a", 1, "", "cpu=5"), 0, 0), row(queue("b", 1), 0, 9)],
                vec![5000, 3000],
            ),
            (
                "guarantees beyond what there is are cut in proportion",
                8,
                vec![row(with("a", 1, "", "cpu=12"), 0, 9), row(with("b", 1, "", "cpu=4"), 0, 9)],
                vec![6000, 2000],
            ),
            ("an empty cluster", 0, vec![row(queue("a", 1), 0, 9)], vec![0]),
            (
                "what is held counts as asked for",
                8,
                vec![row(queue("a", 1), 8, 0), row(queue("b", 1), 0, 8)],
                vec![4000, 4000],
            ),
            (
                "to the unit, by name",
                1,
                vec![row(queue("c", 1), 0, 9), row(queue("a", 1), 0, 9), row(queue("b", 1), 0, 9)],
                vec![334, 333, 333],
            ),
        ] {
            let world = world(cores, &rows);
            let mut names: Vec<&str> = rows.iter().map(|row| &*row.queue.name).collect();
            names.sort_unstable();
            assert_eq!(deserved(&world, &names), expected, "{what}");
        }
    }

    #[test]
    fn a_queue_that_takes_no_jobs_deserves_no_more_than_it_holds() {
        for (what, cores, rows, expected) in [
            (
                "a guarantee above the capability is a fault: what its pods hold, and nothing is kept for it",
                8,
                vec![row(with("a", 1, "cpu=2", "cpu=5"), 1, 9), row(queue("b", 1), 0, 9)],
                vec![1000, 7000],
            ),
            (
                "a closed queue asks for what it holds",
                8,
                vec![
                    row(QueueInfo { state: QueueState::Closed, ..queue("a", 9) }, 2, 9),
                    row(queue("b", 1), 0, 9),
                ],
                vec![2000, 6000],
            ),
            (
                "a queue with a parent asks for what it holds",
                8,
                vec![
                    row(QueueInfo { parent: "b".into(), ..with("a", 9, "", "cpu=7") }, 2, 9),
                    row(queue("b", 1), 0, 9),
                ],
                vec![2000, 6000],
            ),
        ] {
            assert_eq!(deserved(&world(cores, &rows), &["a", "b"]), expected, "{what}");
        }
    }

    #[test]
    fn a_queue_takes_tasks_up_to_what_it_deserves() {
        for (runs, overused, allocatable) in
            [(0, false, true), (1, false, true), (2, true, false), (3, true, false)]
        {
            let world = world(8, &[row(queue("a", 1), runs, 9), row(queue("b", 3), 0, 9)]);
            let (plugin, id) = (Proportion::open(&world), queue_of(&world, "a"));
            assert_eq!(plugin.overused(&world, id).is_some(), overused, "{runs} run");
            let task = task_of(&world, "a-8");
            assert_eq!(plugin.allocatable(&world, id, task).is_ok(), allocatable, "{runs} run");
        }
    }

    #[test]
    fn a_refusal_says_by_how_much() {
        let world = world(8, &[row(queue("a", 1), 2, 9), row(queue("b", 3), 0, 9)]);
        let (plugin, id) = (Proportion::open(&world), queue_of(&world, "a"));
        let refusal = plugin.allocatable(&world, id, task_of(&world, "a-9")).unwrap_err();
        assert_eq!(
            refusal.text(&world.dims),
            "queue a would exceed its deserved: cpu (1 more) (plugin proportion)"
        );
        let refusal = plugin.overused(&world, id).unwrap();
        assert_eq!(refusal.text(&world.dims), "queue a is overused (plugin proportion)");
    }

    #[test]
    fn a_queue_that_has_the_cluster_for_itself_is_bounded_by_nodes_alone() {
        let world = world(4, &[row(queue("a", 1), 4, 9)]);
        let (plugin, id) = (Proportion::open(&world), queue_of(&world, "a"));
        assert_eq!(plugin.overused(&world, id), None);
        assert_eq!(plugin.allocatable(&world, id, task_of(&world, "a-9")), Ok(()));
    }

    #[test]
    fn queues_go_by_priority_then_by_share() {
        let mut first = queue("first", 1);
        first.priority = 1;
        let world = world(
            20,
            &[
                row(queue("a", 1), 3, 9),
                row(queue("b", 3), 4, 9),
                row(first, 4, 9),
                row(queue("idle", 1), 0, 0),
            ],
        );
        let plugin = Proportion::open(&world);
        let mut order = ["a", "b", "first", "idle"].map(|name| queue_of(&world, name));
        order.sort_by(|a, b| plugin.queue_order(&world, *a, *b));
        let names = order.map(|id| world.queues[id].name.to_string());
        assert_eq!(names, ["first", "idle", "b", "a"]);
    }

    #[test]
    fn a_queue_keeps_what_it_deserves_when_others_reclaim() {
        let world = world(8, &[row(queue("a", 1), 7, 0), row(queue("b", 3), 1, 9)]);
        let plugin = Proportion::open(&world);
        let of = |name: &str, count: u32| -> Vec<TaskId> {
            (0..count).map(|index| task_of(&world, &format!("{name}-{index}"))).collect()
        };
        let by = task_of(&world, "b-9");
        assert_eq!(plugin.reclaimable(&world, by, &of("a", 7)), Some(of("a", 5)));
        assert_eq!(plugin.reclaimable(&world, by, &of("b", 1)), Some(Vec::new()));
    }

    fn asking(name: &str, phase: Phase, min_resources: &str) -> PodGroupInfo {
        let status = GroupStatus { phase, ..GroupStatus::default() };
        let min_resources = Some(resources(min_resources));
        PodGroupInfo { queue: "q".into(), status, min_resources, ..group(name, 1) }
    }

    fn admits(plugin: &Proportion, world: &World, name: &str) -> bool {
        plugin.job_enqueueable(world, job_of(world, name)) == Verdict::Permit
    }

    #[test]
    fn a_queue_promises_no_more_than_its_real_capability() {
        // 10 cores, 3 of them another queue's guarantee, a capability of 6: 6 for q.
        let mut world =
            world_of([Event::from(node("n", "cpu=10 memory=10Gi")), with("o", 1, "", "cpu=3").into()]);
        world.apply(with("q", 1, "cpu=6", "").into());
        world.apply(asking("inqueue", Phase::Inqueue, "cpu=1").into());
        // Promised 2, has 3: 1 is elastic.
        world.apply(asking("running", Phase::Running, "cpu=2").into());
        for index in 0..3 {
            world.apply(running(member("running", index, "cpu=1"), "n").into());
        }
        for (name, request) in
            [("three", "cpu=3"), ("more", "cpu=3001m"), ("other", "memory=10Gi"), ("lots", "memory=11Gi")]
        {
            world.apply(asking(name, Phase::Pending, request).into());
        }
        let mut plugin = Proportion::open(&world);
        let expected = [("three", true), ("more", false), ("other", true), ("lots", false)];
        for (name, admitted) in expected {
            assert_eq!(admits(&plugin, &world, name), admitted, "{name}");
        }
        plugin.job_enqueued(&world, job_of(&world, "three"));
        assert!(!admits(&plugin, &world, "three") && admits(&plugin, &world, "other"));
    }

    #[test]
    fn without_a_capability_what_others_are_guaranteed_is_the_limit() {
        let mut world = world_of([Event::from(node("n", "cpu=10")), with("o", 1, "", "cpu=3").into()]);
        world.apply(queue("q", 1).into());
        world.apply(asking("seven", Phase::Pending, "cpu=7").into());
        world.apply(asking("eight", Phase::Pending, "cpu=8").into());
        let plugin = Proportion::open(&world);
        assert!(admits(&plugin, &world, "seven"));
        let Verdict::Reject(refusal) = plugin.job_enqueueable(&world, job_of(&world, "eight")) else {
            panic!("admitted");
        };
        assert_eq!(
            refusal.text(&world.dims),
            "queue resource quota insufficient: insufficient cpu (1 more) (plugin proportion)"
        );
    }

    /// Weight, capability, guarantee, and pods that wait, each of one core.
    type Bounds = (u32, Option<i64>, i64, u32);

    /// Cores, and queues with any bounds, sensible or not.
    fn rows() -> impl Strategy<Value = (i64, Vec<Bounds>)> {
        let one = (1u32..5, prop::option::of(0i64..12), prop_oneof![Just(0i64), 0i64..8], 0u32..12);
        (0i64..30, prop::collection::vec(one, 1..6))
    }

    fn world_of_rows(cores: i64, rows: &[Bounds], order: impl Iterator<Item = usize>) -> World {
        let build = |at: usize| {
            let (weight, capability, guarantee, waits) = rows[at];
            let capability = capability.map(cpu).unwrap_or_default();
            row(with(&format!("q{at}"), weight, &capability, &cpu(guarantee)), 0, waits)
        };
        world(cores, &order.map(build).collect::<Vec<_>>())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn deserved_amounts_keep_every_bound((cores, rows) in rows()) {
            let names: Vec<String> = (0..rows.len()).map(|at| format!("q{at}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let world = world_of_rows(cores, &rows, 0..rows.len());
            let plugin = Proportion::open(&world);
            let got = deserved(&world, &names);
            let backwards = world_of_rows(cores, &rows, (0..rows.len()).rev());
            prop_assert_eq!(&got, &deserved(&backwards, &names), "the order of queues matters");
            prop_assert!(got.iter().sum::<i64>() <= cores * 1000);
            let broken = |at: usize| rows[at].1.is_some_and(|capability| capability < rows[at].2);
            let guarantee = |at: usize| if broken(at) { 0 } else { rows[at].2 * 1000 };
            let feasible = (0..rows.len()).map(guarantee).sum::<i64>() <= cores * 1000;
            let mut demand = 0;
            for (at, got) in got.iter().enumerate() {
                let real = plugin.of(queue_of(&world, names[at])).real_capability.get(DimId::CPU);
                let request = if broken(at) { 0 } else { i64::from(rows[at].3) * 1000 };
                prop_assert!(*got <= request.min(real).max(guarantee(at)));
                prop_assert!(real <= rows[at].1.map_or(i64::MAX, |cap| cap * 1000));
                prop_assert!(!feasible || *got >= guarantee(at));
                demand += request.min(real).max(guarantee(at));
            }
            prop_assert!(!feasible || got.iter().sum::<i64>() == demand.min(cores * 1000), "room is left undivided");
        }
    }
}
