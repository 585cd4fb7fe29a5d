//! One pod asks for room: of the nodes where others can make it, the one that loses the least.
//!
//! In the order of importance alone the first node wins that is emptied by it, though another might do with fewer victims
//! that matter as little. Here the nodes are compared by what would have to go on each, as kube-scheduler does
//! (`pickOneNodeForPreemption`): the most important victim first, then how many pods are lost.
use rustc_hash::FxHashMap;

use super::{JobId, NoEviction, NodeId, Search, Victim, proof};
use crate::actions::evict::purpose::Purpose;
use crate::actions::evict::roster::Loss;

/// So many nodes are tried, the best ones.
const TRIED: usize = 8;

/// What a node loses: priority of the most important victim, what that one's gang loses, pods that are of no use
/// afterwards; then who would go first.
type Cost = (i32, Loss, usize, usize);

impl Search<'_, '_> {
    /// Evicts on one node for a single pod, where that is enough.
    pub(super) fn best_node(&mut self, useful: &[Victim], tier: usize) -> Result<bool, NoEviction> {
        let single = self.aim.tasks.len() == 1 && self.aim.meek.is_empty();
        if !single || self.purpose != Purpose::Preempt || super::asks_others(self.session) {
            return Ok(false);
        }
        self.steps.scan(4 * useful.len())?;
        let mut plans = self.plans(useful);
        plans.sort_by_key(|(cost, _)| *cost);
        for (_, victims) in plans.into_iter().take(TRIED) {
            if self.may_all_go(&victims, tier) && self.try_list(&victims)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn may_all_go(&mut self, victims: &[Victim], tier: usize) -> bool {
        self.allowed(victims, Some(tier)).is_some_and(|(_, allowed)| allowed.len() == victims.len())
    }

    /// Who would have to go on each node, as far as amounts say.
    fn plans(&self, useful: &[Victim]) -> Vec<(Cost, Vec<Victim>)> {
        let mut by_node: FxHashMap<NodeId, Vec<(usize, Victim)>> = FxHashMap::default();
        let mut members: FxHashMap<JobId, usize> = FxHashMap::default();
        for (at, victim) in useful.iter().enumerate() {
            by_node.entry(victim.node).or_default().push((at, *victim));
            *members.entry(victim.job).or_default() += 1;
        }
        let plan = |(node, all): (NodeId, Vec<(usize, Victim)>)| {
            let needed = self.needed(node, all)?;
            let cost = self.cost(&needed, &members)?;
            Some((cost, needed.into_iter().map(|(_, victim)| victim).collect()))
        };
        by_node.into_iter().filter_map(plan).collect()
    }

    /// Those without whom there is no room, the most important ones spared first; `None` when all of them make none.
    fn needed(&self, node: NodeId, mut victims: Vec<(usize, Victim)>) -> Option<Vec<(usize, Victim)>> {
        let world = &*self.session.world;
        let fits = |victims: &[(usize, Victim)]| {
            let freed = victims.iter().map(|(_, victim)| world.request_of(victim.task));
            self.today.takes_with(node, freed).iter().any(|count| *count > 0)
        };
        if !fits(&victims) {
            return None;
        }
        for at in (0..victims.len()).rev() {
            let spared = victims.remove(at);
            if !fits(&victims) {
                victims.insert(at, spared);
            }
        }
        Some(victims)
    }

    fn cost(&self, victims: &[(usize, Victim)], members: &FxHashMap<JobId, usize>) -> Option<Cost> {
        let world = &*self.session.world;
        let mut by_job: FxHashMap<JobId, Vec<Victim>> = FxHashMap::default();
        for (_, victim) in victims {
            by_job.entry(victim.job).or_default().push(*victim);
        }
        let of_job = |(job, lost): (&JobId, &Vec<Victim>)| match () {
            () if proof::can_spare(world, *job, lost) => (Loss::Surplus, lost.len()),
            () if world.jobs[*job].is_broken() => (Loss::Broken, lost.len()),
            () => (Loss::Whole, members[job]),
        };
        let losses: Vec<(Loss, usize)> = by_job.iter().map(of_job).collect();
        let priority = by_job.keys().map(|job| world.jobs[*job].priority).max()?;
        let loss = losses.iter().map(|(loss, _)| *loss).max()?;
        let last = victims.iter().map(|(at, _)| *at).max()?;
        Some((priority, loss, losses.iter().map(|(_, lost)| lost).sum(), last))
    }
}
