//! Decoding with errors that name the field.

use std::fmt::Display;
use std::iter::Enumerate;
use std::slice;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, Expected, MapAccess, SeqAccess, Unexpected,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Number, Value, map};

use crate::Invalid;
use crate::invalid::At;

/// An object from a JSON value, with any of this crate's or Volcano's types.
///
/// # Errors
/// A field of a wrong type.
pub fn decode<T: DeserializeOwned>(value: &Value) -> Result<T, Invalid> {
    T::deserialize(Field(value))
}

impl Error for Invalid {
    fn custom<T: Display>(problem: T) -> Self {
        Self::new(problem.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Unit => "null".to_owned(),
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Map => "a mapping".to_owned(),
            Unexpected::Str(text) => format!("{text:?}"),
            Unexpected::Bool(value) => value.to_string(),
            Unexpected::Signed(value) => value.to_string(),
            Unexpected::Unsigned(value) => value.to_string(),
            other => other.to_string(),
        };
        let expected = match expected.to_string().as_str() {
            "a sequence" => "a list".to_owned(),
            "a map" => "a mapping".to_owned(),
            "a string" => "text".to_owned(),
            "a boolean" => "true or false".to_owned(),
            "i32" | "i64" | "u32" | "u64" => "an integer".to_owned(),
            "Quantity" => "a quantity such as 2, \"500m\" or \"1.5Gi\"".to_owned(),
            other => other.to_owned(),
        };
        Self::new(format!("found {found}, expected {expected}"))
    }
}

/// A value whose errors carry its path. serde's own formats take a list for an object, field by
/// field; this one does not.
#[derive(Clone, Copy)]
struct Field<'de>(&'de Value);

impl<'de> Deserializer<'de> for Field<'de> {
    type Error = Invalid;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => visit_number(number, visitor),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => visitor.visit_seq(Items(items.iter().enumerate())),
            Value::Object(entries) => visitor.visit_map(Entries::new(entries)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Invalid> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Invalid> {
        match self.0 {
            Value::Object(entries) => visitor.visit_map(Entries::new(entries)),
            other => Err(Invalid::invalid_type(unexpected(other), &"a mapping")),
        }
    }

    // The methods below accept one kind of value, where `deserialize_any` would make a caller compile all of them.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        match self.0 {
            Value::Object(entries) => visitor.visit_map(Entries::new(entries)),
            other => Err(Invalid::invalid_type(unexpected(other), &visitor)),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        match self.0 {
            Value::Array(items) => visitor.visit_seq(Items(items.iter().enumerate())),
            other => Err(Invalid::invalid_type(unexpected(other), &visitor)),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        match self.0 {
            Value::String(text) => visitor.visit_borrowed_str(text),
            other => Err(Invalid::invalid_type(unexpected(other), &visitor)),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        self.deserialize_str(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Invalid> {
        let decoded = self.0.deserialize_enum(name, variants, visitor);
        decoded.map_err(|error| Invalid::new(error.to_string()))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf
        unit unit_struct tuple tuple_struct identifier
    }
}

fn visit_number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value, Invalid> {
    if let Some(value) = number.as_u64() {
        visitor.visit_u64(value)
    } else if let Some(value) = number.as_i64() {
        visitor.visit_i64(value)
    } else {
        visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN))
    }
}

/// What was found in place of what was expected, as serde says it.
fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(value), _) => Unexpected::Unsigned(value),
            (None, Some(value)) => Unexpected::Signed(value),
            (None, None) => Unexpected::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}

/// The items of a list.
struct Items<'de>(Enumerate<slice::Iter<'de, Value>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Invalid;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Invalid> {
        let Some((index, item)) = self.0.next() else { return Ok(None) };
        seed.deserialize(Field(item)).item(index).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// The entries of an object.
struct Entries<'de> {
    entries: map::Iter<'de>,
    /// The value of the key that was returned last.
    value: Option<(&'de str, &'de Value)>,
}

impl<'de> Entries<'de> {
    fn new(entries: &'de Map<String, Value>) -> Self {
        Self { entries: entries.iter(), value: None }
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Invalid;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Invalid> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some((key, value));
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Invalid> {
        let (key, value) = self.value.take().expect("serde asks for the key first");
        seed.deserialize(Field(value)).at(key)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}
