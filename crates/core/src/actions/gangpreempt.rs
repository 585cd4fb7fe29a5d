//! gangpreempt: as preempt, but gangs give up only what they can do without, or all they have.
//!
//! Members beyond a gang's minimum go first, one by one, whatever their priority; then whole gangs, the least important
//! first. Source: Volcano's gangpreempt action. Its order by return on investment never decides here, since the order
//! of jobs is total.
use super::ActionDef;
use crate::eviction::{self, EvictionMode, WHOLE};
use crate::steps::{MAX_STEPS_ARG, MAX_TIME_ARG};
use phalanx_framework::conf::{ArgKind, ArgSpec, Rule};

/// Arguments of both actions that take gangs as a whole.
pub(super) const ARGS: &[ArgSpec] = &[
    MAX_STEPS_ARG,
    MAX_TIME_ARG,
    ArgSpec {
        name: "maxDomains",
        kind: ArgKind::Int(&[Rule::IDLE]),
        default: "8",
        doc: "Accepted for Volcano's sake; `hypernode.gradient.evict.max-hypernodes` of network-topology-aware counts.",
    },
    ArgSpec {
        name: WHOLE,
        kind: ArgKind::Bool,
        default: "true",
        doc: "Whether whole gangs may be evicted; otherwise only members beyond their minimum are.",
    },
];

pub(super) const DEF: ActionDef = ActionDef {
    name: "gangpreempt",
    summary: "Evicts surplus members, then whole gangs, of the same queue for a more important gang.",
    args: ARGS,
    run: |session| eviction::run(session, EvictionMode::GangPreempt),
};
