//! A log of what changed, for those who keep what they made of it and read on from where they stopped.

/// The log is cut when it is longer than this; who stopped before the cut begins anew. Small in tests, so that it happens.
const KEPT: usize = if cfg!(test) { 16 } else { 1 << 16 };

#[derive(Clone, Debug)]
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

/// The log says how things came about, not what they are.
impl<T> PartialEq for Log<T> {
    fn eq(&self, _: &Self) -> bool {
        true
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

    /// What came since a cursor; `None` when the log was cut in between.
    pub(super) fn since(&self, cursor: u64) -> Option<&[T]> {
        self.entries.get(cursor.checked_sub(self.dropped)? as usize..)
    }

    /// A cursor behind the last entry.
    pub(super) fn end(&self) -> u64 {
        self.dropped + self.entries.len() as u64
    }
}
