//! Pods counted by topology domain, for pod affinity, anti-affinity and topology spread. A *term* selects pods (by
//! namespace and labels) in a *topology* (nodes by the value of a label). For each domain it counts the pods that it
//! matches, and the pods that have the term as their own rule, since anti-affinity and preferences are symmetric. Equal
//! terms are one. A *profile* is a namespace with the labels that any term reads; which terms match it is found once
//! for each pair. The profile is part of a task's class, so moving a task costs one step for each matching term.
mod carried;
mod check;
mod counts;
mod finder;
mod intern;
mod term;
mod topology;

use std::sync::Arc;

use rustc_hash::FxHashMap;

pub use carried::{Carried, SpreadTerm};
use finder::Finder;
use term::Term;
pub use term::{Held, Tally};
use topology::{Topology, Where};

use super::log::Log;
use super::{Class, Stamp};
use crate::event::PodSelector;
use crate::id::{NodeId, ProfileId, Slots, TermId, TopologyId};
use crate::label::Labels;
use crate::objects::HOSTNAME;

/// The label that each namespace has, with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// What terms read of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Look {
    namespace: Arc<str>,
    labels: Labels,
}

/// The tasks of which terms read the same labels and namespace.
#[derive(Clone, Debug, Default, PartialEq)]
struct Profile {
    look: Arc<Look>,
    /// Number of classes with the profile.
    refs: u32,
    /// Terms that match it, sorted.
    matching: Vec<TermId>,
    /// Set from the clock when a matching term is removed.
    version: Stamp,
    /// Number of placed tasks by node.
    placed: FxHashMap<NodeId, Held<u32>>,
}

/// A change of what terms count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermChange {
    /// What a term counts in one domain.
    Domain(TermId, u32),
    /// What a term says of all domains together: the least and the total count, the number of domains.
    Term(TermId),
    /// Any term.
    All,
}

/// Tasks whose profile may change since selectors read other labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Learned {
    /// All tasks: there was no term before.
    All,
    /// Tasks with any of these labels.
    With(Vec<Arc<str>>),
}

impl Learned {
    fn with(keys: Vec<Arc<str>>) -> Option<Self> {
        (!keys.is_empty()).then_some(Self::With(keys))
    }

    pub(crate) fn concerns(&self, labels: &Labels) -> bool {
        match self {
            Learned::All => true,
            Learned::With(keys) => keys.iter().any(|key| labels.get(key).is_some()),
        }
    }
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
    /// Labels that selectors read, with how often; with 0, no selector does any more.
    keys: FxHashMap<Arc<str>, u32>,
    /// Labels of these that no selector reads any more.
    unread: u32,
    /// Tasks that came while there was one.
    came: u32,
    /// Number of tasks by label key.
    labelled: FxHashMap<Arc<str>, u32>,
    /// There has been a term.
    active: bool,
    namespaces: FxHashMap<Arc<str>, Labels>,
    log: Log<TermChange>,
    clock: Stamp,
    /// The clock when a topology was last added or removed.
    made: Stamp,
}

impl Terms {
    /// Drops the log and stamps.
    pub(crate) fn forget_history(&mut self) {
        self.topologies.iter_mut().for_each(Topology::forget_history);
        self.profiles.iter_mut().for_each(|profile| profile.version = Stamp(0));
        (self.clock, self.made, self.came) = (Stamp(0), Stamp(0), 0);
        self.log = Log::default();
    }

    /// The counts of a term in a node's domain; `None` for a node without the label of the topology.
    #[inline]
    pub fn tally(&self, term: TermId, node: NodeId) -> Option<Tally> {
        let domain = self.topologies[self.terms[term].topology].domain_of(node)?;
        Some(self.tally_of(term, domain))
    }

    /// The counts of a term in a domain.
    pub fn tally_of(&self, term: TermId, domain: usize) -> Tally {
        self.terms[term].tallies.get(domain).copied().unwrap_or_default()
    }

    /// The domain of a node in a term's topology, if the node counts.
    pub fn domain_of(&self, term: TermId, node: NodeId) -> Option<u32> {
        let place = self.topologies[self.terms[term].topology].place_of(node)?;
        place.counts.then_some(place.domain)
    }

    /// The counts of a term over all domains.
    pub fn total(&self, term: TermId) -> Held<u32> {
        self.terms[term].total
    }

    /// The smallest count of any domain; with `nominated`, nominated pods count too.
    pub fn least(&self, term: TermId, nominated: bool) -> u32 {
        self.terms[term].levels[usize::from(nominated)].least()
    }

    /// Number of domains with nodes that count.
    pub fn domains(&self, term: TermId) -> usize {
        self.topologies[self.terms[term].topology].size()
    }

    /// The label of a term's topology, where no node has it.
    pub fn label_of_none(&self, term: TermId) -> Option<&Arc<str>> {
        let topology = &self.topologies[self.terms[term].topology];
        topology.is_empty().then_some(&topology.place.key)
    }

    /// The required term with the most domains of a class whose first task may choose its domain, and decides for the
    /// others: there is no pod yet that its terms match, and they match itself.
    pub fn free_affinity(&self, class: &Class) -> Option<TermId> {
        let is_free = |term: &TermId| {
            let [used, _, nominated] = self.total(*term);
            used + nominated == 0 && self.matches(*term, class)
        };
        let terms = &class.carried.affinity;
        let finest = terms.iter().copied().max_by_key(|term| self.domains(*term))?;
        terms.iter().all(is_free).then_some(finest)
    }

    /// Whether any term matches the tasks of a class.
    pub fn matches_any(&self, class: &Class) -> bool {
        class.profile.is_some_and(|profile| !self.profiles[profile].matching.is_empty())
    }

    /// Whether a term matches the tasks of a class.
    pub fn matches(&self, term: TermId, class: &Class) -> bool {
        class.profile.is_some_and(|profile| self.profiles[profile].matching.binary_search(&term).is_ok())
    }

    /// Whether anti-affinity keeps tasks of a class on different hosts.
    pub fn keeps_hosts_apart(&self, class: &Class) -> bool {
        let by_host = |term: TermId| &*self.topologies[self.terms[term].topology].place.key == HOSTNAME;
        class.carried.anti_affinity.iter().any(|term| by_host(*term) && self.matches(*term, class))
    }

    /// Terms that match the tasks of a class.
    fn matching(&self, class: &Class) -> impl Iterator<Item = TermId> + '_ {
        let matching = class.profile.map_or(&[][..], |profile| &self.profiles[profile].matching);
        matching.iter().copied()
    }

    /// Terms that match the tasks of a class and that some class keeps away or draws them by.
    pub fn symmetric(&self, class: &Class) -> impl Iterator<Item = TermId> + '_ {
        self.matching(class).filter(|term| self.terms[*term].symmetric > 0)
    }

    /// Changes when a term that matched the tasks of a class is gone, or affects them no more; the log does not tell.
    pub fn version(&self, class: &Class) -> u64 {
        class.profile.map_or(0, |profile| self.profiles[profile].version.0)
    }

    /// The terms whose counts make a difference to a class; some come more than once. Those that are not the class's
    /// own may become more.
    pub fn concerning(&self, class: &Class) -> impl Iterator<Item = TermId> {
        class.carried.all().map(|(term, _)| term).chain(self.symmetric(class))
    }

    /// Whether a term matches the tasks of a class, and some class keeps them away or draws them by it.
    pub fn is_symmetric(&self, term: TermId, class: &Class) -> bool {
        self.terms.get(term).is_some_and(|it| it.symmetric > 0) && self.matches(term, class)
    }

    /// The topology of a term.
    pub fn topology_of(&self, term: TermId) -> Option<TopologyId> {
        self.terms.get(term).map(|term| term.topology)
    }

    /// The labels of a namespace; one whose object was not seen has its name for a label, as the API server gives it.
    pub fn namespace(&self, name: &Arc<str>) -> Labels {
        let named = || [(NAMESPACE_NAME.into(), name.clone())].into_iter().collect();
        self.namespaces.get(name).cloned().unwrap_or_else(named)
    }

    /// All topologies.
    pub fn topology_ids(&self) -> impl Iterator<Item = TopologyId> {
        self.topologies.ids()
    }

    /// Whether there still is such a topology.
    pub fn has_topology(&self, id: TopologyId) -> bool {
        self.topologies.get(id).is_some()
    }

    /// Changes when a topology comes or goes.
    pub fn topologies_stamp(&self) -> u64 {
        self.made.0
    }

    /// A topology.
    pub fn topology(&self, id: TopologyId) -> &Topology {
        &self.topologies[id]
    }

    /// Labels by whose values nodes are told apart.
    pub fn topology_keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.topologies.iter().map(|(_, topology)| &topology.place.key)
    }

    /// What changed since a cursor; `None` when that is not known any more.
    pub fn changes(&self, cursor: u64) -> Option<&[TermChange]> {
        self.log.since(cursor)
    }

    /// The end of the log of changes.
    pub fn changes_end(&self) -> u64 {
        self.log.end()
    }
}
