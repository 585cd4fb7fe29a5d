//! A second look at a gang whose members have to be in one topology domain.
//!
//! Placed one by one, the first member decides for all, and looks at its own needs only: the best node for it may be in a
//! domain that has no room for the others. Here the domains are tried in turn, those with the most room first.
use rustc_hash::FxHashMap;

use super::attempt::Attempt;
use super::{pack, start};
use crate::session::Session;
use crate::statement::Statement;
use phalanx_cluster::budget::Cut;
use phalanx_cluster::id::{JobId, NodeId, TaskId, TermId};
use phalanx_cluster::{Cluster, Node};
use phalanx_framework::placement::Fit;

/// Domains that are tried for a gang at most.
const DOMAINS: usize = 16;

/// Whether members may have to be in one domain.
pub(crate) fn may_help(cluster: &Cluster, tasks: &[TaskId]) -> bool {
    tasks.iter().any(|task| !cluster.class_of(*task).carried.affinity.is_empty())
}

/// Places a gang that may choose its domain, if any of those that are tried has room for it, or with `later` will have it, and
/// commits it.
pub(crate) fn place_whole(
    session: &mut Session<'_>,
    job: JobId,
    tasks: &[TaskId],
    later: bool,
) -> Result<bool, Cut> {
    if !may_help(session.cluster, tasks) {
        return Ok(false);
    }
    let mut statement = session.statement();
    for task in tasks {
        if statement.session().cluster.tasks[*task].node.is_some() {
            statement.unplace(*task);
        }
    }
    let Some(choice) = Choice::of(statement.session().cluster, tasks) else { return Ok(false) };
    let nodes = statement.session().cluster.nodes.len();
    statement.session().searches.spend(job, 2 * nodes)?;
    for home in choice.homes(statement.session(), job, tasks) {
        statement.session().searches.spend(job, tasks.len())?;
        let mut attempt = statement.nested();
        if place_at(&mut attempt, job, tasks, &choice, home) && (later || attempt.session().job_ready(job)) {
            start::at_once(&mut attempt, job);
            attempt.keep();
            pack::commit(statement, job);
            return Ok(true);
        }
    }
    Ok(false)
}

/// A gang may choose its domain.
pub(crate) struct Choice {
    /// The first task that its own terms mean, as long as there is no such pod anywhere: where it is, others follow.
    pub(crate) first: TaskId,
    /// The term of its with the most domains.
    term: TermId,
}

impl Choice {
    /// `None` when none of these tasks has a choice.
    pub(crate) fn of(cluster: &Cluster, tasks: &[TaskId]) -> Option<Self> {
        let choice = |task: &TaskId| cluster.terms.choice(cluster.class_of(*task));
        tasks.iter().find_map(|task| choice(task).map(|term| Self { first: *task, term }))
    }

    /// The domain of a node, if it counts.
    pub(crate) fn domain(&self, cluster: &Cluster, node: NodeId) -> Option<u32> {
        cluster.terms.domain_of(self.term, node)
    }

    /// The node for the first task in each domain that may have room for all like it, the most roomy domains first.
    pub(crate) fn homes(&self, session: &mut Session<'_>, job: JobId, tasks: &[TaskId]) -> Vec<NodeId> {
        let wanted = wanted(session.cluster, job, tasks, self.first);
        let mut domains = self.domains(session);
        domains.retain(|domain| domain.room >= wanted);
        let name = |domain: &Domain| session.cluster.nodes[domain.home.2].name.clone();
        domains.sort_by_cached_key(|domain| (std::cmp::Reverse(domain.room), name(domain)));
        domains.into_iter().take(DOMAINS).map(|domain| domain.home.2).collect()
    }

    fn domains(&self, session: &mut Session<'_>) -> Vec<Domain> {
        let mut domains: FxHashMap<u32, Domain> = FxHashMap::default();
        for node in session.cluster.nodes.ids().collect::<Vec<_>>() {
            let Some(domain) = self.domain(session.cluster, node) else { continue };
            let Some(room) = session.room(self.first, node, &[]) else { continue };
            let many = many(session.cluster, self.first, &session.cluster.nodes[node]);
            let home = (room, many, node);
            let known = domains.entry(domain).or_insert(Domain { room: 0, home });
            known.room += many;
            let better = |(room, many, _): (Fit, u64, NodeId)| (room == Fit::Idle, many);
            if better(home) > better(known.home) {
                known.home = home;
            }
        }
        domains.into_values().collect()
    }

    /// Gives the first task this node, if its queue may have it and there is or will be room.
    pub(crate) fn begin(&self, statement: &mut Statement<'_, '_>, job: JobId, home: NodeId) -> bool {
        let session = statement.session();
        if session.allocatable(session.cluster.jobs[job].queue, self.first).is_err() {
            return false;
        }
        match session.room(self.first, home, &[]) {
            Some(Fit::Idle) => statement.allocate(self.first, home),
            Some(Fit::FutureIdle) => statement.pipeline(self.first, home),
            None => return false,
        }
        true
    }
}

/// A domain: its best node for the first task, and how many like it have room there.
struct Domain {
    room: u64,
    home: (Fit, u64, NodeId),
}

/// How many tasks like this one a node has, or will have, room for.
fn many(cluster: &Cluster, task: TaskId, node: &Node) -> u64 {
    let room = node.future_idle();
    let asked = cluster.request_of(task).iter().filter(|(_, amount)| *amount > 0);
    asked.map(|(dim, amount)| (room.get(dim).max(0) / amount) as u64).min().unwrap_or(u64::from(u32::MAX))
}

/// How many tasks of the first one's class the gang needs at the least.
fn wanted(cluster: &Cluster, job: JobId, tasks: &[TaskId], first: TaskId) -> u64 {
    let class = cluster.tasks[first].class;
    let others = tasks.iter().filter(|task| cluster.tasks[**task].class != class).count() as u64;
    let job = &cluster.jobs[job];
    u64::from(job.min_member.saturating_sub(job.counts.ready())).saturating_sub(others)
}

fn place_at(
    statement: &mut Statement<'_, '_>,
    job: JobId,
    tasks: &[TaskId],
    choice: &Choice,
    home: NodeId,
) -> bool {
    if !choice.begin(statement, job, home) {
        return false;
    }
    let rest = tasks.iter().copied().filter(|task| *task != choice.first);
    Attempt::default().place_all(statement, job, rest);
    let session = statement.session();
    session.job_ready(job) || session.job_pipelined(job)
}
