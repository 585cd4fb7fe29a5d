//! Volumes and claims, with the controllers that bind and provision them when a pod is bound.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::event::{
    AttachmentInfo, Event, Key, PvcInfo, StorageCapacityInfo, StorageClassInfo, VolumeInfo,
};
use phalanx_core::decision::VolumeBinding;

/// The volume controllers with their objects.
#[derive(Debug, Default)]
pub(crate) struct Storage {
    claims: BTreeMap<Key, PvcInfo>,
    volumes: BTreeMap<Arc<str>, VolumeInfo>,
    classes: BTreeMap<Arc<str>, StorageClassInfo>,
    capacities: BTreeMap<Key, StorageCapacityInfo>,
    attachments: Vec<AttachmentInfo>,
}

impl Storage {
    pub(crate) fn add_volume(&mut self, volume: VolumeInfo) {
        self.volumes.insert(volume.name.clone(), volume);
    }

    /// False if the claim exists already.
    pub(crate) fn add_pvc(&mut self, claim: PvcInfo) -> bool {
        let new = !self.claims.contains_key(&claim.key);
        if new {
            self.claims.insert(claim.key.clone(), claim);
        }
        new
    }

    pub(crate) fn add_class(&mut self, class: StorageClassInfo) {
        self.classes.insert(class.name.clone(), class);
    }

    pub(crate) fn add_capacity(&mut self, capacity: StorageCapacityInfo) {
        self.capacities.insert(capacity.key.clone(), capacity);
    }

    pub(crate) fn add_attachment(&mut self, attachment: AttachmentInfo) {
        self.attachments.push(attachment);
    }

    /// Detaches the volume of a claim whose last pod is gone from the node.
    pub(crate) fn detach(&mut self, claim: &Key, node: &str) -> Vec<Event> {
        let volume = self.claims.get(claim).and_then(|claim| claim.volume.clone());
        let goes = |it: &mut AttachmentInfo| volume.is_some() && it.volume == volume && &*it.node == node;
        self.attachments.extract_if(.., goes).map(|it| Event::AttachmentGone(it.name)).collect()
    }

    /// A driver publishes its remaining capacity after it provisioned a volume.
    fn make(&mut self, of: &Key, size: i64) -> Option<Event> {
        let capacity = self.capacities.get_mut(of)?;
        let left = capacity.whole?.saturating_sub(size);
        capacity.whole = Some(left);
        capacity.size = capacity.size.map(|most| most.min(left));
        Some(capacity.clone().into())
    }

    /// Binds a claim to its volume, which is provisioned if needed; returns the events.
    pub(crate) fn bind(&mut self, binding: &VolumeBinding) -> Vec<Event> {
        let Some(claim) = self.claims.get_mut(&binding.claim).filter(|claim| !claim.bound) else {
            return Vec::new();
        };
        let name = match &binding.volume {
            Some(name) => name.clone(),
            None => format!("pvc-{}-{}", claim.key.namespace, claim.key.name).into(),
        };
        (claim.volume, claim.bound) = (Some(name.clone()), true);
        let class = self.classes.get(&claim.class);
        let volume = self.volumes.entry(name.clone()).or_insert_with(|| VolumeInfo {
            name,
            class: claim.class.clone(),
            size: claim.size,
            modes: claim.modes,
            block: claim.block,
            driver: class.and_then(|class| class.provisioner.clone()),
            nodes: class.map(|class| class.topologies.clone()).filter(|terms| !terms.is_empty()),
            ..VolumeInfo::default()
        });
        volume.claim = Some((claim.key.clone(), Some(claim.uid.clone())));
        volume.available = false;
        let (size, mut events) = (claim.size, vec![volume.clone().into(), claim.clone().into()]);
        events.extend(binding.made_of.as_ref().and_then(|of| self.make(of, size)));
        events
    }
}
