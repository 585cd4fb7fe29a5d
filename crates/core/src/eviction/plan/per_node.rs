//! Strategy *per node*: potential victims of one node after the other, where plugins let only some of all go.
//!
//! Guarantees: room is not spread over nodes that no set of permitted victims empties. For a single pod, the nodes are compared
//! by what would have to go on each, as in kube-scheduler (`pickOneNodeForPreemption`): the most important victim first, then
//! how many pods are lost.
use rustc_hash::{FxHashMap, FxHashSet};

use super::{JobId, Loss, NoEviction, NodeId, Search, TaskId, Victim, asks_others, dry_run};
use crate::eviction::mode::EvictionMode;

/// Nodes that are tried for a single pod, the best ones first.
const MOST_NODES: usize = 8;

/// What a node loses: priority of the most important victim, what that one's gang loses, pods that are of no use
/// afterwards; then who would go first.
type Cost = (i32, Loss, usize, usize);

impl Search<'_, '_> {
    /// Node by node, so that what may go is not spread over nodes that none of it empties: the nodes first whose most
    /// important victim is the least. What does not make room for another task of the preemptor is not spent.
    pub(super) fn per_node(&mut self, useful: &[Victim], tier: usize) -> Result<bool, NoEviction> {
        self.steps.scan(4 * useful.len())?;
        let nodes = self.nodes_of(useful);
        if self.of_gangs() || asks_others(self.session) {
            let (_, allowed) = self.allowed(&nodes.concat(), Some(tier)).unwrap_or_default();
            return self.try_list(&allowed);
        }
        let mut kept: Vec<Victim> = Vec::new();
        for victims in nodes {
            self.steps.scan(4 * (kept.len() + victims.len()))?;
            let before = kept.len();
            kept.extend(victims);
            let (_, allowed) = self.allowed(&kept, Some(tier)).unwrap_or_default();
            kept = allowed;
            let gained = self.gaining(kept.get(before..).unwrap_or_default());
            kept.truncate(before + gained);
            if gained > 0 && self.try_list(&kept)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The victims by node, in the order in which nodes are emptied.
    fn nodes_of(&self, useful: &[Victim]) -> Vec<Vec<Victim>> {
        let cluster = &*self.session.cluster;
        let cost = |victim: &Victim| (cluster.jobs[victim.job].priority, victim.loss);
        let mut worst: FxHashMap<NodeId, ((i32, Loss), usize)> = FxHashMap::default();
        for victim in useful {
            let entry = worst.entry(victim.node).or_insert((cost(victim), 0));
            *entry = (entry.0.max(cost(victim)), entry.1 + 1);
        }
        let mut list = useful.to_vec();
        // Stable: within a node the order of importance stays.
        list.sort_by(|a, b| {
            let name = |victim: &Victim| &cluster.nodes[victim.node].name;
            worst[&a.node].cmp(&worst[&b.node]).then_with(|| name(a).cmp(name(b)))
        });
        list.chunk_by(|a, b| a.node == b.node).map(<[Victim]>::to_vec).collect()
    }

    /// Room for one task on each node, then for one more on each, and so on: tasks may not stand together, or those that may
    /// go are just enough. Of each node no more are taken than it takes, whatever the others of it would make room for.
    pub(super) fn by_turns(&mut self, useful: &[Victim], tier: usize) -> Result<bool, NoEviction> {
        if asks_others(self.session) {
            return Ok(false);
        }
        let nodes = self.nodes_of(useful);
        let mut kept: Vec<Vec<Victim>> = vec![Vec::new(); nodes.len()];
        for round in 1..=self.preemptor.wanted.max(1) as u32 {
            let mut gained = false;
            for (at, enough) in self.cheapest_first(&nodes, &kept, round)? {
                let before = std::mem::replace(&mut kept[at], enough);
                let list = self.with_bundles(kept.concat(), useful);
                self.steps.scan(4 * list.len())?;
                let allowed = self.allowed(&list, Some(tier)).unwrap_or_default().1;
                if allowed.len() < list.len() {
                    kept[at] = before;
                    continue;
                }
                gained = true;
                if self.try_list(&list)? {
                    return Ok(true);
                }
            }
            if !gained {
                break;
            }
        }
        Ok(false)
    }

    /// Who makes room for so many tasks on each node; where fewer have to go besides those kept, and those hold less, first.
    fn cheapest_first(
        &mut self,
        nodes: &[Vec<Victim>],
        kept: &[Vec<Victim>],
        tasks: u32,
    ) -> Result<Vec<(usize, Vec<Victim>)>, NoEviction> {
        let mut plans = Vec::new();
        for (at, victims) in nodes.iter().enumerate() {
            self.steps.scan(4 * victims.len())?;
            plans.extend(self.enough_for(victims, tasks).map(|enough| (at, enough)));
        }
        // Stable: of those with as many the one that comes first.
        let cost = |victims: &[Victim]| (victims.len(), self.held_by(victims));
        plans.sort_by_key(|(at, enough)| {
            let (before, after) = (cost(&kept[*at]), cost(enough));
            (after.0.saturating_sub(before.0), after.1 - before.1)
        });
        Ok(plans)
    }

    /// What victims hold, in millionths of all there is, added up over resources.
    fn held_by(&self, victims: &[Victim]) -> i128 {
        let cluster = &*self.session.cluster;
        let part = |(dim, amount)| i128::from(amount) * 1_000_000 / i128::from(cluster.total.get(dim)).max(1);
        let of = |victim: &Victim| cluster.request_of(victim.task).iter().map(part).sum::<i128>();
        victims.iter().map(of).sum()
    }

    /// With the rest of gangs that would be broken, for the actions that take those as a whole.
    fn with_bundles(&self, list: Vec<Victim>, useful: &[Victim]) -> Vec<Victim> {
        if !self.of_gangs() {
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

    /// Those of a node's that make room for so many tasks more, the most important ones spared first.
    fn enough_for(&self, victims: &[Victim], tasks: u32) -> Option<Vec<Victim>> {
        let node = victims.first()?.node;
        let cluster = &*self.session.cluster;
        let takes = |victims: &[Victim]| -> u32 {
            let freed = victims.iter().map(|victim| cluster.request_of(victim.task));
            self.today.takes_with(node, freed).iter().sum()
        };
        let wanted = takes(&[]) + tasks;
        let mut enough = victims.to_vec();
        if takes(&enough) < wanted {
            return None;
        }
        for at in (0..enough.len()).rev() {
            let spared = enough.remove(at);
            if takes(&enough) < wanted {
                enough.insert(at, spared);
            }
        }
        Some(enough)
    }

    /// How many of the victims of a node, the first ones first, it takes for as much room as all of them make; none where
    /// that takes no task of the preemptor more.
    fn gaining(&self, victims: &[Victim]) -> usize {
        let Some(node) = victims.first().map(|victim| victim.node) else { return 0 };
        let takes = |count: usize| {
            let freed = victims[..count].iter().map(|victim| self.session.cluster.request_of(victim.task));
            self.today.takes_with(node, freed)
        };
        let all = takes(victims.len());
        (0..victims.len()).find(|count| takes(*count) == all).unwrap_or(victims.len())
    }
}

impl Search<'_, '_> {
    /// Evicts on one node for a single pod, where that is enough.
    pub(super) fn best_node(&mut self, useful: &[Victim], tier: usize) -> Result<bool, NoEviction> {
        let single = self.preemptor.tasks.len() == 1 && self.preemptor.non_preempting.is_empty();
        if !single || self.mode != EvictionMode::Preempt || asks_others(self.session) {
            return Ok(false);
        }
        self.steps.scan(4 * useful.len())?;
        let mut plans = self.plans(useful);
        plans.sort_by_key(|(cost, _)| *cost);
        for (_, victims) in plans.into_iter().take(MOST_NODES) {
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
        let cluster = &*self.session.cluster;
        let fits = |victims: &[(usize, Victim)]| {
            let freed = victims.iter().map(|(_, victim)| cluster.request_of(victim.task));
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
        let cluster = &*self.session.cluster;
        let mut by_job: FxHashMap<JobId, Vec<Victim>> = FxHashMap::default();
        for (_, victim) in victims {
            by_job.entry(victim.job).or_default().push(*victim);
        }
        let of_job = |(job, lost): (&JobId, &Vec<Victim>)| match () {
            () if dry_run::can_spare(cluster, *job, lost) => (Loss::Surplus, lost.len()),
            () if cluster.jobs[*job].is_broken() => (Loss::Broken, lost.len()),
            () => (Loss::Whole, members[job]),
        };
        let losses: Vec<(Loss, usize)> = by_job.iter().map(of_job).collect();
        let priority = by_job.keys().map(|job| cluster.jobs[*job].priority).max()?;
        let loss = losses.iter().map(|(loss, _)| *loss).max()?;
        let last = victims.iter().map(|(at, _)| *at).max()?;
        Some((priority, loss, losses.iter().map(|(_, lost)| lost).sum(), last))
    }
}
