//! What several queue plugins (capacity, proportion, drf) share.
pub(crate) mod flat_queues;
pub(crate) mod gang_excess;
pub(crate) mod share;
pub(crate) mod water_filling;
