//! What has to hold of evictions: each is for a preemptor that may have the room, needs it, and gets it.
use std::collections::BTreeSet;
use std::sync::Arc;

use phalanx_cache::slim;

use super::{Checks, NOTICED, SEEN};
use crate::gangs::{gang_name, gang_of, member, uses_node};
use crate::server::Server;
use crate::story::{CALM_AFTER, FaultKind, Gang, Micros, SECOND, time};

/// How long after an eviction a pod is bound that may have its room.
const SERVED: Micros = 55 * SECOND;
/// How long an eviction is tried that is lost or refused.
const TRIED_AGAIN: Micros = 20 * SECOND;

/// An eviction whose room nobody uses yet.
#[derive(Clone, Debug)]
pub(super) struct Eviction {
    at: Micros,
    victim: usize,
    /// The gangs for which the schedulers have decided it.
    preemptors: BTreeSet<usize>,
}

impl Checks {
    /// A scheduler has decided to evict the pod with this UID for a gang.
    pub fn decided(&mut self, pod: &Arc<str>, preemptor: usize) {
        self.preemptors.entry(pod.to_string()).or_default().insert(preemptor);
    }

    pub(super) fn evicted(&mut self, name: &str, server: &Server, now: Micros) {
        let Some(((victim, _), pod)) = member(name).zip(server.pods.get(name)) else { return };
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let Some(preemptors) = self.preemptors.get(uid).cloned() else {
            return self.find(now, format!("pod {name} is evicted for nobody"));
        };
        let gang = |index: usize| &self.story.gangs[index];
        if let Some(by) = preemptors.iter().find(|by| !may_evict(gang(**by), gang(victim))) {
            let by = gang_name(*by);
            return self.find(now, format!("pod {name} is evicted for {by}, which has no higher priority"));
        }
        if let Some(by) = preemptors.iter().find(|by| self.needs_no_room(**by, server, now)) {
            let by = gang_name(*by);
            return self.find(now, format!("pod {name} is evicted for {by}, which fits without"));
        }
        let eviction = Eviction { at: now, victim, preemptors };
        if !self.just_bound(&eviction, now) && !self.node_just_gone(now) {
            self.evictions.push(eviction);
        }
    }

    /// The room goes to a preemptor, or to a gang that precedes it.
    fn serves(&self, gang: usize, eviction: &Eviction) -> bool {
        let high = |gang: usize| self.story.gangs[gang].high;
        let precedes = |by: &usize| *by == gang || high(gang) || !high(*by);
        gang != eviction.victim && eviction.preemptors.iter().any(precedes)
    }

    /// A pod of a gang is bound.
    pub(super) fn serve(&mut self, gang: usize, now: Micros) {
        let mut evictions = std::mem::take(&mut self.evictions);
        evictions.retain(|eviction| !self.serves(gang, eviction));
        self.evictions = evictions;
        self.last_bound.retain(|(_, bound)| *bound != gang);
        self.last_bound.push((now, gang));
    }

    /// The preemptor may be bound before the eviction arrives that makes room in its queue: both leave together, and
    /// the eviction may be tried again.
    fn just_bound(&self, eviction: &Eviction, now: Micros) -> bool {
        let mut lately = self.last_bound.iter().filter(|(at, _)| now - at < TRIED_AGAIN);
        lately.any(|(_, gang)| self.serves(*gang, eviction))
    }

    /// The scheduler may not know yet that the node is gone, or unready, for whose room it evicts.
    fn node_just_gone(&self, now: Micros) -> bool {
        self.gone.values().chain(self.unready.values()).any(|at| now - at < SEEN)
    }

    /// Whether the preemptor has had room without the eviction for as long as a scheduler needs to see it, and no other
    /// gang waits for whom the room may be kept.
    fn needs_no_room(&self, index: usize, server: &Server, now: Micros) -> bool {
        let quiet = now - self.quiet_since(now, |kind| !matches!(kind, FaultKind::QueueCloses(_)));
        let waits = |(name, pod): (&String, &Arc<slim::Pod>)| {
            pod.spec.node_name.is_none() && gang_of(name) != Some(index)
        };
        if quiet <= SEEN || now - self.last_freed <= NOTICED || server.pods.iter().any(waits) {
            return false;
        }
        let gang = &self.story.gangs[index];
        let placed = server.pods.iter().filter(|(name, pod)| gang_of(name) == Some(index) && uses_node(pod));
        let needed = gang.min.saturating_sub(placed.count()).max(1);
        let held = self.cores(server, |pod| self.is_limited(pod));
        let queue_has_room = !gang.limited || held + gang.cores * needed as u32 <= self.story.limit;
        queue_has_room && self.fit(gang, server) >= needed
    }

    /// An eviction after which nobody was bound.
    pub(super) fn in_vain(&self, now: Micros) -> Option<String> {
        let since = |at: Micros| now.saturating_sub(at.max(CALM_AFTER));
        let eviction = self.evictions.iter().find(|eviction| since(eviction.at) > SERVED)?;
        let (gang, at) = (gang_name(eviction.victim), time(eviction.at));
        Some(format!("a pod of {gang} was evicted in vain at {}", at.trim()))
    }
}

/// Preemption is for a higher priority in the same queue; a queue reclaims from another one whatever the priority.
fn may_evict(preemptor: &Gang, victim: &Gang) -> bool {
    preemptor.limited != victim.limited || (preemptor.high && !victim.high)
}
