//! Strategy *domain*: one topology domain after the other, for members that have to be in one.
//!
//! Placed one by one, the first member decides for all, and its best node may be in a domain that has no room for the
//! others. Guarantees: a domain is found among the [`DOMAINS_MAX`] with the most room for the first member, if the
//! greedy strategy places the gang there.
use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::greedy::Greedy;
use super::{Goal, Request};
use crate::session::Session;
use crate::statement::Statement;
use phalanx_cluster::id::{JobId, NodeId, TaskId, TermId};
use phalanx_cluster::search_budget::Cut;
use phalanx_cluster::{Cluster, Node};
use phalanx_framework::placement::Fit;

/// Domains that are tried for a gang at most.
const DOMAINS_MAX: usize = 16;

/// Whether members may have to be in one domain.
pub(crate) fn may_help(cluster: &Cluster, tasks: &[TaskId]) -> bool {
    tasks.iter().any(|task| !cluster.class_of(*task).carried.affinity.is_empty())
}

/// Places a gang in one domain.
pub(super) fn find(
    statement: &mut Statement<'_, '_>,
    request: Request,
    members: &[TaskId],
) -> Result<Option<Goal>, Cut> {
    statement.unplace_all(members);
    let Some(choice) = Choice::of(statement.session().cluster, members) else { return Ok(None) };
    let nodes = statement.session().cluster.nodes.len();
    statement.session().placement_budget.spend(request.job, 2 * nodes)?;
    choice.try_domains(statement, request.job, members, |statement| {
        statement.session().placement_budget.spend(request.job, members.len())?;
        if !statement.session().job_ready(request.job) {
            let rest = members.iter().copied().filter(|task| *task != choice.first);
            Greedy::default().place_tasks(statement, request.job, rest);
        }
        Ok(request.reached(statement.session()))
    })
}

/// The choice of a gang among the domains of a topology.
pub(crate) struct Choice {
    /// The first task that its own term selects while no such pod exists anywhere: the other members follow it.
    pub(crate) first: TaskId,
    /// The term of that task with the most domains.
    term: TermId,
}

/// A domain with room for the first task.
struct Domain {
    /// How many tasks like the first one fit the domain.
    capacity: u64,
    best: Candidate,
}

/// A node for the first task.
#[derive(Clone, Copy)]
struct Candidate {
    node: NodeId,
    fit: Fit,
    /// How many tasks like the first one fit the node.
    capacity: u64,
}

impl Candidate {
    fn is_better_than(self, other: Self) -> bool {
        (self.fit == Fit::Idle, self.capacity) > (other.fit == Fit::Idle, other.capacity)
    }
}

impl Choice {
    /// `None` when none of these tasks has a choice.
    pub(crate) fn of(cluster: &Cluster, tasks: &[TaskId]) -> Option<Self> {
        let choice = |task: &TaskId| cluster.terms.free_affinity(cluster.class_of(*task));
        tasks.iter().find_map(|task| choice(task).map(|term| Self { first: *task, term }))
    }

    /// The domain of a node, if the node is in one.
    pub(crate) fn domain(&self, cluster: &Cluster, node: NodeId) -> Option<u32> {
        cluster.terms.domain_of(self.term, node)
    }

    /// Tries one domain after the other, those with the most room first: the first task gets the best node there, and
    /// `place_rest` places the others.
    pub(crate) fn try_domains<R, E>(
        &self,
        statement: &mut Statement<'_, '_>,
        job: JobId,
        tasks: &[TaskId],
        mut place_rest: impl FnMut(&mut Statement<'_, '_>) -> Result<Option<R>, E>,
    ) -> Result<Option<R>, E> {
        for node in self.nodes(statement.session(), job, tasks) {
            let placed = statement.nested(|statement| {
                let is_there = statement.place_if_allowed(self.first, node).is_some();
                if is_there { place_rest(statement) } else { Ok(None) }
            })?;
            if placed.is_some() {
                return Ok(placed);
            }
        }
        Ok(None)
    }

    /// The best node for the first task in each domain that may have room for all tasks like it; the domains with the
    /// most room come first.
    fn nodes(&self, session: &mut Session<'_>, job: JobId, tasks: &[TaskId]) -> Vec<NodeId> {
        let wanted = least_like_first(session.cluster, job, tasks, self.first);
        let mut domains = self.domains(session);
        domains.retain(|domain| domain.capacity >= wanted);
        let name = |domain: &Domain| session.cluster.nodes[domain.best.node].name.clone();
        domains.sort_by_cached_key(|domain| (Reverse(domain.capacity), name(domain)));
        domains.into_iter().take(DOMAINS_MAX).map(|domain| domain.best.node).collect()
    }

    fn domains(&self, session: &mut Session<'_>) -> Vec<Domain> {
        let mut domains: FxHashMap<u32, Domain> = FxHashMap::default();
        for node in session.cluster.nodes.ids().collect::<Vec<_>>() {
            let Some(domain) = self.domain(session.cluster, node) else { continue };
            let Some(fit) = session.fit_unless_tried(self.first, node, &[]) else { continue };
            let capacity = capacity_for(session.cluster, self.first, &session.cluster.nodes[node]);
            let candidate = Candidate { node, fit, capacity };
            let known = domains.entry(domain).or_insert(Domain { capacity: 0, best: candidate });
            known.capacity += capacity;
            if candidate.is_better_than(known.best) {
                known.best = candidate;
            }
        }
        domains.into_values().collect()
    }
}

/// How many tasks like this one fit the idle and releasing resources of a node.
fn capacity_for(cluster: &Cluster, task: TaskId, node: &Node) -> u64 {
    let room = node.future_idle();
    let asked = cluster.request_of(task).iter().filter(|(_, amount)| *amount > 0);
    asked.map(|(dim, amount)| (room.get(dim).max(0) / amount) as u64).min().unwrap_or(u64::from(u32::MAX))
}

/// How many tasks of the first one's class the gang needs at the least.
fn least_like_first(cluster: &Cluster, job: JobId, tasks: &[TaskId], first: TaskId) -> u64 {
    let class = cluster.tasks[first].class;
    let others = tasks.iter().filter(|task| cluster.tasks[**task].class != class).count() as u64;
    let job = &cluster.jobs[job];
    u64::from(job.min_member.saturating_sub(job.counts.ready())).saturating_sub(others)
}
