//! Functions and methods.
use crate::Error;
use crate::budget::Budget;
use crate::parse::Function;
use crate::value::{Answer, Value, arithmetic, compare, version, wrong};

pub(crate) fn call(function: Function, arguments: &[Value], budget: &mut Budget) -> Answer {
    let text = |of: &str, with: &str| match function {
        Function::StartsWith => Some(of.starts_with(with)),
        Function::EndsWith => Some(of.ends_with(with)),
        Function::Contains => Some(of.contains(with)),
        _ => None,
    };
    match (function, arguments) {
        (Function::Size, [Value::Text(text)]) => Ok(Value::Int(text.chars().count() as i64)),
        (Function::Size, [Value::List(list)]) => Ok(Value::Int(list.len() as i64)),
        (Function::Size, [Value::Map(fields)]) => Ok(Value::Int(fields.len() as i64)),
        (Function::Sum, [Value::List(list)]) => {
            list.iter().try_fold(Value::Int(0), |sum, item| arithmetic("+", &sum, item))
        }
        (Function::String, [text @ Value::Text(_)]) => Ok(text.clone()),
        (Function::String, [Value::Int(number)]) => Ok(Value::Text(number.to_string())),
        (
            Function::Size,
            [Value::Attributes | Value::Capacities | Value::AttributesOf(_) | Value::CapacitiesOf(_)],
        ) => wrong("the size of a map is not supported".to_owned()),
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
        (Function::Matches, [Value::Text(of), Value::Text(pattern)]) => {
            budget.matches(of, pattern).map(Value::Bool)
        }
        (Function::Of, [value]) => Ok(Value::Optional(Some(Box::new(value.clone())))),
        (Function::None, []) => Ok(Value::Optional(None)),
        (Function::HasValue, [Value::Optional(value)]) => Ok(Value::Bool(value.is_some())),
        (Function::Value, [Value::Optional(value)]) => {
            value.as_deref().cloned().ok_or_else(|| Error("the optional has no value".to_owned()))
        }
        (_, [Value::Text(of), Value::Text(with)]) => text(of, with)
            .map(Value::Bool)
            .ok_or_else(|| Error(format!("{function:?} does not go with text"))),
        _ => {
            let kinds: Vec<&str> = arguments.iter().map(Value::kind).collect();
            wrong(format!("{function:?} does not go with {}", kinds.join(" and ")))
        }
    }
}
