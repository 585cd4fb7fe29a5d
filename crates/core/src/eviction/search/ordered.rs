//! Strategy *ordered*: all potential victims in order; where those are not enough, all but the pods that the gang asks
//! to be near; where there are few, every set of them, the smallest first.
//!
//! Guarantees: a plan is found if the potential victims that may be evicted together in order leave room. Of at most
//! [`FEW`] potential victims, a set is found if plugins permit one, in the order or in its reverse, that leaves room.
use std::collections::BTreeSet;

use super::{ClassId, JobId, NoEviction, Offer, Plan, TermId, Unit, Victim, VictimSearch, is_surplus};
use crate::eviction::dry_run::is_all;

/// Potential victims of which every set is tried.
pub(super) const FEW: usize = 10;

/// Most sets times tasks that are tried.
const MOST_PLACES: usize = 10_000;

impl VictimSearch<'_, '_> {
    /// Tries the victims on nodes that could take a task, then all, then all but those that the preemptor has to be near.
    pub(super) fn ordered(&mut self, offer: &Offer) -> Result<Option<Plan>, NoEviction> {
        if offer.useful.len() < offer.offered.len() {
            let found = self.try_allowed(&offer.useful)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        let found = self.try_list(&offer.allowed)?;
        if found.is_some() { Ok(found) } else { self.without_affinity_targets(offer) }
    }

    /// All but the pods that tasks of the preemptor ask to be with, or to be spread beside: some have to stay for them.
    fn without_affinity_targets(&mut self, offer: &Offer) -> Result<Option<Plan>, NoEviction> {
        let cluster = &*self.session.cluster;
        if !self.preemptor.seeks(cluster) {
            return Ok(None);
        }
        let classes: BTreeSet<ClassId> =
            self.preemptor.tasks.iter().map(|task| cluster.tasks[*task].class).collect();
        let sought = |class: &ClassId| {
            let carried = &cluster.classes[*class].carried;
            let even = carried.spread.iter().filter(|spread| spread.required).map(|spread| spread.term);
            carried.affinity.iter().copied().chain(even).collect::<Vec<TermId>>()
        };
        let terms: BTreeSet<TermId> = classes.iter().flat_map(sought).collect();
        self.steps.scan(terms.len() * offer.offered.len())?;
        let is_company = |victim: &&Victim| {
            terms.iter().any(|term| cluster.terms.matches(*term, cluster.class_of(victim.task)))
        };
        let others: Vec<Victim> =
            offer.offered.iter().filter(|victim| !is_company(victim)).copied().collect();
        self.try_allowed(&others)
    }

    /// Every set of a few, where not all may go together, or where it matters which pods stay.
    pub(super) fn every_set(&mut self, offer: &Offer) -> Result<Option<Plan>, NoEviction> {
        let few = if offer.offered.len() <= FEW { &offer.offered } else { &offer.useful };
        if !self.choice_matters(offer) || !self.are_few(few) {
            return Ok(None);
        }
        let mut sets: Vec<usize> = (1..1 << few.len()).collect();
        sets.sort_by_key(|set| (set.count_ones(), *set));
        for set in sets {
            let victims: Vec<Victim> =
                (0..few.len()).filter(|at| set & (1 << at) != 0).map(|at| few[at]).collect();
            self.steps.spend(victims.len())?;
            let found = self.try_exactly(&victims)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Whether it matters which potential victims are chosen, not only how many.
    pub(super) fn choice_matters(&self, offer: &Offer) -> bool {
        offer.limited || self.preemptor.seeks(self.session.cluster)
    }

    /// Whether every set of these is tried.
    pub(super) fn are_few(&self, victims: &[Victim]) -> bool {
        victims.len() <= FEW && self.preemptor.tasks.len() << victims.len() <= MOST_PLACES
    }

    /// Evicts these victims if they may go together and leave room.
    fn try_exactly(&mut self, victims: &[Victim]) -> Result<Option<Plan>, NoEviction> {
        let units =
            if self.evicts_whole_gangs() { self.whole_gangs(victims) } else { Some(self.units(victims)) };
        let Some(units) = units.filter(|units| self.least(units).is_some()) else { return Ok(None) };
        let reversed = || victims.iter().rev().copied().collect::<Vec<_>>();
        let may_go = self.may_all_go(victims) || (self.order_matters() && self.may_all_go(&reversed()));
        if may_go { self.dry_run(&units) } else { Ok(None) }
    }

    /// Surplus one by one, and gangs as a whole; `None` where a gang would be broken.
    fn whole_gangs(&self, victims: &[Victim]) -> Option<Vec<Unit>> {
        let cluster = &*self.session.cluster;
        let may_break = self.mode().may_break(self.session);
        let mut units: Vec<Unit> = Vec::new();
        let jobs: BTreeSet<JobId> = victims.iter().map(|victim| victim.job).collect();
        for job in jobs {
            let lost: Unit = victims.iter().filter(|victim| victim.job == job).copied().collect();
            if is_surplus(cluster, lost.iter().map(|victim| &victim.task)) {
                units.extend(lost.iter().map(|victim| Unit::from_slice(&[*victim])));
            } else if may_break && is_all(cluster, job, lost.len()) {
                units.push(lost);
            } else {
                return None;
            }
        }
        Some(units)
    }
}
