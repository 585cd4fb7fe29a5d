//! The part of CEL in which device classes and resource claims select devices, and in which definitions check objects.
//!
//! A selector is about the variable `device`: its `driver`, its `attributes` and its `capacity` by domain and name,
//! such as `device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model == "A100"` or
//! `device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0`.
//!
//! Supported are literals, lists, comparisons, `in`, `&&`, `||`, `!`, `?:`, arithmetic of integers, `has()`, `size()`,
//! `cel.bind()`, the macros `all`, `exists`, `exists_one`, `filter` and `map` over lists and keys of maps, optionals
//! (`.?`, `[?]`, `optional.of()`, `orValue()`, ...), `quantity()` and `semver()` with their comparisons, `matches()`
//! `string()`, `sum()` and the plain methods of text. Parsing refuses floating-point, unsigned and hexadecimal numbers,
//! `null`, maps in braces, sizes of a device's maps, conversions such as `int()`, arithmetic of quantities, times, `sets.`,
//! `split()` and the like.
//!
//! Source: Kubernetes' documentation of resource.k8s.io/v1 `CELDeviceSelector.expression`.
mod budget;
mod call;
mod data;
mod device;
mod eval;
mod lex;
mod macros;
mod parse;
mod pattern;
mod value;

pub use budget::Budget;
pub use data::Data;
pub use device::{Attribute, Device};

/// What is wrong with an expression, or with its evaluation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

/// An expression that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression(parse::Expr);

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// What cannot be read, or is not supported, and where; or it takes too many steps.
    pub fn parse(text: &str, budget: &mut Budget) -> Result<Self, Error> {
        parse::parse(text, budget).map(Self)
    }

    /// Whether it holds of these variables, by name.
    ///
    /// # Errors
    /// A variable has no such field, types do not go together, or it takes too many steps.
    pub fn holds(&self, variables: &[(&str, &Data)], budget: &mut Budget) -> Result<bool, Error> {
        let bound = variables.iter().map(|(name, value)| (*name, value::Value::from(*value))).collect();
        eval::holds(&self.0, bound, budget)
    }

    /// Whether it selects a device.
    ///
    /// # Errors
    /// The device has no such attribute, types do not go together, or it takes too many steps.
    pub fn selects(&self, device: &dyn Device, budget: &mut Budget) -> Result<bool, Error> {
        eval::selects(&self.0, device, budget)
    }
}
