//! HyperNodes and the PodGroups in them.
use std::collections::BTreeMap;

use serde::Serialize;

use super::table::columns;
use super::{Report, people};

/// The number of HyperNodes in the table.
const ROWS_MAX: usize = 40;
/// The number of PodGroups, and of sub-groups, that are named for a HyperNode; above it only their number is shown.
const GROUPS_MAX: usize = 4;

/// A HyperNode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HyperNodeOutcome {
    /// The tier.
    pub tier: u32,
    /// Its `tierName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier_name: Option<String>,
    /// The HyperNode that it is a member of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// How many nodes are in it, those of its members included.
    pub nodes: usize,
    /// What these nodes have, in canonical quantities.
    pub allocatable: BTreeMap<String, String>,
    /// What pods use of it.
    pub used: BTreeMap<String, String>,
    /// The PodGroups of which this is the lowest HyperNode that holds all their pods with nodes.
    pub pod_groups: Vec<String>,
    /// The sub-groups of which this is the lowest HyperNode: the PodGroup, and their name in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sub_groups: Vec<String>,
}

impl HyperNodeOutcome {
    /// `nvidia.com/gpu 12 of 64, cpu 96 of 256`: extended resources; CPU and memory as far as pods use them, or where
    /// there is nothing else.
    fn use_of(&self, shown: impl Fn(&BTreeMap<String, String>) -> String) -> String {
        let (extended, others): (Vec<&String>, Vec<&String>) =
            self.allocatable.keys().partition(|name| name.contains('/'));
        let all = extended.is_empty();
        let usual = others.into_iter().filter(|name| ["cpu", "memory"].contains(&name.as_str()));
        let usual: Vec<&String> = usual.filter(|name| all || self.used.contains_key(*name)).collect();
        let one = |name: &String, of: &BTreeMap<String, String>| {
            of.get(name).map(|amount| (name.clone(), amount.clone())).into_iter().collect()
        };
        let each = extended.into_iter().chain(usual).map(|name| {
            let all = shown(&one(name, &self.allocatable));
            let used =
                self.used.get(name).map_or_else(|| format!("{name} 0"), |_| shown(&one(name, &self.used)));
            format!("{used} of {}", all.strip_prefix(name.as_str()).unwrap_or(&all).trim_start())
        });
        each.collect::<Vec<_>>().join(", ")
    }
}

impl Report {
    /// The tree of HyperNodes; tiers from the highest on, as far as there is room for them.
    pub(super) fn hyper_node_table(&self, wide: bool) -> String {
        let lowest = if wide { 0 } else { self.lowest_tier_shown() };
        let mut rows = Vec::new();
        let roots = self.hyper_nodes.iter().filter(|(_, it)| it.parent.is_none());
        for (name, _) in roots {
            self.add_rows(name, 0, lowest, wide, &mut rows);
        }
        let left_out = self.hyper_nodes.len() - rows.len();
        let ended = self.busiest.is_some() && !rows.is_empty();
        let when = if ended { "HyperNodes at the end; PodGroups stand where they ran:\n" } else { "" };
        let table = when.to_owned() + &columns(&["HYPERNODE", "TIER", "NODES", "USED", "PODGROUPS"], rows);
        match left_out {
            0 => table,
            some => format!("{table}... and {some} HyperNodes of lower tiers (-o wide has all)\n"),
        }
    }

    /// The lowest tier that is shown: HyperNodes of this tier and higher ones are few enough, or it is the highest.
    fn lowest_tier_shown(&self) -> u32 {
        let mut tiers: BTreeMap<u32, usize> = BTreeMap::new();
        self.hyper_nodes.values().for_each(|it| *tiers.entry(it.tier).or_default() += 1);
        let mut rows = 0;
        let few = tiers.iter().rev().take_while(|(_, count)| {
            rows += *count;
            rows <= ROWS_MAX
        });
        let lowest = few.last().or(tiers.last_key_value());
        lowest.map_or(0, |(tier, _)| *tier)
    }

    fn add_rows(&self, name: &str, depth: usize, lowest: u32, wide: bool, rows: &mut Vec<Vec<String>>) {
        let Some(it) = self.hyper_nodes.get(name).filter(|it| it.tier >= lowest) else { return };
        let some = |names: &[String], noun: &str| match names.len() {
            0 => None,
            count if count > GROUPS_MAX && !wide => Some(format!("{count} {noun}")),
            _ => Some(names.join(", ")),
        };
        let groups = [some(&it.pod_groups, "PodGroups"), some(&it.sub_groups, "sub-groups")];
        let groups = groups.into_iter().flatten().collect::<Vec<_>>().join("; ");
        let tier_name = it.tier_name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        rows.push(vec![
            "  ".repeat(depth) + name,
            format!("{}{tier_name}", it.tier),
            it.nodes.to_string(),
            it.use_of(if wide { super::amounts } else { people }),
            if groups.is_empty() { "-".to_owned() } else { groups },
        ]);
        let below = self.hyper_nodes.iter().filter(|(_, child)| child.parent.as_deref() == Some(name));
        for (child, _) in below {
            self.add_rows(child, depth + 1, lowest, wide, rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hyper_node(tier: u32, parent: Option<&str>, groups: &[&str]) -> HyperNodeOutcome {
        let amounts = |of: &[(&str, &str)]| {
            of.iter().map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned())).collect()
        };
        let used = amounts(&[("nvidia.com/gpu", "8"), ("cpu", "24")]);
        HyperNodeOutcome {
            tier,
            tier_name: (tier > 1).then(|| "spine".to_owned()),
            parent: parent.map(str::to_owned),
            nodes: 2,
            allocatable: amounts(&[("nvidia.com/gpu", "16"), ("cpu", "64"), ("memory", "1Ti")]),
            used: if groups.is_empty() { BTreeMap::new() } else { used },
            pod_groups: groups.iter().map(ToString::to_string).collect(),
            sub_groups: groups.iter().map(|group| format!("{group} replica/0")).collect(),
        }
    }

    #[test]
    fn hyper_nodes_are_a_tree_with_the_groups_in_them() {
        let mut report = Report::default();
        report.hyper_nodes.insert("spine".into(), hyper_node(2, None, &[]));
        report.hyper_nodes.insert("rack-1".into(), hyper_node(1, Some("spine"), &["a/g"]));
        report.hyper_nodes.insert("rack-0".into(), hyper_node(1, Some("spine"), &[]));
        let expected = "\
HYPERNODE  TIER       NODES  USED                                  PODGROUPS
spine      2 (spine)  2      nvidia.com/gpu 0 of 16                -
  rack-0   1          2      nvidia.com/gpu 0 of 16                -
  rack-1   1          2      nvidia.com/gpu 8 of 16, cpu 24 of 64  a/g; a/g replica/0
";
        assert_eq!(report.hyper_node_table(false), expected);
    }

    #[test]
    fn many_hyper_nodes_of_a_low_tier_are_counted() {
        let mut report = Report::default();
        report.hyper_nodes.insert("spine".into(), hyper_node(2, None, &[]));
        for at in 0..50 {
            report.hyper_nodes.insert(format!("rack-{at}"), hyper_node(1, Some("spine"), &[]));
        }
        let short = report.hyper_node_table(false);
        assert!(short.ends_with("... and 50 HyperNodes of lower tiers (-o wide has all)\n"), "{short}");
        assert_eq!(report.hyper_node_table(true).lines().count(), 52);
    }
}
