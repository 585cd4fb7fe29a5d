//! Copies of what the scheduling thread knows, shared by requests that come close together.
use std::sync::{Arc, mpsc as std_mpsc};
use std::time::{Duration, Instant};

use http::StatusCode;
use phalanx_core::report::Snapshot;
use tokio::sync::{Mutex, oneshot};

use super::Refused;
use crate::engine::{Input, Taken};

/// A copy that is younger answers the next request too, so that the scheduling thread makes at most one in this time.
const FRESH: Duration = Duration::from_secs(1);
/// A copy counts so many times as long as the scheduling thread took to make it, where that is longer: so copies take a
/// twentieth of its time at most, however large the cluster is.
const FRESH_PER_COPY: u32 = 20;

/// A copy, and until when it answers.
type Kept = Option<(Instant, Arc<Snapshot>)>;

pub(super) struct Snapshots {
    engine: std_mpsc::Sender<Input>,
    kept: Arc<Mutex<Kept>>,
}

impl Snapshots {
    pub(super) fn new(engine: std_mpsc::Sender<Input>) -> Self {
        Self { engine, kept: Arc::default() }
    }

    /// A snapshot of this moment, or one that is still fresh.
    pub(super) async fn get(&self, within: Duration) -> Result<Arc<Snapshot>, Refused> {
        let unavailable = |why: &str| Refused::new(StatusCode::SERVICE_UNAVAILABLE, why);
        let mut kept = self.kept.lock().await;
        if let Some((until, snapshot)) = &*kept
            && Instant::now() < *until
        {
            return Ok(Arc::clone(snapshot));
        }
        let (tell, told) = oneshot::channel();
        self.engine.send(Input::Snapshot(tell)).map_err(|_| unavailable("the scheduler ends"))?;
        let told = tokio::time::timeout(within, told).await;
        let told = told.map_err(|_| unavailable("a cycle takes long: try again"))?;
        let taken = told.ok().flatten();
        let elsewhere =
            "this replica does not lead, or has not listed all objects yet: ask the one that holds the lease";
        let Taken { snapshot, took } = taken.ok_or_else(|| unavailable(elsewhere))?;
        let until = Instant::now() + FRESH.max(took * FRESH_PER_COPY);
        *kept = Some((until, Arc::clone(&snapshot)));
        drop(kept);
        tokio::spawn(forget(Arc::clone(&self.kept), until));
        Ok(snapshot)
    }
}

/// Frees a copy once it is too old to answer with.
async fn forget(kept: Arc<Mutex<Kept>>, end: Instant) {
    tokio::time::sleep_until(end.into()).await;
    let old = kept.lock().await.take_if(|(until, _)| *until == end);
    // Freeing a large cluster takes milliseconds, which the IO thread does not have.
    tokio::task::spawn_blocking(move || drop(old));
}
