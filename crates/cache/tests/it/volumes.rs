//! PersistentVolumes, claims, storage classes and attach limits.

use phalanx_cache::{Interner, decode, slim};
use phalanx_cluster::event::{AccessModes, DiskKind, PvcInfo, VolumeInfo};

use crate::{object, pod, try_pod, value};

fn claim(yaml: &str) -> PvcInfo {
    let claim: slim::PersistentVolumeClaim = object(yaml);
    phalanx_cache::pvc(&claim, &mut Interner::default()).expect("a claim")
}

fn volume(yaml: &str) -> VolumeInfo {
    let volume: slim::PersistentVolume = object(yaml);
    phalanx_cache::volume(&volume, &mut Interner::default()).expect("a volume")
}

#[test]
fn all_fields_of_a_claim_are_read() {
    let claim = claim(
        "
metadata:
  name: data
  namespace: team
  uid: u1
  annotations: {volume.kubernetes.io/selected-node: n1}
  ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: p1, controller: true}]
spec:
  accessModes: [ReadWriteOnce, ReadWriteOncePod]
  volumeMode: Block
  storageClassName: fast
  resources: {requests: {storage: 1Gi}}
  selector: {matchLabels: {disk: ssd}}",
    );
    assert_eq!(
        (claim.key.to_string().as_str(), &*claim.uid, claim.owner.as_deref()),
        ("team/data", "u1", Some("p1"))
    );
    assert_eq!((&*claim.class, claim.size, claim.block), ("fast", 1 << 30, true));
    assert!(claim.modes.cover(AccessModes::ONCE_POD) && claim.selector.is_some());
    assert_eq!((claim.selected_node.as_deref(), claim.bound, claim.volume), (Some("n1"), false, None));
}

#[test]
fn a_claim_is_bound_when_the_volume_names_it_too() {
    for (metadata, spec, status, bound, lost) in [
        ("{name: c}", "{volumeName: v}", "{}", false, false),
        ("{name: c}", "{volumeName: v}", "{phase: Bound}", true, false),
        (
            "{name: c, annotations: {pv.kubernetes.io/bind-completed: 'yes'}}",
            "{volumeName: v}",
            "{}",
            true,
            false,
        ),
        ("{name: c}", "{}", "{phase: Pending}", false, false),
        ("{name: c}", "{volumeName: v}", "{phase: Lost}", false, true),
    ] {
        let claim = claim(&format!("metadata: {metadata}\nspec: {spec}\nstatus: {status}"));
        assert_eq!((claim.bound, claim.lost), (bound, lost), "{metadata} {spec} {status}");
    }
    let old = claim("metadata: {name: c, annotations: {volume.beta.kubernetes.io/storage-class: slow}}");
    assert_eq!(&*old.class, "slow");
}

#[test]
fn a_volume_is_available_unless_released_bound_or_being_deleted() {
    let full = volume(
        "
metadata: {name: v, labels: {topology.kubernetes.io/zone: a}}
spec:
  capacity: {storage: 10Gi}
  accessModes: [ReadWriteMany]
  storageClassName: fast
  csi: {driver: csi.example.com, volumeHandle: h}
  claimRef: {namespace: team, name: data, uid: u1}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}
status: {phase: Bound}",
    );
    assert_eq!(
        (full.size, full.driver.as_deref(), full.available),
        (10 << 30, Some("csi.example.com"), false)
    );
    assert_eq!(full.nodes.unwrap().len(), 1);
    let (key, uid) = full.claim.unwrap();
    assert_eq!((key.to_string().as_str(), uid.as_deref()), ("team/data", Some("u1")));
    for (yaml, available) in [
        ("metadata: {name: v}", true),
        ("metadata: {name: v}\nstatus: {phase: Available}", true),
        ("metadata: {name: v}\nstatus: {phase: Released}", false),
        ("metadata: {name: v, deletionTimestamp: 2026-01-01T00:00:00Z}\nstatus: {phase: Available}", false),
    ] {
        assert_eq!(volume(yaml).available, available, "{yaml}");
    }
}

#[test]
fn storage_classes_and_attach_limits_are_read() {
    let class: slim::StorageClass = object(
        "{metadata: {name: fast}, provisioner: csi.example.com, volumeBindingMode: WaitForFirstConsumer,
          allowedTopologies: [{matchLabelExpressions: [{key: zone, values: [a, b]}]}]}",
    );
    let class = phalanx_cache::storage_class(&class, &mut Interner::default()).unwrap();
    assert!(class.waits && class.provisioner.as_deref() == Some("csi.example.com"));
    assert_eq!(class.topologies[0].labels[0].values.len(), 2);
    let local: slim::StorageClass =
        object("{metadata: {name: l}, provisioner: kubernetes.io/no-provisioner}");
    let local = phalanx_cache::storage_class(&local, &mut Interner::default()).unwrap();
    assert_eq!((local.waits, local.provisioner), (false, None));
    let node: slim::CSINode = object(
        "{metadata: {name: n1}, spec: {drivers: [{name: b, allocatable: {count: 25}}, {name: a}, {name: c, allocatable: null}]}}",
    );
    let node = phalanx_cache::csi_node(&node, &mut Interner::default());
    assert_eq!((&*node.node, node.limits), ("n1", vec![("b".into(), 25)]));
}

#[test]
fn attachments_of_volumes_to_nodes_are_read() {
    for (source, expected) in
        [("{persistentVolumeName: v}", Some("v")), ("{inlineVolumeSpec: {}}", None), ("null", None)]
    {
        let attached: slim::VolumeAttachment = object(&format!(
            "{{metadata: {{name: a}}, spec: {{attacher: csi, nodeName: n1, source: {source}}}, status: {{attached: true}}}}"
        ));
        let info = phalanx_cache::attachment(&attached, &mut Interner::default());
        assert_eq!((&*info.name, &*info.node, &*info.driver), ("a", "n1", "csi"));
        assert_eq!(info.volume.as_deref(), expected);
    }
}

#[test]
fn drivers_and_their_published_capacity_are_read() {
    for (spec, expected) in [
        ("{storageCapacity: true}", true),
        ("{storageCapacity: false}", false),
        ("{}", false),
        ("null", false),
    ] {
        let driver: slim::CSIDriver = object(&format!("{{metadata: {{name: csi}}, spec: {spec}}}"));
        let driver = phalanx_cache::csi_driver(&driver, &mut Interner::default());
        assert_eq!((&*driver.name, driver.tells_capacity), ("csi", expected), "{spec}");
    }
    for (fields, nodes, size, whole) in [
        ("nodeTopology: {matchLabels: {zone: a}}, capacity: 1Gi", Some(1), Some(1 << 30), Some(1 << 30)),
        (
            "nodeTopology: {matchLabels: {zone: a}, matchExpressions: [{key: rack, operator: Exists}]}, capacity: 5, maximumVolumeSize: 3",
            Some(2),
            Some(3),
            Some(5),
        ),
        ("nodeTopology: {}, maximumVolumeSize: 1k", Some(0), Some(1000), None),
        ("capacity: 1", None, Some(1), Some(1)),
        ("nodeTopology: {}", Some(0), None, None),
    ] {
        let told: slim::CSIStorageCapacity =
            object(&format!("{{metadata: {{name: c, namespace: d}}, storageClassName: fast, {fields}}}"));
        let told = phalanx_cache::storage_capacity(&told, &mut Interner::default()).unwrap();
        assert_eq!((told.key.to_string().as_str(), &*told.class), ("d/c", "fast"));
        let found = (told.nodes.map(|nodes| nodes.0.len()), told.size, told.whole);
        assert_eq!(found, (nodes, size, whole), "{fields}");
    }
    for (fields, expected) in [
        ("capacity: lots", "capacity: "),
        ("maximumVolumeSize: 1x", "maximumVolumeSize: "),
        (
            "nodeTopology: {matchExpressions: [{key: a, operator: Like}]}",
            "nodeTopology.matchExpressions[0].operator: \"Like\" is unknown",
        ),
    ] {
        let told: slim::CSIStorageCapacity = object(&format!("{{metadata: {{name: c}}, {fields}}}"));
        let found = phalanx_cache::storage_capacity(&told, &mut Interner::default()).unwrap_err().to_string();
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn claims_of_a_pod_are_read_from_its_volumes() {
    let info = pod("
metadata: {name: p, namespace: team, uid: u}
spec:
  schedulerName: volcano
  volumes:
  - {name: a, emptyDir: {}}
  - {name: b, persistentVolumeClaim: {claimName: data}}
  - {name: c, persistentVolumeClaim: {claimName: data}}
  - {name: scratch, ephemeral: {volumeClaimTemplate: {spec: {}}}}");
    let claims: Vec<_> =
        info.constraints.volumes.iter().map(|it| (it.claim.to_string(), it.owner.as_deref())).collect();
    assert_eq!(claims, [("team/data".to_owned(), None), ("team/p-scratch".to_owned(), Some("u"))]);
    let others = pod(
        "{metadata: {name: p}, spec: {nodeName: n, volumes: [{name: b, persistentVolumeClaim: {claimName: data}}]}}",
    );
    assert_eq!(others.constraints.volumes.len(), 1, "pods of other schedulers use claims too");
}

#[test]
fn disks_in_the_spec_of_a_pod_are_read() {
    let info = pod("
metadata: {name: p}
spec:
  volumes:
  - {name: a, rbd: {monitors: ['m:1', 'm:2'], image: img, readOnly: true}}
  - {name: b, rbd: {monitors: ['m:1'], pool: ssd, image: img}}
  - {name: c, iscsi: {targetPortal: '10.0.0.1', iqn: 'iqn.2026-01.example:disk', lun: 1}}
  - {name: d, awsElasticBlockStore: {volumeID: vol-1, readOnly: true}}
  - {name: e, gcePersistentDisk: {pdName: pd, readOnly: true}}
  - {name: f, gcePersistentDisk: {pdName: pd, readOnly: true, partition: 2}}
  - {name: g, nfs: {server: s, path: /}}");
    let disks = &info.constraints.disks;
    let disks: Vec<_> =
        disks.iter().map(|disk| (disk.of, &*disk.name, disk.monitors.len(), disk.read_only)).collect();
    let expected = [
        (DiskKind::Gce, "pd", 0, true),
        (DiskKind::Aws, "vol-1", 0, false),
        (DiskKind::Iscsi, "iqn.2026-01.example:disk", 0, false),
        (DiskKind::Rbd, "rbd/img", 2, true),
        (DiskKind::Rbd, "ssd/img", 1, false),
    ];
    assert_eq!(disks, expected, "of other schedulers' pods too");
}

#[test]
fn an_invalid_field_of_a_volume_is_named() {
    let fault = |yaml: &str| {
        let claim: slim::PersistentVolumeClaim = decode(&value(yaml)).unwrap();
        phalanx_cache::pvc(&claim, &mut Interner::default()).unwrap_err().to_string()
    };
    for (spec, expected) in [
        ("{accessModes: [ReadWriteTwice]}", "spec.accessModes[0]: \"ReadWriteTwice\" is unknown"),
        ("{volumeMode: Tape}", "spec.volumeMode: \"Tape\" is unknown, expected Filesystem or Block"),
        (
            "{selector: {matchExpressions: [{key: a, operator: Like}]}}",
            "spec.selector.matchExpressions[0].operator",
        ),
    ] {
        let found = fault(&format!("{{metadata: {{name: c}}, spec: {spec}}}"));
        assert!(found.starts_with(expected), "{found}");
    }
    let class: slim::StorageClass = object("{metadata: {name: c}, volumeBindingMode: Never}");
    let found = phalanx_cache::storage_class(&class, &mut Interner::default()).unwrap_err().to_string();
    assert!(found.starts_with("volumeBindingMode: \"Never\" is unknown"), "{found}");
}

/// For each of them a volume is looked for.
#[test]
fn a_pod_that_waits_has_at_most_128_claims() {
    let with = |count: usize, node: &str| {
        let one = |at: usize| format!("{{name: v{at}, persistentVolumeClaim: {{claimName: c{at}}}}}");
        let volumes: Vec<String> = (0..count).map(one).collect();
        let volumes = volumes.join(", ");
        try_pod(&format!(
            "metadata: {{name: p}}\nspec: {{schedulerName: volcano, {node}volumes: [{volumes}]}}"
        ))
    };
    assert_eq!(with(128, "").map(|pod| pod.constraints.volumes.len()), Ok(128));
    let expected = "spec.volumes: found 129 volumes of claims, expected at most 128";
    assert_eq!(with(129, "").map_err(|invalid| invalid.to_string()).err().as_deref(), Some(expected));
    let placed = with(129, "nodeName: n1, ").map(|pod| pod.constraints.volumes.len());
    assert_eq!(placed, Ok(129), "all count for the limits of the node");
}
