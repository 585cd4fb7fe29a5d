//! The sources of schemas.
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ResourceQuota,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::scheduling::v1alpha2::PodGroup as KubernetesPodGroup;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::schema_for;
use serde_json::{Value, json};

use crate::kind::{Controlled, Kind};

/// Enumerations that Kubernetes' schema does not have: the type, the field, and the texts. Go treats
/// an empty text as missing.
const ENUMS: [(&str, &str, &[&str]); 11] = [
    ("core.v1.PodSpec", "restartPolicy", &["Always", "OnFailure", "Never"]),
    ("core.v1.PodSpec", "preemptionPolicy", &["Never", "PreemptLowerPriority"]),
    ("core.v1.PodSpec", "dnsPolicy", &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]),
    ("core.v1.PodStatus", "phase", &["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
    ("core.v1.Container", "imagePullPolicy", &["Always", "IfNotPresent", "Never"]),
    ("core.v1.Container", "restartPolicy", &["Always", "OnFailure", "Never"]),
    ("core.v1.PersistentVolumeStatus", "phase", &["Pending", "Available", "Bound", "Released", "Failed"]),
    ("core.v1.PersistentVolumeClaimStatus", "phase", &["Pending", "Bound", "Lost"]),
    ("resource.v1.DeviceTaint", "effect", &["None", "NoSchedule", "NoExecute"]),
    ("", "reclaimPolicy", &["Delete", "Retain"]),
    ("", "preemptionPolicy", &["Never", "PreemptLowerPriority"]),
];

fn with_enums(mut root: Value) -> Value {
    for (of, field, texts) in ENUMS {
        let owner = if of.is_empty() { String::new() } else { format!("/$defs/io.k8s.api.{of}") };
        if let Some(Value::Object(schema)) = root.pointer_mut(&format!("{owner}/properties/{field}")) {
            schema.insert("enum".into(), texts.iter().copied().chain([""]).collect());
        }
    }
    root
}

/// Plural names of kinds.
pub(super) const POD_GROUPS: &str = "podgroups";
pub(super) const HYPER_NODES: &str = "hypernodes";

/// The same for a kind of Volcano's controllers.
pub(super) fn plural_of(kind: Controlled) -> &'static str {
    match kind {
        Controlled::Job => "jobs",
        Controlled::CronJob => "cronjobs",
        Controlled::JobFlow => "jobflows",
        Controlled::JobTemplate => "jobtemplates",
        Controlled::Command => "commands",
    }
}

/// The schema of a kind.
pub(super) fn of(kind: Kind) -> Value {
    let root = match kind {
        Kind::Pod => schema_for!(Pod).to_value(),
        Kind::Node => schema_for!(Node).to_value(),
        Kind::PriorityClass => schema_for!(PriorityClass).to_value(),
        Kind::PodGroup => of_definition(POD_GROUPS),
        Kind::KubernetesPodGroup => schema_for!(KubernetesPodGroup).to_value(),
        Kind::Queue => of_definition("queues"),
        Kind::HyperNode => of_definition(HYPER_NODES),
        Kind::ResourceQuota => schema_for!(ResourceQuota).to_value(),
        Kind::NodeMetrics => node_metrics(),
        Kind::Namespace => schema_for!(Namespace).to_value(),
        Kind::PodDisruptionBudget => schema_for!(PodDisruptionBudget).to_value(),
        Kind::DeviceClass => schema_for!(DeviceClass).to_value(),
        Kind::ResourceSlice => schema_for!(ResourceSlice).to_value(),
        Kind::ResourceClaim => schema_for!(ResourceClaim).to_value(),
        Kind::ResourceClaimTemplate => schema_for!(ResourceClaimTemplate).to_value(),
        Kind::PersistentVolume => schema_for!(PersistentVolume).to_value(),
        Kind::PersistentVolumeClaim => schema_for!(PersistentVolumeClaim).to_value(),
        Kind::StorageClass => schema_for!(StorageClass).to_value(),
        Kind::CSINode => schema_for!(CSINode).to_value(),
        Kind::VolumeAttachment => schema_for!(VolumeAttachment).to_value(),
        Kind::CSIDriver => schema_for!(CSIDriver).to_value(),
        Kind::CSIStorageCapacity => schema_for!(CSIStorageCapacity).to_value(),
    };
    with_enums(root)
}

/// The schema of a workload without that of its template, which is checked as a pod. The selector may be
/// missing.
pub(super) fn of_workload(kind: &str) -> Value {
    let mut root = match kind {
        "Deployment" => schema_for!(Deployment).to_value(),
        "ReplicaSet" => schema_for!(ReplicaSet).to_value(),
        "StatefulSet" => schema_for!(StatefulSet).to_value(),
        _ => schema_for!(Job).to_value(),
    };
    let types = root["$defs"].as_object_mut().into_iter().flatten();
    for (_, spec) in types.filter(|(_, schema)| schema["properties"]["template"].is_object()) {
        spec["properties"]["template"] = json!({});
        spec["required"] = json!([]);
    }
    root
}

/// The metrics API does not publish its schema with Kubernetes.
fn node_metrics() -> Value {
    let metadata = schema_for!(ObjectMeta).to_value();
    let quantity = json!({"type": ["string", "number"]});
    json!({
        "type": "object",
        "$defs": metadata.get("$defs").cloned().unwrap_or_default(),
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": metadata,
            "timestamp": {"type": "string", "format": "date-time"},
            "window": {"type": "string"},
            "usage": {"type": "object", "additionalProperties": quantity},
        },
    })
}

/// The schema in the CustomResourceDefinition of the kind with this plural name.
pub(super) fn of_definition(plural: &str) -> Value {
    let mut schema = phalanx_api::schema(plural).unwrap_or_default();
    // The CRD declares metadata as an object without fields.
    let metadata = schema_for!(ObjectMeta).to_value();
    schema["$defs"] = metadata.get("$defs").cloned().unwrap_or_default();
    schema["properties"]["metadata"] = metadata;
    schema
}
