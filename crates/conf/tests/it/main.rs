//! Parsing and checking of scheduler.conf.
mod accepted;
mod files;
mod hostile;
mod problems;
mod ranges;
mod text;

use phalanx_conf::{Doc, Known, Parsed, parse};
use phalanx_framework::conf::{ArgKind, ArgSpec, Conf, Position};

const fn arg(name: &'static str, kind: ArgKind, default: &'static str) -> ArgSpec {
    ArgSpec { name, kind, default, doc: "For these tests." }
}

/// Arguments of every kind; the names are those of Volcano where it has one of the kind.
fn known() -> Known {
    const BINPACK: &[ArgSpec] = &[
        arg("binpack.weight", ArgKind::Int(&[]), "1"),
        arg("binpack.resources", ArgKind::Names(&[]), ""),
        arg("binpack.resources.*", ArgKind::Int(&[]), "1"),
    ];
    const OVERCOMMIT: &[ArgSpec] = &[arg("overcommit-factor", ArgKind::Float(&[]), "1.2")];
    const SLA: &[ArgSpec] = &[arg("sla-waiting-time", ArgKind::Duration(&[]), "")];
    const ESTIMATOR: &[ArgSpec] =
        &[arg("ratio", ArgKind::Float(&[]), "0.7"), arg("be_cpu", ArgKind::Quantity, "250m")];
    const RULE: &[ArgSpec] =
        &[arg("name", ArgKind::Text(&[]), ""), arg("params", ArgKind::Section(WEIGHTS), "")];
    const WEIGHTS: &[ArgSpec] = &[arg("*", ArgKind::Int(&[]), "1")];
    const USAGE: &[ArgSpec] = &[
        arg("thresholds", ArgKind::Map, "{cpu: 80, mem: 80}"),
        arg("strategies", ArgKind::List, "[]"),
        arg("usage.title", ArgKind::Text(&[]), "none"),
        arg("estimator", ArgKind::Section(ESTIMATOR), ""),
        arg("rules", ArgKind::Sections(RULE), ""),
    ];
    const CACHE: &[ArgSpec] = &[arg("predicateErrorCacheEnable", ArgKind::Bool, "true")];
    let doc = |name, args| Doc { name, args };
    Known {
        plugins: vec![
            doc("gang", &[]),
            doc("drf", &[]),
            doc("proportion", &[]),
            doc("binpack", BINPACK),
            doc("overcommit", OVERCOMMIT),
            doc("sla", SLA),
            doc("usage", USAGE),
        ],
        actions: vec![doc("enqueue", &[]), doc("allocate", CACHE), doc("backfill", CACHE)],
        ..Known::default()
    }
}

fn read(text: &str) -> Parsed {
    parse(text, &known())
}

/// The configuration of a text without problems.
fn good(text: &str) -> Conf {
    let parsed = read(text);
    assert_eq!(lines(&parsed), [""; 0], "{text}");
    parsed.conf.expect("no problem, so there is a configuration")
}

/// Each problem as one line, with its severity.
fn lines(parsed: &Parsed) -> Vec<String> {
    parsed.problems.iter().map(|problem| format!("{}: {problem}", problem.severity)).collect()
}

/// A plugin with these lines in it, on the lines after the fourth.
fn with_plugin(name: &str, lines: &[&str]) -> String {
    let head = format!("actions: allocate, backfill\ntiers:\n- plugins:\n  - name: {name}\n");
    head + &lines.iter().flat_map(|line| ["    ", line, "\n"]).collect::<String>()
}

/// The same configuration as if it came from no file.
fn without_positions(mut conf: Conf) -> Conf {
    let nowhere = Position::default();
    for plugin in conf.tiers.iter_mut().flat_map(|tier| &mut tier.plugins) {
        plugin.at = nowhere;
        plugin.args.0.values_mut().for_each(|arg| arg.at = nowhere);
    }
    for action in &mut conf.configurations {
        action.at = nowhere;
        action.args.0.values_mut().for_each(|arg| arg.at = nowhere);
    }
    conf
}
