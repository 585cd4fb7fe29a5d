//! Finds the terms that match a profile, and the profiles that match a term, by label values.
use std::sync::Arc;

use crate::event::{PodSelector, Requirement};
use crate::id::{ProfileId, TermId};
use crate::label::{KeyValue, Labels};
use crate::multi_map::{MultiMap, SelectorIndex, needed_labels};

/// Profiles and terms by the label values that selectors name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Finder {
    profiles: MultiMap<KeyValue, ProfileId>,
    terms: SelectorIndex<TermId>,
}

fn requirements(pods: &[PodSelector]) -> impl Iterator<Item = &Requirement> {
    pods.iter().filter_map(|pods| pods.labels.as_ref()).flat_map(|selector| &selector.0)
}

/// The keys of the labels that selectors read; one that two requirements name comes twice.
pub(super) fn labels_read(pods: &[PodSelector]) -> impl Iterator<Item = &Arc<str>> {
    requirements(pods).map(|requirement| &requirement.key)
}

impl Finder {
    pub(super) fn add_profile(&mut self, labels: &Labels, id: ProfileId) {
        labels.iter().for_each(|pair| self.profiles.insert(pair.clone(), id));
    }

    pub(super) fn drop_profile(&mut self, labels: &Labels, id: ProfileId) {
        labels.iter().for_each(|pair| self.profiles.remove(pair, &id));
    }

    pub(super) fn add_term(&mut self, pods: &[PodSelector], id: TermId) {
        self.terms.insert(requirements(pods), id);
    }

    pub(super) fn drop_term(&mut self, pods: &[PodSelector], id: TermId) {
        self.terms.remove(requirements(pods), &id);
    }

    /// Terms that may match pods with these labels, sorted.
    pub(super) fn terms(&self, labels: &Labels) -> Vec<TermId> {
        let mut found: Vec<TermId> = self.terms.may_select(labels.iter()).copied().collect();
        found.sort_unstable();
        found
    }

    /// Profiles that a term may match, sorted; `None` for any profile.
    pub(super) fn profiles(&self, pods: &[PodSelector]) -> Option<Vec<ProfileId>> {
        let labels = needed_labels(requirements(pods))?;
        let mut found: Vec<ProfileId> =
            labels.flat_map(|label| self.profiles.get(&label).copied().collect::<Vec<_>>()).collect();
        found.sort_unstable();
        found.dedup();
        Some(found)
    }
}
