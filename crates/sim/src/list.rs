//! Lists as `kubectl get` prints them: their items are read one after the other, since a list may hold a million.
use std::marker::PhantomData;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::Value;

use crate::document::yaml_options;
use crate::kind::Sort;

/// The language of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Json,
    Yaml,
}

/// Why the items of a list cannot be read.
pub(crate) enum ListError {
    Json(serde_json::Error),
    Yaml(serde_saphyr::Error),
}

/// What a list says besides its items.
#[derive(Debug, Default)]
pub(crate) struct Head {
    version: String,
    kind: String,
    /// It has an item at least.
    has_items: bool,
}

impl Head {
    /// That of a text that is one list with items, and nothing else.
    pub(crate) fn of(text: &str, language: Language) -> Option<Self> {
        // Most texts are no lists, which a look at their words tells sooner than a parser.
        if !text.contains("List") {
            return None;
        }
        let head: Self = match language {
            Language::Json => serde_json::from_str(text).ok()?,
            Language::Yaml => serde_saphyr::from_str_with_options(text, yaml_options()).ok()?,
        };
        let is_list = matches!(Sort::of(&head.version, &head.kind), Sort::List(_));
        (is_list && head.has_items).then_some(head)
    }

    /// Gives an item the apiVersion and the kind that items of a typed list leave to it.
    pub(crate) fn complete(&self, item: &mut Value) {
        inherit(&self.version, &self.kind, item);
    }
}

/// Gives an item of a list of this apiVersion and kind what it leaves to the list.
pub(crate) fn inherit(version: &str, kind: &str, item: &mut Value) {
    let (Sort::List(Some(kind)), Value::Object(map)) = (Sort::of(version, kind), item) else { return };
    for (field, of_list) in [("apiVersion", version), ("kind", kind)] {
        if map.get(field).is_none_or(Value::is_null) {
            map.insert(field.to_owned(), of_list.into());
        }
    }
}

/// Reads the items of a text that has a [`Head`], or only one of them, and hands each on before the next is parsed.
pub(crate) fn items<'de, T: Deserialize<'de>>(
    text: &'de str,
    language: Language,
    only: Option<usize>,
    found: &mut dyn FnMut(usize, T),
) -> Result<(), ListError> {
    let seed = Items { field: Field::Document, only, found, value: PhantomData };
    match language {
        Language::Json => {
            seed.deserialize(&mut serde_json::Deserializer::from_str(text)).map_err(ListError::Json)
        }
        Language::Yaml => {
            let read = |yaml: serde_saphyr::Deserializer<'de, '_>| seed.deserialize(yaml);
            serde_saphyr::with_deserializer_from_str_with_options(text, yaml_options(), read)
                .map_err(ListError::Yaml)
        }
    }
}

impl<'de> Deserialize<'de> for Head {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeadVisitor)
    }
}

struct HeadVisitor;

impl<'de> Visitor<'de> for HeadVisitor {
    type Value = Head;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Head, A::Error> {
        let (mut head, mut seen) = (Head::default(), Vec::new());
        while let Some(key) = entries.next_key::<String>()? {
            if seen.contains(&key) {
                return Err(A::Error::custom("a key twice"));
            }
            match key.as_str() {
                "apiVersion" => head.version = entries.next_value()?,
                "kind" => head.kind = entries.next_value()?,
                "items" => head.has_items = entries.next_value::<AnyItem>()?.0,
                _ => drop(entries.next_value::<IgnoredAny>()?),
            }
            seen.push(key);
        }
        Ok(head)
    }
}

/// Whether a list has items.
struct AnyItem(bool);

impl<'de> Deserialize<'de> for AnyItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut any = false;
        let mut found = |_, _: IgnoredAny| any = true;
        Items { field: Field::Items, only: None, found: &mut found, value: PhantomData }
            .deserialize(deserializer)?;
        Ok(Self(any))
    }
}

/// What is being read.
#[derive(Clone, Copy)]
enum Field {
    Document,
    Items,
}

struct Items<'f, T> {
    field: Field,
    /// Other items are left out.
    only: Option<usize>,
    found: &'f mut dyn FnMut(usize, T),
    value: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Items<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.field {
            Field::Document => deserializer.deserialize_map(self),
            Field::Items => deserializer.deserialize_seq(self),
        }
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Self { only, found, .. } = self;
        while let Some(key) = entries.next_key::<String>()? {
            if key == "items" {
                let seed = Items { field: Field::Items, only, found: &mut *found, value: PhantomData };
                entries.next_value_seed(seed)?;
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        for place in 0.. {
            if self.only.is_none_or(|only| only == place) {
                let Some(item) = items.next_element::<T>()? else { break };
                (self.found)(place, item);
            } else if items.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        Ok(())
    }
}
