//! Why one PodGroup or pod waits, with the reasons of the scheduler.
use std::collections::BTreeSet;
use std::fmt;

use phalanx_api::names::KUBERNETES_POD_GROUP_PREFIX;
use phalanx_cluster::event::{Phase, PodGroupInfo, PodInfo};
use phalanx_core::report::{
    ExcludedNodes, Figures, Fragments, GroupReport, QueueReport, Report as CoreReport,
};

use crate::outcome::lack;
use crate::report::{figures, for_people};
use crate::simulation::Simulation;
use crate::volcano::simulated_uid;

/// The nodes that are named for a reason.
const NAMES_MAX: usize = 5;

/// The kind of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A Job of Volcano: its PodGroups.
    Job,
    /// A PodGroup.
    PodGroup,
    /// A pod.
    Pod,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subject::Job => "Job",
            Subject::PodGroup => "PodGroup",
            Subject::Pod => "Pod",
        })
    }
}

impl Simulation {
    /// Phase, members, queue and reasons of an object, one per line; `None` if the object does not exist.
    pub fn explain(&self, subject: Subject, namespace: &str, name: &str) -> Option<String> {
        let core = self.core_report();
        match subject {
            Subject::Job => self.explain_job(&core, namespace, name),
            Subject::PodGroup => self.explain_group(&core, namespace, name),
            Subject::Pod => self.explain_pod(&core, namespace, name),
        }
    }

    /// The namespaces that have an object of this kind and name.
    pub fn namespaces_of(&self, subject: Subject, name: &str) -> BTreeSet<String> {
        let of = |namespace: &str, other: &str| (other == name).then(|| namespace.to_owned());
        match subject {
            Subject::Job => {
                let groups = self.api_server().groups();
                let of = groups.filter(|group| is_of_job(&group.key.name, name));
                of.map(|group| group.key.namespace.to_string()).collect()
            }
            Subject::PodGroup => self
                .api_server()
                .groups()
                .filter_map(|group| of(&group.key.namespace, &group.key.name))
                .collect(),
            Subject::Pod => {
                self.api_server().pods().filter_map(|pod| of(&pod.pod.namespace, &pod.pod.name)).collect()
            }
        }
    }

    fn explain_job(&self, core: &CoreReport, namespace: &str, name: &str) -> Option<String> {
        let groups = self.api_server().groups().map(|group| &group.key);
        let own = groups.filter(|key| *key.namespace == *namespace && is_of_job(&key.name, name));
        let told: Vec<String> =
            own.filter_map(|key| self.explain_group(core, namespace, &key.name)).collect();
        (!told.is_empty()).then(|| told.concat())
    }

    fn explain_group(&self, core: &CoreReport, namespace: &str, name: &str) -> Option<String> {
        let is = |full: &str| *full == *name || full.strip_prefix(KUBERNETES_POD_GROUP_PREFIX) == Some(name);
        let named = |group: &&PodGroupInfo| *group.key.namespace == *namespace && is(&group.key.name);
        let key = &self.api_server().groups().find(named)?.key;
        let group = find(core, false, namespace, &key.name)?;
        let head = format!("PodGroup {}: {}", group.key, group.phase.as_str());
        Some(lines(
            std::iter::once(head).chain(facts(core, group)).chain(self.nodes_and_remedies(core, group)),
        ))
    }

    /// What excludes which nodes, and what would let a job run, a line each.
    fn nodes_and_remedies(&self, core: &CoreReport, job: &GroupReport) -> Vec<String> {
        let excluded = self.excluded_nodes(job);
        let remedies = self.remedies(core, job);
        let under = |head: &str, lines: Vec<String>| {
            let head = (!lines.is_empty()).then(|| head.to_owned());
            head.into_iter().chain(lines.into_iter().map(|line| format!("  {line}")))
        };
        let would = match (job.waiting, remedies.alone) {
            (0, _) => "It would be admitted",
            (_, true) => "It would run, if no other job waited,",
            (_, false) => "It would run",
        };
        let nodes = excluded.iter().map(excluded_nodes).collect();
        under("Nodes that it cannot use:", nodes).chain(under(would, remedies.lines)).collect()
    }

    /// A pod of another scheduler: which of its fields would have to be another.
    fn other_scheduler(&self, pod: &PodInfo) -> Vec<String> {
        if pod.ours || pod.life.node.is_some() {
            return Vec::new();
        }
        let head = if self.would_place(pod) { "It would run" } else { "It would be tried" };
        vec![head.to_owned(), format!("  with spec.schedulerName {}", self.scheduler_name())]
    }

    fn explain_pod(&self, core: &CoreReport, namespace: &str, name: &str) -> Option<String> {
        let named = |pod: &&PodInfo| *pod.pod.namespace == *namespace && *pod.pod.name == *name;
        let pod = self.api_server().pods().find(named)?;
        let group = pod.group.as_deref();
        let of_group = group.map(|group| format!("  member of PodGroup {namespace}/{group}"));
        let job = find(core, group.is_none(), namespace, group.unwrap_or(name)).filter(|_| pod.ours);
        let facts = job.map(|job| [facts(core, job), self.nodes_and_remedies(core, job)].concat());
        let head = format!("Pod {}: {}", pod.pod, state(pod));
        let other = self.other_scheduler(pod);
        Some(lines(std::iter::once(head).chain(of_group).chain(facts.unwrap_or_default()).chain(other)))
    }
}

/// Whether a PodGroup is that of a Job, by its name: `NAME-UID`, or `NAME` as Volcano made it before 1.5.
fn is_of_job(group: &str, job: &str) -> bool {
    let is_uid = |text: &str| {
        let hexadecimal = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
        text == simulated_uid(job) || (text.len() == 36 && text.split('-').all(hexadecimal))
    };
    group.strip_prefix(job).is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(is_uid))
}

/// `n1, n2 and 3 more: Insufficient nvidia.com/gpu (6 free on 3 nodes, at most 2 on one, n1; a pod needs 4)`.
fn excluded_nodes(excluded: &ExcludedNodes) -> String {
    let names: Vec<&str> = excluded.nodes.iter().take(NAMES_MAX).map(AsRef::as_ref).collect();
    let more = excluded.nodes.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let fragments = excluded.fragments.as_ref().map(|of| format!(" ({})", told(of))).unwrap_or_default();
    format!("{}{more}: {}{fragments}", names.join(", "), excluded.text)
}

/// `6 free in fragments on 3 nodes, at most 2 on one, n1; a pod needs 4`.
pub(crate) fn told(of: &Fragments) -> String {
    let Fragments { free, nodes, largest, on, requested, .. } = of;
    match nodes {
        1 => format!("{free} free on {on}; a pod needs {requested}"),
        _ => format!(
            "{free} free in fragments on {nodes} nodes, at most {largest} on one, {on}; a pod needs {requested}"
        ),
    }
}

fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.map(|line| line + "\n").collect()
}

fn facts(core: &CoreReport, job: &GroupReport) -> Vec<String> {
    let mut facts = Vec::new();
    if !job.solo {
        let (min, pods, placed) = (job.min_member, job.pods, job.placed);
        let noun = if pods == 1 { "pod" } else { "pods" };
        let missing = if job.phase == Phase::Completed { 0 } else { min.saturating_sub(placed) };
        let (failed, waiting) = (job.failed, job.waiting);
        let failed = if failed > 0 { format!(" {failed} failed,") } else { String::new() };
        facts.push(format!(
            "  members: {pods} {noun}, {placed} placed,{failed} {missing} missing, {waiting} waiting; minMember {min}"
        ));
    }
    if job.nominated > 0 {
        facts.push(format!("  nominated: {} of them wait for room that is being freed", job.nominated));
    }
    facts.push(format!("  priority {}", job.priority));
    facts.push(match core.queues.iter().find(|queue| queue.name == job.queue) {
        Some(queue) => queue_facts(queue),
        None => format!("  queue {}: does not exist", job.queue),
    });
    if !job.reasons.is_empty() {
        facts.push("It waits because:".into());
        facts.extend(job.reasons.iter().map(|reason| format!("  {reason}")));
    }
    facts.extend(lack(job).map(|lack| format!("  {lack}")));
    facts
}

fn find<'r>(core: &'r CoreReport, solo: bool, namespace: &str, name: &str) -> Option<&'r GroupReport> {
    core.groups
        .iter()
        .find(|job| job.solo == solo && *job.key.namespace == *namespace && *job.key.name == *name)
}

fn state(pod: &PodInfo) -> String {
    match (&pod.life.node, &pod.life.nominated) {
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
    let parent = queue.parent.as_ref().map(|parent| format!("; below {parent}")).unwrap_or_default();
    format!("  queue {}: weight {}; {}{parent}", queue.name, queue.weight, facts.join("; "))
}

fn shown(of: &Figures) -> String {
    if of.is_empty() {
        "nothing".into()
    } else {
        figures(of.iter().map(|(name, amount)| (name, for_people(name, amount))))
    }
}
