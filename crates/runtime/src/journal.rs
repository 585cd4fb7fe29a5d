//! What was decided, in the log: a line for each gang that is bound, and for each pod that is evicted.
use std::collections::BTreeSet;

use phalanx_core::decision::{Binding, Decision};
use tracing::info;

/// Nodes named in a line.
const NODES_MAX: usize = 8;

/// Logs which pods were started on which nodes, and which pods were evicted for which preemptor.
pub(crate) fn decided(decisions: &[Decision]) {
    for decision in decisions {
        match decision {
            Decision::Bind { job, pods } => info!(%job, pods = pods.len(), nodes = nodes(pods), "binding"),
            Decision::Evict { pod, cause, .. } => {
                info!(%pod, action = cause.action, reason = &*cause.reason, "evicting");
            }
            _ => {}
        }
    }
}

/// Their names, or as many of them as a line can hold.
fn nodes(pods: &[Binding]) -> String {
    let names: BTreeSet<&str> = pods.iter().map(|binding| &*binding.node).collect();
    let named = names.iter().take(NODES_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NODES_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
