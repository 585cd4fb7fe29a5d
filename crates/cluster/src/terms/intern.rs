//! Terms, topologies and profiles, which live as long as classes refer to them.
use std::collections::BTreeSet;
use std::sync::Arc;

use super::carried::{Carried, SpreadTerm};
use super::finder::labels_read;
use super::term::Term;
use super::topology::{Topology, Where};
use super::{Learned, Look, Profile, Terms};
use crate::count::Count;
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
        for key in rules.selectors().flat_map(|pods| labels_read(std::slice::from_ref(pods))) {
            if self.keys.contains_key(key) {
                continue;
            }
            self.keys.insert(key.clone(), 0);
            self.unread += 1;
            if self.labelled.contains_key(key) {
                keys.push(key.clone());
            }
        }
        if first { Some(Learned::All) } else { Learned::with(keys) }
    }

    /// Forgets labels that no selector reads any more. Returns which tasks may have another profile now. These are put
    /// into other classes, so it waits until an eighth as many tasks have come as there are: whoever makes selectors
    /// come and go costs others no more than by making pods.
    pub(crate) fn forget_unread(&mut self, tasks: usize) -> Option<Learned> {
        if self.unread == 0 || 8 * (self.came as usize) < tasks {
            return None;
        }
        let mut keys = Vec::new();
        for (key, _) in self.keys.extract_if(|_, selectors| *selectors == 0) {
            if self.labelled.contains_key(&key) {
                keys.push(key);
            }
        }
        (self.unread, self.came) = (0, 0);
        Learned::with(keys)
    }

    /// Counts the labels that the selectors of a term read in or out.
    fn count_reads(&mut self, pods: &[PodSelector], count: Count) {
        let Self { keys, unread, .. } = self;
        for key in labels_read(pods) {
            let selectors = keys.entry(key.clone()).or_insert_with(|| {
                *unread += 1;
                0
            });
            *unread -= u32::from(*selectors == 0);
            count.step(selectors);
            *unread += u32::from(*selectors == 0);
        }
    }

    /// Counts the labels of a task in or out.
    pub fn count_labels(&mut self, labels: &Labels, add: bool) {
        self.came += u32::from(add && self.unread > 0);
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
        let labels = || labels.filtered(|key| self.keys.contains_key(key));
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
        self.count_reads(&term.pods, Count::Out);
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
        self.terms.count_reads(&key.0, Count::In);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::Cluster;
    use crate::event::{Constraints, Event, Operator, PodInfo, PodRules, PodSelector, PodTerm, Requirement};
    use crate::label::Selector;
    use crate::testing::{cluster_of, node, pod, task_of};

    /// A pod with a label whose value no other pod has.
    fn labelled(at: usize) -> PodInfo {
        let name = format!("p{at}");
        let labels = [("pod-name".into(), Arc::from(&*name))].into_iter().collect();
        PodInfo { labels, ..pod(&name, "cpu=1") }
    }

    /// A pod that keeps away from all that have the label.
    fn apart(name: &str) -> PodInfo {
        let requirement =
            Requirement { key: "pod-name".into(), operator: Operator::Exists, values: Vec::new() };
        let pods = PodSelector {
            namespaces: vec!["ns".into()],
            namespace_selector: None,
            labels: Some(Selector(vec![requirement])),
        };
        let term = PodTerm { topology_key: "kubernetes.io/hostname".into(), pods };
        let rules = PodRules { anti_affinity: vec![term], ..PodRules::default() };
        let constraints = Constraints { pod_rules: Some(Arc::new(rules)), ..Constraints::default() };
        PodInfo { constraints: Arc::new(constraints), ..pod(name, "cpu=1") }
    }

    fn classes(cluster: &Cluster) -> usize {
        cluster.classes.ids().count()
    }

    #[test]
    fn labels_that_no_rule_reads_any_more_tell_pods_apart_no_longer() {
        let mut cluster = cluster_of([node("a", "cpu=8")]);
        for at in 0..80 {
            cluster.apply(labelled(at).into());
        }
        assert_eq!(classes(&cluster), 1, "before");
        cluster.apply(apart("bad").into());
        assert_eq!(classes(&cluster), 81, "during");
        cluster.apply(Event::PodGone("bad".into()));
        for at in 80..96 {
            cluster.apply(labelled(at).into());
        }
        assert_eq!(classes(&cluster), 1, "after");
        assert_eq!(cluster.check(), [""; 0]);
        cluster.apply(apart("again").into());
        assert_eq!(classes(&cluster), 97);
        let class = |name: &str| cluster.classes.get(cluster.tasks[task_of(&cluster, name)].class).is_some();
        assert!(class("p0") && class("p95"));
        assert_eq!(cluster.check(), [""; 0]);
    }

    /// Whoever makes rules come and go does not have all pods told apart anew by each.
    #[test]
    fn labels_that_rules_read_by_turns_are_not_forgotten_each_time() {
        let mut cluster = cluster_of([node("a", "cpu=8")]);
        for at in 0..400 {
            cluster.apply(labelled(at).into());
        }
        for _ in 0..40 {
            cluster.apply(apart("bad").into());
            assert_eq!(classes(&cluster), 401);
            cluster.apply(Event::PodGone("bad".into()));
            assert_eq!(classes(&cluster), 400);
        }
        assert_eq!(cluster.check(), [""; 0]);
    }
}
