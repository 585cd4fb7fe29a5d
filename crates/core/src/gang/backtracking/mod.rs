//! Strategy *backtracking*: a depth-first search over the ways to place a gang that differ.
//!
//! The best node for each member can be wrong for the gang: small members spread over the nodes that a large one needs
//! whole, or take what the queue may have while two other members would have made the gang. Here members that fit the
//! fewest nodes come first, the fullest nodes are filled first, and a place that leads nowhere is taken back. Where
//! constraints of members refer to other pods, the members are tried in any order ([`search`]).
//!
//! Guarantees: on a small cluster a refusal is exact; on a larger one the search ends with its budget of steps, always
//! at the same point.
mod search;
mod volumes;

use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cmp::Reverse;

use super::{Goal, Request, reserved};
use crate::session::Session;
use crate::statement::Statement;
use phalanx_cluster::id::{ClaimId, JobId, NodeId, TaskId};
use phalanx_cluster::search_budget::{Budget, Cut};
use phalanx_cluster::{Class, Cluster, Node};
use phalanx_framework::placement::Fit;
use search::Search;
pub(crate) use volumes::is_exhaustive;

/// Nodes that are filtered by their resources in the time of one step.
const FILTERED_PER_STEP: usize = 16;

/// Whether the greedy strategy may fail though there are places. It cannot where all tasks are equal and depend on
/// nothing but each node itself, nor where they carry one term only: then one place that is left is as good as another.
pub(crate) fn greedy_may_fail(cluster: &Cluster, tasks: &[TaskId]) -> bool {
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
    has_volumes(one) && has_volumes(other) && cluster.request_key(one) == cluster.request_key(other)
}

/// Whether a search may find places where the greedy strategy found none. Every gang that waits is asked, so the answer
/// allocates nothing.
pub(crate) fn may_help(session: &Session<'_>, tasks: &[TaskId]) -> bool {
    let cluster = &*session.cluster;
    let [first, rest @ ..] = tasks else { return false };
    let kind =
        |task: &TaskId| (cluster.tasks[*task].role, session.tiers.scope_without_claims(cluster, *task));
    let differ = || {
        let of_first = kind(first);
        rest.iter().any(|task| kind(task) != of_first)
    };
    greedy_may_fail(cluster, tasks) || (!rest.is_empty() && differ())
}

fn required_spread(class: &Class) -> usize {
    class.carried.spread.iter().filter(|spread| spread.required).count()
}

/// Places a gang if there is any way to do so.
pub(super) fn find(
    statement: &mut Statement<'_, '_>,
    request: Request,
    members: &[TaskId],
) -> Result<Option<Goal>, Cut> {
    let session = statement.session();
    let allowed = |item: &Item| session.allocatable(item.tasks[0]).is_ok();
    if !items(session, members).iter().any(allowed) {
        return Ok(None);
    }
    let mut steps = session.placement_budget.part(request.job);
    let found = fill(statement, request, members, Until::GangIsWhole, &mut steps);
    if found == Ok(true) && reserved::is_reserved(statement.session(), request.job) {
        reserved::start_waiting(statement, request.job);
    }
    statement.session().placement_budget.give_back(&steps);
    found.map(|found| found.then_some(request.goal))
}

/// Leaves a way to reserve places for a job in the statement, if there is any.
pub(crate) fn fill_for_reservation(
    statement: &mut Statement<'_, '_>,
    job: JobId,
    members: &[TaskId],
    steps: &mut Budget,
) -> Result<bool, Cut> {
    fill(statement, Request { job, goal: Goal::Reserve }, members, Until::GangIsWhole, steps)
}

/// Places these tasks, beside others that have places, if there is any way to do so.
pub(super) fn place(
    statement: &mut Statement<'_, '_>,
    request: Request,
    tasks: &[TaskId],
    until: Until,
) -> bool {
    let mut steps = statement.session().placement_budget.part(request.job);
    let found = statement.nested(|statement| fill(statement, request, tasks, until, &mut steps));
    statement.session().placement_budget.give_back(&steps);
    found == Ok(true)
}

/// When a search may end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    GangIsWhole,
    /// Whatever else the gang lacks.
    AllArePlaced,
}

fn fill(
    statement: &mut Statement<'_, '_>,
    request: Request,
    members: &[TaskId],
    until: Until,
    steps: &mut Budget,
) -> Result<bool, Cut> {
    statement.unplace_all(members);
    let session = statement.session();
    steps.spend(session.cluster.nodes.len() / FILTERED_PER_STEP)?;
    let mut items = items(session, members);
    let nodes = nodes(session, &items, request.goal);
    steps.spend(items.len() * nodes.len())?;
    sort_hardest_first(session, &mut items, &nodes);
    if are_interdependent(statement.session().cluster, &items) {
        return volumes::in_each_order(statement, &items, |statement| {
            let search = Search::new(request, until, &items, &nodes, steps);
            search.in_any_order(statement.session().cluster).run(statement)
        });
    }
    Search::new(request, until, &items, &nodes, steps).run(statement)
}

/// Whether the nodes that take a member depend on where other members are.
fn are_interdependent(cluster: &Cluster, items: &[Item]) -> bool {
    let looks = |item: &Item| {
        let class = cluster.class_of(item.tasks[0]);
        let shared = !class.pvcs.is_empty() || cluster.tasks[item.tasks[0]].claims.is_some();
        shared || class.carried.restricts() || cluster.terms.symmetric(class).next().is_some()
    };
    items.iter().any(looks)
}

impl Request {
    /// Whether a search may end: the gang has what the goal asks for, whatever plugins let it keep less.
    fn is_whole(self, session: &Session<'_>) -> bool {
        session.job_ready(self.job) || (self.goal == Goal::Reserve && session.job_whole(self.job))
    }

    /// Gives a task a node. Returns false when the node has no room, or is like one that was tried.
    fn place(self, statement: &mut Statement<'_, '_>, task: TaskId, node: NodeId, tried: &[NodeId]) -> bool {
        let room = statement.session().fit_unless_tried(task, node, tried);
        let Some(fit) = room.filter(|fit| *fit == Fit::Idle || self.goal == Goal::Reserve) else {
            return false;
        };
        statement.place(task, node, fit);
        true
    }
}

/// Tasks that no rule can tell apart, in the order in which they are placed.
struct Item {
    tasks: Vec<TaskId>,
}

fn items(session: &Session<'_>, tasks: &[TaskId]) -> Vec<Item> {
    let mut at = FxHashMap::default();
    let mut items: Vec<Item> = Vec::new();
    for task in tasks {
        let cluster = &*session.cluster;
        // Tasks that share a claim differ from tasks that request as much.
        let common: SmallVec<[ClaimId; 2]> = cluster.claims_in_common(*task).collect();
        // Claims of one task only are compared by what they request, not by their names.
        let asks = (
            cluster.request_key(*task),
            cluster.device_claims_key(*task),
            session.tiers.scope_without_claims(cluster, *task),
        );
        let sub_group = cluster.sub_group_key(*task);
        let alike = (asks, cluster.tasks[*task].role, sub_group, common);
        let item = *at.entry(alike).or_insert_with(|| {
            items.push(Item { tasks: Vec::new() });
            items.len() - 1
        });
        items[item].tasks.push(*task);
    }
    items
}

/// Nodes whose resources fit any of the items, those with the least idle resources first.
fn nodes(session: &Session<'_>, items: &[Item], goal: Goal) -> Vec<NodeId> {
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
    let fits = |node: &Node, request: &Amounts| match goal {
        Goal::Start => node.fits_now(request),
        Goal::Reserve => node.fits_later(request),
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

/// Sorts items: those that the fewest nodes take come first, then those that request the most.
fn sort_hardest_first(session: &mut Session<'_>, items: &mut [Item], nodes: &[NodeId]) {
    let mut keys: FxHashMap<TaskId, (usize, Reverse<i64>)> = FxHashMap::default();
    for item in &*items {
        let task = item.tasks[0];
        let homes = nodes.iter().filter(|node| session.fits(task, **node)).count();
        let largest = session.cluster.request_of(task).iter().map(|(_, amount)| amount).max();
        keys.insert(task, (homes, Reverse(largest.unwrap_or(0))));
    }
    items.sort_by_key(|item| keys[&item.tasks[0]]);
}
