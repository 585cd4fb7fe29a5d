//! Victims where they make room together: node by node, when plugins let only some of all go.
use rustc_hash::FxHashMap;

use super::{Loss, NoEviction, NodeId, Search, Victim, asks_others};

impl Search<'_, '_> {
    /// Node by node, so that what may go is not spread over nodes that none of it empties: the nodes first whose most
    /// important victim is the least. What does not make room for another task of the aim is not spent.
    pub(super) fn by_node(&mut self, useful: &[Victim], tier: usize) -> Result<bool, NoEviction> {
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
        let world = &*self.session.world;
        let cost = |victim: &Victim| (world.jobs[victim.job].priority, victim.loss);
        let mut worst: FxHashMap<NodeId, ((i32, Loss), usize)> = FxHashMap::default();
        for victim in useful {
            let entry = worst.entry(victim.node).or_insert((cost(victim), 0));
            *entry = (entry.0.max(cost(victim)), entry.1 + 1);
        }
        let mut list = useful.to_vec();
        // Stable: within a node the order of importance stays.
        list.sort_by(|a, b| {
            let name = |victim: &Victim| &world.nodes[victim.node].name;
            worst[&a.node].cmp(&worst[&b.node]).then_with(|| name(a).cmp(name(b)))
        });
        list.chunk_by(|a, b| a.node == b.node).map(<[Victim]>::to_vec).collect()
    }

    /// How many of the victims of a node, the first ones first, it takes for as much room as all of them make; none where
    /// that takes no task of the aim more.
    fn gaining(&self, victims: &[Victim]) -> usize {
        let Some(node) = victims.first().map(|victim| victim.node) else { return 0 };
        let takes = |count: usize| {
            let freed = victims[..count].iter().map(|victim| self.session.world.request_of(victim.task));
            self.today.takes_with(node, freed)
        };
        let all = takes(victims.len());
        (0..victims.len()).find(|count| takes(*count) == all).unwrap_or(victims.len())
    }
}
