//! The jobs of an equivalence class, of which the first is wanted. A job leaves its class without being looked up here.
//!
//! A pairing heap: the stale entry of a job that left is dropped when it comes to the top, and never compared. A binary
//! heap would compare a new entry with a stale one above it, and could leave the new one behind later jobs.
use std::cmp::Ordering;

use phalanx_cluster::id::JobId;

/// A job in an equivalence class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Member {
    pub(super) job: JobId,
    /// Tells this membership of the job from earlier ones.
    pub(super) serial: u32,
}

#[derive(Clone, Debug)]
struct Entry {
    member: Member,
    /// The first entry below this one.
    child: Option<usize>,
    /// The next entry below the parent of this one.
    sibling: Option<usize>,
}

/// The jobs of a class, with stale entries of jobs that left.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    entries: Vec<Entry>,
    unused: Vec<usize>,
    top: Option<usize>,
}

impl Members {
    /// Number of entries, stale ones included.
    pub(super) fn entries(&self) -> usize {
        self.entries.len() - self.unused.len()
    }

    /// All entries in no order, stale ones included.
    pub(super) fn all(&self) -> Vec<Member> {
        let (mut all, mut open) = (Vec::with_capacity(self.entries()), Vec::from_iter(self.top));
        while let Some(at) = open.pop() {
            let entry = &self.entries[at];
            all.push(entry.member);
            open.extend(entry.child.into_iter().chain(entry.sibling));
        }
        all
    }

    /// The first job by an order, of those that did not leave.
    pub(super) fn first(
        &mut self,
        lives: impl Fn(Member) -> bool,
        order: impl Fn(Member, Member) -> Ordering,
    ) -> Option<Member> {
        while let Some(top) = self.top {
            let member = self.entries[top].member;
            if lives(member) {
                return Some(member);
            }
            let below = self.below(top, &lives);
            self.top = self.merged(&below, &order);
        }
        None
    }

    /// Adds a job.
    pub(super) fn push(
        &mut self,
        member: Member,
        lives: impl Fn(Member) -> bool,
        order: impl Fn(Member, Member) -> Ordering,
    ) {
        self.first(lives, &order);
        let new = self.entry(member);
        self.top = Some(self.top.map_or(new, |top| self.meld(top, new, &order)));
    }

    fn entry(&mut self, member: Member) -> usize {
        let entry = Entry { member, child: None, sibling: None };
        if let Some(at) = self.unused.pop() {
            self.entries[at] = entry;
            return at;
        }
        self.entries.push(entry);
        self.entries.len() - 1
    }

    /// Removes an entry, and stale entries right below it. Returns the entries below those.
    fn below(&mut self, gone: usize, lives: impl Fn(Member) -> bool) -> Vec<usize> {
        let mut open = vec![gone];
        let mut below = Vec::new();
        while let Some(at) = open.pop() {
            self.unused.push(at);
            let mut next = self.entries[at].child;
            while let Some(child) = next {
                let list = if lives(self.entries[child].member) { &mut below } else { &mut open };
                list.push(child);
                next = self.entries[child].sibling.take();
            }
        }
        below
    }

    /// Merges heaps by their tops, in pairs first: so an amortized removal costs the logarithm of the number of
    /// entries.
    fn merged(&mut self, tops: &[usize], order: impl Fn(Member, Member) -> Ordering) -> Option<usize> {
        let pairs: Vec<usize> = tops
            .chunks(2)
            .map(|pair| pair.iter().copied().reduce(|a, b| self.meld(a, b, &order)).expect("not empty"))
            .collect();
        pairs.into_iter().reduce(|a, b| self.meld(a, b, &order))
    }

    fn meld(&mut self, a: usize, b: usize, order: impl Fn(Member, Member) -> Ordering) -> usize {
        let a_first = order(self.entries[a].member, self.entries[b].member).is_le();
        let (first, other) = if a_first { (a, b) } else { (b, a) };
        self.entries[other].sibling = self.entries[first].child.replace(other);
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::id::Id;
    use proptest::prelude::*;

    /// One operation on the members of a class.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Push(usize),
        Leave(usize),
        First,
    }

    fn step() -> impl Strategy<Value = Step> {
        let at = || 0usize..40;
        prop_oneof![4 => at().prop_map(Step::Push), 3 => at().prop_map(Step::Leave), 2 => Just(Step::First)]
    }

    proptest! {
        #[test]
        fn the_first_member_is_the_minimum_after_any_joins_and_leaves(steps in prop::collection::vec(step(), 0..120)) {
            let mut members = Members::default();
            let mut live: Vec<Member> = Vec::new();
            for (serial, step) in (0..).zip(steps) {
                let lives = |member: Member| live.contains(&member);
                match step {
                    Step::Push(rank) => {
                        let member = Member { job: JobId::from_index(rank), serial };
                        members.push(member, lives, |a, b| a.cmp(&b));
                        live.push(member);
                    }
                    Step::Leave(at) if !live.is_empty() => drop(live.swap_remove(at % live.len())),
                    Step::Leave(_) => {}
                    Step::First => {
                        let first = live.iter().min().copied();
                        prop_assert_eq!(members.first(lives, |a, b| a.cmp(&b)), first);
                    }
                }
                let all = members.all();
                prop_assert!(live.iter().all(|member| all.contains(member)));
                prop_assert_eq!(all.len(), members.entries());
            }
        }
    }
}
