//! PersistentVolumes, claims on them, StorageClasses and CSINodes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{TopologySelectorLabelRequirement, TopologySelectorTerm};
use phalanx_cluster::event::{
    AccessModes, AttachmentInfo, CsiDriverInfo, CsiNodeInfo, Disk, DiskKind, Key, NodeTerm, Operator,
    PodVolume, PvcInfo, Requirement, Resources, StorageCapacityInfo, StorageClassInfo, VolumeInfo,
};

use crate::invalid::{At, Invalid};
use crate::qualified::check_key;
use crate::{Identity, Interner, Kind, constraints, pdb, requests, slim};

/// The node for which a volume is to be made.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Both sides of a binding have been written.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Names the storage class before there was a field for it, and goes before that.
const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// What makes no volumes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// A PersistentVolumeClaim as the Cluster sees it.
///
/// # Errors
/// A size, an access mode or a selector that cannot be honoured.
pub fn pvc(from: &slim::PersistentVolumeClaim, interner: &mut Interner) -> Result<PvcInfo, Invalid> {
    let identity = slim::PersistentVolumeClaim::identity(&from.metadata, interner);
    reduce_claim(from, &identity, interner)
}

/// The same with an identity that is known already.
pub(crate) fn reduce_claim(
    from: &slim::PersistentVolumeClaim,
    identity: &Identity,
    interner: &mut Interner,
) -> Result<PvcInfo, Invalid> {
    let slim::PersistentVolumeClaim { metadata, spec, status } = from;
    let annotation =
        |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
    let owners = metadata.owner_references.iter().flatten();
    let owner = owners
        .filter(|owner| owner.controller == Some(true))
        .map(|owner| Arc::from(owner.uid.as_str()))
        .next();
    let phase = status.phase.as_deref();
    let class = annotation(STORAGE_CLASS).or(spec.storage_class_name.as_deref());
    let selector = spec.selector.as_ref().map(|selector| pdb::selector(selector, interner));
    Ok(PvcInfo {
        key: identity.key.clone(),
        uid: identity.uid.clone(),
        owner,
        deleting: metadata.deletion_timestamp.is_some(),
        lost: phase == Some("Lost"),
        volume: spec.volume_name.as_deref().map(Arc::from),
        bound: spec.volume_name.is_some() && (annotation(BIND_COMPLETED).is_some() || phase == Some("Bound")),
        class: interner.string(class.unwrap_or_default()),
        modes: modes(&spec.access_modes).at("spec.accessModes")?,
        block: is_block(spec.volume_mode.as_deref()).at("spec.volumeMode")?,
        size: size(&spec.resources.requests, interner).at("spec.resources.requests")?,
        selector: selector.transpose().at("spec.selector")?,
        selected_node: annotation(SELECTED_NODE)
            .filter(|node| !node.is_empty())
            .map(|node| interner.string(node)),
    })
}

/// A PersistentVolume as the Cluster sees it.
///
/// # Errors
/// A size, an access mode or a node affinity that cannot be honoured.
pub fn volume(from: &slim::PersistentVolume, interner: &mut Interner) -> Result<VolumeInfo, Invalid> {
    let slim::PersistentVolume { metadata, spec, status } = from;
    let free = status.phase.as_deref().is_none_or(|phase| matches!(phase, "Available" | "Pending"));
    let claim = spec.claim_ref.as_ref().map(|claim| {
        (
            Key { namespace: interner.string(&claim.namespace), name: claim.name.as_str().into() },
            claim.uid.as_deref().map(Arc::from),
        )
    });
    Ok(VolumeInfo {
        name: metadata.name.as_deref().unwrap_or_default().into(),
        class: interner.string(spec.storage_class_name.as_deref().unwrap_or_default()),
        size: size(&spec.capacity, interner).at("spec.capacity")?,
        modes: modes(&spec.access_modes).at("spec.accessModes")?,
        block: is_block(spec.volume_mode.as_deref()).at("spec.volumeMode")?,
        labels: metadata.labels.as_ref().map(|labels| interner.labels(labels)).unwrap_or_default(),
        nodes: nodes(spec, interner).at("spec.nodeAffinity.required.nodeSelectorTerms")?,
        claim,
        available: free && metadata.deletion_timestamp.is_none(),
        driver: spec.csi.as_ref().map(|csi| interner.string(&csi.driver)),
    })
}

/// A StorageClass as the Cluster sees it.
///
/// # Errors
/// A binding mode that is unknown, a topology that no node can be in.
pub fn storage_class(
    from: &slim::StorageClass,
    interner: &mut Interner,
) -> Result<StorageClassInfo, Invalid> {
    let waits = match from.volume_binding_mode.as_deref() {
        None | Some("Immediate") => false,
        Some("WaitForFirstConsumer") => true,
        Some(other) => {
            let problem = format!("{other:?} is unknown, expected Immediate or WaitForFirstConsumer");
            return Err(Invalid::new(problem)).at("volumeBindingMode");
        }
    };
    let provisioner =
        Some(from.provisioner.as_str()).filter(|name| !name.is_empty() && *name != NO_PROVISIONER);
    Ok(StorageClassInfo {
        name: interner.string(from.metadata.name.as_deref().unwrap_or_default()),
        provisioner: provisioner.map(|name| interner.string(name)),
        waits,
        topologies: topologies(&from.allowed_topologies, interner).at("allowedTopologies")?,
    })
}

/// A CSINode as the Cluster sees it.
pub fn csi_node(from: &slim::CSINode, interner: &mut Interner) -> CsiNodeInfo {
    let limit = |driver: &slim::CSINodeDriver| {
        let count = driver.allocatable.count?;
        Some((interner.string(&driver.name), u32::try_from(count).unwrap_or_default()))
    };
    let mut limits: Vec<_> = from.spec.drivers.iter().filter_map(limit).collect();
    limits.sort_unstable();
    CsiNodeInfo { node: interner.string(from.metadata.name.as_deref().unwrap_or_default()), limits }
}

/// A VolumeAttachment as the Cluster sees it.
pub fn attachment(from: &slim::VolumeAttachment, interner: &mut Interner) -> AttachmentInfo {
    let spec = &from.spec;
    AttachmentInfo {
        name: interner.string(from.metadata.name.as_deref().unwrap_or_default()),
        node: interner.string(&spec.node_name),
        driver: interner.string(&spec.attacher),
        volume: spec.source.persistent_volume_name.as_deref().map(|name| interner.string(name)),
    }
}

/// A CSIDriver as the Cluster sees it.
pub fn csi_driver(from: &slim::CSIDriver, interner: &mut Interner) -> CsiDriverInfo {
    let name = interner.string(from.metadata.name.as_deref().unwrap_or_default());
    CsiDriverInfo { name, tells_capacity: from.spec.storage_capacity == Some(true) }
}

/// A CSIStorageCapacity as the Cluster sees it.
///
/// # Errors
/// A size or a selector that cannot be honoured.
pub fn storage_capacity(
    from: &slim::CSIStorageCapacity,
    interner: &mut Interner,
) -> Result<StorageCapacityInfo, Invalid> {
    let identity = slim::CSIStorageCapacity::identity(&from.metadata, interner);
    reduce_capacity(from, &identity, interner)
}

/// The same with an identity that is known already.
pub(crate) fn reduce_capacity(
    from: &slim::CSIStorageCapacity,
    identity: &Identity,
    interner: &mut Interner,
) -> Result<StorageCapacityInfo, Invalid> {
    let amount = |amount: &slim::Amount| match &amount.0 {
        Ok(quantity) => Ok(quantity.units()),
        Err(error) => Err(Invalid::new(error.to_string())),
    };
    let largest = from.maximum_volume_size.as_ref().map(amount).transpose().at("maximumVolumeSize")?;
    let left = from.capacity.as_ref().map(amount).transpose().at("capacity")?;
    let nodes = from.node_topology.as_ref().map(|nodes| pdb::selector(nodes, interner));
    Ok(StorageCapacityInfo {
        key: identity.key.clone(),
        class: interner.string(&from.storage_class_name),
        nodes: nodes.transpose().at("nodeTopology")?,
        size: largest.or(left),
        whole: left,
    })
}

/// The claims of a pod, each once, sorted. An ephemeral volume has a claim of the pod's and its own name.
pub(crate) fn of_pod(spec: &slim::PodSpec, pod: &Identity) -> Vec<PodVolume> {
    let claim = |volume: &slim::Volume| {
        let (name, owner) = match &volume.persistent_volume_claim {
            Some(source) => (source.claim_name.as_str().into(), None),
            None if volume.ephemeral.is_some() => {
                (format!("{}-{}", pod.key.name, volume.name).into(), Some(pod.uid.clone()))
            }
            None => return None,
        };
        Some(PodVolume { claim: Key { namespace: pod.key.namespace.clone(), name }, owner })
    };
    let mut claims: Vec<_> = spec.volumes.iter().filter_map(claim).collect();
    claims.sort_unstable();
    claims.dedup_by(|one, before| one.claim == before.claim);
    claims
}

/// The disks in a pod's own spec, sorted, each once.
pub(crate) fn disks(spec: &slim::PodSpec, interner: &mut Interner) -> Vec<Disk> {
    let mut disks: Vec<Disk> = spec.volumes.iter().filter_map(|volume| disk(volume, interner)).collect();
    disks.sort_unstable();
    disks.dedup();
    disks
}

fn disk(volume: &slim::Volume, interner: &mut Interner) -> Option<Disk> {
    let plain = |of, name: &str, read_only| Disk { of, name: name.into(), monitors: Vec::new(), read_only };
    if let Some(disk) = &volume.gce_persistent_disk {
        return Some(plain(DiskKind::Gce, &disk.pd_name, disk.read_only));
    }
    if let Some(disk) = &volume.aws_elastic_block_store {
        return Some(plain(DiskKind::Aws, &disk.volume_id, false));
    }
    if let Some(disk) = &volume.iscsi {
        return Some(plain(DiskKind::Iscsi, &disk.iqn, disk.read_only));
    }
    let disk = volume.rbd.as_ref()?;
    let monitors = disk.monitors.iter().map(|monitor| interner.string(monitor)).collect();
    let name = format!("{}/{}", disk.pool.as_deref().unwrap_or("rbd"), disk.image);
    Some(Disk { monitors, ..plain(DiskKind::Rbd, &name, disk.read_only) })
}

fn modes(names: &[String]) -> Result<AccessModes, Invalid> {
    let mut modes = AccessModes::default();
    for (at, name) in names.iter().enumerate() {
        let expected = "expected ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod";
        let mode =
            AccessModes::of(name).ok_or_else(|| Invalid::new(format!("{name:?} is unknown, {expected}")));
        modes.0 |= mode.item(at)?.0;
    }
    Ok(modes)
}

fn is_block(mode: Option<&str>) -> Result<bool, Invalid> {
    match mode {
        None | Some("Filesystem") => Ok(false),
        Some("Block") => Ok(true),
        Some(other) => Err(Invalid::new(format!("{other:?} is unknown, expected Filesystem or Block"))),
    }
}

/// Bytes; 0 when nothing is said.
fn size(list: &slim::ResourceList, interner: &mut Interner) -> Result<i64, Invalid> {
    let list: Resources = requests::resources(list, interner)?;
    Ok(list.iter().find(|(name, _)| **name == *"storage").map_or(0, |(_, quantity)| quantity.units()))
}

fn nodes(
    spec: &slim::PersistentVolumeSpec,
    interner: &mut Interner,
) -> Result<Option<Vec<NodeTerm>>, Invalid> {
    let Some(required) = &spec.node_affinity.required else { return Ok(None) };
    constraints::terms(&required.node_selector_terms, interner).map(Some)
}

fn topologies(list: &[TopologySelectorTerm], interner: &mut Interner) -> Result<Vec<NodeTerm>, Invalid> {
    list.iter().enumerate().map(|(i, one)| topology(one, interner).item(i)).collect()
}

/// A topology is a term whose labels must have one of some values.
fn topology(from: &TopologySelectorTerm, interner: &mut Interner) -> Result<NodeTerm, Invalid> {
    let requirement = |one: &TopologySelectorLabelRequirement, interner: &mut Interner| {
        check_key(&one.key).at("key")?;
        if one.values.is_empty() {
            return Err(Invalid::new("empty, expected at least one value")).at("values");
        }
        let values = one.values.iter().map(|value| interner.string(value)).collect();
        Ok(Requirement { key: interner.string(&one.key), operator: Operator::In, values })
    };
    let expressions = from.match_label_expressions.iter().flatten().enumerate();
    let labels = expressions.map(|(i, one)| requirement(one, interner).item(i));
    let labels = labels.collect::<Result<_, _>>().at("matchLabelExpressions")?;
    Ok(NodeTerm { labels, fields: Vec::new() })
}
