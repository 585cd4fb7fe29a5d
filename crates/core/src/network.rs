//! Network topologies: which nodes a task may go to, and in which HyperNodes a gang is tried.
//!
//! A hard topology holds for each task that is placed, by whatever action: [`Session::nodes_for`] leaves only nodes
//! that are in one HyperNode, of the highest tier allowed or a lower one, with all members that have nodes. The planner
//! chooses one HyperNode for a gang, or for a sub-group, before it places the first member.
mod lack;
mod room;

pub(crate) use lack::Lack;
pub(crate) use room::{ClassCounts, Room, RoomOf, count_classes};
use std::cmp::Ordering;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::session::Session;
use phalanx_cluster::diagnosis::{Refusal, TopologyFault};
use phalanx_cluster::event::NetworkTopology;
use phalanx_cluster::id::{JobId, NodeId, TaskId};
use phalanx_cluster::{Cluster, HyperNodeId, NodeSet, within};
use phalanx_framework::plugin::{NetworkOrder, Plugin};
use phalanx_resource::Amounts;

/// The domain that the planner chose for a job.
#[derive(Clone, Debug)]
pub(crate) struct ChosenDomain {
    pub(crate) job: JobId,
    pub(crate) domain: Domain,
    /// It is within the network topology of the sub-group that is placed, not only of the job.
    pub(crate) for_sub_group: bool,
}

/// A domain in which tasks may be placed together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Domain {
    /// The HyperNode; `None` for all nodes.
    pub(crate) hyper_node: Option<HyperNodeId>,
    /// Its nodes; `None` for all.
    pub(crate) nodes: Option<NodeSet>,
}

impl Domain {
    pub(crate) fn of(cluster: &Cluster, id: HyperNodeId) -> Self {
        Self { hyper_node: Some(id), nodes: Some(cluster.hyper_nodes.get(id).nodes.clone()) }
    }

    pub(crate) fn name(&self, cluster: &Cluster) -> Option<Arc<str>> {
        self.hyper_node.map(|id| cluster.hyper_nodes.get(id).name.clone())
    }

    /// Whether all nodes of a HyperNode are in it.
    pub(crate) fn holds(&self, cluster: &Cluster, id: HyperNodeId) -> bool {
        self.hyper_node.is_some_and(|above| cluster.hyper_nodes.is_within(id, above))
            || is_inside(&cluster.hyper_nodes.get(id).nodes, self.nodes.as_deref())
    }
}

impl Session<'_> {
    /// The plugin that orders HyperNodes; without one, network topologies are not honoured.
    pub(crate) fn network_order(&self) -> Option<&dyn NetworkOrder> {
        self.tiers.every().find_map(Plugin::network_order)
    }

    /// Why the network topology of a job cannot be met, whatever nodes are free.
    pub(crate) fn topology_met(&self, job: JobId) -> Result<(), Refusal> {
        let it = &self.cluster.jobs[job];
        if !it.asks_topology() {
            return Ok(());
        }
        let of_sub_groups = it.sub_groups.iter().filter_map(|policy| policy.topology.as_ref());
        let mut all = it.topology.iter().chain(of_sub_groups);
        let is_hard = |topology: &NetworkTopology| matches!(topology, NetworkTopology::Hard(_));
        if self.network_order().is_none() && all.clone().any(is_hard) {
            return Err(Refusal::Topology(TopologyFault::NoPlugin));
        }
        let known = |topology| self.cluster.domains_of(Some(topology), &[]).map(drop);
        all.try_for_each(known).map_err(Refusal::Topology)
    }

    /// The nodes that a task may go to; `None` for all.
    #[inline]
    pub(crate) fn nodes_for(&self, task: TaskId) -> Option<NodeSet> {
        let job = self.cluster.tasks[task].job?;
        if !self.cluster.jobs[job].asks_topology() {
            return None;
        }
        self.network_order()?;
        let Some(chosen) = self.chosen_domain.as_ref().filter(|chosen| chosen.job == job) else {
            return near_peers(self.cluster, job, task);
        };
        if chosen.for_sub_group {
            return chosen.domain.nodes.clone();
        }
        within(chosen.domain.nodes.clone(), near_sub_group(self.cluster, job, task))
    }
}

/// The nodes that the network topologies of a job and of its sub-group leave to a task, beside the nodes of the other
/// tasks; `None` for all.
pub(crate) fn near_peers(cluster: &Cluster, job: JobId, task: TaskId) -> Option<NodeSet> {
    let it = &cluster.jobs[job];
    let of_job = it.topology.as_ref().and_then(|topology| near(cluster, topology, task, &it.tasks));
    within(of_job, near_sub_group(cluster, job, task))
}

fn near_sub_group(cluster: &Cluster, job: JobId, task: TaskId) -> Option<NodeSet> {
    let topology = cluster.sub_group_policy_of(job, task)?.topology.as_ref()?;
    near(cluster, topology, task, &cluster.peers_of(job, task))
}

/// The nodes that are in one HyperNode with the nodes of the other tasks.
fn near(cluster: &Cluster, topology: &NetworkTopology, task: TaskId, tasks: &[TaskId]) -> Option<NodeSet> {
    let others = tasks.iter().filter(|other| **other != task);
    match cluster.domains_of(Some(topology), &cluster.nodes_of(others)) {
        Ok(domains) => domains.map(|domains| cluster.nodes_within(&domains)),
        Err(_) => Some(NodeSet::from([])),
    }
}

/// Tasks that need nodes together, and how near to each other these have to be.
pub(crate) struct Together<'a> {
    pub(crate) topology: Option<&'a NetworkTopology>,
    /// Nodes of members that have some.
    pub(crate) placed: &'a [NodeId],
    /// How many of the tasks have to fit.
    pub(crate) wanted: u64,
    /// The sub-groups that have to fit whole.
    pub(crate) required: &'a [RequiredSubGroups],
    /// The larger domain that they are in; `None` for all nodes.
    pub(crate) inside: Option<&'a Domain>,
}

/// Sub-groups of an entry of `subGroupPolicy` of which no pod has a node, and of which some have to fit whole.
pub(crate) struct RequiredSubGroups {
    /// `name` of the entry.
    pub(crate) policy: Arc<str>,
    /// The first of them that has to fit.
    pub(crate) first: Arc<str>,
    pub(crate) topology: Option<NetworkTopology>,
    /// Pods of each.
    pub(crate) size: u64,
    /// How many of them have to fit.
    pub(crate) wanted: u64,
    /// Pods of all of them.
    pub(crate) tasks: ClassCounts,
}

impl RequiredSubGroups {
    /// How many whole ones fit each HyperNode at the most: as many as its room has, where their topology allows it,
    /// else as many as fit the HyperNodes below it.
    fn fitting(&self, cluster: &Cluster, room: &Room) -> FxHashMap<HyperNodeId, u64> {
        let allowed = cluster.domains_of(self.topology.as_ref(), &[]).unwrap_or_default();
        let mut fitting: FxHashMap<HyperNodeId, u64> = FxHashMap::default();
        for (id, it) in cluster.hyper_nodes.iter() {
            let below = || it.children.iter().filter_map(|child| fitting.get(child)).sum();
            let may_be_in = allowed.as_ref().is_none_or(|allowed| allowed.binary_search(&id).is_ok());
            let fits = if may_be_in { room.on_for(id, &self.tasks) / self.size } else { below() };
            fitting.insert(id, fits);
        }
        fitting
    }

    /// Why not even one fits; nothing where one does.
    fn no_room(&self, cluster: &Cluster, room: &Room) -> Option<TopologyFault> {
        let allowed = cluster.domains_of(self.topology.as_ref(), &[]).ok()??;
        let too_small: Vec<_> = allowed.iter().map(|id| (room.on_for(*id, &self.tasks), *id)).collect();
        if too_small.iter().any(|(fits, _)| *fits >= self.size) {
            return None;
        }
        let fault = Box::new(no_room(cluster, room, &too_small, self.size, false));
        let (policy, group) = (self.policy.clone(), self.first.clone());
        Some(TopologyFault::SubGroup { policy, group, inside: None, beside: 0, fault })
    }
}

/// A HyperNode with room for the tasks that are wanted.
struct FittingDomain {
    tier: u32,
    /// With all tasks; 0 where not all fit.
    score: f64,
    /// How many of all tasks fit.
    room: u64,
    /// With the tasks that are wanted.
    score_of_wanted: f64,
    id: HyperNodeId,
}

impl FittingDomain {
    /// The lowest tier, then the tightest fit, then the name. Where none has room for all tasks, the one with room for
    /// the most is before tighter ones.
    fn order(&self, other: &Self) -> Ordering {
        let by_tier = self.tier.cmp(&other.tier).then(other.score.total_cmp(&self.score));
        let by_room = by_tier.then(other.room.cmp(&self.room));
        by_room.then(other.score_of_wanted.total_cmp(&self.score_of_wanted)).then(self.id.cmp(&other.id))
    }
}

/// The domains that may have room, the best first. A soft topology ends with the larger domain itself, or all nodes.
///
/// # Errors
/// No domain has room.
pub(crate) fn domains(
    session: &Session<'_>,
    room: &Room,
    together: &Together<'_>,
) -> Result<Vec<Domain>, TopologyFault> {
    let cluster = &*session.cluster;
    let around = together.inside.cloned().unwrap_or_default();
    let Some(order) = session.network_order() else { return Ok(vec![around]) };
    let allowed = cluster.domains_of(together.topology, together.placed)?;
    let (allowed, last) = match (allowed, together.topology) {
        (Some(allowed), _) => (allowed, None),
        (None, Some(_)) => (cluster.domains_around(together.placed, None), Some(around)),
        (None, None) => return Ok(vec![around]),
    };
    let fits = fits(cluster, room, together.required, together.wanted);
    let score = order.scorer(cluster, &room.request);
    let score_of_wanted = order.scorer(cluster, &room.request_of(together.wanted));
    let mut most = 0;
    let mut too_small: Vec<(u64, HyperNodeId)> = Vec::new();
    let mut found: Vec<FittingDomain> = Vec::new();
    for id in allowed {
        if together.inside.is_some_and(|inside| !inside.holds(cluster, id)) {
            continue;
        }
        let fits = fits(id);
        if fits >= together.wanted {
            let sums = cluster.hyper_nodes.sums(id);
            found.push(FittingDomain {
                tier: cluster.hyper_nodes.get(id).tier,
                score: score(sums),
                room: room.on(id),
                score_of_wanted: score_of_wanted(sums),
                id,
            });
        } else if fits >= most {
            most = fits;
            too_small.push((fits, id));
        }
    }
    found.sort_by(FittingDomain::order);
    let domains: Vec<Domain> = found.into_iter().map(|it| Domain::of(cluster, it.id)).chain(last).collect();
    if domains.is_empty() {
        if let Some(fault) = together.required.iter().find_map(|it| it.no_room(cluster, room)) {
            return Err(fault);
        }
        if too_small.is_empty() {
            return Err(TopologyFault::NoneInside(together.inside.and_then(|it| it.name(cluster))));
        }
        return Err(no_room(cluster, room, &too_small, together.wanted, !together.placed.is_empty()));
    }
    Ok(domains)
}

/// How many of the tasks fit a HyperNode, up to as many as are wanted; those of required sub-groups that do not fit whole
/// count as not fitting.
pub(crate) fn fits(
    cluster: &Cluster,
    room: &Room,
    required: &[RequiredSubGroups],
    wanted: u64,
) -> impl Fn(HyperNodeId) -> u64 {
    let fitting: Vec<_> = required.iter().map(|it| (it, it.fitting(cluster, room))).collect();
    move |id| {
        let lacking: u64 =
            fitting.iter().map(|(it, fits)| it.wanted.saturating_sub(fits[&id]) * it.size).sum();
        room.on(id).min(wanted.saturating_sub(lacking))
    }
}

/// The domain with room for the most tasks; of several, the one that lacks the least.
fn no_room(
    cluster: &Cluster,
    room: &Room,
    too_small: &[(u64, HyperNodeId)],
    wanted: u64,
    beside: bool,
) -> TopologyFault {
    let most = too_small.iter().map(|(fits, _)| *fits).max().unwrap_or_default();
    let of = |(_, id): &(u64, HyperNodeId)| (room.lack(cluster, *id, wanted), *id);
    let nearest = too_small.iter().filter(|(fits, _)| *fits == most).map(of);
    let nearest = nearest.min_by_key(|(lack, id)| (lack.order(), *id));
    let (missing, best) = nearest.map_or_else(
        || (Amounts::new(), "".into()),
        |(lack, id)| (lack.missing, cluster.hyper_nodes.get(id).name.clone()),
    );
    TopologyFault::NoRoom { beside, best, fits: most as u32, wanted: wanted as u32, missing }
}

/// Whether all of these nodes are among the others; `None` is all nodes.
pub(crate) fn is_inside(nodes: &[NodeId], of: Option<&[NodeId]>) -> bool {
    of.is_none_or(|of| nodes.iter().all(|node| of.binary_search(node).is_ok()))
}
