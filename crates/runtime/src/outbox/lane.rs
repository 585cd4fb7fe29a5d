//! Small parts of the outbox: lanes and things that are due at a time.
use std::cmp::Ordering;
use std::time::Instant;

/// What kind of request: each kind has its own number in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Binds,
    Writes,
    Events,
}

/// Something that is due at a time; the heap's greatest is the earliest, then the first that was put in.
#[derive(Debug)]
pub(super) struct Due<T> {
    pub(super) at: Instant,
    pub(super) sequence: u64,
    pub(super) job: T,
}

impl<T> Ord for Due<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl<T> PartialOrd for Due<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Due<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Due<T> {}
