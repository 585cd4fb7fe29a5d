//! Takes in claims, volumes, storage classes and CSINodes.
use std::sync::Arc;

use super::{AttachmentShift, Volume, Volumes};
use crate::Cluster;
use crate::count::Count;
use crate::event::{CsiNodeInfo, Key, PvcInfo, StorageClassInfo, VolumeInfo};
use crate::id::PvcId;

impl Volumes {
    fn set_pvc(&mut self, id: PvcId, info: Option<PvcInfo>) {
        let name = |info: &Option<PvcInfo>| info.as_ref().and_then(|info| info.volume.clone());
        let uid = |info: &Option<PvcInfo>| info.as_ref().map(|info| info.uid.clone());
        let before = &self.pvcs[id].info;
        let other = uid(before) != uid(&info);
        if let Some(volume) = name(before) {
            self.by_volume.remove(&volume, &id);
        }
        if let Some(volume) = name(&info) {
            self.by_volume.insert(volume, id);
        }
        if other || name(&info).is_some() {
            self.drop_choice(id);
        }
        self.pvcs[id].info = info;
        self.note_changed(id);
    }

    /// The driver of a claim's volume, or of its storage class while it has none.
    pub(super) fn driver(&self, id: PvcId) -> Option<Arc<str>> {
        let info = self.pvcs[id].info.as_ref()?;
        match &info.volume {
            Some(volume) => self.volumes.get(volume)?.info.driver.clone(),
            None => self.classes.get(&info.class)?.provisioner.clone(),
        }
    }

    fn set_volume(&mut self, name: &Arc<str>, info: Option<VolumeInfo>) {
        let before = self.volumes.remove(name);
        let assumed = before.as_ref().and_then(|volume| volume.assumed);
        for old in before.iter().map(|volume| &volume.info) {
            self.pools.entry(old.class.clone()).or_default().free.remove(&(old.size, old.name.clone()));
            self.pool_changed(&old.class);
            self.count_claim_ref(old, Count::Out);
        }
        if let Some(info) = info {
            if info.available {
                let pool = self.pools.entry(info.class.clone()).or_default();
                pool.free.insert((info.size, info.name.clone()));
            }
            self.pool_changed(&info.class);
            self.count_claim_ref(&info, Count::In);
            self.volumes.insert(name.clone(), Volume { info: Arc::new(info), assumed });
        }
        if let Some(claim) = assumed.filter(|claim| !self.may_keep(name, *claim)) {
            self.drop_choice(claim);
        }
    }

    /// Counts a volume whose `claimRef` names a claim.
    fn count_claim_ref(&mut self, volume: &VolumeInfo, count: Count) {
        let Some((key, _)) = &volume.claim else { return };
        count.entry(&mut self.claim_refs, key.clone());
        if let Some(claim) = self.ids.get(key) {
            self.changed.mark(*claim);
        }
    }

    /// Whether a volume still matches the claim that it is assumed for.
    fn may_keep(&self, name: &Arc<str>, claim: PvcId) -> bool {
        let claim = &self.pvcs[claim];
        let (Some(volume), Some(info)) = (self.volumes.get(name), &claim.info) else { return false };
        match &volume.info.claim {
            Some((key, uid)) => *key == claim.key && uid.as_ref().is_none_or(|uid| *uid == info.uid),
            None => volume.info.available,
        }
    }

    fn set_limits(&mut self, node: &Arc<str>, limits: Vec<(Arc<str>, u32)>) {
        for (driver, _) in &limits {
            Count::In.entry(&mut self.limited, driver.clone());
        }
        let before = if limits.is_empty() {
            self.limits.remove(node)
        } else {
            self.limits.insert(node.clone(), limits)
        };
        for (driver, _) in before.iter().flatten() {
            Count::Out.entry(&mut self.limited, driver.clone());
        }
        self.limits_stamp = self.tick();
    }
}

impl Cluster {
    pub(crate) fn apply_pvc(&mut self, info: PvcInfo) -> bool {
        let id = self.volumes.ensure(&info.key);
        if self.volumes.pvcs[id].info.as_ref() == Some(&info) {
            return false;
        }
        let volumes = [self.volume_of(id), info.volume.clone()];
        self.volumes.set_pvc(id, Some(info));
        self.recount_driver(id);
        for volume in volumes.iter().flatten() {
            self.recount_attachments(volume);
        }
        true
    }

    pub(crate) fn remove_pvc(&mut self, key: &Key) -> bool {
        let Some(id) = self.volumes.ids.get(key).copied() else { return false };
        let (existed, volume) = (self.volumes.pvcs[id].info.is_some(), self.volume_of(id));
        self.volumes.set_pvc(id, None);
        self.recount_driver(id);
        if let Some(volume) = volume {
            self.recount_attachments(&volume);
        }
        self.volumes.drop_unused(id);
        existed
    }

    fn volume_of(&self, id: PvcId) -> Option<Arc<str>> {
        self.volumes.pvcs[id].info.as_ref()?.volume.clone()
    }

    pub(crate) fn apply_volume(&mut self, info: VolumeInfo) -> bool {
        let name = info.name.clone();
        if self.volumes.volumes.get(&name).is_some_and(|volume| *volume.info == info) {
            return false;
        }
        self.volumes.set_volume(&name, Some(info));
        self.recount_volume(&name);
        true
    }

    pub(crate) fn remove_volume(&mut self, name: &Arc<str>) -> bool {
        let existed = self.volumes.volumes.contains_key(name);
        self.volumes.set_volume(name, None);
        self.recount_volume(name);
        existed
    }

    fn recount_volume(&mut self, name: &Arc<str>) {
        let claims: Vec<PvcId> = self.volumes.by_volume.get(name).copied().collect();
        if claims.is_empty() {
            return;
        }
        for claim in claims {
            self.volumes.note_changed(claim);
            self.recount_driver(claim);
        }
        self.recount_attachments(name);
    }

    pub(crate) fn apply_storage_class(&mut self, info: StorageClassInfo) -> bool {
        let name = info.name.clone();
        if self.volumes.classes.get(&name) == Some(&info) {
            return false;
        }
        self.volumes.classes.insert(name.clone(), info);
        self.recount_class(&name);
        true
    }

    pub(crate) fn remove_storage_class(&mut self, name: &Arc<str>) -> bool {
        let existed = self.volumes.classes.remove(name).is_some();
        self.recount_class(name);
        existed
    }

    fn recount_class(&mut self, name: &Arc<str>) {
        let of_class = |claim: &super::Pvc| claim.info.as_ref().is_some_and(|info| info.class == *name);
        let claims: Vec<PvcId> =
            self.volumes.pvcs.iter().filter(|(_, claim)| of_class(claim)).map(|(id, _)| id).collect();
        for id in claims {
            self.volumes.note_changed(id);
            self.recount_driver(id);
        }
    }

    pub(crate) fn apply_csi_node(&mut self, info: CsiNodeInfo) -> bool {
        let changed = self.volumes.limits_of(&info.node) != info.limits;
        if changed {
            self.volumes.set_limits(&info.node, info.limits);
            self.refresh_limits(&info.node);
        }
        changed
    }

    fn refresh_limits(&mut self, name: &str) {
        if let Some(node) = self.node_named(name) {
            self.nodes[node].volumes.limits = self.volumes.limits_of(name);
            self.touch_node(node);
        }
    }

    /// Counts the attachments of a claim under its current driver.
    fn recount_driver(&mut self, id: PvcId) {
        let driver = self.volumes.driver(id);
        if self.volumes.pvcs[id].driver == driver {
            return;
        }
        self.attach(self.volumes.attachments(id, Count::Out));
        self.volumes.pvcs[id].driver = driver;
        self.attach(self.volumes.attachments(id, Count::In));
    }

    pub(crate) fn attach(&mut self, shifts: impl IntoIterator<Item = AttachmentShift>) {
        for shift in shifts {
            self.nodes[shift.node].attach(&shift);
            self.touch_node(shift.node);
        }
    }
}
