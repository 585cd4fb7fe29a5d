//! PodDisruptionBudgets: how many of which pods may be evicted.
use rustc_hash::FxHashMap;

use super::{Cluster, Refused, Status};
use crate::event::{Key, PdbInfo, Time};
use crate::id::TaskId;
use crate::label::Selector;

/// A task whose eviction was refused is not evicted again for so long.
const REFUSED_MS: i64 = 60_000;

/// A PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq)]
pub struct Pdb {
    /// The pods it selects; `None` selects no pod.
    pub selector: Option<Selector>,
    /// `status.disruptionsAllowed`.
    pub allowed: u32,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`: pods that are not ready may always be evicted.
    pub frees_unready: bool,
}

impl Cluster {
    /// Takes a PodDisruptionBudget in. True when it differs from what was known.
    pub(super) fn apply_pdb(&mut self, info: PdbInfo) -> bool {
        let pdb = Pdb { selector: info.selector, allowed: info.allowed, frees_unready: info.frees_unready };
        self.pdbs.insert(info.key, pdb)
    }

    /// When the first task whose eviction was refused may be evicted again.
    pub fn refusals_end(&self, now: Time) -> Option<Time> {
        let end = |task: &super::Task| match task.refused {
            Refused::At(when) => Some(Time(when.0.saturating_add(REFUSED_MS))),
            Refused::No | Refused::New => None,
        };
        self.refused_tasks().filter_map(|(_, task)| end(task)).filter(|end| *end > now).min()
    }

    /// Whether a pod may be evicted as far as its own objects go: neither the pod nor its PodGroup says `preemptable:
    /// false`, and no eviction of the pod was refused lately.
    pub fn permits_eviction(&self, task: TaskId, now: Time) -> bool {
        let task = &self.tasks[task];
        let of_job = task.job.and_then(|job| self.jobs[job].preemptable);
        let left_alone = match task.refused {
            Refused::No => false,
            Refused::New => true,
            Refused::At(when) => now.0 < when.0.saturating_add(REFUSED_MS),
        };
        task.details.preemptable.or(of_job).unwrap_or(true) && !left_alone
    }

    /// Tasks whose eviction was refused.
    pub fn refused_tasks(&self) -> impl Iterator<Item = (TaskId, &super::Task)> {
        self.indexes.refused.iter().map(|id| (*id, &self.tasks[*id]))
    }

    /// Whether a budget that selects a pod lets it go because the pod is not ready.
    fn goes_unready(&self, task: TaskId, pdb: &Pdb) -> bool {
        pdb.frees_unready && self.tasks[task].details.unready
    }

    /// The PodDisruptionBudgets that select a pod.
    pub fn pdbs_of(&self, task: TaskId) -> impl Iterator<Item = (&Key, &Pdb)> {
        let task = &self.tasks[task];
        self.pdbs.of(&task.pod.namespace, &task.details.labels)
    }
}

/// Disruptions that PodDisruptionBudgets still allow, counted down as victims are picked.
///
/// Counts as the eviction API does: a pod that has not started may always be evicted, a pod that is not ready may be
/// where its budget says so, and a pod that several budgets select may not. An eviction that was decided counts until
/// the API server shows it. Source: Kubernetes' eviction subresource.
#[derive(Debug)]
pub struct Budgets<'w> {
    cluster: &'w Cluster,
    /// Victims counted by budget.
    spent: FxHashMap<&'w Key, u32>,
}

impl<'w> Budgets<'w> {
    /// The budgets, less evictions that were decided and are not seen yet.
    pub fn new(cluster: &'w Cluster) -> Self {
        let mut budgets = Self { cluster, spent: FxHashMap::default() };
        if !cluster.pdbs.is_empty() {
            cluster.evicting_tasks().for_each(|task| budgets.spend(task));
        }
        budgets
    }

    /// Whether one more victim may be evicted.
    pub fn may(&self, task: TaskId) -> bool {
        if self.cluster.pdbs.is_empty() || self.cluster.tasks[task].status == Status::Bound {
            return true;
        }
        let lets_go = |(key, pdb): (&Key, &Pdb)| {
            let spent = self.spent.get(key).copied().unwrap_or_default();
            spent < pdb.allowed || self.cluster.goes_unready(task, pdb)
        };
        let mut meant = self.cluster.pdbs_of(task).map(lets_go);
        meant.next().is_none_or(|goes| goes && meant.next().is_none())
    }

    /// Counts a victim if it may be evicted besides those counted before. True if it may.
    pub fn take(&mut self, task: TaskId) -> bool {
        if !self.may(task) {
            return false;
        }
        if !self.cluster.pdbs.is_empty() && self.cluster.tasks[task].status != Status::Bound {
            self.spend(task);
        }
        true
    }

    fn spend(&mut self, task: TaskId) {
        let cluster = self.cluster;
        for (key, _) in cluster.pdbs_of(task).filter(|(_, pdb)| !cluster.goes_unready(task, pdb)) {
            *self.spent.entry(key).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, Operator, PodInfo, Requirement};
    use crate::testing::{cluster_of, pod, running, task_of};

    fn labelled(name: &str, app: &str) -> PodInfo {
        PodInfo { labels: [("app".into(), app.into())].into_iter().collect(), ..pod(name, "cpu=1") }
    }

    fn pdb(name: &str, app: Option<&str>, allowed: u32) -> Event {
        let of =
            |app: &str| Requirement { key: "app".into(), operator: Operator::In, values: vec![app.into()] };
        let selector = Selector(app.map(of).into_iter().collect());
        PdbInfo { key: Key::new("ns", name), selector: Some(selector), allowed, frees_unready: false }.into()
    }

    #[test]
    fn a_victim_counts_for_each_budget_that_selects_it() {
        let mut cluster =
            cluster_of([running(labelled("a", "web"), "n"), running(labelled("b", "web"), "n")]);
        cluster.apply(running(labelled("c", "db"), "n").into());
        let mut bound = labelled("d", "web");
        bound.life.node = Some("n".into());
        cluster.apply(bound.into());
        let takes = |cluster: &Cluster, names: &[&str]| {
            let mut budgets = Budgets::new(cluster);
            names.iter().map(|name| budgets.take(task_of(cluster, name))).collect::<Vec<_>>()
        };
        assert_eq!(takes(&cluster, &["a", "b", "c"]), [true, true, true]);
        cluster.apply(pdb("web", Some("web"), 1));
        assert_eq!(takes(&cluster, &["a", "b", "c", "d"]), [true, false, true, true]);
        cluster.apply(PdbInfo { key: Key::new("ns", "none"), selector: None, ..PdbInfo::default() }.into());
        cluster.apply(
            PdbInfo { key: Key::new("other", "all"), selector: Some(Selector(vec![])), ..PdbInfo::default() }
                .into(),
        );
        assert_eq!(takes(&cluster, &["a", "c"]), [true, true]);
        cluster.apply(pdb("all", None, 9));
        assert_eq!(takes(&cluster, &["a", "c"]), [false, true], "two budgets mean a");
        cluster.apply(Event::PdbGone(Key::new("ns", "all")));
        let a = task_of(&cluster, "a");
        cluster.set_evicting(a, Some(Status::Running));
        assert_eq!(takes(&cluster, &["b"]), [false]);
    }

    #[test]
    fn unready_pods_are_evicted_by_the_policy_of_their_budget_and_use_none_of_it() {
        let with = |frees_unready, allowed| PdbInfo {
            key: Key::new("ns", "web"),
            selector: Some(Selector(vec![])),
            allowed,
            frees_unready,
        };
        let mut cluster = cluster_of([running(labelled("ready", "web"), "n")]);
        cluster.apply(with(true, 0).into());
        for name in ["ill", "worse"] {
            cluster.apply(running(labelled(name, "web"), "n").into());
            let mut pod = running(labelled(name, "web"), "n");
            pod.life.unready = true;
            cluster.apply(pod.into());
        }
        let takes = |cluster: &Cluster| {
            let mut budgets = Budgets::new(cluster);
            ["ill", "ready", "worse"].map(|name| budgets.take(task_of(cluster, name)))
        };
        assert_eq!(takes(&cluster), [true, false, true]);
        cluster.apply(with(true, 1).into());
        assert_eq!(takes(&cluster), [true, true, true]);
        let ill = task_of(&cluster, "ill");
        cluster.set_evicting(ill, Some(Status::Running));
        assert_eq!(takes(&cluster), [true, true, true], "its eviction does not count");
        cluster.apply(with(false, 0).into());
        assert_eq!(takes(&cluster), [false; 3]);
    }
}
