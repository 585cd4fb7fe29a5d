//! Filters and scorers of nodes: what a plugin says about the nodes for a class of tasks.
//!
//! Each kind of rule declares what it reads of a node, so that placement asks once for all nodes that are equal in that.
use std::sync::Arc;

use crate::placement::{BucketAmounts, Fit};
use phalanx_cluster::diagnosis::Unfit;
use phalanx_cluster::id::{ImageId, NodeId};
use phalanx_cluster::{Node, World};

/// What of a node makes a difference to rules by attributes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attribute {
    /// A label.
    Label(Arc<str>),
    /// The name.
    Name,
    /// The size of an image; nothing where it is not on the node.
    Image(ImageId),
}

/// Which values make a difference. Whether there is a value at all always does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// These; all others are alike.
    These(Vec<Arc<str>>),
    /// Each.
    All,
}

/// A condition on nodes that depends on their attributes alone: readiness, cordon, taints, and what the class's
/// [`NodeRules::reads`] name. Asked once per class and kind of node.
pub trait NodeFilter: Send + Sync {
    /// Whether the node will do.
    fn check(&self, node: &Node) -> Result<(), Unfit>;
}

/// A condition that depends on what is on the node: its amounts and ports. Asked once per class for nodes that are alike
/// in these and of one kind, whenever such come about.
pub trait ResourceFilter: Send + Sync {
    /// Whether the node will do now or, with `later`, once all that is being released is gone.
    fn check(&self, node: &Node, fit: Fit) -> Result<(), Unfit>;
}

/// A score by a node's attributes alone, as a [`NodeFilter`] may read them: given once per class and kind of node, then
/// normalised over all kinds that pass the filters, then weighted.
pub trait NodeScorer: Send + Sync {
    /// The raw score.
    fn score(&self, node: &Node) -> f64;
    /// Brings the raw scores to 0..100, and weights them. How many nodes have a score must not matter.
    fn normalise(&self, scores: &mut [f64]);
}

/// A score by what a [`ResourceFilter`] may read, already weighted.
pub trait ResourceScorer: Send + Sync {
    /// The score, as if the task were on the node already.
    fn score(&self, node: &Node) -> f64;
    /// Adds the scores of the amounts in some slots to sums, in their order.
    fn add_scores(&self, amounts: &BucketAmounts, slots: &[u32], sums: &mut [f64]) {
        for (slot, sum) in slots.iter().zip(sums) {
            *sum += self.score(amounts.node(*slot));
        }
    }
}

/// A condition on the pods that are counted in a node's topology domains (`World::terms`), for terms that concern the
/// class. Asked again for the nodes of a domain when what is counted there changes.
pub trait TopologyFilter: Send + Sync {
    /// Whether the node will do now or, with `later`, once all that is being released is gone.
    fn check(&self, world: &World, node: NodeId, fit: Fit) -> Result<(), Unfit>;
}

/// A score by what a [`TopologyFilter`] may read: normalised over all nodes that pass the filters by attributes, then
/// weighted.
pub trait TopologyScorer: Send + Sync {
    /// The raw score.
    fn score(&self, world: &World, node: NodeId) -> f64;
    /// Brings the raw scores to 0..100, and weights them. How many nodes have a score must not matter.
    fn normalise(&self, scores: &mut [f64]);
}

/// What plugins have to say on the nodes of a class.
#[derive(Default)]
pub struct NodeRules {
    /// By attributes.
    pub filters: Vec<Box<dyn NodeFilter>>,
    /// By room.
    pub resource_filters: Vec<Box<dyn ResourceFilter>>,
    /// By attributes.
    pub scorers: Vec<Box<dyn NodeScorer>>,
    /// By room.
    pub resource_scorers: Vec<Box<dyn ResourceScorer>>,
    /// By topology domain.
    pub topology_filters: Vec<Box<dyn TopologyFilter>>,
    /// By topology domain.
    pub topology_scorers: Vec<Box<dyn TopologyScorer>>,
    /// What `filters` and `scorers` read besides readiness, cordon and taints.
    pub reads: Vec<(Attribute, Values)>,
}
