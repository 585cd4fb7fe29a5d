//! YAML text to a tree of nodes that know where they stand.
//!
//! A tree of our own rather than serde: serde's data model has no positions for keys, and stops at the
//! first problem. Scalars mean what yaml.v2, Volcano's parser, takes them for (YAML 1.1).
mod compose;
mod scalar;

use std::collections::BTreeMap;
use std::rc::Rc;

use phalanx_framework::conf::{Position, Value};

pub(crate) use compose::{Documents, compose};
pub(crate) use scalar::resolve;

use crate::problem::quoted;

/// A value and where it stands.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) at: Position,
    pub(crate) content: Content,
    /// Nodes in it, with every alias written out.
    weight: usize,
    /// Levels below it, with every alias written out.
    height: usize,
}

/// Children are shared because aliases share them.
#[derive(Debug)]
pub(crate) enum Content {
    Scalar(Scalar),
    List(Vec<Rc<Node>>),
    Map(Vec<(Key, Rc<Node>)>),
}

#[derive(Debug)]
pub(crate) struct Scalar {
    /// What it is where any type may stand.
    pub(crate) value: Value,
    /// What it is where text must stand.
    pub(crate) text: String,
    /// Where the first character of the text stands, if the file has the text on one line and without escapes.
    pub(crate) text_at: Option<Position>,
}

/// A key of a mapping: always text, whatever it looks like.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) at: Position,
}

impl Node {
    pub(crate) fn scalar(&self) -> Option<&Scalar> {
        match &self.content {
            Content::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.scalar().is_some_and(|scalar| scalar.value == Value::Null)
    }

    /// The value, as a plugin gets it. Of bounded size: `compose` limits weight and height.
    pub(crate) fn value(&self) -> Value {
        match &self.content {
            Content::Scalar(scalar) => scalar.value.clone(),
            Content::List(items) => Value::List(items.iter().map(|item| item.value()).collect()),
            Content::Map(entries) => Value::Map(
                entries
                    .iter()
                    .map(|(key, value)| (key.text.clone(), value.value()))
                    .collect::<BTreeMap<_, _>>(),
            ),
        }
    }

    /// What it is, for "x is ...".
    pub(crate) fn describe(&self) -> String {
        match &self.content {
            Content::List(_) => "a list".to_owned(),
            Content::Map(_) => "a mapping".to_owned(),
            Content::Scalar(scalar) => match &scalar.value {
                Value::Null => "empty".to_owned(),
                Value::Bool(flag) => flag.to_string(),
                Value::Float(number) if !number.is_finite() => scalar.text.clone(),
                Value::Int(_) | Value::Float(_) => format!("the number {}", scalar.text),
                _ => format!("the text {}", quoted(&scalar.text)),
            },
        }
    }
}
