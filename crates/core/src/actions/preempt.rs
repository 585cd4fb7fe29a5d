//! preempt: evicts less important pods of a queue for a gang of the same queue that has no room.
//!
//! Plugins say which pods may be evicted (priority, drf, gang, conformance, ...); see [`eviction`](crate::eviction)
//! for the rest. A job whose gang is whole and that still starves (with `enableJobStarving: false` on gang) preempts
//! for each further task, and where that fails may evict its own less important tasks for it. Source: Volcano's preempt
//! action.
use super::ActionDef;
use crate::eviction::{self, EvictionMode};
use crate::steps::{MAX_STEPS_ARG, MAX_TIME_ARG};
use phalanx_framework::conf::{ArgKind, ArgSpec, Rule};

const fn accepted(name: &'static str, kind: ArgKind, default: &'static str) -> ArgSpec {
    let doc = "Accepted for Volcano's sake; a victim's place is always proven by all rules, and no node is left out.";
    ArgSpec { name, kind, default, doc }
}

pub(super) const DEF: ActionDef = ActionDef {
    name: "preempt",
    summary: "Evicts less important pods of a queue for a gang of the same queue.",
    args: &[
        MAX_STEPS_ARG,
        MAX_TIME_ARG,
        accepted("predicateErrorCacheEnable", ArgKind::Bool, "true"),
        accepted("enableTopologyAwarePreemption", ArgKind::Bool, "false"),
        accepted("topologyAwarePreemptWorkerNum", ArgKind::Int(&[Rule::IDLE]), "16"),
        accepted("minCandidateNodesPercentage", ArgKind::Int(&[Rule::IDLE_PERCENT]), "10"),
        accepted("minCandidateNodesAbsolute", ArgKind::Int(&[Rule::IDLE]), "1"),
        accepted("maxCandidateNodesAbsolute", ArgKind::Int(&[Rule::IDLE]), "100"),
    ],
    run: |session| eviction::run(session, EvictionMode::Preempt),
};
