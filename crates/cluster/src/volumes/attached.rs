//! VolumeAttachments. A volume stays attached for a while after its last pod is gone, and counts towards the limit of
//! its driver until it is detached, as terminating pods do: its place is future idle. A volume with pods counts once.
//!
//! Source: kube-scheduler's NodeVolumeLimits.
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{AttachmentShift, ClaimUse, Volumes};
use crate::Cluster;
use crate::count::Count;
use crate::event::AttachmentInfo;
use crate::id::{NodeId, PvcId};
use crate::multi_map::MultiMap;

/// Where an attachment is counted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counted {
    /// With the pods of the claim that is bound to the volume.
    With(PvcId, NodeId),
    /// On its own: the volume is bound to no known claim.
    Alone(NodeId),
}

#[derive(Clone, Debug, PartialEq)]
struct Attachment {
    info: AttachmentInfo,
    /// `None` as long as the node is not known.
    counted: Option<Counted>,
}

/// All attachments by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Attachments {
    known: BTreeMap<Arc<str>, Attachment>,
    by_node: MultiMap<Arc<str>, Arc<str>>,
    by_volume: MultiMap<Arc<str>, Arc<str>>,
}

impl Attachments {
    fn insert(&mut self, info: AttachmentInfo) {
        let name = info.name.clone();
        self.by_node.insert(info.node.clone(), name.clone());
        if let Some(volume) = &info.volume {
            self.by_volume.insert(volume.clone(), name.clone());
        }
        self.known.insert(name, Attachment { info, counted: None });
    }

    pub(super) fn infos(&self) -> impl Iterator<Item = &AttachmentInfo> {
        self.known.values().map(|attachment| &attachment.info)
    }

    fn remove(&mut self, name: &str) {
        let Some(Attachment { info, .. }) = self.known.remove(name) else { return };
        self.by_node.remove(&info.node, name);
        if let Some(volume) = &info.volume {
            self.by_volume.remove(volume, name);
        }
    }
}

fn names(index: &MultiMap<Arc<str>, Arc<str>>, key: &str) -> Vec<Arc<str>> {
    index.get(key).cloned().collect()
}

/// The count of a volume without pods, which is being detached.
const ONE: ClaimUse = ClaimUse { held: 0, releasing: 1, attached: 0 };

impl Cluster {
    pub(crate) fn apply_attachment(&mut self, info: AttachmentInfo) -> bool {
        let known = &self.volumes.attachments.known;
        if known.get(&info.name).is_some_and(|attachment| attachment.info == info) {
            return false;
        }
        let name = info.name.clone();
        self.remove_attachment(&name);
        self.volumes.attachments.insert(info);
        self.count_in(&name);
        true
    }

    pub(crate) fn remove_attachment(&mut self, name: &str) -> bool {
        let known = self.volumes.attachments.known.contains_key(name);
        self.count_out(name);
        self.volumes.attachments.remove(name);
        known
    }

    /// Counts the attachments of a node that became known.
    pub fn attachments_come(&mut self, node: &str) {
        for name in names(&self.volumes.attachments.by_node, node) {
            self.count_in(&name);
        }
    }

    /// Takes out the attachments of a node that is about to be removed.
    pub fn attachments_go(&mut self, node: &str) {
        for name in names(&self.volumes.attachments.by_node, node) {
            self.count_out(&name);
        }
    }

    /// Counts the attachments of a volume again whose claim or driver changed.
    pub(super) fn recount_attachments(&mut self, volume: &str) {
        for name in names(&self.volumes.attachments.by_volume, volume) {
            self.count_out(&name);
            self.count_in(&name);
        }
    }

    fn count_in(&mut self, name: &str) {
        let counted = self.where_counted(name);
        let Some(attachment) = self.volumes.attachments.known.get_mut(name) else { return };
        attachment.counted = counted;
        self.count_attachment(name, counted, Count::In);
    }

    fn count_out(&mut self, name: &str) {
        let Some(attachment) = self.volumes.attachments.known.get_mut(name) else { return };
        let counted = attachment.counted.take();
        self.count_attachment(name, counted, Count::Out);
    }

    fn count_attachment(&mut self, name: &str, counted: Option<Counted>, count: Count) {
        let driver = self.volumes.attachments.known[name].info.driver.clone();
        let shift = match counted {
            Some(Counted::With(claim, node)) => self.volumes.shift_attached(claim, node, count),
            Some(Counted::Alone(node)) => Some(AttachmentShift::new(node, driver, ONE, count)),
            None => None,
        };
        self.attach(shift);
    }

    fn where_counted(&self, name: &str) -> Option<Counted> {
        let info = &self.volumes.attachments.known.get(name)?.info;
        let node = self.node_named(&info.node)?;
        let claims = info.volume.iter().flat_map(|volume| self.volumes.by_volume.get(volume));
        let pvcs = &self.volumes.pvcs;
        let claim = claims
            .filter(|claim| pvcs[**claim].driver.as_ref() == Some(&info.driver))
            .min_by_key(|claim| &pvcs[**claim].key);
        Some(claim.map_or(Counted::Alone(node), |claim| Counted::With(*claim, node)))
    }

    /// Compares counts of attachments, by claim and node, and of those without claim by node and driver.
    pub(super) fn check_counted(&self, note: &mut crate::check::Note<'_>) {
        for (name, attachment) in &self.volumes.attachments.known {
            let right = attachment.counted == self.where_counted(name);
            note(right, format!("where attachment {name} counts"));
        }
    }
}

impl Volumes {
    /// Attachments that count with the pods of a claim, by node.
    pub(super) fn attached_of(&self, id: PvcId) -> impl Iterator<Item = NodeId> + '_ {
        self.attachments.known.values().filter_map(move |attachment| match attachment.counted {
            Some(Counted::With(claim, node)) if claim == id => Some(node),
            _ => None,
        })
    }

    /// Drivers of the attachments on a node that count on their own.
    pub(super) fn attached_alone(&self, on: NodeId) -> impl Iterator<Item = &str> {
        let alone = move |attachment: &&Attachment| attachment.counted == Some(Counted::Alone(on));
        self.attachments.known.values().filter(alone).map(|attachment| &*attachment.info.driver)
    }

    /// Counts an attachment of a claim's volume in or out. Returns the change in what the driver has attached.
    fn shift_attached(&mut self, id: PvcId, node: NodeId, count: Count) -> Option<AttachmentShift> {
        let claim = &mut self.pvcs[id];
        let on = claim.on.entry(node).or_default();
        let before = on.once();
        count.step(&mut on.attached);
        self.shifted(id, node, before)
    }
}
