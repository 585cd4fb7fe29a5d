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

    /// All of these changes, one after the other.
    pub(super) fn all(fixes: Vec<Self>) -> Self {
        let text = joined(&fixes.iter().map(|fix| (fix.text)(1)).collect::<Vec<_>>());
        let (edits, less): (Vec<_>, Vec<_>) = fixes.into_iter().map(|fix| (fix.edit, fix.less)).unzip();
        let each = |edits: &[Edit<'_>], cluster: &Cluster| {
            edits.iter().flat_map(|edit| edit(cluster, 1)).collect::<Vec<Event>>()
        };
        let less: Option<Vec<Edit<'_>>> = less.into_iter().collect();
        let all = Self::new(text, move |cluster| each(&edits, cluster));
        match less {
            Some(less) => all.less(move |cluster| each(&less, cluster)),
            None => all,
        }
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

/// `once a has finished, if b were open and c were ready`: a word that begins two in a row stands once.
pub(super) fn joined(texts: &[String]) -> String {
    let mut whole = String::new();
    let mut before = "";
    for (at, text) in texts.iter().enumerate() {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        whole += match at {
            0 => "",
            last if last + 1 == texts.len() => " and ",
            _ => ", ",
        };
        whole += if word == before { rest } else { text };
        before = word;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn several_changes_are_one_sentence() {
        let texts = ["if a were open", "if b were ready", "with 1 more node like n"].map(str::to_owned);
        assert_eq!(joined(&texts[..1]), "if a were open");
        assert_eq!(joined(&texts), "if a were open, b were ready and with 1 more node like n");
    }
}
