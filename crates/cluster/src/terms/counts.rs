//! Counts of terms, updated when tasks move, nodes change domains and namespaces change labels.
use std::sync::Arc;

use super::term::{News, What, held};
use super::topology::DomainShift;
use super::{Profile, TermChange, Terms};
use crate::id::{NodeId, ProfileId, TermId};
use crate::label::Labels;
use crate::{Class, Hold, Node};

impl Terms {
    /// Counts the placed tasks of a profile that a term matches.
    pub(super) fn start_matching(&mut self, id: TermId, profile: ProfileId) {
        let Self { terms, topologies, profiles, .. } = self;
        let (term, profile) = (&mut terms[id], &mut profiles[profile]);
        if let Err(at) = profile.matching.binary_search(&id) {
            profile.matching.insert(at, id);
        }
        for (node, tasks) in &profile.placed {
            let Some(place) = topologies[term.topology].place_of(*node) else { continue };
            for (held, tasks) in tasks.iter().enumerate() {
                for _ in 0..*tasks {
                    term.count(place, What::Pod, held, 1);
                }
            }
        }
    }

    /// Counts a task of a class in on a node, or (`sign` -1) out.
    #[inline]
    pub fn shift(&mut self, class: &Class, node: NodeId, hold: Hold, sign: i32) {
        if let (Some(profile), Some(held)) = (class.profile, held(hold)) {
            self.count(class, profile, node, held, sign);
        }
    }

    fn count(&mut self, class: &Class, profile: ProfileId, node: NodeId, held: usize, sign: i32) {
        let Self { terms, topologies, profiles, log, .. } = self;
        let profile = &mut profiles[profile];
        let placed = profile.placed.entry(node).or_default();
        placed[held] = placed[held].wrapping_add_signed(sign);
        if *placed == [0; 3] {
            profile.placed.remove(&node);
        }
        let matching = profile.matching.iter().map(|term| (*term, What::Pod));
        let guards = class.carried.anti_affinity.iter().map(|term| (*term, What::Guard));
        let pulls = class.carried.pulls.iter().map(|(term, weight)| (*term, What::Pull(*weight)));
        for (id, what) in matching.chain(guards).chain(pulls) {
            let term = &mut terms[id];
            let Some(place) = topologies[term.topology].place_of(node) else { continue };
            match term.count(place, what, held, sign) {
                News::Nothing => {}
                News::Here => log.push(TermChange::Domain(id, place.domain)),
                News::Everywhere => {
                    log.push(TermChange::Term(id));
                    log.push(TermChange::Domain(id, place.domain));
                }
            }
        }
    }

    /// Moves a node to its domains after a change of its attributes. None of its tasks may be counted.
    pub fn move_node(&mut self, id: NodeId, node: &Node) {
        if self.topologies.is_empty() {
            return;
        }
        let version = self.tick();
        let Self { terms, topologies, log, .. } = self;
        for at in topologies.ids().collect::<Vec<_>>() {
            let topology = &mut topologies[at];
            let shifts = [(topology.leave(id, version), false), (topology.join(id, node, version), true)];
            for (shift, counts) in shifts {
                let DomainShift::Domain(domain) = shift else { continue };
                for term in &topology.terms {
                    terms[*term].set_counting(domain, counts);
                    log.push(TermChange::Term(*term));
                }
            }
        }
    }

    /// The labels of namespaces, by name.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = (&Arc<str>, &Labels)> {
        let mut namespaces: Vec<_> = self.namespaces.iter().collect();
        namespaces.sort_unstable_by_key(|(name, _)| *name);
        namespaces.into_iter()
    }

    /// Sets or removes the labels of a namespace. True when any selector reads them.
    pub fn set_namespace(&mut self, name: &Arc<str>, labels: Option<Labels>) -> bool {
        let before = self.namespaces.get(name).cloned();
        if before == labels {
            return false;
        }
        match labels {
            Some(labels) => drop(self.namespaces.insert(name.clone(), labels)),
            None => drop(self.namespaces.remove(name)),
        }
        self.mean_anew(name)
    }

    /// Finds again which terms match the profiles of a namespace. True when that changed.
    fn mean_anew(&mut self, namespace: &Arc<str>) -> bool {
        let mut changed = false;
        let of = |(id, profile): (ProfileId, &Profile)| (profile.look.namespace == *namespace).then_some(id);
        for id in self.profiles.iter().filter_map(of).collect::<Vec<_>>() {
            for term in self.terms.ids().collect::<Vec<_>>() {
                let means = self.selects(&self.terms[term].pods, &self.profiles[id].look);
                let matching = self.profiles[id].matching.binary_search(&term).is_ok();
                if means != matching {
                    changed = true;
                    if means { self.start_matching(term, id) } else { self.stop_matching(term, id) }
                }
            }
        }
        if changed {
            self.log.push(TermChange::All);
        }
        changed
    }

    fn stop_matching(&mut self, id: TermId, profile: ProfileId) {
        let Self { terms, topologies, profiles, .. } = self;
        let (term, profile) = (&mut terms[id], &mut profiles[profile]);
        profile.matching.retain(|other| *other != id);
        for (node, tasks) in &profile.placed {
            let Some(place) = topologies[term.topology].place_of(*node) else { continue };
            for (held, tasks) in tasks.iter().enumerate() {
                for _ in 0..*tasks {
                    term.count(place, What::Pod, held, -1);
                }
            }
        }
    }
}
