//! Objects that expressions are about.
use std::collections::BTreeMap;

/// A value of an object, and the fields below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// An optional without a value.
    None,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Data>),
    /// Fields by their names.
    Map(BTreeMap<String, Data>),
}
