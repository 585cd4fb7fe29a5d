//! Arguments of a plugin, as Go's package flag reads them.

use std::collections::BTreeMap;

/// The arguments by name. Reading ends at the first that is no flag or is unknown, as in Volcano, which goes on with
/// the defaults of the rest.
pub(crate) struct Arguments<'a>(BTreeMap<&'a str, &'a str>);

/// The flags of a plugin: those with a value, and those that are true when they are there.
pub(crate) struct Flags {
    pub(crate) values: &'static [&'static str],
    pub(crate) switches: &'static [&'static str],
}

impl<'a> Arguments<'a> {
    pub(crate) fn read(arguments: &'a [String], flags: &Flags) -> Self {
        let mut found = BTreeMap::new();
        let mut rest = arguments.iter().map(String::as_str);
        while let Some(flag) =
            rest.next().and_then(|text| text.strip_prefix("--").or_else(|| text.strip_prefix('-')))
        {
            let (name, value) =
                flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
            let value = if flags.switches.contains(&name) {
                Some(value.unwrap_or("true"))
            } else if flags.values.contains(&name) {
                value.or_else(|| rest.next())
            } else {
                None
            };
            let Some(value) = value else { break };
            found.insert(name, value);
        }
        Self(found)
    }

    pub(crate) fn text(&self, name: &str, default: &'a str) -> &'a str {
        self.0.get(name).copied().unwrap_or(default)
    }

    pub(crate) fn number(&self, name: &str, default: i32) -> i32 {
        self.0.get(name).and_then(|text| text.parse().ok()).unwrap_or(default)
    }

    pub(crate) fn switch(&self, name: &str, default: bool) -> bool {
        match self.0.get(name).copied() {
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => true,
            Some("0" | "f" | "F" | "false" | "FALSE" | "False") => false,
            _ => default,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: Flags = Flags { values: &["port", "name"], switches: &["on"] };

    #[test]
    fn arguments_are_read_as_go_reads_flags() {
        for (arguments, port, name, on) in [
            (vec![], 1, "x", false),
            (vec!["--port=2", "-name=y", "--on"], 2, "y", true),
            (vec!["--port", "2", "--on=false"], 2, "x", false),
            (vec!["--port=two", "--name=y"], 1, "y", false),
            (vec!["--unknown=3", "--port=2"], 1, "x", false),
            (vec!["port=2"], 1, "x", false),
        ] {
            let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
            let read = Arguments::read(&arguments, &FLAGS);
            let found = (read.number("port", 1), read.text("name", "x"), read.switch("on", false));
            assert_eq!(found, (port, name, on), "{arguments:?}");
        }
    }
}
