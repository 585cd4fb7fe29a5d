//! Expressions about a device.
use std::cmp::Ordering;

use phalanx_resource::Quantity;

use crate::Error;
use crate::parse::{Expr, Function};

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

/// A device, as expressions see it. Names are taken apart into domain and name; one without a domain is of its driver's.
pub trait Device {
    /// Its driver.
    fn driver(&self) -> &str;
    /// An attribute.
    fn attribute(&self, domain: &str, name: &str) -> Option<Attribute<'_>>;
    /// A capacity.
    fn capacity(&self, domain: &str, name: &str) -> Option<Quantity>;
}

/// Major, minor, patch, and what stands behind a dash.
type Version = (u64, u64, u64, Option<String>);

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Bool(bool),
    Int(i64),
    Text(String),
    List(Vec<Value>),
    Quantity(Quantity),
    Version(Version),
    Device,
    Attributes,
    Capacities,
    AttributesOf(String),
    CapacitiesOf(String),
}

impl Value {
    fn kind(&self) -> &'static str {
        match self {
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Quantity(_) => "a quantity",
            Value::Version(_) => "a version",
            Value::Device => "the device",
            Value::Attributes | Value::Capacities | Value::AttributesOf(_) | Value::CapacitiesOf(_) => {
                "a map"
            }
        }
    }
}

type Answer = Result<Value, Error>;

pub(crate) fn selects(expr: &Expr, device: &dyn Device) -> Result<bool, Error> {
    match (Scope { device, bound: Vec::new() }).eval(expr)? {
        Value::Bool(selects) => Ok(selects),
        other => wrong(format!("the expression is {}, expected a boolean", other.kind())),
    }
}

fn wrong<T>(problem: String) -> Result<T, Error> {
    Err(Error(problem))
}

struct Scope<'a> {
    device: &'a dyn Device,
    bound: Vec<(&'a str, Value)>,
}

impl<'a> Scope<'a> {
    fn eval(&mut self, expr: &'a Expr) -> Answer {
        match expr {
            Expr::Bool(value) => Ok(Value::Bool(*value)),
            Expr::Int(value) => Ok(Value::Int(*value)),
            Expr::Text(value) => Ok(Value::Text(value.clone())),
            Expr::List(list) => Ok(Value::List(self.all(list)?)),
            Expr::Variable(name) => self.variable(name),
            Expr::Field(of, name) => {
                let of = self.eval(of)?;
                self.member(&of, name)
            }
            Expr::Index(of, index) => self.index(of, index),
            Expr::Not(inner) => Ok(Value::Bool(!self.boolean(inner)?)),
            Expr::Negative(inner) => match self.eval(inner)? {
                Value::Int(number) => number.checked_neg().map(Value::Int).ok_or_else(overflow),
                other => wrong(format!("- needs an integer, found {}", other.kind())),
            },
            Expr::Binary("&&", a, b) => self.short_cut(a, b, false),
            Expr::Binary("||", a, b) => self.short_cut(a, b, true),
            Expr::Binary(operator, a, b) => {
                let (a, b) = (self.eval(a)?, self.eval(b)?);
                self.binary(operator, &a, &b)
            }
            Expr::If(parts) => {
                let at = if self.boolean(&parts[0])? { 1 } else { 2 };
                self.eval(&parts[at])
            }
            Expr::Has(of, name) => {
                let of = self.eval(of)?;
                Ok(Value::Bool(self.lookup(&of, name)?.is_some()))
            }
            Expr::Call(function, arguments) => call(*function, &self.all(arguments)?),
            Expr::Bind(name, value, body) => {
                let value = self.eval(value)?;
                self.bound.push((name, value));
                let answer = self.eval(body);
                self.bound.pop();
                answer
            }
        }
    }

    fn all(&mut self, list: &'a [Expr]) -> Result<Vec<Value>, Error> {
        list.iter().map(|expr| self.eval(expr)).collect()
    }

    fn variable(&self, name: &str) -> Answer {
        if let Some((_, value)) = self.bound.iter().rev().find(|(bound, _)| *bound == name) {
            return Ok(value.clone());
        }
        if name == "device" {
            return Ok(Value::Device);
        }
        wrong(format!("there is no variable {name}"))
    }

    fn boolean(&mut self, expr: &'a Expr) -> Result<bool, Error> {
        match self.eval(expr)? {
            Value::Bool(value) => Ok(value),
            other => wrong(format!("found {}, expected a boolean", other.kind())),
        }
    }

    /// One side that decides is enough, whatever is wrong with the other, as in CEL.
    fn short_cut(&mut self, a: &'a Expr, b: &'a Expr, decides: bool) -> Answer {
        let first = self.boolean(a);
        if first.as_ref().is_ok_and(|first| *first == decides) {
            return Ok(Value::Bool(decides));
        }
        let second = self.boolean(b)?;
        if second == decides { Ok(Value::Bool(decides)) } else { first.map(|_| Value::Bool(second)) }
    }

    fn index(&mut self, of: &'a Expr, index: &'a Expr) -> Answer {
        let (of, index) = (self.eval(of)?, self.eval(index)?);
        match (&of, &index) {
            (Value::List(list), Value::Int(at)) => {
                let item = usize::try_from(*at).ok().and_then(|at| list.get(at));
                item.cloned().ok_or_else(|| Error(format!("index {at} is out of bounds")))
            }
            (_, Value::Text(name)) => self.member(&of, name),
            _ => wrong(format!("{} has no {}", of.kind(), index.kind())),
        }
    }

    fn member(&self, of: &Value, name: &str) -> Answer {
        self.lookup(of, name)?.ok_or_else(|| Error(format!("no such key: {name}")))
    }

    fn lookup(&self, of: &Value, name: &str) -> Result<Option<Value>, Error> {
        Ok(match of {
            Value::Device => match name {
                "driver" => Some(Value::Text(self.device.driver().to_owned())),
                "attributes" => Some(Value::Attributes),
                "capacity" => Some(Value::Capacities),
                _ => return wrong(format!("device.{name} is not supported")),
            },
            Value::Attributes => Some(Value::AttributesOf(name.to_owned())),
            Value::Capacities => Some(Value::CapacitiesOf(name.to_owned())),
            Value::AttributesOf(domain) => {
                self.device.attribute(domain, name).map(attribute_value).transpose()?
            }
            Value::CapacitiesOf(domain) => self.device.capacity(domain, name).map(Value::Quantity),
            other => return wrong(format!("{} has no {name}", other.kind())),
        })
    }

    fn binary(&self, operator: &str, a: &Value, b: &Value) -> Answer {
        match operator {
            "==" => Ok(Value::Bool(a == b)),
            "!=" => Ok(Value::Bool(a != b)),
            "in" => match (a, b) {
                (_, Value::List(list)) => Ok(Value::Bool(list.contains(a))),
                (Value::Text(name), Value::AttributesOf(_) | Value::CapacitiesOf(_)) => {
                    Ok(Value::Bool(self.lookup(b, name)?.is_some()))
                }
                _ => wrong(format!("{} cannot be in {}", a.kind(), b.kind())),
            },
            "<" => Ok(Value::Bool(compare(a, b)?.is_lt())),
            "<=" => Ok(Value::Bool(compare(a, b)?.is_le())),
            ">" => Ok(Value::Bool(compare(a, b)?.is_gt())),
            ">=" => Ok(Value::Bool(compare(a, b)?.is_ge())),
            _ => arithmetic(operator, a, b),
        }
    }
}

fn attribute_value(attribute: Attribute<'_>) -> Answer {
    match attribute {
        Attribute::Bool(value) => Ok(Value::Bool(value)),
        Attribute::Int(value) => Ok(Value::Int(value)),
        Attribute::Text(value) => Ok(Value::Text(value.to_owned())),
        Attribute::Version(value) => version(value).map(Value::Version),
    }
}

fn arithmetic(operator: &str, a: &Value, b: &Value) -> Answer {
    match (a, b) {
        (Value::Text(a), Value::Text(b)) if operator == "+" => Ok(Value::Text(format!("{a}{b}"))),
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

fn overflow() -> Error {
    Error("a number is out of range, or was divided by 0".to_owned())
}

fn compare(a: &Value, b: &Value) -> Result<Ordering, Error> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Ok(a.cmp(b)),
        (Value::Text(a), Value::Text(b)) => Ok(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
        (Value::Quantity(a), Value::Quantity(b)) => Ok(a.cmp(b)),
        (Value::Version(a), Value::Version(b)) => Ok(compare_versions(a, b)),
        _ => wrong(format!("{} cannot be compared with {}", a.kind(), b.kind())),
    }
}

fn call(function: Function, arguments: &[Value]) -> Answer {
    let text = |of: &str, with: &str| match function {
        Function::StartsWith => Some(of.starts_with(with)),
        Function::EndsWith => Some(of.ends_with(with)),
        Function::Contains => Some(of.contains(with)),
        _ => None,
    };
    match (function, arguments) {
        (Function::Size, [Value::Text(text)]) => Ok(Value::Int(text.chars().count() as i64)),
        (Function::Size, [Value::List(list)]) => Ok(Value::Int(list.len() as i64)),
        (Function::Quantity, [Value::Text(text)]) => {
            let parsed = text.parse().map(Value::Quantity);
            parsed.map_err(|_| Error(format!("{text:?} is no quantity")))
        }
        (Function::Semver, [Value::Text(text)]) => version(text).map(Value::Version),
        (Function::LowerAscii, [Value::Text(text)]) => Ok(Value::Text(text.to_ascii_lowercase())),
        (Function::UpperAscii, [Value::Text(text)]) => Ok(Value::Text(text.to_ascii_uppercase())),
        (Function::CompareTo, [a, b]) => Ok(Value::Int(compare(a, b)? as i64)),
        (Function::IsGreaterThan, [a, b]) => Ok(Value::Bool(compare(a, b)?.is_gt())),
        (Function::IsLessThan, [a, b]) => Ok(Value::Bool(compare(a, b)?.is_lt())),
        (Function::Major, [Value::Version(version)]) => Ok(Value::Int(version.0 as i64)),
        (Function::Minor, [Value::Version(version)]) => Ok(Value::Int(version.1 as i64)),
        (Function::Patch, [Value::Version(version)]) => Ok(Value::Int(version.2 as i64)),
        (_, [Value::Text(of), Value::Text(with)]) => text(of, with)
            .map(Value::Bool)
            .ok_or_else(|| Error(format!("{function:?} does not go with text"))),
        _ => {
            let kinds: Vec<&str> = arguments.iter().map(Value::kind).collect();
            wrong(format!("{function:?} does not go with {}", kinds.join(" and ")))
        }
    }
}

fn version(text: &str) -> Result<Version, Error> {
    let plain = text.split('+').next().unwrap_or_default();
    let (core, early) = plain.split_once('-').map_or((plain, None), |(core, early)| (core, Some(early)));
    let parts: Result<Vec<u64>, _> = core.split('.').map(str::parse).collect();
    match parts.as_deref() {
        Ok([major, minor, patch]) => Ok((*major, *minor, *patch, early.map(str::to_owned))),
        _ => wrong(format!("{text:?} is no semantic version")),
    }
}

/// What stands behind a dash comes before the version itself; its parts are compared as numbers where they are.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Expression;

    struct Gpu;

    impl Device for Gpu {
        fn driver(&self) -> &'static str {
            "gpu.example.com"
        }

        fn attribute(&self, domain: &str, name: &str) -> Option<Attribute<'_>> {
            match (domain, name) {
                ("gpu.example.com", "model") => Some(Attribute::Text("A100")),
                ("gpu.example.com", "index") => Some(Attribute::Int(3)),
                ("gpu.example.com", "healthy") => Some(Attribute::Bool(true)),
                ("gpu.example.com", "driverVersion") => Some(Attribute::Version("1.20.3-rc.2")),
                _ => None,
            }
        }

        fn capacity(&self, domain: &str, name: &str) -> Option<Quantity> {
            (domain == "gpu.example.com" && name == "memory").then(|| "40Gi".parse().unwrap())
        }
    }

    fn eval(text: &str) -> Result<bool, String> {
        Expression::parse(text).and_then(|expr| expr.selects(&Gpu)).map_err(|error| error.0)
    }

    #[test]
    fn devices_are_selected() {
        for (text, expected) in [
            ("true", true),
            ("device.driver == 'gpu.example.com'", true),
            (r#"device.attributes["gpu.example.com"].model == "A100""#, true),
            (r#"device.attributes["gpu.example.com"]["model"] != "A100""#, false),
            (r#"device.attributes["gpu.example.com"].index in [1, 3]"#, true),
            (r#"!(device.attributes["gpu.example.com"].healthy)"#, false),
            (r#"device.attributes["gpu.example.com"].index * 2 - 1 >= 5 && -1 < 0"#, true),
            (r#"has(device.attributes["gpu.example.com"].nothing)"#, false),
            (r#""model" in device.attributes["gpu.example.com"]"#, true),
            (r#""model" in device.attributes["other.example.com"]"#, false),
            (r#"device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0"#, true),
            (r#"device.capacity["gpu.example.com"].memory == quantity("40960Mi")"#, true),
            (r#"device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("40Gi"))"#, false),
            (r#"device.attributes["gpu.example.com"].driverVersion.isLessThan(semver("1.20.3"))"#, true),
            (r#"device.attributes["gpu.example.com"].driverVersion > semver("1.20.3-rc.1")"#, true),
            (r#"device.attributes["gpu.example.com"].driverVersion.minor() == 20"#, true),
            (r#"device.attributes["gpu.example.com"].model.lowerAscii().startsWith("a1")"#, true),
            (r#"device.driver.contains("x") ? false : size(device.driver) > 3"#, false),
            (r#"cel.bind(gpu, device.attributes["gpu.example.com"], gpu.healthy && gpu.index > 2)"#, true),
            ("1 == 'one'", false),
            ("'a' + \"b\" == 'ab' && 7 / 2 == 3 && 7 % 2 == 1", true),
            (r#"true || device.attributes["x"].y"#, true),
            (r#"device.attributes["x"].y || true"#, true),
            (r#"false && device.attributes["x"].y == 1"#, false),
        ] {
            assert_eq!(eval(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for (text, problem) in [
            ("", "column 1: found the end, expected a value"),
            ("1 +", "column 4: found the end, expected a value"),
            ("device.driver = 'x'", "column 15: found =, expected the end"),
            ("'x", "column 1: text without an end"),
            ("1.5 > 1", "column 1: found \"1.5\", expected a decimal integer"),
            ("device.driver.matches('x')", "column 27: function matches is not supported"),
            ("[1].exists(x, x > 0)", "column 21: function exists is not supported"),
            ("device.driver", "the expression is text, expected a boolean"),
            ("device.nodeName == 'x'", "device.nodeName is not supported"),
            ("node.name == 'x'", "there is no variable node"),
            (r#"device.attributes["x"].y == 1"#, "no such key: y"),
            ("1 < 'a'", "an integer cannot be compared with text"),
            ("1 / 0 == 1", "a number is out of range, or was divided by 0"),
            ("[1][1] == 1", "index 1 is out of bounds"),
            ("semver('1.2') > semver('1.0.0')", "\"1.2\" is no semantic version"),
            ("ä", "column 1: found 'ä', expected an expression"),
        ] {
            assert_eq!(eval(text), Err(problem.to_owned()), "{text}");
        }
        for (open, close) in [("(", ")"), ("[", "]"), ("!", "")] {
            let deep = format!("{}true{}", open.repeat(20_000), close.repeat(20_000));
            assert!(eval(&deep).is_err(), "{open}");
        }
    }
}
