//! A knock-out tournament of queues: finds the first queue with few comparisons after sums of some queues changed.
//!
//! A change of a queue's sums may change its own rank and, where plugins compare queues by ancestors, the rank of all
//! queues below an ancestor against all others, but not among each other. Entrants are sorted by path from the root, so
//! the queues below an ancestor are neighbours: only matches of the queue itself, and at both ends of these neighbours,
//! are played again.
use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use phalanx_cluster::id::QueueId;

/// Decides matches.
pub(crate) trait Rules {
    /// Whether a queue precedes all queues without this privilege; `None` when it takes no part now.
    fn privilege(&self, queue: QueueId) -> Option<bool>;
    /// The order of two queues with equal privilege; never equal.
    fn order(&self, a: QueueId, b: QueueId) -> Ordering;
}

struct Entrant {
    path: Vec<u32>,
    queue: QueueId,
    privilege: bool,
}

/// A knock-out tournament.
pub(crate) struct QueueTournament {
    /// Entrants, sorted by path.
    entrants: Vec<Entrant>,
    at: FxHashMap<QueueId, usize>,
    /// Match `i` is between the winners of `2i` and `2i + 1`; the second half are the entrants themselves.
    winners: Vec<Option<usize>>,
}

impl QueueTournament {
    /// Plays all matches between queues, given with their paths.
    pub(crate) fn new(queues: impl Iterator<Item = (Vec<u32>, QueueId)>, rules: &impl Rules) -> Self {
        let mut entrants: Vec<Entrant> =
            queues.map(|(path, queue)| Entrant { path, queue, privilege: false }).collect();
        entrants.sort_unstable_by(|a, b| (&a.path, a.queue).cmp(&(&b.path, b.queue)));
        let at = entrants.iter().enumerate().map(|(at, entrant)| (entrant.queue, at)).collect();
        let winners = vec![None; 2 * entrants.len().next_power_of_two()];
        let mut tournament = Self { entrants, at, winners };
        tournament.replay(rules);
        tournament
    }

    /// Number of entrants.
    pub(crate) fn len(&self) -> usize {
        self.entrants.len()
    }

    /// Whether a queue is an entrant.
    pub(crate) fn knows(&self, queue: QueueId) -> bool {
        self.at.contains_key(&queue)
    }

    /// The path of an entrant.
    pub(crate) fn path_of(&self, queue: QueueId) -> Option<&[u32]> {
        Some(&self.entrants[*self.at.get(&queue)?].path)
    }

    /// The first queue.
    pub(crate) fn winner(&self) -> Option<QueueId> {
        self.winners[1].map(|at| self.entrants[at].queue)
    }

    /// Plays all matches again.
    pub(crate) fn replay(&mut self, rules: &impl Rules) {
        for at in 0..self.entrants.len() {
            self.enter(at, rules);
        }
        for game in (1..self.winners.len() / 2).rev() {
            self.play(game, rules);
        }
    }

    /// Plays the matches of a queue again whose rank may have changed.
    pub(crate) fn changed(&mut self, queue: QueueId, rules: &impl Rules) {
        if let Some(at) = self.at.get(&queue).copied() {
            self.enter(at, rules);
            self.climb(at, rules);
        }
    }

    /// Plays matches again after the ranks of all queues below each ancestor of a path may have changed against other
    /// queues.
    pub(crate) fn shifted(&mut self, path: &[u32], rules: &impl Rules) {
        for depth in 1..=path.len() {
            let place = &path[..depth];
            let start = self.entrants.partition_point(|entrant| *entrant.path < *place);
            let below = |entrant: &Entrant| *entrant.path < *place || entrant.path.starts_with(place);
            let end = self.entrants.partition_point(below);
            if start > 0 && start < end {
                self.climb(start, rules);
            }
            if end < self.entrants.len() && start < end {
                self.climb(end - 1, rules);
            }
        }
    }

    fn enter(&mut self, at: usize, rules: &impl Rules) {
        let privilege = rules.privilege(self.entrants[at].queue);
        self.entrants[at].privilege = privilege.unwrap_or(false);
        let half = self.winners.len() / 2;
        self.winners[half + at] = privilege.map(|_| at);
    }

    /// Plays all matches on the path of an entrant to the root again.
    fn climb(&mut self, at: usize, rules: &impl Rules) {
        let mut game = self.winners.len() / 2 + at;
        while game > 1 {
            game /= 2;
            self.play(game, rules);
        }
    }

    fn play(&mut self, game: usize, rules: &impl Rules) {
        self.winners[game] = match (self.winners[2 * game], self.winners[2 * game + 1]) {
            (Some(a), Some(b)) if self.order(b, a, rules).is_lt() => Some(b),
            (a, b) => a.or(b),
        };
    }

    fn order(&self, a: usize, b: usize, rules: &impl Rules) -> Ordering {
        let (a, b) = (&self.entrants[a], &self.entrants[b]);
        b.privilege.cmp(&a.privilege).then_with(|| rules.order(a.queue, b.queue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::id::Id;
    use proptest::prelude::*;

    /// Queues below places, each of which holds something.
    #[derive(Clone, Debug)]
    struct Tree {
        paths: Vec<Vec<u32>>,
        /// By place, and of each queue itself.
        places: Vec<u32>,
        own: Vec<u32>,
        privileges: Vec<Option<bool>>,
    }

    impl Rules for Tree {
        fn privilege(&self, queue: QueueId) -> Option<bool> {
            self.privileges[queue.index()]
        }
        /// By what places hold as far as both have any, then the shorter path, then by themselves.
        fn order(&self, a: QueueId, b: QueueId) -> Ordering {
            let [(path_a, own_a), (path_b, own_b)] =
                [a, b].map(|queue| (&self.paths[queue.index()], self.own[queue.index()]));
            let holds = |place: &u32| self.places[*place as usize];
            let parted = path_a.iter().zip(path_b).map(|(a, b)| holds(a).cmp(&holds(b)));
            let parted = parted.fold(Ordering::Equal, Ordering::then);
            parted.then(path_a.len().cmp(&path_b.len())).then((own_a, a).cmp(&(own_b, b)))
        }
    }

    impl Tree {
        fn first(&self) -> Option<QueueId> {
            let queues = (0..self.paths.len()).map(QueueId::from_index);
            let taking_part = queues.filter_map(|queue| Some((queue, self.privilege(queue)?)));
            let order =
                |a: &(QueueId, bool), b: &(QueueId, bool)| b.1.cmp(&a.1).then_with(|| self.order(a.0, b.0));
            taking_part.min_by(order).map(|(queue, _)| queue)
        }
    }

    /// Places 0, 1 at the top, 2 and 3 below 0, 4 and 5 below 1, 6 below 5.
    const PATHS: [&[u32]; 8] = [&[], &[0], &[1], &[0, 2], &[0, 3], &[1, 4], &[1, 5], &[1, 5, 6]];

    fn tree() -> impl Strategy<Value = Tree> {
        let privilege = prop::option::weighted(0.8, prop::bool::weighted(0.1));
        prop::collection::vec((0..PATHS.len(), 0u32..4, privilege), 0..20).prop_map(|list| Tree {
            paths: list.iter().map(|(path, _, _)| PATHS[*path].to_vec()).collect(),
            places: vec![0; 7],
            own: list.iter().map(|(_, own, _)| *own).collect(),
            privileges: list.iter().map(|(_, _, privilege)| *privilege).collect(),
        })
    }

    proptest! {
        #[test]
        fn the_winner_is_the_minimum_after_any_updates(
            mut tree in tree(),
            changes in prop::collection::vec(prop::collection::vec((any::<prop::sample::Index>(), 0u32..4, prop::option::of(any::<bool>())), 1..4), 0..20),
        ) {
            let queues: Vec<_> = tree.paths.iter().cloned().enumerate().map(|(at, path)| (path, QueueId::from_index(at))).collect();
            let mut tournament = QueueTournament::new(queues.clone().into_iter(), &tree);
            prop_assert_eq!(tournament.winner(), tree.first());
            for some in changes.into_iter().filter(|_| !queues.is_empty()) {
                let changed: Vec<usize> = some.iter().map(|(which, _, _)| which.index(queues.len())).collect();
                for (at, (_, held, privilege)) in changed.iter().zip(&some) {
                    tree.own[*at] = *held;
                    tree.privileges[*at] = *privilege;
                    for place in tree.paths[*at].clone() {
                        tree.places[place as usize] += held;
                    }
                }
                for at in changed {
                    tournament.changed(QueueId::from_index(at), &tree);
                    tournament.shifted(&tree.paths[at], &tree);
                }
                prop_assert_eq!(tournament.winner(), tree.first());
            }
        }
    }
}
