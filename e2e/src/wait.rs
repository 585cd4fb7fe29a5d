//! Waiting for a condition, with a failure that says what was last seen.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Calls `look` until it returns `Ok`, and returns that value.
///
/// Every error counts as "not yet", an unreachable server too, so that `look` can state what it wants
/// with [`anyhow::ensure!`]. The error after `deadline` names `what` and ends with the last one of them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::time::Duration;
/// let mut bound = 0;
/// let seen = phalanx_e2e::wait::until(Duration::from_secs(5), "3 pods bound", || {
///     bound += 1;
///     let bound = bound;
///     async move {
///         anyhow::ensure!(bound == 3, "{bound} are bound");
///         Ok(bound)
///     }
/// });
/// assert_eq!(seen.await.unwrap(), 3);
/// # }
/// ```
pub async fn until<T, F, Fut>(deadline: Duration, what: &str, mut look: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    let mut last = None;
    loop {
        let left = deadline.saturating_sub(start.elapsed());
        match tokio::time::timeout(left, look()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => last = Some(error),
            Err(_) => break,
        }
        if left.is_zero() {
            break;
        }
        tokio::time::sleep(pause.min(deadline.saturating_sub(start.elapsed()))).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    let last = last.unwrap_or_else(|| anyhow::anyhow!("the first look did not come back"));
    Err(last).with_context(|| format!("waited {deadline:?} for {what}; last seen"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_time_out_names_the_condition_and_the_last_state() {
        let error = until(Duration::from_millis(50), "3 pods bound", || async {
            anyhow::bail!("2 pods bound, worker-2 pending") as Result<()>
        });
        let text = format!("{:#}", error.await.unwrap_err());
        assert_eq!(text, "waited 50ms for 3 pods bound; last seen: 2 pods bound, worker-2 pending");
    }

    #[tokio::test]
    async fn a_check_that_hangs_ends_at_the_deadline() {
        let error = until(Duration::from_millis(50), "an answer", std::future::pending::<Result<()>>);
        assert!(format!("{:#}", error.await.unwrap_err()).contains("did not come back"));
    }
}
