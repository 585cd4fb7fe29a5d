//! cdp (cooldown protection): a pod that was scheduled lately is not evicted.
//!
//! A running pod with the label or annotation `volcano.sh/cooldown-time` (a duration in Go's format) is protected for
//! that time after it was scheduled (the time of its condition PodScheduled). There are no arguments.
//!
//! Source: Volcano's cdp plugin. Difference: here the protection holds whatever plugins of other tiers permit.
use phalanx_cluster::annotation::COOLDOWN_TIME;
use phalanx_cluster::event::Time;
use phalanx_cluster::id::TaskId;
use phalanx_cluster::{Cluster, Status, Task};
use phalanx_framework::conf::ArgSpec;
use phalanx_framework::plugin::{Eviction, ObjectField, Plugin, PluginDef, VictimGuard};

const ARGS: &[ArgSpec] = &[];

const READS: &[ObjectField] = &[ObjectField::new(
    COOLDOWN_TIME,
    "label, else annotation, of a pod",
    "not protected",
    "How long a running pod is protected from eviction after it was scheduled: a duration such as `10m`.",
)];

pub(super) const DEF: PluginDef = PluginDef {
    name: "cdp",
    summary: "Pods with volcano.sh/cooldown-time are not evicted for that time after they were scheduled.",
    args: ARGS,
    reads: READS,
    open: |opening| Box::new(Cdp { now: opening.now }),
};

struct Cdp {
    now: Time,
}

impl Cdp {
    fn is_protected(&self, task: &Task) -> bool {
        self.protected_until(task).is_some()
    }

    /// When the protection of a task ends; `None` for a task that is not protected now.
    fn protected_until(&self, task: &Task) -> Option<Time> {
        let end = task.cools_until()?;
        (task.status == Status::Running && end > self.now).then_some(end)
    }
}

impl Plugin for Cdp {
    fn wake(&self, cluster: &Cluster) -> Option<Time> {
        cluster.cooling_after(self.now).find_map(|task| self.protected_until(&cluster.tasks[task]))
    }

    fn depends_on_request(&self) -> bool {
        false
    }

    fn evictable(&self, cluster: &Cluster, eviction: Eviction, of: &[TaskId]) -> Option<Vec<TaskId>> {
        let unprotected = |task: &TaskId| !self.is_protected(&cluster.tasks[*task]);
        (!eviction.whole_gangs).then(|| of.iter().copied().filter(unprotected).collect())
    }

    fn protection(&self) -> Option<&dyn VictimGuard> {
        Some(self)
    }
}

impl VictimGuard for Cdp {
    fn protects(&self, cluster: &Cluster, task: TaskId) -> bool {
        self.is_protected(&cluster.tasks[task])
    }

    fn reason(&self) -> &'static str {
        "in the cooldown of volcano.sh/cooldown-time"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::{PodInfo, PodLife};
    use phalanx_framework::plugin::EvictionKind;
    use phalanx_framework::testing::{cluster_of, eviction, pod, running};

    #[test]
    fn a_pod_is_protected_until_its_cooldown_is_over() {
        let since = |name: &str, cooldown: Option<&str>, scheduled: Option<i64>| {
            let life = PodLife { scheduled: scheduled.map(Time), ..PodLife::default() };
            let annotations = cooldown.map(|text| (COOLDOWN_TIME.into(), text.into())).into_iter().collect();
            PodInfo { life, annotations, ..pod(name, "cpu=1") }
        };
        let by_label = PodInfo {
            labels: [(COOLDOWN_TIME.into(), "1h".into())].into_iter().collect(),
            ..since("label", Some("1ms"), Some(0))
        };
        let mut bound = since("bound", Some("1h"), Some(0));
        bound.life.node = Some("n".into());
        let cluster = cluster_of([
            running(since("young", Some("10s"), Some(0)), "n"),
            running(since("old", Some("9s"), Some(0)), "n"),
            running(since("no-duration", Some("soon"), Some(0)), "n"),
            running(since("no-time", Some("1h"), None), "n"),
            running(since("none", None, Some(0)), "n"),
            running(by_label, "n"),
            bound,
        ]);
        let cdp = Cdp { now: Time(9_000) };
        let all: Vec<TaskId> = cluster.tasks.ids().collect();
        let protected: Vec<&str> = all
            .iter()
            .filter(|task| cdp.protects(&cluster, **task))
            .map(|task| &*cluster.tasks[*task].pod.name)
            .collect();
        assert_eq!(protected, ["young", "label"]);
        assert_eq!(cdp.wake(&cluster), Some(Time(10_000)));
        for kind in [EvictionKind::Preempt, EvictionKind::Reclaim] {
            assert_eq!(cdp.evictable(&cluster, eviction(kind, all[0]), &all).unwrap().len(), 5);
        }
    }
}
