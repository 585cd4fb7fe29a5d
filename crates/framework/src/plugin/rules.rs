//! Filters and scorers of nodes: what a plugin says about the nodes for a class of tasks.
//!
//! Rules come in three kinds, by what they read of a node: its attributes, its resources, or its topology domains.
//! Placement asks a rule once for all nodes that are equal in what the rule reads.
use std::sync::Arc;

use crate::placement::{BucketAmounts, Fit};
use phalanx_cluster::diagnosis::Unfit;
use phalanx_cluster::id::{ImageId, NodeId};
use phalanx_cluster::{Cluster, HyperNodeId, Node};

/// An attribute of a node that filters and scorers read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attribute {
    /// The label with this key.
    Label(Arc<str>),
    /// The name of the node.
    Name,
    /// The size in bytes of an image on the node; no value where the node lacks the image.
    Image(ImageId),
    /// The HyperNodes that the node is in.
    HyperNodes,
}

/// Which values of an attribute make a difference to a rule. Whether a node has a value at all always makes a
/// difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Each of these values; all other values count as one.
    These(Vec<Arc<str>>),
    /// Every value.
    All,
}

/// A filter by a node's attributes: readiness, cordon, taints, and what the class's [`NodeRules::reads`] name. Asked
/// once per class for all nodes with equal attributes. `Ok` if tasks of the class may be on the node, else the reason that
/// diagnosis counts nodes by.
pub type NodeFilter = Box<dyn Fn(&Node) -> Result<(), Unfit> + Send + Sync>;

/// A filter by a node's resources: amounts, ports, devices and volumes. Asked once per class for all nodes with equal
/// attributes and equal resources. `Ok` if the node has what a task of the class needs, idle or future idle, else the
/// reason. The resource fit of the request itself needs no filter.
pub type ResourceFilter = Box<dyn Fn(&Node, Fit) -> Result<(), Unfit> + Send + Sync>;

/// A score by a node's attributes, which may read what a [`NodeFilter`] may read. Given once per class for all nodes
/// with equal attributes, then normalised over the nodes that pass the node filters, then weighted.
pub trait NodeScorer: Send + Sync {
    /// The raw score, in any unit.
    fn score(&self, node: &Node) -> f64;
    /// Brings raw scores to 0..=100 and multiplies them by the weight. The result must not depend on how many nodes
    /// have a score.
    fn normalise(&self, scores: &mut [f64]);
}

/// A score by what a [`ResourceFilter`] may read, from 0 to 100 times the weight.
pub trait ResourceScorer: Send + Sync {
    /// The weighted score of a node, as if the task were on the node already. The amounts of `node` do not hold the
    /// task: the scorer adds its request.
    fn score(&self, node: &Node) -> f64;
    /// Adds the scores of the node buckets in `slots` to `sums`; both slices have the same length and order.
    fn add_scores(&self, buckets: &BucketAmounts, slots: &[u32], sums: &mut [f64]) {
        for (slot, sum) in slots.iter().zip(sums) {
            *sum += self.score(buckets.node(*slot));
        }
    }
}

/// A filter by the pods in a node's topology domains (`Cluster::terms`), for the terms that concern the class. Asked
/// again for the nodes of a domain when the pods counted there change. `Ok` if a task of the class may be on the node, at
/// once or once terminating pods are gone, else the reason.
pub type TopologyFilter = Box<dyn Fn(&Cluster, NodeId, Fit) -> Result<(), Unfit> + Send + Sync>;

/// A score by what a [`TopologyFilter`] may read: normalised over the nodes that pass the node filters, then weighted.
pub trait TopologyScorer: Send + Sync {
    /// The raw score, in any unit.
    fn score(&self, cluster: &Cluster, node: NodeId) -> f64;
    /// Brings raw scores to 0..=100 and multiplies them by the weight. The result must not depend on how many nodes
    /// have a score. [`f64::NAN`] is no score, and what becomes of it does not matter.
    fn normalise(&self, scores: &mut [f64]);
}

/// A score by the HyperNodes of a node, of those of one tier the first by name. It may read their sums
/// (`Cluster::hyper_nodes`), and is asked again when they change.
pub trait HyperNodeScorer: Send + Sync {
    /// The weighted score of a node in no HyperNode.
    fn outside(&self, cluster: &Cluster) -> f64;
    /// What is added to that for a node in this HyperNode; less than 0 where such nodes are worse.
    fn added(&self, cluster: &Cluster, id: HyperNodeId) -> f64;
}

/// The filters and scorers of a class.
#[derive(Default)]
pub struct NodeRules {
    /// Filters by attributes.
    pub filters: Vec<NodeFilter>,
    /// Filters by resources.
    pub resource_filters: Vec<ResourceFilter>,
    /// Scorers by attributes.
    pub scorers: Vec<Box<dyn NodeScorer>>,
    /// Scorers by resources.
    pub resource_scorers: Vec<Box<dyn ResourceScorer>>,
    /// Filters by topology domain.
    pub topology_filters: Vec<TopologyFilter>,
    /// Scorers by topology domain.
    pub topology_scorers: Vec<Box<dyn TopologyScorer>>,
    /// Scorers by HyperNode.
    pub hyper_node_scorers: Vec<Box<dyn HyperNodeScorer>>,
    /// What `filters` and `scorers` read of a node besides readiness, cordon and taints.
    pub reads: Vec<(Attribute, Values)>,
}

impl NodeRules {
    /// Adds a [`NodeFilter`].
    pub fn filter(&mut self, check: impl Fn(&Node) -> Result<(), Unfit> + Send + Sync + 'static) {
        self.filters.push(Box::new(check));
    }

    /// Adds a [`ResourceFilter`].
    pub fn resource_filter(
        &mut self,
        check: impl Fn(&Node, Fit) -> Result<(), Unfit> + Send + Sync + 'static,
    ) {
        self.resource_filters.push(Box::new(check));
    }

    /// Adds a [`HyperNodeScorer`].
    pub fn hyper_node_scorer(&mut self, scorer: impl HyperNodeScorer + 'static) {
        self.reads.push((Attribute::HyperNodes, Values::All));
        self.hyper_node_scorers.push(Box::new(scorer));
    }
}
