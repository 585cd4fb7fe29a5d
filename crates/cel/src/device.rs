//! What expressions are about.
use phalanx_resource::Quantity;

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute<'a> {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// Text.
    Text(&'a str),
    /// A semantic version.
    Version(&'a str),
}

/// A device, as expressions see it. Names are taken apart into domain and name; one without a domain is of its
/// driver's.
pub trait Device {
    /// Its driver.
    fn driver(&self) -> &str;
    /// An attribute.
    fn attribute(&self, domain: &str, name: &str) -> Option<Attribute<'_>>;
    /// A capacity.
    fn capacity(&self, domain: &str, name: &str) -> Option<Quantity>;
    /// Domain and name of all attributes, in an order that is always the same.
    fn attributes(&self) -> Vec<(&str, &str)>;
    /// Of all capacities, likewise.
    fn capacities(&self) -> Vec<(&str, &str)>;
}

/// The device of expressions that are about something else: it has nothing.
pub(crate) struct NoDevice;

impl Device for NoDevice {
    fn driver(&self) -> &'static str {
        ""
    }

    fn attribute(&self, _: &str, _: &str) -> Option<Attribute<'_>> {
        None
    }

    fn capacity(&self, _: &str, _: &str) -> Option<Quantity> {
        None
    }

    fn attributes(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    fn capacities(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }
}
