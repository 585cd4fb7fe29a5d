//! A configuration as text that reads back as the same configuration, but for its password.
use std::fmt::Write as _;

use phalanx_cluster::duration::parse_duration;
use phalanx_framework::conf::{ActionConf, ArgSpec, Args, Conf, Flag, Flags, PluginConf, Profile, Value};

use crate::known::{Doc, Known};
use crate::metrics::may_be_shown;
use crate::yaml::resolve;

/// A configuration without what is a default anyway: of flags those that differ.
pub fn render(conf: &Conf) -> String {
    render_from(conf, None)
}

/// The effective configuration: every flag that has an effect written out, and as comments the defaults of the
/// arguments that are not set (a default may depend on other arguments, so it is not written as if somebody had set
/// it).
pub fn render_with_defaults(conf: &Conf, known: &Known) -> String {
    render_from(conf, Some(known))
}

/// With the defaults of what is known, if any.
fn render_from(conf: &Conf, known: Option<&Known>) -> String {
    let mut out = Out::default();
    out.line(0, &format!("actions: {}", double_quoted(&conf.actions.join(", "))));
    tiers(&mut out, conf, known);
    profiles(&mut out, conf, known);
    configurations(&mut out, conf, known);
    if !conf.metrics.is_empty() {
        out.line(0, "metrics:");
        for (key, text) in conf.metrics.iter() {
            if may_be_shown(key) {
                out.line(1, &format!("{}: {}", word(key), double_quoted(text)));
            } else {
                out.line(1, &format!("# {}: not shown", word(key)));
            }
        }
    }
    out.0
}

#[derive(Default)]
struct Out(String);

impl Out {
    fn line(&mut self, indent: usize, text: &str) {
        self.0.extend(std::iter::repeat_n("  ", indent));
        self.0.push_str(text);
        self.0.push('\n');
    }
}

fn tiers(out: &mut Out, conf: &Conf, known: Option<&Known>) {
    out.line(0, if conf.tiers.is_empty() { "tiers: []" } else { "tiers:" });
    for tier in &conf.tiers {
        out.line(0, if tier.plugins.is_empty() { "- plugins: []" } else { "- plugins:" });
        tier.plugins.iter().for_each(|conf| plugin(out, conf, known));
    }
}

fn profiles(out: &mut Out, conf: &Conf, known: Option<&Known>) {
    if !conf.profiles.is_empty() {
        out.line(0, "profiles:");
    }
    for Profile { scheduler_name, plugins, .. } in &conf.profiles {
        out.line(0, &format!("- schedulerName: {}", double_quoted(scheduler_name)));
        out.line(1, if plugins.is_empty() { "plugins: []" } else { "plugins:" });
        for conf in plugins {
            plugin(out, conf, known);
        }
    }
}

fn plugin(out: &mut Out, conf: &PluginConf, known: Option<&Known>) {
    out.line(1, &format!("- name: {}", word(&conf.name)));
    for (flag, key) in Flag::ALL {
        let on = conf.flags.on(flag);
        if (known.is_some() && flag.has_effect()) || on != Flags::default().on(flag) {
            out.line(2, &format!("{key}: {on}"));
        }
    }
    arguments(out, 2, &conf.args, args_of(known.and_then(|known| known.plugin(&conf.name))));
}

fn args_of(doc: Option<Doc>) -> &'static [ArgSpec] {
    doc.map_or(&[], |doc| doc.args)
}

fn configurations(out: &mut Out, conf: &Conf, known: Option<&Known>) {
    if !conf.configurations.is_empty() {
        out.line(0, "configurations:");
    }
    for ActionConf { name, args, .. } in &conf.configurations {
        out.line(0, &format!("- name: {}", word(name)));
        arguments(out, 1, args, args_of(known.and_then(|known| known.action(name))));
    }
    let configured = |name: &str| conf.configurations.iter().any(|conf| conf.name == name);
    let actions = known.map_or(&[][..], |known| &known.actions);
    for doc in actions.iter().filter(|doc| !doc.args.is_empty() && !configured(doc.name)) {
        out.line(0, &format!("# arguments of action {}:", doc.name));
        defaults(out, 0, &Args::default(), doc.args);
    }
}

fn arguments(out: &mut Out, indent: usize, args: &Args, specs: &[ArgSpec]) {
    if !args.0.is_empty() {
        out.line(indent, "arguments:");
    } else if !specs.is_empty() {
        out.line(indent, "# arguments:");
    }
    for (key, arg) in &args.0 {
        out.line(indent + 1, &format!("{}: {}", word(key), flow(&arg.value)));
    }
    defaults(out, indent, args, specs);
}

fn defaults(out: &mut Out, indent: usize, args: &Args, specs: &[ArgSpec]) {
    for spec in specs.iter().filter(|spec| args.get(spec.name).is_none()) {
        out.line(indent, &format!("#   {}: {}", spec.name, spec.default).trim_end().replace('\n', " "));
    }
}

/// A value on one line.
pub(crate) fn flow(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) if number.is_nan() => ".nan".to_owned(),
        Value::Float(number) if number.is_infinite() => {
            if *number > 0.0 { ".inf" } else { "-.inf" }.to_owned()
        }
        Value::Float(number) => format!("{number:?}"),
        Value::Text(text) => word(text),
        Value::List(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Map(entries) => {
            let entries: Vec<_> =
                entries.iter().map(|(key, value)| format!("{}: {}", word(key), flow(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

/// Text without quotes where every YAML reader takes it for text, in quotes elsewhere.
fn word(text: &str) -> String {
    let starts = text.starts_with(|char: char| char.is_ascii_alphabetic());
    let continues = text.chars().all(|char| char.is_ascii_alphanumeric() || "-_./".contains(char));
    let is_text = matches!(resolve(text), Value::Text(_));
    if is_text && continues && (starts || parse_duration(text).is_some()) {
        text.to_owned()
    } else {
        double_quoted(text)
    }
}

fn double_quoted(text: &str) -> String {
    let mut out = String::from('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            '\n' => out.push_str("\\n"),
            // Line and paragraph separators break lines in YAML 1.1; the others are not printable there.
            '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => escape(&mut out, char),
            _ if char.is_control() => escape(&mut out, char),
            _ => out.push(char),
        }
    }
    out + "\""
}

fn escape(out: &mut String, char: char) {
    write!(out, "\\u{:04x}", char as u32).expect("a string takes all text");
}
