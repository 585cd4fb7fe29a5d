//! The HyperNodes of a job: the one that holds it, and those without room for it.
use std::sync::Arc;

use phalanx_cluster::diagnosis::{Refusal, TopologyFault};
use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::{HyperNode, HyperNodeId, Status, SubGroup, rendered};
use phalanx_framework::placement::NodeRanking;

use super::{Figures, Inspection};
use crate::gang::hyper_nodes;
use crate::gang::sub_groups::WaitingSubGroups;
use crate::network::{self, Lack, RequiredSubGroups, Room};

/// The HyperNode in which a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The name.
    pub hyper_node: Arc<str>,
    /// Its tier.
    pub tier: u32,
}

/// A sub-group whose pods are in one HyperNode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedSubGroup {
    /// `name` of its entry of `subGroupPolicy`.
    pub policy: Arc<str>,
    /// The values of its `matchLabelKeys`.
    pub name: Arc<str>,
    /// The lowest HyperNode that holds its pods that have nodes.
    pub domain: Domain,
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

/// Pods that need nodes in one HyperNode.
struct Asked {
    /// The pods. What they hold counts as free.
    tasks: Vec<TaskId>,
    /// The HyperNodes that may hold them.
    allowed: Vec<HyperNodeId>,
    /// How many need nodes together.
    wanted: u64,
    /// The sub-groups that have to fit whole.
    required: Vec<RequiredSubGroups>,
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

    /// The sub-groups of a job whose pods with nodes are in one HyperNode.
    pub fn placed_sub_groups(&self, job: JobId) -> Vec<PlacedSubGroup> {
        let cluster = self.cluster();
        let placed = |(group, id): (SubGroup, HyperNodeId)| PlacedSubGroup {
            policy: cluster.jobs[job].sub_groups[group.policy].name.clone(),
            name: group.name(),
            domain: Domain::of(cluster.hyper_nodes.get(id)),
        };
        cluster.domains_of_sub_groups(job).into_iter().map(placed).collect()
    }

    /// The HyperNodes that the network topology of a waiting job, or of its sub-group that finds no room, allows and
    /// that have no room for it: those with the most room first; of several, those that lack the least.
    pub fn rejected_domains(&self, job: JobId) -> Vec<RejectedDomain> {
        let cluster = self.cluster();
        let of_topology =
            |refusal: &&Refusal| matches!(refusal, Refusal::Topology(fault) if !fault.is_of_room());
        if !cluster.jobs[job].is_pending() || self.refusals(job).iter().any(|it| of_topology(&it)) {
            return Vec::new();
        }
        let asked = self.asked_by_sub_group(job).or_else(|| self.asked_by(job));
        asked.map(|asked| self.rejected(job, &asked)).unwrap_or_default()
    }

    /// Why a placed job with a network topology is in no HyperNode of the next lower tier: the one of that tier with room
    /// for the most of its pods; nothing where one has room for all of them now.
    pub fn lower_tier(&self, job: JobId) -> Option<RejectedDomain> {
        let cluster = self.cluster();
        let it = &cluster.jobs[job];
        it.topology.as_ref()?;
        let holds = |task: &TaskId| cluster.tasks[*task].status.is_allocated();
        let tasks: Vec<TaskId> = it.tasks.iter().copied().filter(holds).collect();
        let tier = self.domain(job).map_or(u32::MAX, |domain| domain.tier);
        let lower = cluster.hyper_nodes.iter().map(|(_, it)| it.tier).filter(|lower| *lower < tier).max()?;
        let of_tier = cluster.hyper_nodes.iter().filter(|(_, it)| it.tier == lower);
        let allowed: Vec<HyperNodeId> = of_tier.map(|(id, _)| id).collect();
        let required = WaitingSubGroups::new(cluster, job, &tasks).required(cluster, job);
        let asked = Asked { wanted: tasks.len() as u64, tasks, allowed, required };
        let rejected = self.rejected(job, &asked);
        let has_room = rejected.len() < asked.allowed.len();
        rejected.into_iter().next().filter(|_| !has_room)
    }

    fn asked_by(&self, job: JobId) -> Option<Asked> {
        let cluster = self.cluster();
        let it = &cluster.jobs[job];
        let topology = it.topology.as_ref()?;
        let waiting = self.waiting_tasks(&it.tasks);
        let placed = cluster.nodes_of(it.tasks.iter().filter(|task| !self.waits(**task)));
        let allowed = match cluster.domains_of(Some(topology), &placed).ok()? {
            Some(allowed) => allowed,
            None => cluster.domains_around(&placed, None),
        };
        let groups = WaitingSubGroups::new(cluster, job, &waiting);
        let wanted = hyper_nodes::wanted(cluster, job, &waiting, &groups);
        let required = groups.required(cluster, job);
        Some(Asked { tasks: waiting, allowed, wanted, required })
    }

    /// The tasks that wait, with reserved nodes or without: nodes that are kept for a repair do not change the reason.
    fn waiting_tasks(&self, tasks: &[TaskId]) -> Vec<TaskId> {
        tasks.iter().copied().filter(|task| self.waits(*task)).collect()
    }

    fn waits(&self, task: TaskId) -> bool {
        matches!(self.cluster().tasks[task].status, Status::Pending | Status::Pipelined)
    }

    /// Of the sub-group that the reason names.
    fn asked_by_sub_group(&self, job: JobId) -> Option<Asked> {
        let cluster = self.cluster();
        let it = &cluster.jobs[job];
        let (policy, group) = self.refusals(job).iter().find_map(|refusal| match refusal {
            Refusal::Topology(TopologyFault::SubGroup { policy, group, .. }) => Some((policy, group)),
            _ => None,
        })?;
        let sub_groups = cluster.sub_groups(job);
        let is_named = |of: &SubGroup| it.sub_groups[of.policy].name == *policy && of.name() == *group;
        let SubGroup { policy, tasks, .. } = sub_groups.into_iter().find(is_named)?;
        let policy = &it.sub_groups[policy];
        let placed = cluster.nodes_of(tasks.iter());
        let outer = cluster.domains_of(it.topology.as_ref(), &cluster.nodes_of(it.tasks.iter())).ok()?;
        let outer = outer.map(|allowed| cluster.nodes_within(&allowed));
        let is_inside =
            |id: &HyperNodeId| network::is_inside(&cluster.hyper_nodes.get(*id).nodes, outer.as_deref());
        let mut allowed = cluster.domains_of(policy.topology.as_ref(), &placed).ok()??;
        allowed.retain(is_inside);
        let held = tasks.iter().filter(|task| cluster.tasks[**task].status.is_allocated()).count();
        let wanted = u64::from(policy.size).saturating_sub(held as u64).max(1);
        Some(Asked { tasks: self.waiting_tasks(&tasks), allowed, wanted, required: Vec::new() })
    }

    fn rejected(&self, job: JobId, asked: &Asked) -> Vec<RejectedDomain> {
        let (cluster, wanted) = (self.cluster(), asked.wanted);
        let mut placement = NodeRanking::new(0);
        let room = Room::in_cluster(cluster, &self.tiers, &mut placement, &asked.tasks, &[]);
        let fits = network::fits(cluster, &room, &asked.required, wanted);
        let of = |id: &HyperNodeId| {
            let fits = fits(*id);
            (fits < wanted).then(|| (fits, room.lack(cluster, *id, wanted), *id))
        };
        let mut rejected: Vec<(u64, Lack, _)> = asked.allowed.iter().filter_map(of).collect();
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
