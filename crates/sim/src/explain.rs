//! Why one PodGroup or pod waits, in the scheduler's own words.
use std::fmt;

use phalanx_core::event::PodInfo;
use phalanx_core::report::{Figures, GroupReport, QueueReport, Report as CoreReport};

use crate::simulation::Simulation;

/// The kind of object that is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A PodGroup.
    PodGroup,
    /// A pod.
    Pod,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subject::PodGroup => "PodGroup",
            Subject::Pod => "Pod",
        })
    }
}

impl Simulation {
    /// Phase, members, queue and refusals of an object, a fact a line; `None` when there is no such object.
    pub fn explain(&self, subject: Subject, namespace: &str, name: &str) -> Option<String> {
        let core = self.core_report();
        match subject {
            Subject::PodGroup => self.explain_group(&core, namespace, name),
            Subject::Pod => self.explain_pod(&core, namespace, name),
        }
    }

    fn explain_group(&self, core: &CoreReport, namespace: &str, name: &str) -> Option<String> {
        self.cluster()
            .groups()
            .find(|group| *group.key.namespace == *namespace && *group.key.name == *name)?;
        let group = find(core, false, namespace, name)?;
        Some(format!("PodGroup {}: {}\n{}", group.key, group.phase.as_str(), self.facts(core, group)))
    }

    fn explain_pod(&self, core: &CoreReport, namespace: &str, name: &str) -> Option<String> {
        let pod =
            self.cluster().pods().find(|pod| *pod.pod.namespace == *namespace && *pod.pod.name == *name)?;
        let state = state(pod);
        let group = pod.group.as_deref();
        let job = find(core, group.is_none(), namespace, group.unwrap_or(name)).filter(|_| pod.ours);
        let facts = job.map(|job| self.facts(core, job)).unwrap_or_default();
        let of_group =
            group.map(|group| format!("  member of PodGroup {namespace}/{group}\n")).unwrap_or_default();
        Some(format!("Pod {}: {state}\n{of_group}{facts}", pod.pod))
    }

    fn facts(&self, core: &CoreReport, job: &GroupReport) -> String {
        let mut text = String::new();
        if !job.solo {
            let (min, pods, placed) = (job.min_member, job.pods, job.placed);
            text.push_str(&format!(
                "  members: {pods} pods, {placed} placed, {} missing, ",
                min.saturating_sub(placed)
            ));
            text.push_str(&format!("{} waiting; minMember {min}\n", job.waiting));
        }
        if job.nominated > 0 {
            text.push_str(&format!(
                "  nominated: {} of them wait for room that is being freed\n",
                job.nominated
            ));
        }
        match core.queues.iter().find(|queue| queue.name == job.queue) {
            Some(queue) => text.push_str(&queue_facts(queue)),
            None => text.push_str(&format!("  queue {}: does not exist\n", job.queue)),
        }
        if !job.reasons.is_empty() {
            text.push_str("It waits because:\n");
            text.extend(job.reasons.iter().map(|reason| format!("  {reason}\n")));
        }
        text
    }
}

fn find<'r>(core: &'r CoreReport, solo: bool, namespace: &str, name: &str) -> Option<&'r GroupReport> {
    core.groups
        .iter()
        .find(|job| job.solo == solo && *job.key.namespace == *namespace && *job.key.name == *name)
}

fn state(pod: &PodInfo) -> String {
    match (&pod.node, &pod.nominated) {
        (Some(node), _) => format!("on node {node}"),
        (None, _) if !pod.ours => "left to another scheduler, by its spec.schedulerName".into(),
        (None, Some(node)) => format!("waits for room on node {node}"),
        (None, None) => "waits".into(),
    }
}

fn queue_facts(queue: &QueueReport) -> String {
    let facts =
        [("allocated", &queue.allocated), ("deserved", &queue.deserved), ("requested", &queue.request)];
    let facts: Vec<String> =
        facts.iter().map(|(what, figures)| format!("{what} {}", shown(figures))).collect();
    format!("  queue {}: weight {}; {}\n", queue.name, queue.weight, facts.join("; "))
}

fn shown(figures: &Figures) -> String {
    let figures: Vec<String> = figures.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    if figures.is_empty() { "nothing".into() } else { figures.join(", ") }
}
