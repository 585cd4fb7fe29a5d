//! At the end of a run, statuses say what there is: computed here anew from pods and PodGroups.
use phalanx_api::v1beta1::{PodGroup, PodGroupPhase, Queue, ROOT_QUEUE};
use phalanx_cache::slim;

use super::Checks;
use crate::gangs::{has_ended, is_open, named_group, queue_name, uses_node};
use crate::server::{Server, phase};

impl Checks {
    pub(super) fn status_is_wrong(&self, index: usize, server: &Server) -> Option<String> {
        let (name, group) =
            server.groups.iter().find(|(name, _)| crate::gangs::gang_of(name) == Some(index))?;
        // A pod that ends before the controllers see it joins no PodGroup.
        let pods = || server.pods.values().filter(|pod| named_group(pod) == Some(name)).map(|pod| &**pod);
        let count = |wanted: &str| pods().filter(|pod| is_in(pod, wanted)).count();
        let status = group.status.clone().unwrap_or_default();
        let is = (status.running, status.succeeded, status.failed);
        let due = (count("Running") as i32, count("Succeeded") as i32, count("Failed") as i32);
        if is != due {
            return Some(format!(
                "the status of {name} counts {is:?} of running, succeeded, failed: {due:?} are"
            ));
        }
        let using = pods().filter(|pod| uses_node(pod)).count();
        let min = group.spec.min_member as usize;
        let is = phase(group.status.as_ref());
        if phases(using, count("Succeeded"), count("Failed"), min).is_some_and(|due| !due.contains(&is)) {
            let ended = count("Succeeded") + count("Failed");
            return Some(format!(
                "PodGroup {name} is {is:?}: {using} pods use nodes, {ended} have ended, minMember is {min}"
            ));
        }
        let waits = count("Pending") == self.story.gangs[index].size;
        (waits && !says_why(group)).then(|| format!("{name} waits and its status does not say why"))
    }

    /// All Commands are carried out, so queues are open; a queue counts its PodGroups, and its pods that use nodes.
    pub(super) fn queue_is_wrong(&self, server: &Server) -> Option<String> {
        if let Some(name) = server.commands.keys().next() {
            return Some(format!("Command {name} waits"));
        }
        if let Some(name) = server.queues.keys().find(|name| !is_open(server, name)) {
            return Some(format!("queue {name} is not open"));
        }
        let mut queues = server.queues.iter();
        queues.find_map(|(name, queue)| {
            counts_differ(name, queue, server).or_else(|| self.allocated_differs(name, queue, server))
        })
    }

    fn allocated_differs(&self, name: &str, queue: &Queue, server: &Server) -> Option<String> {
        let is = queue.status.as_ref().and_then(|status| status.allocated.get("cpu"));
        let is = is.map_or("0", |amount| amount.0.as_str());
        let due = self.cores(server, |pod| {
            let gang = pod.metadata.name.as_deref().and_then(crate::gangs::gang_of);
            gang.is_some_and(|gang| name == ROOT_QUEUE || queue_name(&self.story.gangs[gang]) == name)
        });
        (is != due.to_string())
            .then(|| format!("the status of queue {name} says that {is} cores are allocated: {due} are"))
    }
}

fn is_in(pod: &slim::Pod, phase: &str) -> bool {
    pod.status.phase.as_deref() == Some(phase)
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

/// A pod that has not ended names a PodGroup that is there.
pub(super) fn has_joined_nothing(index: usize, server: &Server) -> Option<String> {
    let of_gang = |name: &str| crate::gangs::gang_of(name) == Some(index);
    let mut pods = server.pods.iter().filter(|(name, pod)| of_gang(name) && !has_ended(pod));
    let alone = pods.find(|(_, pod)| named_group(pod).is_none_or(|group| !server.groups.contains_key(group)));
    alone.map(|(name, pod)| format!("pod {name} is in no PodGroup; it names {:?}", named_group(pod)))
}
