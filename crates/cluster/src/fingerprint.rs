//! Fingerprints, by which values are compared that nobody keeps.
use std::hash::{DefaultHasher, Hash, Hasher};

/// A hash of 64 bits by SipHash: two values that differ have the same one too rarely to matter, and nobody can make a
/// value with the fingerprint of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of a value.
    pub fn of(value: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        Self(hasher.finish())
    }
}
