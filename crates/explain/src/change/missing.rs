//! Objects that a waiting job names and that do not exist, are closed or cannot be used.
use std::collections::BTreeSet;
use std::sync::Arc;

use phalanx_cluster::event::{
    AccessModes, ClaimInfo, Constraints, DeviceClassInfo, Event, Key, PodGroupInfo, PodInfo, PvcInfo,
    QueueInfo, QueueState, StorageClassInfo, VolumeInfo,
};
use phalanx_cluster::{Cluster, ROOT};

use super::fix::{Choice, Fix};
use super::{Waiting, key_of, with_queue};

/// Bytes of a volume for a claim that states no size.
const SIZE: i64 = 1 << 30;

impl Waiting<'_> {
    /// Objects with which the job would run.
    pub(super) fn missing_objects(&self) -> Vec<Choice<'_>> {
        let fixes = [
            self.missing_group(),
            self.missing_queues(),
            self.queues_below(),
            self.faults(),
            self.devices(),
            self.claims(),
        ];
        fixes.into_iter().map(Choice::Each).collect()
    }

    fn missing_group(&self) -> Vec<Fix<'_>> {
        if self.job.solo || self.group.is_some() {
            return Vec::new();
        }
        let key = self.job.key.clone();
        let uid = key.to_string().into();
        let text = format!("if PodGroup {key} existed");
        let group = PodGroupInfo { key, uid, queue: self.job.queue.clone(), ..PodGroupInfo::default() };
        vec![Fix::events(text, vec![PodGroupInfo { min_member: 1, ..group }.into()])]
    }

    /// Queues on the way up that do not exist or are not open.
    fn missing_queues(&self) -> Vec<Fix<'_>> {
        let path = self.queue_path();
        let named = path.last().map_or(&self.job.queue, |last| &last.parent);
        let missing = (**named != *ROOT && self.queue(named).is_none()).then(|| {
            let queue = QueueInfo {
                name: named.clone(),
                uid: named.clone(),
                weight: 1,
                reclaimable: true,
                ..QueueInfo::default()
            };
            Fix::events(format!("if queue {named} existed"), vec![queue.into()])
        });
        let shut = path.iter().filter(|queue| queue.state != QueueState::Open);
        let open = |queue: &QueueInfo| {
            let text = format!("if queue {} were open", queue.name);
            let name = queue.name.clone();
            Fix::new(text, move |cluster| with_queue(cluster, &name, |queue| queue.state = QueueState::Open))
        };
        missing.into_iter().chain(shut.map(open)).collect()
    }

    /// Jobs cannot be in a queue that has queues below it: those below.
    fn queues_below(&self) -> Vec<Fix<'_>> {
        let below = self.queues().into_iter().filter(|queue| queue.parent == self.job.queue);
        let moved = |queue: QueueInfo| {
            let text = format!("in queue {}", queue.name);
            Fix::new(text, move |cluster| {
                if self.job.solo {
                    self.with_pods(cluster, |pod| pod.queue = Some(queue.name.clone()))
                } else {
                    self.with_group(cluster, |group| group.queue = queue.name.clone())
                }
            })
        };
        below.map(moved).collect()
    }

    /// Fields of the job that cannot be read.
    fn faults(&self) -> Vec<Fix<'_>> {
        let of_group = self.group.as_ref().and_then(|group| group.invalid.clone()).map(|fault| {
            let edit = |cluster: &Cluster| self.with_group(cluster, |group| group.invalid = None);
            Fix::new(format!("once this is put right: {fault}"), edit)
        });
        let unreadable = self.waiting_pods().find_map(|pod| pod.constraints.unreadable.clone());
        let readable = |pod: &mut PodInfo| {
            let constraints = Constraints::clone(&pod.constraints);
            pod.constraints = Arc::new(Constraints { unreadable: None, ..constraints });
            let made = pod.claims.iter().flat_map(|claims| claims.iter());
            pod.claims = Some(made.filter(|claim| claim.claim.is_some()).cloned().collect());
        };
        let of_pods = unreadable.map(|fault| {
            let edit = move |cluster: &Cluster| self.with_pods(cluster, readable);
            Fix::new(format!("once this is put right: {fault}"), edit)
        });
        of_group.into_iter().chain(of_pods).collect()
    }

    /// ResourceClaims and device classes that do not exist.
    fn devices(&self) -> Vec<Fix<'_>> {
        let (mut claims, mut named) = (BTreeSet::new(), BTreeSet::new());
        for pod in self.waiting_pods() {
            let of_pod = pod.claims.iter().flat_map(|claims| claims.iter());
            let names = of_pod.filter_map(|claim| claim.claim.as_ref());
            named.extend(names.map(|name| key_of(&pod.pod.namespace, name)));
        }
        let mut classes: BTreeSet<Arc<str>> = BTreeSet::new();
        for key in named {
            match self.cluster.claim_info(&key) {
                Some(claim) => classes.extend(claim.requests.iter().map(|request| request.class.clone())),
                None => {
                    claims.insert(key);
                }
            }
        }
        let class = |name: &Arc<str>| {
            let info = DeviceClassInfo { name: name.clone(), ..DeviceClassInfo::default() };
            Fix::events(format!("if DeviceClass {name} existed"), vec![info.into()])
        };
        let missing = classes.iter().filter(|name| !self.cluster.has_device_class(name)).map(class);
        missing.chain(claims.iter().map(claim_made)).collect()
    }

    /// The claims to volumes of the waiting pods.
    fn claimed(&self) -> BTreeSet<Key> {
        let volumes = self.waiting_pods().flat_map(|pod| pod.constraints.volumes.iter());
        volumes.map(|volume| volume.claim.clone()).collect()
    }

    /// Claims to volumes that are not bound, or their storage classes.
    fn claims(&self) -> Vec<Fix<'_>> {
        let mut keys = self.claimed();
        keys.retain(|key| self.cluster.pvc_info(key).is_none_or(|claim| !claim.bound));
        let classes: BTreeSet<Arc<str>> = keys
            .iter()
            .filter_map(|key| self.cluster.pvc_info(key))
            .filter(|claim| !claim.bound && !claim.class.is_empty())
            .map(|claim| claim.class.clone())
            .filter(|class| !self.cluster.has_storage_class(class))
            .collect();
        let mut fixes: Vec<Fix<'_>> = classes.iter().map(class_made).collect();
        if fixes.is_empty() {
            fixes.extend(keys.iter().map(|key| self.bound(key)));
        }
        fixes
    }

    /// Claims to volumes that are bound, with other volumes.
    pub(super) fn other_volumes(&self) -> Vec<Fix<'_>> {
        let mut keys = self.claimed();
        keys.retain(|key| self.cluster.pvc_info(key).is_some_and(|claim| claim.bound));
        keys.iter().map(|key| self.bound(key)).collect()
    }

    /// A claim that is bound to a volume that every node reaches.
    fn bound(&self, key: &Key) -> Fix<'_> {
        let known = self.cluster.pvc_info(key);
        let state = match known {
            None => "existed and were bound",
            Some(claim) if claim.bound => "were bound to a volume that its pods can reach",
            Some(_) => "were bound",
        };
        let volume: Arc<str> = format!("explain-{}-{}", key.namespace, key.name).into();
        let new = PvcInfo {
            key: key.clone(),
            uid: key.to_string().into(),
            modes: AccessModes(1),
            size: SIZE,
            ..PvcInfo::default()
        };
        let claim = known.cloned().unwrap_or(new);
        let claim =
            PvcInfo { volume: Some(volume.clone()), bound: true, lost: false, deleting: false, ..claim };
        let bound_to = VolumeInfo {
            name: volume,
            class: claim.class.clone(),
            size: claim.size,
            modes: claim.modes,
            block: claim.block,
            claim: Some((key.clone(), Some(claim.uid.clone()))),
            ..VolumeInfo::default()
        };
        Fix::events(format!("if PersistentVolumeClaim {key} {state}"), vec![bound_to.into(), claim.into()])
    }
}

fn claim_made<'w>(key: &Key) -> Fix<'w> {
    let claim = ClaimInfo { key: key.clone(), uid: key.to_string().into(), ..ClaimInfo::default() };
    Fix::events(format!("if ResourceClaim {key} existed"), vec![claim.into()])
}

fn class_made<'w>(name: &Arc<str>) -> Fix<'w> {
    let provisioner = Some("explain".into());
    let class = StorageClassInfo { name: name.clone(), provisioner, waits: true, topologies: Vec::new() };
    Fix::events(format!("if StorageClass {name} existed"), vec![Event::from(class)])
}

/// Constraints without the claims to volumes.
pub(super) fn without_volumes(constraints: &mut Constraints) {
    constraints.volumes.clear();
}
