//! Since when the oldest bind waits, for metrics.
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::lane::Lane;
use super::{Job, Outbox};
use crate::metrics::Metrics;
use crate::outbox::request::Moment;

/// How often it is looked for while there are binds: a look costs a pass over those that wait.
const EVERY: Duration = Duration::from_secs(1);

/// Looks for the oldest bind.
#[derive(Debug, Default)]
pub(super) struct OldestBind {
    /// Binds in flight: since when each waits, and its number.
    in_flight: BTreeSet<(Instant, u64)>,
    /// When it is looked for again; absent without binds.
    next: Option<Instant>,
}

impl OldestBind {
    pub(super) fn sent(&mut self, job: &Job) {
        if job.work.lane() == Lane::Binds {
            self.in_flight.insert((job.first, job.number));
        }
    }

    pub(super) fn answered(&mut self, job: &Job) {
        self.in_flight.remove(&(job.first, job.number));
    }

    /// Tells the metrics, now and then; says when it is to be called again.
    pub(super) fn tell(&mut self, outbox: &Outbox, metrics: &Metrics, now: Moment) -> Option<Instant> {
        if outbox.depth().binds == 0 {
            if self.next.take().is_some() {
                metrics.oldest_bind(None);
            }
            return None;
        }
        if self.next.is_none_or(|next| next <= now.instant) {
            let in_flight = self.in_flight.first().map(|(since, _)| *since);
            let oldest = in_flight.into_iter().chain(outbox.oldest_bind()).min();
            let wall = |since| now.wall.checked_sub(now.instant.saturating_duration_since(since)).ok();
            metrics.oldest_bind(oldest.and_then(wall));
            self.next = Some(now.instant + EVERY);
        }
        self.next
    }
}
