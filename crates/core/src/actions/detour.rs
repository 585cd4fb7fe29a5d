//! Other places for a job that would let a gang down where it is served best.
//!
//! What promised places rest on depends on where pods come, mostly on the zone or the node. So where a task's best node would let
//! a waiting gang down ([`reliance`](super::reliance)), the others are tried in the order of their scores, one of those in the same
//! zones and the like: each task goes to the first on which no gang is let down.
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::work::Work;
use super::{pack, reliance};
use crate::session::Session;
use crate::statement::Statement;
use phalanx_cluster::Status;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::id::{ClassId, JobId, TaskId};
use phalanx_framework::placement::{Room, Spot};

/// Nodes that are tried for a task, none in the same domains as another.
const NODES: usize = 16;
/// Nodes that are rated in the time in which one place is tried.
const SCANNED: usize = 16;

/// Places tasks until the job is ready, or has all of its places, and commits that; false when it does not come so far.
/// Where it is served best it lets this gang down.
pub(super) fn place(session: &mut Session<'_>, job: JobId, work: &mut Work, gang: JobId) -> bool {
    let mut statement = session.statement();
    let mut refused: FxHashMap<ClassId, Refusal> = FxHashMap::default();
    let mut placed = false;
    while !(placed && statement.session().job_ready(job))
        && let Some(task) = work.next()
    {
        let class = statement.session().world.tasks[task].class;
        if refused.contains_key(&class) {
            continue;
        }
        match place_one(&mut statement, (job, task), gang) {
            Ok(()) => placed = true,
            Err(refusal) => drop(refused.insert(class, refusal)),
        }
    }
    let reached = statement.session();
    if !placed || !(reached.job_ready(job) || reached.job_pipelined(job)) {
        return false;
    }
    pack::commit(statement, job);
    let mut refused: Vec<(ClassId, Refusal)> = refused.into_iter().collect();
    refused.sort_unstable_by_key(|(class, _)| *class);
    for (_, refusal) in refused {
        session.refuse(job, refusal);
    }
    true
}

fn place_one(
    statement: &mut Statement<'_, '_>,
    (job, task): (JobId, TaskId),
    mut gang: JobId,
) -> Result<(), Refusal> {
    let session = statement.session();
    if session.world.tasks[task].status == Status::Pipelined {
        statement.unplace(task);
    }
    let session = statement.session();
    session.allocatable(session.world.jobs[job].queue, task)?;
    let (nodes, members) = (session.world.nodes.len(), session.world.jobs[job].tasks.len());
    session.searches.spend(job, nodes / SCANNED).map_err(Refusal::Search)?;
    let spots = session.spots(task);
    if spots.is_empty() {
        return Err(session.no_node(task));
    }
    let mut tried: FxHashSet<SmallVec<[Option<u32>; 4]>> = FxHashSet::default();
    for Spot { node, room } in spots {
        let session = statement.session();
        if !tried.insert(reliance::domains(session.world, task, node)) {
            continue;
        }
        if tried.len() > NODES || !reliance::may_seek(session) {
            break;
        }
        session.searches.spend(job, members).map_err(Refusal::Search)?;
        let mut attempt = statement.nested();
        match room {
            Room::Now => attempt.allocate(task, node),
            Room::Later => attempt.pipeline(task, node),
        }
        let Some(fallen) = reliance::let_down(&mut attempt, job) else {
            attempt.keep();
            return Ok(());
        };
        gang = fallen;
    }
    Err(reliance::refusal(statement.session(), gang))
}
