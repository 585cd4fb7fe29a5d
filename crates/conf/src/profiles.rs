//! Profiles: plugins that filter and score nodes for the pods of one scheduler name.
use phalanx_framework::conf::{PluginConf, Position, Profile};

use crate::near::{listed, one_of};
use crate::problem::quoted;
use crate::read::Reader;
use crate::yaml::Node;

const OF: &str = "a profile";
const KEYS: [&str; 2] = ["schedulerName", "plugins"];

/// Plugins that do nothing but filter and score nodes, so that they may differ from pod to pod.
const PER_POD: [&str; 7] =
    ["binpack", "fragmentation", "nodegroup", "nodeorder", "predicates", "resource-strategy-fit", "usage"];

impl Reader<'_> {
    pub(crate) fn profiles(&mut self, node: &Node) -> Vec<Profile> {
        let Some(items) = self.list(node, "profiles", "a list of profiles") else { return Vec::new() };
        let mut profiles: Vec<Profile> = Vec::new();
        for item in items {
            let Some(profile) = self.profile(item) else { continue };
            if let Some(first) = profiles.iter().find(|other| other.scheduler_name == profile.scheduler_name)
            {
                let what = format!("schedulerName {} again", quoted(&profile.scheduler_name));
                self.problems.error(
                    profile.at,
                    what,
                    format!("one profile of it; one is in line {}", first.at.line),
                );
            }
            profiles.push(profile);
        }
        profiles
    }

    fn profile(&mut self, node: &Node) -> Option<Profile> {
        let entries = self.mapping(node, OF, "a mapping with schedulerName and plugins")?;
        for (key, _) in entries.iter().filter(|(key, _)| !KEYS.contains(&key.text.as_str())) {
            self.unknown_key(key, &KEYS);
        }
        let find = |name: &str| entries.iter().find(|(key, _)| key.text == name).map(|(_, value)| value);
        let name = find("schedulerName").filter(|value| !value.is_null());
        let Some((name, at)) = name.and_then(|value| Some((value.scalar()?.text.clone(), value.at))) else {
            self.problems.error(
                node.at,
                "a profile without schedulerName",
                "one of those of --scheduler-name",
            );
            return None;
        };
        self.is_served(&name, at);
        let plugins = find("plugins").map(|plugins| self.plugins(plugins, OF)).unwrap_or_default();
        if find("plugins").is_none() {
            self.problems.error(node.at, format!("{OF} without plugins"), "plugins");
        }
        for plugin in &plugins {
            self.per_pod(plugin);
        }
        Some(Profile { scheduler_name: name, plugins, at })
    }

    /// Where the scheduler's names are known.
    fn is_served(&mut self, name: &str, at: Position) {
        let names: Vec<&str> = self.known.scheduler_names.iter().map(String::as_str).collect();
        if !names.is_empty() && !names.contains(&name) {
            let what = format!(
                "schedulerName {} is none of --scheduler-name, so no pod has the profile",
                quoted(name)
            );
            self.problems.warning(at, what, one_of(&names, name));
        } else if names.len() == 1 {
            let what = "a profile of the only --scheduler-name has no effect";
            self.problems.warning(at, what, "its plugins in a tier, or another --scheduler-name beside it");
        }
    }

    fn per_pod(&mut self, plugin: &PluginConf) {
        if !PER_POD.contains(&plugin.name.as_str()) {
            let what = format!("plugin {} in a profile: it is for all pods", plugin.name);
            let expected =
                format!("it in a tier; what only filters and scores nodes may be here: {}", listed(&PER_POD));
            self.problems.error(plugin.at, what, expected);
        }
    }
}
