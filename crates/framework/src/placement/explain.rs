//! Why no node is feasible for a class: a look at one node of each bucket.
use std::collections::BTreeMap;

use super::buckets::{NodeBucket, NodeBuckets};
use super::{Fit, NodeRanking, RankedClass, ScopedClass, labels};
use crate::tiers::Tiers;
use phalanx_cluster::diagnosis::{Distance, FitError, Shortage, Unfit};
use phalanx_cluster::id::NodeId;
use phalanx_cluster::{Cluster, Node};
use phalanx_resource::Amounts;

/// The node so far that lacks the least.
type Nearest<'w> = Option<(Distance, &'w Node)>;

impl NodeRanking {
    /// Why none of these nodes, or of all, is feasible, idle or future idle, for a task of the class.
    pub fn explain(
        &mut self,
        cluster: &Cluster,
        tiers: &Tiers,
        scoped: impl Into<ScopedClass>,
        within: Option<&[NodeId]>,
    ) -> FitError {
        let scoped = scoped.into();
        let (known, buckets) = self.up_to_date(cluster, tiers, scoped);
        let request = &cluster.classes[scoped.class].request;
        let mut error = FitError::default();
        let mut nearest: Nearest<'_> = None;
        let of_nodes = within.map(|nodes| buckets_of(buckets, nodes));
        let of_all = of_nodes.is_none().then(|| buckets.iter().map(|bucket| (*bucket, bucket.top())));
        for (bucket, node) in of_nodes.into_iter().flatten().chain(of_all.into_iter().flatten()) {
            let refused = refuse(cluster, known, &bucket, request, &mut error);
            let node = &cluster.nodes[node];
            let near =
                refused.and_then(|refused| Distance::of(node, request, refused)).map(|far| (far, node));
            nearest = nearer(nearest, near);
        }
        error.nearest = nearest.map(|(distance, node)| {
            let missing = request.short(&node.idle).collect();
            Box::new(Shortage { node: node.name.clone(), missing, distance })
        });
        labels::name(cluster, scoped.class, &mut error);
        error
    }

    /// The nodes that are infeasible for a task of the class, by each of their reasons.
    pub fn excluded(
        &mut self,
        cluster: &Cluster,
        tiers: &Tiers,
        scoped: impl Into<ScopedClass>,
    ) -> BTreeMap<Unfit, Vec<NodeId>> {
        let scoped = scoped.into();
        let (known, buckets) = self.up_to_date(cluster, tiers, scoped);
        let request = &cluster.classes[scoped.class].request;
        let reasons = |bucket: &NodeBucket| {
            let mut error = FitError::default();
            if bucket.nodes > 0 {
                refuse(cluster, known, bucket, request, &mut error);
            }
            error.reasons
        };
        let by_bucket: Vec<BTreeMap<Unfit, u32>> = buckets.slots().iter().map(reasons).collect();
        let mut excluded: BTreeMap<Unfit, Vec<NodeId>> = BTreeMap::new();
        for id in cluster.nodes.ids() {
            let reasons = buckets.of(id).map(|slot| by_bucket[slot].keys());
            for unfit in reasons.into_iter().flatten() {
                excluded.entry(unfit.clone()).or_default().push(id);
            }
        }
        excluded
    }
}

/// The buckets of these nodes, each with the number of these nodes, and the first of them.
fn buckets_of(buckets: &NodeBuckets, nodes: &[NodeId]) -> Vec<(NodeBucket, NodeId)> {
    let mut found: BTreeMap<usize, (NodeBucket, NodeId)> = BTreeMap::new();
    for node in nodes {
        let Some(slot) = buckets.of(*node) else { continue };
        let (bucket, _) = found.entry(slot).or_insert_with(|| (buckets.slots()[slot].of_nodes(0), *node));
        bucket.nodes += 1;
    }
    found.into_values().collect()
}

/// Counts the nodes of a bucket for each reason that holds for them. Returns `None` if the nodes are refused by
/// attributes, else whether a rule refuses them besides the resource fit.
fn refuse(
    cluster: &Cluster,
    known: &RankedClass,
    bucket: &NodeBucket,
    request: &Amounts,
    error: &mut FitError,
) -> Option<bool> {
    error.nodes += bucket.nodes;
    if let Some(Err(unfit)) = known.ranking.verdict(bucket.attribute_set) {
        error.add(bucket.nodes, unfit.clone());
        return None;
    }
    let (node, rules) = (&cluster.nodes[bucket.top()], &known.rules);
    error.add_short(bucket.nodes, node, request);
    let by_room = rules.resource_filters.iter().find_map(|filter| filter(node, Fit::FutureIdle).err());
    let by_domain =
        rules.topology_filters.iter().find_map(|filter| filter(cluster, bucket.top(), Fit::FutureIdle).err());
    let refused = by_room.is_some() || by_domain.is_some();
    by_room.into_iter().chain(by_domain).for_each(|unfit| error.add(bucket.nodes, unfit));
    Some(refused)
}

/// The node of the two that lacks less; of equals the first by name, so that the order of buckets does not matter.
fn nearer<'w>(one: Nearest<'w>, other: Nearest<'w>) -> Nearest<'w> {
    one.into_iter().chain(other).min_by_key(|(distance, node)| (*distance, &node.name))
}
