//! How a gang that can start, with a network topology or sub-groups, gets nodes for more of its pods.
use std::sync::Arc;

use phalanx_cluster::Status;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::id::{JobId, TaskId};

use super::hyper_nodes::{Enough, Placing, Shortfall, domains, place_in, tried};
use super::sub_groups::WaitingSubGroups;
use super::{Goal, Served, TaskQueue};
use crate::network::{Room, RoomOf};
use crate::plan;
use crate::session::Session;

/// Gives a job that can start a node for its next task, or nodes for its next sub-group.
pub(super) fn grow(session: &mut Session<'_>, job: JobId, queue: &mut TaskQueue) -> Served {
    queue.restart(session);
    let tasks: Vec<TaskId> = queue.by_ref().collect();
    if tasks.is_empty() {
        return Served::Done;
    }
    let room = Room::new(session, &tasks, RoomOf::from(Goal::Reserve));
    let groups = WaitingSubGroups::new(session.cluster, job, &tasks);
    let placing = Placing { job, room: &room, groups: &groups, enough: Enough::Ready };
    let domains =
        domains(session, job, &tasks, &groups, &room).map(|domains| tried(session.cluster, domains));
    let (before, mut shortfall) = (count_placed(session, &tasks), Shortfall::default());
    let mut statement = session.statement();
    let grew = domains.as_ref().is_ok_and(|domains| {
        domains.iter().any(|domain| {
            place_in(&mut statement, placing, domain, &tasks, &mut shortfall);
            count_placed(statement.session(), &tasks) > before
        })
    });
    statement.session().chosen_domain = None;
    plan::commit(statement, job, &Arc::default());
    let reserved = session.cluster.jobs[job].counts.of(Status::Pipelined);
    let waits = (!grew && reserved > 0).then_some(Refusal::Reserved(reserved));
    let lacks = match domains {
        Err(fault) => Some(Refusal::Topology(fault)),
        Ok(_) => shortfall.into_refusal().filter(|_| !grew),
    };
    for refusal in waits.into_iter().chain(lacks) {
        session.refuse(job, refusal);
    }
    queue.restart(session);
    if grew && !queue.is_empty() { Served::MoreToDo } else { Served::Done }
}

/// How many of these tasks have a node, and how many a node where they start.
fn count_placed(session: &Session<'_>, tasks: &[TaskId]) -> usize {
    let count = |task: &TaskId| match session.cluster.tasks[*task].status {
        Status::Pending => 0,
        Status::Pipelined => 1,
        _ => 2,
    };
    tasks.iter().map(count).sum()
}
