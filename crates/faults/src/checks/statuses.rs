//! What has to hold of the objects of an API server once nothing changes any more: statuses say what there is, computed
//! here anew from pods. No story is needed, so `phalanx-bench soak` looks at a real API server with this.
//!
//! All objects are in one namespace, all pods are for Phalanx and request processor cores, all queues are open and below
//! `root`, and Jobs answer to each lost pod by a restart.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_api::batch::{Job, JobPhase};
use phalanx_api::names::JOB_NAME;
use phalanx_api::v1beta1::{PodGroup, PodGroupPhase, Queue, ROOT_QUEUE};
use phalanx_cache::slim;
use phalanx_resource::Quantity;

use super::jobs::{is_end, phase as job_phase};
use crate::gangs::{has_ended, is_open, named_group, uses_node};
use crate::server::{Server, phase};

/// All that is wrong.
pub fn problems(server: &Server) -> impl Iterator<Item = String> {
    let pods = server.pods.iter().filter_map(|(name, pod)| has_joined_nothing(name, pod, server));
    let groups = server.groups.iter().filter_map(|(name, group)| group_is_wrong(name, group, server));
    let jobs = server.jobs.iter().filter_map(|(name, job)| job_is_wrong(name, job, server));
    let commands = server.commands.keys().map(|name| format!("Command {name} was not carried out"));
    let queues = server.queues.iter().filter_map(|(name, queue)| queue_is_wrong(name, queue, server));
    overfull_nodes(server).chain(pods).chain(groups).chain(jobs).chain(commands).chain(queues)
}

/// Nodes whose pods request more than there is.
pub fn overfull_nodes(server: &Server) -> impl Iterator<Item = String> {
    let mut used = BTreeMap::<&str, i64>::new();
    for pod in server.pods.values().filter(|pod| uses_node(pod)) {
        *used.entry(pod.spec.node_name.as_deref().unwrap_or_default()).or_default() += requested(pod);
    }
    used.into_iter().filter_map(|(name, used)| {
        let has = millicores(&server.nodes.get(name)?.status.allocatable);
        (used > has).then(|| format!("{name} has {has} millicores, and its pods request {used}"))
    })
}

fn millicores(amounts: &slim::ResourceList) -> i64 {
    let cpu = amounts.get("cpu").and_then(|amount| amount.0.as_ref().ok());
    cpu.map_or(0, |cpu| cpu.milli())
}

/// In millicores.
fn requested(pod: &slim::Pod) -> i64 {
    pod.spec.containers.iter().map(|container| millicores(&container.resources.requests)).sum()
}

/// A pod that has not ended names a PodGroup that is there.
fn has_joined_nothing(name: &str, pod: &slim::Pod, server: &Server) -> Option<String> {
    let group = named_group(pod);
    let joined = group.is_some_and(|group| server.groups.contains_key(group));
    (!joined && !has_ended(pod))
        .then(|| format!("pod {name} is in no PodGroup; it names {}", group.map_or("none", |name| name)))
}

fn group_is_wrong(name: &String, group: &PodGroup, server: &Server) -> Option<String> {
    // A pod that ends before the controllers see it joins no PodGroup.
    let pods = || server.pods.values().filter(|pod| named_group(pod) == Some(name));
    let [pending, running, succeeded, failed] =
        ["Pending", "Running", "Succeeded", "Failed"].map(|phase| count_in(pods(), phase));
    let status = group.status.clone().unwrap_or_default();
    let is = (status.running, status.succeeded, status.failed);
    let due = (running as i32, succeeded as i32, failed as i32);
    if is != due {
        return Some(format!(
            "the status of {name} counts {is:?} of running, succeeded, failed: {due:?} are"
        ));
    }
    let using = pods().filter(|pod| uses_node(pod)).count();
    let min = group.spec.min_member as usize;
    let is = phase(group.status.as_ref());
    if phases(using, succeeded, failed, min).is_some_and(|due| !due.contains(&is)) {
        let ended = succeeded + failed;
        return Some(format!(
            "PodGroup {name} is {is:?}: {using} pods use nodes, {ended} have ended, minMember is {min}"
        ));
    }
    let waits = pending == pods().count() && pending >= min.max(1) && using == 0;
    (waits && !says_why(group)).then(|| format!("{name} waits and its status does not say why"))
}

fn count_in<'s>(pods: impl Iterator<Item = &'s Arc<slim::Pod>>, phase: &str) -> usize {
    pods.filter(|pod| pod.status.phase.as_deref() == Some(phase)).count()
}

/// The phases that a PodGroup may have with so many pods; nothing where the order of what happened decides.
fn phases(using: usize, succeeded: usize, failed: usize, min: usize) -> Option<&'static [PodGroupPhase]> {
    use PodGroupPhase::{Completed, Inqueue, Pending, Running};
    match using {
        0 if succeeded >= min && succeeded > 0 => Some(&[Completed]),
        _ if using + succeeded >= min && using > 0 => Some(&[Running]),
        0 if succeeded + failed < min => Some(&[Pending, Inqueue]),
        _ => None,
    }
}

fn says_why(group: &PodGroup) -> bool {
    let conditions = group.status.iter().flat_map(|status| &status.conditions);
    conditions.filter(|it| it.status == "True").any(|it| it.type_.as_str() == "Unschedulable")
}

/// All Commands are carried out, so a queue is open; it counts its PodGroups, and its pods that use nodes.
fn queue_is_wrong(name: &str, queue: &Queue, server: &Server) -> Option<String> {
    if !is_open(server, name) {
        return Some(format!("queue {name} is not open"));
    }
    counts_differ(name, queue, server).or_else(|| allocated_differs(name, queue, server))
}

fn counts_differ(name: &str, queue: &Queue, server: &Server) -> Option<String> {
    use PodGroupPhase::{Completed, Inqueue, Pending, Running, Unknown};
    let status = queue.status.clone().unwrap_or_default();
    let count = |wanted: PodGroupPhase| {
        let groups = server.groups.values().filter(|group| group.spec.queue == *name);
        groups.filter(|group| phase(group.status.as_ref()) == wanted).count() as i32
    };
    let is = [status.pending, status.inqueue, status.running, status.unknown, status.completed];
    let due = [Pending, Inqueue, Running, Unknown, Completed].map(count);
    (is != due).then(|| {
        format!(
            "the status of queue {name} counts {is:?} PodGroups pending, inqueue, running, unknown, completed: \
             {due:?} are"
        )
    })
}

fn allocated_differs(name: &str, queue: &Queue, server: &Server) -> Option<String> {
    let is = queue.status.as_ref().and_then(|status| status.allocated.get("cpu"));
    let is = is.map_or("0", |amount| amount.0.as_str());
    let is_in_queue = |pod: &slim::Pod| {
        let group = named_group(pod).and_then(|group| server.groups.get(group));
        name == ROOT_QUEUE || group.is_some_and(|group| group.spec.queue == name)
    };
    let pods = server.pods.values().filter(|pod| uses_node(pod) && is_in_queue(pod));
    let due: i64 = pods.map(|pod| requested(pod)).sum();
    let is_right = is.parse::<Quantity>().is_ok_and(|is| is.milli() == due);
    (!is_right).then(|| {
        format!("the status of queue {name} says that {is} cores are allocated: {due} millicores are")
    })
}

/// A Job has ended, or runs, or waits for room with all its pods; it counts its pods.
fn job_is_wrong(name: &str, job: &Job, server: &Server) -> Option<String> {
    let status = job.status.clone().unwrap_or_default();
    let Some(phase) = job_phase(job) else { return Some(format!("Job {name} has no phase")) };
    let retries = status.retry_count;
    if (retries == job.spec.max_retry) != (phase == JobPhase::Failed) && phase != JobPhase::Terminated {
        return Some(format!("Job {name} is {phase:?} after {retries} retries"));
    }
    let problem = match phase {
        JobPhase::Pending | JobPhase::Running => pods_are_wrong(name, job, &phase, server),
        _ if is_end(&phase) => groups_of(job, server)
            .next()
            .map(|group| format!("Job {name} has ended, and its PodGroup {group} is there")),
        phase => {
            let message = &status.state.message;
            Some(format!("Job {name} stays {phase:?} after {retries} retries: {message}"))
        }
    };
    problem.or_else(|| pod_counts_differ(name, job, server))
}

/// The PodGroups of a Job, by name.
fn groups_of<'s>(job: &'s Job, server: &'s Server) -> impl Iterator<Item = &'s String> {
    let is_of_job = |group: &PodGroup| {
        let mut owners = group.metadata.owner_references.iter().flatten();
        owners.any(|owner| Some(&owner.uid) == job.metadata.uid.as_ref())
    };
    server.groups.iter().filter(move |(_, group)| is_of_job(group)).map(|(name, _)| name)
}

fn pods_of<'s>(job: &'s str, server: &'s Server) -> impl Iterator<Item = &'s Arc<slim::Pod>> {
    let job_of = |pod: &'s slim::Pod| pod.metadata.labels.as_ref()?.get(JOB_NAME);
    server.pods.values().filter(move |pod| job_of(pod).is_some_and(|name| name == job))
}

/// A Job that goes on has one PodGroup and has not lost a pod without an answer to that.
fn pods_are_wrong(name: &str, job: &Job, goes_on: &JobPhase, server: &Server) -> Option<String> {
    let size = job.spec.tasks.iter().map(|task| task.replicas).sum::<i32>() as usize;
    let pods = pods_of(name, server).count();
    let ended = pods_of(name, server).filter(|pod| has_ended(pod)).count();
    let failed = count_in(pods_of(name, server), "Failed");
    if failed > 0 || (pods == size && ended == size) {
        return Some(format!(
            "Job {name} stays {goes_on:?}: {ended} of {size} pods have ended, {failed} failed"
        ));
    }
    let groups: Vec<&String> = groups_of(job, server).collect();
    let [group] = groups.as_slice() else { return Some(format!("Job {name} has PodGroups {groups:?}")) };
    let admitted = phase(server.groups[*group].status.as_ref()) != PodGroupPhase::Pending;
    (admitted && pods < size).then(|| format!("Job {name} has {pods} pods of {size}"))
}

fn pod_counts_differ(name: &str, job: &Job, server: &Server) -> Option<String> {
    let status = job.status.clone().unwrap_or_default();
    let is = [status.pending, status.running, status.succeeded, status.failed, status.terminating];
    let count = |phase: &str| count_in(pods_of(name, server), phase) as i32;
    let [pending, running, succeeded, failed] = ["Pending", "Running", "Succeeded", "Failed"].map(count);
    let due = [pending, running, succeeded, failed, 0];
    (is != due).then(|| {
        format!(
            "the status of Job {name} counts {is:?} of pending, running, succeeded, failed, terminating: {due:?} are"
        )
    })
}
