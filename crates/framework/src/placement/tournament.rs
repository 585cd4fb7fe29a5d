//! A tournament tree over ratings: the best is known at the root, and a changed rating costs one path to the root.

/// What nodes are compared by: larger is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rating {
    /// The score in millionths.
    pub score: i64,
    /// The tie-break: of equal scores the largest wins. See [`tie_break`](super::tie_break).
    pub tie_break: u64,
}

impl Rating {
    /// The rating of what is not feasible.
    pub(crate) const NONE: Rating = Rating { score: i64::MIN, tie_break: 0 };
}

/// The tree; a player is the index of a rating.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tournament {
    /// The ratings by player, `width` of them.
    ratings: Vec<Rating>,
    /// The winners of the inner matches in heap order, with the root at 1.
    winners: Vec<u32>,
    /// The number of leaves, a power of two.
    width: usize,
}

impl Tournament {
    /// Replaces the ratings, and plays all matches.
    pub(crate) fn rebuild(&mut self, mut ratings: Vec<Rating>) {
        self.width = ratings.len().next_power_of_two();
        ratings.resize(self.width, Rating::NONE);
        self.ratings = ratings;
        self.winners.clear();
        self.winners.resize(self.width, 0);
        self.play_all();
    }

    /// Takes the ratings out, to be changed and passed to `rebuild`.
    pub(crate) fn take(&mut self) -> Vec<Rating> {
        std::mem::take(&mut self.ratings)
    }

    /// The best player and its rating; `None` if no player is feasible.
    pub(crate) fn best(&self) -> Option<(usize, Rating)> {
        let at = if self.width > 1 { self.winners[1] as usize } else { 0 };
        let rating = *self.ratings.get(at)?;
        (rating != Rating::NONE).then_some((at, rating))
    }

    /// Changes the rating of a player, and plays the matches from its leaf to the root.
    pub(crate) fn update(&mut self, player: usize, rating: Rating) {
        if self.ratings[player] == rating {
            return;
        }
        self.ratings[player] = rating;
        let mut at = (self.width + player) / 2;
        while at >= 1 {
            let winner = self.play(at);
            if winner as usize != player && winner == self.winners[at] {
                // The player was not the winner before either, so nothing changes above.
                return;
            }
            self.winners[at] = winner;
            at /= 2;
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

    /// The rating of a player.
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
        fn the_root_is_the_best_rating_after_any_updates(
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
    fn there_is_no_best_player_when_none_is_feasible() {
        for players in 0..4 {
            let mut tournament = Tournament::default();
            tournament.rebuild(vec![Rating::NONE; players]);
            assert_eq!(tournament.best(), None);
        }
    }
}
