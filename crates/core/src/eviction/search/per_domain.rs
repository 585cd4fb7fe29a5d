//! Strategy *per domain*: the potential victims of one topology domain, one domain after the other.
//!
//! Guarantees: a gang whose members have to stand in one domain gets one, if the potential victims of a domain that may
//! be evicted together in order leave room there.
use std::collections::BTreeMap;

use super::{Choice, NoEviction, Offer, Plan, Victim, VictimSearch};

impl VictimSearch<'_, '_> {
    /// Domains with the fewest potential victims first.
    pub(super) fn per_domain(&mut self, offer: &Offer) -> Result<Option<Plan>, NoEviction> {
        let cluster = &*self.session.cluster;
        let choice = Choice::of(cluster, &self.preemptor.tasks).filter(|_| !self.preemptor.grows);
        let Some(choice) = choice.filter(|_| offer.limited) else { return Ok(None) };
        self.steps.scan(offer.useful.len())?;
        let mut domains: BTreeMap<u32, (usize, Vec<Victim>)> = BTreeMap::new();
        for (rank, victim) in offer.useful.iter().enumerate() {
            let Some(domain) = choice.domain(cluster, victim.node) else { continue };
            domains.entry(domain).or_insert_with(|| (rank, Vec::new())).1.push(*victim);
        }
        let mut domains: Vec<(usize, Vec<Victim>)> = domains.into_values().collect();
        domains.sort_by_key(|(first, victims)| (victims.len(), *first));
        for (_, victims) in domains {
            self.steps.scan(4 * victims.len())?;
            let found = self.try_allowed(&victims)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}
