//! The members of a class, of which the first is wanted. Jobs leave a class without being looked up in it.
//!
//! A pairing heap: who left is dropped when it is met at the top, and is never compared, so that those below it keep
//! their places. In a binary heap a new member would stop below one that left, ahead of members that go before it.
use std::cmp::Ordering;

use phalanx_cluster::id::JobId;

/// An entry of a job in a class, and what tells it from an earlier one of the same job.
pub(super) type Member = (JobId, u32);

#[derive(Clone, Debug)]
struct Entry {
    member: Member,
    /// The first of those that go after it.
    child: Option<usize>,
    /// The next of those that go after the same one.
    sibling: Option<usize>,
}

/// Members, and some that left.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    entries: Vec<Entry>,
    unused: Vec<usize>,
    top: Option<usize>,
}

impl Members {
    /// How many there are, with those that left and were not met since.
    pub(super) fn entries(&self) -> usize {
        self.entries.len() - self.unused.len()
    }

    /// All, in no order, with those that left.
    pub(super) fn all(&self) -> Vec<Member> {
        let (mut all, mut open) = (Vec::with_capacity(self.entries()), Vec::from_iter(self.top));
        while let Some(at) = open.pop() {
            let entry = &self.entries[at];
            all.push(entry.member);
            open.extend(entry.child.into_iter().chain(entry.sibling));
        }
        all
    }

    /// The first by an order, of those that are still in it.
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

    /// Adds one.
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

    /// Forgets an entry: those right below it, and below those of them that left too.
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

    /// Two and two, and then one after the other: so the next ones cost the logarithm of their number.
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

    /// What happens to members.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Push(usize),
        /// One of them leaves.
        Leave(usize),
        First,
    }

    fn step() -> impl Strategy<Value = Step> {
        let at = || 0usize..40;
        prop_oneof![4 => at().prop_map(Step::Push), 3 => at().prop_map(Step::Leave), 2 => Just(Step::First)]
    }

    proptest! {
        #[test]
        fn the_first_is_the_first_of_those_that_did_not_leave(steps in prop::collection::vec(step(), 0..120)) {
            let mut members = Members::default();
            let mut live: Vec<Member> = Vec::new();
            for (serial, step) in (0..).zip(steps) {
                let lives = |member: Member| live.contains(&member);
                match step {
                    Step::Push(rank) => {
                        let member = (JobId::from_index(rank), serial);
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
