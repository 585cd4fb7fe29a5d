//! Repairs gather room: a running gang that lost members keeps a node for each that finds no place, until enough comes free.
//!
//! What comes free little by little would otherwise always go to new jobs that ask for less, and what the rest of the gang
//! holds would be of no use for ever. The place is a nomination like any other, on a node that lacks the least: nobody else is
//! placed there as long as it lacks room. It holds for some time, then as long not, on a tenth of the nodes at the most, and
//! within what the queue is to have; and it stops nobody from being evicted for the gang.
use std::collections::BTreeSet;
use std::sync::Arc;

use super::work::Work;
use crate::session::Session;
use crate::statement::Statement;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{JobId, NodeId, TaskId};
use phalanx_cluster::{Cluster, Status};

/// How long a gang gathers room before it lets others have it for as long, in milliseconds.
const PATIENCE: i64 = 600_000;
/// Of so many nodes, one may be kept.
const NODES: usize = 10;
/// Nodes that are looked at in the time in which one place is tried.
const SCANNED: usize = 4;

/// Whether a gang gathers room that is not there yet.
pub(crate) fn is_gathering(cluster: &Cluster, job: JobId) -> bool {
    let job = &cluster.jobs[job];
    job.gathers && job.counts.of(Status::Pipelined) > 0
}

/// The nodes that are kept already count first: gangs whose order changes with what they hold would take turns.
pub(crate) fn go_on(session: &mut Session<'_>, jobs: &[JobId]) {
    let cluster = &*session.cluster;
    let gathering =
        jobs.iter().filter(|job| is_gathering(cluster, **job)).flat_map(|job| &cluster.jobs[*job].tasks);
    let kept = gathering.map(|task| &cluster.tasks[*task]).filter(|task| task.status == Status::Pipelined);
    let nodes: BTreeSet<NodeId> = kept.filter_map(|task| task.node).collect();
    session.gathered.extend(nodes);
}

/// Takes the places of a gang that gathers room back, to be placed where there is room.
pub(crate) fn pause(statement: &mut Statement<'_, '_>, job: JobId) {
    let cluster = &*statement.session().cluster;
    if !is_gathering(cluster, job) {
        return;
    }
    let nominated = |task: &TaskId| cluster.tasks[*task].status == Status::Pipelined;
    let tasks: Vec<TaskId> = cluster.jobs[job].tasks.iter().copied().filter(nominated).collect();
    for task in tasks {
        statement.unplace(task);
    }
}

/// The gang has its places, or is none that may gather room.
pub(crate) fn end(session: &mut Session<'_>, job: JobId) {
    let job = &mut session.cluster.jobs[job];
    (job.gathers, job.gathering) = (false, None);
}

/// Keeps places for what a broken gang lacks. False when it is whole, or has waited for long, or there is no such place:
/// then it keeps none.
pub(crate) fn gather(session: &mut Session<'_>, job: JobId) -> bool {
    let (before, gathering) = (session.gathered.len(), begin(session, job));
    let gathers = gathering && keep_places(session, job);
    if !gathers {
        session.gathered.truncate(before);
    }
    session.cluster.jobs[job].gathers = gathers;
    gathers
}

/// Whether it is time for it.
fn begin(session: &mut Session<'_>, id: JobId) -> bool {
    let now = session.now.0;
    let job = &mut session.cluster.jobs[id];
    if !job.is_broken() {
        (job.gathers, job.gathering) = (false, None);
        return false;
    }
    let since = *job.gathering.get_or_insert(session.now);
    let waited = now.saturating_sub(since.0);
    if waited >= 2 * PATIENCE {
        job.gathering = Some(session.now);
    }
    !(PATIENCE..2 * PATIENCE).contains(&waited)
}

/// When a gang ends to gather room, or may gather it again after others have had it.
pub(crate) fn turns(cluster: &Cluster, jobs: &[JobId], now: Time) -> Option<Time> {
    let turn = |job: JobId| {
        let job = &cluster.jobs[job];
        let since = job.gathering.filter(|_| job.is_broken())?;
        Some(Time(since.0.saturating_add(if job.gathers { PATIENCE } else { 2 * PATIENCE })))
    };
    jobs.iter().copied().filter_map(turn).filter(|turn| *turn > now).min()
}

fn keep_places(session: &mut Session<'_>, job: JobId) -> bool {
    let mut nodes = Vec::new();
    let mut statement = session.statement();
    pause(&mut statement, job);
    for task in Work::of_requests(statement.session(), job).into_tasks() {
        if statement.session().job_pipelined(job) {
            break;
        }
        if statement.session().cluster.tasks[task].status == Status::Pending {
            let Some(node) = place_for(statement.session(), task, &mut nodes) else { return false };
            statement.pipeline(task, node);
        }
    }
    if nodes.is_empty() || !may_keep(statement.session(), job) {
        return false;
    }
    statement.commit(&Arc::default());
    tell(session, job, nodes);
    true
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
        session.refuse(job, Refusal::Gathering { first, nodes: nodes.len() as u32 });
    }
}

/// Where there is room, or else a node that is kept from now on.
fn place_for(session: &mut Session<'_>, task: TaskId, nodes: &mut Vec<NodeId>) -> Option<NodeId> {
    let job = session.cluster.tasks[task].job?;
    session.allocatable(session.cluster.jobs[job].queue, task).ok()?;
    let node = match session.best_node(task) {
        Some(spot) => spot.node,
        None if is_plain(session.cluster, task) => {
            session.searches.spend(job, session.cluster.nodes.len() / SCANNED).ok()?;
            nodes.push(nearest(session, task)?);
            *nodes.last()?
        }
        None => return None,
    };
    if !session.gathered.contains(&node) {
        session.gathered.push(node);
    }
    (session.gathered.len() <= (session.cluster.nodes.len() / NODES).max(1)).then_some(node)
}

/// Whether room is all it waits for: of the rest nothing is known before it is there.
fn is_plain(cluster: &Cluster, task: TaskId) -> bool {
    let class = cluster.class_of(task);
    let alone = class.carried.is_empty() && cluster.terms.outward(class).next().is_none();
    alone
        && class.pvcs.is_empty()
        && class.constraints.host_ports.is_empty()
        && class.constraints.disks.is_empty()
        && cluster.tasks[task].claims.is_none()
}

/// The node on which room is gathered already, else the one that lacks the least, and could have enough.
fn nearest(session: &mut Session<'_>, task: TaskId) -> Option<NodeId> {
    let Session { cluster, tiers, placement, .. } = session;
    let it = &cluster.tasks[task];
    let admits = placement.admits(cluster, tiers, it.class);
    let may = |node: &NodeId| admits(*node) && cluster.nodes[*node].exists && could_fit(cluster, task, *node);
    let known = it.nominated.as_ref().and_then(|name| cluster.node_named(name)).filter(&may);
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

/// Whether a node would have room if all pods of other jobs ended. Where another job has a place reserved nothing is gathered:
/// it would lose it, and evict for it again.
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
