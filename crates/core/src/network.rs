//! Network topologies: which nodes a task may go to, and in which HyperNodes a gang is tried.
//!
//! A hard topology holds for each task that is placed, by whatever action: [`Session::nodes_for`] leaves only nodes
//! that are in one HyperNode, of the highest tier allowed or a lower one, with all members that have nodes. The planner
//! chooses one HyperNode for a gang, or for a sub-group, before it places the first member.
mod lack;

pub(crate) use lack::Lack;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::session::Session;
use phalanx_cluster::diagnosis::{Refusal, TopologyFault};
use phalanx_cluster::event::NetworkTopology;
use phalanx_cluster::id::{ClassId, Id, JobId, NodeId, TaskId};
use phalanx_cluster::{Cluster, HyperNodeId, Node, NodeSet, within};
use phalanx_framework::placement::NodeRanking;
use phalanx_framework::plugin::{NetworkOrder, Plugin};
use phalanx_framework::tiers::Tiers;
use phalanx_resource::{Amounts, DimId};

/// The nodes that the planner chose for a job.
#[derive(Clone, Debug)]
pub(crate) struct ChosenNodes {
    pub(crate) job: JobId,
    /// `None` for all nodes.
    pub(crate) nodes: Option<NodeSet>,
    /// They are within the network topology of the sub-group that is placed, not only of the job.
    pub(crate) for_sub_group: bool,
}

impl ChosenNodes {
    pub(crate) fn of_job(job: JobId, nodes: NodeSet) -> Self {
        Self { job, nodes: Some(nodes), for_sub_group: false }
    }
}

/// A domain in which tasks may be placed together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Domain {
    /// The HyperNode; `None` for all nodes, or for all that the domain of the gang leaves to a sub-group.
    pub(crate) hyper_node: Option<HyperNodeId>,
    /// Its nodes; `None` for all.
    pub(crate) nodes: Option<NodeSet>,
}

impl Domain {
    pub(crate) fn of(cluster: &Cluster, id: HyperNodeId) -> Self {
        Self { hyper_node: Some(id), nodes: Some(cluster.hyper_nodes.get(id).nodes.clone()) }
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
        let Some(chosen) = self.chosen_nodes.as_ref().filter(|chosen| chosen.job == job) else {
            return near_peers(self.cluster, job, task);
        };
        if chosen.for_sub_group {
            return chosen.nodes.clone();
        }
        within(chosen.nodes.clone(), near_sub_group(self.cluster, job, task))
    }
}

/// The nodes that the network topologies of a job and of its sub-group leave to a task, beside the nodes of the other
/// tasks; `None` for all.
pub(crate) fn near_peers(cluster: &Cluster, job: JobId, task: TaskId) -> Option<NodeSet> {
    let it = &cluster.jobs[job];
    let of_job = near(cluster, it.topology.as_ref(), task, &it.tasks);
    within(of_job, near_sub_group(cluster, job, task))
}

fn near_sub_group(cluster: &Cluster, job: JobId, task: TaskId) -> Option<NodeSet> {
    let (policy, peers) = cluster.sub_group_of(job, task)?;
    near(cluster, policy.topology.as_ref(), task, &peers)
}

/// The nodes that are in one HyperNode with the nodes of the other tasks.
fn near(
    cluster: &Cluster,
    topology: Option<&NetworkTopology>,
    task: TaskId,
    tasks: &[TaskId],
) -> Option<NodeSet> {
    let others = tasks.iter().filter(|other| **other != task);
    match cluster.domains_of(topology, &cluster.nodes_of(others)) {
        Ok(domains) => domains.map(|domains| cluster.nodes_within(&domains)),
        Err(_) => Some(NodeSet::from([])),
    }
}

/// Which resources of nodes count as room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoomOf {
    /// Idle ones.
    Idle,
    /// Idle ones, and those that are being released.
    FutureIdle,
    /// All: whatever runs there may be evicted.
    Allocatable,
}

/// How many tasks of each class fit each node by resources and node filters.
pub(crate) struct Room {
    classes: Vec<ClassRoom>,
    /// What all tasks request together.
    request: Amounts,
    of: RoomOf,
    /// What becomes free of nodes for these tasks: what they reserve there themselves, and pods that are evicted.
    freed: FxHashMap<NodeId, Amounts>,
}

struct ClassRoom {
    class: ClassId,
    tasks: u64,
    /// What a task requests.
    request: Vec<(DimId, i64)>,
    /// By the index of the node; `None` where node filters refuse it.
    fits: Vec<Option<u32>>,
}

/// How many tasks there are of each class.
pub(crate) type ClassCounts = FxHashMap<ClassId, u64>;

/// Counts tasks by class.
pub(crate) fn count_classes<'t>(cluster: &Cluster, tasks: impl Iterator<Item = &'t TaskId>) -> ClassCounts {
    let mut counts = ClassCounts::default();
    for task in tasks {
        *counts.entry(cluster.tasks[*task].class).or_default() += 1;
    }
    counts
}

impl Room {
    /// The room for tasks.
    pub(crate) fn new(session: &mut Session<'_>, tasks: &[TaskId], of: RoomOf) -> Self {
        let Session { cluster, tiers, state, .. } = session;
        Self::in_cluster(cluster, tiers, &mut state.placement, tasks, of, &[])
    }

    /// The room for tasks once resources are released and these pods, too, are gone.
    pub(crate) fn after_evictions(session: &mut Session<'_>, tasks: &[TaskId], gone: &[TaskId]) -> Self {
        let Session { cluster, tiers, state, .. } = session;
        Self::in_cluster(cluster, tiers, &mut state.placement, tasks, RoomOf::FutureIdle, gone)
    }

    /// The same, outside a session.
    pub(crate) fn in_cluster(
        cluster: &Cluster,
        tiers: &Tiers,
        placement: &mut NodeRanking,
        tasks: &[TaskId],
        of: RoomOf,
        gone: &[TaskId],
    ) -> Self {
        let mut request = Amounts::new();
        for task in tasks {
            request.add(cluster.request_of(*task));
        }
        let freed = held_on(cluster, tasks.iter().chain(gone));
        let mut room = Self { classes: Vec::new(), request, of, freed };
        for (class, tasks) in count_classes(cluster, tasks.iter()) {
            let admits = placement.admits(cluster, tiers, class);
            let class = room.of_class(cluster, class, tasks, admits);
            room.classes.push(class);
        }
        room
    }

    fn of_class(
        &self,
        cluster: &Cluster,
        class: ClassId,
        tasks: u64,
        admits: impl Fn(NodeId) -> bool,
    ) -> ClassRoom {
        let it = &cluster.classes[class];
        let request: Vec<(DimId, i64)> = it.request.iter().filter(|(_, amount)| *amount > 0).collect();
        // Pods with the same host port are on different nodes.
        let most_each = if it.constraints.host_ports.is_empty() { tasks as i64 } else { 1 };
        let mut fits = vec![None; cluster.nodes.bound()];
        for (id, node) in cluster.nodes.iter().filter(|(id, node)| node.exists && admits(*id)) {
            let freed = self.freed.get(&id);
            let fitting = |(dim, amount): &(DimId, i64)| self.of.amount(node, freed, *dim).max(0) / amount;
            let most = request.iter().map(fitting).min().unwrap_or(i64::MAX);
            fits[id.index()] = Some(most.min(most_each) as u32);
        }
        ClassRoom { class, tasks, request, fits }
    }

    /// How many of the tasks fit these nodes at the most.
    pub(crate) fn on(&self, nodes: &[NodeId]) -> u64 {
        self.classes.iter().map(|class| class.on(nodes)).sum()
    }

    /// How many of some of the tasks fit these nodes at the most.
    fn on_for(&self, nodes: &[NodeId], some: &ClassCounts) -> u64 {
        let count = |class: &ClassRoom| some.get(&class.class).copied().unwrap_or_default();
        self.classes.iter().map(|class| class.on(nodes).min(count(class))).sum()
    }
}

impl ClassRoom {
    fn on(&self, nodes: &[NodeId]) -> u64 {
        let fits: u64 = nodes.iter().filter_map(|node| self.fits[node.index()]).map(u64::from).sum();
        fits.min(self.tasks)
    }
}

impl RoomOf {
    /// The amount of a node, where `freed` becomes free beside.
    fn amount(self, node: &Node, freed: Option<&Amounts>, dim: DimId) -> i64 {
        let freed = freed.map_or(0, |freed| freed.get(dim));
        let future = node.idle.get(dim) + node.releasing.get(dim) - node.pipelined.get(dim) + freed;
        match self {
            RoomOf::Idle => future.min(node.idle.get(dim)),
            RoomOf::FutureIdle => future,
            RoomOf::Allocatable => node.allocatable.get(dim),
        }
    }
}

/// What tasks hold or reserve on nodes.
fn held_on<'t>(cluster: &Cluster, tasks: impl Iterator<Item = &'t TaskId>) -> FxHashMap<NodeId, Amounts> {
    let mut held: FxHashMap<NodeId, Amounts> = FxHashMap::default();
    for task in tasks {
        if let Some(node) = cluster.tasks[*task].node {
            held.entry(node).or_default().add(cluster.request_of(*task));
        }
    }
    held
}

/// Tasks that need nodes together, and how near to each other these have to be.
pub(crate) struct Together<'a> {
    pub(crate) topology: Option<&'a NetworkTopology>,
    /// Nodes of members that have some.
    pub(crate) placed: &'a [NodeId],
    /// How many of the tasks have to fit.
    pub(crate) wanted: u64,
    /// The sub-groups that have to fit whole.
    pub(crate) whole: &'a [WholeSubGroups],
    /// The nodes that a larger domain leaves to them; `None` for all.
    pub(crate) inside: Option<&'a NodeSet>,
}

/// Sub-groups of an entry of `subGroupPolicy` of which no pod has a node, and of which some have to fit whole.
pub(crate) struct WholeSubGroups {
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

impl WholeSubGroups {
    /// How many whole ones fit each HyperNode at the most: as many as its room has, where their topology allows it,
    /// else as many as fit the HyperNodes below it.
    fn fitting(&self, cluster: &Cluster, room: &Room) -> FxHashMap<HyperNodeId, u64> {
        let allowed = cluster.domains_of(self.topology.as_ref(), &[]).unwrap_or_default();
        let mut fitting: FxHashMap<HyperNodeId, u64> = FxHashMap::default();
        for (id, it) in cluster.hyper_nodes.iter() {
            let below = || it.children.iter().filter_map(|child| fitting.get(child)).sum();
            let may_be_in = allowed.as_ref().is_none_or(|allowed| allowed.binary_search(&id).is_ok());
            let fits = if may_be_in { room.on_for(&it.nodes, &self.tasks) / self.size } else { below() };
            fitting.insert(id, fits);
        }
        fitting
    }

    /// Why not even one fits; nothing where one does.
    fn no_room(&self, cluster: &Cluster, room: &Room) -> Option<TopologyFault> {
        let allowed = cluster.domains_of(self.topology.as_ref(), &[]).ok()??;
        let fits = |id: &HyperNodeId| room.on_for(&cluster.hyper_nodes.get(*id).nodes, &self.tasks);
        let too_small: Vec<_> = allowed.iter().map(|id| (fits(id), *id)).collect();
        if too_small.iter().any(|(fits, _)| *fits >= self.size) {
            return None;
        }
        let fault = Box::new(no_room(cluster, room, &too_small, self.size));
        Some(TopologyFault::SubGroup { policy: self.policy.clone(), group: self.first.clone(), fault })
    }
}

/// The domains that may have room, the best first: the lowest tier, then the tightest fit, then the name. A soft
/// topology ends with the larger domain itself, or all nodes.
///
/// # Errors
/// No domain has room.
pub(crate) fn domains(
    session: &Session<'_>,
    room: &Room,
    together: &Together<'_>,
) -> Result<Vec<Domain>, TopologyFault> {
    let cluster = &*session.cluster;
    let whole = Domain { hyper_node: None, nodes: together.inside.cloned() };
    let Some(order) = session.network_order() else { return Ok(vec![whole]) };
    let allowed = cluster.domains_of(together.topology, together.placed)?;
    let (allowed, last) = match (allowed, together.topology) {
        (Some(allowed), _) => (allowed, None),
        (None, Some(_)) => (cluster.domains_around(together.placed, None), Some(whole)),
        (None, None) => return Ok(vec![whole]),
    };
    let fits = fits(cluster, room, together.whole, together.wanted);
    let mut most = 0;
    let mut too_small: Vec<(u64, HyperNodeId)> = Vec::new();
    let mut found: Vec<(u32, f64, HyperNodeId)> = Vec::new();
    for id in allowed {
        let it = cluster.hyper_nodes.get(id);
        if !is_inside(&it.nodes, together.inside.map(|inside| &**inside)) {
            continue;
        }
        let fits = fits(id);
        if fits >= together.wanted {
            let score = order.score(cluster, cluster.hyper_nodes.sums(id), &room.request);
            found.push((it.tier, score, id));
        } else if fits >= most {
            most = fits;
            too_small.push((fits, id));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
    let domains: Vec<Domain> =
        found.into_iter().map(|(.., id)| Domain::of(cluster, id)).chain(last).collect();
    if domains.is_empty() {
        if let Some(fault) = together.whole.iter().find_map(|it| it.no_room(cluster, room)) {
            return Err(fault);
        }
        return Err(no_room(cluster, room, &too_small, together.wanted));
    }
    Ok(domains)
}

/// How many of the tasks fit a HyperNode, up to as many as are wanted; those of required sub-groups that do not fit whole
/// count as not fitting.
pub(crate) fn fits(
    cluster: &Cluster,
    room: &Room,
    whole: &[WholeSubGroups],
    wanted: u64,
) -> impl Fn(HyperNodeId) -> u64 {
    let fitting: Vec<_> = whole.iter().map(|it| (it, it.fitting(cluster, room))).collect();
    move |id| {
        let lacking: u64 =
            fitting.iter().map(|(it, fits)| it.wanted.saturating_sub(fits[&id]) * it.size).sum();
        room.on(&cluster.hyper_nodes.get(id).nodes).min(wanted.saturating_sub(lacking))
    }
}

/// The domain with room for the most tasks; of several, the one that lacks the least.
fn no_room(cluster: &Cluster, room: &Room, too_small: &[(u64, HyperNodeId)], wanted: u64) -> TopologyFault {
    let most = too_small.iter().map(|(fits, _)| *fits).max().unwrap_or_default();
    let of =
        |(_, id): &(u64, HyperNodeId)| (room.lack(cluster, &cluster.hyper_nodes.get(*id).nodes, wanted), *id);
    let nearest = too_small.iter().filter(|(fits, _)| *fits == most).map(of);
    let nearest = nearest.min_by_key(|(lack, id)| (lack.order(), *id));
    let (missing, best) = nearest.map_or_else(
        || (Amounts::new(), "".into()),
        |(lack, id)| (lack.missing, cluster.hyper_nodes.get(id).name.clone()),
    );
    TopologyFault::NoRoom { best, fits: most as u32, wanted: wanted as u32, missing }
}

/// Whether all of these nodes are among the others; `None` is all nodes.
pub(crate) fn is_inside(nodes: &[NodeId], of: Option<&[NodeId]>) -> bool {
    of.is_none_or(|of| nodes.iter().all(|node| of.binary_search(node).is_ok()))
}
