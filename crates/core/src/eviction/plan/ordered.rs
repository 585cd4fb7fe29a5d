//! Strategy *ordered*: all potential victims in order; where those are not enough, all but the pods that the gang asks to be
//! near; where there are few, every set of them, the smallest first.
//!
//! Guarantees: victims are found if those that may be evicted together in order leave room. Of at most [`FEW`] potential
//! victims, a set is found if plugins permit one, in the order or in its reverse, that leaves room.
use std::collections::BTreeSet;

use super::{ClassId, JobId, NoEviction, Search, TermId, Unit, Victim, dry_run};

/// Potential victims of which every set is tried.
pub(super) const FEW: usize = 10;

/// Most sets times tasks that are tried.
const MOST_PLACES: usize = 10_000;

impl Search<'_, '_> {
    /// All but those that tasks of the preemptor ask to be with, or to be spread beside: somebody has to stay for them.
    pub(super) fn with_company(&mut self, offered: &[Victim], tier: usize) -> Result<bool, NoEviction> {
        let cluster = &*self.session.cluster;
        if !self.preemptor.seeks(cluster) {
            return Ok(false);
        }
        let classes: BTreeSet<ClassId> =
            self.preemptor.tasks.iter().map(|task| cluster.tasks[*task].class).collect();
        let sought = |class: &ClassId| {
            let carried = &cluster.classes[*class].carried;
            let even = carried.spread.iter().filter(|spread| spread.required).map(|spread| spread.term);
            carried.affinity.iter().copied().chain(even).collect::<Vec<TermId>>()
        };
        let terms: BTreeSet<TermId> = classes.iter().flat_map(sought).collect();
        self.steps.scan(terms.len() * offered.len())?;
        let is_company = |victim: &Victim| {
            terms.iter().any(|term| cluster.terms.means(*term, cluster.class_of(victim.task)))
        };
        let others: Vec<Victim> = offered.iter().filter(|victim| !is_company(victim)).copied().collect();
        let (_, allowed) = self.allowed(&others, Some(tier)).unwrap_or_default();
        self.try_list(&allowed)
    }

    /// Evicts the first set that may go and leaves room. `None` where there are too many sets.
    pub(super) fn every_set(&mut self, offered: &[Victim], tier: usize) -> Result<Option<bool>, NoEviction> {
        if offered.len() > FEW || self.preemptor.tasks.len() << offered.len() > MOST_PLACES {
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
        let may_go =
            self.may_all_go(victims, tier) || (self.order_matters() && self.may_all_go(&reversed(), tier));
        Ok(may_go && self.dry_run(&units)?)
    }

    /// Surplus one by one, and gangs as a whole; `None` where a gang would be broken.
    fn bundles(&self, victims: &[Victim]) -> Option<Vec<Unit>> {
        let cluster = &*self.session.cluster;
        let may_break = self.may_break();
        let mut units: Vec<Unit> = Vec::new();
        let jobs: BTreeSet<JobId> = victims.iter().map(|victim| victim.job).collect();
        for job in jobs {
            let lost: Unit = victims.iter().filter(|victim| victim.job == job).copied().collect();
            if dry_run::can_spare(cluster, job, &lost) {
                units.extend(lost.iter().map(|victim| Unit::from_slice(&[*victim])));
            } else if may_break && dry_run::is_all(cluster, job, lost.len()) {
                units.push(lost);
            } else {
                return None;
            }
        }
        Some(units)
    }
}
