//! reclaim: evicts pods of queues that have more than they deserve for a gang of a queue that has less.
//!
//! What a queue deserves is the plugins' to say (proportion, capacity): the gang's queue must be entitled to all of it,
//! and only running pods of other, reclaimable queues are taken; see [`eviction`](crate::eviction) for the rest.
//! Source: Volcano's reclaim action.
use super::{ActionDef, PREDICATE_CACHE_ARG};
use crate::eviction::{self, EvictionMode};
use crate::steps::{MAX_STEPS_ARG, MAX_TIME_ARG};

pub(super) const DEF: ActionDef = ActionDef {
    name: "reclaim",
    summary: "Evicts pods of queues that have more than they deserve for a gang of a queue that has less.",
    args: &[MAX_STEPS_ARG, MAX_TIME_ARG, PREDICATE_CACHE_ARG],
    run: |session| eviction::run(session, EvictionMode::Reclaim),
};
