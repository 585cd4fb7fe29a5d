//! A tournament over nodes: the best is known at the root, and one changed node costs one path to it.

/// What nodes are compared by: larger is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rating {
    /// Score; `NONE` for a node that will not do.
    pub score: i64,
    /// Chance, drawn once from the seed: the largest of equal scores wins, which makes every one of them
    /// equally likely (reservoir sampling by random keys).
    pub tie_break: u64,
}

impl Rating {
    /// Will not do.
    pub(crate) const NONE: Rating = Rating { score: i64::MIN, tie_break: 0 };
}

/// The tournament.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tournament {
    /// As many as there are leaves.
    ratings: Vec<Rating>,
    /// Winners of inner matches, heap order; the root is at 1. Absent when there is at most one player.
    winners: Vec<u32>,
    /// Leaves, a power of two.
    width: usize,
}

impl Tournament {
    /// Plays all matches anew.
    pub(crate) fn rebuild(&mut self, mut ratings: Vec<Rating>) {
        self.width = ratings.len().next_power_of_two();
        ratings.resize(self.width, Rating::NONE);
        self.ratings = ratings;
        self.winners.clear();
        self.winners.resize(self.width, 0);
        self.play_all();
    }

    /// The ratings, to be changed and handed to `rebuild`.
    pub(crate) fn take(&mut self) -> Vec<Rating> {
        std::mem::take(&mut self.ratings)
    }

    /// The best player and its rating, unless none will do.
    pub(crate) fn best(&self) -> Option<(usize, Rating)> {
        let at = if self.width > 1 { self.winners[1] as usize } else { 0 };
        let rating = *self.ratings.get(at)?;
        (rating != Rating::NONE).then_some((at, rating))
    }

    /// Changes a player's rating, and plays the matches on its way to the root.
    pub(crate) fn update(&mut self, player: usize, rating: Rating) {
        if self.ratings[player] == rating {
            return;
        }
        self.ratings[player] = rating;
        let mut at = (self.width + player) / 2;
        while at >= 1 {
            let winner = self.play(at);
            if winner as usize != player && winner == self.winners[at] {
                // Nor was the player the winner before, so nothing changes further up.
                return;
            }
            self.winners[at] = winner;
            at /= 2;
        }
    }

    /// Adds to the scores of players, none of whom comes twice. Of many, all matches are played anew.
    pub(crate) fn shift(&mut self, more: &[(usize, i64)]) {
        let many = more.len() > self.width / 16;
        for (player, more) in more {
            let rating = self.ratings[*player];
            let rating = Rating { score: rating.score + more, ..rating };
            if many {
                self.ratings[*player] = rating;
            } else {
                self.update(*player, rating);
            }
        }
        if many {
            self.play_all();
        }
    }

    fn play_all(&mut self) {
        let half = self.width / 2;
        for (at, pair) in self.ratings.chunks_exact(2).enumerate() {
            self.winners[half + at] = 2 * at as u32 + u32::from(pair[1] > pair[0]);
        }
        for at in (1..half).rev() {
            self.winners[at] = self.better(self.winners[2 * at], self.winners[2 * at + 1]);
        }
    }

    /// A player's rating.
    pub(crate) fn rating(&self, player: usize) -> Rating {
        self.ratings.get(player).copied().unwrap_or(Rating::NONE)
    }

    /// The winner of an inner match.
    fn play(&self, at: usize) -> u32 {
        self.better(self.entrant(2 * at), self.entrant(2 * at + 1))
    }

    fn better(&self, left: u32, right: u32) -> u32 {
        if self.ratings[right as usize] > self.ratings[left as usize] { right } else { left }
    }

    fn entrant(&self, at: usize) -> u32 {
        if at >= self.width { (at - self.width) as u32 } else { self.winners[at] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rating(score: i64) -> Rating {
        Rating { score, tie_break: 0 }
    }

    proptest! {
        #[test]
        fn the_root_is_the_maximum_after_any_updates(
            start in prop::collection::vec(-9i64..9, 0..40),
            updates in prop::collection::vec((0usize..40, -9i64..9), 0..60),
        ) {
            let mut ratings: Vec<Rating> = start.into_iter().map(rating).collect();
            let mut tournament = Tournament::default();
            tournament.rebuild(ratings.clone());
            for (player, score) in updates {
                if player < ratings.len() {
                    ratings[player] = rating(score);
                    tournament.update(player, rating(score));
                }
                prop_assert_eq!(tournament.best().map(|(_, best)| best), ratings.iter().max().copied());
            }
        }
    }

    #[test]
    fn nobody_wins_when_nobody_will_do() {
        for players in 0..4 {
            let mut tournament = Tournament::default();
            tournament.rebuild(vec![Rating::NONE; players]);
            assert_eq!(tournament.best(), None);
        }
    }
}
