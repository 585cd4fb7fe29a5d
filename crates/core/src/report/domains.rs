//! The HyperNodes of a job: the one that holds it, and those without room for it.
use std::sync::Arc;

use phalanx_cluster::id::{JobId, NodeId, TaskId};
use phalanx_cluster::{HyperNode, Status, rendered};
use phalanx_framework::placement::NodeRanking;

use super::{Figures, Inspection};
use crate::network::{Lack, Room, RoomOf};

/// The HyperNode in which a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The name.
    pub hyper_node: Arc<str>,
    /// Its tier.
    pub tier: u32,
}

/// A HyperNode that may hold a job and has no room for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedDomain {
    /// The HyperNode.
    pub domain: Domain,
    /// How many of the pods that need nodes have room.
    pub fits: u32,
    /// How many need nodes.
    pub wanted: u32,
    /// What its nodes lack for the others; nothing where node filters refuse the pods.
    pub missing: Figures,
}

impl Domain {
    fn of(hyper_node: &HyperNode) -> Self {
        Self { hyper_node: hyper_node.name.clone(), tier: hyper_node.tier }
    }
}

impl Inspection<'_> {
    /// The lowest HyperNode that holds all pods of a job that have nodes.
    pub fn domain(&self, job: JobId) -> Option<Domain> {
        let cluster = self.cluster();
        let nodes = cluster.nodes_of(cluster.jobs[job].tasks.iter());
        Some(Domain::of(cluster.hyper_nodes.get(cluster.domain_of_nodes(&nodes)?)))
    }

    /// The HyperNodes that the network topology of a waiting job allows and that have no room for it: those with the
    /// most room first; of several, those that lack the least.
    pub fn rejected_domains(&self, job: JobId) -> Vec<RejectedDomain> {
        let cluster = self.cluster();
        let it = &cluster.jobs[job];
        let Some(topology) = it.topology.as_ref().filter(|_| it.is_pending()) else { return Vec::new() };
        let waits = |task: &&TaskId| cluster.tasks[**task].status == Status::Pending;
        let tasks: Vec<TaskId> = it.tasks.iter().filter(waits).copied().collect();
        let placed: Vec<NodeId> = cluster.nodes_of(it.tasks.iter());
        let wanted = u64::from(it.min_member.saturating_sub(it.counts.ready()).max(1));
        let allowed = match cluster.domains_of(Some(topology), &placed) {
            Ok(allowed) => allowed.unwrap_or_else(|| cluster.domains_around(&placed, None)),
            Err(_) => return Vec::new(),
        };
        let mut placement = NodeRanking::new(0);
        let room = Room::in_cluster(cluster, &self.tiers, &mut placement, &tasks, RoomOf::FutureIdle);
        let of = |id| {
            let nodes = &cluster.hyper_nodes.get(id).nodes;
            let fits = room.on(nodes);
            (fits < wanted).then(|| (fits, room.lack(cluster, nodes, wanted), id))
        };
        let mut rejected: Vec<(u64, Lack, _)> = allowed.into_iter().filter_map(of).collect();
        rejected.sort_by_key(|(fits, lack, id)| (u64::MAX - fits, lack.order(), *id));
        let dims = cluster.dims_told(job);
        let told = |(fits, lack, id): (u64, Lack, _)| RejectedDomain {
            domain: Domain::of(cluster.hyper_nodes.get(id)),
            fits: fits as u32,
            wanted: wanted as u32,
            missing: rendered(&dims, &lack.missing),
        };
        rejected.into_iter().map(told).collect()
    }
}
