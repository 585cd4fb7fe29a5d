//! Changes that are tried, and how they are chosen from.
use phalanx_cluster::Cluster;
use phalanx_cluster::event::{Event, Key};

use super::ConfAddition;

/// What a change does to a cluster in which other changes may have been made, by its number.
type Edit<'w> = Box<dyn Fn(&Cluster, usize) -> Vec<Event> + 'w>;

/// A change that may help.
pub(super) struct Fix<'w> {
    /// What is told of it, by its number.
    pub(super) text: Box<dyn Fn(usize) -> String + 'w>,
    /// The namespace of the object of others that it changes.
    pub(super) namespace: Option<String>,
    /// The largest number; 1 for a change without one.
    pub(super) most: usize,
    /// What it does.
    pub(super) edit: Edit<'w>,
    /// The same with a little less than the amount that it tells of.
    pub(super) less: Option<Edit<'w>>,
    /// What scheduler.conf has with it.
    pub(super) conf: Option<ConfAddition>,
}

impl<'w> Fix<'w> {
    pub(super) fn new(text: impl Into<String>, edit: impl Fn(&Cluster) -> Vec<Event> + 'w) -> Self {
        let text = text.into();
        Self::counted(1, move |_| text.clone(), move |cluster, _| edit(cluster))
    }

    /// A change that needs nothing of the cluster.
    pub(super) fn events(text: impl Into<String>, events: Vec<Event>) -> Self {
        Self::new(text, move |_| events.clone())
    }

    /// A change by a number, of which the smallest is looked for that helps.
    pub(super) fn counted(
        most: usize,
        text: impl Fn(usize) -> String + 'w,
        edit: impl Fn(&Cluster, usize) -> Vec<Event> + 'w,
    ) -> Self {
        let (text, edit) = (Box::new(text), Box::new(edit));
        Self { text, namespace: None, most, edit, less: None, conf: None }
    }

    /// A change of scheduler.conf.
    pub(super) fn conf(addition: ConfAddition) -> Self {
        let text = format!("with {addition} in scheduler.conf");
        Self { conf: Some(addition), ..Self::events(text, Vec::new()) }
    }

    /// Of an object of others.
    pub(super) fn about(self, object: &Key) -> Self {
        Self { namespace: Some(object.namespace.to_string()), ..self }
    }

    /// With the same change by a little less.
    pub(super) fn less(self, edit: impl Fn(&Cluster) -> Vec<Event> + 'w) -> Self {
        Self { less: Some(Box::new(move |cluster, _| edit(cluster))), ..self }
    }
}

/// Changes of one kind, and which of those that help are told.
pub(super) enum Choice<'w> {
    /// Each.
    Each(Vec<Fix<'w>>),
    /// The first.
    First(Vec<Fix<'w>>),
    /// The one with the smallest number, and of such the first.
    Fewest(Vec<Fix<'w>>),
    /// The first of these; or as few of the others as are enough together, in their order or from the end.
    Together(Vec<Fix<'w>>, Vec<Fix<'w>>),
}

impl<'w> Choice<'w> {
    pub(super) fn one(fix: Fix<'w>) -> Self {
        Self::Each(vec![fix])
    }

    /// All that are tried by themselves.
    pub(super) fn fixes(&self) -> &[Fix<'w>] {
        match self {
            Self::Each(fixes) | Self::First(fixes) | Self::Fewest(fixes) | Self::Together(fixes, _) => fixes,
        }
    }
}
