//! Objects of the cluster that nothing else keeps after the start of a simulation.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phalanx_cluster::event::{NodeInfo, QuotaInfo, SliceInfo, SliceNodes};

use crate::manifests::Object;

/// Nodes by name, and objects that are looked at when somebody asks why a job waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    pub(crate) nodes: BTreeMap<Arc<str>, NodeInfo>,
    pub(crate) quotas: Vec<QuotaInfo>,
    slices: Vec<SliceInfo>,
    pub(crate) device_classes: BTreeSet<Arc<str>>,
    pub(crate) priority_classes: BTreeSet<Arc<str>>,
}

impl Objects {
    pub(crate) fn of(objects: &[Object]) -> Self {
        let mut found = Self::default();
        for object in objects {
            match object {
                Object::Node(node) => {
                    found.nodes.insert(node.name.clone(), (**node).clone());
                }
                Object::Quota(quota) => found.quotas.push(quota.clone()),
                Object::Slice(slice) => found.slices.push(slice.clone()),
                Object::DeviceClass(class) => {
                    found.device_classes.insert(class.name.clone());
                }
                Object::PriorityClass { name, .. } => {
                    found.priority_classes.insert(name.clone());
                }
                _ => {}
            }
        }
        found
    }

    /// The devices of a node, for another node that is like it.
    pub(crate) fn slices_for(&self, like: &NodeInfo, new: &NodeInfo) -> impl Iterator<Item = SliceInfo> {
        let own = self.slices.iter().filter(|slice| slice.nodes == SliceNodes::Node(like.name.clone()));
        let other = |slice: &SliceInfo| SliceInfo {
            name: format!("{}-{}", slice.name, new.name).into(),
            pool: new.name.clone(),
            nodes: SliceNodes::Node(new.name.clone()),
            ..slice.clone()
        };
        own.map(other).collect::<Vec<_>>().into_iter()
    }
}
