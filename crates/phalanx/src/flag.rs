//! Values of flags, and what is said of wrong ones: one line, as of any other input.
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::Error;
use clap::builder::ValueParser;
use clap::error::ErrorKind;

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

/// The line for a value that is wrong; `None` for all else, which has a usage to show.
pub(crate) fn wrong_value(error: &Error) -> Option<String> {
    matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue).then(|| {
        let text = error.render().to_string();
        let lines = text.lines().take_while(|line| !line.starts_with("For more information"));
        let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
        words.join(" ")
    })
}
