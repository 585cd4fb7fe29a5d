//! Strategy *per node*: of each node only the potential victims that make room for a task there.
//!
//! Guarantees: victims are not spread over nodes where they make no room. For a single pod, the nodes are compared by
//! what would have to go on each, as in kube-scheduler (`pickOneNodeForPreemption`): the most important victim first,
//! then how many pods are lost.
use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{JobId, Loss, NoEviction, NodeId, Offer, Plan, TaskId, Victim, VictimSearch, is_surplus};
use crate::eviction::mode::EvictionMode;

/// Nodes that are tried for a single pod, the best ones first.
const MOST_NODES: usize = 8;

/// What a node loses. The fields are compared in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NodeCost {
    /// The priority of the most important victim.
    priority: i32,
    /// What the gang loses that loses most.
    loss: Loss,
    /// Pods that are of no use afterwards.
    pods: usize,
}

/// The potential victims of a node that make room.
struct NodeVictims {
    /// The place of the node in the order of nodes.
    at: usize,
    victims: Vec<Victim>,
    /// The ones of them that are not reprieved.
    more: Vec<Victim>,
}

impl VictimSearch<'_, '_> {
    /// Evicts on one node for a single pod, where that is enough.
    pub(super) fn cheapest_node(&mut self, offer: &Offer) -> Result<Option<Plan>, NoEviction> {
        let single = self.preemptor.tasks.len() == 1 && self.preemptor.non_preempting.is_empty();
        if !single || self.mode() != EvictionMode::Preempt || self.session.tiers.victims_are_judged_remotely()
        {
            return Ok(None);
        }
        let nodes = self.by_node(&offer.useful);
        let rank = |task: TaskId| offer.useful.iter().position(|victim| victim.task == task);
        let mut plans = self.room_on_each(&nodes, &vec![Vec::new(); nodes.len()], 1)?;
        plans.sort_by_cached_key(|plan| {
            (self.cost(&plan.victims, &offer.useful), plan.victims.last().and_then(|last| rank(last.task)))
        });
        for NodeVictims { victims, .. } in plans.into_iter().take(MOST_NODES) {
            let found = if self.may_all_go(&victims) { self.try_list(&victims)? } else { None };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// All, those of the node first whose most important victim matters least, so that one node is empty before the
    /// next; then task by task.
    pub(super) fn per_node(&mut self, offer: &Offer) -> Result<Option<Plan>, NoEviction> {
        if !offer.limited {
            return Ok(None);
        }
        let nodes = self.by_node(&offer.useful);
        self.steps.scan(4 * offer.useful.len())?;
        let found = self.try_allowed(&nodes.concat())?;
        if found.is_some() || self.session.tiers.victims_are_judged_remotely() {
            return Ok(found);
        }
        self.task_by_task(offer, &nodes)
    }

    /// Makes room for one task on each node, then for one more on each, and so on. Of each node no more go than that
    /// takes.
    fn task_by_task(&mut self, offer: &Offer, nodes: &[Vec<Victim>]) -> Result<Option<Plan>, NoEviction> {
        let mut kept: Vec<Vec<Victim>> = vec![Vec::new(); nodes.len()];
        for round in 1..=self.preemptor.wanted.max(1) as u32 {
            let mut gained = false;
            let mut plans = self.room_on_each(nodes, &kept, round)?;
            // Stable: of nodes that lose as much the one that comes first.
            plans.sort_by_cached_key(|plan| (plan.more.len(), self.held_by(&plan.more)));
            for NodeVictims { at, victims, .. } in plans {
                let before = std::mem::replace(&mut kept[at], victims);
                let list = self.with_whole_gangs(kept.concat(), &offer.useful);
                self.steps.scan(4 * list.len())?;
                if !self.may_all_go(&list) {
                    kept[at] = before;
                    continue;
                }
                gained = true;
                let found = self.try_list(&list)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            if !gained {
                break;
            }
        }
        Ok(None)
    }

    /// The victims by node: the nodes first whose most important victim matters least, then by name.
    fn by_node(&self, useful: &[Victim]) -> Vec<Vec<Victim>> {
        let cluster = &*self.session.cluster;
        let cost = |victim: &Victim| (cluster.jobs[victim.job].priority, victim.loss);
        let mut nodes: FxHashMap<NodeId, Vec<Victim>> = FxHashMap::default();
        for victim in useful {
            nodes.entry(victim.node).or_default().push(*victim);
        }
        let mut nodes: Vec<Vec<Victim>> = nodes.into_values().collect();
        nodes.sort_by_cached_key(|victims| {
            let name = cluster.nodes[victims[0].node].name.clone();
            (victims.iter().map(cost).max(), victims.len(), name)
        });
        nodes
    }

    /// The victims that make room for so many tasks, on each node where some do.
    fn room_on_each(
        &mut self,
        nodes: &[Vec<Victim>],
        kept: &[Vec<Victim>],
        tasks: u32,
    ) -> Result<Vec<NodeVictims>, NoEviction> {
        let mut plans = Vec::new();
        for (at, all) in nodes.iter().enumerate() {
            self.steps.scan(4 * all.len())?;
            let Some(victims) = self.enough_for(all, tasks) else { continue };
            let is_kept = |victim: &Victim| kept[at].iter().any(|known| known.task == victim.task);
            let more = victims.iter().filter(|victim| !is_kept(victim)).copied().collect();
            plans.push(NodeVictims { at, victims, more });
        }
        Ok(plans)
    }

    /// What victims hold, in millionths of all there is, added up over resources.
    fn held_by(&self, victims: &[Victim]) -> i128 {
        let cluster = &*self.session.cluster;
        let part = |(dim, amount)| {
            i128::from(amount) * 1_000_000 / i128::from(cluster.sums.allocatable.get(dim)).max(1)
        };
        let of = |victim: &Victim| cluster.request_of(victim.task).iter().map(part).sum::<i128>();
        victims.iter().map(of).sum()
    }

    /// The victims that are kept, with the rest of gangs that would be broken for the actions that take those as a
    /// whole.
    fn with_whole_gangs(&self, list: Vec<Victim>, useful: &[Victim]) -> Vec<Victim> {
        if !self.evicts_whole_gangs() {
            return list;
        }
        let broken = list.iter().filter(|victim| victim.loss != Loss::Surplus);
        let broken: FxHashSet<JobId> = broken.map(|victim| victim.job).collect();
        let listed: FxHashSet<TaskId> = list.iter().map(|victim| victim.task).collect();
        let goes = |victim: &&Victim| {
            listed.contains(&victim.task) || (victim.loss != Loss::Surplus && broken.contains(&victim.job))
        };
        useful.iter().filter(goes).copied().collect()
    }

    /// The potential victims of a node that make room for a number of further tasks, the most important ones reprieved
    /// first; `None` when all of them make none.
    fn enough_for(&self, victims: &[Victim], tasks: u32) -> Option<Vec<Victim>> {
        let node = victims.first()?.node;
        let cluster = &*self.session.cluster;
        let takes = |victims: &[Victim]| -> u32 {
            let freed = victims.iter().map(|victim| cluster.request_of(victim.task));
            self.bound.takes_with(node, freed).iter().sum()
        };
        let wanted = takes(&[]) + tasks;
        let mut enough = victims.to_vec();
        if takes(&enough) < wanted {
            return None;
        }
        for at in (0..enough.len()).rev() {
            let reprieved = enough.remove(at);
            if takes(&enough) < wanted {
                enough.insert(at, reprieved);
            }
        }
        Some(enough)
    }

    /// What the eviction of these costs.
    fn cost(&self, victims: &[Victim], useful: &[Victim]) -> Option<NodeCost> {
        let cluster = &*self.session.cluster;
        let mut by_job: BTreeMap<JobId, Vec<TaskId>> = BTreeMap::new();
        for victim in victims {
            by_job.entry(victim.job).or_default().push(victim.task);
        }
        let of_job = |(job, lost): (&JobId, &Vec<TaskId>)| match () {
            () if is_surplus(cluster, lost) => (Loss::Surplus, lost.len()),
            () if cluster.jobs[*job].is_broken() => (Loss::Broken, lost.len()),
            () => (Loss::BreaksGang, useful.iter().filter(|victim| victim.job == *job).count()),
        };
        let losses: Vec<(Loss, usize)> = by_job.iter().map(of_job).collect();
        Some(NodeCost {
            priority: by_job.keys().map(|job| cluster.jobs[*job].priority).max()?,
            loss: losses.iter().map(|(loss, _)| *loss).max()?,
            pods: losses.iter().map(|(_, lost)| lost).sum(),
        })
    }
}
