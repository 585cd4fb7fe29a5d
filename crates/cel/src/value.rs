//! Values of expressions, how they compare, and arithmetic on them.
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_resource::Quantity;

use crate::Error;
use crate::data::Data;
use crate::device::Attribute;

/// Major, minor, patch, and the pre-release part behind a dash.
pub(crate) type Version = (u64, u64, u64, Option<String>);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    Int(i64),
    Text(String),
    List(Vec<Value>),
    /// The fields of an object.
    Map(Arc<BTreeMap<String, Value>>),
    Optional(Option<Box<Value>>),
    Quantity(Quantity),
    Version(Version),
    Device,
    Attributes,
    Capacities,
    AttributesOf(String),
    CapacitiesOf(String),
}

impl Value {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Optional(_) => "an optional",
            Value::Quantity(_) => "a quantity",
            Value::Version(_) => "a version",
            Value::Device => "the device",
            Value::Map(_)
            | Value::Attributes
            | Value::Capacities
            | Value::AttributesOf(_)
            | Value::CapacitiesOf(_) => "a map",
        }
    }
}

impl Value {
    /// What a copy costs, in steps, and how many lists and optionals are within each other.
    pub(crate) fn measure(&self) -> (u64, usize) {
        match self {
            Value::Text(text) => (1 + text.len() as u64 / 8, 0),
            Value::List(list) => {
                let measures = list.iter().map(Value::measure);
                let (weight, depth) = measures.fold((0, 0), |sum, one| (sum.0 + one.0, one.1.max(sum.1)));
                (weight + 1, depth + 1)
            }
            Value::Optional(Some(value)) => {
                let (weight, depth) = value.measure();
                (weight + 1, depth + 1)
            }
            _ => (1, 0),
        }
    }
}

impl From<&Data> for Value {
    fn from(data: &Data) -> Self {
        match data {
            Data::None => Value::Optional(None),
            Data::Bool(value) => Value::Bool(*value),
            Data::Int(value) => Value::Int(*value),
            Data::Text(text) => Value::Text(text.clone()),
            Data::List(list) => Value::List(list.iter().map(Value::from).collect()),
            Data::Map(fields) => {
                let fields = fields.iter().map(|(name, value)| (name.clone(), Value::from(value)));
                Value::Map(Arc::new(fields.collect()))
            }
        }
    }
}

pub(crate) type Answer = Result<Value, Error>;

pub(crate) fn wrong<T>(problem: String) -> Result<T, Error> {
    Err(Error(problem))
}

pub(crate) fn attribute_value(attribute: Attribute<'_>) -> Answer {
    match attribute {
        Attribute::Bool(value) => Ok(Value::Bool(value)),
        Attribute::Int(value) => Ok(Value::Int(value)),
        Attribute::Text(value) => Ok(Value::Text(value.to_owned())),
        Attribute::Version(value) => version(value).map(Value::Version),
    }
}

pub(crate) fn arithmetic(operator: &str, a: &Value, b: &Value) -> Answer {
    match (a, b) {
        (Value::Text(a), Value::Text(b)) if operator == "+" => Ok(Value::Text(format!("{a}{b}"))),
        (Value::List(a), Value::List(b)) if operator == "+" => Ok(Value::List([a.as_slice(), b].concat())),
        (Value::Int(a), Value::Int(b)) => {
            let result = match operator {
                "+" => a.checked_add(*b),
                "-" => a.checked_sub(*b),
                "*" => a.checked_mul(*b),
                "/" => a.checked_div(*b),
                _ => a.checked_rem(*b),
            };
            result.map(Value::Int).ok_or_else(overflow)
        }
        _ => wrong(format!("{} {operator} {} makes no sense", a.kind(), b.kind())),
    }
}

pub(crate) fn overflow() -> Error {
    Error("a number is out of range, or was divided by 0".to_owned())
}

pub(crate) fn compare(a: &Value, b: &Value) -> Result<Ordering, Error> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Ok(a.cmp(b)),
        (Value::Text(a), Value::Text(b)) => Ok(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
        (Value::Quantity(a), Value::Quantity(b)) => Ok(a.cmp(b)),
        (Value::Version(a), Value::Version(b)) => Ok(compare_versions(a, b)),
        _ => wrong(format!("{} cannot be compared with {}", a.kind(), b.kind())),
    }
}

pub(crate) fn version(text: &str) -> Result<Version, Error> {
    let plain = text.split('+').next().unwrap_or_default();
    let (core, early) = plain.split_once('-').map_or((plain, None), |(core, early)| (core, Some(early)));
    let parts: Result<Vec<u64>, _> = core.split('.').map(str::parse).collect();
    match parts.as_deref() {
        Ok([major, minor, patch]) => Ok((*major, *minor, *patch, early.map(str::to_owned))),
        _ => wrong(format!("{text:?} is no semantic version")),
    }
}

/// A pre-release comes before its version; numeric parts of pre-releases are compared as numbers.
fn compare_versions(a: &Version, b: &Version) -> Ordering {
    let core = (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2));
    core.then_with(|| match (&a.3, &b.3) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(a), Some(b)) => {
            let key = |part: &str| (part.parse::<u64>().is_err(), part.parse::<u64>().ok(), part.to_owned());
            a.split('.').map(key).cmp(b.split('.').map(key))
        }
    })
}
