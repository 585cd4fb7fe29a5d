//! Arguments that are well written and have no effect, or another than they say.
use std::collections::BTreeSet;

use phalanx_core::conf::{PluginConf, Value};

use crate::problem::{Problems, quoted};

/// The names that `binpack.resources` lists, and what their weights begin with.
const BINPACK: (&str, &str) = ("binpack.resources", "binpack.resources.");
const OVERCOMMIT: &str = "overcommit-factor";

/// Warns of each.
pub(crate) fn check(plugin: &PluginConf, problems: &mut Problems) {
    match plugin.name.as_str() {
        "binpack" => unlisted(plugin, problems),
        "overcommit" => too_small(plugin, problems),
        _ => {}
    }
}

fn unlisted(plugin: &PluginConf, problems: &mut Problems) {
    let (list, prefix) = BINPACK;
    let listed: BTreeSet<String> = plugin.args.names(list).into_iter().collect();
    for (key, arg) in &plugin.args.0 {
        let Some(name) = key.strip_prefix(prefix).filter(|name| !listed.contains(*name)) else { continue };
        let what = format!("{key} has no effect, for {list} does not list {}", quoted(name));
        let expected = match crate::nearest(&listed.iter().map(String::as_str).collect::<Vec<_>>(), name) {
            Some(near) => format!("the name in {list} (did you mean {}?)", quoted(near)),
            None => format!("the name in {list}"),
        };
        problems.warning(arg.at, what, expected);
    }
}

/// Volcano's rule: what admits less than there is is taken for a slip.
fn too_small(plugin: &PluginConf, problems: &mut Problems) {
    let Some(arg) = plugin.args.0.get(OVERCOMMIT) else { return };
    let factor = match arg.value {
        Value::Int(factor) => factor as f64,
        Value::Float(factor) => factor,
        _ => return,
    };
    if factor < 1.0 {
        let what = format!("{OVERCOMMIT} is {factor}, below 1; 1.2 is taken instead");
        problems.warning(arg.at, what, "1 or more");
    }
}
