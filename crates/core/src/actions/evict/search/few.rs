//! Few potential victims: every set of them, the smallest first.
//!
//! Guarantees: of at most [`FEW`] potential victims, a set is found if plugins let one go, in the order of importance or in
//! the reverse order, that leaves room.
use std::collections::BTreeSet;

use super::{JobId, NoEviction, Search, Unit, Victim, proof};

/// Potential victims of which every set is tried.
pub(super) const FEW: usize = 10;

/// Most sets times tasks that are tried.
const MOST_PLACES: usize = 10_000;

impl Search<'_, '_> {
    /// Evicts the first set that may go and leaves room. `None` where there are too many sets.
    pub(super) fn every_set(&mut self, offered: &[Victim], tier: usize) -> Result<Option<bool>, NoEviction> {
        if offered.len() > FEW || self.aim.tasks.len() << offered.len() > MOST_PLACES {
            return Ok(None);
        }
        let mut sets: Vec<usize> = (1..1 << offered.len()).collect();
        sets.sort_by_key(|set| (set.count_ones(), *set));
        for set in sets {
            let victims: Vec<Victim> =
                (0..offered.len()).filter(|at| set & (1 << at) != 0).map(|at| offered[at]).collect();
            self.steps.spend(victims.len())?;
            if self.try_exactly(&victims, tier)? {
                return Ok(Some(true));
            }
        }
        Ok(Some(false))
    }

    /// Evicts these victims if they may go together and leave room.
    fn try_exactly(&mut self, victims: &[Victim], tier: usize) -> Result<bool, NoEviction> {
        let units = if self.of_gangs() { self.bundles(victims) } else { Some(self.units(victims)) };
        let Some(units) = units.filter(|units| self.least(units).is_some()) else { return Ok(false) };
        let reversed = || victims.iter().rev().copied().collect::<Vec<_>>();
        let may_go = self.may_all_go(victims, tier)
            || (self.order_matters() && self.may_all_go(&reversed(), tier));
        Ok(may_go && self.prove(&units)?)
    }

    /// Surplus one by one, and gangs as a whole; `None` where a gang would be broken.
    fn bundles(&self, victims: &[Victim]) -> Option<Vec<Unit>> {
        let world = &*self.session.world;
        let may_break = self.may_break();
        let mut units: Vec<Unit> = Vec::new();
        let jobs: BTreeSet<JobId> = victims.iter().map(|victim| victim.job).collect();
        for job in jobs {
            let lost: Unit = victims.iter().filter(|victim| victim.job == job).copied().collect();
            if proof::can_spare(world, job, &lost) {
                units.extend(lost.iter().map(|victim| Unit::from_slice(&[*victim])));
            } else if may_break && proof::is_all(world, job, lost.len()) {
                units.push(lost);
            } else {
                return None;
            }
        }
        Some(units)
    }
}
