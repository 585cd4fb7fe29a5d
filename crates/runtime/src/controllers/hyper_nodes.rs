//! HyperNodes, which are one subject together: one is made of others.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cache::Interner;
use phalanx_cluster::event::{Key, NodeInfo};
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_controllers::hyper_node::{self, Observed};
use phalanx_controllers::{Change, Kind};

use super::queue::Subject;
use super::reconcile::Need;
use super::store::{Store, Watched};

/// All HyperNodes.
pub(super) fn all() -> Subject {
    Subject::new(Kind::HyperNode, "", "")
}

/// The subject of an event on a write: of all HyperNodes the one that was to be written.
pub(super) fn regarded(subject: &Subject, change: &Change) -> Subject {
    let name = match change {
        _ if subject.kind != Kind::HyperNode => return subject.clone(),
        Change::Create(object) | Change::Replace(object) | Change::Status { object, .. } => {
            object.metadata().name.as_deref().unwrap_or_default()
        }
        Change::Delete(target) | Change::Join(target, _) => &target.name,
        Change::Note(note) => &note.on.name,
    };
    Subject { kind: Kind::HyperNode, key: Key::new("", name) }
}

impl Store {
    /// Nothing without HyperNodes or nodes to read: without nodes, all that was discovered would be deleted.
    pub(super) fn reconcile_hyper_nodes(&self) -> Option<Need> {
        let reads = |kind| !self.absent.contains(&kind);
        let mut settings = self.settings.iter().filter_map(|(_, settings)| settings.as_ref());
        let settings = settings.next().filter(|_| reads(Watched::ConfigMap));
        let is_idle = self.hyper_nodes.len() == 0 && settings.is_none();
        if is_idle || !reads(Watched::HyperNode) || !reads(Watched::Node) {
            return None;
        }
        let nodes: BTreeMap<&str, _> = self.nodes.iter().map(|(key, labels)| (&*key.name, labels)).collect();
        let hyper_nodes: Vec<_> = self.hyper_nodes.iter().map(|(_, hyper_node)| hyper_node).collect();
        let seen = Observed { hyper_nodes: &hyper_nodes, nodes: &nodes, counts: &self.counts(), settings };
        Some(Need::Changes(hyper_node::reconcile(&seen)))
    }

    /// How many members each HyperNode has itself.
    fn counts(&self) -> BTreeMap<Arc<str>, usize> {
        let (mut cluster, mut interner) = (Cluster::new(ClusterOptions::default()), Interner::default());
        for (key, labels) in self.nodes.iter() {
            let labels = labels.iter().map(|(key, value)| (interner.string(key), interner.string(value)));
            let labels = labels.collect();
            let node = NodeInfo { name: Arc::clone(&key.name), labels, ..NodeInfo::default() };
            cluster.apply(node.into());
        }
        for (_, hyper_node) in self.hyper_nodes.iter() {
            cluster.apply(phalanx_cache::hyper_node(hyper_node, &mut interner).into());
        }
        cluster.members_of_hyper_nodes()
    }
}
