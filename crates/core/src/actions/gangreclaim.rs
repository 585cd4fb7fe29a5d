//! gangreclaim: as reclaim, but gangs give up only what they can do without, or all they have; see
//! [`gangpreempt`](super::gangpreempt). Source: Volcano's gangreclaim action.
use super::ActionDef;
use super::gangpreempt::ARGS;
use crate::eviction::{self, EvictionMode};

pub(super) const DEF: ActionDef = ActionDef {
    name: "gangreclaim",
    summary: "Evicts surplus members, then whole gangs, of other queues for a gang of a queue that has less.",
    args: ARGS,
    run: |session| eviction::run(session, EvictionMode::GangReclaim),
};
