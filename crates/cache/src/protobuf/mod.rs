//! Objects as the API server writes them in protobuf, which costs it and us less than JSON.
//!
//! The types are those of JSON: a message is shown to serde as a mapping by the names of its fields (`schema`).

mod de;
mod schema;
mod wire;

use kube_core::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use self::de::Value;
use self::schema::Message;
use self::wire::{Raw, Reader, bytes_of};
use crate::answer::{Change, ListMeta, Page};
use crate::invalid::At;
use crate::{Invalid, slim};

/// What an encoded object begins with; `runtime.Unknown` follows.
const MAGIC: &[u8] = b"k8s\0";

/// A kind that can be read from protobuf.
pub trait Protobuf: DeserializeOwned {
    #[doc(hidden)]
    const TABLE: Table;
}

/// The fields of a kind.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Table(&'static Message);

impl Protobuf for slim::Pod {
    const TABLE: Table = Table(schema::POD);
}

impl Protobuf for slim::Node {
    const TABLE: Table = Table(schema::NODE);
}

/// A page of a list.
///
/// # Errors
/// No list of such objects in protobuf.
pub fn page<K: Protobuf>(body: &[u8]) -> Result<Page<K>, Invalid> {
    let Table(table) = K::TABLE;
    let (mut items, mut metadata) = (Vec::new(), ListMeta::default());
    let mut reader = Reader(object(body)?);
    while let Some((number, raw)) = reader.field()? {
        match (number, raw) {
            (1, Raw::Bytes(bytes)) => metadata = message(bytes, schema::LIST_META)?,
            (2, Raw::Bytes(bytes)) => items.push(message(bytes, table).at("items").item(items.len())?),
            _ => {}
        }
    }
    Ok(Page { items, resource_version: metadata.resource_version, more: metadata.more })
}

/// An event of a watch, without its length in front.
///
/// # Errors
/// No event of such objects in protobuf.
pub fn change<K: Protobuf>(frame: &[u8]) -> Result<Change<K>, Invalid> {
    let Table(table) = K::TABLE;
    // `metav1.WatchEvent`, and in it `runtime.RawExtension`.
    let (kind, object) = (bytes_of(frame, 1)?, object(bytes_of(bytes_of(frame, 2)?, 1)?)?);
    Ok(match kind {
        b"ADDED" | b"MODIFIED" => Change::Applied(message(object, table)?),
        b"DELETED" => Change::Deleted(message(object, table)?),
        b"BOOKMARK" => Change::Bookmark(version(object)?),
        b"ERROR" => Change::Error(status_of(object)?),
        other => {
            let other = String::from_utf8_lossy(other);
            return Err(Invalid::new(format!(
                "found an event {other:?}, expected ADDED, MODIFIED, DELETED, BOOKMARK or ERROR"
            )));
        }
    })
}

/// Why the API server refused.
///
/// # Errors
/// No `metav1.Status` in protobuf.
pub fn status(body: &[u8]) -> Result<Box<Status>, Invalid> {
    status_of(object(body)?)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SlimStatus {
    message: String,
    reason: String,
    code: u16,
}

fn status_of(bytes: &[u8]) -> Result<Box<Status>, Invalid> {
    let status: SlimStatus = message(bytes, schema::STATUS)?;
    Ok(Box::new(Status::failure(&status.message, &status.reason).with_code(status.code)))
}

/// All kinds have their metadata in the same place.
fn version(object: &[u8]) -> Result<String, Invalid> {
    let version = bytes_of(bytes_of(object, 1)?, 6)?;
    Ok(String::from_utf8_lossy(version).into_owned())
}

/// What is in the envelope: the field `raw` of `runtime.Unknown`.
fn object(bytes: &[u8]) -> Result<&[u8], Invalid> {
    let unknown =
        bytes.strip_prefix(MAGIC).ok_or_else(|| Invalid::new("found no object in Kubernetes' protobuf"))?;
    bytes_of(unknown, 2)
}

fn message<T: DeserializeOwned>(bytes: &[u8], table: &'static Message) -> Result<T, Invalid> {
    T::deserialize(Value::message(bytes, table))
}
