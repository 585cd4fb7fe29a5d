//! Decoding of lists and watches in which one invalid object does not stop the others.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use phalanx_cluster::event::Event;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{Identity, Interner, Invalid, Kind, Names, decode};

/// An object, or its metadata: in a list or a watch, an object that cannot be decoded would otherwise stop the stream.
#[derive(Clone, Debug)]
pub enum Guarded<K> {
    /// The whole object.
    Read(K),
    /// An object that does not decode.
    Unread(Box<Unread>),
}

/// The metadata of an object that does not decode.
#[derive(Clone, Debug)]
pub struct Unread {
    /// Name, namespace, UID and resourceVersion, as far as the object has them.
    pub metadata: ObjectMeta,
    /// Why it does not decode.
    pub invalid: Invalid,
}

impl<K> Guarded<K> {
    pub(crate) fn unread(metadata: ObjectMeta, invalid: Invalid) -> Self {
        Self::Unread(Box::new(Unread { metadata, invalid }))
    }

    /// The object, if it was read.
    pub fn read(&self) -> Option<&K> {
        match self {
            Self::Read(object) => Some(object),
            Self::Unread(_) => None,
        }
    }
}

impl<K: Kind + DeserializeOwned> Guarded<K> {
    /// From JSON.
    pub fn from_json(text: &str) -> Self {
        // First without a copy of the text; only a copy tells which field is wrong.
        let direct = (!K::CUSTOM).then(|| serde_json::from_str(text).ok()).flatten();
        direct.map_or_else(|| Self::by_value(text), Self::Read)
    }
}

impl<K: DeserializeOwned> Guarded<K> {
    fn by_value(text: &str) -> Self {
        by_value(text).map_or_else(|invalid| Self::unread(metadata(text), invalid), Self::Read)
    }
}

/// From the JSON of a client that reads lists and watches itself, such as kube's watcher.
impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self::by_value(Box::<RawValue>::deserialize(from)?.get()))
    }
}

fn by_value<K: DeserializeOwned>(text: &str) -> Result<K, Invalid> {
    decode_object(serde_json::from_str(text).map_err(|error| unreadable(&error))?)
}

/// An object without its managedFields.
///
/// # Errors
/// A field of a wrong type.
pub fn decode_object<K: DeserializeOwned>(mut value: Value) -> Result<K, Invalid> {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    decode(&value)
}

/// The API server takes more levels than serde_json does.
fn unreadable(error: &serde_json::Error) -> Invalid {
    let text = error.to_string();
    if text.starts_with("recursion limit exceeded") {
        return Invalid::new(
            "found more than 127 levels of lists and mappings within each other, expected fewer",
        );
    }
    Invalid::new(text)
}

/// The identity of the object, whatever its other fields hold: the nesting of a field that is skipped is not limited.
fn metadata(text: &str) -> ObjectMeta {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Meta {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
    }
    #[derive(Default, Deserialize)]
    struct Object {
        metadata: Meta,
    }
    let Meta { name, namespace, uid, resource_version } =
        serde_json::from_str::<Object>(text).unwrap_or_default().metadata;
    ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() }
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Read(object) => object.meta(),
            Self::Unread(unread) => &unread.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Read(object) => object.meta_mut(),
            Self::Unread(unread) => &mut unread.metadata,
        }
    }
}

impl<K: Kind> Kind for Guarded<K> {
    const NAMESPACED: bool = K::NAMESPACED;
    const PREFIX: &str = K::PREFIX;
    const BY_UID: bool = K::BY_UID;
    const CUSTOM: bool = K::CUSTOM;
    const COSTLY_REMARKS: bool = K::COSTLY_REMARKS;

    fn event(
        &self,
        identity: &Identity,
        names: &Names,
        interner: &mut Interner,
    ) -> Result<Option<Event>, Invalid> {
        match self {
            Self::Read(object) => object.event(identity, names, interner),
            Self::Unread(unread) => K::undecodable(identity, &unread.invalid, interner),
        }
    }

    fn gone(identity: &Identity) -> Event {
        K::gone(identity)
    }

    fn remarks(&self) -> Vec<Invalid> {
        self.read().map(Kind::remarks).unwrap_or_default()
    }
}
