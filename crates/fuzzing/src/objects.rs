//! Objects as the API server writes them, in JSON and protobuf.
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use k8s_openapi::api::scheduling::v1alpha2::PodGroup as KubernetesPodGroup;
use k8s_openapi::serde::de::DeserializeOwned;
use phalanx_api::topology::HyperNode;
use phalanx_api::v1beta1::{PodGroup, Queue};
use phalanx_cache::protobuf::{self, Protobuf};
use phalanx_cache::{Change, Fold, Guarded, Interner, Kind, Names, Page, WatchEvent, slim};
use phalanx_cluster::{Cluster, ClusterOptions};

use crate::choice;

/// An object, a page of a list or an event of a watch in JSON, of the kind that the first byte chooses. What the
/// scheduler makes of it goes into a Cluster.
pub fn json_object(bytes: &[u8]) {
    let (kind, rest) = choice(bytes);
    KINDS[kind % KINDS.len()](rest);
}

const KINDS: &[fn(&[u8])] = &[
    json::<slim::Pod>,
    json::<slim::Node>,
    json::<PodGroup>,
    json::<Queue>,
    json::<HyperNode>,
    json::<KubernetesPodGroup>,
    json::<slim::Namespace>,
    json::<slim::PodDisruptionBudget>,
    json::<slim::ResourceQuota>,
    json::<slim::PersistentVolumeClaim>,
    json::<slim::PersistentVolume>,
    json::<slim::StorageClass>,
    json::<slim::CSIDriver>,
    json::<slim::CSINode>,
    json::<slim::CSIStorageCapacity>,
    json::<slim::VolumeAttachment>,
    json::<slim::PriorityClass>,
    json::<DeviceClass>,
    json::<ResourceSlice>,
    json::<ResourceClaim>,
    json::<ResourceClaimTemplate>,
];

fn json<K: Kind + DeserializeOwned>(bytes: &[u8]) {
    let mut told = Told::default();
    if let Ok(page) = Page::<K>::from_json(bytes) {
        told.list(page);
    }
    if let Ok(change) = Change::<K>::from_json(bytes) {
        told.change(change);
    }
    told.see(Guarded::<K>::from_json(&String::from_utf8_lossy(bytes)));
}

/// A page of a list, an event of a watch or a status in protobuf, of pods or nodes by the first byte.
pub fn protobuf(bytes: &[u8]) {
    let (kind, rest) = choice(bytes);
    if kind.is_multiple_of(2) { message::<slim::Pod>(rest) } else { message::<slim::Node>(rest) }
}

fn message<K: Kind + Protobuf>(bytes: &[u8]) {
    let mut told = Told::default();
    if let Ok(page) = protobuf::page::<K>(bytes) {
        told.list(page);
    }
    if let Ok(change) = protobuf::change::<K>(bytes) {
        told.change(change);
    }
    if let Ok(status) = protobuf::status(bytes) {
        drop(format!("{status:?}"));
    }
}

/// Objects of a kind on their way into a Cluster.
struct Told<K> {
    fold: Fold<Guarded<K>>,
    names: Names,
    interner: Interner,
    cluster: Cluster,
}

impl<K> Default for Told<K> {
    fn default() -> Self {
        Self {
            fold: Fold::default(),
            names: Names::default(),
            interner: Interner::default(),
            cluster: Cluster::new(ClusterOptions::default()),
        }
    }
}

impl<K: Kind> Told<K> {
    fn list(&mut self, page: Page<K>) {
        self.tell(WatchEvent::Init);
        page.items.into_iter().for_each(|item| self.tell(WatchEvent::InitApply(item)));
        self.tell(WatchEvent::InitDone);
    }

    fn change(&mut self, change: Change<K>) {
        match change {
            Change::Applied(object) => self.see(object),
            Change::Deleted(object) => self.tell(WatchEvent::Delete(object)),
            Change::Bookmark(_) | Change::Error(_) => {}
        }
    }

    fn see(&mut self, object: Guarded<K>) {
        self.tell(WatchEvent::Apply(object));
    }

    fn tell(&mut self, event: WatchEvent<Guarded<K>>) {
        let folded = self.fold.fold(event, &self.names, &mut self.interner);
        for event in folded.events {
            self.cluster.apply(event);
        }
        for rejected in folded.rejected.into_iter().chain(folded.remarks) {
            assert!(!rejected.invalid.to_string().is_empty());
        }
    }
}
