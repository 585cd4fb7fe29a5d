//! What has to hold of evictions: each is for a preemptor that may have the room, needs it, and gets it.
use std::collections::BTreeSet;
use std::sync::Arc;

use phalanx_cache::slim;

use super::preemptors::running;
use super::records::GangRecord;
use super::starts::is_terminating;
use super::{Checks, NOTICED, SEEN, TRIED_AGAIN};
use crate::gangs::{gang_name, gang_of};
use crate::server::Server;
use crate::story::{CALM_AFTER, FaultKind, Gang, Micros, SECOND, time};

/// How long after an eviction a pod is bound that may have its room.
const SERVED: Micros = 55 * SECOND;

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
    pub(super) fn evicts(&mut self, pod: &Arc<str>, preemptor: usize, server: &Server, now: Micros) {
        self.record_mut(pod).preemptors.insert(preemptor);
        if self.is_quiet(now)
            && let Some(problem) = self.reclaims_too_much(pod, preemptor, server, now)
        {
            self.find(now, problem);
        }
    }

    /// Queue `limited` reclaims from `default` so that it holds more than it deserves.
    fn reclaims_too_much(&self, uid: &str, by: usize, server: &Server, now: Micros) -> Option<String> {
        let mut pods = server.pods.iter();
        let (victim, pod) = pods.find(|(_, pod)| pod.metadata.uid.as_deref() == Some(uid))?;
        if self.is_limited(pod) || !self.story.gangs[by].limited {
            return None;
        }
        let missing = self.min_of(by).saturating_sub(self.stay(by, server, now).count()).max(1);
        let held = self.cores(server, |pod| self.is_limited(pod) && !is_terminating(pod));
        let (needs, deserved) = (self.story.gangs[by].cores * missing as u32, self.story.deserved);
        (held + needs > deserved).then(|| {
            let name = gang_name(by);
            format!(
                "{victim} is evicted for {name}: queue limited holds {held} cores and deserves {deserved}"
            )
        })
    }

    /// Nobody uses the room that evictions make for this gang, which is gone.
    pub(super) fn forget_evictions_for(&mut self, gang: usize) {
        self.evictions.retain(|eviction| !eviction.preemptors.contains(&gang));
    }

    pub(super) fn evicted(&mut self, name: &str, server: &Server, now: Micros) {
        let Some((victim, pod)) = gang_of(name).zip(server.pods.get(name)) else { return };
        let preemptors = self.record(pod).map(|record| record.preemptors.clone()).unwrap_or_default();
        if preemptors.is_empty() {
            return self.find(now, format!("pod {name} is evicted, and no scheduler has decided it"));
        }
        let gang = |index: usize| &self.story.gangs[index];
        let deserved = self.story.deserved;
        if let Some(by) = preemptors.iter().find(|by| !may_evict(gang(**by), gang(victim), deserved)) {
            let by = gang_name(*by);
            let problem = format!("pod {name} is evicted for {by}, which has no higher priority or claim");
            return self.find(now, problem);
        }
        if let Some(by) = preemptors.iter().find(|by| self.needs_no_room(**by, name, server, now)) {
            let by = gang_name(*by);
            return self.find(now, format!("pod {name} is evicted for {by}, which fits without"));
        }
        let preempted = preemptors.iter().any(|by| gang(*by).limited == gang(victim).limited);
        let keeps = preempted || self.is_surplus_beside(pod, server);
        if let Some(left) = self.left_of_broken_gang(victim, name, server, now).filter(|_| keeps) {
            let (of, min) = (gang_name(victim), gang(victim).min);
            let problem =
                format!("pod {name} is evicted, which leaves {left} of the {min} pods that {of} needs");
            return self.find(now, problem);
        }
        let eviction = Eviction { at: now, victim, preemptors };
        if !self.just_bound(&eviction, now) && !self.just_gone(now) {
            self.evictions.push(eviction);
        }
    }

    /// The room goes to a preemptor, or to a gang that precedes it; what is reclaimed goes to the preemptor's queue.
    fn serves(&self, gang: usize, eviction: &Eviction) -> bool {
        let [served, victim] = [gang, eviction.victim].map(|gang| &self.story.gangs[gang]);
        let precedes = |by: &usize| {
            let preemptor = &self.story.gangs[*by];
            let reclaims = preemptor.limited != victim.limited;
            let may_be_served = !reclaims || served.limited == preemptor.limited;
            *by == gang || (may_be_served && (served.high || !preemptor.high))
        };
        gang != eviction.victim && eviction.preemptors.iter().any(precedes)
    }

    /// A pod of a gang is bound.
    pub(super) fn serve(&mut self, gang: usize, now: Micros) {
        let mut evictions = std::mem::take(&mut self.evictions);
        evictions.retain(|eviction| !self.serves(gang, eviction));
        self.evictions = evictions;
        self.gang_records[gang].last_bound = Some(now);
    }

    /// The preemptor may be bound before the eviction arrives that makes room in its queue: both leave together, and
    /// the eviction may be tried again.
    fn just_bound(&self, eviction: &Eviction, now: Micros) -> bool {
        let lately = |record: &GangRecord| record.last_bound.is_some_and(|at| now - at < TRIED_AGAIN);
        let mut gangs = self.gang_records.iter().enumerate();
        gangs.any(|(gang, record)| lately(record) && self.serves(gang, eviction))
    }

    /// The scheduler may not know yet that the node is gone, or closed, for whose room it evicts, or that the preemptor
    /// is gone.
    fn just_gone(&self, now: Micros) -> bool {
        self.gone.values().chain(self.node_closures.values()).any(|at| now - at < SEEN)
    }

    /// Whether a gang of the victim's queue has surplus, and a pod on the victim's node: as in Volcano, reclaim breaks a
    /// gang where the tier of plugin `gang` names no victim, which names surplus.
    fn is_surplus_beside(&self, victim: &slim::Pod, server: &Server) -> bool {
        (0..self.story.gangs.len()).any(|index| {
            let pods = || running(server, move |of| of == index).map(|(_, pod)| pod);
            let of_queue = self.story.gangs[index].limited == self.is_limited(victim);
            let here = |pod: &Arc<slim::Pod>| pod.spec.node_name == victim.spec.node_name;
            of_queue && pods().count() > self.min_of(index) && pods().any(here)
        })
    }

    /// How many pods an eviction leaves of a gang, if these are fewer than `minMember`, and nothing but evictions has
    /// lately taken pods of the gang.
    fn left_of_broken_gang(&self, index: usize, victim: &str, server: &Server, now: Micros) -> Option<usize> {
        let (min, hidden) =
            (self.min_of(index), self.has_just_lost(index, server, now) || !self.is_quiet(now));
        let left = self.stay(index, server, now).filter(|name| *name != victim).count();
        (min > 1 && left < min && !hidden).then_some(left)
    }

    /// Whether the preemptor has had room without the eviction for as long as a scheduler needs to see it, and no other
    /// gang waits for whom the room may be kept. What other evicted pods leave is room too.
    fn needs_no_room(&self, index: usize, victim: &str, server: &Server, now: Micros) -> bool {
        let quiet = now - self.quiet_since(now, |kind| !matches!(kind, FaultKind::QueueCloses(_)));
        let waits = |(name, pod): (&String, &Arc<slim::Pod>)| {
            pod.spec.node_name.is_none() && gang_of(name) != Some(index)
        };
        if quiet <= SEEN || now - self.last_freed <= NOTICED || server.pods.iter().any(waits) {
            return false;
        }
        let gang = &self.story.gangs[index];
        let of_gang = server.pods.iter().filter(|(name, _)| gang_of(name) == Some(index));
        let waiting = of_gang.filter(|(_, pod)| pod.spec.node_name.is_none()).count().max(1);
        let stays = |pod: &slim::Pod| !is_terminating(pod) || pod.metadata.name.as_deref() == Some(victim);
        let held = self.cores(server, |pod| self.is_limited(pod) && stays(pod));
        let queue_has_room = !gang.limited || held + gang.cores * waiting as u32 <= self.story.limit;
        queue_has_room && self.fit(gang, server, stays) >= waiting
    }

    /// An eviction after which nobody was bound.
    pub(super) fn in_vain(&self, now: Micros) -> Option<String> {
        let since = |at: Micros| now.saturating_sub(at.max(CALM_AFTER));
        let eviction = self.evictions.iter().find(|eviction| since(eviction.at) > SERVED)?;
        let (gang, at) = (gang_name(eviction.victim), time(eviction.at));
        Some(format!("a pod of {gang} was evicted in vain at {}", at.trim()))
    }
}

/// Preemption is for a higher priority in the same queue; queue `limited` reclaims what it deserves, whatever the
/// priority.
fn may_evict(preemptor: &Gang, victim: &Gang, deserved: u32) -> bool {
    if preemptor.limited == victim.limited {
        preemptor.high && !victim.high
    } else {
        preemptor.limited && preemptor.cores <= deserved
    }
}
