//! A wider network topology, of the job or of its sub-groups.
use std::collections::BTreeSet;
use std::sync::Arc;

use phalanx_cluster::event::{NetworkTopology, PodGroupInfo, TierLimit};

use super::fix::{Choice, Fix};
use super::{ConfAddition, Waiting};
use crate::topology_faults::NETWORK_TOPOLOGY_AWARE;

/// A field `networkTopology`.
#[derive(Clone, Copy)]
enum Field {
    /// Of the PodGroup.
    Job,
    /// Of this entry of `subGroupPolicy`.
    SubGroup(usize),
}

impl Field {
    fn read(self, group: &PodGroupInfo) -> Option<&NetworkTopology> {
        match self {
            Self::Job => group.topology.as_ref(),
            Self::SubGroup(at) => group.sub_groups[at].topology.as_ref(),
        }
    }

    fn write(self, group: &mut PodGroupInfo, topology: NetworkTopology) {
        match self {
            Self::Job => group.topology = Some(topology),
            Self::SubGroup(at) => group.sub_groups[at].topology = Some(topology),
        }
    }

    fn text(self, group: &PodGroupInfo) -> String {
        match self {
            Self::Job => "its networkTopology".to_owned(),
            Self::SubGroup(at) => {
                format!("the networkTopology of subGroupPolicy {}", group.sub_groups[at].name)
            }
        }
    }
}

impl Waiting<'_> {
    /// The plugin that honours topologies; and for each hard one of the job, the lowest tier with which the job would
    /// run, else that a soft one would do.
    pub(super) fn topologies(&self) -> Vec<Choice<'_>> {
        let Some(group) = &self.group else { return Vec::new() };
        let of_sub_groups = (0..group.sub_groups.len()).map(Field::SubGroup);
        let fields = std::iter::once(Field::Job).chain(of_sub_groups);
        let wider: Vec<Choice<'_>> = fields.filter_map(|field| self.wider(group, field)).collect();
        let lacks = !wider.is_empty() && !self.conf.has_plugin(NETWORK_TOPOLOGY_AWARE);
        let plugin = lacks.then(|| Choice::one(Fix::conf(ConfAddition::Plugin(NETWORK_TOPOLOGY_AWARE))));
        plugin.into_iter().chain(wider).collect()
    }

    fn wider(&self, group: &PodGroupInfo, field: Field) -> Option<Choice<'_>> {
        let NetworkTopology::Hard(limit) = field.read(group)? else { return None };
        let of = field.text(group);
        let hard = self.limits_like(limit).into_iter().map(|limit| {
            let text = match &limit {
                TierLimit::Number(tier) => format!("with highestTierAllowed {tier} in {of}"),
                TierLimit::Name(name) => format!("with highestTierName {name} in {of}"),
            };
            self.with_topology(text, field, NetworkTopology::Hard(limit))
        });
        let soft = self.with_topology(format!("with mode soft in {of}"), field, NetworkTopology::Soft);
        Some(Choice::First(hard.chain([soft]).collect()))
    }

    /// All tiers that there are, the lowest first, by number or by name as the job has it.
    fn limits_like(&self, limit: &TierLimit) -> Vec<TierLimit> {
        let hyper_nodes = || self.cluster.hyper_nodes.iter().map(|(_, it)| it);
        match limit {
            TierLimit::Number(_) => {
                let tiers: BTreeSet<u32> = hyper_nodes().map(|it| it.tier).collect();
                tiers.into_iter().map(TierLimit::Number).collect()
            }
            TierLimit::Name(_) => {
                let names = hyper_nodes().filter_map(|it| Some((it.tier, it.tier_name.clone()?)));
                let names: BTreeSet<(u32, Arc<str>)> = names.collect();
                names.into_iter().map(|(_, name)| TierLimit::Name(name)).collect()
            }
        }
    }

    fn with_topology(&self, text: String, field: Field, topology: NetworkTopology) -> Fix<'_> {
        Fix::new(text, move |cluster| self.with_group(cluster, |group| field.write(group, topology.clone())))
    }
}
