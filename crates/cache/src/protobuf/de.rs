//! Messages as serde sees them: mappings by the names that fields have in JSON.

use std::fmt::Write as _;

use k8s_openapi::jiff::Timestamp;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::schema::{Field, Form, Message, Type};
use super::wire::{Raw, Reader, bytes_of};
use crate::Invalid;

/// A value that is not repeated.
#[derive(Clone, Copy)]
pub(super) struct Value<'de> {
    pub(super) raw: Raw<'de>,
    pub(super) form: Form,
}

impl<'de> Value<'de> {
    pub(super) fn message(bytes: &'de [u8], message: &'static Message) -> Self {
        Self { raw: Raw::Bytes(bytes), form: Form::Message(message) }
    }

    /// Go writes what is not set as "", as 0 or as a message of no length, where JSON has nothing.
    fn is_absent(self) -> bool {
        matches!(
            (self.raw, self.form),
            (Raw::Bytes([]), Form::Text | Form::Time) | (Raw::Number(0), Form::Count)
        )
    }
}

fn text(bytes: &[u8]) -> Result<&str, Invalid> {
    std::str::from_utf8(bytes).map_err(|error| Invalid::new(format!("found no UTF-8: {error}")))
}

/// RFC 3339, which is how all types of times are decoded.
fn time(bytes: &[u8]) -> Result<String, Invalid> {
    let (mut reader, mut seconds, mut nanos) = (Reader(bytes), 0, 0);
    while let Some((number, raw)) = reader.field()? {
        match (number, raw) {
            (1, Raw::Number(number)) => seconds = number as i64,
            (2, Raw::Number(number)) => nanos = number as i32,
            _ => {}
        }
    }
    let time =
        Timestamp::new(seconds, nanos).map_err(|error| Invalid::new(format!("found no time: {error}")))?;
    let mut written = String::with_capacity(32);
    write!(written, "{time}").map_err(Invalid::custom)?;
    Ok(written)
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = Invalid;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        match (self.raw, self.form) {
            (Raw::Number(number), Form::Number | Form::Count) => visitor.visit_i64(number as i64),
            (Raw::Number(number), Form::Bool) => visitor.visit_bool(number != 0),
            (Raw::Bytes(bytes), Form::Text) => visitor.visit_borrowed_str(text(bytes)?),
            (Raw::Bytes(bytes), Form::Quantity) => visitor.visit_borrowed_str(text(bytes_of(bytes, 1)?)?),
            (Raw::Bytes(bytes), Form::Time) => visitor.visit_str(&time(bytes)?),
            (Raw::Bytes(bytes), Form::Message(message)) => {
                visitor.visit_map(Fields { reader: Reader(bytes), message, outer: None, next: None })
            }
            (Raw::Number(_), _) => Err(Invalid::new("found a number in protobuf, expected bytes")),
            (Raw::Bytes(_), _) => Err(Invalid::new("found bytes in protobuf, expected a number")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Invalid> {
        visitor.visit_newtype_struct(self)
    }

    /// A field that is missing in the table would never be decoded.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Invalid> {
        if let Form::Message(message) = self.form {
            let unknown = fields.iter().find(|field| !message.iter().any(|known| known.is(field)));
            debug_assert_eq!(unknown, None, "{name} reads a field that its table has not");
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map enum identifier
    }
}

/// The fields of a message that its table knows.
struct Fields<'de> {
    reader: Reader<'de>,
    message: &'static Message,
    /// The message that holds the inline message.
    outer: Option<(Reader<'de>, &'static Message)>,
    /// The value of the field name that was returned last.
    next: Option<(&'static Field, Raw<'de>)>,
}

impl<'de> Fields<'de> {
    /// The next field, those of an inline message among them.
    fn field(&mut self) -> Result<Option<(u32, Raw<'de>)>, Invalid> {
        loop {
            match (self.reader.field()?, self.outer.take()) {
                (None, Some(outer)) => (self.reader, self.message) = outer,
                (field, outer) => {
                    self.outer = outer;
                    return Ok(field);
                }
            }
        }
    }

    /// Goes on within an inline message; in Kubernetes there is none within another.
    fn enter(&mut self, bytes: &'de [u8], message: &'static Message) {
        self.outer = Some((std::mem::replace(&mut self.reader, Reader(bytes)), self.message));
        self.message = message;
    }
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Invalid;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Invalid> {
        while let Some((number, raw)) = self.field()? {
            let Some(field) = self.message.iter().find(|field| field.number == number) else { continue };
            match (field.of, raw) {
                (Type::Inline(message), Raw::Bytes(bytes)) => self.enter(bytes, message),
                (Type::One(form), raw) if (Value { raw, form }).is_absent() => {}
                _ => {
                    self.next = Some((field, raw));
                    return seed.deserialize(BorrowedStrDeserializer::new(field.name)).map(Some);
                }
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Invalid> {
        let (field, raw) = self.next.take().expect("serde asks for the key first");
        let several =
            Several { reader: &mut self.reader, number: field.number, first: Some(raw), value: None };
        match field.of {
            Type::One(form) => seed.deserialize(Value { raw, form }),
            Type::Many(form) => seed.deserialize(Repeated { several, form, map: false }),
            Type::Map(form) => seed.deserialize(Repeated { several, form, map: true }),
            Type::Inline(_) => Err(Invalid::new("found a number in protobuf, expected a message")),
        }
    }
}

/// The values of a repeated field.
struct Several<'a, 'de> {
    reader: &'a mut Reader<'de>,
    number: u32,
    first: Option<Raw<'de>>,
    /// The value of the key that was returned last.
    value: Option<Raw<'de>>,
}

impl<'de> Several<'_, 'de> {
    fn next(&mut self) -> Result<Option<Raw<'de>>, Invalid> {
        self.first.take().map_or_else(|| self.reader.again(self.number), |first| Ok(Some(first)))
    }
}

/// A list or a mapping.
struct Repeated<'a, 'de> {
    several: Several<'a, 'de>,
    form: Form,
    map: bool,
}

impl<'de> Deserializer<'de> for Repeated<'_, 'de> {
    type Error = Invalid;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        if self.map { visitor.visit_map(self) } else { visitor.visit_seq(self) }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Invalid> {
        visitor.visit_newtype_struct(self)
    }

    /// What is left of the values is skipped as fields that are not known.
    fn deserialize_ignored_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Invalid> {
        while self.several.next()?.is_some() {}
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct enum identifier
    }
}

impl<'de> SeqAccess<'de> for Repeated<'_, 'de> {
    type Error = Invalid;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Invalid> {
        let Some(raw) = self.several.next()? else { return Ok(None) };
        seed.deserialize(Value { raw, form: self.form }).map(Some)
    }
}

impl<'de> MapAccess<'de> for Repeated<'_, 'de> {
    type Error = Invalid;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Invalid> {
        let Some(raw) = self.several.next()? else { return Ok(None) };
        let Raw::Bytes(entry) = raw else { return Err(Invalid::new("found a number, expected an entry")) };
        self.several.value = Some(Raw::Bytes(bytes_of(entry, 2)?));
        seed.deserialize(BorrowedStrDeserializer::new(text(bytes_of(entry, 1)?)?)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Invalid> {
        let raw = self.several.value.take().expect("serde asks for the key first");
        seed.deserialize(Value { raw, form: self.form })
    }
}
