//! A gang that may evict pods, and starts with their room, does not wait while nothing else happens.
use std::sync::Arc;

use phalanx_api::v1beta1::PodGroupPhase;
use phalanx_cache::slim;

use super::starts::is_terminating;
use super::{Checks, SEEN};
use crate::gangs::{gang_name, gang_of, is_open, node_name, queue_name, takes_pods, uses_node};
use crate::server::{Server, phase};
use crate::story::{FaultKind, Gang, Micros, SECOND};

/// So long after the last change or fault, all that may be evicted for has been.
const TRIED: Micros = 15 * SECOND;

/// Pods, by name.
type Pods<'s> = Vec<(&'s String, &'s Arc<slim::Pod>)>;

impl Checks {
    /// What has to hold when no pod and no Job has changed since this time.
    pub fn when_still(&mut self, server: &Server, since: Micros, now: Micros) {
        if now < since + TRIED || self.looked_when_still == Some(since) {
            return;
        }
        if now < self.quiet_since(now, |_| true) + SEEN + TRIED {
            return;
        }
        self.looked_when_still = Some(since);
        let gangs = 0..self.story.gangs.len();
        if let Some(problem) =
            gangs.into_iter().find_map(|gang| self.waits_though_it_may_evict(gang, server, now))
        {
            self.find(now, problem);
        }
    }

    /// A gang that has evicted pods in three cycles without success evicts none for ten minutes.
    fn waits_though_it_may_evict(&self, index: usize, server: &Server, now: Micros) -> Option<String> {
        if self.preemptors.values().filter(|by| by.contains(&index)).count() >= 3 {
            return None;
        }
        let gang = &self.story.gangs[index];
        let needed = self.needed(index, server)?;
        let cores = gang.cores * needed as u32;
        let held = self.cores(server, |pod| self.is_limited(pod));
        if !is_open(server, queue_name(gang)) || (gang.limited && held + cores > self.story.limit) {
            return None;
        }
        let by = if gang.high && self.has_room(cores, server, self.preemptable(gang, server)) {
            "preempt"
        } else if gang.limited
            && self.reclaims(now)
            && held + cores <= self.story.deserved
            && self.has_room(cores, server, self.reclaimable(server))
        {
            "reclaim"
        } else {
            return None;
        };
        Some(format!("{} waits though it may {by} the room for its {needed} pods", gang_name(index)))
    }

    /// How many pods a gang needs to start, if so many wait, the gang is admitted, and no other one waits that may evict.
    fn needed(&self, index: usize, server: &Server) -> Option<usize> {
        let mut groups = server.groups.iter().filter(|(name, _)| gang_of(name) == Some(index));
        let admitted = groups.any(|(_, group)| phase(group.status.as_ref()) == PodGroupPhase::Inqueue);
        let waits = |pod: &slim::Pod| pod.spec.node_name.is_none() && !is_terminating(pod);
        let waiting = |wanted: &dyn Fn(usize) -> bool| {
            let of = |name: &str| gang_of(name).is_some_and(wanted);
            server.pods.iter().filter(|(name, pod)| of(name) && waits(pod)).count()
        };
        let is_rival = |gang: usize| {
            let Gang { high, limited, .. } = self.story.gangs[gang];
            gang != index && (high || limited)
        };
        let placed =
            server.pods.iter().filter(|(name, pod)| gang_of(name) == Some(index) && !waits(pod)).count();
        let needed = self.min_of(index).checked_sub(placed).filter(|needed| *needed > 0)?;
        (admitted && waiting(&|gang| gang == index) >= needed && waiting(&is_rival) == 0).then_some(needed)
    }

    /// Whether the last scheduler.conf that took effect has action `reclaim`.
    fn reclaims(&self, now: Micros) -> bool {
        let mut faults = self.story.faults.iter().filter(|fault| fault.at <= now).rev();
        faults.find_map(|fault| if let FaultKind::Reload(conf) = fault.kind { Some(conf) } else { None })
            != Some(1)
    }

    /// The pods above `minMember` of the gangs that are wanted.
    fn surplus<'s>(&self, server: &'s Server, wanted: impl Fn(&Gang) -> bool) -> Pods<'s> {
        let gangs = self.story.gangs.iter().enumerate().filter(|(_, gang)| wanted(gang));
        gangs.flat_map(|(index, _)| running(server, move |of| of == index).skip(self.min_of(index))).collect()
    }

    /// The pods that a gang of high priority may preempt: each gang keeps `minMember`.
    fn preemptable<'s>(&self, preemptor: &Gang, server: &'s Server) -> Pods<'s> {
        self.surplus(server, |gang| gang.limited == preemptor.limited && !gang.high)
    }

    /// The pods that queue `limited` may reclaim from `default`, which deserves nothing: as in Volcano the first tier
    /// that leaves a victim decides, and that of plugin `gang` leaves surplus, if there is any.
    fn reclaimable<'s>(&self, server: &'s Server) -> Pods<'s> {
        let surplus = self.surplus(server, |gang| !gang.limited);
        if surplus.is_empty() {
            return running(server, |gang| !self.story.gangs[gang].limited).collect();
        }
        surplus
    }

    /// Whether some node has room for so many cores once these pods are gone.
    fn has_room(&self, cores: u32, server: &Server, victims: Pods<'_>) -> bool {
        let frees =
            |pod: &slim::Pod| victims.iter().any(|(name, _)| pod.metadata.name.as_deref() == Some(*name));
        self.story.nodes.iter().enumerate().any(|(node, has)| {
            let name = node_name(node);
            let stays = |pod: &slim::Pod| pod.spec.node_name.as_deref() == Some(&name) && !frees(pod);
            let used = self.cores(server, stays);
            takes_pods(server, &name) && used + cores <= *has
        })
    }
}

/// The pods that run and stay, of gangs that are wanted.
fn running<'s>(
    server: &'s Server,
    wanted: impl Fn(usize) -> bool,
) -> impl Iterator<Item = (&'s String, &'s Arc<slim::Pod>)> {
    let runs = |pod: &slim::Pod| uses_node(pod) && !is_terminating(pod);
    server.pods.iter().filter(move |(name, pod)| gang_of(name).is_some_and(&wanted) && runs(pod))
}
