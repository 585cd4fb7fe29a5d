//! What an argument may be: a type, and rules for the values of that type.
use super::{Value, WEIGHT_MAX, parse_duration};

/// The type of an argument with the rules for its values; without rules every value of the type is allowed.
#[derive(Clone, Copy, Debug)]
pub enum ArgKind {
    /// A boolean, or text that reads as one.
    Bool,
    /// An integer.
    Int(&'static [Rule]),
    /// An integer or a decimal.
    Float(&'static [Rule]),
    /// Text.
    Text(&'static [Rule]),
    /// Names: a list of text, or text with commas between the names. The rules hold for each name.
    Names(&'static [Rule]),
    /// A duration such as `5m` or `1h30m`. Numbers in its rules are milliseconds.
    Duration(&'static [Rule]),
    /// A quantity such as `250m` or `200Mi`, not negative.
    Quantity,
    /// A mapping whose content the plugin checks itself.
    Map,
    /// A list whose content the plugin checks itself.
    List,
    /// A mapping with arguments of its own.
    Section(&'static [ArgSpec]),
    /// A list of mappings with arguments of their own.
    Sections(&'static [ArgSpec]),
}

/// The definition of an argument, from which the reference page and `conf check` are made.
#[derive(Clone, Copy, Debug)]
pub struct ArgSpec {
    /// The key; a trailing `*` stands for any ending.
    pub name: &'static str,
    /// The type and the rules.
    pub kind: ArgKind,
    /// The default, as one would write it in scheduler.conf.
    pub default: &'static str,
    /// What the argument does, in a sentence.
    pub doc: &'static str,
}

/// A rule for the values of a type, and what becomes of other values. As in Volcano other values do not stop the
/// scheduler; `conf check` reports them.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The values that are allowed.
    pub allowed: Allowed,
    /// What other values do.
    pub otherwise: Otherwise,
}

/// The values that a rule allows.
#[derive(Clone, Copy, Debug)]
pub enum Allowed {
    /// Numbers, or milliseconds of a duration, that are not smaller.
    AtLeast(i64),
    /// Numbers, or milliseconds of a duration, that are not larger.
    AtMost(i64),
    /// Numbers, or milliseconds of a duration, from the first to the second.
    Between(i64, i64),
    /// One of these words.
    Words(&'static [&'static str]),
    /// Text of a form: a phrase that describes the form, and a test for it.
    Form(&'static str, fn(&str) -> bool),
}

/// What a value does that a rule does not allow.
#[derive(Clone, Copy, Debug)]
pub enum Otherwise {
    /// The default counts; without a default the argument counts as missing.
    Default,
    /// An effect, described by this phrase.
    Does(&'static str),
}

impl ArgSpec {
    /// Whether `key` is this argument.
    pub fn matches(&self, key: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(prefix) => key.starts_with(prefix) && key.len() > prefix.len(),
            None => key == self.name,
        }
    }

    /// The first rule that a value of the right type breaks; `None` if it breaks none.
    pub fn broken(&self, value: &Value) -> Option<&'static Rule> {
        self.kind.rules().iter().find(|rule| !self.kind.obeys(rule.allowed, value))
    }
}

impl ArgKind {
    /// The weight of a score; a negative weight counts as the default.
    pub const WEIGHT: Self = Self::Int(&[Rule::at_least(0), WEIGHT_LIMIT]);

    /// The weight of a score that may be negative, which is unlikely to be meant.
    pub const ANY_WEIGHT: Self = Self::Int(&[
        Rule::new(Allowed::AtLeast(0), Otherwise::Does("nodes are scored the other way round")),
        WEIGHT_LIMIT,
    ]);

    /// The weight of one of several parts; a weight below 1 counts as the default.
    pub const POSITIVE_WEIGHT: Self = Self::Int(&[Rule::at_least(1), WEIGHT_LIMIT]);

    /// The rules for the values of the type; none for types without rules.
    pub fn rules(self) -> &'static [Rule] {
        match self {
            Self::Int(rules)
            | Self::Float(rules)
            | Self::Text(rules)
            | Self::Names(rules)
            | Self::Duration(rules) => rules,
            Self::Bool | Self::Quantity | Self::Map | Self::List | Self::Section(_) | Self::Sections(_) => {
                &[]
            }
        }
    }

    /// Whether a value is allowed. A value of another type breaks no rule: the type is reported instead.
    fn obeys(self, allowed: Allowed, value: &Value) -> bool {
        match (self, value) {
            (Self::Duration(_), Value::Text(text)) => {
                parse_duration(text).is_none_or(|ms| allowed.number(ms as f64))
            }
            (Self::Names(_), Value::Text(text)) => {
                text.split(',').map(str::trim).filter(|name| !name.is_empty()).all(|name| allowed.text(name))
            }
            (Self::Names(_), Value::List(items)) => items.iter().all(|item| self.obeys(allowed, item)),
            (_, Value::Text(text)) => allowed.text(text),
            (_, Value::Int(number)) => allowed.number(*number as f64),
            (_, Value::Float(number)) => allowed.number(*number),
            _ => true,
        }
    }
}

/// The limits of [`Args::weight`](super::Args::weight).
const WEIGHT_LIMIT: Rule =
    Rule::new(Allowed::AtMost(WEIGHT_MAX), Otherwise::Does("1000000 is taken instead"));

impl Rule {
    /// For numbers and durations that have no effect.
    pub const IDLE: Self = Self::new(Allowed::AtLeast(0), NO_EFFECT);

    /// For percentages that have no effect.
    pub const IDLE_PERCENT: Self = Self::new(Allowed::Between(0, 100), NO_EFFECT);

    /// For names of resources.
    pub const RESOURCES: Self = Self::new(
        Allowed::Form("names of resources such as nvidia.com/gpu", is_resource_name),
        Otherwise::Does("no node has a resource of such a name"),
    );

    /// A rule of a table.
    pub const fn new(allowed: Allowed, otherwise: Otherwise) -> Self {
        Self { allowed, otherwise }
    }

    /// A lower limit; a smaller value counts as the default.
    pub const fn at_least(least: i64) -> Self {
        Self::new(Allowed::AtLeast(least), Otherwise::Default)
    }

    /// A lower and an upper limit; a value outside counts as the default.
    pub const fn between(least: i64, most: i64) -> Self {
        Self::new(Allowed::Between(least, most), Otherwise::Default)
    }
}

const NO_EFFECT: Otherwise = Otherwise::Does("it has no effect either way");

impl Allowed {
    /// The allowed values as a phrase for messages: "at least 0", "0 to 100".
    pub fn phrase(self, kind: ArgKind) -> String {
        let of = |number: i64| match (kind, number) {
            (ArgKind::Duration(_), 0) => "0s".to_owned(),
            (ArgKind::Duration(_), ms) => format!("{ms}ms"),
            _ => number.to_string(),
        };
        match self {
            Self::AtLeast(least) => format!("at least {}", of(least)),
            Self::AtMost(most) => format!("at most {}", of(most)),
            Self::Between(least, most) => format!("{} to {}", of(least), of(most)),
            Self::Words(words) => words.join(" or "),
            Self::Form(phrase, _) => phrase.to_owned(),
        }
    }

    /// Whether a number is allowed; the limits are small enough to be exact as floats.
    fn number(self, number: f64) -> bool {
        match self {
            Self::AtLeast(least) => number >= least as f64,
            Self::AtMost(most) => number <= most as f64,
            Self::Between(least, most) => (least as f64..=most as f64).contains(&number),
            Self::Words(_) | Self::Form(..) => true,
        }
    }

    fn text(self, text: &str) -> bool {
        match self {
            Self::Words(words) => words.contains(&text),
            Self::Form(_, has_it) => has_it(text),
            Self::AtLeast(_) | Self::AtMost(_) | Self::Between(..) => true,
        }
    }
}

/// Whether text is the address of a server: `http://` or `https://`, a host, and optionally a port and a path.
pub fn is_url(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // A colon within brackets belongs to an IPv6 address.
    let port_at = authority.rfind(':').filter(|at| !authority[*at..].contains(']'));
    let (host, port) = port_at.map_or((authority, None), |at| (&authority[..at], Some(&authority[at + 1..])));
    let visible = text.chars().all(|char| !char.is_whitespace() && !char.is_control());
    visible && !host.is_empty() && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

/// Whether text is the name of a resource, such as `cpu` or `nvidia.com/gpu`.
pub fn is_resource_name(text: &str) -> bool {
    let (domain, name) = text.rsplit_once('/').unwrap_or(("a", text));
    let ends = |text: &str| {
        let alphanumeric = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        alphanumeric(text.bytes().next()) && alphanumeric(text.bytes().last())
    };
    let of = |text: &str, more: &[u8]| {
        ends(text) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
    };
    of(domain, b"-.") && of(name, b"-._")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_scheme_and_a_host() {
        for (text, good) in [
            ("http://127.0.0.1:8888", true),
            ("https://policy.example/v1/", true),
            ("http://[::1]:80/x", true),
            ("http://[::1]", true),
            ("not a url", false),
            ("policy.example:8888", false),
            ("ftp://policy.example", false),
            ("http://", false),
            ("http:///path", false),
            ("http://:80", false),
            ("http://a:b", false),
            ("http://a:99999", false),
            ("http://a b", false),
        ] {
            assert_eq!(is_url(text), good, "{text}");
        }
    }

    #[test]
    fn resource_names_follow_the_rules_of_kubernetes() {
        for (text, good) in [
            ("cpu", true),
            ("nvidia.com/gpu", true),
            ("hugepages-2Mi", true),
            ("example.com/a_b.c", true),
            ("", false),
            ("a b", false),
            ("/gpu", false),
            ("nvidia.com/", false),
            ("a/b/c", false),
            ("-a", false),
            ("a_b/c", false),
        ] {
            assert_eq!(is_resource_name(text), good, "{text}");
        }
    }
}
