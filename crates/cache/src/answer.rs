//! Lists and events of watches, as JSON or as protobuf.

use std::borrow::Cow;

use kube_core::Status;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::value::RawValue;

use crate::{Guarded, Kind};

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Page<K> {
    /// Its objects.
    pub items: Vec<Guarded<K>>,
    /// The version of the list, to watch from; empty if it says none.
    pub resource_version: String,
    /// How to ask for the next page; empty if this is the last one.
    pub more: String,
}

/// What a watch says.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// An object was added or changed.
    Applied(Guarded<K>),
    /// An object was deleted.
    Deleted(Guarded<K>),
    /// Nothing; up to this version.
    Bookmark(String),
    /// The watch cannot go on.
    Error(Box<Status>),
}

/// Of a list.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ListMeta {
    #[serde(rename = "resourceVersion")]
    pub(crate) resource_version: String,
    #[serde(rename = "continue")]
    pub(crate) more: String,
}

/// A list whose objects are not looked into yet.
#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

/// An event whose object is not looked into yet.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The resource version that a watch has reached.
#[derive(Deserialize)]
struct Bookmark {
    metadata: ListMeta,
}

impl<K: Kind + DeserializeOwned> Page<K> {
    /// From JSON.
    ///
    /// # Errors
    /// No list.
    pub fn from_json(body: &[u8]) -> Result<Self, serde_json::Error> {
        let List { metadata, items } = serde_json::from_slice(body)?;
        Ok(Self {
            items: items.unwrap_or_default().into_iter().map(|item| Guarded::from_json(item.get())).collect(),
            resource_version: metadata.resource_version,
            more: metadata.more,
        })
    }
}

impl<K: Kind + DeserializeOwned> Change<K> {
    /// From JSON.
    ///
    /// # Errors
    /// No event of a watch.
    pub fn from_json(line: &[u8]) -> Result<Self, serde_json::Error> {
        let Line { kind, object } = serde_json::from_slice(line)?;
        let object = object.get();
        Ok(match &*kind {
            "ADDED" | "MODIFIED" => Self::Applied(Guarded::from_json(object)),
            "DELETED" => Self::Deleted(Guarded::from_json(object)),
            "BOOKMARK" => Self::Bookmark(serde_json::from_str::<Bookmark>(object)?.metadata.resource_version),
            "ERROR" => Self::Error(serde_json::from_str(object)?),
            other => return Err(serde_json::Error::custom(no_event(other))),
        })
    }
}

/// The error for an event of this type.
pub(crate) fn no_event(kind: &str) -> String {
    format!("found an event {kind:?}, expected ADDED, MODIFIED, DELETED, BOOKMARK or ERROR")
}
