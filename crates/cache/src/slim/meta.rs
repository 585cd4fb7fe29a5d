//! Metadata without its bulk.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::{Deserialize, Deserializer};

use super::or_default;

/// The fields that are decoded; managedFields, often the larger half of an object, is not.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    #[serde(deserialize_with = "or_default")]
    labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    owner_references: Vec<OwnerReference>,
}

/// All but managedFields: for the few kinds whose owners matter.
pub(super) fn with_owners<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let meta: ObjectMeta = or_default(from)?;
    Ok(ObjectMeta { managed_fields: None, ..meta })
}

pub(super) fn slim<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let meta: Meta = or_default(from)?;
    Ok(ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        generation: meta.generation,
        creation_timestamp: meta.creation_timestamp,
        deletion_timestamp: meta.deletion_timestamp,
        labels: Some(meta.labels).filter(|labels| !labels.is_empty()),
        annotations: Some(meta.annotations).filter(|annotations| !annotations.is_empty()),
        owner_references: Some(meta.owner_references).filter(|owners| !owners.is_empty()),
        ..ObjectMeta::default()
    })
}
