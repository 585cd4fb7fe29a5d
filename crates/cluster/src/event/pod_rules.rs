//! What a pod asks of the pods around it.
use std::sync::Arc;

use crate::label::Selector;

/// Pods by namespace and labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodSelector {
    /// Namespaces by name, sorted, none twice.
    pub namespaces: Vec<Arc<str>>,
    /// Namespaces by their labels, besides those by name.
    pub namespace_selector: Option<Selector>,
    /// Their labels; without a selector no pod is meant.
    pub labels: Option<Selector>,
}

/// Pods, and the label of nodes whose values are the domains in which they count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodTerm {
    /// A label of nodes.
    pub topology_key: Arc<str>,
    /// The pods.
    pub pods: PodSelector,
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Spread {
    /// Domains, and the pods that are counted there.
    pub term: PodTerm,
    /// How many pods more than in the emptiest domain there may be.
    pub max_skew: u32,
    /// `whenUnsatisfiable: DoNotSchedule`; otherwise it only scores.
    pub required: bool,
    /// With fewer domains than this, the emptiest counts as empty.
    pub min_domains: u32,
    /// `nodeAffinityPolicy: Honor`: nodes that the pod's node selector or affinity rules out do not count.
    pub honor_affinity: bool,
    /// `nodeTaintsPolicy: Honor`: nodes with taints the pod does not tolerate do not count.
    pub honor_taints: bool,
}

/// Pod affinity, anti-affinity and topology spread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodRules {
    /// Required: a pod that all of these mean is in the domain of each.
    pub affinity: Vec<PodTerm>,
    /// Required: no such pod is in the domain.
    pub anti_affinity: Vec<PodTerm>,
    /// Preferred, with weights: 1 to 100 for affinity, -100 to -1 for anti-affinity.
    pub preferred: Vec<(i32, PodTerm)>,
    /// Topology spread constraints.
    pub spread: Vec<Spread>,
}

impl PodRules {
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.affinity.is_empty()
            && self.anti_affinity.is_empty()
            && self.preferred.is_empty()
            && self.spread.is_empty()
    }

    /// The pods that are meant, term by term.
    pub fn selectors(&self) -> impl Iterator<Item = &PodSelector> {
        let preferred = self.preferred.iter().map(|(_, term)| term);
        let spread = self.spread.iter().map(|spread| &spread.term);
        let terms = self.affinity.iter().chain(&self.anti_affinity).chain(preferred).chain(spread);
        terms.map(|term| &term.pods)
    }
}

/// A Namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NamespaceInfo {
    /// Name.
    pub name: Arc<str>,
    /// Labels.
    pub labels: crate::label::Labels,
}
