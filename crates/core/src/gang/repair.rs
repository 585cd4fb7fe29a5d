//! Repairs: a running gang that lost members keeps nodes for the members that find no place, until enough resources are
//! free.
//!
//! Resources that come free little by little would otherwise always go to new jobs that ask for less, and what the rest
//! of the gang holds would be of no use. The node is nominated like any other, and is the one that lacks the least: no
//! other pod is placed there as long as resources are missing. Such a reservation lasts ten minutes and then pauses for
//! ten, takes a tenth of the nodes at most, stays within what the queue is to have, and keeps no pod from being evicted
//! for the gang.
use std::collections::BTreeSet;
use std::sync::Arc;

use super::sub_groups::{LackingSubGroup, WaitingSubGroups};
use super::{TaskQueue, hyper_nodes};
use crate::network::{Domain, Room, RoomOf};
use crate::session::{Session, is_within};
use crate::statement::Statement;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::id::{JobId, NodeId, TaskId};
use phalanx_cluster::{Cluster, Status};

/// Of so many nodes, one may be kept for repairs.
const NODES_PER_KEPT: usize = 10;
/// Nodes that are looked at in the time of one step.
const NODES_PER_STEP: usize = 4;

/// Whether a gang keeps nodes for a repair.
pub(crate) fn is_repair(session: &Session<'_>, job: JobId) -> bool {
    session.state.reservations.is_repair(job) && session.cluster.jobs[job].counts.of(Status::Pipelined) > 0
}

/// Takes the places of a repair back, so that its members are placed where there is room.
pub(crate) fn take_back(statement: &mut Statement<'_, '_>, job: JobId) {
    if is_repair(statement.session(), job) {
        statement.unplace_reserved(job);
    }
}

/// The gang has other places than those that were kept for a repair.
pub(crate) fn end(session: &mut Session<'_>, job: JobId) {
    session.state.reservations.end_repair(job);
}

/// Keeps nodes for what a running gang lacks. Returns false when the gang is whole, has had its ten minutes, or there
/// are no such nodes: then it keeps none.
pub(super) fn keep_places(session: &mut Session<'_>, job: JobId) -> bool {
    if session.state.reservations.is_paused(job) {
        return false;
    }
    let Some(nodes) = session.lost_members(job).then(|| reserve(session, job)).flatten() else {
        end(session, job);
        return false;
    };
    session.state.reservations.begin_repair(session.cluster, job, session.now);
    tell(session, job, nodes);
    true
}

/// Reserves a node for each member that has none, in the first HyperNode where that works, sub-groups whole. Returns
/// those nodes on which resources are missing.
fn reserve(session: &mut Session<'_>, job: JobId) -> Option<Vec<NodeId>> {
    let mut statement = session.statement();
    take_back(&mut statement, job);
    let mut tasks = TaskQueue::of_requests(statement.session(), job).into_tasks();
    tasks.retain(|task| statement.session().cluster.tasks[*task].status == Status::Pending);
    let session = statement.session();
    let domains = if hyper_nodes::applies(session, job) {
        let room = Room::new(session, &tasks, RoomOf::Allocatable);
        let groups = WaitingSubGroups::new(session.cluster, job, &tasks);
        let domains = hyper_nodes::domains(session, job, &tasks, &groups, &room).ok()?;
        hyper_nodes::tried(session.cluster, domains)
    } else {
        vec![Domain::default()]
    };
    let all = kept_for_repairs(statement.session());
    let lacking = domains.into_iter().find_map(|domain| {
        statement.nested(|statement| {
            let mut kept = Kept { all: all.clone(), lacking: Vec::new() };
            reserve_in(statement, job, &domain, &tasks, &mut kept)?;
            let is_kept = !kept.lacking.is_empty() && may_keep(statement.session(), job);
            is_kept.then_some(kept.lacking)
        })
    });
    statement.session().chosen_domain = None;
    let lacking = lacking?;
    statement.commit(&Arc::default());
    Some(lacking)
}

/// Reserves nodes in a domain until the gang is whole with them; `None` where a member finds none.
fn reserve_in(
    statement: &mut Statement<'_, '_>,
    job: JobId,
    domain: &Domain,
    tasks: &[TaskId],
    kept: &mut Kept,
) -> Option<()> {
    let mut groups = WaitingSubGroups::new(statement.session().cluster, job, tasks);
    for at in 0..groups.lacking.len() {
        if statement.session().job_pipelined(job) {
            return Some(());
        }
        if reserve_sub_group(statement, job, domain, &groups.lacking[at], kept).is_some() {
            groups.note_whole(at);
        }
    }
    if hyper_nodes::applies(statement.session(), job) {
        hyper_nodes::choose(statement.session(), job, domain, false);
    }
    for task in groups.rest(tasks) {
        if statement.session().job_pipelined(job) {
            break;
        }
        let node = node_for(statement.session(), task, kept)?;
        statement.pipeline(task, node);
    }
    Some(())
}

/// Reserves nodes for all pods that a sub-group lacks, or for none.
fn reserve_sub_group(
    statement: &mut Statement<'_, '_>,
    job: JobId,
    inside: &Domain,
    group: &LackingSubGroup,
    kept: &mut Kept,
) -> Option<()> {
    let session = statement.session();
    let room = Room::new(session, &group.members, RoomOf::Allocatable);
    let own = session.cluster.jobs[job].sub_groups[group.policy].topology.is_some();
    let domains = hyper_nodes::sub_group_domains(session, job, group, inside, &room).ok()?;
    domains.into_iter().find_map(|domain| {
        let before = kept.clone();
        let reserved = statement.nested(|statement| {
            hyper_nodes::choose(statement.session(), job, &domain, own);
            group.members.iter().try_for_each(|task| {
                let node = node_for(statement.session(), *task, kept)?;
                statement.pipeline(*task, node);
                Some(())
            })
        });
        if reserved.is_none() {
            *kept = before;
        }
        reserved
    })
}

/// Nodes that are kept for repairs.
#[derive(Clone)]
struct Kept {
    all: BTreeSet<NodeId>,
    /// Nodes of this gang on which resources are missing.
    lacking: Vec<NodeId>,
}

/// The nodes that are kept for the repairs of all gangs.
fn kept_for_repairs(session: &Session<'_>) -> BTreeSet<NodeId> {
    let cluster = &*session.cluster;
    let jobs = session.state.reservations.repairs();
    let tasks = jobs.flat_map(|job| &cluster.jobs[job].tasks).map(|task| &cluster.tasks[*task]);
    tasks.filter(|task| task.status == Status::Pipelined).filter_map(|task| task.node).collect()
}

/// Whether the gang is whole with its places, and its queue within what it is to have.
fn may_keep(session: &Session<'_>, job: JobId) -> bool {
    session.job_pipelined(job) && session.overused(session.cluster.jobs[job].queue).is_none()
}

fn tell(session: &mut Session<'_>, job: JobId, mut nodes: Vec<NodeId>) {
    nodes.sort_unstable();
    nodes.dedup();
    let first = nodes.iter().map(|node| session.cluster.nodes[*node].name.clone()).min();
    if let Some(first) = first {
        session.refuse(job, Refusal::KeptForRepair { first, nodes: nodes.len() as u32 });
    }
}

/// A node with room for a task, else one that is kept from now on.
fn node_for(session: &mut Session<'_>, task: TaskId, kept: &mut Kept) -> Option<NodeId> {
    let job = session.cluster.tasks[task].job?;
    session.allocatable(task).ok()?;
    let node = match session.best_node(task) {
        Some(best) => best.node,
        None if requests_resources_only(session.cluster, task) => {
            session.placement_budget.spend(job, session.cluster.nodes.len() / NODES_PER_STEP).ok()?;
            let node = node_that_lacks_least(session, task)?;
            kept.lacking.push(node);
            node
        }
        None => return None,
    };
    kept.all.insert(node);
    (kept.all.len() <= (session.cluster.nodes.len() / NODES_PER_KEPT).max(1)).then_some(node)
}

/// Whether resources are all that a task needs of a node: whether ports, volumes and other pods admit it later is not
/// known.
fn requests_resources_only(cluster: &Cluster, task: TaskId) -> bool {
    let class = cluster.class_of(task);
    let alone = class.carried.is_empty() && cluster.terms.symmetric(class).next().is_none();
    alone
        && class.pvcs.is_empty()
        && class.constraints.host_ports.is_empty()
        && class.constraints.disks.is_empty()
        && cluster.tasks[task].claims.is_none()
}

/// The node that is kept for a task already, else the one that lacks the least, and could have enough.
fn node_that_lacks_least(session: &mut Session<'_>, task: TaskId) -> Option<NodeId> {
    let within = session.nodes_for(task);
    let Session { cluster, tiers, state, .. } = session;
    let it = &cluster.tasks[task];
    let admits = state.placement.admits(cluster, tiers, it.class);
    let may_go = |node: &NodeId| is_within(within.as_ref(), *node);
    let may = |node: &NodeId| {
        may_go(node) && admits(*node) && cluster.nodes[*node].exists && could_fit(cluster, task, *node)
    };
    let known = it.written.nominated.as_ref().and_then(|name| cluster.node_named(name)).filter(&may);
    let lack = |node: NodeId| {
        let room = cluster.nodes[node].future_idle();
        let share = |(dim, asked): (_, i64)| {
            let missing = (asked - room.get(dim)).max(0);
            (i128::from(missing) * 1_000_000 / i128::from(asked.max(1))) as i64
        };
        cluster.request_of(task).iter().map(share).max().unwrap_or(0)
    };
    known.or_else(|| {
        let nodes = cluster.nodes.ids().filter(&may);
        nodes.min_by_key(|node| (lack(*node), cluster.nodes[*node].name.clone()))
    })
}

/// Whether a node would have room if all pods of other jobs ended. A node on which another job has a reservation is not
/// kept: the other job would lose its place and evict for it again.
fn could_fit(cluster: &Cluster, task: TaskId, node: NodeId) -> bool {
    let (it, node) = (&cluster.tasks[task], &cluster.nodes[node]);
    let mut room = node.future_idle();
    for other in node.tasks.iter().map(|other| &cluster.tasks[*other]).filter(|other| other.job != it.job) {
        if other.status == Status::Pipelined {
            return false;
        }
        if other.status.is_allocated() {
            room.add(&cluster.classes[other.class].request);
        }
    }
    cluster.request_of(task).fits(&room)
}
