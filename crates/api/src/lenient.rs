//! Decoding that does not fail on what other versions of the API wrote.

use kube_core::Duration;
use phalanx_cluster::duration::parse_duration;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A duration as Go writes it. The type panics on what Go does not have: more than 292 years, or signs within.
///
/// # Errors
/// It is no such duration.
pub fn duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("found duration {text:?}, expected one such as 1h30m, of at most 292 years");
    parse_duration(text).ok_or_else(expected)?;
    text.parse().map_err(|_| expected())
}

/// The same, where there is one.
pub(crate) fn optional_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| duration(&text).map_err(D::Error::custom)).transpose()
}

/// A string with known values: others are kept, not refused, and written back as they came.
macro_rules! open_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize, serde::Serialize)]
        #[serde(from = "String", into = "String")]
        pub enum $name {
            $($(#[$doc])* $variant,)+
            /// A value this version does not know, as it was written.
            Other(String),
        }

        impl $name {
            /// The value as it stands in the object.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(text) => text,
                }
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                match text.as_str() {
                    $($text => Self::$variant,)+
                    _ => Self::Other(text),
                }
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                match value {
                    $name::Other(text) => text,
                    known => known.as_str().to_owned(),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": [$($text),+] })
            }
        }
    };
}
pub(crate) use open_enum;

/// Null counts as absent; for fields whose default is their type's.
pub(crate) fn null_is_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Null and "" count as absent: Go clients cannot tell them apart.
pub(crate) fn non_empty<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: From<String>,
{
    let text: Option<String> = Option::deserialize(from)?;
    Ok(text.filter(|text| !text.is_empty()).map(T::from))
}

/// For counts that are omitted when zero.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
pub(crate) fn is_zero(count: &i32) -> bool {
    *count == 0
}

/// For nested objects that are omitted when nothing in them is set.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
