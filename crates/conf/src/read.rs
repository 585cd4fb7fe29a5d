//! The tree to a configuration: what each part of scheduler.conf must look like.
use std::collections::BTreeMap;
use std::rc::Rc;

use phalanx_framework::conf::{
    ActionConf, Conf, Flag, Flags, MetricsConf, PluginConf, Position, Tier, Value,
};

use crate::args;
use crate::idle;
use crate::known::{Known, Missed, PluginDoc, VOLCANO_ACTIONS, VOLCANO_PLUGINS, names};
use crate::metrics;
use crate::near::{listed, nearest, one_of};
use crate::problem::{Problems, START, quoted};
use crate::together;
use crate::yaml::{Content, Documents, Key, Node};

const ACTIONS_EXPECTED: &str = r#"actions with commas between, such as "enqueue, allocate, backfill""#;
const TOP: [&str; 5] = ["actions", "tiers", "profiles", "configurations", "metrics"];

pub(crate) type Entries = [(Key, Rc<Node>)];

pub(crate) struct Reader<'a> {
    pub(crate) known: &'a Known,
    pub(crate) problems: &'a mut Problems,
}

impl Reader<'_> {
    /// The whole file. Whether it may take effect is for the problems to say.
    pub(crate) fn conf(&mut self, documents: &Documents) -> Conf {
        let mut conf = Conf::default();
        let Some(root) = documents.root.as_deref().filter(|root| !root.is_null()) else {
            self.problems.error(START, "no actions", ACTIONS_EXPECTED);
            return conf;
        };
        let Some(entries) = self.mapping(root, "the file", "a mapping with actions and tiers") else {
            return conf;
        };
        let has = |name: &str| entries.iter().any(|(key, _)| key.text == name);
        if has("kind") && (has("apiVersion") || has("data")) && !has("actions") {
            let under = if has("data") { " that is under its data" } else { "" };
            let expected = format!("the text of scheduler.conf{under}");
            self.problems.error(root.at, "a Kubernetes object", expected);
            return conf;
        }
        for (key, value) in entries {
            let meant = meant(key, entries);
            if !TOP.contains(&key.text.as_str()) {
                self.unknown_key(key, &TOP);
            }
            match meant {
                "actions" => conf.actions = self.actions(value),
                "tiers" => conf.tiers = self.tiers(value),
                "profiles" => conf.profiles = self.profiles(value),
                "configurations" => conf.configurations = self.configurations(value),
                "metrics" => conf.metrics = MetricsConf(metrics::read(value, self.problems)),
                _ => {}
            }
        }
        self.missing(root.at, entries, documents.another);
        if let Some((_, actions)) = entries.iter().find(|(key, _)| key.text == "actions") {
            together::check(&conf, self.known, actions.at, self.problems);
        }
        conf
    }

    /// What only another document has is one problem, and that document is its place.
    fn missing(&mut self, at: Position, entries: &Entries, another: Option<Position>) {
        let has = |name: &str| entries.iter().any(|(key, _)| meant(key, entries) == name);
        match another {
            Some(another) if has("actions") && has("tiers") => {
                self.problems.warning(another, "another document, which is ignored", "one document");
            }
            Some(another) => {
                let what = "another document, which is not read";
                self.problems.error(another, what, "actions and tiers in one document, without --- between");
            }
            None => {
                if !has("actions") {
                    self.problems.error(at, "no actions", ACTIONS_EXPECTED);
                }
                if !has("tiers") {
                    self.problems.error(at, "no tiers, so no plugin takes part", "tiers with plugins");
                }
            }
        }
    }

    fn actions(&mut self, node: &Node) -> Vec<String> {
        let Some(scalar) = node.scalar() else {
            self.problems.error(node.at, format!("actions is {}", node.describe()), ACTIONS_EXPECTED);
            return Vec::new();
        };
        if node.is_null() || scalar.text.trim().is_empty() {
            self.problems.error(node.at, "no actions", ACTIONS_EXPECTED);
            return Vec::new();
        }
        if scalar.text.contains(['\u{201c}', '\u{201d}', '\u{2018}', '\u{2019}']) {
            self.problems.error(node.at, "quotation marks that YAML does not know", "\" or \', or none");
            return Vec::new();
        }
        let mut actions = Vec::new();
        let mut column = 0;
        for part in scalar.text.split(',') {
            let indent = part.chars().take_while(|char| char.is_whitespace()).count();
            let at = scalar
                .text_at
                .map_or(node.at, |at| Position { column: at.column + column + indent as u32, ..at });
            self.action(part.trim(), at);
            if !part.trim().is_empty() && actions.iter().any(|action| action == part.trim()) {
                let what = format!("action {} again", quoted(part.trim()));
                self.problems.warning(at, what, "each action once; it runs twice in each cycle");
            }
            actions.push(part.trim().to_owned());
            column += part.chars().count() as u32 + 1;
        }
        self.placing(node.at, &actions);
        actions
    }

    fn action(&mut self, name: &str, at: Position) {
        if name.is_empty() {
            self.problems.error(at, "an action without a name", ACTIONS_EXPECTED);
        } else if self.known.action(name).is_none() {
            let words = name.split(|one: char| one.is_whitespace() || ";|/\u{ff0c}\u{3001}".contains(one));
            let known = words.filter(|word| self.known.action(word).is_some()).count();
            let expected = if known > 1 {
                ACTIONS_EXPECTED.to_owned()
            } else {
                one_of(&names(&self.known.actions), name)
            };
            self.problems.error(at, unknown("action", name, &VOLCANO_ACTIONS), expected);
        }
    }

    /// Warns of missing actions without which some pods are never placed; that may be intended.
    fn placing(&mut self, at: Position, actions: &[String]) {
        if actions.iter().any(|action| self.known.action(action).is_none()) {
            return;
        }
        for (action, pods) in [("allocate", "any resource"), ("backfill", "nothing")] {
            if !actions.iter().any(|name| name == action) {
                let what = format!("no action {action}, so nothing places pods that request {pods}");
                self.problems.warning(at, what, format!("{action} among the actions"));
            }
        }
    }

    fn tiers(&mut self, node: &Node) -> Vec<Tier> {
        let Some(items) = self.list(node, "tiers", "a list of tiers") else { return Vec::new() };
        if items.is_empty() {
            self.problems.error(node.at, "no tiers, so no plugin takes part", "tiers with plugins");
        }
        // A tier of which no plugin is known says nothing.
        let tiers = items.iter().map(|item| self.tier(item)).filter(|tier| !tier.plugins.is_empty());
        let tiers: Vec<Tier> = tiers.collect();
        self.repeated(&tiers);
        self.missed(node.at, &tiers);
        self.shares(&tiers);
        tiers
    }

    fn tier(&mut self, node: &Node) -> Tier {
        let mut tier = Tier::default();
        let Some(entries) = self.mapping(node, "a tier", "a mapping with plugins") else { return tier };
        for (key, _) in entries.iter().filter(|(key, _)| key.text != "plugins") {
            self.unknown_key(key, &["plugins"]);
        }
        // A mistyped key is one problem: the value is read as that of the key that was meant.
        let exact = entries.iter().find(|(key, _)| key.text == "plugins");
        let meant = || entries.iter().find(|(key, _)| nearest(&["plugins"], &key.text).is_some());
        match exact.or_else(meant) {
            Some((_, plugins)) => tier.plugins = self.plugins(plugins, "a tier"),
            None => self.problems.error(node.at, "a tier without plugins", "plugins"),
        }
        self.hierarchy(&tier);
        tier
    }

    /// Volcano's rule: both would order queues, by different shares.
    fn hierarchy(&mut self, tier: &Tier) {
        let hdrf =
            tier.plugins.iter().find(|plugin| plugin.name == "drf" && plugin.flags.on(Flag::Hierarchy));
        let proportion = tier.plugins.iter().any(|plugin| plugin.name == "proportion");
        if let (Some(drf), true) = (hdrf, proportion) {
            let what = "drf with enableHierarchy and proportion in the same tier";
            self.problems.error(drf.at, what, "one of them, or each in a tier of its own");
        }
    }

    /// Two plugins that divide the cluster among queues, each in its own way; and what matters in a tree of queues
    /// only.
    fn shares(&mut self, tiers: &[Tier]) {
        let find =
            |name: &str| tiers.iter().flat_map(|tier| &tier.plugins).find(|plugin| plugin.name == name);
        let Some(capacity) = find("capacity") else { return };
        if let Some(proportion) = find("proportion") {
            let (first, second) =
                if capacity.at < proportion.at { (capacity, proportion) } else { (proportion, capacity) };
            let what =
                format!("plugin {} beside {}, which is in line {}", second.name, first.name, first.at.line);
            self.problems.warning(second.at, what, "one of them, for both divide the cluster among queues");
        }
        let Some(level) = capacity.args.0.get("ancestorReclaimLevel") else { return };
        if !capacity.flags.on(Flag::Hierarchy) && level.value != Value::Int(0) {
            let what = "ancestorReclaimLevel without enableHierarchy has no effect";
            self.problems.warning(level.at, what, "enableHierarchy: true on plugin capacity");
        }
    }

    /// Plugins whose absence shows only in wrong decisions; the flag is that of what is missed. A file without any
    /// plugin has a problem of its own, and with an error the plugin may be there.
    fn missed(&mut self, at: Position, tiers: &[Tier]) {
        if self.problems.any_error() || tiers.iter().all(|tier| tier.plugins.is_empty()) {
            return;
        }
        let find =
            |name: &str| tiers.iter().flat_map(|tier| &tier.plugins).find(|plugin| plugin.name == name);
        for Missed { plugin: name, flag, without } in &self.known.missed {
            match find(name) {
                None => {
                    let what = format!("no plugin {name}, so {without}");
                    self.problems.warning(at, what, format!("{name} among the plugins"));
                }
                Some(plugin) if !plugin.flags.on(*flag) => {
                    let key = key_of(*flag);
                    let what = format!("plugin {name} with {key}: false, so {without}");
                    self.problems.warning(plugin.at, what, format!("{key}: true"));
                }
                Some(_) => {}
            }
        }
    }

    /// Reports a plugin that is configured twice: each instance would keep sums of its own. One that is misspelt is no
    /// second one.
    fn repeated(&mut self, tiers: &[Tier]) {
        let mut first = BTreeMap::new();
        let plugins = tiers.iter().flat_map(|tier| &tier.plugins);
        let plugins: Vec<_> = plugins.filter(|plugin| !self.problems.error_at(plugin.at)).collect();
        for plugin in plugins {
            if let Some(Position { line, .. }) = first.insert(plugin.name.as_str(), plugin.at) {
                let what = format!("plugin {} again", plugin.name);
                self.problems.warning(plugin.at, what, format!("each plugin once; one is in line {line}"));
            }
        }
    }

    /// The plugins of a tier or a profile.
    pub(crate) fn plugins(&mut self, node: &Node, of: &str) -> Vec<PluginConf> {
        let Some(items) = self.list(node, "plugins", "a list of plugins") else { return Vec::new() };
        if items.is_empty() {
            self.problems.error(node.at, format!("{of} without plugins"), "plugins");
        }
        items.iter().filter_map(|item| self.plugin(item)).collect()
    }

    /// An unknown plugin is skipped with a warning; a misspelt one is an error, since its policy would silently be
    /// missing. Returns the plugin that was probably meant, so that the rest of the file is read under that name.
    fn unknown_plugin(&mut self, name: &str, at: Position) -> Option<PluginDoc> {
        let (known, what) = (names(&self.known.plugins), unknown("plugin", name, &VOLCANO_PLUGINS));
        if VOLCANO_PLUGINS.contains(&name) {
            self.problems.unsupported(at, format!("{what}, skipped"), listed(&known));
            return None;
        }
        let meant = nearest(&known, name).and_then(|meant| self.known.plugin(meant));
        if meant.is_some() {
            self.problems.error(at, what, one_of(&known, name));
        } else {
            self.problems.warning(at, format!("{what}, skipped"), one_of(&known, name));
        }
        meant
    }

    /// `None` when it cannot take part.
    fn plugin(&mut self, node: &Node) -> Option<PluginConf> {
        if let Some(text) = node.scalar().map(|scalar| &scalar.text).filter(|text| text.starts_with("name:"))
        {
            let (what, right) =
                (format!("a plugin is the text {}", quoted(text)), text.replacen(':', ": ", 1));
            self.problems.error(node.at, what, format!("a space behind the colon: {right}"));
            return None;
        }
        let entries = self.mapping(node, "a plugin", "a mapping with a name")?;
        if let Some((key, _)) = entries.iter().find(|(key, _)| key.text == "plugins") {
            let expected = "- plugins: in the column of the - of the tier before";
            self.problems.error(key.at, "a tier among the plugins of another", expected);
            return None;
        }
        let (name, at) = self.name(node, entries, "plugin")?;
        let known = self.known.plugin(&name).or_else(|| self.unknown_plugin(&name, at));
        let name = known.map_or(name, |doc| doc.name.to_owned());
        let mut plugin = PluginConf { name, at, ..PluginConf::default() };
        for (key, value) in entries {
            match (key.text.as_str(), known) {
                ("name", _) | ("arguments", None) => {}
                ("arguments", Some(doc)) => {
                    plugin.args = args::read(&format!("plugin {}", doc.name), doc.args, value, self.problems);
                    idle::check(&plugin, value, self.problems);
                }
                (_, Some(doc)) if args::find(doc.args, &key.text).is_some() => self.misplaced(key),
                _ => self.flag(key, value, &mut plugin.flags),
            }
        }
        known.map(|_| plugin)
    }

    /// Volcano passes over it as well, and some of its published examples are written like this.
    fn misplaced(&mut self, key: &Key) {
        let what = format!("argument {} beside arguments has no effect", quoted(&key.text));
        self.problems.warning(key.at, what, "it under arguments, indented by two more spaces");
    }

    fn flag(&mut self, key: &Key, value: &Node, flags: &mut Flags) {
        let Some((flag, name)) = Flag::ALL.into_iter().find(|(_, name)| *name == key.text) else {
            let keys: Vec<_> =
                ["name", "arguments"].into_iter().chain(Flag::ALL.map(|(_, name)| name)).collect();
            return if let Some(now) = formerly(&key.text) {
                let what = format!("{} is a flag of early versions of Volcano, and has no effect", key.text);
                self.problems.unsupported(key.at, what, format!("{now}: false"));
            } else {
                self.unknown_key(key, &keys);
            };
        };
        match value.scalar().map(|scalar| &scalar.value) {
            Some(Value::Bool(on)) => {
                flags.set(flag, *on);
                if *on && !flag.has_effect() {
                    let what = format!("{name} has no effect, for nothing asks for it");
                    self.problems.unsupported(key.at, what, "no such key, or false");
                }
            }
            Some(Value::Null) => {
                self.problems.warning(key.at, format!("{name} is empty"), "true or false; its default stays");
            }
            Some(Value::Text(text)) if phalanx_framework::conf::parse_bool(text).is_some() => {
                self.problems.error(
                    value.at,
                    format!("{name} is {}", value.describe()),
                    "true or false, without quotes",
                );
            }
            _ => self.problems.error(value.at, format!("{name} is {}", value.describe()), "true or false"),
        }
    }

    fn configurations(&mut self, node: &Node) -> Vec<ActionConf> {
        let Some(items) = self.list(node, "configurations", "a list of actions' arguments") else {
            return Vec::new();
        };
        let mut configurations: Vec<ActionConf> = Vec::new();
        for item in items {
            let Some(conf) = self.configuration(item) else { continue };
            match configurations.iter().find(|other| other.name == conf.name) {
                Some(first) => {
                    let what = format!("arguments of action {} again, ignored", conf.name);
                    let expected = format!("each action once; the first is in line {}", first.at.line);
                    self.problems.warning(conf.at, what, expected);
                }
                None => configurations.push(conf),
            }
        }
        configurations
    }

    fn configuration(&mut self, node: &Node) -> Option<ActionConf> {
        let entries = self.mapping(node, "a configuration", "a mapping with name and arguments")?;
        let (name, at) = self.name(node, entries, "action")?;
        let known = self.known.action(&name);
        if known.is_none() {
            let what = format!("{}, skipped", unknown("action", &name, &VOLCANO_ACTIONS));
            let known = names(&self.known.actions);
            if VOLCANO_ACTIONS.contains(&&*name) {
                self.problems.unsupported(at, what, listed(&known));
            } else {
                self.problems.warning(at, what, one_of(&known, &name));
            }
        }
        let mut conf = ActionConf { name, at, ..ActionConf::default() };
        for (key, value) in entries {
            match (key.text.as_str(), known) {
                ("name", _) | ("arguments", None) => {}
                ("arguments", Some(doc)) => {
                    conf.args = args::read(&format!("action {}", doc.name), doc.args, value, self.problems);
                }
                _ => self.unknown_key(key, &["name", "arguments"]),
            }
        }
        known.map(|_| conf)
    }

    /// The name of a plugin or an action; an error when there is none.
    fn name(&mut self, node: &Node, entries: &Entries, of: &str) -> Option<(String, Position)> {
        let expected = format!("the name of {} {of}", if of == "action" { "an" } else { "a" });
        let Some((_, value)) = entries.iter().find(|(key, _)| key.text == "name") else {
            self.problems.error(node.at, "no name", expected);
            return None;
        };
        match value.scalar() {
            Some(scalar) if !value.is_null() => Some((scalar.text.clone(), value.at)),
            _ => {
                self.problems.error(value.at, format!("name is {}", value.describe()), expected);
                None
            }
        }
    }

    /// What it was to say does not count: with `plugin` for `plugins`, gangs would start in parts.
    pub(crate) fn unknown_key(&mut self, key: &Key, known: &[&str]) {
        self.problems.error(key.at, format!("unknown key {}", quoted(&key.text)), one_of(known, &key.text));
    }

    pub(crate) fn mapping<'n>(&mut self, node: &'n Node, what: &str, expected: &str) -> Option<&'n Entries> {
        if let Content::Map(entries) = &node.content {
            return Some(entries);
        }
        self.problems.error(node.at, format!("{what} is {}", node.describe()), expected);
        None
    }

    /// Nothing is an empty list, as in Go.
    pub(crate) fn list<'n>(&mut self, node: &'n Node, what: &str, expected: &str) -> Option<&'n [Rc<Node>]> {
        match &node.content {
            Content::List(items) => Some(items),
            _ if node.is_null() => Some(&[]),
            _ => {
                self.problems.error(node.at, format!("{what} is {}", node.describe()), expected);
                None
            }
        }
    }
}

/// The top key that an entry is read as: a mistyped one as the key that was meant, unless that one is there too, so
/// that it is one problem.
fn meant<'a>(key: &'a Key, entries: &Entries) -> &'a str {
    let near = nearest(&TOP, &key.text);
    let taken = |name: &str| entries.iter().any(|(other, _)| other.text == name);
    near.filter(|near| !TOP.contains(&key.text.as_str()) && !taken(near)).unwrap_or(&key.text)
}

fn key_of(flag: Flag) -> &'static str {
    Flag::ALL.into_iter().find(|(one, _)| *one == flag).map_or("", |(_, key)| key)
}

/// The flag that took the place of one such as `disableTaskOrder`.
fn formerly(key: &str) -> Option<&'static str> {
    let of = key.strip_prefix("disable")?;
    Flag::ALL.map(|(_, name)| name).into_iter().find(|name| name.strip_prefix("enable") == Some(of))
}

/// The text for an unknown name, or for a name that Volcano has and Phalanx does not support.
fn unknown(what: &str, name: &str, volcano: &[&str]) -> String {
    if volcano.contains(&name) {
        let without = ", without which pods with volcano.sh/vgpu-number get a node and no card,";
        let effect = if name == "deviceshare" { without } else { "" };
        format!("Volcano's {what} {}{effect} is not in this version", quoted(name))
    } else {
        format!("unknown {what} {}", quoted(name))
    }
}
