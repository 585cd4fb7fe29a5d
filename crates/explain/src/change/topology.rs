//! A wider network topology.
use std::collections::BTreeSet;

use phalanx_cluster::event::{NetworkTopology, TierLimit};

use super::{Fix, Remedy, Waiting};

impl Waiting<'_> {
    /// The lowest tier with which a job with a hard network topology would run, else that a soft one would do.
    pub(super) fn wider_topology(&self) -> Vec<Remedy> {
        let hard = |topology: &NetworkTopology| matches!(topology, NetworkTopology::Hard(_));
        if !self.group.as_ref().and_then(|group| group.topology.as_ref()).is_some_and(hard) {
            return Vec::new();
        }
        let tiers: BTreeSet<u32> = self.cluster.hyper_nodes.iter().map(|(_, it)| it.tier).collect();
        let wider = tiers.into_iter().map(|tier| {
            let topology = NetworkTopology::Hard(TierLimit::Number(tier));
            self.with_topology(format!("with highestTierAllowed {tier} in its networkTopology"), &topology)
        });
        let soft = || {
            [self.with_topology("with mode soft in its networkTopology".to_owned(), &NetworkTopology::Soft)]
        };
        let found = self.first_helping(wider).or_else(|| self.first_helping(soft()));
        found.into_iter().collect()
    }

    fn with_topology(&self, text: String, topology: &NetworkTopology) -> Fix {
        Fix::new(text, self.with_group(|group| group.topology = Some(topology.clone())))
    }
}
