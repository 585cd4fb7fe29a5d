//! Gangs start whole: what a scheduler decides to bind makes `minMember` full.
use std::sync::Arc;

use phalanx_cache::slim;

use super::{Checks, SEEN, TRIED_AGAIN};
use crate::gangs::{gang_name, gang_of};
use crate::server::Server;
use crate::story::{Maker, Micros};

impl Checks {
    /// A scheduler has decided to bind pods of a gang, by their UIDs.
    pub(super) fn starts(&mut self, index: usize, pods: &[Arc<str>], server: &Server, now: Micros) {
        for pod in pods {
            self.record_mut(pod).bind_decided = Some(now);
        }
        let (min, has) = (self.min_of(index), self.stay(index, server, now).count());
        if has < min && !self.has_just_lost(index, server, now) && self.is_quiet(now) {
            self.find(now, format!("{} starts with {has} of the {min} pods of minMember", gang_name(index)));
        }
    }

    /// The pods with which a gang may start or go on.
    pub(super) fn min_of(&self, index: usize) -> usize {
        let gang = &self.story.gangs[index];
        if gang.maker == Maker::Owner { 1 } else { gang.min }
    }

    /// The pods of a gang that have nodes and stay, and those whose binds are on their way: schedulers count these too.
    pub(super) fn stay<'s>(
        &'s self,
        index: usize,
        server: &'s Server,
        now: Micros,
    ) -> impl Iterator<Item = &'s String> {
        let is_on_its_way = move |pod: &slim::Pod| {
            let decided = self.record(pod).and_then(|record| record.bind_decided);
            decided.is_some_and(|at| now - at < TRIED_AGAIN)
        };
        let stays = move |(name, pod): &(&String, &Arc<slim::Pod>)| {
            let failed = pod.status.phase.as_deref() == Some("Failed");
            let placed = pod.spec.node_name.is_some() || is_on_its_way(pod);
            gang_of(name) == Some(index) && placed && !failed && !is_terminating(pod)
        };
        server.pods.iter().filter(stays).map(|(name, _)| name)
    }

    /// Whether a pod of a gang is going or has gone so lately, for another reason than an eviction, that a scheduler may
    /// not know it.
    pub(super) fn has_just_lost(&self, index: usize, server: &Server, now: Micros) -> bool {
        let is_evicted =
            |pod: &slim::Pod| self.record(pod).is_some_and(|record| !record.preemptors.is_empty());
        let is_going = |(name, pod): (&String, &Arc<slim::Pod>)| {
            gang_of(name) == Some(index) && is_terminating(pod) && !is_evicted(pod)
        };
        now - self.gang_records[index].last_loss <= SEEN || server.pods.iter().any(is_going)
    }
}

pub(super) fn is_terminating(pod: &slim::Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}
