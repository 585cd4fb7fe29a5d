//! Which changes are enough: one by itself, or a few together.
use super::fix::{Choice, Fix, joined};
use super::{Change, Remedy, TRIALS_MAX, Waiting};

/// The most changes that are told as enough together.
const TOGETHER_MAX: usize = 3;

/// The largest number with which a change is tried beside others.
const BESIDE_OTHERS_MAX: usize = 128;

/// A change with its number.
pub(super) type Numbered<'f, 'w> = (&'f Fix<'w>, usize);

impl Waiting<'_> {
    /// The changes that are enough by themselves.
    pub(super) fn helping(&self, choices: &[Choice<'_>]) -> Vec<Remedy> {
        choices.iter().flat_map(|choice| self.of_choice(choice)).collect()
    }

    /// The changes of one kind that are enough by themselves.
    pub(super) fn of_choice(&self, choice: &Choice<'_>) -> Vec<Remedy> {
        let mut tried = choice.fixes().iter().take(TRIALS_MAX);
        match choice {
            Choice::Each(_) => tried.filter_map(|fix| self.single(fix)).collect(),
            Choice::First(_) => tried.find_map(|fix| self.single(fix)).into_iter().collect(),
            Choice::Fewest(_) => {
                let mut best: Option<Numbered<'_, '_>> = None;
                for fix in tried {
                    let most = best.map_or(fix.most, |(_, count)| fix.most.min(count - 1));
                    best = self.fewest(&[], fix, most).map(|count| (fix, count)).or(best);
                }
                best.map(|best| self.told(&[best])).into_iter().collect()
            }
            Choice::Together(_, all) => {
                let first = tried.find_map(|fix| self.single(fix));
                let all: Vec<&Fix<'_>> = all.iter().collect();
                first.or_else(|| self.few_of(&all)).into_iter().collect()
            }
        }
    }

    /// A change that is enough by itself, with the smallest number.
    fn single(&self, fix: &Fix<'_>) -> Option<Remedy> {
        let count = self.fewest(&[], fix, fix.most)?;
        Some(self.told(&[(fix, count)]))
    }

    /// A few changes of any kind that are enough together: those that come first are preferred, unless more than a few of
    /// these were needed.
    pub(super) fn together(&self, choices: &[Choice<'_>]) -> Option<Remedy> {
        let fixes: Vec<&Fix<'_>> =
            choices.iter().flat_map(|choice| choice.fixes().iter().take(TRIALS_MAX)).collect();
        self.few_of(&fixes)
    }

    /// As few changes as are enough together, in their order or in the opposite one.
    fn few_of(&self, fixes: &[&Fix<'_>]) -> Option<Remedy> {
        self.few(fixes).or_else(|| self.few(&fixes.iter().copied().rev().collect::<Vec<_>>()))
    }

    /// As few changes as are enough together: each is needed, and there are not more than [`TOGETHER_MAX`]. With all
    /// changes up to one the job runs, without that one it does not: so that one is needed, and none behind it. The
    /// same is asked again beside those that were found.
    fn few(&self, fixes: &[&Fix<'_>]) -> Option<Remedy> {
        let mut needed: Vec<Numbered<'_, '_>> = Vec::new();
        let mut open: Vec<Numbered<'_, '_>> =
            fixes.iter().map(|fix| (*fix, fix.most.min(BESIDE_OTHERS_MAX))).collect();
        let enough = |needed: &[Numbered<'_, '_>], open: &[Numbered<'_, '_>]| {
            let all: Vec<_> = needed.iter().chain(open).copied().collect();
            self.helps(&all)
        };
        if !enough(&needed, &open) {
            return None;
        }
        while needed.is_empty() || !enough(&needed, &[]) {
            if needed.len() == TOGETHER_MAX {
                return None;
            }
            let (mut too_few, mut many) = (0, open.len());
            while many - too_few > 1 {
                let middle = too_few + (many - too_few) / 2;
                if enough(&needed, &open[..middle]) { many = middle } else { too_few = middle }
            }
            needed.push(*open.get(many.checked_sub(1)?)?);
            open.truncate(many - 1);
        }
        // Found from the last to the first.
        needed.reverse();
        for at in 0..needed.len() {
            let (fix, most) = needed.remove(at);
            let count = self.fewest(&needed, fix, most)?;
            needed.insert(at, (fix, count));
        }
        Some(self.told(&needed))
    }

    /// The smallest number up to a limit with which a change is enough beside others. Where the time is over, a number
    /// that is enough.
    fn fewest(&self, others: &[Numbered<'_, '_>], fix: &Fix<'_>, most: usize) -> Option<usize> {
        let enough = |count: usize| self.helps(&[others, &[(fix, count)]].concat());
        if most == 0 || !enough(most) {
            return None;
        }
        let (mut too_few, mut many) = (0, most);
        while many - too_few > 1 {
            let middle = too_few + (many - too_few) / 2;
            if enough(middle) { many = middle } else { too_few = middle }
        }
        Some(many)
    }

    fn told(&self, fixes: &[Numbered<'_, '_>]) -> Remedy {
        let namespaces: std::collections::BTreeSet<&String> =
            fixes.iter().filter_map(|(fix, _)| fix.namespace.as_ref()).collect();
        let evicts = match self.evicts(fixes) {
            0 => String::new(),
            1 => " (evicts 1 pod)".to_owned(),
            pods => format!(" (evicts {pods} pods)"),
        };
        Remedy {
            text: joined(&fixes.iter().map(|(fix, count)| (fix.text)(*count)).collect::<Vec<_>>()) + &evicts,
            namespaces: namespaces.into_iter().cloned().collect(),
            change: self.applied(fixes).1,
            smaller: self.smaller(fixes),
        }
    }

    /// The same without one of its parts; by itself, with a number or an amount that is one less.
    fn smaller(&self, fixes: &[Numbered<'_, '_>]) -> Vec<Change> {
        let change = |events| Change { events, conf: Vec::new() };
        match fixes {
            [(fix, count)] => {
                let fewer = (*count > 1).then(|| change((fix.edit)(self.cluster, count - 1)));
                let less = fix.less.as_ref().map(|less| change(less(self.cluster, 1)));
                fewer.into_iter().chain(less).collect()
            }
            several => {
                let without = |at: usize| {
                    let rest = several.iter().enumerate().filter(|(other, _)| *other != at);
                    self.applied(&rest.map(|(_, fix)| *fix).collect::<Vec<_>>()).1
                };
                (0..several.len()).map(without).collect()
            }
        }
    }
}
