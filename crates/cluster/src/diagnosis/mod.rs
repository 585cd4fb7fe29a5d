//! Why something was refused: as data, which becomes text at the end.
mod eviction;
mod limit;
mod nodes;
mod priority;
mod queue;
mod sub_groups;
mod topology;

use std::borrow::Cow;
use std::sync::Arc;

use phalanx_resource::{DimId, Dims};

pub use eviction::{NoEviction, NoPotentialVictims, Protected, Protection, Short, Then, Untried, Whose};
pub use limit::{Beside, Limit, Overuse};
pub use nodes::without_lack;
pub use nodes::{Distance, FitError, Shortage, Unfit};
pub use priority::{Priority, Source};
pub use queue::QueueFault;
pub use sub_groups::{EmptyPolicy, SubGroupFault};
pub use topology::TopologyFault;

use crate::event::Key;
use crate::search_budget::Cut;

/// The number of resources that a reason names.
const RESOURCES_MAX: usize = 8;

/// Why a job, or some of its tasks, waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Pods name a PodGroup that does not exist.
    NoPodGroup(Key),
    /// The object has an invalid or unsupported field.
    Invalid(Arc<str>),
    /// The queue does not exist.
    QueueMissing(Arc<str>),
    /// The queue is not open.
    QueueNotOpen {
        /// Queue.
        queue: Arc<str>,
        /// The ancestor queue that is not open, if it is not the queue itself.
        above: Option<Arc<str>>,
        /// The state of the queue that is not open.
        state: &'static str,
    },
    /// The queue has a problem.
    QueueInvalid {
        /// Queue.
        queue: Arc<str>,
        /// The problem.
        fault: QueueFault,
    },
    /// The queue is fifo, and a job before this one cannot be placed or admitted.
    Behind {
        /// Queue.
        queue: Arc<str>,
        /// The job before this one.
        job: Key,
    },
    /// Fewer pods than `minMember` exist.
    NotEnoughTasks {
        /// Pods that exist and may run.
        found: u32,
        /// `minMember`.
        wanted: u32,
    },
    /// Fewer pods of a role than `minTaskMember` exist.
    NotEnoughPodsOfTask {
        /// Role.
        role: Arc<str>,
        /// Pods that exist and may run.
        found: u32,
        /// The role's minimum.
        wanted: u32,
    },
    /// `minSubGroups` of its `subGroupPolicy` does not hold.
    SubGroups(SubGroupFault),
    /// The `networkTopology` of the job or of a sub-group is not met.
    Topology(TopologyFault),
    /// The job was not admitted.
    Enqueue {
        /// The plugin that refused.
        plugin: &'static str,
        /// The text of the plugin.
        text: &'static str,
        /// What is missing, by resource.
        missing: Vec<(DimId, i64)>,
    },
    /// The job was not admitted: admitted jobs use up the limit of its queue or of an ancestor.
    InqueueLimit {
        /// The plugin that refused.
        plugin: &'static str,
        /// The queue whose limit is used up.
        queue: Arc<str>,
        /// The limit.
        limit: Limit,
        /// What is missing, by resource.
        missing: Vec<(DimId, i64)>,
    },
    /// Admitting the job would take a ResourceQuota over its limits.
    ResourceQuota {
        /// The ResourceQuota.
        quota: Key,
        /// The excess by resource.
        over: Vec<(DimId, i64)>,
    },
    /// An extender refuses, or a request to it failed.
    Extender {
        /// The verb of the request.
        verb: Arc<str>,
        /// The extender's text, or why the request failed.
        text: Arc<str>,
    },
    /// The queue holds as much as it may.
    Overused {
        /// The plugin with this limit.
        plugin: &'static str,
        /// Queue.
        queue: Arc<str>,
        /// Why the queue may not hold more.
        why: Overuse,
    },
    /// Placing one more task would take the queue over its share or limit.
    Quota {
        /// The plugin that refused.
        plugin: &'static str,
        /// Queue.
        queue: Arc<str>,
        /// The limit of the queue.
        limit: Limit,
        /// By how much the task exceeds it, by resource.
        over: Vec<(DimId, i64)>,
        /// By how much the gang exceeds it, where that is more and known.
        gang: Vec<(DimId, i64)>,
    },
    /// The job requests no resource that the queue could reclaim.
    RequestsNothing {
        /// The plugin with this limit.
        plugin: &'static str,
        /// Queue.
        queue: Arc<str>,
    },
    /// No node is feasible for a task.
    Nodes {
        /// The first such task, by name.
        task: Arc<str>,
        /// The reason.
        error: FitError,
    },
    /// The gang lost members, and nodes are reserved for their repair until there is room.
    KeptForRepair {
        /// The first of the nodes.
        first: Arc<str>,
        /// The number of nodes.
        nodes: u32,
    },
    /// A job of higher rank in the same queue took over the job's reservation.
    Outranked(Key),
    /// Pods with scheduling gates.
    Gated(u32),
    /// A PodGroup controller runs and has not put the pod into a PodGroup yet.
    AwaitsPodGroup {
        /// The longest time that the pod waits for the controller, from its creation, in milliseconds; without limit
        /// where it is `i64::MAX`.
        wait: i64,
    },
    /// The API server refused to bind a pod of the job a short time ago.
    BindDenied {
        /// The pod.
        pod: Arc<str>,
        /// The answer of the API server.
        message: Arc<str>,
    },
    /// The gang found room for some of its members only.
    Partial {
        /// Members that are ready or had room.
        placed: u32,
        /// `minMember`.
        wanted: u32,
    },
    /// The search for places of the whole gang did not finish.
    Search(Cut),
    /// No pod was evicted for the job.
    Eviction {
        /// The action that tried.
        action: &'static str,
        /// The reason.
        why: NoEviction,
    },
    /// An action evicts no pod for the job, because its queue may not hold more.
    NotEntitled {
        /// The action.
        action: &'static str,
        /// The limit of the queue.
        why: Box<Refusal>,
    },
    /// The gang is nominated and waits for room that is being released.
    Reserved(u32),
    /// The configuration does not have the action that would place the job.
    NoAction {
        /// The action.
        action: &'static str,
    },
}

/// The note on a pod for which the PodGroup controller created no PodGroup in this many milliseconds.
pub(crate) fn no_pod_group(wait: i64) -> String {
    let seconds = wait as f64 / 1000.0;
    format!(
        "the PodGroup controller did not put it into a PodGroup (annotation scheduling.k8s.io/group-name) within {seconds}s from its \
         creation, so it is a gang of one"
    )
}

fn awaits_pod_group(wait: i64) -> String {
    let waits = "waits for the PodGroup controller to put it into a PodGroup (annotation scheduling.k8s.io/group-name)";
    if wait == i64::MAX {
        return waits.to_owned();
    }
    format!("{waits}, for {}s from its creation at most", wait as f64 / 1000.0)
}

fn not_open(queue: &str, above: Option<&str>, state: &str) -> String {
    match above {
        None => format!("queue {queue} is {state}"),
        Some(above) => format!("queue {above} above queue {queue} is {state}"),
    }
}

fn exceeds(limit: &Limit, queue: &str, over: &str, plugin: &str, dims: &Dims) -> String {
    let (exceeded, remedy) = (limit.exceeded(), limit.remedy(dims));
    format!("queue {queue} would exceed {exceeded}{over} (plugin {plugin}){remedy}")
}

fn kept_for_repair(first: &str, nodes: u32) -> String {
    let others = if nodes > 1 { format!(" and {} more", nodes - 1) } else { String::new() };
    format!("it lost members: node {first}{others} is reserved for its repair")
}

fn no_action(action: &str) -> String {
    let what = if action == "backfill" { "pods that request nothing" } else { "it" };
    format!("no action places {what}: actions has no {action}")
}

impl Refusal {
    /// The reason in CamelCase, as in conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Refusal::NotEnoughTasks { .. } => "NotEnoughTasks",
            Refusal::NotEnoughPodsOfTask { .. } => "NotEnoughPodsOfTask",
            Refusal::BindDenied { .. } => "BindDenied",
            _ => "NotEnoughResources",
        }
    }

    /// The message.
    pub fn text(&self, dims: &Dims) -> String {
        match self {
            Refusal::NoPodGroup(name) => format!("its PodGroup {name} does not exist"),
            Refusal::Invalid(why) => why.to_string(),
            Refusal::QueueMissing(queue) => format!("queue {queue} does not exist"),
            Refusal::QueueNotOpen { queue, above, state } => not_open(queue, above.as_deref(), state),
            Refusal::QueueInvalid { queue, fault } => {
                format!("queue {queue} is invalid: {}", fault.text(dims))
            }
            Refusal::Behind { queue, job } => {
                format!("it is behind {job} in queue {queue}, whose dequeueStrategy is fifo")
            }
            Refusal::NotEnoughTasks { found, wanted } => {
                format!("not enough valid tasks for gang-scheduling: {found} exist, minMember is {wanted}")
            }
            Refusal::NotEnoughPodsOfTask { role, found, wanted } => {
                format!("not enough pods of task {role}: {found} exist, minTaskMember is {wanted}")
            }
            Refusal::SubGroups(fault) => fault.text(),
            Refusal::Topology(fault) => fault.text(dims),
            Refusal::Enqueue { plugin, text, missing } => {
                format!("{text}{} (plugin {plugin})", list(": insufficient ", missing, dims))
            }
            Refusal::InqueueLimit { plugin, queue, limit, missing } => {
                let missing = list(": insufficient ", missing, dims);
                format!("{}{missing} (plugin {plugin})", limit.inqueue_exceeded(queue))
            }
            Refusal::ResourceQuota { quota, over } => format!(
                "ResourceQuota {quota} would be exceeded{} (plugin resourcequota)",
                list(": ", over, dims)
            ),
            Refusal::Extender { verb, text } => format!("extender, {verb}: {text}"),
            Refusal::Overused { plugin, queue, why } => {
                format!("{} (plugin {plugin})", why.text(queue, dims))
            }
            Refusal::Quota { plugin, queue, limit, over, gang } => {
                let (over, gang) = (list(": ", over, dims), list("; its gang: ", gang, dims));
                exceeds(limit, queue, &(over + &gang), plugin, dims)
            }
            Refusal::RequestsNothing { plugin, queue } => {
                format!("it requests nothing that queue {queue} could take back (plugin {plugin})")
            }
            Refusal::Nodes { task, error } => [task, ": ", &*error.text(dims)].concat(),
            Refusal::KeptForRepair { first, nodes } => kept_for_repair(first, *nodes),
            Refusal::Outranked(by) => {
                format!("its reserved nodes were given to {by}, which is more important")
            }
            Refusal::Gated(pods) => format!("{pods} pod(s) wait for their scheduling gates"),
            Refusal::AwaitsPodGroup { wait } => awaits_pod_group(*wait),
            Refusal::BindDenied { pod, message } => {
                format!("the API server refused to bind {pod}, tried again soon: {message}")
            }
            Refusal::Partial { placed, wanted } => {
                format!("pod group is not ready: {placed} of minMember {wanted} have room")
            }
            Refusal::Search(cut) => format!("allocate: {}", cut.text()),
            Refusal::Eviction { action, why } => format!("{action}: {}", why.text(dims)),
            Refusal::NotEntitled { action, why } => format!("{action}: {}", why.text(dims)),
            Refusal::Reserved(pods) => format!("{pods} pod(s) are nominated and wait for terminating pods"),
            Refusal::NoAction { action } => no_action(action),
        }
    }
}

/// `: insufficient cpu (2 more), memory (1Gi more)`; nothing for an empty list.
fn list(head: &str, amounts: &[(DimId, i64)], dims: &Dims) -> String {
    if amounts.is_empty() {
        return String::new();
    }
    let one =
        |(dim, amount): &(DimId, i64)| format!("{} ({} more)", dims.name(*dim), dims.describe(*dim, *amount));
    let others = amounts.len().saturating_sub(RESOURCES_MAX);
    let others = (others > 0).then(|| format!("{others} other resources"));
    let each: Vec<String> = amounts.iter().take(RESOURCES_MAX).map(one).chain(others).collect();
    format!("{head}{}", each.join(", "))
}

/// The longest message in bytes, which each pod of a gang gets: as long as that of an event may be.
pub const MESSAGE_MAX: usize = 1024;

/// A text of at most so many bytes: the end of a longer one is left out. Names and values that users chose are in it.
pub fn clipped(text: &str, max: usize) -> Cow<'_, str> {
    const LEFT_OUT: &str = "...";
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(max.saturating_sub(LEFT_OUT.len()));
    Cow::Owned([&text[..end], LEFT_OUT].concat())
}
