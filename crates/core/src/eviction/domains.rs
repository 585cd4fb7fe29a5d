//! The domains in which victims are looked for, for a gang with a network topology.
//!
//! HyperNodes come by tier. Of those of a tier, the one comes first where the least important pods have to go, counted by
//! sums of resources: the lowest priority that is enough, then the fewest pods, then the tightest fit. Where resources are
//! in fragments, or gangs go as a whole, more pods go than were counted.
use rustc_hash::FxHashMap;

use phalanx_cluster::id::TaskId;
use phalanx_cluster::{Cluster, HyperNodeId};
use phalanx_framework::plugin::NetworkOrder;
use phalanx_resource::{Amounts, DimId};

use super::potential_victims;
use super::preemptor::Preemptor;
use crate::gang::hyper_nodes;
use crate::gang::sub_groups::WaitingSubGroups;
use crate::network::{Domain, Room, RoomOf};
use crate::session::Session;

/// Domains in the order in which they are tried.
pub(super) struct EvictionDomains {
    pub(super) domains: Vec<Domain>,
    /// How many HyperNodes of a tier are tried at most, where that leaves some out.
    pub(super) limit: Option<usize>,
}

/// Those with room once all pods that may be evicted are gone; all nodes for a preemptor without a network topology.
pub(super) fn of(session: &mut Session<'_>, preemptor: &Preemptor) -> EvictionDomains {
    let all = |domains| EvictionDomains { domains, limit: None };
    let has_topology = session.cluster.jobs[preemptor.job].topology.is_some();
    let most = session.network_order().map(NetworkOrder::eviction_domains_max).filter(|_| has_topology);
    let Some(most) = most else { return all(vec![Domain::default()]) };
    let mut gone: Vec<TaskId> =
        potential_victims::each(session, preemptor).into_iter().map(|it| it.0).collect();
    gone.retain(|task| potential_victims::may_go(session, preemptor.mode, *task));
    let Preemptor { job, tasks, wanted, .. } = preemptor;
    let room = Room::after_evictions(session, tasks, &gone);
    let groups = WaitingSubGroups::new(session.cluster, *job, tasks);
    if let Ok(mut domains) = hyper_nodes::domains(session, *job, tasks, &groups, &room) {
        let cluster = &*session.cluster;
        gone.retain(|task| cluster.tasks[*task].node.is_some_and(|node| room.admits(node)));
        let victims = VictimsByHyperNode::new(cluster, gone);
        let mut request = Amounts::new();
        tasks.iter().take(*wanted).for_each(|task| request.add(cluster.request_of(*task)));
        let tier = |id: HyperNodeId| cluster.hyper_nodes.get(id).tier;
        domains.sort_by_cached_key(|domain| match domain.hyper_node {
            Some(id) => (tier(id), victims.least(cluster, &room, id, &request)),
            None => (u32::MAX, Victims::default()),
        });
        let with_room = domains.len();
        let domains = hyper_nodes::best_of_each_tier(session.cluster, domains, most);
        let limit = (domains.len() < with_room).then_some(most);
        EvictionDomains { domains, limit }
    } else {
        // None can be freed: the search in one that is large enough tells why.
        let room = Room::new(session, tasks, RoomOf::Allocatable);
        let large = hyper_nodes::domains(session, *job, tasks, &groups, &room).unwrap_or_default();
        all(large.into_iter().take(1).collect())
    }
}

/// Pods that have to go. The fields are compared in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Victims {
    /// The highest of their priorities; `None` without any.
    priority: Option<i32>,
    pods: usize,
}

/// The pods that may be evicted in each HyperNode, the least important first.
struct VictimsByHyperNode(FxHashMap<HyperNodeId, Vec<TaskId>>);

impl VictimsByHyperNode {
    fn new(cluster: &Cluster, mut tasks: Vec<TaskId>) -> Self {
        tasks.sort_by_cached_key(|task| (priority(cluster, *task), cluster.tasks[*task].pod.clone()));
        let mut of: FxHashMap<HyperNodeId, Vec<TaskId>> = FxHashMap::default();
        for task in tasks {
            let node = cluster.tasks[task].node;
            for id in node.map(|node| cluster.hyper_nodes.of_node(node)).into_iter().flatten() {
                of.entry(*id).or_default().push(task);
            }
        }
        Self(of)
    }

    /// The pods of a HyperNode that have to go, by sums of resources, so that this request has room. Nodes that node
    /// filters refuse do not count.
    fn least(&self, cluster: &Cluster, room: &Room, id: HyperNodeId, request: &Amounts) -> Victims {
        let mut free = Amounts::new();
        let nodes = cluster.hyper_nodes.get(id).nodes.iter().filter(|node| room.admits(**node));
        for node in nodes.map(|node| &cluster.nodes[*node]) {
            free.add(&node.idle);
            free.add(&node.releasing);
            free.sub(&node.pipelined);
        }
        let missing = |(dim, asked): (DimId, i64)| (dim, asked.saturating_sub(free.get(dim)));
        let mut missing: Vec<(DimId, i64)> = request.iter().map(missing).collect();
        let mut least = Victims::default();
        for task in self.0.get(&id).into_iter().flatten() {
            missing.retain(|(_, amount)| *amount > 0);
            if missing.is_empty() {
                break;
            }
            let frees = cluster.request_of(*task);
            if missing.iter().all(|(dim, _)| frees.get(*dim) == 0) {
                continue;
            }
            for (dim, amount) in &mut missing {
                *amount = amount.saturating_sub(frees.get(*dim));
            }
            least = Victims { priority: Some(priority(cluster, *task)), pods: least.pods + 1 };
        }
        least
    }
}

fn priority(cluster: &Cluster, task: TaskId) -> i32 {
    cluster.tasks[task].job.map_or(0, |job| cluster.jobs[job].priority)
}
