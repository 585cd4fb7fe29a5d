//! Rebuilds the counts of terms, and compares.
use rustc_hash::FxHashMap;

use super::finder::labels_read;
use super::term::held;
use super::{Held, Tally, Term};
use crate::Cluster;
use crate::id::{ProfileId, TermId};

impl Cluster {
    /// Compares everything that is kept for terms.
    pub(crate) fn check_terms(&self, note: &mut crate::check::Note<'_>) {
        for (id, topology) in self.terms.topologies.iter() {
            for (node_id, node) in self.nodes.iter() {
                let value = node.label(&topology.place.key).filter(|_| node.exists);
                let right = topology.value_of(node_id) == value;
                note(right, format!("topology {} of node {}", topology.place.key, node.name));
            }
            let listed = self.terms.terms.iter().filter(|(_, term)| term.topology == id).count();
            note(
                listed == topology.terms.len() && listed > 0,
                format!("terms of topology {}", topology.place.key),
            );
        }
        for (id, term) in self.terms.terms.iter() {
            let (tallies, total, levels) = self.rebuilt(id, term);
            let same = (0..tallies.len().max(term.tallies.len())).all(|at| {
                let of = |list: &[Tally]| list.get(at).copied().unwrap_or_default();
                of(&tallies) == of(&term.tallies)
            });
            note(same && total == term.total, format!("pods of term {:?}", term.pods));
            note(levels == term.levels, format!("levels of term {:?}", term.pods));
        }
        let mut labelled: FxHashMap<std::sync::Arc<str>, u32> = FxHashMap::default();
        for (key, _) in self.tasks.iter().flat_map(|(_, task)| task.details.labels.iter()) {
            *labelled.entry(key.clone()).or_default() += 1;
        }
        note(labelled == self.terms.labelled, "labels of tasks".to_owned());
        let mut read: FxHashMap<std::sync::Arc<str>, u32> = FxHashMap::default();
        for key in self.terms.terms.iter().flat_map(|(_, term)| labels_read(&term.pods)) {
            *read.entry(key.clone()).or_default() += 1;
        }
        let mut known = self.terms.keys.clone();
        known.retain(|_, selectors| *selectors > 0);
        note(known == read, "labels that terms read".to_owned());
        let unread = self.terms.keys.len() - known.len();
        note(unread == self.terms.unread as usize, "labels that no term reads any more".to_owned());
        self.check_profiles(note);
    }

    fn check_profiles(&self, note: &mut crate::check::Note<'_>) {
        let mut placed: FxHashMap<ProfileId, FxHashMap<_, Held<u32>>> = FxHashMap::default();
        for (_, task) in self.tasks.iter() {
            let class = &self.classes[task.class];
            let look = self.terms.look(&task.pod.namespace, &task.details.labels);
            let right = class.profile.map(|id| &*self.terms.profiles[id].look) == look.as_ref();
            note(right, format!("profile of task {}", task.pod));
            if let (Some(node), Some(held), Some(profile)) =
                (task.node, held(task.status.hold()), class.profile)
            {
                placed.entry(profile).or_default().entry(node).or_default()[held] += 1;
            }
        }
        for (id, profile) in self.terms.profiles.iter() {
            let right = placed.remove(&id).unwrap_or_default() == profile.placed;
            note(right, format!("places of profile {:?}", profile.look));
            let refs = self.classes.iter().filter(|(_, class)| class.profile == Some(id)).count();
            note(refs == profile.refs as usize, format!("classes of profile {:?}", profile.look));
            let means =
                |(id, term): (TermId, &Term)| self.terms.selects(&term.pods, &profile.look).then_some(id);
            let matching: Vec<TermId> = self.terms.terms.iter().filter_map(means).collect();
            note(matching == profile.matching, format!("terms of profile {:?}", profile.look));
        }
    }

    fn rebuilt(&self, id: TermId, term: &Term) -> (Vec<Tally>, Held<u32>, [super::term::Level; 2]) {
        let topology = &self.terms.topologies[term.topology];
        let mut tallies = vec![Tally::default(); topology.bound()];
        let mut total = [0; 3];
        for (_, task) in self.tasks.iter() {
            let (Some(node), Some(held)) = (task.node, held(task.status.hold())) else { continue };
            let Some(place) = topology.place_of(node).filter(|place| place.counts) else { continue };
            let (class, tally) = (&self.classes[task.class], &mut tallies[place.domain as usize]);
            let means = self.terms.matches(id, class);
            tally.pods[held] += u32::from(means);
            total[held] += u32::from(means);
            tally.guards[held] +=
                class.carried.anti_affinity.iter().filter(|other| **other == id).count() as u32;
            let pulls = class.carried.pulls.iter().filter(|(other, _)| *other == id);
            tally.pull[held] += pulls.map(|(_, weight)| weight).sum::<i64>();
        }
        let levels = super::term::levels(topology.counting().map(|domain| &tallies[domain as usize]));
        (tallies, total, levels)
    }
}
