//! Lists and events of watches, as JSON or as protobuf.

use kube_core::{Status, WatchEvent};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Page<K> {
    /// Its objects.
    pub items: Vec<K>,
    /// The version of the list, to watch from; empty if it says none.
    pub resource_version: String,
    /// How to ask for the next page; empty if this is the last one.
    pub more: String,
}

/// What a watch says.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// An object was added or changed.
    Applied(K),
    /// An object was deleted.
    Deleted(K),
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

#[derive(Deserialize)]
struct List<K> {
    #[serde(default)]
    metadata: ListMeta,
    items: Option<Vec<K>>,
}

impl<K: DeserializeOwned> Page<K> {
    /// From JSON.
    ///
    /// # Errors
    /// No list of such objects.
    pub fn from_json(body: &[u8]) -> Result<Self, serde_json::Error> {
        let List { metadata, items } = serde_json::from_slice::<List<K>>(body)?;
        Ok(Self {
            items: items.unwrap_or_default(),
            resource_version: metadata.resource_version,
            more: metadata.more,
        })
    }
}

impl<K: DeserializeOwned> Change<K> {
    /// From JSON.
    ///
    /// # Errors
    /// No event of such objects.
    pub fn from_json(line: &[u8]) -> Result<Self, serde_json::Error> {
        Ok(match serde_json::from_slice(line)? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => Self::Applied(object),
            WatchEvent::Deleted(object) => Self::Deleted(object),
            WatchEvent::Bookmark(bookmark) => Self::Bookmark(bookmark.metadata.resource_version),
            WatchEvent::Error(status) => Self::Error(status),
        })
    }
}
