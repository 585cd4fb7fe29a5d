//! Objects as the API server writes them in protobuf, which costs it and us less than JSON.
//!
//! The types are those of JSON: a message is shown to serde as a mapping by the names of its fields (`schema`).

mod de;
mod schema;
mod wire;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use self::de::Value;
use self::schema::Message;
use self::wire::{Raw, Reader, bytes_of};
use crate::answer::{Change, ListMeta, Page, no_event};
use crate::{Guarded, Invalid, slim};

/// The first bytes of an encoded object; `runtime.Unknown` follows.
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
/// No list in protobuf.
pub fn page<K: Protobuf>(body: &[u8]) -> Result<Page<K>, Invalid> {
    let (mut items, mut metadata) = (Vec::new(), ListMeta::default());
    let mut reader = Reader(object(body)?);
    while let Some((number, raw)) = reader.field()? {
        match (number, raw) {
            (1, Raw::Bytes(bytes)) => metadata = message(bytes, schema::LIST_META)?,
            (2, Raw::Bytes(bytes)) => items.push(guarded(bytes)),
            _ => {}
        }
    }
    Ok(Page { items, resource_version: metadata.resource_version, more: metadata.more })
}

/// An event of a watch, without its length in front.
///
/// # Errors
/// No event of a watch in protobuf.
pub fn change<K: Protobuf>(frame: &[u8]) -> Result<Change<K>, Invalid> {
    // `metav1.WatchEvent`, and in it `runtime.RawExtension`.
    let (kind, object) = (bytes_of(frame, 1)?, object(bytes_of(bytes_of(frame, 2)?, 1)?)?);
    Ok(match kind {
        b"ADDED" | b"MODIFIED" => Change::Applied(guarded(object)),
        b"DELETED" => Change::Deleted(guarded(object)),
        b"BOOKMARK" => Change::Bookmark(version(object)?),
        b"ERROR" => Change::Error(status_of(object)?),
        other => return Err(Invalid::new(no_event(&String::from_utf8_lossy(other)))),
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

fn guarded<K: Protobuf>(object: &[u8]) -> Guarded<K> {
    let Table(table) = K::TABLE;
    message(object, table).map_or_else(|invalid| Guarded::unread(metadata(object), invalid), Guarded::Read)
}

/// The identity of an object, as far as it can be read.
fn metadata(object: &[u8]) -> ObjectMeta {
    let text = |number| meta(object, number).ok().filter(|text| !text.is_empty());
    let (name, namespace, uid, resource_version) = (text(1), text(3), text(5), text(6));
    ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() }
}

fn version(object: &[u8]) -> Result<String, Invalid> {
    meta(object, 6)
}

/// A text of the metadata, which all kinds have in the same place.
fn meta(object: &[u8], number: u32) -> Result<String, Invalid> {
    let text = bytes_of(bytes_of(object, 1)?, number)?;
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// The content of the envelope: the field `raw` of `runtime.Unknown`.
fn object(bytes: &[u8]) -> Result<&[u8], Invalid> {
    let unknown =
        bytes.strip_prefix(MAGIC).ok_or_else(|| Invalid::new("found no object in Kubernetes' protobuf"))?;
    bytes_of(unknown, 2)
}

fn message<T: DeserializeOwned>(bytes: &[u8], table: &'static Message) -> Result<T, Invalid> {
    T::deserialize(Value::message(bytes, table))
}
