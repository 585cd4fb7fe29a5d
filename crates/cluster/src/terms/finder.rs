//! Finds the terms that match a profile, and the profiles that match a term, by label values: most selectors name one.

use rustc_hash::FxHashMap;

use crate::event::{Operator, PodSelector, Requirement};
use crate::id::{Id, ProfileId, TermId};
use crate::label::{KeyValue, Labels};

/// Profiles and terms by the label values that selectors name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Finder {
    profiles: FxHashMap<KeyValue, Vec<ProfileId>>,
    terms: FxHashMap<KeyValue, Vec<TermId>>,
    /// Terms whose selectors name no label value.
    others: Vec<TermId>,
}

/// The label values of which a pod has to have one to match; `None` when the selectors name no label values.
fn wanted(pods: &[PodSelector]) -> Option<impl Iterator<Item = KeyValue> + '_> {
    let is_in = |requirement: &&Requirement| requirement.operator == Operator::In;
    let requirements = pods.iter().filter_map(|pods| pods.labels.as_ref()).flat_map(|selector| &selector.0);
    let first = requirements.into_iter().find(is_in)?;
    Some(first.values.iter().map(|value| (first.key.clone(), value.clone())))
}

impl Finder {
    pub(super) fn add_profile(&mut self, labels: &Labels, id: ProfileId) {
        labels.iter().for_each(|pair| self.profiles.entry(pair.clone()).or_default().push(id));
    }

    pub(super) fn drop_profile(&mut self, labels: &Labels, id: ProfileId) {
        labels.iter().for_each(|pair| take(&mut self.profiles, pair, id));
    }

    pub(super) fn add_term(&mut self, pods: &[PodSelector], id: TermId) {
        match wanted(pods) {
            Some(pairs) => pairs.for_each(|pair| self.terms.entry(pair).or_default().push(id)),
            None => self.others.push(id),
        }
    }

    pub(super) fn drop_term(&mut self, pods: &[PodSelector], id: TermId) {
        match wanted(pods) {
            Some(pairs) => pairs.for_each(|pair| take(&mut self.terms, &pair, id)),
            None => self.others.retain(|other| *other != id),
        }
    }

    /// Terms that may match pods with these labels, sorted.
    pub(super) fn terms(&self, labels: &Labels) -> Vec<TermId> {
        let by_label = labels.iter().filter_map(|pair| self.terms.get(pair)).flatten();
        let mut found: Vec<TermId> = self.others.iter().chain(by_label).copied().collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Profiles that a term may match; `None` for any profile.
    pub(super) fn profiles(&self, pods: &[PodSelector]) -> Option<Vec<ProfileId>> {
        let pairs = wanted(pods)?;
        let mut found: Vec<ProfileId> =
            pairs.filter_map(|pair| self.profiles.get(&pair)).flatten().copied().collect();
        found.sort_unstable();
        found.dedup();
        Some(found)
    }
}

fn take<I: Id>(map: &mut FxHashMap<KeyValue, Vec<I>>, pair: &KeyValue, id: I) {
    let Some(list) = map.get_mut(pair) else { return };
    if let Some(at) = list.iter().position(|other| *other == id) {
        list.swap_remove(at);
    }
    if list.is_empty() {
        map.remove(pair);
    }
}
