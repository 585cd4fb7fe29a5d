//! Gangs with a network topology, and gangs of sub-groups: one HyperNode after the other is tried for the whole gang.
//!
//! HyperNodes come by tier, and within a tier the tightest fit first (`network::domains`). In a HyperNode the members
//! fill one of its own HyperNodes after the other (`fill`). A sub-group is placed whole, in a HyperNode of its own
//! topology inside that of the gang, or not at all.
//!
//! Guarantees: members that are equal and carry no rules about other pods get the lowest tier that has room for them.
use phalanx_cluster::diagnosis::{Refusal, TopologyFault};
use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::{Cluster, Role, Status};
use rustc_hash::{FxHashMap, FxHashSet};

use super::backtracking::{self, Until};
use super::fill::Fill;
use super::sub_groups::{LackingSubGroup, WaitingSubGroups};
use super::{Goal, Request};
use crate::network::{self, ChosenDomain, Domain, Room, RoomOf, Together};
use crate::session::Session;
use crate::statement::Statement;

/// HyperNodes of each tier that are tried for a gang or a sub-group at most.
const TRIED_MAX: usize = 16;

/// How the tasks of a job are placed.
#[derive(Clone, Copy)]
pub(crate) struct Placing<'r> {
    pub(crate) job: JobId,
    /// The room for all of them, or for none, before any of them is placed. What counts as room in it counts also
    /// where domains for some of them are compared.
    pub(crate) room: &'r Room,
    pub(crate) groups: &'r WaitingSubGroups,
    /// When the job has enough, so that no more of its sub-groups are placed.
    pub(crate) enough: Enough,
}

/// When a job has enough nodes.
#[derive(Clone, Copy)]
pub(crate) enum Enough {
    /// It can start.
    Ready,
    /// It can start once resources are released.
    Whole,
}

impl Enough {
    fn is_reached(self, session: &Session<'_>, job: JobId) -> bool {
        match self {
            Enough::Ready => session.job_ready(job),
            Enough::Whole => session.job_whole(job),
        }
    }
}

impl Placing<'_> {
    fn request(&self) -> Request {
        let goal = if self.room.of == RoomOf::Idle { Goal::Start } else { Goal::Reserve };
        Request { job: self.job, goal }
    }

    fn is_done(&self, session: &Session<'_>) -> bool {
        self.request().reached(session).is_some()
    }
}

impl From<Goal> for RoomOf {
    fn from(goal: Goal) -> Self {
        if goal == Goal::Start { Self::Idle } else { Self::FutureIdle }
    }
}

/// Why a domain takes fewer tasks than it has to, of the domain where the fewest are missing.
#[derive(Default)]
pub(crate) struct Shortfall(Option<(usize, Refusal)>);

impl Shortfall {
    fn note(&mut self, missing: usize, why: impl FnOnce() -> Refusal) {
        if self.0.as_ref().is_none_or(|(fewest, _)| missing < *fewest) {
            self.0 = Some((missing, why()));
        }
    }

    /// The reason, if there is any.
    pub(crate) fn into_refusal(self) -> Option<Refusal> {
        self.0.map(|(_, why)| why)
    }
}

/// The domains with room for the tasks of a gang, the best first.
///
/// # Errors
/// No domain has room for them.
pub(crate) fn domains(
    session: &Session<'_>,
    job: JobId,
    tasks: &[TaskId],
    groups: &WaitingSubGroups,
    room: &Room,
) -> Result<Vec<Domain>, TopologyFault> {
    let (cluster, it) = (&*session.cluster, &session.cluster.jobs[job]);
    let together = Together {
        topology: it.topology.as_ref(),
        placed: &cluster.nodes_of(others_with_nodes(cluster, job, tasks).iter()),
        wanted: wanted(cluster, job, tasks, groups),
        required: &groups.required(cluster, job),
        inside: None,
    };
    let of_sub_group = |fault| match groups.lacking.first().filter(|_| groups.rest(tasks).is_empty()) {
        Some(group) if together.wanted == group.members.len() as u64 && together.required.is_empty() => {
            let (policy, group) = (it.sub_groups[group.policy].name.clone(), group.name.clone());
            TopologyFault::SubGroup { policy, group, inside: None, beside: 0, fault: Box::new(fault) }
        }
        _ => fault,
    };
    network::domains(session, room, &together).map_err(of_sub_group)
}

/// The tasks of a job beside these that have nodes.
fn others_with_nodes(cluster: &Cluster, job: JobId, tasks: &[TaskId]) -> Vec<TaskId> {
    let with_node = |task: &TaskId| cluster.tasks[*task].node.is_some();
    let mut placed: Vec<TaskId> = cluster.jobs[job].tasks.iter().copied().filter(with_node).collect();
    if !placed.is_empty() {
        let tasks: FxHashSet<&TaskId> = tasks.iter().collect();
        placed.retain(|task| !tasks.contains(task));
    }
    placed
}

/// How many of these waiting tasks of a job need nodes together: as many as it lacks of `minMember`, of its required
/// sub-groups or of its roles, whichever is most; of a job that lacks nothing, as many as it grows by.
pub(crate) fn wanted(cluster: &Cluster, job: JobId, tasks: &[TaskId], groups: &WaitingSubGroups) -> u64 {
    let it = &cluster.jobs[job];
    let own = tasks.iter().filter(|task| cluster.tasks[**task].status == Status::Pipelined).count() as u64;
    let reserved = u64::from(it.counts.of(Status::Pipelined)).saturating_sub(own);
    let lacking = u64::from(it.min_member).saturating_sub(u64::from(it.counts.ready()) + reserved);
    let of_role = |role: &Role| u64::from(role.min.saturating_sub(role.counts.ready()));
    let of_roles = if it.asks_roles() { it.roles.iter().map(of_role).sum() } else { 0 };
    let lacking = lacking.max(groups.pods_required()).max(of_roles.saturating_sub(reserved));
    if lacking == 0 { groups.least(tasks) } else { lacking }
}

/// Those of the domains that are tried: the best of each tier.
pub(super) fn tried(cluster: &Cluster, domains: Vec<Domain>) -> Vec<Domain> {
    best_of_each_tier(cluster, domains, TRIED_MAX)
}

/// At most so many HyperNodes of each tier, in order.
pub(crate) fn best_of_each_tier(cluster: &Cluster, mut domains: Vec<Domain>, most: usize) -> Vec<Domain> {
    let mut kept: FxHashMap<Option<u32>, usize> = FxHashMap::default();
    domains.retain(|domain| {
        let tier = domain.hyper_node.map(|id| cluster.hyper_nodes.get(id).tier);
        let of_tier = kept.entry(tier).or_default();
        *of_tier += 1;
        *of_tier <= most
    });
    domains
}

/// Places tasks of a gang in a domain, in their order, until the job is ready. Returns what it came to.
pub(super) fn find_in(
    statement: &mut Statement<'_, '_>,
    goal: Goal,
    placing: Placing<'_>,
    domain: &Domain,
    tasks: &[TaskId],
    shortfall: &mut Shortfall,
) -> Option<Goal> {
    statement.unplace_all(tasks);
    place_in(statement, placing, domain, tasks, shortfall);
    Request { job: placing.job, goal }.reached(statement.session())
}

/// Places tasks in a domain until the job is ready, sub-groups whole: one sub-group and one task after the other, and
/// where that fails, unlike ones by a search over all of them.
pub(super) fn place_in(
    statement: &mut Statement<'_, '_>,
    placing: Placing<'_>,
    domain: &Domain,
    tasks: &[TaskId],
    shortfall: &mut Shortfall,
) {
    let starts = !statement.session().job_ready(placing.job);
    let left = place_in_order(statement, placing, domain, tasks, shortfall);
    if starts && (placing.is_done(statement.session()) || search(statement, placing, tasks)) {
        return;
    }
    if let Some(first) = left.first() {
        let session = statement.session();
        shortfall.note(left.len(), || not_placed(session, *first));
    }
}

/// Places unlike tasks and sub-groups in any way that lets the job start.
fn search(statement: &mut Statement<'_, '_>, placing: Placing<'_>, tasks: &[TaskId]) -> bool {
    let cluster = &*statement.session().cluster;
    (backtracking::greedy_may_fail(cluster, tasks) || placing.groups.are_unlike(cluster))
        && backtracking::place(statement, placing.request(), tasks, Until::GangIsWhole)
}

/// Places the sub-groups, then the other tasks. Returns the tasks that found no node, unless the job has enough.
fn place_in_order(
    statement: &mut Statement<'_, '_>,
    placing: Placing<'_>,
    domain: &Domain,
    tasks: &[TaskId],
    shortfall: &mut Shortfall,
) -> Vec<TaskId> {
    let mut rest = place_sub_groups(statement, placing, domain, tasks, shortfall);
    let session = statement.session();
    // Tasks with reserved nodes come last: placing stops once the job is ready, and they count for that already.
    rest.sort_by_key(|task| session.cluster.tasks[*task].status == Status::Pipelined);
    choose(session, placing.job, domain, false);
    let near = session.cluster.jobs[placing.job].topology.is_some();
    let fill = Fill { job: placing.job, all: false, near, wanted: rest.len() as u64 };
    let room = placing.room.clone().next(session, &rest);
    if fill.fill(statement, &room, domain, &mut rest) { Vec::new() } else { rest }
}

/// Places each sub-group whole that finds a place in a domain, until the job has enough. Returns the tasks that are to be
/// placed one by one; none once the job has enough.
pub(crate) fn place_sub_groups(
    statement: &mut Statement<'_, '_>,
    placing: Placing<'_>,
    domain: &Domain,
    tasks: &[TaskId],
    shortfall: &mut Shortfall,
) -> Vec<TaskId> {
    let (mut groups, mut room, mut placed) = (placing.groups.clone(), placing.room.clone(), 0);
    for at in 0..groups.lacking.len() {
        let group = &groups.lacking[at];
        let tasks = [&group.members[..], &group.beyond[..]].concat();
        room = room.next(statement.session(), &tasks);
        if !place_sub_group(statement, placing, Beside { domain, placed }, group, &room, shortfall) {
            continue;
        }
        placed += 1;
        groups.note_whole(at);
        if placing.enough.is_reached(statement.session(), placing.job) {
            return Vec::new();
        }
    }
    groups.rest(tasks)
}

/// Where the other sub-groups of a gang are.
#[derive(Clone, Copy)]
struct Beside<'d> {
    /// The domain of the gang.
    domain: &'d Domain,
    /// How many were placed before.
    placed: u32,
}

/// Places the pods that a sub-group lacks, or none. Returns whether it has them. One that has reserved nodes gets others
/// where it can start.
fn place_sub_group(
    statement: &mut Statement<'_, '_>,
    placing: Placing<'_>,
    beside: Beside<'_>,
    group: &LackingSubGroup,
    room: &Room,
    shortfall: &mut Shortfall,
) -> bool {
    let Placing { job, .. } = placing;
    let session = statement.session();
    let members = &group.members;
    let are = |session: &Session<'_>, status: Status| {
        members.iter().all(|task| session.cluster.tasks[*task].status == status)
    };
    let is_reserved = are(session, Status::Pipelined);
    let policy = &session.cluster.jobs[job].sub_groups[group.policy];
    let (own, policy) = (policy.topology.is_some(), policy.name.clone());
    let near = own || session.cluster.jobs[job].topology.is_some();
    let domains = match sub_group_domains(session, job, group, beside.domain, room) {
        Ok(domains) => domains,
        Err(fault) => {
            let fits = if let TopologyFault::NoRoom { fits, .. } = &fault { *fits as usize } else { 0 };
            let (group, fault) = (group.name.clone(), Box::new(fault));
            let (inside, beside) = (beside.domain.name(session.cluster), beside.placed);
            let of = TopologyFault::SubGroup { policy, group, inside, beside, fault };
            let refusal = || Refusal::Topology(of);
            shortfall.note(members.len().saturating_sub(fits), refusal);
            return false;
        }
    };
    domains.into_iter().any(|domain| {
        statement.nested(|statement| {
            statement.unplace_all(members);
            choose(statement.session(), job, &domain, own);
            let fill = Fill { job, all: true, near, wanted: members.len() as u64 };
            let mut left = members.clone();
            let is_placed = fill.fill(statement, room, &domain, &mut left)
                || backtracking::greedy_may_fail(statement.session().cluster, members)
                    && backtracking::place(statement, placing.request(), members, Until::AllArePlaced);
            let session = statement.session();
            if let (false, Some(first)) = (is_placed, left.first()) {
                shortfall.note(left.len(), || not_placed(session, *first));
            }
            is_placed && (!is_reserved || are(session, Status::Allocated))
        })
    })
}

/// The domains for the pods that a sub-group lacks, the best first; those with room for all of its pods that wait come
/// before others.
///
/// # Errors
/// No domain has room for them.
pub(super) fn sub_group_domains(
    session: &Session<'_>,
    job: JobId,
    group: &LackingSubGroup,
    inside: &Domain,
    room: &Room,
) -> Result<Vec<Domain>, TopologyFault> {
    let placed = session.cluster.nodes_of(group.others.iter());
    let domains_for = |wanted: usize| {
        let together = Together {
            topology: session.cluster.jobs[job].sub_groups[group.policy].topology.as_ref(),
            placed: &placed,
            wanted: wanted as u64,
            required: &[],
            inside: Some(inside),
        };
        network::domains(session, room, &together)
    };
    let enough = tried(session.cluster, domains_for(group.members.len())?);
    if group.beyond.is_empty() {
        return Ok(enough);
    }
    let mut domains = domains_for(group.members.len() + group.beyond.len()).unwrap_or_default();
    domains.retain(|domain| domain.hyper_node != inside.hyper_node);
    domains = tried(session.cluster, domains);
    domains.extend(enough);
    Ok(domains)
}

/// Why a task has got no node in the chosen domain.
fn not_placed(session: &mut Session<'_>, task: TaskId) -> Refusal {
    session.allocatable(task).err().unwrap_or_else(|| session.no_node(task))
}

/// Leaves the nodes of a domain to the job.
pub(crate) fn choose(session: &mut Session<'_>, job: JobId, domain: &Domain, for_sub_group: bool) {
    session.chosen_domain = Some(ChosenDomain { job, domain: domain.clone(), for_sub_group });
}

/// Whether a gang is placed by HyperNodes.
pub(crate) fn applies(session: &Session<'_>, job: JobId) -> bool {
    let it = &session.cluster.jobs[job];
    !it.sub_groups.is_empty() || (it.topology.is_some() && session.network_order().is_some())
}
