//! Arguments of a plugin, as Go's package flag reads them.

use std::collections::BTreeMap;

/// An argument that a plugin knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name, without the dashes.
    pub name: &'static str,
    /// What counts where it is not given, or its value cannot be read.
    pub default: &'static str,
    kind: Kind,
}

/// What values an argument has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    /// True when it is there without a value.
    Switch,
}

pub(crate) const fn text(name: &'static str, default: &'static str) -> Argument {
    Argument { name, default, kind: Kind::Text }
}

pub(crate) const fn number(name: &'static str, default: &'static str) -> Argument {
    Argument { name, default, kind: Kind::Number }
}

pub(crate) const fn switch(name: &'static str, default: &'static str) -> Argument {
    Argument { name, default, kind: Kind::Switch }
}

/// The values of a plugin's arguments. Reading ends at the first that is no flag or is unknown, as in Volcano, which
/// goes on with the defaults of the rest.
pub(crate) struct Arguments<'a> {
    known: &'static [Argument],
    given: BTreeMap<&'static str, &'a str>,
    /// What was wrong with the first of those that are not used.
    pub(crate) problem: Option<String>,
}

impl<'a> Arguments<'a> {
    pub(crate) fn read(arguments: &'a [String], known: &'static [Argument]) -> Self {
        let mut read = Self { known, given: BTreeMap::new(), problem: None };
        let mut rest = arguments.iter().map(String::as_str);
        while let Some(argument) = rest.next() {
            if let Err(problem) = read.take(argument, &mut rest) {
                read.problem = Some(format!("{argument:?} {problem}"));
                break;
            }
        }
        let unreadable = || read.given.iter().find_map(|(name, value)| read.unreadable(name, value));
        read.problem = read.problem.clone().or_else(unreadable);
        read
    }

    /// Takes one argument, with the next one where that is its value.
    fn take(&mut self, argument: &'a str, rest: &mut impl Iterator<Item = &'a str>) -> Result<(), String> {
        let unknown = || {
            let names: Vec<String> = self.known.iter().map(|one| format!("--{}", one.name)).collect();
            let expected = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            format!("is not known, expected {expected}; it and what follows it have no effect")
        };
        let flag = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')).ok_or_else(unknown)?;
        let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        let known = self.known.iter().find(|one| one.name == name).ok_or_else(unknown)?;
        let value = match known.kind {
            Kind::Switch => Some(value.unwrap_or("true")),
            Kind::Text | Kind::Number => value.or_else(|| rest.next()),
        };
        self.given.insert(known.name, value.ok_or("has no value")?);
        Ok(())
    }

    fn unreadable(&self, name: &str, value: &str) -> Option<String> {
        let known = self.argument(name)?;
        let expected = match known.kind {
            Kind::Number if value.parse::<i32>().is_err() => "a whole number",
            Kind::Switch if boolean(value).is_none() => "true or false",
            Kind::Text | Kind::Number | Kind::Switch => return None,
        };
        Some(format!("\"--{name}={value}\" is not {expected}, so it is {}", known.default))
    }

    fn argument(&self, name: &str) -> Option<&'static Argument> {
        self.known.iter().find(|one| one.name == name)
    }

    fn default(&self, name: &str) -> &'static str {
        self.argument(name).map_or("", |known| known.default)
    }

    pub(crate) fn text(&self, name: &str) -> &'a str {
        self.given.get(name).copied().unwrap_or(self.default(name))
    }

    pub(crate) fn number(&self, name: &str) -> i32 {
        let given = self.given.get(name).and_then(|text| text.parse().ok());
        given.or_else(|| self.default(name).parse().ok()).unwrap_or(0)
    }

    pub(crate) fn switch(&self, name: &str) -> bool {
        let given = self.given.get(name).and_then(|text| boolean(text));
        given.or_else(|| boolean(self.default(name))).unwrap_or(false)
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Argument] = &[number("port", "1"), text("name", "x"), switch("on", "false")];

    #[test]
    fn arguments_are_read_as_go_reads_flags() {
        for (arguments, port, name, on, problem) in [
            (vec![], 1, "x", false, None),
            (vec!["--port=2", "-name=y", "--on"], 2, "y", true, None),
            (vec!["--port", "2", "--on=false"], 2, "x", false, None),
            (
                vec!["--port=two", "--name=y"],
                1,
                "y",
                false,
                Some(r#""--port=two" is not a whole number, so it is 1"#),
            ),
            (vec!["--on=maybe"], 1, "x", false, Some(r#""--on=maybe" is not true or false, so it is false"#)),
            (
                vec!["--unknown=3", "--port=2"],
                1,
                "x",
                false,
                Some(
                    r#""--unknown=3" is not known, expected --port, --name, --on; it and what follows it have no effect"#,
                ),
            ),
            (
                vec!["port=2"],
                1,
                "x",
                false,
                Some(
                    r#""port=2" is not known, expected --port, --name, --on; it and what follows it have no effect"#,
                ),
            ),
            (vec!["--name"], 1, "x", false, Some(r#""--name" has no value"#)),
        ] {
            let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
            let read = Arguments::read(&arguments, KNOWN);
            let found = (read.number("port"), read.text("name"), read.switch("on"), read.problem.as_deref());
            assert_eq!(found, (port, name, on, problem), "{arguments:?}");
        }
    }
}
