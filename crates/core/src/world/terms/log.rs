//! A log of counts that changed, for those who keep what they made of them.
use crate::id::TermId;

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Of a term, in one domain.
    Domain(TermId, u32),
    /// Of a term, in every domain.
    Term(TermId),
    /// All may differ.
    All,
}

/// The log is cut when it is longer than this. Small in tests, so that it happens.
const KEPT: usize = if cfg!(test) { 16 } else { 1 << 16 };

#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    changes: Vec<Change>,
    /// Entries dropped from the front.
    dropped: u64,
}

/// The log says how things came about, not what they are.
impl PartialEq for Log {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Log {
    pub(super) fn push(&mut self, change: Change) {
        self.changes.push(change);
        if self.changes.len() > 2 * KEPT {
            self.changes.drain(..KEPT);
            self.dropped += KEPT as u64;
        }
    }

    /// What changed since a cursor; `None` when the log was cut in between.
    pub(super) fn since(&self, cursor: u64) -> Option<&[Change]> {
        self.changes.get(cursor.checked_sub(self.dropped)? as usize..)
    }

    pub(super) fn end(&self) -> u64 {
        self.dropped + self.changes.len() as u64
    }
}
