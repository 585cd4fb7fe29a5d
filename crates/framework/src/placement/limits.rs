//! Sizes from which placement works in another way.

/// Sizes from which placement takes another way to the same choice. Tests give small ones, so that small clusters take
/// every way.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many buckets the rankings of all classes may hold together, at about 30 bytes each. Beyond that the oldest
    /// rankings are dropped and made again when their class is asked again.
    pub ranked_buckets: usize,
    /// How many classes may be known before unused ones are forgotten, at one or two kilobytes each.
    pub classes: usize,
    /// With fewer buckets, a pass over all of them is not worth a second thread.
    pub parallel_buckets: usize,
    /// Up to so many buckets are always rated one by one, however few buckets there are.
    pub singly_rated_buckets: usize,
    /// Up to so many new buckets make no ranking stale, however few buckets there are.
    pub fresh_buckets: usize,
    /// The nodes of a small topology domain have at most so many attribute sets.
    pub small_domain_sets: usize,
}

impl Limits {
    /// Those of tests.
    pub const SMALL: Limits = Limits {
        ranked_buckets: 64,
        classes: 4,
        parallel_buckets: 2,
        singly_rated_buckets: 2,
        fresh_buckets: 4,
        small_domain_sets: 1,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            ranked_buckets: 1 << 23,
            classes: 1 << 12,
            parallel_buckets: 1 << 12,
            singly_rated_buckets: 64,
            fresh_buckets: 512,
            small_domain_sets: 8,
        }
    }
}
