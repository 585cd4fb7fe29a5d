//! Pods counted by topology domain: what pod affinity, anti-affinity and topology spread ask.
//!
//! A *term* is a set of pods (by namespace and labels) in a *topology* (nodes by the value of a label). For each domain
//! it counts the pods that it means, and those that have it as a rule of their own, for that works both ways. Terms that
//! are equal are one. A *profile* is a namespace with labels, as far as any term reads them; which terms mean it is
//! found once for each pair. It is a part of its tasks' class, so moving a task costs one step for each such term.
mod carried;
mod check;
mod finder;
mod term;
mod topology;

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

pub use carried::{Carried, SpreadTerm};
use finder::Finder;
use term::Term;
pub use term::{Held, Tally};
use term::{News, What, held};
use topology::Shift;
use topology::{Topology, Where};

use super::log::Log;
use super::{Class, Hold, Node, Stamp};
use crate::event::{Constraints, PodRules, PodSelector, PodTerm};
use crate::id::{NodeId, ProfileId, Slots, TermId, TopologyId};
use crate::label::Labels;

/// How much a pod's required affinity draws those that it means. Source: kube-scheduler's hardPodAffinityWeight.
const HARD_POD_AFFINITY_WEIGHT: i64 = 1;
/// The label that each namespace has, with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// What terms read of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Look {
    namespace: Arc<str>,
    labels: Labels,
}

/// Tasks that look alike.
#[derive(Clone, Debug, Default, PartialEq)]
struct Profile {
    look: Arc<Look>,
    /// Classes that have it.
    refs: u32,
    /// Terms that mean it, sorted.
    meant: Vec<TermId>,
    /// Changes when a term that meant it is gone.
    version: Stamp,
    /// Its tasks by node.
    placed: FxHashMap<NodeId, Held<u32>>,
}

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Of a term, in one domain.
    Domain(TermId, u32),
    /// Of a term, in every domain.
    Term(TermId),
    /// All may differ.
    All,
}

type TermKey = (Arc<[PodSelector]>, TopologyId);

/// Terms, topologies and profiles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms {
    terms: Slots<TermId, Term>,
    term_ids: FxHashMap<TermKey, TermId>,
    topologies: Slots<TopologyId, Topology>,
    topology_ids: FxHashMap<Arc<Where>, TopologyId>,
    profiles: Slots<ProfileId, Profile>,
    profile_ids: FxHashMap<Arc<Look>, ProfileId>,
    finder: Finder,
    /// Labels that selectors read.
    keys: FxHashSet<Arc<str>>,
    /// There has been a term.
    active: bool,
    namespaces: FxHashMap<Arc<str>, Labels>,
    log: Log<Change>,
    clock: Stamp,
    /// The clock when a topology came or went last.
    made: Stamp,
}

// ---------------------------------------------------------------- questions

impl Terms {
    /// What is counted in a node's domain; `None` for a node without the topology's label.
    #[inline]
    pub fn tally(&self, term: TermId, node: NodeId) -> Option<Tally> {
        let term = &self.terms[term];
        let domain = self.topologies[term.topology].domain_of(node)?;
        Some(term.tallies.get(domain).copied().unwrap_or_default())
    }

    /// The domain of a node, if it counts.
    pub(crate) fn domain_of(&self, term: TermId, node: NodeId) -> Option<u32> {
        let place = self.topologies[self.terms[term].topology].place_of(node)?;
        place.counts.then_some(place.domain)
    }

    /// The pods of a term in all domains.
    pub fn total(&self, term: TermId) -> Held<u32> {
        self.terms[term].total
    }

    /// The fewest pods of any domain; with `nominated`, those that are nominated count too.
    pub fn least(&self, term: TermId, nominated: bool) -> u32 {
        self.terms[term].levels[usize::from(nominated)].least()
    }

    /// How many domains there are with nodes that count.
    pub fn domains(&self, term: TermId) -> usize {
        self.topologies[self.terms[term].topology].size()
    }

    /// Whether any term means the tasks of a class.
    pub(crate) fn is_meant(&self, class: &Class) -> bool {
        class.profile.is_some_and(|profile| !self.profiles[profile].meant.is_empty())
    }

    /// Whether a term means the tasks of a class.
    pub fn means(&self, term: TermId, class: &Class) -> bool {
        class.profile.is_some_and(|profile| self.profiles[profile].meant.binary_search(&term).is_ok())
    }

    /// Terms that mean the tasks of a class and that some class keeps away or draws them by.
    pub fn outward(&self, class: &Class) -> impl Iterator<Item = TermId> + '_ {
        let meant = class.profile.map_or(&[][..], |profile| &self.profiles[profile].meant);
        meant.iter().copied().filter(|term| self.terms[*term].outward > 0)
    }

    /// Changes when a term that meant the tasks of a class is gone, or works inward only; the log does not tell.
    pub(crate) fn version(&self, class: &Class) -> u64 {
        class.profile.map_or(0, |profile| self.profiles[profile].version.0)
    }

    /// Whether what is counted for a term makes a difference to a class.
    pub(crate) fn concerns(&self, term: TermId, class: &Class) -> bool {
        let Some(it) = self.terms.get(term) else { return false };
        (it.outward > 0 && self.means(term, class)) || class.carried.has(term)
    }

    /// The topology of a term.
    pub(crate) fn topology_of(&self, term: TermId) -> Option<TopologyId> {
        self.terms.get(term).map(|term| term.topology)
    }

    /// The labels of a namespace; one whose object was not seen has its name for a label, as the API server gives it.
    pub(crate) fn namespace(&self, name: &Arc<str>) -> Labels {
        let named = || [(NAMESPACE_NAME.into(), name.clone())].into_iter().collect();
        self.namespaces.get(name).cloned().unwrap_or_else(named)
    }

    /// All topologies.
    pub(crate) fn topology_ids(&self) -> impl Iterator<Item = TopologyId> {
        self.topologies.ids()
    }

    /// Whether there still is such a topology.
    pub(crate) fn has_topology(&self, id: TopologyId) -> bool {
        self.topologies.get(id).is_some()
    }

    /// Changes when a topology comes or goes.
    pub(crate) fn topologies_stamp(&self) -> u64 {
        self.made.0
    }

    /// A topology.
    pub(crate) fn topology(&self, id: TopologyId) -> &Topology {
        &self.topologies[id]
    }

    /// Labels by whose values nodes are told apart.
    pub(crate) fn topology_keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.topologies.iter().map(|(_, topology)| &topology.place.key)
    }

    /// What changed since a cursor; `None` when that is not known any more.
    pub(crate) fn changes(&self, cursor: u64) -> Option<&[Change]> {
        self.log.since(cursor)
    }

    /// The end of the log of changes.
    pub(crate) fn changes_end(&self) -> u64 {
        self.log.end()
    }
}

// ---------------------------------------------------------------- terms and profiles come and go

impl Terms {
    /// Takes note of what selectors read. True when that is more than before: then profiles differ.
    pub(super) fn learn(&mut self, rules: &PodRules) -> bool {
        let before = (self.active, self.keys.len());
        self.active = true;
        let read = rules.selectors().filter_map(|pods| pods.labels.as_ref()).flat_map(|selector| &selector.0);
        for requirement in read {
            if !self.keys.contains(&requirement.key) {
                self.keys.insert(requirement.key.clone());
            }
        }
        before != (self.active, self.keys.len())
    }

    /// Whether a label is read by any selector.
    pub(super) fn reads(&self, labels: &Labels) -> bool {
        labels.iter().any(|(key, _)| self.keys.contains(key))
    }

    /// How a task looks to terms; `None` as long as there never was one.
    pub(super) fn look(&self, namespace: &Arc<str>, labels: &Labels) -> Option<Look> {
        let labels = || labels.filtered(|key| self.keys.contains(key));
        self.active.then(|| Look { namespace: namespace.clone(), labels: labels() })
    }

    /// The profile of a look. A class that keeps it says so by [`hold_profile`](Self::hold_profile).
    pub(super) fn profile(&mut self, look: Look) -> ProfileId {
        if let Some(id) = self.profile_ids.get(&look) {
            return *id;
        }
        let look = Arc::new(look);
        let mut meant = self.finder.terms(&look.labels);
        meant.retain(|term| self.all_mean(&self.terms[*term].pods, &look));
        let id = self.profiles.insert(Profile { look: look.clone(), meant, ..Profile::default() });
        self.finder.add_profile(&look.labels, id);
        self.profile_ids.insert(look, id);
        id
    }

    fn all_mean(&self, pods: &[PodSelector], look: &Look) -> bool {
        pods.iter().all(|pods| {
            let labels = pods.labels.as_ref().is_some_and(|selector| selector.matches(&look.labels));
            labels && self.namespace_meant(pods, &look.namespace)
        })
    }

    fn namespace_meant(&self, pods: &PodSelector, namespace: &Arc<str>) -> bool {
        let selector = pods.namespace_selector.as_ref();
        pods.namespaces.contains(namespace)
            || selector.is_some_and(|selector| selector.matches(&self.namespace(namespace)))
    }

    /// A class begins: its profile is kept, its terms are found or made.
    pub(super) fn open(
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
            term.outward += u32::from(how.outward);
        }
        carried
    }

    /// A class ends; no task of it is left.
    pub(super) fn close(&mut self, class: &Class) {
        for (id, how) in class.carried.all() {
            let term = &mut self.terms[id];
            term.refs -= 1;
            term.exact -= u32::from(how.exact);
            term.outward -= u32::from(how.outward);
            if term.refs == 0 {
                self.drop_term(id);
            } else if how.outward && term.outward == 0 {
                self.works_inward_only(id);
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
        for profile in self.maybe_meant(&term.pods) {
            // Who looked at it cannot find out any more that it did.
            let profile = &mut self.profiles[profile];
            if let Ok(at) = profile.meant.binary_search(&id) {
                profile.meant.remove(at);
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

    /// Nobody keeps away or draws by a term any more: it does not concern those it means, who looked at it until now.
    fn works_inward_only(&mut self, id: TermId) {
        let version = self.tick();
        for profile in self.maybe_meant(&self.terms[id].pods.clone()) {
            let profile = &mut self.profiles[profile];
            if profile.meant.binary_search(&id).is_ok() {
                profile.version = version;
            }
        }
    }

    fn maybe_meant(&self, pods: &[PodSelector]) -> Vec<ProfileId> {
        self.finder.profiles(pods).unwrap_or_else(|| self.profiles.ids().collect())
    }

    fn tick(&mut self) -> Stamp {
        self.clock.0 += 1;
        self.clock
    }
}

/// Finds terms and topologies, or makes them.
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
        for profile in self.terms.maybe_meant(&key.0) {
            if self.terms.all_mean(&key.0, &self.terms.profiles[profile].look) {
                self.terms.mean(id, profile);
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

// ---------------------------------------------------------------- counts

impl Terms {
    /// A term means a profile: its tasks that are in place are counted.
    fn mean(&mut self, id: TermId, profile: ProfileId) {
        let Self { terms, topologies, profiles, .. } = self;
        let (term, profile) = (&mut terms[id], &mut profiles[profile]);
        if let Err(at) = profile.meant.binary_search(&id) {
            profile.meant.insert(at, id);
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
    pub(super) fn shift(&mut self, class: &Class, node: NodeId, hold: Hold, sign: i32) {
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
        let meant = profile.meant.iter().map(|term| (*term, What::Pod));
        let guards = class.carried.anti_affinity.iter().map(|term| (*term, What::Guard));
        let pulls = class.carried.pulls.iter().map(|(term, weight)| (*term, What::Pull(*weight)));
        for (id, what) in meant.chain(guards).chain(pulls) {
            let term = &mut terms[id];
            let Some(place) = topologies[term.topology].place_of(node) else { continue };
            match term.count(place, what, held, sign) {
                News::Nothing => {}
                News::Here => log.push(Change::Domain(id, place.domain)),
                News::Everywhere => log.push(Change::Term(id)),
            }
        }
    }

    /// A node's attributes changed, or it came or went. None of its tasks may be counted.
    pub(super) fn move_node(&mut self, id: NodeId, node: &Node) {
        if self.topologies.is_empty() {
            return;
        }
        let version = self.tick();
        let Self { terms, topologies, log, .. } = self;
        for at in topologies.ids().collect::<Vec<_>>() {
            let topology = &mut topologies[at];
            let shifts = [(topology.leave(id, version), false), (topology.join(id, node, version), true)];
            for (shift, counts) in shifts {
                let Shift::Domain(domain) = shift else { continue };
                for term in &topology.terms {
                    terms[*term].set_counting(domain, counts);
                    log.push(Change::Term(*term));
                }
            }
        }
    }

    /// A namespace's labels changed, or it is gone. True when any selector could mind.
    pub(super) fn set_namespace(&mut self, name: &Arc<str>, labels: Option<Labels>) -> bool {
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

    /// Finds anew which terms mean the profiles of a namespace. True when that is different.
    fn mean_anew(&mut self, namespace: &Arc<str>) -> bool {
        let mut changed = false;
        let of = |(id, profile): (ProfileId, &Profile)| (profile.look.namespace == *namespace).then_some(id);
        for id in self.profiles.iter().filter_map(of).collect::<Vec<_>>() {
            for term in self.terms.ids().collect::<Vec<_>>() {
                let means = self.all_mean(&self.terms[term].pods, &self.profiles[id].look);
                let meant = self.profiles[id].meant.binary_search(&term).is_ok();
                if means != meant {
                    changed = true;
                    if means { self.mean(term, id) } else { self.mean_no_more(term, id) }
                }
            }
        }
        if changed {
            self.log.push(Change::All);
        }
        changed
    }

    fn mean_no_more(&mut self, id: TermId, profile: ProfileId) {
        let Self { terms, topologies, profiles, .. } = self;
        let (term, profile) = (&mut terms[id], &mut profiles[profile]);
        profile.meant.retain(|other| *other != id);
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
