//! A second look at a gang that did not fit one by one, and one by one is not as good as any way.
//!
//! Taking the best node for each member can lose: small members spread over the nodes that a large one needs whole, or take
//! what the queue may have while two others would have made the gang. Here those that fit the fewest nodes come first, the
//! fullest nodes are filled first, and a place that leads nowhere is taken back: a depth-first search over all ways that
//! differ. Where members look at who is where, they are tried in any order ([`around`]). On a small cluster a *no* is
//! therefore true; on a large one the search ends after so many steps, always at the same point.
mod around;
mod volumes;

use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::sync::Arc;

use super::start;
use crate::session::Session;
use crate::statement::Statement;
use around::Around;
use phalanx_cluster::budget::{Budget, Cut};
use phalanx_cluster::id::{ClaimId, JobId, NodeId, TaskId};
use phalanx_cluster::{Class, Cluster, Node, Status};
use phalanx_framework::placement::Fit;
pub(crate) use volumes::is_exhaustive;

/// Nodes that are looked at in the time that such a question takes.
const SCANNED: usize = 16;

/// Whether placing tasks one by one, each on its best node, may fail where there is another way. It cannot if they are all
/// alike and look at nothing but what is on each node, nor if they have only one term: then any place that is left is as
/// good as any other, or nobody's.
pub(crate) fn is_intricate(cluster: &Cluster, tasks: &[TaskId]) -> bool {
    let class = |task: &TaskId| cluster.tasks[*task].class;
    let Some(first) = tasks.first() else { return false };
    let it = cluster.class_of(*first);
    let terms = it.carried.affinity.len() + it.carried.anti_affinity.len() + required_spread(it);
    let claims = |task: &TaskId| cluster.tasks[*task].claims.is_some();
    let bound = tasks.len() > 1 && (tasks.iter().any(claims) || volumes::matter(cluster, tasks));
    let is_other = |task: &TaskId| class(task) != class(first) && !is_like(cluster, *task, *first);
    terms > 1 || bound || tasks.iter().any(is_other)
}

/// Whether two tasks of different classes differ in the names of their volume claims only.
fn is_like(cluster: &Cluster, one: TaskId, other: TaskId) -> bool {
    let has_volumes = |task: TaskId| !cluster.class_of(task).pvcs.is_empty();
    has_volumes(one) && has_volumes(other) && cluster.asks_of(one) == cluster.asks_of(other)
}

/// Whether a search may find places where one by one has found none. Asked of each gang that waits, so nothing is made for it.
pub(crate) fn may_help(session: &Session<'_>, tasks: &[TaskId]) -> bool {
    let cluster = &*session.cluster;
    let [first, rest @ ..] = tasks else { return false };
    let kind =
        |task: &TaskId| (cluster.tasks[*task].role, session.tiers.scope_without_claims(cluster, *task));
    let differ = || {
        let of_first = kind(first);
        rest.iter().any(|task| kind(task) != of_first)
    };
    is_intricate(cluster, tasks) || (!rest.is_empty() && differ())
}

fn required_spread(class: &Class) -> usize {
    class.carried.spread.iter().filter(|spread| spread.required).count()
}

/// Places a gang if there is any way to do so, and commits it: all at once or, with `later`, also where room is being
/// released. False when there is no way, and when one by one is as good.
pub(crate) fn place_whole(
    session: &mut Session<'_>,
    job: JobId,
    tasks: &[TaskId],
    later: bool,
) -> Result<bool, Cut> {
    let queue = session.cluster.jobs[job].queue;
    let allowed = |item: &Item| session.allocatable(queue, item.tasks[0]).is_ok();
    if !may_help(session, tasks) || !items(session, tasks).iter().any(allowed) {
        return Ok(false);
    }
    let mut steps = session.searches.part(job);
    let mut statement = session.statement();
    let goal = Goal { job, later };
    let found = fill_for(goal, &mut statement, tasks, &mut steps);
    if found == Ok(true) {
        start::at_once(&mut statement, job);
        commit(statement, job);
    } else {
        drop(statement);
    }
    session.searches.give_back(&steps);
    found
}

/// Leaves a way in which the job can start in the statement, if there is any; with `later`, it counts room that is being
/// released.
pub(crate) fn fill(
    statement: &mut Statement<'_, '_>,
    job: JobId,
    tasks: &[TaskId],
    later: bool,
    steps: &mut Budget,
) -> Result<bool, Cut> {
    fill_for(Goal { job, later }, statement, tasks, steps)
}

fn fill_for(
    goal: Goal,
    statement: &mut Statement<'_, '_>,
    tasks: &[TaskId],
    steps: &mut Budget,
) -> Result<bool, Cut> {
    for task in tasks {
        if statement.session().cluster.tasks[*task].node.is_some() {
            statement.unplace(*task);
        }
    }
    let session = statement.session();
    steps.spend(session.cluster.nodes.len() / SCANNED)?;
    let mut items = items(session, tasks);
    let nodes = nodes(session, &items, goal.later);
    steps.spend(items.len() * nodes.len())?;
    sort_hardest_first(session, &mut items, &nodes);
    if looks_around(statement.session().cluster, &items) {
        return volumes::in_each_order(statement, &items, |statement| {
            Around::new(goal, statement.session().cluster, &items, &nodes, steps).run(statement)
        });
    }
    Search { goal, items: &items, nodes: &nodes, steps }.run(statement)
}

/// Whether places of some depend on where others are.
fn looks_around(cluster: &Cluster, items: &[Item]) -> bool {
    let looks = |item: &Item| {
        let class = cluster.class_of(item.tasks[0]);
        let shared = !class.pvcs.is_empty() || cluster.tasks[item.tasks[0]].claims.is_some();
        shared || class.carried.restricts() || cluster.terms.outward(class).next().is_some()
    };
    items.iter().any(looks)
}

/// What a search is for.
#[derive(Clone, Copy)]
struct Goal {
    job: JobId,
    /// Room that is being released counts.
    later: bool,
}

impl Goal {
    fn is_met(self, session: &Session<'_>) -> bool {
        session.job_ready(self.job) || (self.later && session.job_whole(self.job))
    }

    /// Whether the job's queue may have one more task.
    fn allows(self, session: &Session<'_>, task: TaskId) -> bool {
        session.allocatable(session.cluster.jobs[self.job].queue, task).is_ok()
    }

    /// Gives a task a node, if that has room and is unlike those that were tried.
    fn place(self, statement: &mut Statement<'_, '_>, task: TaskId, node: NodeId, tried: &[NodeId]) -> bool {
        match statement.session().room(task, node, tried) {
            Some(Fit::Idle) => statement.allocate(task, node),
            Some(Fit::FutureIdle) if self.later => statement.pipeline(task, node),
            _ => return false,
        }
        true
    }
}

pub(crate) fn commit(mut statement: Statement<'_, '_>, job: JobId) {
    let why = Arc::default();
    if statement.session().job_ready(job) {
        statement.commit(&why);
    } else {
        statement.commit_reserved(&why);
    }
}

/// Tasks that no rule can tell apart, in the order in which they are served.
struct Item {
    tasks: Vec<TaskId>,
}

fn items(session: &Session<'_>, tasks: &[TaskId]) -> Vec<Item> {
    let mut at = FxHashMap::default();
    let mut items: Vec<Item> = Vec::new();
    for task in tasks {
        let cluster = &*session.cluster;
        // A claim that tasks have in common makes them others than those that ask for as much.
        let common: SmallVec<[ClaimId; 2]> = cluster.claims_in_common(*task).collect();
        // Claims of its own are told by what they ask for, not by their names.
        let asks = (
            cluster.asks_of(*task),
            cluster.devices_of(*task),
            session.tiers.scope_without_claims(cluster, *task),
        );
        let alike = (asks, cluster.tasks[*task].role, common);
        let item = *at.entry(alike).or_insert_with(|| {
            items.push(Item { tasks: Vec::new() });
            items.len() - 1
        });
        items[item].tasks.push(*task);
    }
    items
}

/// Nodes that may have room for any of the items, at once or with `later` at some time, those with the least left first.
fn nodes(session: &Session<'_>, items: &[Item], later: bool) -> Vec<NodeId> {
    let cluster = &*session.cluster;
    let requests: Vec<&Amounts> = items.iter().map(|item| cluster.request_of(item.tasks[0])).collect();
    let mut most = Amounts::new();
    for (_, node) in cluster.nodes.iter() {
        most.max_with(&node.idle);
    }
    let left = |node: NodeId| {
        let share = |(dim, idle): (_, i64)| idle.max(0) as f64 / most.get(dim).max(1) as f64;
        (cluster.nodes[node].idle.iter().map(share).sum::<f64>() * 1e6) as i64
    };
    let fits = |node: &Node, request: &Amounts| {
        if later { node.fits_later(request) } else { node.fits_now(request) }
    };
    let mut nodes: Vec<NodeId> = cluster
        .nodes
        .iter()
        .filter(|(_, node)| node.exists && requests.iter().any(|request| fits(node, request)))
        .map(|(id, _)| id)
        .collect();
    nodes.sort_by_cached_key(|node| (left(*node), cluster.nodes[*node].name.clone()));
    nodes
}

/// Those that the fewest nodes have room for first, then those that ask for the most.
fn sort_hardest_first(session: &mut Session<'_>, items: &mut [Item], nodes: &[NodeId]) {
    let mut keys: FxHashMap<TaskId, (usize, Reverse<i64>)> = FxHashMap::default();
    for item in &*items {
        let task = item.tasks[0];
        let homes = nodes.iter().filter(|node| session.takes(task, **node)).count();
        let largest = session.cluster.request_of(task).iter().map(|(_, amount)| amount).max();
        keys.insert(task, (homes, Reverse(largest.unwrap_or(0))));
    }
    items.sort_by_key(|item| keys[&item.tasks[0]]);
}

/// Where the next task goes, and what was tried for it.
struct Frame {
    item: usize,
    /// Which of the item's tasks.
    at: usize,
    /// The next node to try. Alike tasks take nodes in order, so that no way is tried twice.
    cursor: usize,
    /// Nodes that were tried: another that is like one of them is as good, that is, as bad.
    tried: SmallVec<[NodeId; 8]>,
    placed: Option<TaskId>,
}

impl Frame {
    fn of(item: usize, at: usize, cursor: usize) -> Self {
        Self { item, at, cursor, tried: SmallVec::new(), placed: None }
    }
}

struct Search<'a> {
    goal: Goal,
    items: &'a [Item],
    nodes: &'a [NodeId],
    steps: &'a mut Budget,
}

impl Search<'_> {
    /// Leaves a way in which the job can start in the statement.
    fn run(&mut self, statement: &mut Statement<'_, '_>) -> Result<bool, Cut> {
        let mut frames = vec![Frame::of(0, 0, 0)];
        while let Some(frame) = frames.last_mut() {
            if let Some(task) = frame.placed.take() {
                statement.unplace(task);
            }
            if self.place_next(statement, frame)? {
                if self.goal.is_met(statement.session()) {
                    return Ok(true);
                }
                let next = self.after(frame);
                frames.push(next);
            } else if !self.leave_out_rest(statement.session(), frame) {
                frames.pop();
            }
        }
        Ok(false)
    }

    fn after(&self, frame: &Frame) -> Frame {
        if frame.at + 1 < self.items[frame.item].tasks.len() {
            Frame::of(frame.item, frame.at + 1, frame.cursor - 1)
        } else {
            Frame::of(frame.item + 1, 0, 0)
        }
    }

    /// Gives the frame's task the next node that was not tried and has room.
    fn place_next(&mut self, statement: &mut Statement<'_, '_>, frame: &mut Frame) -> Result<bool, Cut> {
        let Some(item) = self.items.get(frame.item) else { return Ok(false) };
        let task = item.tasks[frame.at];
        if !self.goal.allows(statement.session(), task) {
            return Ok(false);
        }
        while frame.cursor < self.nodes.len() {
            self.steps.spend(1)?;
            let node = self.nodes[frame.cursor];
            frame.cursor += 1;
            if self.goal.place(statement, task, node, &frame.tried) {
                frame.tried.push(node);
                frame.placed = Some(task);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Goes on with the next item, if what is left can still make the gang.
    fn leave_out_rest(&self, session: &Session<'_>, frame: &mut Frame) -> bool {
        let next = frame.item + 1;
        let Some(rest) = self.items.get(next..).filter(|rest| !rest.is_empty()) else { return false };
        let job = &session.cluster.jobs[self.goal.job];
        let placed = job.counts.ready() + job.counts.of(Status::Pipelined);
        let left: usize = rest.iter().map(|item| item.tasks.len()).sum();
        if (placed as usize) + left < job.min_member as usize {
            return false;
        }
        *frame = Frame::of(next, 0, 0);
        true
    }
}
