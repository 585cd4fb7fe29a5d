//! pdb: PodDisruptionBudgets limit who may be evicted.
//!
//! A task may be evicted while the PodDisruptionBudget that means its pod allows one more disruption, those picked before
//! it and those under way counted. Source: Volcano's pdb plugin, with these differences. The evicting actions respect
//! budgets with or without this plugin, since the eviction API does; it adds its opinion to its tier. Pods without labels
//! are counted like others, where Volcano never evicts them; an empty selector means every pod, where Volcano takes it for
//! none; a pod that several budgets mean cannot go, as the eviction API has it. And it names no victims for `shuffle`, where
//! Volcano's names every pod that no budget keeps.
use std::sync::Arc;

use phalanx_cluster::event::Time;
use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::{Budgets, World};
use phalanx_framework::conf::ArgSpec;
use phalanx_framework::plugin::{EvictionKind, ObjectField, Plugin, PluginDef};

const ARGS: &[ArgSpec] = &[];

const READS: &[ObjectField] = &[
    ObjectField::new(
        "spec.selector",
        "field of a PodDisruptionBudget",
        "no pod",
        "Which pods of its namespace it means; `{}` means all.",
    ),
    ObjectField::new(
        "status.disruptionsAllowed",
        "field of a PodDisruptionBudget",
        "0",
        "How many of them may be evicted; 0 as long as `status.observedGeneration` is behind.",
    ),
    ObjectField::new(
        "spec.unhealthyPodEvictionPolicy",
        "field of a PodDisruptionBudget",
        "IfHealthyBudget",
        "When those that run and are not ready may go and do not count: `AlwaysAllow`, or while `status.currentHealthy` is at least `status.desiredHealthy`.",
    ),
];

pub(super) const DEF: PluginDef = PluginDef {
    name: "pdb",
    summary: "PodDisruptionBudgets limit who may be evicted.",
    args: ARGS,
    reads: READS,
    open: |_| Box::new(PdbPlugin),
};

struct PdbPlugin;

impl Plugin for PdbPlugin {
    fn refusal_holds_until(&self, _: &World, _: JobId) -> Option<Time> {
        Some(Time::NEVER)
    }

    fn depends_on_request(&self) -> bool {
        false
    }

    fn keep_reason(&self, world: &World, _: TaskId, task: TaskId) -> Arc<str> {
        let budgets: Vec<String> = world.pdbs_of(task).map(|(key, _)| key.to_string()).collect();
        format!("protected by PodDisruptionBudget {} (plugin pdb)", budgets.join(", ")).into()
    }

    fn preemptable(&self, world: &World, _: TaskId, of: &[TaskId]) -> Option<Vec<TaskId>> {
        Some(within_budgets(world, of))
    }

    fn reclaimable(&self, world: &World, _: TaskId, of: &[TaskId]) -> Option<Vec<TaskId>> {
        Some(within_budgets(world, of))
    }

    fn unified_evictable(
        &self,
        world: &World,
        _: EvictionKind,
        _: TaskId,
        of: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        Some(within_budgets(world, of))
    }
}

fn within_budgets(world: &World, of: &[TaskId]) -> Vec<TaskId> {
    let mut budgets = Budgets::new(world);
    of.iter().copied().filter(|task| budgets.take(*task)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::{Key, PdbInfo};
    use phalanx_cluster::label::Selector;
    use phalanx_framework::testing::{pod, running, world_of};

    #[test]
    fn no_more_victims_than_the_budget_allows() {
        let mut world = world_of([running(pod("a", "cpu=1"), "n"), running(pod("b", "cpu=1"), "n")]);
        let all: Vec<TaskId> = world.tasks.ids().collect();
        let count = |world: &World| PdbPlugin.preemptable(world, all[0], &all).unwrap().len();
        assert_eq!(count(&world), 2, "without labels, without budget");
        for (allowed, expected) in [(0, 0), (1, 1), (5, 2)] {
            let selector = Some(Selector::default());
            world.apply(
                PdbInfo { key: Key::new("ns", "all"), selector, allowed, ..PdbInfo::default() }.into(),
            );
            assert_eq!(count(&world), expected, "{allowed} allowed");
            assert_eq!(PdbPlugin.reclaimable(&world, all[0], &all).unwrap().len(), expected);
            let of_gangs = PdbPlugin.unified_evictable(&world, EvictionKind::Preempt, all[0], &all);
            assert_eq!(of_gangs.unwrap().len(), expected);
        }
    }
}
