//! The gang planner: finds nodes for enough members of a job to start, for all of them in one Statement or for none.
//!
//! [`serve`] tries the [`STRATEGIES`] in order, first for a start on idle resources, then for a reservation of
//! resources that are being released. Each goal is tried without the reservations of other jobs before any of them is
//! taken over. One function commits the first plan that is found ([`plan::commit`]).
pub(crate) mod backtracking;
pub(crate) mod domain;
mod fill;
mod greedy;
mod grow;
pub(crate) mod hyper_nodes;
mod planner;
pub(crate) mod repair;
pub(crate) mod reserved;
pub(crate) mod sub_groups;
pub(crate) mod takeover;
mod tasks;

use std::sync::Arc;

use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::search_budget::Cut;

use crate::plan;
use crate::session::Session;
use crate::statement::Statement;
use planner::GangPlanner;
pub(crate) use tasks::{TaskQueue, unplaced};

/// How serving a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// The job has what it needs to start, and more tasks that compete with other jobs.
    MoreToDo,
    /// There is nothing more to do for the job in this cycle.
    Done,
}

/// What a plan is to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Enough members to start are on idle resources.
    Start,
    /// Enough members have nodes, where resources that are being released count as idle.
    Reserve,
}

impl Goal {
    /// What a job has enough places for.
    fn reached(session: &Session<'_>, job: JobId) -> Option<Self> {
        if session.job_ready(job) {
            return Some(Goal::Start);
        }
        session.job_pipelined(job).then_some(Goal::Reserve)
    }
}

/// The gang to plan, and what for.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    job: JobId,
    goal: Goal,
}

impl Request {
    /// The goal that the job has reached, if that is enough.
    fn reached(self, session: &Session<'_>) -> Option<Goal> {
        Goal::reached(session, self.job).filter(|reached| self.is_met_by(*reached))
    }

    fn is_met_by(self, reached: Goal) -> bool {
        reached == Goal::Start || self.goal == Goal::Reserve
    }
}

/// One way to find nodes for a gang. It returns what the places are enough for that it leaves in the Statement. What it
/// did is undone where it returns none.
struct GangStrategy {
    /// For a strategy that compares many ways: whether it may find places that the greedy strategy does not. Such a
    /// strategy is not repeated while its last failure stands.
    search: Option<fn(&Session<'_>, &[TaskId]) -> bool>,
    find: fn(&mut GangPlanner<'_>, &mut Statement<'_, '_>, Request) -> Result<Option<Goal>, Cut>,
}

static RESERVED: GangStrategy =
    GangStrategy { search: None, find: |_, statement, request| Ok(reserved::find(statement, request)) };

/// The strategy that also gives a job that can start a node for its next task.
static GREEDY: GangStrategy =
    GangStrategy { search: None, find: |planner, statement, request| Ok(planner.greedy(statement, request)) };

/// The strategy for a gang with a network topology or sub-groups.
static HYPER_NODES: GangStrategy = GangStrategy {
    search: None,
    find: |planner, statement, request| Ok(planner.hyper_nodes(statement, request)),
};

/// The strategies, in the order in which they are tried. Each says in its file what it guarantees.
static STRATEGIES: [&GangStrategy; 4] = [
    &RESERVED,
    &GREEDY,
    &GangStrategy {
        search: Some(|session, members| domain::may_help(session.cluster, members)),
        find: |planner, statement, request| {
            let members = planner.members(statement);
            domain::find(statement, request, &members)
        },
    },
    &GangStrategy {
        search: Some(backtracking::may_help),
        find: |planner, statement, request| {
            let members = planner.members(statement);
            backtracking::find(statement, request, &members)
        },
    },
];

/// Gives a job nodes: a gang that cannot start is planned as a whole, a job that can start gets a node for its next
/// task.
pub(crate) fn serve(session: &mut Session<'_>, job: JobId, queue: &mut TaskQueue) -> Served {
    let deferred = session.state.backlog.take_deferred(job);
    session.placement_budget.begin_job(deferred.then_some(job));
    if hyper_nodes::applies(session, job) && session.job_ready(job) {
        return grow::grow(session, job, queue);
    }
    let mut planner = GangPlanner::new(session, job, queue);
    let mut statement = session.statement();
    let planned = planner.plan(&mut statement);
    if planned.is_some() {
        plan::commit(statement, job, &Arc::default());
    } else {
        drop(statement);
    }
    planner.end(session, planned)
}
