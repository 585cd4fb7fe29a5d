//! task-topology: roles of a gang that want to be on one node, or on different ones.
//!
//! The PodGroup's annotations name roles: `volcano.sh/task-topology-affinity` and `-anti-affinity` hold lists of them,
//! `ps,worker;chief` (a list of one is about the pods of that role among themselves), `-task-order` one list. A role that the
//! gang does not have, or that is in a list twice, makes all of them void, which is told on the PodGroup.
//! - Pods of roles in a list are dealt to *buckets*: those on a node to a bucket for it, then the others to the bucket with
//!   which they have the most in common (affinity counts for, anti-affinity against), the lightest of several; to a new
//!   one when all are against them.
//! - Tasks go by bucket, larger ones first, then as `task-order` says; those in no bucket come last.
//! - A node scores what the bucket has on it, less what is on it that the task wants to be away from, plus how many waiting
//!   tasks of the bucket would fit on it: in percent of the largest bucket, by weight.
//!
//! Source: Volcano's task-topology plugin, which takes random tasks out of a bucket that does not fit, and counts only pods
//! of the running session for anti-affinity.
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use phalanx_resource::{Amounts, DimId};
use rustc_hash::FxHashMap;

use phalanx_cluster::annotation::{
    TASK_TOPOLOGY_AFFINITY, TASK_TOPOLOGY_ANTI_AFFINITY, TASK_TOPOLOGY_TASK_ORDER,
};
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{JobId, NodeId, TaskId};
use phalanx_cluster::{Job, Node, Status, World};
use phalanx_framework::conf::{ArgKind, ArgSpec};
use phalanx_framework::plugin::{
    ExtraNodeScores, NodeRules, ObjectField, Plugin, PluginContext, PluginDef, ResourceScorer, TaskRules,
    Warnings,
};

const WEIGHT: &str = "task-topology.weight";

const ARGS: &[ArgSpec] =
    &[ArgSpec { name: WEIGHT, kind: ArgKind::ANY_WEIGHT, default: "1", doc: "Weight of the score." }];

const READS: &[ObjectField] = &[
    ObjectField::new(
        TASK_TOPOLOGY_AFFINITY,
        "annotation of a PodGroup",
        "none",
        "Lists of roles that want to be on one node: `ps,worker;chief`; a list of one is about that role's pods.",
    ),
    ObjectField::new(
        TASK_TOPOLOGY_ANTI_AFFINITY,
        "annotation of a PodGroup",
        "none",
        "Lists of roles that want to be on different nodes, likewise.",
    ),
    ObjectField::new(
        TASK_TOPOLOGY_TASK_ORDER,
        "annotation of a PodGroup",
        "none",
        "One list of roles: who goes first. A role that the gang does not have, or that is in a list twice, voids all three.",
    ),
];

pub(super) const DEF: PluginDef = PluginDef {
    name: "task-topology",
    summary: "Puts roles of a gang on one node, or keeps them apart, as its annotations say.",
    args: ARGS,
    reads: READS,
    open: |opening| Box::new(TaskTopology::open(opening)),
};

/// A role: its index in the job.
type RoleId = u16;
/// Pairs of roles; a role with itself for its pods among themselves.
type Pairs = Vec<(RoleId, RoleId)>;

/// What the annotations of a job say.
#[derive(Debug, Default)]
struct Wishes {
    together: Pairs,
    apart: Pairs,
    /// The earlier the larger; by role.
    order: FxHashMap<RoleId, usize>,
    /// What kind of list a role is in, by role: who is hardest to place goes first.
    weight: FxHashMap<RoleId, u8>,
}

impl Wishes {
    /// `None` when there are none.
    fn of(job: &Job) -> Result<Option<Self>, Fault<'_>> {
        let mut wishes = Self::default();
        for list in lists(job, TASK_TOPOLOGY_AFFINITY)? {
            let weight = if list.len() == 1 { 2 } else { 3 };
            wishes.take_in(&list, weight, |wishes| &mut wishes.together);
        }
        for list in lists(job, TASK_TOPOLOGY_ANTI_AFFINITY)? {
            let weight = if list.len() == 1 { 4 } else { 1 };
            wishes.take_in(&list, weight, |wishes| &mut wishes.apart);
        }
        let order = list(
            job,
            TASK_TOPOLOGY_TASK_ORDER,
            job.annotations.get(TASK_TOPOLOGY_TASK_ORDER).unwrap_or_default(),
        )?;
        wishes.order = order.iter().rev().enumerate().map(|(at, role)| (*role, at + 1)).collect();
        Ok((!wishes.weight.is_empty()).then_some(wishes))
    }

    fn take_in(&mut self, list: &[RoleId], weight: u8, pairs: impl Fn(&mut Self) -> &mut Pairs) {
        for (at, role) in list.iter().enumerate() {
            let known = self.weight.entry(*role).or_default();
            *known = weight.max(*known);
            let with = if list.len() == 1 { list } else { &list[..at] };
            pairs(self).extend(with.iter().flat_map(|other| [(*role, *other), (*other, *role)]));
        }
    }

    /// How many of these roles' pods a role is drawn to, less those it is kept from.
    fn drawn(&self, role: RoleId, to: &BTreeMap<RoleId, i64>) -> i64 {
        let one = |(other, count): (&RoleId, &i64)| {
            let together = i64::from(self.together.contains(&(role, *other)));
            (together - i64::from(self.apart.contains(&(role, *other)))) * count
        };
        to.iter().map(one).sum()
    }

    fn kept_from(&self, role: RoleId, those: &BTreeMap<RoleId, i64>) -> i64 {
        those.iter().filter(|(other, _)| self.apart.contains(&(role, **other))).map(|(_, count)| count).sum()
    }

    fn rank(&self, role: RoleId) -> impl Ord {
        (self.order.get(&role).copied().unwrap_or(0), self.weight.get(&role).copied().unwrap_or(0))
    }
}

/// What makes all wishes of a job void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault<'a> {
    /// No pod of the gang is of this role.
    Unknown { key: &'static str, role: &'a str },
    /// The role is in one list twice.
    Twice { key: &'static str, role: &'a str },
}

impl Fault<'_> {
    fn text(self) -> String {
        let (key, role, why) = match self {
            Fault::Unknown { key, role } => (key, role, "which no pod of the gang has"),
            Fault::Twice { key, role } => (key, role, "twice in one list"),
        };
        format!(
            "annotation {key} names role {role:?}, {why}: plugin task-topology goes by none of its annotations"
        )
    }
}

/// Lists of roles, `;` between them.
fn lists<'a>(job: &'a Job, key: &'static str) -> Result<Vec<Vec<RoleId>>, Fault<'a>> {
    let text = job.annotations.get(key);
    text.into_iter().flat_map(|text| text.split(';')).map(|part| list(job, key, part)).collect()
}

fn list<'a>(job: &'a Job, key: &'static str, text: &'a str) -> Result<Vec<RoleId>, Fault<'a>> {
    let names = || text.split(',').map(str::trim).filter(|name| !name.is_empty());
    if let Some((_, role)) = names().enumerate().find(|(at, name)| names().take(*at).any(|it| it == *name)) {
        return Err(Fault::Twice { key, role });
    }
    let id = |name: &'a str| {
        let has_pods = |role: &phalanx_cluster::Role| *role.name == *name && role.counts.total() > 0;
        let found = job.roles.iter().position(has_pods).map(|role| role as RoleId);
        found.ok_or(Fault::Unknown { key, role: name })
    };
    names().map(id).collect()
}

/// Pods that want to be together.
#[derive(Debug, Default)]
struct Bucket {
    tasks: Vec<TaskId>,
    roles: BTreeMap<RoleId, i64>,
    /// Tasks without a node when the session began.
    waiting: usize,
    /// What those request: a millicpu is as much as a MiB or a thousandth of anything else.
    load: i64,
}

/// A job's wishes and buckets.
#[derive(Debug)]
struct Plan {
    wishes: Wishes,
    buckets: Vec<Bucket>,
    of_task: FxHashMap<TaskId, usize>,
    largest: usize,
}

/// It has its node, as far as the cluster outside knows.
fn has_node(world: &World, task: TaskId) -> bool {
    let task = &world.tasks[task];
    task.node.is_some() && task.status != Status::Pipelined
}

impl Plan {
    fn of(world: &World, id: JobId) -> Option<Self> {
        let job = &world.jobs[id];
        let wishes = Wishes::of(job).ok().flatten().filter(|_| job.waiting() > 0)?;
        let lives = |task: &TaskId| {
            let status = world.tasks[*task].status;
            status != Status::Releasing && !matches!(status, Status::Succeeded | Status::Failed)
        };
        let wanted = |task: &TaskId| wishes.weight.contains_key(&world.tasks[*task].role);
        let mut tasks: Vec<TaskId> =
            job.tasks.iter().copied().filter(|task| lives(task) && wanted(task)).collect();
        tasks.sort_by_cached_key(|task| {
            let it = &world.tasks[*task];
            let node = it.node.filter(|_| has_node(world, *task)).map(|node| world.nodes[node].name.clone());
            (node.is_none(), node, Reverse(wishes.rank(it.role)), it.index, it.pod.clone())
        });
        let mut plan = Self { wishes, buckets: Vec::new(), of_task: FxHashMap::default(), largest: 0 };
        let mut of_node = FxHashMap::default();
        for task in tasks {
            plan.deal(world, task, &mut of_node);
        }
        Some(plan)
    }

    fn deal(&mut self, world: &World, task: TaskId, of_node: &mut FxHashMap<NodeId, usize>) {
        let it = &world.tasks[task];
        let node = it.node.filter(|_| has_node(world, task));
        let known = match node {
            Some(node) => of_node.get(&node).copied(),
            None => self.best_bucket(it.role),
        };
        let at = known.unwrap_or_else(|| {
            self.buckets.push(Bucket::default());
            self.buckets.len() - 1
        });
        let bucket = &mut self.buckets[at];
        bucket.tasks.push(task);
        *bucket.roles.entry(it.role).or_default() += 1;
        if let Some(node) = node {
            of_node.insert(node, at);
        } else {
            bucket.waiting += 1;
            bucket.load += load(world, world.request_of(task));
        }
        self.largest = self.largest.max(bucket.tasks.len());
        self.of_task.insert(task, at);
    }

    /// The bucket a role is drawn to most, the lightest of several, unless all are against it.
    fn best_bucket(&self, role: RoleId) -> Option<usize> {
        let rated = self.buckets.iter().enumerate().map(|(at, bucket)| {
            let drawn = self.wishes.drawn(role, &bucket.roles);
            (Reverse(drawn), bucket.load, at)
        });
        rated.min().filter(|(drawn, ..)| drawn.0 >= 0).map(|(.., at)| at)
    }

    /// The waiting tasks of a task's bucket besides itself.
    fn others(&self, world: &World, task: TaskId) -> Vec<TaskId> {
        let bucket = self.of_task.get(&task).map(|at| &self.buckets[*at]);
        let waits = |other: &TaskId| *other != task && world.tasks[*other].node.is_none();
        bucket.into_iter().flat_map(|bucket| bucket.tasks.iter().copied()).filter(waits).collect()
    }

    /// What the bucket has on each node, less what a task wants to be away from.
    fn on_nodes(&self, world: &World, task: TaskId) -> BTreeMap<NodeId, i64> {
        let Some(at) = self.of_task.get(&task) else { return BTreeMap::new() };
        let mut on: BTreeMap<NodeId, (i64, BTreeMap<RoleId, i64>)> = BTreeMap::new();
        for other in self.of_task.keys().filter(|other| **other != task) {
            let it = &world.tasks[*other];
            let Some(node) = it.node else { continue };
            let (own, roles) = on.entry(node).or_default();
            *own += i64::from(self.of_task[other] == *at);
            *roles.entry(it.role).or_default() += 1;
        }
        let role = world.tasks[task].role;
        let points = |(own, roles): (i64, BTreeMap<_, _>)| own - self.wishes.kept_from(role, &roles);
        on.into_iter().map(|(node, found)| (node, points(found))).filter(|(_, points)| *points != 0).collect()
    }
}

fn load(world: &World, request: &Amounts) -> i64 {
    let one = |(dim, amount): (DimId, i64)| match dim {
        DimId::PODS => 0,
        DimId::MEMORY => amount >> 20,
        dim if world.dims.name(dim) == "ephemeral-storage" => amount >> 20,
        _ => amount,
    };
    request.iter().map(one).sum()
}

struct TaskTopology {
    weight: i64,
    plans: FxHashMap<JobId, Plan>,
}

impl TaskTopology {
    fn open(opening: PluginContext<'_>) -> Self {
        let world = opening.world;
        let plan = |id| Some((id, Plan::of(world, id)?));
        let jobs = world.pending_jobs().map(|(id, _)| id);
        Self { weight: opening.args.weight(WEIGHT, 1), plans: jobs.filter_map(plan).collect() }
    }

    fn plan(&self, world: &World, task: TaskId) -> Option<&Plan> {
        self.plans.get(&world.tasks[task].job?).filter(|plan| plan.of_task.contains_key(&task))
    }

    /// What a task in a bucket counts.
    fn point(&self, plan: &Plan) -> f64 {
        self.weight as f64 * 100.0 / plan.largest as f64
    }
}

impl Plugin for TaskTopology {
    fn refusal_holds_until(&self, world: &World, job: JobId) -> Option<Time> {
        world.jobs[job].annotations.is_empty().then_some(Time::NEVER)
    }

    fn task_order(&self, world: &World, a: TaskId, b: TaskId) -> Ordering {
        if world.tasks[a].job != world.tasks[b].job {
            return Ordering::Equal;
        }
        let Some(plan) = world.tasks[a].job.and_then(|job| self.plans.get(&job)) else {
            return Ordering::Equal;
        };
        let key = |task: TaskId| {
            let at = plan.of_task.get(&task).copied();
            let waiting = at.map_or(0, |at| plan.buckets[at].waiting);
            let rank = at.map(|_| plan.wishes.rank(world.tasks[task].role));
            (at.is_none(), Reverse(waiting), at, Reverse(rank))
        };
        key(a).cmp(&key(b))
    }

    fn warnings(&self) -> Option<&dyn Warnings> {
        Some(self)
    }

    fn task_rules(&self) -> Option<&dyn TaskRules> {
        (self.weight != 0 && !self.plans.is_empty()).then_some(self as &dyn TaskRules)
    }

    fn extra_scores(&self) -> Option<&dyn ExtraNodeScores> {
        (self.weight != 0 && !self.plans.is_empty()).then_some(self as &dyn ExtraNodeScores)
    }
}

impl Warnings for TaskTopology {
    /// Pods of a role may come yet while the gang lacks some.
    fn job_warning(&self, world: &World, job: JobId) -> Option<Arc<str>> {
        let job = &world.jobs[job];
        let fault = Wishes::of(job).err()?;
        let lacks = job.counts.valid() < job.min_member;
        let told = !(lacks && matches!(fault, Fault::Unknown { .. }));
        told.then(|| fault.text().into())
    }
}

impl TaskRules for TaskTopology {
    /// The waiting tasks of the bucket, by class: how many of them fit is asked of each node.
    fn scope(&self, world: &World, task: TaskId) -> u64 {
        let Some(plan) = self.plan(world, task) else { return 0 };
        let others = plan.others(world, task);
        if others.is_empty() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        (self.weight, plan.largest).hash(&mut hasher);
        for other in others {
            world.request_of(other).hash(&mut hasher);
        }
        hasher.finish().max(1)
    }

    fn task_scorers(&self, world: &World, task: TaskId, rules: &mut NodeRules) {
        let Some(plan) = self.plan(world, task) else { return };
        let others = plan.others(world, task);
        if !others.is_empty() {
            let requests = others.into_iter().map(|other| world.request_of(other).clone()).collect();
            let request = world.request_of(task).clone();
            rules.resource_scorers.push(Box::new(Fit { request, requests, point: self.point(plan) }));
        }
    }
}

impl ExtraNodeScores for TaskTopology {
    fn extra_node_scores(&self, world: &World, task: TaskId) -> Vec<(NodeId, f64)> {
        let Some(plan) = self.plan(world, task) else { return Vec::new() };
        let point = self.point(plan);
        plan.on_nodes(world, task).into_iter().map(|(node, count)| (node, count as f64 * point)).collect()
    }
}

/// How many waiting tasks of a bucket fit on a node with the task itself; the last ones are left out first.
struct Fit {
    request: Amounts,
    requests: Vec<Amounts>,
    point: f64,
}

impl ResourceScorer for Fit {
    fn score(&self, node: &Node) -> f64 {
        let mut room = node.idle.clone();
        room.add(&node.releasing);
        let mut all = self.request.clone();
        self.requests.iter().for_each(|request| all.add(request));
        let mut fitting = self.requests.len();
        while fitting > 0 && !all.fits(&room) {
            fitting -= 1;
            all.sub(&self.requests[fitting]);
        }
        fitting as f64 * self.point
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::{PodGroupInfo, PodInfo};
    use phalanx_framework::testing::{group, job_of, member, node, opened, running, task_of, world_of};

    fn of_role(role: &str, index: u32) -> PodInfo {
        PodInfo { role: role.into(), ..member("g", index, "cpu=1") }
    }

    fn wishing(annotations: &[(&str, &str)]) -> PodGroupInfo {
        let pairs = annotations.iter().map(|(key, value)| ((*key).into(), (*value).into()));
        PodGroupInfo { annotations: pairs.collect(), ..group("g", 1) }
    }

    /// The buckets of a gang of two ps, four workers and a chief, the first ps on a node: pods by bucket.
    fn buckets(annotations: &[(&str, &str)]) -> Option<Vec<Vec<String>>> {
        let roles = ["ps", "ps", "worker", "worker", "worker", "worker", "chief"];
        let mut world = world_of([node("a", "cpu=8"), node("b", "cpu=8")]);
        world.apply(wishing(annotations).into());
        for (index, role) in (0..).zip(roles) {
            let pod = of_role(role, index);
            let pod = if index == 0 { running(pod, "a") } else { pod };
            world.apply(pod.into());
        }
        let plan = Plan::of(&world, job_of(&world, "g"))?;
        let name = |task: &TaskId| world.tasks[*task].pod.name.to_string();
        Some(plan.buckets.iter().map(|bucket| bucket.tasks.iter().map(name).collect()).collect())
    }

    #[test]
    fn pods_are_dealt_to_buckets() {
        type Annotated = &'static [(&'static str, &'static str)];
        let cases: [(Annotated, Option<Vec<Vec<&str>>>); 7] = [
            (&[], None),
            (&[(TASK_TOPOLOGY_AFFINITY, "ps,nobody")], None),
            (&[(TASK_TOPOLOGY_AFFINITY, "ps,ps")], None),
            (
                &[(TASK_TOPOLOGY_ANTI_AFFINITY, "worker")],
                Some(vec![vec!["g-2"], vec!["g-3"], vec!["g-4"], vec!["g-5"]]),
            ),
            (&[(TASK_TOPOLOGY_AFFINITY, "chief;ps")], Some(vec![vec!["g-0", "g-1", "g-6"]])),
            (
                &[(TASK_TOPOLOGY_ANTI_AFFINITY, "ps"), (TASK_TOPOLOGY_AFFINITY, "ps,worker")],
                Some(vec![vec!["g-0", "g-2", "g-3", "g-5"], vec!["g-1", "g-4"]]),
            ),
            (&[(TASK_TOPOLOGY_TASK_ORDER, "ps,worker")], None),
        ];
        for (annotations, expected) in cases {
            let found = buckets(annotations);
            let expected: Option<Vec<Vec<String>>> = expected.map(|list| {
                list.into_iter().map(|bucket| bucket.into_iter().map(str::to_owned).collect()).collect()
            });
            assert_eq!(found, expected, "{annotations:?}");
        }
    }

    #[test]
    fn tasks_go_by_bucket_then_as_they_are_told() {
        let mut world = world_of([node("a", "cpu=8")]);
        world.apply(
            wishing(&[(TASK_TOPOLOGY_AFFINITY, "ps,worker"), (TASK_TOPOLOGY_TASK_ORDER, "worker,ps")]).into(),
        );
        for (index, role) in (0..).zip(["free", "ps", "worker"]) {
            world.apply(of_role(role, index).into());
        }
        let plugin = opened(TaskTopology::open, &world, phalanx_cluster::event::Time(0), &[]);
        let mut tasks: Vec<TaskId> = ["g-0", "g-1", "g-2"].iter().map(|name| task_of(&world, name)).collect();
        tasks.sort_by(|a, b| plugin.task_order(&world, *a, *b));
        let names: Vec<&str> = tasks.iter().map(|task| &*world.tasks[*task].pod.name).collect();
        assert_eq!(names, ["g-2", "g-1", "g-0"]);
    }

    #[test]
    fn nodes_score_what_is_there_and_what_would_fit() {
        let mut world = world_of([node("a", "cpu=8"), node("b", "cpu=2")]);
        world.apply(
            wishing(&[(TASK_TOPOLOGY_AFFINITY, "ps,worker"), (TASK_TOPOLOGY_ANTI_AFFINITY, "worker")]).into(),
        );
        for (index, role) in (0..).zip(["ps", "worker", "worker"]) {
            let pod = of_role(role, index);
            world.apply(if index == 1 { running(pod, "a") } else { pod }.into());
        }
        let plugin =
            opened(TaskTopology::open, &world, phalanx_cluster::event::Time(0), &[(WEIGHT, 2.into())]);
        let points = |pod: &str| plugin.extra_node_scores(&world, task_of(&world, pod));
        let a = world.node_named("a").unwrap();
        assert_eq!(points("g-0"), [(a, 100.0)], "the worker there is of the ps's bucket, of two");
        assert_eq!(points("g-2"), [(a, -100.0)], "the other worker is kept from it");
        let fit = |cpu: &str| {
            let request = world.request_of(task_of(&world, "g-0")).clone();
            let requests = vec![request.clone(); 3];
            let info = world_of([node("n", cpu)]);
            Fit { request, requests, point: 1.0 }.score(&info.nodes[info.node_named("n").unwrap()])
        };
        assert_eq!(["cpu=1", "cpu=2", "cpu=4", "cpu=9"].map(fit), [0.0, 1.0, 3.0, 3.0]);
    }
}
