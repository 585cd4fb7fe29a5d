//! pdb: PodDisruptionBudgets limit which pods are evicted.
//!
//! A task is preemptable and reclaimable while the PodDisruptionBudget that selects its pod allows one more disruption,
//! the victims before the task and evictions under way counted. There are no arguments.
//!
//! Source: Volcano's pdb plugin. Differences: the actions that evict respect budgets also without this plugin, since
//! the eviction API does; the plugin adds its vote to its tier. Pods without labels count like others, where Volcano
//! never evicts them; an empty selector selects all pods, where in Volcano it selects none; a pod that several budgets
//! select is not evicted, as in the eviction API. The plugin names no victims for `shuffle`, where Volcano's names each
//! pod that no budget protects.
use std::sync::Arc;

use phalanx_cluster::id::TaskId;
use phalanx_cluster::{Budgets, Cluster};
use phalanx_framework::conf::ArgSpec;
use phalanx_framework::plugin::{Eviction, ObjectField, Plugin, PluginDef};

const ARGS: &[ArgSpec] = &[];

const READS: &[ObjectField] = &[
    ObjectField::new(
        "spec.selector",
        "field of a PodDisruptionBudget",
        "no pod",
        "The pods of its namespace that the budget covers; `{}` selects all.",
    ),
    ObjectField::new(
        "status.disruptionsAllowed",
        "field of a PodDisruptionBudget",
        "0",
        "How many of these pods may be evicted; 0 as long as `status.observedGeneration` is behind.",
    ),
    ObjectField::new(
        "spec.unhealthyPodEvictionPolicy",
        "field of a PodDisruptionBudget",
        "IfHealthyBudget",
        "When running pods that are not ready may be evicted and do not count: `AlwaysAllow`, or while `status.currentHealthy` is at least `status.desiredHealthy`.",
    ),
];

pub(super) const DEF: PluginDef = PluginDef {
    name: "pdb",
    summary: "PodDisruptionBudgets limit which pods are evicted.",
    args: ARGS,
    reads: READS,
    open: |_| Box::new(PdbPlugin),
};

struct PdbPlugin;

impl Plugin for PdbPlugin {
    fn depends_on_request(&self) -> bool {
        false
    }

    fn keep_reason(&self, cluster: &Cluster, _: TaskId, task: TaskId) -> Arc<str> {
        let budgets: Vec<String> = cluster.pdbs_of(task).map(|(key, _)| key.to_string()).collect();
        format!("protected by PodDisruptionBudget {} (plugin pdb)", budgets.join(", ")).into()
    }

    fn evictable(&self, cluster: &Cluster, _: Eviction, of: &[TaskId]) -> Option<Vec<TaskId>> {
        let mut budgets = Budgets::new(cluster);
        Some(of.iter().copied().filter(|task| budgets.take(*task)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::{Key, PdbInfo};
    use phalanx_cluster::label::Selector;
    use phalanx_framework::plugin::EvictionKind;
    use phalanx_framework::testing::{cluster_of, eviction, pod, running};

    #[test]
    fn victims_stay_within_the_budget() {
        let mut cluster = cluster_of([running(pod("a", "cpu=1"), "n"), running(pod("b", "cpu=1"), "n")]);
        let all: Vec<TaskId> = cluster.tasks.ids().collect();
        let evict = eviction(EvictionKind::Preempt, all[0]);
        let count = |cluster: &Cluster| PdbPlugin.evictable(cluster, evict, &all).unwrap().len();
        assert_eq!(count(&cluster), 2, "without labels, without budget");
        for (allowed, expected) in [(0, 0), (1, 1), (5, 2)] {
            let selector = Some(Selector::default());
            cluster.apply(
                PdbInfo { key: Key::new("ns", "all"), selector, allowed, ..PdbInfo::default() }.into(),
            );
            assert_eq!(count(&cluster), expected, "{allowed} allowed");
        }
    }
}
