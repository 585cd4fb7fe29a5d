//! Terms: pods that are counted by topology domain.
use std::sync::Arc;

use super::topology::{Topology, TopologyPlace};
use crate::Hold;
use crate::event::PodSelector;
use crate::id::TopologyId;

/// Pods as they stand: there, leaving, nominated.
pub type Held<N> = [N; 3];

/// The place of those that are nominated in [`Held`].
pub(super) const NOMINATED: usize = 2;

/// The place of a hold in [`Held`].
pub(super) fn held(hold: Hold) -> Option<usize> {
    match hold {
        Hold::Nothing => None,
        Hold::Used => Some(0),
        Hold::Releasing => Some(1),
        Hold::Pipelined => Some(NOMINATED),
    }
}

/// What is counted in one domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// Pods that the term matches.
    pub pods: Held<u32>,
    /// Pods that have the term as required anti-affinity.
    pub guards: Held<u32>,
    /// The weights by which pods draw those that the term matches, in sum.
    pub pull: Held<i64>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Pod,
    Guard,
    Pull(i64),
}

/// How many pods are where, over domains: how many domains have each count.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Level {
    /// Domains by count; nothing behind the largest.
    domains: Vec<u32>,
    least: usize,
}

impl Level {
    /// The least count; 0 without domains.
    pub(super) fn least(&self) -> u32 {
        self.least as u32
    }

    fn enter(&mut self, count: u32) {
        let at = count as usize;
        self.least = if self.domains.is_empty() { at } else { self.least.min(at) };
        if self.domains.len() <= at {
            self.domains.resize(at + 1, 0);
        }
        self.domains[at] += 1;
    }

    /// A count changes by one mostly, so the next least is near.
    fn leave(&mut self, count: u32) {
        self.domains[count as usize] -= 1;
        while self.domains.last() == Some(&0) {
            self.domains.pop();
        }
        while self.least < self.domains.len() && self.domains[self.least] == 0 {
            self.least += 1;
        }
        if self.domains.is_empty() {
            self.least = 0;
        }
    }

    /// A domain whose count changed.
    fn step(&mut self, from: u32, to: u32) {
        if from != to {
            self.enter(to);
            self.leave(from);
        }
    }
}

/// The levels of domains.
pub(super) fn levels<'a>(domains: impl Iterator<Item = &'a Tally>) -> [Level; 2] {
    let mut levels = <[Level; 2]>::default();
    for tally in domains {
        for (level, count) in levels.iter_mut().zip(views(&tally.pods)) {
            level.enter(count);
        }
    }
    levels
}

/// Pods that are counted by topology domain.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Term {
    pub(super) pods: Arc<[PodSelector]>,
    pub(super) topology: TopologyId,
    /// Classes that have it.
    pub(super) refs: u32,
    /// Of these, those for whom it matters how many pods there are.
    pub(super) exact: u32,
    /// Of these, those that keep pods away by it or draw them.
    pub(super) symmetric: u32,
    pub(super) tallies: Vec<Tally>,
    /// Pods in all domains.
    pub(super) total: Held<u32>,
    /// By pods that are there; by those, and nominated ones.
    pub(super) levels: [Level; 2],
}

/// What a change of a tally means to those who look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Nothing,
    /// In this domain something may differ.
    Here,
    /// In every domain.
    Everywhere,
}

impl Term {
    pub(super) fn new(pods: Arc<[PodSelector]>, id: TopologyId, topology: &Topology) -> Self {
        let mut term = Self {
            pods,
            topology: id,
            refs: 0,
            exact: 0,
            symmetric: 0,
            tallies: vec![Tally::default(); topology.bound()],
            total: [0; 3],
            levels: Default::default(),
        };
        topology.counting().for_each(|domain| term.set_counting(domain, true));
        term
    }

    /// A domain counts from now on, or no more.
    pub(super) fn set_counting(&mut self, domain: u32, counts: bool) {
        if self.tallies.len() <= domain as usize {
            self.tallies.resize(domain as usize + 1, Tally::default());
        }
        let counted = views(&self.tallies[domain as usize].pods);
        for (level, count) in self.levels.iter_mut().zip(counted) {
            if counts { level.enter(count) } else { level.leave(count) }
        }
    }

    /// Counts something in, or (`sign` -1) out.
    pub(super) fn count(&mut self, place: TopologyPlace, what: What, held: usize, sign: i32) -> News {
        if !place.counts {
            return News::Nothing;
        }
        let tally = &mut self.tallies[place.domain as usize];
        match what {
            What::Guard => {
                let before = presence(&tally.guards);
                shift(&mut tally.guards[held], sign);
                if presence(&tally.guards) == before { News::Nothing } else { News::Here }
            }
            What::Pull(weight) => {
                tally.pull[held] += i64::from(sign) * weight;
                News::Here
            }
            What::Pod => {
                let before = tally.pods;
                shift(&mut tally.pods[held], sign);
                let after = tally.pods;
                self.pods_changed(&before, &after, held, sign)
            }
        }
    }

    fn pods_changed(&mut self, before: &Held<u32>, after: &Held<u32>, held: usize, sign: i32) -> News {
        let least = |levels: &[Level; 2]| levels.each_ref().map(Level::least);
        let (total, lowest) = (presence(&self.total), least(&self.levels));
        shift(&mut self.total[held], sign);
        for (level, (from, to)) in self.levels.iter_mut().zip(views(before).into_iter().zip(views(after))) {
            level.step(from, to);
        }
        if presence(&self.total) != total || (self.exact > 0 && least(&self.levels) != lowest) {
            News::Everywhere
        } else if self.exact > 0 || presence(before) != presence(after) {
            News::Here
        } else {
            News::Nothing
        }
    }
}

pub(super) fn shift(count: &mut u32, sign: i32) {
    *count = count.wrapping_add_signed(sign);
}

/// Pods that are there; those, and nominated ones.
fn views(pods: &Held<u32>) -> [u32; 2] {
    [pods[0], pods[0] + pods[2]]
}

/// Whether there is any, by what a rule may look at.
fn presence(count: &Held<u32>) -> [bool; 3] {
    let [used, releasing, nominated] = *count;
    [used > 0, used + nominated > 0, used + nominated + releasing > 0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_minimum_of_a_spread_equals_a_recount(steps in prop::collection::vec((0usize..5, 0u32..4), 0..60)) {
            let mut level = Level::default();
            let mut counts: Vec<Option<u32>> = vec![None; 5];
            for (domain, count) in steps {
                match counts[domain] {
                    None => { level.enter(count); counts[domain] = Some(count); }
                    Some(before) if before == count => { level.leave(count); counts[domain] = None; }
                    Some(before) => { level.step(before, count); counts[domain] = Some(count); }
                }
                let expected = counts.iter().flatten().min().copied().unwrap_or(0);
                prop_assert_eq!(level.least(), expected);
                let mut fresh = Level::default();
                counts.iter().flatten().for_each(|count| fresh.enter(*count));
                prop_assert_eq!(&level, &fresh);
            }
        }
    }
}
