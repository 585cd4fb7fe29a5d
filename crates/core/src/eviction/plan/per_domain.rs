//! Strategy *per domain*: the potential victims of one topology domain, one domain after the other.
//!
//! Guarantees: a gang whose members have to stand in one domain gets one, if the potential victims of a domain that may be
//! evicted together in order leave room there.
use super::{Choice, NoEviction, Search, Victim};

impl Search<'_, '_> {
    /// Only those in one topology domain, for a gang that may choose it: one domain after the other, those with the least
    /// to take from first.
    pub(super) fn per_domain(&mut self, useful: &[Victim], tier: usize) -> Result<bool, NoEviction> {
        let cluster = &*self.session.cluster;
        let choice = Choice::of(cluster, &self.preemptor.tasks).filter(|_| !self.preemptor.single);
        let Some(choice) = choice else { return Ok(false) };
        self.steps.scan(useful.len())?;
        let mut domains: Vec<(u32, Vec<Victim>)> = Vec::new();
        for victim in useful {
            let Some(domain) = choice.domain(cluster, victim.node) else { continue };
            match domains.iter_mut().find(|(known, _)| *known == domain) {
                Some((_, victims)) => victims.push(*victim),
                None => domains.push((domain, vec![*victim])),
            }
        }
        // Stable: those whose first victim goes first.
        domains.sort_by_key(|(_, victims)| victims.len());
        for (_, victims) in domains {
            self.steps.scan(4 * victims.len())?;
            let (_, allowed) = self.allowed(&victims, Some(tier)).unwrap_or_default();
            if self.try_list(&allowed)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
