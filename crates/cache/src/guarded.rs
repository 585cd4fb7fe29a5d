//! Decoding that loses no other object over one.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use phalanx_cluster::event::Event;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};
use serde_json::Value;

use crate::{Identity, Interner, Invalid, Kind, Names, decode};

/// An object, or what is wrong with it: in a list or a watch, one that cannot be decoded would
/// otherwise stop the stream for all. For custom resources, which may be older than their schema.
#[derive(Clone, Debug)]
pub struct Guarded<K> {
    /// Its metadata, without managedFields.
    pub metadata: ObjectMeta,
    /// The whole object, if it decodes.
    pub object: Result<K, Invalid>,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(from)?;
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        let metadata = decode(value.get("metadata").unwrap_or(&Value::Null));
        let metadata: Option<ObjectMeta> = metadata.map_err(D::Error::custom)?;
        Ok(Self { metadata: metadata.unwrap_or_default(), object: decode(&value) })
    }
}

impl<K: Resource<DynamicType = ()>> Resource for Guarded<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<K: Kind> Kind for Guarded<K> {
    const NAMESPACED: bool = K::NAMESPACED;
    const BY_UID: bool = K::BY_UID;

    fn event(
        &self,
        identity: &Identity,
        names: &Names,
        interner: &mut Interner,
    ) -> Result<Option<Event>, Invalid> {
        match &self.object {
            Ok(object) => object.event(identity, names, interner),
            Err(invalid) => K::undecodable(identity, invalid, interner),
        }
    }

    fn gone(identity: &Identity) -> Event {
        K::gone(identity)
    }

    fn remarks(&self) -> Vec<Invalid> {
        self.object.as_ref().map(Kind::remarks).unwrap_or_default()
    }
}
