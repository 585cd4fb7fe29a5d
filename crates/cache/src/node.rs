//! Nodes.

use std::sync::Arc;

use phalanx_cluster::event::{NodeInfo, Taint};

use crate::constraints::{pairs, taint_effect};
use crate::invalid::{At, Invalid};
use crate::{Interner, requests, slim};

/// A node as the Cluster sees it.
///
/// # Errors
/// A quantity or a taint that cannot be honoured.
pub fn node(node: &slim::Node, interner: &mut Interner) -> Result<NodeInfo, Invalid> {
    let slim::Node { metadata, spec, status } = node;
    let taints = spec.taints.iter().enumerate().map(|(i, one)| taint(one, interner).item(i));
    let taints = taints.collect::<Result<_, _>>().at("spec.taints")?;
    Ok(NodeInfo {
        name: interner.string(metadata.name.as_deref().unwrap_or_default()),
        labels: metadata.labels.as_ref().map(|labels| pairs(labels, interner)).unwrap_or_default(),
        taints,
        unschedulable: spec.unschedulable,
        ready: ready(status),
        allocatable: requests::resources(&status.allocatable, interner).at("status.allocatable")?,
        images: images(&status.images, interner),
    })
}

fn images(list: &[slim::Image], interner: &mut Interner) -> Vec<(Arc<str>, i64)> {
    let named = list.iter().flat_map(|image| image.names.iter().map(|name| (name, image.size_bytes)));
    let mut images: Vec<_> = named.map(|(name, size)| (interner.string(name), size)).collect();
    images.sort_unstable();
    images.dedup_by(|one, before| one.0 == before.0);
    images
}

fn taint(from: &k8s_openapi::api::core::v1::Taint, interner: &mut Interner) -> Result<Taint, Invalid> {
    Ok(Taint {
        key: interner.string(&from.key),
        value: interner.string(from.value.as_deref().unwrap_or_default()),
        effect: taint_effect(&from.effect)?,
    })
}

/// A node without any condition is one from a manifest, with no kubelet to report it.
fn ready(status: &slim::NodeStatus) -> bool {
    let condition = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    condition.map_or(status.conditions.is_empty(), |condition| condition.status == "True")
}
