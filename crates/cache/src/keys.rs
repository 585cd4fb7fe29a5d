//! Misspelt keys of annotations and labels.
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::names;
use phalanx_framework::near::nearest;

use crate::Invalid;

/// The prefix of Volcano's keys.
const DOMAINS: [&str; 3] = ["volcano.sh", "scheduling.volcano.sh", "scheduling.k8s.io"];

/// The prefix of Phalanx' own key.
const OURS: &str = "phalanx.sh";

/// Keys without effect that are probably misspelt known keys.
pub(crate) fn misspelt(metadata: &ObjectMeta) -> Vec<Invalid> {
    let fields = [("annotations", &metadata.annotations), ("labels", &metadata.labels)];
    let keys = fields
        .iter()
        .flat_map(|(field, map)| map.iter().flat_map(|map| map.keys()).map(move |key| (field, key)));
    let told = |(field, key): (&&str, &String)| {
        let problem = format!("unknown key, ignored (did you mean {}?)", meant(key)?);
        Some(Invalid { field: format!("metadata.{field}.{key}"), problem })
    };
    keys.filter_map(told).collect()
}

/// The known key that a misspelt key probably means; a key of a newer version of Volcano has none.
fn meant(key: &str) -> Option<&'static str> {
    let (domain, name) = key.split_once('/')?;
    if domain == OURS {
        let own = [names::RUN_SECONDS, names::EXIT_CODES, names::AFTER_SECONDS, names::MANAGED_BY];
        let is_near =
            |known: &&str| known.split_once('/').is_some_and(|(_, known)| nearest(&[known], name).is_some());
        let near = || own.into_iter().find(is_near).unwrap_or(names::RUN_SECONDS);
        return (!own.contains(&key)).then(near);
    }
    let ours = DOMAINS.contains(&domain);
    if !(ours || domain.contains("volcano")) || names::ALL.contains(&key) {
        return None;
    }
    let known = || names::ALL.iter().filter_map(|known| Some((*known, known.split_once('/')?)));
    let known = || known().filter(|(_, (domain, _))| DOMAINS.contains(domain));
    if let Some((known, _)) = known().find(|(_, (_, other))| *other == name) {
        return Some(known);
    }
    let all: Vec<&str> = known().map(|(_, (_, name))| name).collect();
    let near = nearest(&all, name).filter(|near| ours && !is_longer(name, near) && !is_longer(near, name))?;
    known().find(|(_, (_, name))| *name == near).map(|(known, _)| known)
}

/// A longer known key that begins with this one.
fn is_longer(key: &str, than: &str) -> bool {
    key.strip_prefix(than).is_some_and(|rest| rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_keys_are_found_and_other_keys_are_not() {
        for (key, expected) in [
            ("volcano.sh/preemtable", Some("volcano.sh/preemptable")),
            ("volcano.sh/Preemptable", Some("volcano.sh/preemptable")),
            ("scheduling.volcano.sh/preemptable", Some("volcano.sh/preemptable")),
            ("volcano.sh/group-min-member", Some("scheduling.volcano.sh/group-min-member")),
            ("scheduling.k8s.io/groupname", Some("scheduling.k8s.io/group-name")),
            ("scheduling.k8s.io/group_name", Some("scheduling.k8s.io/group-name")),
            ("scheduling.volcano.sh/que-name", Some("scheduling.volcano.sh/queue-name")),
            ("volcano.io/task-spec", Some("volcano.sh/task-spec")),
            ("volcano.sh/cool-down-time", Some("volcano.sh/cooldown-time")),
            ("volcano.sh/network-topology-highest-tier-name", None),
            ("volcano.sh/something-new", None),
            ("volcano.io/something-new", None),
            ("phalanx.sh/run-second", Some("phalanx.sh/run-seconds")),
            ("phalanx.sh/duration", Some("phalanx.sh/run-seconds")),
            ("phalanx.sh/exit-code", Some("phalanx.sh/exit-codes")),
            ("example.com/preemtable", None),
            ("app", None),
        ] {
            assert_eq!(meant(key), expected, "{key}");
        }
        for known in names::ALL {
            assert_eq!(meant(known), None, "{known}");
        }
    }
}
