//! Values of flags, and what is expected of them.
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::builder::ValueParser;

/// A whole number in a range.
pub(crate) fn whole<T>(range: RangeInclusive<T>) -> ValueParser
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    let parse = move |text: &str| {
        let number = text.parse::<T>().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("expected a whole number from {} to {}", range.start(), range.end()))
    };
    ValueParser::new(parse)
}

/// A number above 0.
pub(crate) fn above_zero() -> ValueParser {
    let parse = |text: &str| {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        number.ok_or("expected a number above 0")
    };
    ValueParser::new(parse)
}

/// Yes or no, in the words of Go and of YAML.
pub(crate) fn boolean() -> ValueParser {
    let parse = |text: &str| match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" | "yes" | "y" | "on" => Ok(true),
        "false" | "f" | "0" | "no" | "n" | "off" => Ok(false),
        _ => Err("expected true or false"),
    };
    ValueParser::new(parse)
}

/// The name of an object.
pub(crate) fn name() -> ValueParser {
    let parse = |text: &str| {
        let good = phalanx_cache::is_name(text).then(|| text.to_owned());
        good.ok_or("expected lower-case letters, digits, '-' and '.', at most 253, with letters or digits at both ends")
    };
    ValueParser::new(parse)
}

/// The name of a namespace.
pub(crate) fn namespace() -> ValueParser {
    let parse = |text: &str| {
        let good = phalanx_cache::is_name(text) && text.len() <= 63 && !text.contains('.');
        let good = good.then(|| text.to_owned());
        good.ok_or(
            "expected lower-case letters, digits and '-', at most 63, with letters or digits at both ends",
        )
    };
    ValueParser::new(parse)
}

/// A namespace, a slash and a name.
pub(crate) fn namespaced() -> ValueParser {
    let parse = |text: &str| {
        let both = text.split_once('/');
        let both = both.filter(|(of, name)| phalanx_cache::is_name(of) && phalanx_cache::is_name(name));
        both.map(|(of, name)| (of.to_owned(), name.to_owned())).ok_or("expected NAMESPACE/NAME")
    };
    ValueParser::new(parse)
}

/// A spec.schedulerName, which Kubernetes does not check.
pub(crate) fn scheduler_name() -> ValueParser {
    let parse = |text: &str| {
        let good = !text.is_empty() && !text.contains(char::is_whitespace);
        good.then(|| text.to_owned()).ok_or("expected a name as in spec.schedulerName, without spaces")
    };
    ValueParser::new(parse)
}
