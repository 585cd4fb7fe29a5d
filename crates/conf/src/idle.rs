//! Arguments that are well written and have no effect, since they are about names that are not listed.
use std::collections::BTreeSet;

use phalanx_framework::conf::{Arg, Args, PluginConf};

use crate::problem::{Problems, quoted};
use crate::yaml::{Content, Key, Node};

/// Warns of each; `arguments` is the mapping of a plugin, and those that count of it are the plugin's.
pub(crate) fn check(plugin: &PluginConf, arguments: &Node, problems: &mut Problems) {
    match plugin.name.as_str() {
        "binpack" => weights(plugin, arguments, "binpack.resources", problems),
        "network-topology-aware" => {
            weights(plugin, arguments, "hypernode.binpack.resources", problems);
        }
        "resource-strategy-fit" => strategies(arguments, problems),
        _ => {}
    }
}

/// Weights `LIST.NAME` of names that the argument `LIST` does not have.
fn weights(plugin: &PluginConf, arguments: &Node, list: &'static str, problems: &mut Problems) {
    let keys = keys(arguments).filter(|key| plugin.args.get(&key.text).is_some());
    let named = keys.filter_map(|key| Some((key, key.text.strip_prefix(list)?.strip_prefix('.')?)));
    Listed::of(arguments, list).check(named, problems);
}

fn strategies(arguments: &Node, problems: &mut Problems) {
    if let Some(sra) = inner(arguments, "sra") {
        let weights = inner(sra, "resourceWeight").into_iter().flat_map(keys);
        Listed::of(sra, "resources").check(weights.map(|key| (key, key.text.as_str())), problems);
    }
    if let Some(proportional) = inner(arguments, "proportional") {
        let rates = inner(proportional, "resourceProportion").into_iter().flat_map(keys);
        let resource =
            |text: &'_ str| text.strip_suffix(".cpu").or_else(|| text.strip_suffix(".memory")).map(str::len);
        let named = rates.map(|key| (key, &key.text[..resource(&key.text).unwrap_or(key.text.len())]));
        Listed::of(proportional, "resources").check(named, problems);
    }
    // Source: Volcano, which gives such a name no meaning.
    let stars = |key: &&Key| {
        key.text == "*" || key.text.trim_end_matches('*').contains('*') || key.text.ends_with("**")
    };
    for key in inner(arguments, "resources").into_iter().flat_map(keys).filter(stars) {
        problems.warning(
            key.at,
            format!("{} has no effect", quoted(&key.text)),
            "the name of a resource, or the beginning of one and a * at its end",
        );
    }
}

/// The names that an argument lists.
struct Listed {
    list: &'static str,
    names: BTreeSet<String>,
}

impl Listed {
    fn of(mapping: &Node, list: &'static str) -> Self {
        let arg = |node: &Node| Arg { value: node.value(), at: node.at };
        let args = Args(inner(mapping, list).map(|node| (list.to_owned(), arg(node))).into_iter().collect());
        Self { list, names: args.names(list).into_iter().collect() }
    }

    /// Keys, each with the name it is about.
    fn check<'n>(&self, keys: impl Iterator<Item = (&'n Key, &'n str)>, problems: &mut Problems) {
        let list = self.list;
        for (key, name) in keys.filter(|(_, name)| !self.names.contains(*name)) {
            let what = format!("{} has no effect, for {list} does not list {}", key.text, quoted(name));
            let near = crate::nearest(&self.names.iter().map(String::as_str).collect::<Vec<_>>(), name);
            let hint = near.map(|near| format!(" (did you mean {}?)", quoted(near))).unwrap_or_default();
            problems.warning(key.at, what, format!("the name in {list}{hint}"));
        }
    }
}

fn inner<'n>(mapping: &'n Node, name: &str) -> Option<&'n Node> {
    let Content::Map(entries) = &mapping.content else { return None };
    entries.iter().find(|(key, _)| key.text == name).map(|(_, value)| &**value)
}

/// Empty for a value that is no mapping.
fn keys(node: &Node) -> impl Iterator<Item = &Key> {
    let entries = match &node.content {
        Content::Map(entries) => entries.as_slice(),
        _ => &[],
    };
    entries.iter().map(|(key, _)| key)
}
