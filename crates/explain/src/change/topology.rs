//! A wider network topology.
use std::collections::BTreeSet;

use phalanx_cluster::event::{NetworkTopology, TierLimit};

use super::Waiting;
use super::fix::{Choice, Fix};

impl Waiting<'_> {
    /// The lowest tier with which a job with a hard network topology would run, else that a soft one would do.
    pub(super) fn wider_topology(&self) -> Vec<Choice<'_>> {
        let hard = |topology: &NetworkTopology| matches!(topology, NetworkTopology::Hard(_));
        if !self.group.as_ref().and_then(|group| group.topology.as_ref()).is_some_and(hard) {
            return Vec::new();
        }
        let tiers: BTreeSet<u32> = self.cluster.hyper_nodes.iter().map(|(_, it)| it.tier).collect();
        let wider = tiers.into_iter().map(|tier| {
            let text = format!("with highestTierAllowed {tier} in its networkTopology");
            self.with_topology(text, NetworkTopology::Hard(TierLimit::Number(tier)))
        });
        let soft =
            self.with_topology("with mode soft in its networkTopology".to_owned(), NetworkTopology::Soft);
        vec![Choice::First(wider.chain([soft]).collect())]
    }

    fn with_topology(&self, text: String, topology: NetworkTopology) -> Fix<'_> {
        Fix::new(text, move |cluster| {
            self.with_group(cluster, |group| group.topology = Some(topology.clone()))
        })
    }
}
