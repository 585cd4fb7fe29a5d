//! Gangs with a network topology, and gangs of sub-groups: one HyperNode after the other is tried for the whole gang.
//!
//! HyperNodes come by tier, and within a tier the tightest fit first (`network::domains`). In a HyperNode the members
//! fill one of its own HyperNodes after the other, so that neighbours in the order of tasks are neighbours in the
//! network: the tightest one with room for all that are left, else the one with the most room. A sub-group is placed
//! whole, in a HyperNode of its own topology inside that of the gang, or not at all.
//!
//! Guarantees: members that are equal and carry no rules about other pods get the lowest tier that has room for them.
use std::sync::Arc;

use phalanx_cluster::diagnosis::{Refusal, TopologyFault};
use phalanx_cluster::id::{JobId, NodeId, TaskId};
use phalanx_cluster::{HyperNodeId, Status, SubGroup};

use super::greedy::Greedy;
use super::{Goal, Request, Served, TaskQueue};
use crate::network::{self, ChosenNodes, Domain, Room, RoomOf, Together};
use crate::plan;
use crate::session::Session;
use crate::statement::Statement;

/// Domains that are tried for a gang or a sub-group at most.
const DOMAINS_MAX: usize = 16;

/// The domains for a gang, the best first.
pub(super) fn domains(
    session: &mut Session<'_>,
    request: Request,
    tasks: &[TaskId],
) -> Result<Vec<Domain>, TopologyFault> {
    let room_of = if request.goal == Goal::Start { RoomOf::Idle } else { RoomOf::FutureIdle };
    let room = Room::new(session, tasks, room_of);
    let it = &session.cluster.jobs[request.job];
    let wanted = it.min_member.saturating_sub(it.counts.ready()).max(1);
    let placed = nodes_of_ready(session, &it.tasks);
    let together =
        Together { topology: it.topology.as_ref(), placed: &placed, wanted: u64::from(wanted), inside: None };
    let mut domains = network::domains(session, &room, &together)?;
    let last = domains.split_off(domains.len() - 1);
    domains.truncate(DOMAINS_MAX);
    Ok(domains.into_iter().chain(last).collect())
}

/// The nodes of members that keep them.
fn nodes_of_ready(session: &Session<'_>, tasks: &[TaskId]) -> Vec<NodeId> {
    let allocated = |task: &&TaskId| session.cluster.tasks[**task].status.is_allocated();
    session.cluster.nodes_of(tasks.iter().filter(allocated))
}

/// Places tasks of a gang in a domain, in their order, until the job is ready. Returns what it came to.
pub(super) fn find_in(
    statement: &mut Statement<'_, '_>,
    request: Request,
    domain: &Domain,
    tasks: &[TaskId],
) -> Option<Goal> {
    statement.unplace_all(tasks);
    place_in(statement, request, domain, tasks);
    request.reached(statement.session())
}

/// Places tasks in a domain until the job is ready, sub-groups whole.
pub(super) fn place_in(
    statement: &mut Statement<'_, '_>,
    request: Request,
    domain: &Domain,
    tasks: &[TaskId],
) {
    let session = statement.session();
    let groups = session.cluster.sub_groups(request.job);
    let mut rest: Vec<TaskId> = tasks.to_vec();
    for group in required_first(session, request.job, groups) {
        let placed = place_sub_group(statement, request, domain, &group, tasks);
        let session = statement.session();
        if placed && session.job_ready(request.job) {
            return;
        }
        let whole = placed || ready(session, &group) >= size_of(session, request.job, &group);
        // What a whole sub-group has beyond its size is placed like pods without one.
        let waits = |task: &TaskId| session.cluster.tasks[*task].status == Status::Pending;
        rest.retain(|task| !group.tasks.contains(task) || (whole && waits(task)));
    }
    choose(statement.session(), request.job, domain, false);
    let near = statement.session().cluster.jobs[request.job].topology.is_some();
    let fill = Fill { job: request.job, whole: false, near, wanted: rest.len() as u64 };
    let room = Room::new(statement.session(), &rest, RoomOf::FutureIdle);
    fill.domain(statement, &room, domain, &mut rest);
}

/// The sub-groups of a job that its `minSubGroups` require come first.
fn required_first(session: &Session<'_>, job: JobId, groups: Vec<SubGroup>) -> Vec<SubGroup> {
    let policies = &session.cluster.jobs[job].sub_groups;
    let mut lacking: Vec<u32> = policies.iter().map(|policy| policy.min).collect();
    let mut is_required = |group: &SubGroup| {
        let lacking = &mut lacking[group.policy];
        let required = *lacking > 0;
        *lacking = lacking.saturating_sub(1);
        required
    };
    let whole = |group: &SubGroup| ready(session, group) >= size_of(session, job, group);
    let (whole, others): (Vec<_>, Vec<_>) = groups.into_iter().partition(whole);
    for group in &whole {
        is_required(group);
    }
    let (mut first, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(is_required);
    first.extend(rest);
    first
}

fn ready(session: &Session<'_>, group: &SubGroup) -> u32 {
    let is_ready = |task: &&TaskId| session.cluster.tasks[**task].status.is_ready();
    group.tasks.iter().filter(is_ready).count() as u32
}

fn size_of(session: &Session<'_>, job: JobId, group: &SubGroup) -> u32 {
    session.cluster.jobs[job].sub_groups[group.policy].size
}

/// Places as many pods of a sub-group as it needs, or none. Returns whether it has them.
fn place_sub_group(
    statement: &mut Statement<'_, '_>,
    request: Request,
    inside: &Domain,
    group: &SubGroup,
    tasks: &[TaskId],
) -> bool {
    let session = statement.session();
    let policy = session.cluster.jobs[request.job].sub_groups[group.policy].clone();
    let lacking = policy.size.saturating_sub(ready(session, group)) as usize;
    let members: Vec<TaskId> =
        tasks.iter().copied().filter(|task| group.tasks.contains(task)).take(lacking).collect();
    if members.len() < lacking || lacking == 0 {
        return false;
    }
    let room_of = if request.goal == Goal::Start { RoomOf::Idle } else { RoomOf::FutureIdle };
    let room = Room::new(session, &members, room_of);
    let placed = nodes_of_ready(session, &group.tasks);
    let together = Together {
        topology: policy.topology.as_ref(),
        placed: &placed,
        wanted: lacking as u64,
        inside: inside.nodes.as_ref(),
    };
    let Ok(domains) = network::domains(session, &room, &together) else { return false };
    let own = policy.topology.is_some();
    let near = own || session.cluster.jobs[request.job].topology.is_some();
    domains.iter().take(DOMAINS_MAX).any(|domain| {
        statement.nested(|statement| {
            choose(statement.session(), request.job, domain, own);
            let fill = Fill { job: request.job, whole: true, near, wanted: lacking as u64 };
            let mut left = members.clone();
            fill.domain(statement, &room, domain, &mut left);
            left.is_empty()
        })
    })
}

/// Leaves the nodes of a domain to the job.
pub(super) fn choose(session: &mut Session<'_>, job: JobId, domain: &Domain, for_sub_group: bool) {
    session.chosen_nodes = Some(ChosenNodes { job, nodes: domain.nodes.clone(), for_sub_group });
}

/// How the HyperNodes of a domain are filled.
struct Fill {
    job: JobId,
    /// All tasks are placed, else tasks until the job is ready.
    whole: bool,
    /// They have a network topology, so that one HyperNode is filled after the other.
    near: bool,
    /// How many tasks need nodes.
    wanted: u64,
}

impl Fill {
    /// Places tasks in one HyperNode of the domain after the other, then in what is left of the domain. What is left of
    /// the tasks stays in the list. Returns whether enough are placed.
    fn domain(
        &self,
        statement: &mut Statement<'_, '_>,
        room: &Room,
        domain: &Domain,
        tasks: &mut Vec<TaskId>,
    ) -> bool {
        let mut parts = if self.near { parts(statement.session(), room, domain) } else { Vec::new() };
        while let Some(at) = self.next(&parts, tasks.len() as u64) {
            let (_, part) = parts.swap_remove(at);
            let part = Domain::of(statement.session().cluster, part);
            if self.domain(statement, room, &part, tasks) {
                return true;
            }
        }
        let chosen = statement.session().chosen_nodes.clone();
        if let (Some(chosen), Some(nodes)) = (&mut statement.session().chosen_nodes, &domain.nodes) {
            chosen.nodes = Some(nodes.clone());
        }
        let enough = self.place(statement, tasks);
        statement.session().chosen_nodes = chosen;
        enough
    }

    /// The tightest part with room for all that are left, else the one with the most room.
    fn next(&self, parts: &[(u64, HyperNodeId)], left: u64) -> Option<usize> {
        let left = left.min(self.wanted);
        let fitting = (0..parts.len()).filter(|at| parts[*at].0 >= left).min_by_key(|at| parts[*at]);
        let largest = || (0..parts.len()).max_by_key(|at| (parts[*at].0, std::cmp::Reverse(parts[*at].1)));
        if left == 0 { None } else { fitting.or_else(largest) }
    }

    fn place(&self, statement: &mut Statement<'_, '_>, tasks: &mut Vec<TaskId>) -> bool {
        loop {
            let before = tasks.len();
            Greedy::default().place_tasks(statement, self.job, tasks.iter().copied());
            let session = statement.session();
            tasks.retain(|task| session.cluster.tasks[*task].status == Status::Pending);
            if !self.whole && tasks.len() < before && session.job_ready(self.job) {
                return true;
            }
            // Placing stops where the job becomes ready, which is too early for a sub-group.
            if tasks.is_empty() || tasks.len() == before || !self.whole {
                return tasks.is_empty();
            }
        }
    }
}

/// The HyperNodes directly below a domain that have room, and for how many tasks.
fn parts(session: &Session<'_>, room: &Room, domain: &Domain) -> Vec<(u64, HyperNodeId)> {
    if session.network_order().is_none() {
        return Vec::new();
    }
    let hyper_nodes = &session.cluster.hyper_nodes;
    let below: Vec<HyperNodeId> = match domain.hyper_node {
        Some(id) => hyper_nodes.get(id).children.clone(),
        None => hyper_nodes.iter().filter(|(_, it)| it.parent.is_none()).map(|(id, _)| id).collect(),
    };
    let with_room = |id: HyperNodeId| {
        let nodes = &hyper_nodes.get(id).nodes;
        let inside = domain.hyper_node.is_some() || network::is_inside(nodes, domain.nodes.as_deref());
        let fits = if inside { room.on(nodes) } else { 0 };
        (fits > 0).then_some((fits, id))
    };
    below.into_iter().filter_map(with_room).collect()
}

/// Gives a job that can start a node for its next task, or nodes for its next sub-group.
pub(super) fn grow(session: &mut Session<'_>, job: JobId, queue: &mut TaskQueue) -> Served {
    queue.restart(session);
    let tasks: Vec<TaskId> = queue.by_ref().collect();
    if tasks.is_empty() {
        return Served::Done;
    }
    let request = Request { job, goal: Goal::Reserve };
    let domains = domains(session, request, &tasks);
    let mut statement = session.statement();
    let placed = |session: &Session<'_>| {
        let has_place = |task: &&TaskId| session.cluster.tasks[**task].status != Status::Pending;
        tasks.iter().filter(has_place).count()
    };
    let before = placed(statement.session());
    let grew = domains.as_ref().is_ok_and(|domains| {
        domains.iter().any(|domain| {
            place_in(&mut statement, request, domain, &tasks);
            placed(statement.session()) > before
        })
    });
    statement.session().chosen_nodes = None;
    plan::commit(statement, job, &Arc::default());
    if let Err(fault) = domains {
        session.refuse(job, Refusal::Topology(fault));
    } else if let (false, Some(first)) = (grew, tasks.first()) {
        let refusal = session.allocatable(*first).err().unwrap_or_else(|| session.no_node(*first));
        session.refuse(job, refusal);
    }
    queue.restart(session);
    if grew && !queue.is_empty() { Served::MoreToDo } else { Served::Done }
}

/// Whether a gang is placed by HyperNodes.
pub(super) fn applies(session: &Session<'_>, job: JobId) -> bool {
    let it = &session.cluster.jobs[job];
    !it.sub_groups.is_empty() || (it.topology.is_some() && session.network_order().is_some())
}
