//! Fragments: what is free of a resource and no use to the typical task, after "Beware of Fragmentation: Scheduling
//! GPU-Sharing Workloads with Fragmentation Gradient Descent" (Weng et al., USENIX ATC 2023), section 3.
//!
//! Of a node, the part of what is free that a task of the trace, drawn at random among those that request the
//! resource, cannot use because the node lacks something else for it, lacks enough of it, or is one that it may not
//! be on. A node's devices count together: which of them a share is on is not known.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::{Cluster, Node};
use phalanx_resource::{DimId, Dims};

use super::arrival::{Labels, Trace};

impl Trace {
    /// Arguments of plugin fragmentation: the pods that request a resource, by how many there are, the most frequent
    /// first and at most so many kinds.
    pub fn typical_pods(&self, resource: &str, most: usize) -> String {
        let mut counts: BTreeMap<Vec<(Arc<str>, String)>, u64> = BTreeMap::new();
        let mut dims = Dims::new();
        for job in &self.jobs {
            if job.requests.iter().any(|(name, amount)| **name == *resource && amount.milli() > 0) {
                let requests = job.requests.iter().map(|(name, amount)| {
                    let dim = dims.intern(name);
                    (name.clone(), dims.format(dim, dims.amount(dim, *amount)))
                });
                *counts.entry(requests.collect()).or_default() += u64::from(job.size);
            }
        }
        let mut kinds: Vec<_> = counts.into_iter().collect();
        kinds.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let mut text = format!("fragmentation.resource: {resource}\nfragmentation.pods:\n");
        for (requests, count) in kinds.into_iter().take(most) {
            let requests: Vec<String> =
                requests.iter().map(|(name, amount)| format!("{name}: {amount}")).collect();
            text.extend([format!("- {{part: {count}, requests: {{{}}}}}\n", requests.join(", "))]);
        }
        text
    }
}

/// The kinds of tasks of a trace that request a resource.
pub(super) struct Typical {
    resource: Arc<str>,
    kinds: Vec<Kind>,
    /// For each node, the kinds that may be on it.
    allowed: Vec<Vec<bool>>,
}

struct Kind {
    /// The part of the tasks that are of this kind.
    part: f64,
    requests: Vec<(Arc<str>, i64)>,
    selector: Arc<[(String, Labels)]>,
}

/// What tasks of a kind have in common.
type KindKey = (Vec<(Arc<str>, i64)>, Arc<[(String, Labels)]>);

impl Typical {
    pub(super) fn of(trace: &Trace, resource: &Arc<str>, cluster: &Cluster) -> Self {
        let mut counts: BTreeMap<KindKey, u64> = BTreeMap::new();
        for job in &trace.jobs {
            let requests = job.requests.iter().filter(|(_, amount)| amount.milli() > 0);
            let amount = |(name, amount): &(Arc<str>, _)| {
                let dim = cluster.dims.get(name);
                (name.clone(), dim.map_or(i64::MAX, |dim| cluster.dims.amount(dim, *amount)))
            };
            let requests: Vec<(Arc<str>, i64)> = requests.map(amount).collect();
            if requests.iter().any(|(name, _)| name == resource) {
                *counts.entry((requests, job.selector.clone())).or_default() += u64::from(job.size);
            }
        }
        let total: u64 = counts.values().sum();
        let kind = |((requests, selector), count): (KindKey, u64)| Kind {
            part: count as f64 / total as f64,
            requests,
            selector,
        };
        let kinds: Vec<Kind> = counts.into_iter().map(kind).collect();
        let allowed = cluster.nodes.iter().map(|(_, node)| kinds.iter().map(|kind| kind.may(node)).collect());
        let allowed = allowed.collect();
        Self { resource: resource.clone(), kinds, allowed }
    }

    /// How much of the resource is free in fragments, in its unit.
    pub(super) fn fragments(&self, cluster: &Cluster) -> f64 {
        let Some(dim) = cluster.dims.get(&self.resource) else { return 0.0 };
        let names = self.kinds.iter().map(|kind| kind.dims(cluster)).collect::<Vec<_>>();
        let of = |(node, allowed): (&Node, &Vec<bool>)| {
            let free = node.idle.get(dim).max(0);
            if free == 0 || !node.exists {
                return 0.0;
            }
            let kinds = self.kinds.iter().zip(&names).zip(allowed);
            let useless = kinds.filter(|((_, requests), allowed)| !**allowed || !fits(requests, node));
            useless.map(|((kind, _), _)| kind.part).sum::<f64>() * free as f64
        };
        cluster.nodes.iter().map(|(_, node)| node).zip(&self.allowed).map(of).sum()
    }
}

impl Kind {
    fn may(&self, node: &Node) -> bool {
        let has = |(key, labels): &(String, Labels)| {
            node.label(key).is_some_and(|value| labels.values().iter().any(|one| one == value))
        };
        node.ready && !node.unschedulable && self.selector.iter().all(has)
    }

    fn dims(&self, cluster: &Cluster) -> Vec<(Option<DimId>, i64)> {
        self.requests.iter().map(|(name, amount)| (cluster.dims.get(name), *amount)).collect()
    }
}

fn fits(requests: &[(Option<DimId>, i64)], node: &Node) -> bool {
    requests.iter().all(|(dim, amount)| dim.is_some_and(|dim| *amount <= node.idle.get(dim)))
}
