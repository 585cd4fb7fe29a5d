//! What has to hold of Jobs.
use std::sync::Arc;

use phalanx_api::batch::{Job, JobPhase, JobStatus};
use phalanx_api::v1beta1::{PodGroup, PodGroupPhase};
use phalanx_cache::slim;

use super::starts::is_terminating;
use super::{Checks, SEEN};
use crate::gangs::{self, gang_name, gang_of, uses_node};
use crate::server::{Object, Server, phase as group_phase};
use crate::story::{Answer, FaultKind, MAX_RETRY, Maker, Micros, OnLoss, Watched};

/// Whether a gang is a Job that has come to its end.
pub(super) fn has_ended(index: usize, server: &Server) -> bool {
    let job = server.jobs.get(&gang_name(index));
    job.and_then(|job| phase(job)).is_some_and(|phase| is_end(&phase))
}

fn phase(job: &Job) -> Option<JobPhase> {
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

fn is_end(phase: &JobPhase) -> bool {
    matches!(phase, JobPhase::Completed | JobPhase::Failed | JobPhase::Terminated)
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
            OnLoss::RestartPod => server.pods.get(name).is_some_and(|pod| !is_lost(pod)),
            OnLoss::RestartJob | OnLoss::RestartTask => {
                let none_lately = now - self.last_loss[index] > SEEN && self.is_quiet(now);
                (self.losses[index] == 0 || none_lately) && !pods.any(|(_, pod)| is_lost(pod))
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
        let news = &log[std::mem::replace(&mut self.looked_at_jobs, log.len())..];
        news.iter().find_map(|logged| {
            let Object::Job(job) = &logged.object else { return None };
            let (name, new) = (job.metadata.name.clone()?, job.status.clone().unwrap_or_default());
            let old = self.job_statuses.insert(name.clone(), new.clone()).unwrap_or_default();
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

    /// At the end: the phase is one that lasts, no pod is missing, retries and pods are counted right.
    pub(super) fn job_is_wrong(&self, index: usize, server: &Server) -> Option<String> {
        let name = gang_name(index);
        let job = server.jobs.get(&name)?;
        let status = job.status.clone().unwrap_or_default();
        let Some(phase) = phase(job) else { return Some(format!("Job {name} has no phase")) };
        let (retries, losses) = (status.retry_count, self.losses[index]);
        if retries as usize > losses {
            return Some(format!("Job {name} counts {retries} retries, and lost {losses} pods"));
        }
        if (retries == MAX_RETRY) != (phase == JobPhase::Failed) && phase != JobPhase::Terminated {
            return Some(format!("Job {name} is {phase:?} after {retries} retries"));
        }
        let (pods, ended, failed) = pods_of(index, server);
        let size = self.story.gangs[index].size;
        let succeeded = self.succeeded.iter().filter(|name| gang_of(name) == Some(index)).count();
        match phase {
            JobPhase::Completed if succeeded < size || failed > 0 => {
                return Some(format!(
                    "Job {name} is Completed: {succeeded} of {size} pods have succeeded, {failed} failed"
                ));
            }
            JobPhase::Completed | JobPhase::Failed => {}
            JobPhase::Terminated if self.requests_are_refused() => {}
            JobPhase::Pending | JobPhase::Running => {
                if failed > 0 || (pods == size && ended == size) {
                    return Some(format!(
                        "Job {name} stays {phase:?}: {ended} of {size} pods have ended, {failed} failed"
                    ));
                }
                if let Some(problem) = self.pods_are_missing(index, server) {
                    return Some(problem);
                }
            }
            phase => {
                let message = &status.state.message;
                return Some(format!("Job {name} stays {phase:?} after {retries} retries: {message}"));
            }
        }
        let groups = server.groups.keys().filter(|name| gang_of(name) == Some(index)).count();
        if is_end(&phase) && groups > 0 {
            return Some(format!("Job {name} has ended, and its PodGroup is there"));
        }
        counts_differ(index, server)
    }

    fn requests_are_refused(&self) -> bool {
        self.story.faults.iter().any(|fault| matches!(fault.kind, FaultKind::Answers(Answer::Refused, _)))
    }

    fn pods_are_missing(&self, index: usize, server: &Server) -> Option<String> {
        let group = server.groups.iter().find(|(name, _)| gang_of(name) == Some(index));
        let Some((_, group)) = group else {
            return Some(format!("Job {} has no PodGroup", gang_name(index)));
        };
        let phase = group.status.as_ref().and_then(|status| status.phase.clone());
        let pods = server.pods.keys().filter(|name| gang_of(name) == Some(index)).count();
        let size = self.story.gangs[index].size;
        let admitted = phase.is_some_and(|phase| phase != PodGroupPhase::Pending);
        (admitted && pods < size).then(|| format!("Job {} has {pods} pods of {size}", gang_name(index)))
    }
}

/// The pods of a Job: all, those that have ended, and of these those that failed.
fn pods_of(index: usize, server: &Server) -> (usize, usize, usize) {
    let of_job = || server.pods.iter().filter(|(name, _)| gang_of(name) == Some(index));
    let ended = of_job().filter(|(_, pod)| gangs::has_ended(pod));
    let failed = of_job().filter(|(_, pod)| pod.status.phase.as_deref() == Some("Failed"));
    (of_job().count(), ended.count(), failed.count())
}

/// The counts of a Job are those of its pods.
fn counts_differ(index: usize, server: &Server) -> Option<String> {
    let name = gang_name(index);
    let status = server.jobs.get(&name)?.status.clone().unwrap_or_default();
    let phase = |wanted: &str| {
        let of_job = |name: &String| gang_of(name) == Some(index);
        let pods = server.pods.iter().filter(|(name, _)| of_job(name));
        pods.filter(|(_, pod)| pod.status.phase.as_deref() == Some(wanted)).count() as i32
    };
    let is = [status.pending, status.running, status.succeeded, status.failed, status.terminating];
    let [pending, running, succeeded, failed] = ["Pending", "Running", "Succeeded", "Failed"].map(phase);
    let due = [pending, running, succeeded, failed, 0];
    (is != due).then(|| {
        format!(
            "the status of Job {name} counts {is:?} of pending, running, succeeded, failed, terminating: {due:?} are"
        )
    })
}
