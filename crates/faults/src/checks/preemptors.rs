//! While nothing changes, no gang waits that fits, or that may evict pods and starts with their room.
use std::sync::Arc;

use phalanx_api::v1beta1::PodGroupPhase;
use phalanx_cache::slim;

use super::starts::is_terminating;
use super::{Checks, SEEN, gangs_there};
use crate::gangs::{gang_name, gang_of, is_open, node_name, queue_name, takes_pods, uses_node};
use crate::server::{Server, phase};
use crate::story::{FaultKind, Gang, Micros, SECOND};

/// Within this time without a change, each eviction that may be made has been sent, and what fits is bound.
const TRIED: Micros = 15 * SECOND;

/// A pod whose eviction was refused is not evicted again for a minute, and then within [`TRIED`].
const REFUSED: Micros = 60 * SECOND + TRIED;

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
        // Controllers whose requests failed may make the pods of a Job much later.
        let is_whole = |index: usize| {
            let pods = server.pods.keys().filter(|name| gang_of(name) == Some(index));
            pods.count() == self.story.gangs[index].size
        };
        let mut repaired = gangs_there(server);
        repaired.retain(|gang| self.is_in_repair(*gang, server));
        let has_room = |gang: usize| is_whole(gang) && repaired.iter().all(|other| *other == gang);
        let waits = |gang: usize| {
            let problem = self.waits_though_it_may_evict(gang, server, now);
            problem.or_else(|| self.waits_though_it_fits(gang, server, now).filter(|_| has_room(gang)))
        };
        if let Some(problem) = gangs_there(server).into_iter().find_map(waits) {
            self.find(now, problem);
        }
    }

    /// Whether a gang has lost pods and runs with fewer than `minMember`: the scheduler keeps a node for its repair.
    fn is_in_repair(&self, index: usize, server: &Server) -> bool {
        let running =
            server.pods.iter().filter(|(name, pod)| gang_of(name) == Some(index) && uses_node(pod)).count();
        !self.gang_records[index].losses.is_empty() && (1..self.story.gangs[index].min).contains(&running)
    }

    /// A gang for which three pods were to be evicted, or that lost three, is excused: after three cycles without lasting
    /// success it evicts none for ten minutes. So are all while a pod runs whose eviction was refused.
    fn waits_though_it_may_evict(&self, index: usize, server: &Server, now: Micros) -> Option<String> {
        let gang = &self.story.gangs[index];
        let evicted = self.pod_records.values().filter(|pod| pod.preemptors.contains(&index)).count();
        let gave_up = evicted.max(self.gang_records[index].losses.len()) >= 3;
        let is_refused = |pod: &slim::Pod| {
            let sent = self.record(pod).and_then(|record| record.eviction_sent);
            sent.is_some_and(|at| now - at < REFUSED)
        };
        let refused = server.pods.values().any(|pod| uses_node(pod) && is_refused(pod));
        if gave_up || refused || !is_open(server, queue_name(gang)) {
            return None;
        }
        let needed = self.needed(index, server)?;
        let cores = gang.cores * needed as u32;
        let held = self.cores(server, |pod| self.is_limited(pod));
        // Victims in the queue leave it too.
        let in_limit = |freed| !gang.limited || held + cores <= self.story.limit + freed;
        let in_deserved = |_| held + cores <= self.story.deserved;
        let preempts = || self.room_without(cores, &self.preemptable(gang, server), server, in_limit);
        let reclaims = || self.room_without(cores, &self.reclaimable(server), server, in_deserved);
        let preempted = if gang.high { preempts() } else { None };
        let reclaimed = || if gang.limited && self.reclaims(now) { reclaims() } else { None };
        let (action, node) = match preempted {
            Some(node) => ("preempt", node),
            None => ("reclaim", reclaimed()?),
        };
        let name = gang_name(index);
        Some(format!(
            "{name} waits though it may {action} the room on {node} for the {needed} pods that it needs to start, and \
             nothing has changed for long"
        ))
    }

    /// How many pods a gang lacks to `minMember`; nothing if fewer wait, if the gang is not admitted, or if another one
    /// waits that may evict too.
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

    /// A node that has room for so many cores once these pods are gone, if the queue may have them when so many cores
    /// are freed.
    fn room_without(
        &self,
        cores: u32,
        victims: &Pods<'_>,
        server: &Server,
        queue_may: impl Fn(u32) -> bool,
    ) -> Option<String> {
        let frees =
            |pod: &slim::Pod| victims.iter().any(|(name, _)| pod.metadata.name.as_deref() == Some(*name));
        self.story.nodes.iter().enumerate().map(|(node, has)| (node_name(node), *has)).find_map(
            |(name, has)| {
                let is_here = |pod: &slim::Pod| pod.spec.node_name.as_deref() == Some(&name);
                let used = self.cores(server, |pod| is_here(pod) && !frees(pod));
                let freed = self.cores(server, |pod| is_here(pod) && frees(pod));
                (takes_pods(server, &name) && used + cores <= has && queue_may(freed)).then_some(name)
            },
        )
    }
}

/// The pods that run and stay, of gangs that are wanted.
pub(super) fn running(
    server: &Server,
    wanted: impl Fn(usize) -> bool,
) -> impl Iterator<Item = (&String, &Arc<slim::Pod>)> {
    let runs = |pod: &slim::Pod| uses_node(pod) && !is_terminating(pod);
    server.pods.iter().filter(move |(name, pod)| gang_of(name).is_some_and(&wanted) && runs(pod))
}
