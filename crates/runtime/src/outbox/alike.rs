//! Gangs of a queue that wait for the same. The first few of a cycle have an event each; with more of them, one event on
//! the Queue counts all, and each PodGroup has its condition only.
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use phalanx_cluster::event::Key;
use phalanx_core::decision::Decision;
use rustc_hash::FxHashSet;

use super::lacking::is_lack;
use crate::recorder::{Note, Regarding};

/// Gangs with an event each.
const EACH_MAX: usize = 10;
/// Gangs that the event on the Queue names.
const NAMED_MAX: usize = 3;
/// Reasons that the event on the Queue tells, those of the most gangs.
const CAUSES_MAX: usize = 3;

/// A gang: name and UID.
type Gang<'d> = (&'d Key, &'d Arc<str>);

/// What the decisions of a cycle come to.
#[derive(Debug, Default)]
pub(super) struct Alike {
    /// The events on Queues.
    pub(super) notes: Vec<Note>,
    /// The UIDs of the PodGroups without an event of their own.
    pub(super) untold: FxHashSet<Arc<str>>,
}

/// Gangs by the reason for which they wait.
type ByReason<'d> = BTreeMap<&'d str, Vec<Gang<'d>>>;

impl Alike {
    pub(super) fn of(decisions: &[Decision], now: Instant) -> Self {
        let mut queues: BTreeMap<(&Arc<str>, &Arc<str>), ByReason<'_>> = BTreeMap::new();
        for decision in decisions {
            if let Decision::PodGroupUnschedulable { group, uid, reason, queue, queue_uid, cause, .. } =
                decision
                && !is_lack(reason)
                && !queue_uid.is_empty()
            {
                queues.entry((queue, queue_uid)).or_default().entry(cause).or_default().push((group, uid));
            }
        }
        let mut alike = Self::default();
        for ((queue, queue_uid), causes) in queues {
            let mut many: Vec<_> = causes.into_iter().filter(|(_, gangs)| gangs.len() > EACH_MAX).collect();
            many.sort_by_key(|(_, gangs)| std::cmp::Reverse(gangs.len()));
            let untold = many.iter().flat_map(|(_, gangs)| &gangs[EACH_MAX..]);
            alike.untold.extend(untold.map(|(_, uid)| Arc::clone(uid)));
            let texts: Vec<String> =
                many.iter().take(CAUSES_MAX).map(|(cause, of)| text(cause, of)).collect();
            if !texts.is_empty() {
                alike.notes.push(Note::queue_waits(queue, queue_uid, &texts.join("; "), now));
            }
        }
        alike
    }
}

/// `12 gangs wait, such as ns/a, ns/b and ns/c: 0/3 nodes are available: 3 Insufficient cpu.`
fn text(cause: &str, gangs: &[Gang<'_>]) -> String {
    let name = |(key, uid): &Gang<'_>| Regarding::pod_group(key, uid).key.to_string();
    let names: Vec<String> = gangs.iter().take(NAMED_MAX).map(name).collect();
    format!("{} gangs wait, such as {}: {cause}", gangs.len(), names.join(", "))
}
