//! A log of changes, which each cache reads on from its own cursor.

/// The log keeps at least so many entries; a cache whose cursor is before them starts from nothing. Small in tests, so
/// that this happens there.
const KEPT: usize = if cfg!(test) { 16 } else { 1 << 16 };

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Log<T> {
    entries: Vec<T>,
    /// Entries dropped from the front.
    dropped: u64,
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), dropped: 0 }
    }
}

impl<T> Log<T> {
    pub(super) fn push(&mut self, entry: T) {
        self.entries.push(entry);
        if self.entries.len() > 2 * KEPT {
            self.entries.drain(..KEPT);
            self.dropped += KEPT as u64;
        }
    }

    /// Entries since a cursor; `None` when some of them were dropped.
    pub(super) fn since(&self, cursor: u64) -> Option<&[T]> {
        self.entries.get(cursor.checked_sub(self.dropped)? as usize..)
    }

    /// A cursor behind the last entry.
    pub(super) fn end(&self) -> u64 {
        self.dropped + self.entries.len() as u64
    }
}
