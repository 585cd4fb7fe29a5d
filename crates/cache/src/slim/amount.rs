//! Quantities as they stand in an object: text or a number, right or wrong.

use std::collections::BTreeMap;
use std::fmt;

use phalanx_resource::{Quantity, QuantityError};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// Amounts by resource name.
pub type ResourceList = BTreeMap<String, Amount>;

/// A quantity, or why the text is none: one wrong amount must not fail the decoding of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount(pub Result<Quantity, QuantityError>);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as 2, \"500m\" or \"1.5Gi\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
        Ok(Amount(text.parse()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Amount, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Amount, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Amount, E> {
        self.visit_str(&number.to_string())
    }
}
