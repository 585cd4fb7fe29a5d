//! Fingerprints, by which values are compared that nobody keeps.
use std::hash::{DefaultHasher, Hash, Hasher};

/// A hash of 128 bits: two values that differ have the same one too rarely to matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64, u64);

impl Fingerprint {
    /// The fingerprint of a value.
    pub fn of(value: impl Hash) -> Self {
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, &value).hash(&mut hasher);
            hasher.finish()
        };
        Self(half(0), half(1))
    }
}
