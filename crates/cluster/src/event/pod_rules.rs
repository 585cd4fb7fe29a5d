//! Pod affinity, anti-affinity and topology spread of a pod.
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::label::Selector;

/// Pods by namespace and labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSelector {
    /// Namespaces by name, sorted, none twice.
    pub namespaces: Vec<Arc<str>>,
    /// Namespaces by their labels, besides those by name.
    pub namespace_selector: Option<Selector>,
    /// Labels of pods; without a selector the term matches no pod.
    pub labels: Option<Selector>,
}

/// A term: a selector of pods, and the topology key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodTerm {
    /// The topology key.
    pub topology_key: Arc<str>,
    /// The pods.
    pub pods: PodSelector,
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// The topology key and the pods that count.
    pub term: PodTerm,
    /// `maxSkew`: how many more pods a domain may have than the emptiest one.
    pub max_skew: u32,
    /// `whenUnsatisfiable: DoNotSchedule`; otherwise it only scores.
    pub required: bool,
    /// `minDomains`: with fewer domains the minimum counts as 0.
    pub min_domains: u32,
    /// `nodeAffinityPolicy: Honor`: nodes that the pod's node selector or affinity rules out do not count.
    pub honor_affinity: bool,
    /// `nodeTaintsPolicy: Honor`: nodes with taints the pod does not tolerate do not count.
    pub honor_taints: bool,
}

/// Pod affinity, anti-affinity and topology spread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRules {
    /// Required affinity: the domain of each term has a pod that all terms match.
    pub affinity: Vec<PodTerm>,
    /// Required anti-affinity: the domain of a term has no pod that the term matches.
    pub anti_affinity: Vec<PodTerm>,
    /// Preferred, with weights: 1 to 100 for affinity, -100 to -1 for anti-affinity.
    pub preferred: Vec<(i32, PodTerm)>,
    /// Topology spread constraints.
    pub spread: Vec<Spread>,
}

impl PodRules {
    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.affinity.is_empty()
            && self.anti_affinity.is_empty()
            && self.preferred.is_empty()
            && self.spread.is_empty()
    }

    /// The selectors of all terms.
    pub fn selectors(&self) -> impl Iterator<Item = &PodSelector> {
        let preferred = self.preferred.iter().map(|(_, term)| term);
        let spread = self.spread.iter().map(|spread| &spread.term);
        let terms = self.affinity.iter().chain(&self.anti_affinity).chain(preferred).chain(spread);
        terms.map(|term| &term.pods)
    }
}

/// A Namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceInfo {
    /// Name.
    pub name: Arc<str>,
    /// Labels.
    pub labels: crate::label::Labels,
}
