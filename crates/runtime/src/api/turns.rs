//! Whose answer is made next.
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use http::StatusCode;
use rustc_hash::FxHashMap;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use super::Refused;

/// Answers are made one at a time. Of each user one request waits for that at a time, and others behind it: so nobody
/// waits for all that another user asks.
pub(super) struct Turns {
    all: Arc<Semaphore>,
    /// Of users who have asked, by name.
    users: std::sync::Mutex<FxHashMap<String, Weak<Semaphore>>>,
    /// How long a request waits.
    most: Duration,
}

/// The right to make an answer, while it is held.
pub(super) struct Turn {
    _of_all: OwnedSemaphorePermit,
    _of_user: OwnedSemaphorePermit,
}

impl Turns {
    /// Turns for which a request waits so long at most.
    pub(super) fn new(most: Duration) -> Self {
        Self { all: Arc::new(Semaphore::new(1)), users: std::sync::Mutex::default(), most }
    }

    /// The turn of a request of a user.
    pub(super) async fn get(&self, user: &str) -> Result<Turn, Refused> {
        let late = || Refused::new(StatusCode::SERVICE_UNAVAILABLE, "too many requests before this one");
        let turn = tokio::time::timeout(self.most, self.wait(self.of(user))).await;
        turn.map_err(|_| late())?.map_err(|_| late())
    }

    async fn wait(&self, user: Arc<Semaphore>) -> Result<Turn, AcquireError> {
        let of_user = user.acquire_owned().await?;
        Ok(Turn { _of_all: Arc::clone(&self.all).acquire_owned().await?, _of_user: of_user })
    }

    fn of(&self, user: &str) -> Arc<Semaphore> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = users.get(user).and_then(Weak::upgrade) {
            return known;
        }
        users.retain(|_, turns| turns.strong_count() > 0);
        let turns = Arc::new(Semaphore::new(1));
        users.insert(user.to_owned(), Arc::downgrade(&turns));
        turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_user_does_not_wait_for_all_that_another_one_asks() {
        let turns = Arc::new(Turns::new(Duration::from_mins(1)));
        let first = turns.get("ann").await.unwrap();
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        for (user, number) in [("ann", 2), ("ann", 3), ("ann", 4), ("root", 1)] {
            let (turns, tell) = (Arc::clone(&turns), tell.clone());
            tokio::spawn(async move {
                let _turn = turns.get(user).await.unwrap();
                tell.send((user, number)).unwrap();
            });
        }
        drop(tell);
        // All of them wait.
        tokio::task::yield_now().await;
        drop(first);
        let mut order = Vec::new();
        while let Some(next) = told.recv().await {
            order.push(next);
        }
        assert_eq!(order, [("root", 1), ("ann", 2), ("ann", 3), ("ann", 4)]);
    }

    #[tokio::test]
    async fn who_waits_too_long_is_refused_and_users_are_forgotten() {
        let turns = Turns::new(Duration::from_millis(1));
        let first = turns.get("ann").await.unwrap();
        assert_eq!(turns.get("root").await.err().unwrap().status, StatusCode::SERVICE_UNAVAILABLE);
        drop(first);
        turns.get("root").await.unwrap();
        turns.get("eve").await.unwrap();
        assert_eq!(turns.users.lock().unwrap().len(), 1);
    }
}
