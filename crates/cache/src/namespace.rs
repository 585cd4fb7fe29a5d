//! Namespaces.

use phalanx_cluster::event::NamespaceInfo;

use crate::{Interner, slim};

/// The label that the API server gives each namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// A Namespace as the Cluster sees it; one from a manifest gets the label that the API server would give it.
pub fn namespace(namespace: &slim::Namespace, interner: &mut Interner) -> NamespaceInfo {
    let name = namespace.metadata.name.as_deref().unwrap_or_default();
    let mut labels = namespace.metadata.labels.clone().unwrap_or_default();
    labels.insert(NAME_LABEL.to_owned(), name.to_owned());
    NamespaceInfo { name: interner.string(name), labels: interner.labels(&labels) }
}
