//! Metadata of the objects that controllers make.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// A text of the metadata that every stored object has.
pub(crate) fn text(value: Option<&String>) -> &str {
    value.map_or("", String::as_str)
}

/// An annotation, or nothing.
pub(crate) fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The object that controls another one.
pub(crate) fn controller_of(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// The reference by which an object makes itself the controller of another one.
pub(crate) fn controller(api_version: &str, kind: &str, of: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: text(of.name.as_ref()).to_owned(),
        uid: text(of.uid.as_ref()).to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A map from texts, as labels and annotations are.
pub(crate) fn map<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Twelve hexadecimal digits of the SHA-256 of the texts: where Volcano draws a random suffix, a second try has to find
/// the same one.
pub(crate) fn suffix(texts: &[&str]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, texts.join("\0").as_bytes());
    let digits = digest.as_ref().iter().take(6).flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}
