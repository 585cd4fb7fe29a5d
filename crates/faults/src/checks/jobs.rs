//! What has to hold of Jobs.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_api::batch::{Job, JobPhase, JobStatus};
use phalanx_api::v1beta1::{PodGroup, PodGroupPhase};
use phalanx_cache::slim;

use super::starts::is_terminating;
use super::{Checks, SEEN};
use crate::gangs::{gang_name, gang_of, uses_node};
use crate::server::{Object, Server, phase as group_phase};
use crate::story::{Answer, FaultKind, Maker, Micros, OnLoss, Watched};

/// Whether a gang is a Job that has come to its end.
pub(super) fn has_ended(index: usize, server: &Server) -> bool {
    let job = server.jobs.get(&gang_name(index));
    job.and_then(|job| phase(job)).is_some_and(|phase| is_end(&phase))
}

pub(super) fn phase(job: &Job) -> Option<JobPhase> {
    job.status.as_ref()?.state.phase.clone()
}

/// Whether a status counts another number of retries than restarts have begun since the one before it. A restart may
/// begin during another one.
fn miscounts(old: &JobStatus, new: &JobStatus) -> bool {
    let restarts = |status: &JobStatus| status.state.phase == Some(JobPhase::Restarting);
    match new.retry_count - old.retry_count {
        0 => restarts(new) && !restarts(old),
        1 => !restarts(new),
        _ => true,
    }
}

pub(super) fn is_end(phase: &JobPhase) -> bool {
    matches!(phase, JobPhase::Completed | JobPhase::Failed | JobPhase::Terminated)
}

/// The Jobs when they were looked at.
#[derive(Debug, Default)]
pub(super) struct JobsSeen {
    statuses: BTreeMap<String, JobStatus>,
    /// The length of their log.
    logged: usize,
}

impl Checks {
    /// Whether the PodGroup of a gang is not admitted to its queue, which has admitted as much as it may use: as in
    /// Volcano, what an admitted gang requests counts, though it waits.
    pub(super) fn awaits_admission(&self, index: usize, server: &Server) -> bool {
        let gang = &self.story.gangs[index];
        // A PodGroup of the user names no minResources, so it is always admitted.
        if gang.maker == Maker::User {
            return false;
        }
        let mut own = server.groups.iter().filter(|(name, _)| gang_of(name) == Some(index));
        if !own.any(|(_, group)| group_phase(group.status.as_ref()) == PodGroupPhase::Pending) {
            return false;
        }
        let admitted = |(name, group): (&String, &Arc<PodGroup>)| {
            let index = gang_of(name)?;
            let gang = &self.story.gangs[index];
            let waits = group_phase(group.status.as_ref()) == PodGroupPhase::Inqueue;
            let has = server.pods.iter().filter(|(name, pod)| gang_of(name) == Some(index) && uses_node(pod));
            let lacks = gang.min.saturating_sub(has.count());
            waits.then_some((gang.limited, gang.cores * lacks as u32))
        };
        let of_queue =
            server.groups.iter().filter_map(admitted).filter(|(limited, _)| *limited == gang.limited);
        let waiting: u32 = of_queue.map(|(_, cores)| cores).sum();
        let held = self.cores(server, |pod| self.is_limited(pod) == gang.limited);
        let all = self.all_cores(server);
        let most = if gang.limited { all.min(self.story.limit) } else { all };
        waiting + held + gang.cores * gang.min as u32 > most
    }

    /// The controllers delete a pod: a Job loses its pods when one was lost, and keeps them where that one alone is made
    /// anew.
    pub(super) fn discards(&mut self, name: &str, server: &Server, now: Micros) {
        let Some(index) = gang_of(name) else { return };
        let Maker::Job(on_loss) = self.story.gangs[index].maker else {
            return self.find(now, format!("the controllers delete pod {name}, which is of no Job"));
        };
        let is_lost = |pod: &slim::Pod| is_terminating(pod) || pod.status.phase.as_deref() == Some("Failed");
        let mut pods = server.pods.iter().filter(|(name, _)| gang_of(name) == Some(index));
        let healthy = match on_loss {
            OnLoss::RestartPod => {
                // The controllers count missing pods and take the lowest index for the lost one, also where a fault
                // hid that it has just been made.
                let another =
                    self.gang_records[index].losses.iter().any(|lost| lost != name) && !self.is_quiet(now);
                !another && server.pods.get(name).is_some_and(|pod| !is_lost(pod))
            }
            OnLoss::RestartJob | OnLoss::RestartTask => {
                let none_lately = now - self.gang_records[index].last_loss > SEEN && self.is_quiet(now);
                (self.gang_records[index].losses.is_empty() || none_lately)
                    && !pods.any(|(_, pod)| is_lost(pod))
            }
        };
        if healthy && !has_ended(index, server) {
            self.find(now, format!("the controllers delete pod {name}, and its Job has lost no pod"));
        }
    }

    /// What has to hold at any time: a Job has no pod too many.
    pub(super) fn pods_too_many(&self, server: &Server) -> Option<String> {
        let mut counts = vec![0; self.story.gangs.len()];
        for gang in server.pods.keys().filter_map(|name| gang_of(name)) {
            counts[gang] += 1;
        }
        let mut gangs = counts.into_iter().zip(&self.story.gangs).enumerate();
        gangs.find_map(|(index, (count, gang))| {
            (count > gang.size).then(|| format!("{} has {count} pods of {}", gang_name(index), gang.size))
        })
    }

    /// What has to hold of each status of a Job that is written: the retry count rises by one with each restart.
    pub(super) fn restart_is_wrong(&mut self, server: &Server) -> Option<String> {
        let log = server.log(Watched::Jobs);
        let news = &log[std::mem::replace(&mut self.jobs_seen.logged, log.len())..];
        news.iter().find_map(|logged| {
            let Object::Job(job) = &logged.object else { return None };
            let (name, new) = (job.metadata.name.clone()?, job.status.clone().unwrap_or_default());
            let old = self.jobs_seen.statuses.insert(name.clone(), new.clone()).unwrap_or_default();
            miscounts(&old, &new).then(|| {
                format!(
                    "Job {name} is written with phase {} and retryCount {}, after {}",
                    phase(job).map_or("none".to_owned(), |phase| phase.as_str().to_owned()),
                    new.retry_count,
                    old.retry_count,
                )
            })
        })
    }

    /// At the end: what a Job counts and says is what has happened to its pods.
    pub(super) fn job_is_wrong(&self, index: usize, server: &Server) -> Option<String> {
        let name = gang_name(index);
        let job = server.jobs.get(&name)?;
        let retries = job.status.as_ref().map_or(0, |status| status.retry_count);
        let (losses, size) = (self.gang_records[index].losses.len(), self.story.gangs[index].size);
        if retries as usize > losses {
            return Some(format!("Job {name} counts {retries} retries, and lost {losses} pods"));
        }
        let succeeded = self.succeeded.iter().filter(|name| gang_of(name) == Some(index)).count();
        let is_failed = |pod: &slim::Pod| pod.status.phase.as_deref() == Some("Failed");
        let mut pods = server.pods.iter().filter(|(name, _)| gang_of(name) == Some(index));
        match phase(job)? {
            JobPhase::Completed if succeeded < size || pods.any(|(_, pod)| is_failed(pod)) => {
                Some(format!("Job {name} is Completed: {succeeded} of {size} pods have succeeded"))
            }
            JobPhase::Terminated if !self.requests_are_refused() => {
                Some(format!("Job {name} is Terminated, and nothing was refused"))
            }
            _ => None,
        }
    }

    fn requests_are_refused(&self) -> bool {
        self.story.faults.iter().any(|fault| matches!(fault.kind, FaultKind::Answers(Answer::Refused, _)))
    }
}
