//! The room that nodes and HyperNodes have for tasks.
use rustc_hash::FxHashMap;

use crate::session::Session;
use phalanx_cluster::id::{ClassId, Id, NodeId, TaskId};
use phalanx_cluster::{Cluster, HyperNodeId, Node};
use phalanx_framework::placement::NodeRanking;
use phalanx_framework::tiers::Tiers;
use phalanx_resource::{Amounts, DimId};

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
#[derive(Clone)]
pub(crate) struct Room {
    pub(super) classes: Vec<ClassRoom>,
    /// What all tasks request together.
    pub(super) request: Amounts,
    pub(crate) of: RoomOf,
    /// What becomes free of nodes for these tasks: what they reserve there themselves, and pods that are evicted.
    pub(super) freed: FxHashMap<NodeId, Amounts>,
    /// The length of the session's log when the nodes were counted; 0 outside a session.
    counted_at: usize,
}

#[derive(Clone)]
pub(super) struct ClassRoom {
    pub(super) class: ClassId,
    pub(super) tasks: u64,
    /// What a task requests.
    pub(super) request: Vec<(DimId, i64)>,
    /// A host port or anti-affinity keeps the tasks on different nodes.
    pub(super) apart: bool,
    /// By the index of the node; `None` where node filters refuse it.
    pub(super) fits: Vec<Option<u32>>,
    /// By the index of the HyperNode, the sums over its nodes.
    sums: Vec<u64>,
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
        Self::for_none(session, of).next(session, tasks)
    }

    /// The room for no tasks.
    pub(crate) fn for_none(session: &Session<'_>, of: RoomOf) -> Self {
        Self { counted_at: session.log.len(), ..Self::without_classes(session.cluster, &[], of, &[]) }
    }

    /// The room for other tasks: for classes of which the room is known, only nodes that have changed since it was
    /// counted are counted anew. What was done in the session before that must not have been undone.
    pub(crate) fn next(mut self, session: &mut Session<'_>, tasks: &[TaskId]) -> Self {
        let mut changed = session.nodes_changed_since(self.counted_at);
        let counted_at = session.log.len();
        let Session { cluster, tiers, state, .. } = session;
        let mut room = Self { counted_at, ..Self::without_classes(cluster, tasks, self.of, &[]) };
        changed.extend(self.freed.keys().chain(room.freed.keys()));
        for (class, tasks) in count_classes(cluster, tasks.iter()) {
            let known = self.classes.iter().position(|it| it.class == class);
            let of_class = match known.map(|at| self.classes.swap_remove(at)) {
                Some(known) => room.recounted(cluster, ClassRoom { tasks, ..known }, &changed),
                None => room.of_class(cluster, class, tasks, state.placement.admits(cluster, tiers, class)),
            };
            room.classes.push(of_class);
        }
        room
    }

    /// The room for tasks once resources are released and these pods, too, are gone.
    pub(crate) fn after_evictions(session: &mut Session<'_>, tasks: &[TaskId], gone: &[TaskId]) -> Self {
        let Session { cluster, tiers, state, .. } = session;
        Self::in_cluster(cluster, tiers, &mut state.placement, tasks, gone)
    }

    /// The same, outside a session.
    pub(crate) fn in_cluster(
        cluster: &Cluster,
        tiers: &Tiers,
        placement: &mut NodeRanking,
        tasks: &[TaskId],
        gone: &[TaskId],
    ) -> Self {
        let mut room = Self::without_classes(cluster, tasks, RoomOf::FutureIdle, gone);
        for (class, tasks) in count_classes(cluster, tasks.iter()) {
            let class = room.of_class(cluster, class, tasks, placement.admits(cluster, tiers, class));
            room.classes.push(class);
        }
        room
    }

    fn without_classes(cluster: &Cluster, tasks: &[TaskId], of: RoomOf, gone: &[TaskId]) -> Self {
        let mut request = Amounts::new();
        for task in tasks {
            request.add(cluster.request_of(*task));
        }
        let freed = held_on(cluster, tasks.iter().chain(gone));
        Self { classes: Vec::new(), request, of, freed, counted_at: 0 }
    }

    fn of_class(
        &self,
        cluster: &Cluster,
        class: ClassId,
        tasks: u64,
        admits: impl Fn(NodeId) -> bool,
    ) -> ClassRoom {
        let of = &cluster.classes[class];
        let request: Vec<(DimId, i64)> = of.request.iter().filter(|(_, amount)| *amount > 0).collect();
        let apart = !of.constraints.host_ports.is_empty() || cluster.terms.keeps_hosts_apart(of);
        let fits = vec![None; cluster.nodes.bound()];
        let mut it = ClassRoom { class, tasks, request, apart, fits, sums: Vec::new() };
        for (id, _) in cluster.nodes.iter().filter(|(id, node)| node.exists && admits(*id)) {
            it.fits[id.index()] = Some(self.fitting(cluster, &it, id));
        }
        it.sums = cluster.hyper_nodes.iter().map(|(_, hyper_node)| it.sum(&hyper_node.nodes)).collect();
        it
    }

    fn recounted(&self, cluster: &Cluster, mut of: ClassRoom, changed: &[NodeId]) -> ClassRoom {
        for node in changed {
            let Some(before) = of.fits[node.index()] else { continue };
            let now = self.fitting(cluster, &of, *node);
            of.fits[node.index()] = Some(now);
            for id in cluster.hyper_nodes.of_node(*node) {
                let sum = &mut of.sums[id.index()];
                *sum = *sum + u64::from(now) - u64::from(before);
            }
        }
        let is_exact =
            |id: NodeId| of.fits[id.index()].is_none_or(|fits| fits == self.fitting(cluster, &of, id));
        debug_assert!(cluster.nodes.ids().all(is_exact), "other nodes have changed");
        of
    }

    /// How many tasks of a class fit a node.
    fn fitting(&self, cluster: &Cluster, of: &ClassRoom, node: NodeId) -> u32 {
        let (it, freed) = (&cluster.nodes[node], self.freed.get(&node));
        let most = match self.of.amounts(it, freed) {
            Some(amounts) => of.fitting(|dim| amounts.get(dim)),
            None => of.fitting(|dim| self.of.amount(it, freed, dim)),
        };
        most.min(if of.apart { 1 } else { u32::MAX.into() }) as u32
    }

    /// What so many of the tasks request in the mean.
    pub(super) fn request_of(&self, tasks: u64) -> Amounts {
        let all: u64 = self.classes.iter().map(|class| class.tasks).sum();
        let of = |(dim, amount): (DimId, i64)| {
            let part = i128::from(amount) * i128::from(tasks) / i128::from(all.max(1));
            (dim, i64::try_from(part).unwrap_or(i64::MAX))
        };
        self.request.iter().map(of).collect()
    }

    /// Whether node filters let any of the tasks on a node.
    pub(crate) fn admits(&self, node: NodeId) -> bool {
        self.classes.iter().any(|class| class.fits[node.index()].is_some())
    }

    /// How many of the tasks fit a HyperNode at the most.
    pub(crate) fn on(&self, id: HyperNodeId) -> u64 {
        self.classes.iter().map(|class| class.on(id)).sum()
    }

    /// How many of some of the tasks fit a HyperNode at the most.
    pub(super) fn on_for(&self, id: HyperNodeId, some: &ClassCounts) -> u64 {
        let count = |class: &ClassRoom| some.get(&class.class).copied().unwrap_or_default();
        self.classes.iter().map(|class| class.on(id).min(count(class))).sum()
    }
}

impl ClassRoom {
    /// How many tasks fit these amounts.
    fn fitting(&self, amount: impl Fn(DimId) -> i64) -> i64 {
        let fitting = |(dim, request): &(DimId, i64)| amount(*dim).max(0) / request;
        self.request.iter().map(fitting).min().unwrap_or(i64::MAX)
    }

    pub(super) fn on(&self, id: HyperNodeId) -> u64 {
        self.sums[id.index()].min(self.tasks)
    }

    fn sum(&self, nodes: &[NodeId]) -> u64 {
        nodes.iter().filter_map(|node| self.fits[node.index()]).map(u64::from).sum()
    }
}

impl RoomOf {
    /// The amounts of a node where nothing has to be added or subtracted: `amount` of each dimension.
    fn amounts<'n>(self, node: &'n Node, freed: Option<&Amounts>) -> Option<&'n Amounts> {
        let is_plain = freed.is_none() && node.pipelined.is_zero();
        match self {
            RoomOf::Idle => is_plain.then_some(&node.idle),
            RoomOf::FutureIdle => (is_plain && node.releasing.is_zero()).then_some(&node.idle),
            RoomOf::Allocatable => Some(&node.allocatable),
        }
    }

    /// The amount of a node, where `freed` becomes free beside.
    pub(super) fn amount(self, node: &Node, freed: Option<&Amounts>, dim: DimId) -> i64 {
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
