//! Hierarchical dominant resource fairness, the part of plugin drf that `enableHierarchy: true` switches on.
//!
//! A queue says where it stands by the annotations `volcano.sh/hierarchy` (`root/eng/prod`) and
//! `volcano.sh/hierarchy-weights` (`1/2/8`; below 1 is 1). Queues without stand at the root. The jobs of a queue are the
//! children of its node, beside the nodes below it. Per node, with *total* what all nodes of the cluster can give:
//! - a job is saturated when it has all that it asks for of something, or asks for something of which nothing is left; a
//!   node is when all its children are;
//! - of a node's children that hold anything, those that are saturated count with what they hold, the others with that
//!   scaled down to the smallest dominant share among these: `allocated = Σ saturated + Σ others · least share / own share`;
//! - its share is `max over resources of allocated / total`.
//!
//! Of two queues the one goes first whose node, at the first level at which they differ, is not saturated, or has the
//! smaller share by weight. A task may be reclaimed when its queue would still go behind the other's with the move made, and
//! its node at that level would still hold more by weight, unscaled.
//!
//! Source: Volcano's drf plugin; Bhattacharya et al., "Hierarchical Scheduling for Diverse Datacenter Workloads", SoCC 2013.
//! Differences: victims add up, where Volcano looks at each alone, and not at what nodes hold unscaled; a queue above another, or that gives a
//! place another weight than an older one does, takes no jobs (Volcano's admission refuses the former, and of two weights it takes
//! that of any); what a queue that takes no jobs waits for is not asked for. Only what changed is worked out again, when it is asked for.
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use phalanx_resource::{Amounts, DimId};
use rustc_hash::FxHashMap;

use phalanx_cluster::annotation::{HIERARCHY, HIERARCHY_WEIGHTS};
use phalanx_cluster::diagnosis::QueueFault;
use phalanx_cluster::id::{Id, JobId, QueueId, TaskId};
use phalanx_cluster::{Queue, ROOT, World};
use phalanx_framework::plugin::ObjectField;

/// The names and weights on the way to a queue, without the root.
type Path<'q> = Vec<(&'q str, f64)>;

/// What the flag makes of a queue's annotations; drf lists them as its own.
pub(super) const READS: &[ObjectField] = &[
    ObjectField::new(
        HIERARCHY,
        "annotation of a Queue",
        "at the root",
        "With `enableHierarchy: true` (hdrf): the place of the queue in the tree, such as `root/eng/prod`.",
    ),
    ObjectField::new(
        HIERARCHY_WEIGHTS,
        "annotation of a Queue",
        "none, and then no place either",
        "With it: the weights of the parts, such as `1/2/8`, above 0; below 1 is 1. With another number of parts, or with \
         what is no number, the queue's jobs wait and the queue says why.",
    ),
];

/// Reads a queue's annotations; admission in Volcano refuses the same.
fn path(queue: &Queue) -> Result<Path<'_>, String> {
    let (names, weights) = (queue.annotations.get(HIERARCHY), queue.annotations.get(HIERARCHY_WEIGHTS));
    let names: Vec<&str> = names.map(|text| text.split('/').collect()).unwrap_or_default();
    let weights: Vec<&str> = weights.map(|text| text.split('/').collect()).unwrap_or_default();
    if names.len() != weights.len() {
        let (found, expected) = (weights.len(), names.len());
        return Err(format!(
            "{HIERARCHY_WEIGHTS} has {found} parts, expected {expected}, as many as {HIERARCHY}"
        ));
    }
    let weight = |text: &str| text.parse::<f64>().ok().filter(|weight| weight.is_finite() && *weight > 0.0);
    let part = |(name, text): (&str, &str)| match (name, weight(text)) {
        ("", _) => Err(format!("{HIERARCHY} has an empty part")),
        (_, None) => Err(format!("{HIERARCHY_WEIGHTS} has {text:?}, expected numbers above 0")),
        (_, Some(_)) => Ok(()),
    };
    names.iter().copied().zip(weights.iter().copied()).try_for_each(part)?;
    let parts =
        names.into_iter().zip(weights).map(|(name, text)| (name, weight(text).unwrap_or(1.0).max(1.0)));
    let mut parts: Path<'_> = parts.collect();
    if parts.first().is_some_and(|(name, _)| *name == ROOT) {
        parts.remove(0);
    }
    Ok(parts)
}

/// Why queues cannot stand where they say: above another queue, so that their jobs would stand beside its node; or at or
/// below a place to which another gives another weight, which then would be anybody's guess. Of two the younger is wrong.
fn clashes(queues: &[(QueueId, &Queue)]) -> FxHashMap<QueueId, String> {
    let mut paths: Vec<(QueueId, &Queue, Path<'_>)> =
        queues.iter().filter_map(|(id, queue)| Some((*id, *queue, path(queue).ok()?))).collect();
    paths.sort_by(|a, b| (a.1.created, &a.1.name).cmp(&(b.1.created, &b.1.name)));
    let mut below: FxHashMap<String, &str> = FxHashMap::default();
    for (_, queue, path) in &paths {
        for (place, _) in places(path).into_iter().rev().skip(1) {
            below.entry(place).or_insert(&queue.name);
        }
    }
    let mut clashes = FxHashMap::default();
    let mut known: FxHashMap<String, (&str, f64)> = FxHashMap::default();
    for (id, queue, path) in &paths {
        let places = places(path);
        if let Some(why) = clash(&places, &below, &known) {
            clashes.insert(*id, why);
            continue;
        }
        for (place, weight) in places {
            known.entry(place).or_insert((&queue.name, weight));
        }
    }
    clashes
}

/// Why a queue cannot have these places, with who stands below them and what weights older ones give to places.
fn clash(
    places: &[(String, f64)],
    below: &FxHashMap<String, &str>,
    known: &FxHashMap<String, (&str, f64)>,
) -> Option<String> {
    if let Some(other) = places.last().and_then(|(place, _)| below.get(place)) {
        return Some(format!("{HIERARCHY} has a place above that of queue {other}"));
    }
    let differs = |(place, weight): &(String, f64)| {
        let (other, its) = known.get(place).filter(|(_, its)| its != weight)?;
        Some(format!(
            "{HIERARCHY_WEIGHTS} has {weight} for {place}, to which queue {other} gives {its}, expected the same"
        ))
    };
    places.iter().find_map(differs)
}

/// The places on a path, from the top, each with its weight.
fn places(path: &Path<'_>) -> Vec<(String, f64)> {
    let mut at = ROOT.to_owned();
    let place = |(name, weight): &(&str, f64)| {
        at = format!("{at}/{name}");
        (at.clone(), *weight)
    };
    path.iter().map(place).collect()
}

/// A node of the tree.
#[derive(Clone, Debug, Default)]
struct Node {
    name: String,
    weight: f64,
    children: Vec<usize>,
    /// What its saturated jobs hold.
    fixed: Amounts,
    /// Its jobs that hold something and are not saturated.
    open: BTreeSet<JobId>,
    /// How many jobs are not saturated.
    hungry: usize,
    allocated: Vec<f64>,
    share: f64,
    /// What all its jobs hold, and those below it, without scaling.
    held: Vec<f64>,
    saturated: bool,
}

/// A job, as it counts in its node.
#[derive(Clone, Debug, Default)]
struct Member {
    node: Option<usize>,
    queue: usize,
    held: Amounts,
    request: Amounts,
    saturated: bool,
}

#[derive(Clone, Debug)]
struct Tree {
    /// Parents before children.
    nodes: Vec<Node>,
    /// Jobs that ask for more than they hold, and those that changed. All others have what they ask for: they are
    /// saturated.
    members: FxHashMap<JobId, Member>,
    /// By queue, what members of it hold, and what its other jobs do.
    queues: Vec<[Amounts; 2]>,
    /// What all jobs hold.
    held: Amounts,
    total: Amounts,
    /// Resources of which something is left.
    left: Vec<bool>,
    dirty: Vec<JobId>,
    /// Queues of which anything was moved since, or all of them.
    moved: Vec<QueueId>,
    stale: bool,
    /// How often all jobs were looked at, because nothing of a resource is left, or something again.
    turns: u64,
}

/// The shares of the queues of a session.
pub(super) struct Hdrf {
    /// The way of each queue from the root, by id.
    ways: Vec<Vec<usize>>,
    /// Why a queue cannot be used, by id.
    faults: Vec<Option<QueueFault>>,
    /// Queues whose pending tasks count.
    takes: Vec<bool>,
    tree: Mutex<Tree>,
}

impl Hdrf {
    pub(super) fn open(world: &World) -> Self {
        let bound = world.queues.bound();
        let mut hdrf = Self {
            ways: vec![vec![0]; bound],
            faults: vec![None; bound],
            takes: vec![false; bound],
            tree: Mutex::new(Tree::new(world)),
        };
        let mut queues: Vec<(QueueId, &Queue)> =
            world.queues.iter().filter(|(_, queue)| queue.exists).collect();
        queues.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        let clashes = clashes(&queues);
        let tree = hdrf.tree.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (id, queue) in queues {
            let path = path(queue);
            match clashes.get(&id).map_or(path, |why| Err(why.clone())) {
                Ok(path) => {
                    hdrf.ways[id.index()] = tree.way(&path);
                    hdrf.takes[id.index()] = world.queue_takes_jobs(id) && world.queue_fault(id).is_none();
                }
                Err(why) => hdrf.faults[id.index()] = Some(QueueFault::Field(why.into())),
            }
        }
        tree.dirty = world.pending_jobs().map(|(id, _)| id).collect();
        tree.moved = world.queues.ids().collect();
        tree.stale = true;
        hdrf
    }

    pub(super) fn queue_valid(&self, queue: QueueId) -> Result<(), QueueFault> {
        self.faults.get(queue.index()).cloned().flatten().map_or(Ok(()), Err)
    }

    pub(super) fn changed(&mut self, world: &World, task: TaskId) {
        let tree = self.tree.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = world.queue_of(task) {
            tree.moved.push(queue);
            tree.dirty.extend(world.tasks[task].job);
            tree.stale = true;
        }
    }

    /// The nodes on the way to a queue, from the root.
    pub(super) fn way(&self, queue: QueueId) -> Vec<u32> {
        self.ways[queue.index()].iter().map(|node| *node as u32).collect()
    }

    /// Changes when jobs of any queue may be saturated that were not, or the other way round.
    pub(super) fn stamp(&self, world: &World) -> u64 {
        self.fresh(world).turns
    }

    pub(super) fn queue_order(&self, world: &World, a: QueueId, b: QueueId) -> Ordering {
        self.compare(&self.fresh(world), a, b)
    }

    pub(super) fn reclaimable(&self, world: &World, by: TaskId, of: &[TaskId]) -> Vec<TaskId> {
        let Some(job) = world.tasks[by].job else { return Vec::new() };
        let queue = world.jobs[job].queue;
        let mut tree = self.fresh(world).clone();
        let change = |tree: &mut Tree, job: JobId, task: TaskId, how: fn(&mut Amounts, &Amounts)| {
            let mut member = tree.members.get(&job).cloned().unwrap_or_else(|| self.member(world, job));
            how(&mut member.held, world.request_of(task));
            tree.set(job, member);
        };
        change(&mut tree, job, by, Amounts::add);
        let mut take = |task: TaskId| {
            let Some(job) = world.tasks[task].job else { return false };
            tree.track(job, || self.member(world, job));
            change(&mut tree, job, task, Amounts::sub);
            tree.compute();
            let from = world.jobs[job].queue;
            let taken = self.compare(&tree, queue, from).is_lt() && self.holds_less(&tree, queue, from);
            if !taken {
                change(&mut tree, job, task, Amounts::add);
            }
            taken
        };
        of.iter().copied().filter(|task| take(*task)).collect()
    }

    /// The tree as the World is now.
    fn fresh(&self, world: &World) -> MutexGuard<'_, Tree> {
        let mut tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::take(&mut tree.stale) {
            return tree;
        }
        let mut dirty = std::mem::take(&mut tree.dirty);
        dirty.dedup();
        for job in dirty {
            tree.set(job, self.member(world, job));
        }
        let mut moved = std::mem::take(&mut tree.moved);
        moved.sort_unstable();
        moved.dedup();
        for id in &moved {
            tree.set_rest(id.index(), self.node_of(world, *id), world.queues[*id].held());
        }
        tree.compute_some(moved.iter().flat_map(|id| self.ways[id.index()].iter().copied()));
        tree
    }

    fn node_of(&self, world: &World, queue: QueueId) -> Option<usize> {
        self.ways[queue.index()].last().copied().filter(|_| world.queues[queue].exists)
    }

    /// A job as it is now.
    fn member(&self, world: &World, job: JobId) -> Member {
        let it = &world.jobs[job];
        let mut held = it.allocated.clone();
        held.add(&it.pipelined);
        let mut request = held.clone();
        if self.takes[it.queue.index()] {
            request.add(&it.pending);
        }
        let node = self.node_of(world, it.queue);
        Member { node, queue: it.queue.index(), held, request, saturated: false }
    }

    /// Whether, where the ways of two queues part, the first one's node holds less by weight, unscaled. Scaled shares may
    /// fall when more is held, so that by them alone two could take from each other by turns.
    fn holds_less(&self, tree: &Tree, a: QueueId, b: QueueId) -> bool {
        let (a, b) = (&self.ways[a.index()], &self.ways[b.index()]);
        let by_weight = |node: usize| tree.share(&tree.nodes[node].held) / tree.nodes[node].weight;
        let parted = a.iter().zip(b).find(|(a, b)| a != b);
        parted.is_none_or(|(a, b)| by_weight(*a) < by_weight(*b))
    }

    /// By level: saturated last, then the smaller share by weight; at last the shorter way.
    fn compare(&self, tree: &Tree, a: QueueId, b: QueueId) -> Ordering {
        let (a, b) = (&self.ways[a.index()], &self.ways[b.index()]);
        let rank =
            |node: usize| (tree.nodes[node].saturated, tree.nodes[node].share / tree.nodes[node].weight);
        let differ = |(a, b): (&usize, &usize)| {
            let ((full_a, share_a), (full_b, share_b)) = (rank(*a), rank(*b));
            full_a.cmp(&full_b).then(share_a.total_cmp(&share_b))
        };
        let order = a.iter().zip(b).map(differ).find(|order| order.is_ne());
        order.unwrap_or_else(|| a.len().cmp(&b.len()))
    }
}

impl Tree {
    fn new(world: &World) -> Self {
        let root = Node { name: ROOT.to_owned(), weight: 1.0, ..Node::default() };
        Self {
            nodes: vec![root],
            members: FxHashMap::default(),
            queues: vec![Default::default(); world.queues.bound()],
            held: Amounts::new(),
            total: world.total.clone(),
            left: vec![true; world.dims.len()],
            dirty: Vec::new(),
            moved: Vec::new(),
            stale: false,
            turns: 0,
        }
    }

    /// The nodes on a path, made where they are missing.
    fn way(&mut self, path: &Path<'_>) -> Vec<usize> {
        let mut way = vec![0];
        let mut at = 0;
        for (name, weight) in path {
            let known =
                self.nodes[at].children.iter().copied().find(|child| self.nodes[*child].name == *name);
            let next = known.unwrap_or_else(|| {
                self.nodes.push(Node { name: (*name).to_owned(), weight: *weight, ..Node::default() });
                let child = self.nodes.len() - 1;
                self.nodes[at].children.push(child);
                child
            });
            way.push(next);
            at = next;
        }
        way
    }

    /// Counts a job by itself from now on.
    fn track(&mut self, job: JobId, member: impl FnOnce() -> Member) {
        if !self.members.contains_key(&job) {
            let member = member();
            let mut rest = self.queues[member.queue][1].clone();
            rest.sub(&member.held);
            self.put_rest(member.queue, member.node, &rest);
            self.set(job, member);
        }
    }

    fn set(&mut self, job: JobId, mut member: Member) {
        self.leave(job);
        member.saturated = self.is_saturated(&member);
        self.join(job, member);
    }

    /// What those jobs of a queue hold that do not count by themselves, of all that its jobs hold.
    fn set_rest(&mut self, queue: usize, node: Option<usize>, mut held: Amounts) {
        held.sub(&self.queues[queue][0]);
        self.put_rest(queue, node, &held);
    }

    fn put_rest(&mut self, queue: usize, node: Option<usize>, rest: &Amounts) {
        let before = std::mem::replace(&mut self.queues[queue][1], rest.clone());
        self.held.sub(&before);
        self.held.add(rest);
        if let Some(node) = node.map(|node| &mut self.nodes[node]) {
            node.fixed.sub(&before);
            node.fixed.add(rest);
        }
    }

    fn join(&mut self, job: JobId, member: Member) {
        self.held.add(&member.held);
        self.queues[member.queue][0].add(&member.held);
        if let Some(node) = member.node.map(|node| &mut self.nodes[node]) {
            if member.saturated {
                node.fixed.add(&member.held);
            } else if !member.request.is_zero() {
                node.hungry += 1;
                if !member.held.is_zero() {
                    node.open.insert(job);
                }
            }
        }
        self.members.insert(job, member);
    }

    fn leave(&mut self, job: JobId) {
        let Some(member) = self.members.remove(&job) else { return };
        self.held.sub(&member.held);
        self.queues[member.queue][0].sub(&member.held);
        let Some(node) = member.node.map(|node| &mut self.nodes[node]) else { return };
        if member.saturated {
            node.fixed.sub(&member.held);
        } else if !member.request.is_zero() {
            node.hungry -= 1;
            node.open.remove(&job);
        }
    }

    fn is_saturated(&self, member: &Member) -> bool {
        let full = |(dim, request): (DimId, i64)| {
            let held = member.held.get(dim);
            request > 0 && ((held > 0 && held >= request) || !self.left[dim.index()])
        };
        member.request.iter().any(full)
    }

    /// Works every node out again, from the leaves up.
    fn compute(&mut self) {
        self.compute_some(0..self.nodes.len());
    }

    /// Works these nodes out again, which are all above them too, from the leaves up; all nodes where jobs everywhere may be
    /// saturated now, or not any more.
    fn compute_some(&mut self, nodes: impl Iterator<Item = usize>) {
        let mut nodes: Vec<usize> =
            if self.find_left() { (0..self.nodes.len()).collect() } else { nodes.collect() };
        nodes.sort_unstable();
        nodes.dedup();
        for at in nodes.into_iter().rev() {
            self.compute_node(at);
        }
    }

    /// Finds out of which resources something is left, and which jobs that saturates. Whether it is others than before.
    fn find_left(&mut self) -> bool {
        let left = (0..self.left.len()).map(|dim| DimId(dim as u16));
        let left: Vec<bool> = left.map(|dim| self.held.get(dim) < self.total.get(dim)).collect();
        let turned = left != self.left;
        if turned {
            self.left = left;
            self.turns += 1;
            for (job, member) in self.members.clone() {
                self.set(job, member);
            }
        }
        turned
    }

    fn compute_node(&mut self, at: usize) {
        let node = &self.nodes[at];
        let children = || node.children.iter().map(|child| &self.nodes[*child]);
        let jobs: Vec<(Vec<f64>, f64)> = node.open.iter().map(|job| self.job_share(*job)).collect();
        let of_nodes =
            children().filter(|child| !child.saturated && child.share > 0.0).map(|child| child.share);
        let least = jobs.iter().map(|(_, share)| *share).chain(of_nodes).fold(1.0, f64::min);
        let mut allocated = self.in_floats(&node.fixed);
        let mut add = |amounts: &[f64], factor: f64| {
            allocated.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount * factor);
        };
        for (held, share) in jobs.iter().filter(|(_, share)| *share > 0.0) {
            add(held, least / share);
        }
        for child in children().filter(|child| child.share > 0.0) {
            add(&child.allocated, if child.saturated { 1.0 } else { least / child.share });
        }
        let saturated = node.hungry == 0 && children().all(|child| child.saturated);
        let share = self.share(&allocated);
        let held = self.held_below(at, jobs.iter().map(|(held, _)| held));
        let node = &mut self.nodes[at];
        (node.allocated, node.share, node.held, node.saturated) = (allocated, share, held, saturated);
    }

    /// What a node's jobs, these of which are not saturated, and those below it hold.
    fn held_below<'a>(&'a self, at: usize, open: impl Iterator<Item = &'a Vec<f64>>) -> Vec<f64> {
        let node = &self.nodes[at];
        let mut held = self.in_floats(&node.fixed);
        let below = node.children.iter().map(|child| &self.nodes[*child].held);
        for amounts in open.chain(below) {
            held.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount);
        }
        held
    }

    fn job_share(&self, job: JobId) -> (Vec<f64>, f64) {
        let held = self.in_floats(&self.members[&job].held);
        let share = self.share(&held);
        (held, share)
    }

    fn in_floats(&self, amounts: &Amounts) -> Vec<f64> {
        (0..self.left.len()).map(|dim| amounts.get(DimId(dim as u16)) as f64).collect()
    }

    /// The dominant share; all of a resource that the cluster has not.
    fn share(&self, allocated: &[f64]) -> f64 {
        let of = |(dim, amount): (usize, &f64)| match self.total.get(DimId(dim as u16)) {
            total if total > 0 => amount / total as f64,
            _ if *amount > 0.0 => 1.0,
            _ => 0.0,
        };
        allocated.iter().enumerate().map(of).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::QueueInfo;
    use phalanx_framework::testing::{group, member, node, queue, queue_of, running, world_of};

    fn at(name: &str, hierarchy: &str, weights: &str) -> QueueInfo {
        let pairs = [(HIERARCHY, hierarchy), (HIERARCHY_WEIGHTS, weights)];
        let annotations = pairs.map(|(key, value)| (key.into(), value.into())).into_iter().collect();
        QueueInfo { annotations, ..queue(name, 1) }
    }

    /// Queues, each with so many pods of one core that run; on ten cores.
    fn world(queues: &[(QueueInfo, u32)]) -> World {
        let mut world = world_of([node("n", "cpu=10 memory=10Gi pods=100")]);
        for (info, pods) in queues {
            world.apply(info.clone().into());
            world.apply(
                phalanx_cluster::event::PodGroupInfo { queue: info.name.clone(), ..group(&info.name, 1) }
                    .into(),
            );
            for index in 0..=*pods {
                let pod = member(&info.name, index, "cpu=1");
                world.apply(if index < *pods { running(pod, "n") } else { pod }.into());
            }
        }
        world
    }

    #[test]
    fn the_place_of_a_queue_is_read_from_its_annotations() {
        for (hierarchy, weights, expected) in [
            ("", "", Ok(vec![])),
            ("root", "1", Ok(vec![])),
            ("root/eng/prod", "1/2/8", Ok(vec![("eng", 2.0), ("prod", 8.0)])),
            ("eng", "0.5", Ok(vec![("eng", 1.0)])),
            ("root/eng", "1", Err("has 1 parts, expected 2")),
            ("root/eng", "1/x", Err("has \"x\", expected numbers above 0")),
            ("root/eng", "1/0", Err("has \"0\", expected numbers above 0")),
            ("root//prod", "1/1/1", Err("has an empty part")),
        ] {
            let world = world_of([at("q", hierarchy, weights)]);
            let found = path(&world.queues[queue_of(&world, "q")]).map_err(|why| why.clone());
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{hierarchy} {weights}"),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
                (found, expected) => panic!("{hierarchy} {weights}: {found:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn queues_go_by_the_share_of_the_level_where_they_part() {
        let of = |name: &str, way: &str, weights: &str, pods| (at(name, way, weights), pods);
        for (what, a, b, expected) in [
            ("the smaller share", of("a", "root/a", "1/1", 1), of("b", "root/b", "1/1", 2), Ordering::Less),
            ("equal shares", of("a", "root/a", "1/1", 2), of("b", "root/b", "1/1", 2), Ordering::Equal),
            ("by weight", of("a", "root/a", "1/1", 2), of("b", "root/b", "1/4", 4), Ordering::Greater),
            (
                "within a department",
                of("a", "root/d/a", "1/1/1", 1),
                of("b", "root/d/b", "1/1/2", 3),
                Ordering::Less,
            ),
            ("without a place, at the root", of("a", "", "", 0), of("b", "root/b", "1/1", 1), Ordering::Less),
        ] {
            let world = world(&[a, b]);
            let hdrf = Hdrf::open(&world);
            let order = hdrf.queue_order(&world, queue_of(&world, "a"), queue_of(&world, "b"));
            assert_eq!(order, expected, "{what}");
        }
    }
}
