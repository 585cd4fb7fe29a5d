//! Terms, topologies and profiles, which live as long as classes refer to them.
use std::collections::BTreeSet;
use std::sync::Arc;

use super::carried::{Carried, SpreadTerm};
use super::term::Term;
use super::topology::{Topology, Where};
use super::{Learned, Look, Profile, Terms};
use crate::event::{Constraints, PodRules, PodSelector, PodTerm};
use crate::id::{NodeId, ProfileId, Slots, TermId, TopologyId};
use crate::label::Labels;
use crate::{Class, Node, Stamp};

/// The weight of required affinity in scores of the pods that it matches. Source: kube-scheduler's
/// hardPodAffinityWeight.
const HARD_POD_AFFINITY_WEIGHT: i64 = 1;

impl Terms {
    /// Learns which labels selectors read. Returns which tasks may have another profile now.
    pub(crate) fn learn(&mut self, rules: &PodRules) -> Option<Learned> {
        let first = !std::mem::replace(&mut self.active, true);
        let mut keys = Vec::new();
        let read = rules.selectors().filter_map(|pods| pods.labels.as_ref()).flat_map(|selector| &selector.0);
        for requirement in read {
            if self.keys.insert(requirement.key.clone()) && self.labelled.contains_key(&requirement.key) {
                keys.push(requirement.key.clone());
            }
        }
        if first { Some(Learned::All) } else { (!keys.is_empty()).then_some(Learned::With(keys)) }
    }

    /// Counts the labels of a task in or out.
    pub fn count_labels(&mut self, labels: &Labels, add: bool) {
        for (key, _) in labels.iter() {
            match self.labelled.get_mut(key) {
                Some(count) if add => *count += 1,
                Some(count) if *count > 1 => *count -= 1,
                Some(_) => _ = self.labelled.remove(key),
                None => _ = self.labelled.insert(key.clone(), 1),
            }
        }
    }

    /// What terms read of a task; `None` as long as there never was a term.
    pub fn look(&self, namespace: &Arc<str>, labels: &Labels) -> Option<Look> {
        let labels = || labels.filtered(|key| self.keys.contains(key));
        self.active.then(|| Look { namespace: namespace.clone(), labels: labels() })
    }

    /// The profile of a look. A class that keeps the profile calls `hold_profile`.
    pub fn profile(&mut self, look: Look) -> ProfileId {
        if let Some(id) = self.profile_ids.get(&look) {
            return *id;
        }
        let look = Arc::new(look);
        let mut matching = self.finder.terms(&look.labels);
        matching.retain(|term| self.selects(&self.terms[*term].pods, &look));
        let id = self.profiles.insert(Profile { look: look.clone(), matching, ..Profile::default() });
        self.finder.add_profile(&look.labels, id);
        self.profile_ids.insert(look, id);
        id
    }

    pub(super) fn selects(&self, pods: &[PodSelector], look: &Look) -> bool {
        pods.iter().all(|pods| {
            let labels = pods.labels.as_ref().is_some_and(|selector| selector.matches(&look.labels));
            labels && self.selects_namespace(pods, &look.namespace)
        })
    }

    fn selects_namespace(&self, pods: &PodSelector, namespace: &Arc<str>) -> bool {
        let selector = pods.namespace_selector.as_ref();
        pods.namespaces.contains(namespace)
            || selector.is_some_and(|selector| selector.matches(&self.namespace(namespace)))
    }

    /// Holds the profile of a new class, and finds or makes its terms.
    pub fn open(
        &mut self,
        profile: Option<ProfileId>,
        constraints: &Constraints,
        nodes: &Slots<NodeId, Node>,
    ) -> Carried {
        if let Some(profile) = profile {
            self.profiles[profile].refs += 1;
        }
        let Some(rules) = &constraints.pod_rules else { return Carried::default() };
        let carried = Intern { terms: self, nodes }.carried(rules, constraints);
        for (id, how) in carried.all() {
            let term = &mut self.terms[id];
            term.refs += 1;
            term.exact += u32::from(how.exact);
            term.symmetric += u32::from(how.symmetric);
        }
        carried
    }

    /// Releases the profile and terms of a removed class.
    pub fn close(&mut self, class: &Class) {
        for (id, how) in class.carried.all() {
            let term = &mut self.terms[id];
            term.refs -= 1;
            term.exact -= u32::from(how.exact);
            term.symmetric -= u32::from(how.symmetric);
            if term.refs == 0 {
                self.drop_term(id);
            } else if how.symmetric && term.symmetric == 0 {
                self.is_symmetric_no_more(id);
            }
        }
        if let Some(id) = class.profile {
            let profile = &mut self.profiles[id];
            profile.refs -= 1;
            if profile.refs == 0
                && let Some(profile) = self.profiles.remove(id)
            {
                self.finder.drop_profile(&profile.look.labels, id);
                self.profile_ids.remove(&profile.look);
            }
        }
    }

    fn drop_term(&mut self, id: TermId) {
        let Some(term) = self.terms.remove(id) else { return };
        self.finder.drop_term(&term.pods, id);
        let version = self.tick();
        for profile in self.maybe_matching(&term.pods) {
            // Caches that read the term cannot find out any more that they did.
            let profile = &mut self.profiles[profile];
            if let Ok(at) = profile.matching.binary_search(&id) {
                profile.matching.remove(at);
                profile.version = version;
            }
        }
        self.term_ids.remove(&(term.pods, term.topology));
        let topology = &mut self.topologies[term.topology];
        topology.terms.retain(|other| *other != id);
        if topology.terms.is_empty()
            && let Some(topology) = self.topologies.remove(term.topology)
        {
            self.made = version;
            self.topology_ids.remove(&topology.place);
        }
    }

    /// Takes a term out of the profiles that it matches, once no class has it as anti-affinity or preference.
    fn is_symmetric_no_more(&mut self, id: TermId) {
        let version = self.tick();
        for profile in self.maybe_matching(&self.terms[id].pods.clone()) {
            let profile = &mut self.profiles[profile];
            if profile.matching.binary_search(&id).is_ok() {
                profile.version = version;
            }
        }
    }

    fn maybe_matching(&self, pods: &[PodSelector]) -> Vec<ProfileId> {
        self.finder.profiles(pods).unwrap_or_else(|| self.profiles.ids().collect())
    }

    pub(super) fn tick(&mut self) -> Stamp {
        self.clock.0 += 1;
        self.clock
    }
}

/// Finds or makes terms and topologies.
struct Intern<'a> {
    terms: &'a mut Terms,
    nodes: &'a Slots<NodeId, Node>,
}

impl Intern<'_> {
    fn carried(&mut self, rules: &PodRules, constraints: &Constraints) -> Carried {
        let mut carried = Carried::default();
        let together: BTreeSet<&PodSelector> = rules.affinity.iter().map(|term| &term.pods).collect();
        let together: Arc<[PodSelector]> = together.into_iter().cloned().collect();
        let keys: BTreeSet<&Arc<str>> = rules.affinity.iter().map(|term| &term.topology_key).collect();
        carried.affinity = keys.into_iter().map(|key| self.term(together.clone(), Where::all(key))).collect();
        carried.anti_affinity = rules.anti_affinity.iter().map(|term| self.plain(term)).collect();
        carried.anti_affinity.sort_unstable();
        carried.anti_affinity.dedup();
        carried.preferred =
            rules.preferred.iter().map(|(weight, term)| (self.plain(term), i64::from(*weight))).collect();
        let hard = rules.affinity.iter().map(|term| (self.plain(term), HARD_POD_AFFINITY_WEIGHT));
        carried.pulls = hard.collect();
        carried.pulls.extend(&carried.preferred);
        for spread in &rules.spread {
            let place = Where::of_spread(spread, rules, constraints);
            carried.spread.push(SpreadTerm {
                term: self.term([spread.term.pods.clone()].into(), place),
                max_skew: spread.max_skew,
                min_domains: spread.min_domains,
                required: spread.required,
            });
        }
        carried
    }

    fn plain(&mut self, term: &PodTerm) -> TermId {
        self.term([term.pods.clone()].into(), Where::all(&term.topology_key))
    }

    fn term(&mut self, pods: Arc<[PodSelector]>, place: Where) -> TermId {
        let topology = self.topology(place);
        let key = (pods, topology);
        if let Some(id) = self.terms.term_ids.get(&key) {
            return *id;
        }
        let term = Term::new(key.0.clone(), topology, &self.terms.topologies[topology]);
        let id = self.terms.terms.insert(term);
        self.terms.topologies[topology].terms.push(id);
        self.terms.term_ids.insert(key.clone(), id);
        self.terms.finder.add_term(&key.0, id);
        for profile in self.terms.maybe_matching(&key.0) {
            if self.terms.selects(&key.0, &self.terms.profiles[profile].look) {
                self.terms.start_matching(id, profile);
            }
        }
        id
    }

    fn topology(&mut self, place: Where) -> TopologyId {
        if let Some(id) = self.terms.topology_ids.get(&place) {
            return *id;
        }
        let place = Arc::new(place);
        let version = self.terms.tick();
        self.terms.made = version;
        let mut topology = Topology::new(place.clone(), version);
        for (id, node) in self.nodes.iter() {
            topology.join(id, node, version);
        }
        let id = self.terms.topologies.insert(topology);
        self.terms.topology_ids.insert(place, id);
        id
    }
}
