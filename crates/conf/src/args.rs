//! Arguments of plugins and actions against their documentation.
use std::collections::{BTreeMap, BTreeSet};

use phalanx_cluster::duration::{LONGEST, is_too_long, parse_duration};
use phalanx_framework::conf::{
    Allowed, Arg, ArgKind, ArgSpec, Args, Otherwise, Position, Rule, Value, parse_bool, quantity,
};

use crate::known::is_volcanos;
use crate::near::{listed, one_of};
use crate::problem::{Problems, quoted};
use crate::yaml::{Content, Key, Node, compose, resolve};

/// The arguments that count; `owner` is "plugin binpack" or the like.
pub(crate) fn read(owner: &str, specs: &[ArgSpec], node: &Node, problems: &mut Problems) -> Args {
    let mut args = Args::default();
    match &node.content {
        Content::Map(entries) => {
            for (key, value) in entries {
                if let Some(value) = argument(owner, specs, key, value, problems) {
                    args.0.insert(key.text.clone(), value);
                }
            }
        }
        _ if node.is_null() => {}
        _ => problems.error(node.at, format!("arguments is {}", node.describe()), "a mapping"),
    }
    args
}

/// `None` when it has no effect, which is then a problem.
fn argument(owner: &str, specs: &[ArgSpec], key: &Key, node: &Node, problems: &mut Problems) -> Option<Arg> {
    let Some(spec) = find(specs, &key.text) else {
        unknown(owner, specs, key, problems);
        return None;
    };
    if node.is_null() {
        let default = if spec.default.is_empty() { "" } else { "; its default stays" };
        problems.warning(key.at, format!("{} is empty", key.text), format!("{}{default}", phrase(spec.kind)));
        return None;
    }
    match (spec.kind, &node.content) {
        (ArgKind::Section(inner), Content::Map(_)) => {
            let value = section(owner, spec.name, inner, node, problems);
            return Some(Arg { value, at: node.at });
        }
        (ArgKind::Sections(inner), Content::List(items)) => {
            let mut one = |item| section(owner, spec.name, inner, item, problems);
            let value = Value::List(items.iter().map(|item| one(item)).collect());
            return Some(Arg { value, at: node.at });
        }
        _ => {}
    }
    let value = node.value();
    if !fits(spec.kind, &value) {
        let expected = match &value {
            Value::Float(number) if !number.is_finite() => "a finite number".to_owned(),
            value => format!("{}{}", phrase(spec.kind), hint(spec.kind, value)),
        };
        problems.error(node.at, format!("{} is {}", key.text, node.describe()), expected);
        return None;
    }
    if let Some(rule) = spec.broken(&value) {
        broken(spec, rule, &key.text, node, problems);
    }
    Some(Arg { value, at: node.at })
}

/// Reports an unknown argument; an argument that Volcano has or had and Phalanx does not support has another text.
fn unknown(owner: &str, specs: &[ArgSpec], key: &Key, problems: &mut Problems) {
    let names: Vec<_> = specs.iter().map(|spec| spec.name).collect();
    let argument = quoted(&key.text);
    if is_volcanos(owner, &key.text) {
        let what = format!("Volcano's argument {argument} of {owner} is not in this version, ignored");
        problems.unsupported(key.at, what, listed(&names));
    } else {
        problems.warning(
            key.at,
            format!("unknown argument {argument} of {owner}"),
            one_of(&names, &key.text),
        );
    }
}

/// The value is of the right type and means nothing.
fn broken(spec: &ArgSpec, rule: &Rule, key: &str, node: &Node, problems: &mut Problems) {
    let instead = match rule.otherwise {
        Otherwise::Default if spec.default.is_empty() => "it counts as missing".to_owned(),
        Otherwise::Default => format!("{} is taken instead", spec.default),
        Otherwise::Does(what) => what.to_owned(),
    };
    problems.warning(node.at, format!("{key} is {}; {instead}", node.describe()), expected(spec.kind, node));
}

/// The type with its rules; for words and forms those say it all.
fn expected(kind: ArgKind, node: &Node) -> String {
    let mut out = phrase(kind).to_owned();
    for (rule, before) in kind.rules().iter().zip([", "].into_iter().chain(std::iter::repeat(" and "))) {
        match rule.allowed {
            Allowed::Words(words) => {
                let written = node.scalar().map_or("", |scalar| scalar.text.as_str());
                out = one_of(words, written);
            }
            Allowed::Form(..) => out = rule.allowed.phrase(kind),
            _ => out = out + before + &rule.allowed.phrase(kind),
        }
    }
    out
}

/// What counts of a mapping within an argument.
fn section(owner: &str, name: &str, specs: &[ArgSpec], node: &Node, problems: &mut Problems) -> Value {
    if !matches!(node.content, Content::Map(_)) {
        problems.error(node.at, format!("{name} holds {}", node.describe()), "a mapping");
        return Value::Null;
    }
    let args = read(&format!("{name} of {owner}"), specs, node, problems);
    Value::Map(args.0.into_iter().map(|(key, arg)| (key, arg.value)).collect())
}

/// A spec with this very name before one with a `*`.
pub(crate) fn find<'a>(specs: &'a [ArgSpec], key: &str) -> Option<&'a ArgSpec> {
    let exact = specs.iter().find(|spec| spec.name == key);
    exact.or_else(|| specs.iter().find(|spec| spec.matches(key)))
}

/// What an argument does, so that equal values do the same: what was written, or else its default. What may be written
/// in several ways is written in one.
pub(crate) fn meaning(spec: &ArgSpec, written: Option<&Value>) -> Option<Value> {
    let value = written.cloned().or_else(|| default_of(spec)).or(match spec.kind {
        ArgKind::Names(_) => Some(Value::List(Vec::new())),
        ArgKind::Section(_) => Some(Value::Map(BTreeMap::new())),
        _ => None,
    })?;
    Some(match (spec.kind, &value) {
        (ArgKind::Bool, Value::Text(text)) => parse_bool(text).map_or(value, Value::Bool),
        (ArgKind::Float(_), Value::Int(number)) => Value::Float(*number as f64),
        (ArgKind::Duration(_), Value::Text(text)) => parse_duration(text).map_or(value, Value::Int),
        (ArgKind::Quantity, _) => {
            quantity(&value).map_or(value, |quantity| Value::Text(quantity.milli().to_string()))
        }
        (ArgKind::Names(_), _) => {
            let args = Args([(String::new(), Arg { value, at: Position::default() })].into());
            Value::List(args.names("").into_iter().map(Value::Text).collect())
        }
        (ArgKind::Section(inner), Value::Map(entries)) => filled(inner, entries),
        (ArgKind::Sections(inner), Value::List(items)) => {
            let one = |item: &Value| match item {
                Value::Map(entries) => filled(inner, entries),
                other => other.clone(),
            };
            Value::List(items.iter().map(one).collect())
        }
        _ => value,
    })
}

/// A mapping of arguments with their meanings, those that are not written too.
fn filled(specs: &[ArgSpec], entries: &BTreeMap<String, Value>) -> Value {
    let named = specs.iter().filter(|spec| !spec.name.ends_with('*')).map(|spec| spec.name);
    let keys: BTreeSet<&str> = entries.keys().map(String::as_str).chain(named).collect();
    let meant = |key: &str| Some((key.to_owned(), meaning(find(specs, key)?, entries.get(key))?));
    Value::Map(keys.into_iter().filter_map(meant).collect())
}

/// The default, as it is read where it is written.
pub(crate) fn default_of(spec: &ArgSpec) -> Option<Value> {
    let documents = compose(spec.default, &mut Problems::default()).ok()?;
    Some(documents.root?.value()).filter(|value| *value != Value::Null)
}

/// Whether a plugin that asks for this kind gets the value, by the rules of Volcano's getters.
fn fits(kind: ArgKind, value: &Value) -> bool {
    match (kind, value) {
        (ArgKind::Float(_), Value::Float(number)) => number.is_finite(),
        (ArgKind::Bool, Value::Text(text)) => parse_bool(text).is_some(),
        (ArgKind::Duration(_), Value::Text(text)) => parse_duration(text).is_some(),
        (ArgKind::Quantity, value) => quantity(value).is_some(),
        (ArgKind::Names(_), Value::List(items)) => items.iter().all(|item| matches!(item, Value::Text(_))),
        (ArgKind::Bool, Value::Bool(_))
        | (ArgKind::Int(_) | ArgKind::Float(_), Value::Int(_))
        | (ArgKind::Text(_) | ArgKind::Names(_), Value::Text(_))
        | (ArgKind::Map, Value::Map(_))
        | (ArgKind::List, Value::List(_)) => true,
        _ => false,
    }
}

fn phrase(kind: ArgKind) -> &'static str {
    match kind {
        ArgKind::Bool => "true or false",
        ArgKind::Int(_) => "an integer",
        ArgKind::Float(_) => "a number",
        ArgKind::Text(_) => "text",
        ArgKind::Names(_) => "names: a list, or text with commas between",
        ArgKind::Duration(_) => "a duration such as 5m or 1h30m",
        ArgKind::Quantity => "a quantity such as 250m or 200Mi, at most 8Pi",
        ArgKind::Map | ArgKind::Section(_) => "a mapping",
        ArgKind::List => "a list",
        ArgKind::Sections(_) => "a list of mappings",
    }
}

/// What to do about quotes, when those are all that is wrong, and the longest duration for one that is longer.
fn hint(kind: ArgKind, value: &Value) -> String {
    let hint = match (kind, value) {
        (ArgKind::Duration(_), Value::Text(text)) if is_too_long(text) => {
            return format!(", at most {LONGEST}");
        }
        (ArgKind::Int(_) | ArgKind::Float(_), Value::Text(text)) if fits(kind, &resolve(text)) => {
            ", without quotes"
        }
        (ArgKind::Text(_) | ArgKind::Names(_), Value::Bool(_) | Value::Int(_) | Value::Float(_)) => {
            ", in quotes"
        }
        _ => "",
    };
    hint.to_owned()
}
