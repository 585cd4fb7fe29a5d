//! What differs between two configurations, in meaning rather than in text.
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

use phalanx_framework::conf::{Args, Conf, Flag, MetricsConf, PluginConf, Value};

use crate::metrics::may_be_shown;
use crate::render::flow;

/// One line for each difference; none when both do the same. Positions, comments and the order of keys do not count.
pub fn diff(old: &Conf, new: &Conf) -> Vec<String> {
    let mut out = Vec::new();
    if old.actions != new.actions {
        out.push(format!("actions: {} -> {}", old.actions.join(", "), new.actions.join(", ")));
    }
    plugins(&mut out, "", &instances(old), &instances(new));
    order(&mut out, old, new);
    let of = |conf: &Conf| conf.profiles.iter().map(|it| it.scheduler_name.clone()).collect::<BTreeSet<_>>();
    for name in of(old).union(&of(new)) {
        let profile = format!("profile {name}, ");
        plugins(&mut out, &profile, &of_profile(old, name), &of_profile(new, name));
    }
    let names: BTreeSet<&str> =
        old.configurations.iter().chain(&new.configurations).map(|c| c.name.as_str()).collect();
    for name in names {
        arguments(&mut out, &format!("action {name}"), &old.action_args(name), &new.action_args(name));
    }
    metrics(&mut out, &old.metrics, &new.metrics);
    out
}

fn metrics(out: &mut Vec<String>, old: &MetricsConf, new: &MetricsConf) {
    let texts = |conf: &MetricsConf| {
        let shown = conf.iter().filter(|(key, _)| may_be_shown(key));
        shown.map(|(key, text)| (key.clone(), Value::Text(text.clone()))).collect()
    };
    values(out, "metrics", &texts(old), &texts(new));
    let hidden = old.keys().chain(new.keys()).filter(|key| !may_be_shown(key)).collect::<BTreeSet<_>>();
    let changed = hidden.into_iter().filter(|key| old.get(*key) != new.get(*key));
    out.extend(changed.map(|key| format!("metrics: {key} changed (not shown)")));
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
                arguments(out, &owner, &plugin.args, &new_plugin.args);
            }
            None => out.push(format!("{owner}: {place} -> absent")),
        }
    }
    for (key, place, plugin) in new {
        if old.iter().all(|(other, ..)| other != key) {
            let owner = format!("{of}plugin {}", plugin.name);
            out.push(format!("{owner}: absent -> {place}"));
            flags(out, &owner, &PluginConf::default(), plugin);
            arguments(out, &owner, &Args::default(), &plugin.args);
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

fn arguments(out: &mut Vec<String>, owner: &str, old: &Args, new: &Args) {
    let plain = |args: &Args| args.0.iter().map(|(key, arg)| (key.clone(), arg.value.clone())).collect();
    values(out, owner, &plain(old), &plain(new));
}

fn values(out: &mut Vec<String>, owner: &str, old: &BTreeMap<String, Value>, new: &BTreeMap<String, Value>) {
    for key in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
        let (was, is) = (old.get(key), new.get(key));
        if !same(was, is) {
            let shown = |value: Option<&Value>| value.map_or_else(|| "not set".to_owned(), flow);
            out.push(format!("{owner}: {key} {} -> {}", shown(was), shown(is)));
        }
    }
}

/// `1` and `1.0` do the same: what takes a decimal takes an integer.
fn same(old: Option<&Value>, new: Option<&Value>) -> bool {
    match (old, new) {
        (Some(Value::Int(int)), Some(Value::Float(float)))
        | (Some(Value::Float(float)), Some(Value::Int(int))) => *int as f64 == *float,
        _ => old == new,
    }
}
