//! Why something was refused: data first, text at the very end.
mod eviction;
mod limit;
mod nodes;
mod priority;
mod queue;
mod sub_groups;

use std::sync::Arc;

use phalanx_resource::{DimId, Dims};

pub use eviction::{NoEviction, NoPotentialVictims, Protected, Protection, Short, Then, Untried, Whose};
pub use limit::{Beside, Limit, Overuse};
pub use nodes::without_lack;
pub use nodes::{Distance, FitError, Shortage, Unfit};
pub use priority::{Priority, Source};
pub use queue::QueueFault;
pub use sub_groups::SubGroupFault;

use crate::budget::Cut;
use crate::event::Key;

/// Why a job, or some of its tasks, waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Pods name a PodGroup that does not exist.
    NoPodGroup(Key),
    /// The object carries something that cannot be honoured.
    Invalid(Arc<str>),
    /// The queue does not exist.
    QueueMissing(Arc<str>),
    /// The queue takes no jobs now.
    QueueNotOpen {
        /// Queue.
        queue: Arc<str>,
        /// The queue above it that does not, if it is not itself.
        above: Option<Arc<str>>,
        /// The state of that one.
        state: &'static str,
    },
    /// The queue carries something that cannot be honoured.
    QueueInvalid {
        /// Queue.
        queue: Arc<str>,
        /// What.
        fault: QueueFault,
    },
    /// The queue serves its jobs in strict order, and one before this one cannot be placed or admitted.
    Behind {
        /// Queue.
        queue: Arc<str>,
        /// The one before.
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
    /// `minSubGroups` of its `subGroupPolicy` does not hold, or is not supported.
    SubGroups(SubGroupFault),
    /// The job was not admitted.
    Enqueue {
        /// The plugin that refused.
        plugin: &'static str,
        /// Its words.
        text: &'static str,
        /// What is missing, by resource.
        missing: Vec<(DimId, i64)>,
    },
    /// The job was not admitted: its queue, or one above it, has promised what it may have.
    Promised {
        /// The plugin that refused.
        plugin: &'static str,
        /// The queue that has no more to promise.
        queue: Arc<str>,
        /// Of what.
        limit: Limit,
        /// What is missing, by resource.
        missing: Vec<(DimId, i64)>,
    },
    /// Admitting the job would take a ResourceQuota over its limits.
    ResourceQuota {
        /// The ResourceQuota.
        quota: Key,
        /// By how much, by resource.
        over: Vec<(DimId, i64)>,
    },
    /// An extender refuses, or cannot be asked.
    Extender {
        /// The verb it was asked under.
        verb: Arc<str>,
        /// What it said, or why it said nothing.
        text: Arc<str>,
    },
    /// The queue has all it may have.
    Overused {
        /// The plugin that says so.
        plugin: &'static str,
        /// Queue.
        queue: Arc<str>,
        /// How that comes.
        why: Overuse,
    },
    /// Placing one more task would take the queue over its share or limit.
    Quota {
        /// The plugin that refused.
        plugin: &'static str,
        /// Queue.
        queue: Arc<str>,
        /// What the queue may have.
        limit: Limit,
        /// By how much the task exceeds it, by resource.
        over: Vec<(DimId, i64)>,
        /// By how much its gang does, where that is more and known.
        gang: Vec<(DimId, i64)>,
    },
    /// It requests nothing that the queue could take back from others.
    RequestsNothing {
        /// The plugin that says so.
        plugin: &'static str,
        /// Queue.
        queue: Arc<str>,
    },
    /// No node will do for a task.
    Nodes {
        /// The first such task, by name.
        task: Arc<str>,
        /// Why.
        error: FitError,
    },
    /// It lost members, and nodes are kept for those that come in their stead until there is room.
    Gathering {
        /// The first of the nodes.
        first: Arc<str>,
        /// How many they are.
        nodes: u32,
    },
    /// What was reserved for it was taken over by a job of its queue that outranks it.
    Outranked(Key),
    /// Pods that scheduling gates hold back.
    Gated(u32),
    /// A PodGroup controller is at work and has not put the pod into a PodGroup yet.
    AwaitsPodGroup {
        /// How long it waits for that from its creation at most, in milliseconds.
        wait: i64,
    },
    /// The API server refused to bind a pod of it, a moment ago.
    BindDenied {
        /// The pod.
        pod: Arc<str>,
        /// What it said.
        message: Arc<str>,
    },
    /// The gang found room for some of its members only.
    Partial {
        /// Members that are ready or had room.
        placed: u32,
        /// `minMember`.
        wanted: u32,
    },
    /// Whether the gang as a whole has places was not found out.
    Search(Cut),
    /// Nobody was evicted for it.
    Eviction {
        /// The action that tried.
        action: &'static str,
        /// Why not.
        why: NoEviction,
    },
    /// An action evicts nobody for it, since its queue has no right to more.
    NotEntitled {
        /// The action.
        action: &'static str,
        /// What its queue may not have.
        why: Box<Refusal>,
    },
    /// The gang has its places and waits for room that is being released.
    Reserved(u32),
    /// The action that would place it is not among those of the configuration.
    NoAction {
        /// The action.
        action: &'static str,
    },
}

/// That a pod waited for the PodGroup controller so many milliseconds, in vain.
pub(crate) fn no_pod_group(wait: i64) -> String {
    let seconds = wait as f64 / 1000.0;
    format!(
        "the PodGroup controller did not put it into a PodGroup (annotation scheduling.k8s.io/group-name) within {seconds}s from its \
         creation, so it is a gang of one"
    )
}

fn awaits_pod_group(wait: i64) -> String {
    let seconds = wait as f64 / 1000.0;
    format!(
        "waits for the PodGroup controller to put it into a PodGroup (annotation scheduling.k8s.io/group-name), for {seconds}s from \
         its creation at most"
    )
}

impl Refusal {
    /// The reason in CamelCase, as it stands in conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Refusal::NotEnoughTasks { .. } => "NotEnoughTasks",
            Refusal::NotEnoughPodsOfTask { .. } => "NotEnoughPodsOfTask",
            Refusal::BindDenied { .. } => "BindDenied",
            _ => "NotEnoughResources",
        }
    }

    /// Text for people.
    pub fn text(&self, dims: &Dims) -> String {
        match self {
            Refusal::NoPodGroup(name) => format!("its PodGroup {name} does not exist"),
            Refusal::Invalid(why) => why.to_string(),
            Refusal::QueueMissing(queue) => format!("queue {queue} does not exist"),
            Refusal::QueueNotOpen { queue, above: None, state } => format!("queue {queue} is {state}"),
            Refusal::QueueNotOpen { queue, above: Some(above), state } => {
                format!("queue {above} above queue {queue} is {state}")
            }
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
            Refusal::Enqueue { plugin, text, missing } => {
                format!("{text}{} (plugin {plugin})", list(": insufficient ", missing, dims))
            }
            Refusal::Promised { plugin, queue, limit, missing } => {
                let missing = list(": insufficient ", missing, dims);
                format!("{}{missing} (plugin {plugin})", limit.not_promised(queue))
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
                let (exceeded, remedy) = (limit.exceeded(), limit.remedy(dims));
                format!("queue {queue} would exceed {exceeded}{over}{gang} (plugin {plugin}){remedy}")
            }
            Refusal::RequestsNothing { plugin, queue } => {
                format!("it requests nothing that queue {queue} could take back (plugin {plugin})")
            }
            Refusal::Nodes { task, error } => [task, ": ", &*error.text(dims)].concat(),
            Refusal::Gathering { first, nodes } => {
                let others = if *nodes > 1 { format!(" and {} more", nodes - 1) } else { String::new() };
                format!("it lost members: node {first}{others} is kept until there is room to repair it")
            }
            Refusal::Outranked(by) => {
                format!("room that was reserved for it was given to {by}, which is more important")
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
            Refusal::Reserved(pods) => format!("{pods} pod(s) wait for room that is being released"),
            Refusal::NoAction { action: action @ "backfill" } => {
                format!("no action places pods that request nothing: actions has no {action}")
            }
            Refusal::NoAction { action } => format!("no action places it: actions has no {action}"),
        }
    }
}

/// `: insufficient cpu (2 more), memory (1Gi more)`; nothing for an empty list.
fn list(head: &str, amounts: &[(DimId, i64)], dims: &Dims) -> String {
    if amounts.is_empty() {
        return String::new();
    }
    let each: Vec<String> = amounts
        .iter()
        .map(|(dim, amount)| format!("{} ({} more)", dims.name(*dim), dims.describe(*dim, *amount)))
        .collect();
    format!("{head}{}", each.join(", "))
}
