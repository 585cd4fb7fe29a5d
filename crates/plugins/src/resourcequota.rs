//! resourcequota: a job is admitted when its minResources fit the ResourceQuotas of its namespace.
//!
//! For each resource that both a quota and minResources name, `used + inqueue + minResources` may be at most `hard`,
//! where *inqueue* is what pods of admitted jobs that do not exist yet will request. `cpu` and `requests.cpu` are one
//! resource. Existing pods of the job are part of `used` and do not count twice. Quotas with scopes are left to the API
//! server. A job without minResources is admitted. There are no arguments.
//!
//! Source: Volcano's resourcequota plugin. Difference: Volcano counts admitted jobs only in the session that admits
//! them.
use std::sync::Arc;

use phalanx_resource::{Amounts, DimId};
use rustc_hash::FxHashMap;

use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::id::JobId;
use phalanx_cluster::{Cluster, NamespaceQuota};
use phalanx_framework::conf::ArgSpec;
use phalanx_framework::plugin::{EnqueueVote, ObjectField, Plugin, PluginDef};

const NAME: &str = "resourcequota";
const ARGS: &[ArgSpec] = &[];

const READS: &[ObjectField] = &[
    ObjectField::new(
        "spec.hard",
        "field of a ResourceQuota",
        "no limit",
        "What the pods of its namespace may request together; `cpu` and `requests.cpu` are one, `count/...` is left out.",
    ),
    ObjectField::new("status.used", "field of a ResourceQuota", "0", "What these pods request already."),
    ObjectField::new(
        "spec.scopes, spec.scopeSelector",
        "field of a ResourceQuota",
        "none",
        "A quota with a scope is left to the API server.",
    ),
    ObjectField::new(
        "spec.minResources",
        "field of a PodGroup",
        "admitted",
        "What the gang needs in total to start.",
    ),
];

pub(super) const DEF: PluginDef = PluginDef {
    name: NAME,
    summary: "Admits jobs only when their minResources fit the ResourceQuotas of their namespace.",
    args: ARGS,
    reads: READS,
    open: |opening| Box::new(ResourceQuotas::open(opening.cluster)),
};

#[derive(Default)]
struct ResourceQuotas {
    /// What pods of admitted jobs that do not exist yet will request, by namespace.
    inqueue: FxHashMap<Arc<str>, Amounts>,
}

impl ResourceQuotas {
    fn open(cluster: &Cluster) -> Self {
        Self { inqueue: cluster.inqueue_by_namespace() }
    }

    /// By how much a quota would be exceeded with a demand.
    fn over(&self, namespace: &str, quota: &NamespaceQuota, demand: &Amounts) -> Vec<(DimId, i64)> {
        let mut used = quota.used.clone();
        if let Some(inqueue) = self.inqueue.get(namespace) {
            used.add(inqueue);
        }
        used.add(demand);
        quota.hard.over(&used).filter(|(dim, _)| demand.get(*dim) > 0).collect()
    }
}

impl Plugin for ResourceQuotas {
    fn job_enqueueable(&self, cluster: &Cluster, job: JobId) -> EnqueueVote {
        let job = &cluster.jobs[job];
        let namespace = &job.key.namespace;
        let mut quotas = cluster.quotas_of(namespace).peekable();
        if quotas.peek().is_none() {
            return EnqueueVote::Permit;
        }
        let demand = cluster.quota_demand(job);
        for (key, quota) in quotas {
            let over = self.over(namespace, quota, &demand);
            if !over.is_empty() {
                return EnqueueVote::Reject(Refusal::ResourceQuota { quota: key.clone(), over });
            }
        }
        EnqueueVote::Permit
    }

    fn job_enqueued(&mut self, cluster: &Cluster, job: JobId) {
        let job = &cluster.jobs[job];
        if cluster.quotas_of(&job.key.namespace).next().is_some() {
            let demand = cluster.quota_demand(job);
            self.inqueue.entry(job.key.namespace.clone()).or_default().add(&demand);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::JobKind;
    use phalanx_cluster::event::{Event, Key, Phase, PodGroupInfo, QuotaInfo};
    use phalanx_framework::testing::{cluster_of, group, job_of, member, pod, resources, running};

    fn quota(name: &str, hard: &str, used: &str) -> Event {
        QuotaInfo { key: Key::new("ns", name), hard: resources(hard), used: resources(used) }.into()
    }

    fn asking(name: &str, min_resources: &str) -> Event {
        PodGroupInfo { min_resources: Some(resources(min_resources)), ..group(name, 1) }.into()
    }

    fn refusal(plugin: &ResourceQuotas, cluster: &Cluster, name: &str) -> Option<String> {
        match plugin.job_enqueueable(cluster, job_of(cluster, name)) {
            EnqueueVote::Reject(refusal) => Some(refusal.text(&cluster.dims)),
            EnqueueVote::Permit => None,
            EnqueueVote::Abstain => panic!("no opinion on {name}"),
        }
    }

    #[test]
    fn min_resources_must_fit_each_quota() {
        for (hard, used, asked, over) in [
            ("cpu=10", "cpu=6", "cpu=4", None),
            ("cpu=10", "cpu=6", "cpu=5", Some("cpu (1 more)")),
            ("requests.cpu=10", "requests.cpu=6", "cpu=5", Some("cpu (1 more)")),
            ("cpu=10", "cpu=6", "requests.cpu=5", Some("cpu (1 more)")),
            // Of two names of one resource the lower quota counts, and an amount under two names counts once.
            ("cpu=20 requests.cpu=10", "cpu=6 requests.cpu=6", "cpu=5 requests.cpu=4", Some("cpu (1 more)")),
            ("limits.cpu=10", "limits.cpu=9", "cpu=5", None),
            ("limits.cpu=10", "limits.cpu=9", "limits.cpu=2", Some("limits.cpu (1 more)")),
            ("requests.memory=10Gi", "requests.memory=10Gi", "cpu=1", None),
            ("requests.memory=10Gi", "requests.memory=9Gi", "memory=2Gi", Some("memory (1Gi more)")),
            ("pods=3 count/configmaps=1", "pods=3 count/configmaps=1", "count/pods=1", Some("pods (1 more)")),
            ("requests.nvidia.com/gpu=1", "", "nvidia.com/gpu=8", Some("nvidia.com/gpu (7 more)")),
            ("cpu=1", "cpu=5", "memory=1Gi", None),
        ] {
            let cluster = cluster_of([quota("q", hard, used), asking("g", asked)]);
            let told = refusal(&ResourceQuotas::default(), &cluster, "g");
            let expected =
                over.map(|over| format!("ResourceQuota ns/q would be exceeded: {over} (plugin {NAME})"));
            assert_eq!(told, expected, "{asked} with {used} of {hard}");
        }
    }

    #[test]
    fn quotas_of_other_namespaces_do_not_count() {
        let other =
            QuotaInfo { key: Key::new("other", "q"), hard: resources("cpu=1"), ..QuotaInfo::default() };
        let mut cluster = cluster_of([asking("g", "cpu=5"), other.into(), quota("wide", "cpu=9", "")]);
        assert_eq!(refusal(&ResourceQuotas::default(), &cluster, "g"), None);
        cluster.apply(quota("narrow", "cpu=4", ""));
        assert!(refusal(&ResourceQuotas::default(), &cluster, "g").unwrap().contains("ns/narrow"));
        cluster.apply(Event::QuotaGone(Key::new("ns", "narrow")));
        assert_eq!(refusal(&ResourceQuotas::default(), &cluster, "g"), None);
    }

    #[test]
    fn jobs_admitted_in_the_session_count() {
        let cluster = cluster_of([
            quota("q", "cpu=10", ""),
            asking("a", "cpu=6"),
            asking("b", "cpu=5"),
            asking("c", "cpu=4"),
        ]);
        let mut plugin = ResourceQuotas::default();
        assert_eq!(refusal(&plugin, &cluster, "b"), None);
        plugin.job_enqueued(&cluster, job_of(&cluster, "a"));
        assert!(refusal(&plugin, &cluster, "b").is_some());
        assert_eq!(refusal(&plugin, &cluster, "c"), None);
    }

    #[test]
    fn an_admitted_job_counts_until_its_pods_exist() {
        let mut cluster = cluster_of([quota("q", "cpu=10", ""), asking("a", "cpu=6"), asking("b", "cpu=5")]);
        let a = job_of(&cluster, "a");
        cluster.jobs[a].phase = Phase::Inqueue;
        assert!(refusal(&ResourceQuotas::open(&cluster), &cluster, "b").is_some());
        cluster.apply(member("a", 0, "cpu=6").into());
        assert_eq!(
            refusal(&ResourceQuotas::open(&cluster), &cluster, "b"),
            None,
            "its pod is part of what is used"
        );
    }

    #[test]
    fn existing_pods_of_a_job_count_once() {
        let mut cluster =
            cluster_of([quota("q", "cpu=3 pods=3", "cpu=2 pods=2"), asking("g", "cpu=3 pods=3")]);
        cluster.apply(running(member("g", 0, "cpu=1"), "n").into());
        assert!(refusal(&ResourceQuotas::default(), &cluster, "g").is_some());
        cluster.apply(member("g", 1, "cpu=1").into());
        assert_eq!(refusal(&ResourceQuotas::default(), &cluster, "g"), None);
        cluster.apply(quota("q", "cpu=0", "cpu=9"));
        cluster.apply(pod("solo", "cpu=1").into());
        let solo = cluster.job_named(JobKind::Solo, &Key::new("ns", "solo")).unwrap();
        assert_eq!(ResourceQuotas::default().job_enqueueable(&cluster, solo), EnqueueVote::Permit);
    }
}
