//! ResourceQuotas: what the pods of a namespace may request in sum.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_resource::{Amounts, Ceilings};

use super::devices::{class_of, is_part};
use super::{Cluster, Job, JobKind, Status, Task};
use crate::event::{Key, QuotaInfo, Resources};

/// A ResourceQuota without scopes. `requests.cpu` is held as `cpu`, and so on; `limits.cpu` as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamespaceQuota {
    /// What may be requested.
    pub hard: Ceilings,
    /// What is requested by pods that exist.
    pub used: Amounts,
}

/// ResourceQuotas by namespace and name.
pub type QuotasByName = BTreeMap<Key, NamespaceQuota>;

impl Cluster {
    /// Takes a ResourceQuota in. True when it differs from what was known.
    pub(super) fn apply_quota(&mut self, info: QuotaInfo) -> bool {
        let used = self.quota_amounts(&info.used);
        let mut hard = Ceilings::new();
        for (name, quantity) in
            info.hard.iter().filter_map(|(name, quantity)| Some((canonical(name)?, quantity)))
        {
            let dim = self.learn_resource(name);
            hard.min_with(&Ceilings::from_iter([(dim, self.dims.ceiling(dim, *quantity))]));
        }
        let quota = NamespaceQuota { hard, used };
        if self.resource_quotas.is_empty() {
            self.all_jobs_changed();
            self.refresh_all_inqueue();
        }
        let changed = self.resource_quotas.get(&info.key) != Some(&quota);
        self.resource_quotas.insert(info.key, quota);
        changed
    }

    /// Removes a ResourceQuota. True when it was known.
    pub(super) fn remove_quota(&mut self, key: &Key) -> bool {
        let known = self.resource_quotas.remove(key).is_some();
        if self.resource_quotas.is_empty() {
            self.refresh_all_inqueue();
        }
        known
    }

    /// Amounts as quotas count them: one that has two names counts once, with the larger figure.
    pub(super) fn quota_amounts(&mut self, list: &Resources) -> Amounts {
        for name in list.iter().filter_map(|(name, _)| canonical(name)) {
            self.learn_resource(name);
        }
        self.quota_request(list)
    }

    /// The ResourceQuotas of a namespace.
    pub fn quotas_of(&self, namespace: &Arc<str>) -> impl Iterator<Item = (&Key, &NamespaceQuota)> {
        let first = Key { namespace: namespace.clone(), name: "".into() };
        self.resource_quotas.range(first..).take_while(move |(key, _)| key.namespace == *namespace)
    }

    /// What a job's minResources add to the use of its namespace: the API server has counted the pods that exist. A pod
    /// without a group exists, so it adds nothing.
    pub fn quota_demand(&self, job: &Job) -> Amounts {
        let Some(demand) = &job.minimum.quota_request else { return Amounts::new() };
        if job.kind == JobKind::Solo {
            return Amounts::new();
        }
        let ended = |task: &&Task| matches!(task.status, Status::Succeeded | Status::Failed);
        let mut demand = demand.clone();
        for task in job.tasks.iter().map(|task| &self.tasks[*task]).filter(|task| !ended(task)) {
            demand.sub(&self.classes[task.class].request);
        }
        demand.sub_clamped(&Amounts::new());
        demand
    }
}

/// The name under which quotas count a resource; `None` for counts of objects other than pods.
pub(super) fn canonical(name: &str) -> Option<&str> {
    match name {
        "count/pods" => Some("pods"),
        name if name.starts_with("count/") => None,
        name => Some(name.strip_prefix("requests.").unwrap_or(name)),
    }
}

/// Whether nodes can have a resource of this name. minResources also name what only quotas know: Volcano's job
/// controller writes `requests.cpu`, `limits.cpu`, `count/pods` and the like there.
pub(super) fn is_of_nodes(name: &str) -> bool {
    let basic = matches!(name, "cpu" | "memory" | "pods" | "ephemeral-storage");
    let prefixed = ["requests.", "limits.", "count/"].iter().any(|prefix| name.starts_with(prefix));
    let scalar = ["hugepages-", "attachable-volumes-"].iter().any(|prefix| name.starts_with(prefix));
    let devices = class_of(name).is_some() || is_part(name);
    basic || (!prefixed && !devices && (scalar || name.contains('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_that_only_quotas_count_are_known_by_name() {
        for (name, of_nodes, of_quotas) in [
            ("cpu", true, Some("cpu")),
            ("requests.cpu", false, Some("cpu")),
            ("limits.cpu", false, Some("limits.cpu")),
            ("pods", true, Some("pods")),
            ("count/pods", false, Some("pods")),
            ("count/configmaps", false, None),
            ("nvidia.com/gpu", true, Some("nvidia.com/gpu")),
            ("requests.nvidia.com/gpu", false, Some("nvidia.com/gpu")),
            ("hugepages-2Mi", true, Some("hugepages-2Mi")),
            ("requests.storage", false, Some("storage")),
            ("services", false, Some("services")),
        ] {
            assert_eq!((is_of_nodes(name), canonical(name)), (of_nodes, of_quotas), "{name}");
        }
    }
}
