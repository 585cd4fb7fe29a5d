//! What differs between two configurations, in meaning rather than in text.
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

use phalanx_framework::conf::{ArgSpec, Args, Conf, Flag, MetricsConf, PluginConf, Value};

use crate::args::{default_of, find, meaning};
use crate::known::{Doc, Known};
use crate::metrics::{KEYS, may_be_shown};
use crate::render::flow;

/// One line for each difference; none when both do the same. Positions, comments, the order of keys and whether a
/// default is written do not count.
pub fn diff(old: &Conf, new: &Conf, known: &Known) -> Vec<String> {
    let mut out = Vec::new();
    if old.actions != new.actions {
        out.push(format!("actions: {} -> {}", old.actions.join(", "), new.actions.join(", ")));
    }
    plugins(&mut out, "", known, &instances(old), &instances(new));
    order(&mut out, old, new);
    let of = |conf: &Conf| conf.profiles.iter().map(|it| it.scheduler_name.clone()).collect::<BTreeSet<_>>();
    for name in of(old).union(&of(new)) {
        let profile = format!("profile {name}, ");
        plugins(&mut out, &profile, known, &of_profile(old, name), &of_profile(new, name));
    }
    let names: BTreeSet<&str> =
        old.configurations.iter().chain(&new.configurations).map(|c| c.name.as_str()).collect();
    for name in names {
        let args = [old, new].map(|conf| conf.action_args(name));
        arguments(&mut out, &format!("action {name}"), known.action(name), &args);
    }
    metrics(&mut out, &old.metrics, &new.metrics);
    out
}

fn metrics(out: &mut Vec<String>, old: &MetricsConf, new: &MetricsConf) {
    let keys = old.keys().chain(new.keys()).collect::<BTreeSet<_>>();
    let default = |key: &str| {
        KEYS.iter().find(|known| known.name == key).map(|known| known.default).filter(|text| !text.is_empty())
    };
    for key in keys {
        let [was, is] = [old, new].map(|conf| conf.get(key).map(String::as_str));
        if was.or(default(key)) == is.or(default(key)) {
        } else if may_be_shown(key) {
            let shown = |text: Option<&str>| {
                let value = |text: &str| Value::Text(text.to_owned());
                either(text.map(value).as_ref(), default(key).map(value))
            };
            out.push(format!("metrics: {key} {} -> {}", shown(was), shown(is)));
        } else {
            out.push(format!("metrics: {key} changed (not shown)"));
        }
    }
}

/// A plugin's name, and which of its instances it is.
type Instance<'a> = (&'a str, usize);

/// The number of a tier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TierNumber(usize);

impl Display for TierNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tier {}", self.0)
    }
}

/// Each plugin with its tier, in the order of the file.
fn instances(conf: &Conf) -> Vec<(Instance<'_>, TierNumber, &PluginConf)> {
    let mut seen = BTreeMap::new();
    let tiers = conf.tiers.iter().zip(1..);
    tiers
        .flat_map(|(tier, number)| tier.plugins.iter().map(move |plugin| (number, plugin)))
        .map(|(tier, plugin)| {
            let count = seen.entry(plugin.name.as_str()).or_insert(0);
            *count += 1;
            ((plugin.name.as_str(), *count), TierNumber(tier), plugin)
        })
        .collect()
}

/// The plugins of a profile, which has no tiers.
fn of_profile<'a>(conf: &'a Conf, name: &str) -> Vec<(Instance<'a>, &'static str, &'a PluginConf)> {
    let found = conf.profiles.iter().filter(|profile| profile.scheduler_name == name);
    found.flat_map(|it| &it.plugins).map(|plugin| ((plugin.name.as_str(), 1), "present", plugin)).collect()
}

/// The differences of plugins, each with its place.
fn plugins<P: Display + PartialEq>(
    out: &mut Vec<String>,
    of: &str,
    known: &Known,
    old: &[(Instance<'_>, P, &PluginConf)],
    new: &[(Instance<'_>, P, &PluginConf)],
) {
    for (key, place, plugin) in old {
        let owner = format!("{of}plugin {}", plugin.name);
        match new.iter().find(|(other, ..)| other == key) {
            Some((_, new_place, new_plugin)) => {
                if place != new_place {
                    out.push(format!("{owner}: {place} -> {new_place}"));
                }
                flags(out, &owner, plugin, new_plugin);
                let args = [plugin.args.clone(), new_plugin.args.clone()];
                arguments(out, &owner, known.plugin(&plugin.name), &args);
            }
            None => out.push(format!("{owner}: {place} -> absent")),
        }
    }
    for (key, place, plugin) in new {
        if old.iter().all(|(other, ..)| other != key) {
            let owner = format!("{of}plugin {}", plugin.name);
            out.push(format!("{owner}: absent -> {place}"));
            flags(out, &owner, &PluginConf::default(), plugin);
            let args = [Args::default(), plugin.args.clone()];
            arguments(out, &owner, known.plugin(&plugin.name), &args);
        }
    }
}

fn flags(out: &mut Vec<String>, owner: &str, old: &PluginConf, new: &PluginConf) {
    for (flag, key) in Flag::ALL {
        let (was, is) = (old.flags.on(flag), new.flags.on(flag));
        if was != is {
            out.push(format!("{owner}: {key} {was} -> {is}"));
        }
    }
}

/// The order of the plugins that are in the same tier of both.
fn order(out: &mut Vec<String>, old: &Conf, new: &Conf) {
    let (old, new) = (instances(old), instances(new));
    let common = |of: &[(Instance<'_>, TierNumber, &PluginConf)],
                  tier: TierNumber,
                  other: &[(Instance<'_>, TierNumber, &PluginConf)]| {
        of.iter()
            .filter(|(key, number, _)| {
                *number == tier && other.iter().any(|(k, n, _)| k == key && n == number)
            })
            .map(|(_, _, plugin)| plugin.name.clone())
            .collect::<Vec<_>>()
    };
    for tier in old.iter().map(|(_, tier, _)| *tier).collect::<BTreeSet<_>>() {
        let (was, is) = (common(&old, tier, &new), common(&new, tier, &old));
        if was != is {
            out.push(format!("{tier}: order {} -> {}", was.join(", "), is.join(", ")));
        }
    }
}

/// The differences of the arguments of a plugin or an action.
fn arguments(out: &mut Vec<String>, owner: &str, doc: Option<Doc>, [old, new]: &[Args; 2]) {
    let specs: &[ArgSpec] = doc.map_or(&[], |doc| doc.args);
    for key in old.0.keys().chain(new.0.keys()).collect::<BTreeSet<_>>() {
        let (spec, was, is) = (find(specs, key), old.get(key), new.get(key));
        let means =
            |written: Option<&Value>| spec.map_or_else(|| written.cloned(), |spec| meaning(spec, written));
        if means(was) != means(is) {
            let shown = |written| either(written, spec.and_then(default_of));
            out.push(format!("{owner}: {key} {} -> {}", shown(was), shown(is)));
        }
    }
}

/// What was written, or else the default.
fn either(written: Option<&Value>, default: Option<Value>) -> String {
    match (written, default) {
        (Some(value), _) => flow(value),
        (None, Some(default)) => format!("{} (default)", flow(&default)),
        (None, None) => "not set".to_owned(),
    }
}
