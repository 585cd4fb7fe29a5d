//! Pairing heaps (Fredman et al., 1986) whose links lie in one list, so that any entry can leave its heap: the nodes of
//! a bucket by tie-break, and the buckets of a domain group by rating.

/// No entry.
pub(super) const NIL: u32 = u32::MAX;

/// The links of an entry in its heap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link<K> {
    /// The entry with the largest key is on top.
    pub(super) key: K,
    child: u32,
    next: u32,
    /// The parent of a first child, else the sibling before.
    prev: u32,
}

impl<K> Link<K> {
    /// An entry that is a heap of its own.
    pub(super) fn of(key: K) -> Self {
        Self { key, child: NIL, next: NIL, prev: NIL }
    }
}

/// The links of all entries.
#[derive(Debug)]
pub(super) struct Links<K>(pub(super) Vec<Link<K>>);

impl<K> Default for Links<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Copy + Ord> Links<K> {
    /// Makes one heap of two, and returns its top. A single entry is a heap.
    pub(super) fn meld(&mut self, a: u32, b: u32) -> u32 {
        if a == NIL || b == NIL {
            return if a == NIL { b } else { a };
        }
        let (top, below) = if self.at(a).key >= self.at(b).key { (a, b) } else { (b, a) };
        let first = std::mem::replace(&mut self.at_mut(top).child, below);
        let link = self.at_mut(below);
        (link.next, link.prev) = (first, top);
        if first != NIL {
            self.at_mut(first).prev = below;
        }
        top
    }

    /// The key of an entry; `None` for [`NIL`].
    pub(super) fn key(&self, node: u32) -> Option<K> {
        self.0.get(node as usize).map(|link| link.key)
    }

    /// Takes an entry out of the heap with this top, and returns the new top.
    pub(super) fn remove(&mut self, top: u32, node: u32) -> u32 {
        let Link { child, next, prev, .. } = *self.at(node);
        let rest = self.meld_all(child);
        let link = self.at_mut(node);
        (link.child, link.next, link.prev) = (NIL, NIL, NIL);
        if node == top {
            return rest;
        }
        let before = self.at_mut(prev);
        if before.child == node {
            before.child = next;
        } else {
            before.next = next;
        }
        if next != NIL {
            self.at_mut(next).prev = prev;
        }
        self.meld(top, rest)
    }

    /// Melds a list of siblings: in pairs, then the pairs from the last to the first.
    fn meld_all(&mut self, mut first: u32) -> u32 {
        let mut pairs = NIL;
        while first != NIL {
            let second = self.cut(first);
            let after = if second == NIL { NIL } else { self.cut(second) };
            let pair = self.meld(first, second);
            self.at_mut(pair).next = pairs;
            pairs = pair;
            first = after;
        }
        let mut top = NIL;
        while pairs != NIL {
            let after = self.cut(pairs);
            top = self.meld(top, pairs);
            pairs = after;
        }
        top
    }

    /// Cuts an entry off its siblings, and returns the next sibling.
    fn cut(&mut self, node: u32) -> u32 {
        let link = self.at_mut(node);
        link.prev = NIL;
        std::mem::replace(&mut link.next, NIL)
    }

    fn at(&self, node: u32) -> &Link<K> {
        &self.0[node as usize]
    }

    fn at_mut(&mut self, node: u32) -> &mut Link<K> {
        &mut self.0[node as usize]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_top_has_the_largest_tie_break_after_any_joins_and_leaves(
            tie_breaks in prop::collection::vec(any::<u64>(), 1..40),
            steps in prop::collection::vec(0usize..40, 0..200),
        ) {
            let mut links = Links(tie_breaks.iter().copied().map(Link::of).collect());
            let (mut top, mut members) = (NIL, std::collections::BTreeSet::new());
            for node in steps.into_iter().map(|step| step % tie_breaks.len()) {
                top = if members.remove(&(tie_breaks[node], node)) {
                    links.remove(top, node as u32)
                } else {
                    members.insert((tie_breaks[node], node));
                    links.meld(top, node as u32)
                };
                let tie_break = (top != NIL).then(|| tie_breaks[top as usize]);
                prop_assert_eq!(tie_break, members.last().map(|(tie_break, _)| *tie_break));
            }
        }
    }
}
