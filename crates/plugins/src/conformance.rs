//! conformance: pods that Kubernetes itself needs are never evicted.
//!
//! Protects pods of the namespace `kube-system` and of the priority classes `system-cluster-critical` and
//! `system-node-critical` from preemption and reclaim. There are no arguments. Source: Volcano's conformance plugin.
use phalanx_cluster::id::TaskId;
use phalanx_cluster::{Cluster, Task};
use phalanx_framework::conf::ArgSpec;
use phalanx_framework::plugin::{Eviction, Plugin, PluginDef, VictimGuard};

const ARGS: &[ArgSpec] = &[];

pub(super) const DEF: PluginDef = PluginDef {
    name: "conformance",
    summary: "Pods of kube-system and of the system-critical priority classes are never evicted.",
    args: ARGS,
    reads: &[],
    open: |_| Box::new(Conformance),
};

struct Conformance;

impl Plugin for Conformance {
    fn depends_on_request(&self) -> bool {
        false
    }

    fn evictable(&self, cluster: &Cluster, _: Eviction, of: &[TaskId]) -> Option<Vec<TaskId>> {
        Some(of.iter().copied().filter(|task| !is_critical(&cluster.tasks[*task])).collect())
    }

    fn protection(&self) -> Option<&dyn VictimGuard> {
        Some(self)
    }
}

impl VictimGuard for Conformance {
    fn protects(&self, cluster: &Cluster, task: TaskId) -> bool {
        is_critical(&cluster.tasks[task])
    }

    fn reason(&self) -> &'static str {
        "critical to the system (plugin conformance)"
    }
}

fn is_critical(task: &Task) -> bool {
    let critical = ["system-cluster-critical", "system-node-critical"];
    &*task.pod.namespace == "kube-system"
        || task.priority_class.as_deref().is_some_and(|class| critical.contains(&class))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use phalanx_cluster::event::PodInfo;
    use phalanx_framework::plugin::EvictionKind;
    use phalanx_framework::testing::{cluster_of, eviction, pod};

    #[test]
    fn critical_pods_are_never_victims() {
        let with_class =
            |name: &str, class: &str| PodInfo { priority_class: Some(class.into()), ..pod(name, "cpu=1") };
        let mut system = pod("dns", "cpu=1");
        Arc::make_mut(&mut system.pod).namespace = "kube-system".into();
        let cluster = cluster_of([
            with_class("a", "system-cluster-critical"),
            with_class("b", "system-node-critical"),
            with_class("c", "important"),
            pod("d", "cpu=1"),
            system,
        ]);
        let all: Vec<TaskId> = cluster.tasks.ids().collect();
        let victims = Conformance.evictable(&cluster, eviction(EvictionKind::Preempt, all[0]), &all).unwrap();
        let names: Vec<&str> = victims.iter().map(|task| &*cluster.tasks[*task].pod.name).collect();
        assert_eq!(names, ["c", "d"]);
    }
}
