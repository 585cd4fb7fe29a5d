//! Why something was refused: data first, text at the very end.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_resource::{Amounts, DimId, Dims};

use crate::budget::Cut;
use crate::event::Key;
use crate::world::Node;

/// Why a node is not for a task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unfit {
    /// Not enough of a resource.
    Insufficient(DimId),
    /// No place left among the node's pods.
    TooManyPods,
    /// There is room, but for what others are to have.
    Reserved,
    /// Node selector or required node affinity.
    NodeAffinity,
    /// A taint that is not tolerated.
    Taint,
    /// Cordoned.
    Unschedulable,
    /// Ready is not True.
    NotReady,
    /// A host port is taken.
    Ports,
    /// Required pod affinity.
    PodAffinity,
    /// The pod's required anti-affinity.
    PodAntiAffinity,
    /// The required anti-affinity of a pod that is there.
    ExistingPodAntiAffinity,
    /// A topology spread constraint.
    Spread,
    /// The label of a topology spread constraint is missing.
    SpreadLabel,
    /// Not enough devices for the pod's claims.
    Devices,
    /// A claim of the pod has its devices elsewhere.
    ClaimElsewhere,
    /// A plugin's own reason.
    Other(Arc<str>),
    /// A plugin's own reason about what else is on the node, or what would remain of it: without more room it may be gone.
    Beside(Arc<str>),
    /// No node will do, for this reason.
    Pod(Arc<str>),
}

impl Unfit {
    /// kube-scheduler's words for it.
    pub fn text(&self, dims: &Dims) -> String {
        match self {
            Unfit::Insufficient(dim) => format!("Insufficient {}", dims.name(*dim)),
            Unfit::TooManyPods => "Too many pods".into(),
            Unfit::Reserved => "node(s) with room that is kept for other pods".into(),
            Unfit::NodeAffinity => "node(s) didn't match Pod's node affinity/selector".into(),
            Unfit::Taint => "node(s) had untolerated taint(s)".into(),
            Unfit::Unschedulable => "node(s) were unschedulable".into(),
            Unfit::NotReady => "node(s) were not ready".into(),
            Unfit::Ports => "node(s) didn't have free ports for the requested pod ports".into(),
            Unfit::PodAffinity => "node(s) didn't match pod affinity rules".into(),
            Unfit::PodAntiAffinity => "node(s) didn't match pod anti-affinity rules".into(),
            Unfit::ExistingPodAntiAffinity => {
                "node(s) didn't satisfy existing pods anti-affinity rules".into()
            }
            Unfit::Spread => "node(s) didn't match pod topology spread constraints".into(),
            Unfit::SpreadLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)".into()
            }
            Unfit::Devices => "cannot allocate all claims".into(),
            Unfit::ClaimElsewhere => "resourceclaim not available on the node".into(),
            Unfit::Other(text) | Unfit::Beside(text) | Unfit::Pod(text) => text.to_string(),
        }
    }

    /// The resource of a shortage.
    pub fn of_dim(dim: DimId) -> Self {
        if dim == DimId::PODS { Unfit::TooManyPods } else { Unfit::Insufficient(dim) }
    }
}

/// Nodes that were refused for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// How many.
    pub nodes: u32,
    /// The least that any of them lacks, where the reason is an amount.
    pub least_missing: Option<i64>,
}

/// Why no node will do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FitError {
    /// How many nodes there are.
    pub nodes: u32,
    /// Nodes by reason; a node counts once for each of its reasons.
    pub reasons: BTreeMap<Unfit, Refused>,
}

impl FitError {
    /// Counts nodes for a reason.
    pub fn add(&mut self, nodes: u32, unfit: Unfit, missing: Option<i64>) {
        let refused = self.reasons.entry(unfit).or_default();
        refused.nodes += nodes;
        refused.least_missing = match (refused.least_missing, missing) {
            (Some(least), Some(missing)) => Some(least.min(missing)),
            (least, missing) => least.or(missing),
        };
    }

    /// Counts nodes that are like this one for every resource they lack.
    pub fn add_short(&mut self, nodes: u32, node: &Node, request: &Amounts) {
        if request.fits(&node.idle) && !node.fits_now(request) {
            self.add(nodes, Unfit::Reserved, None);
        }
        for (dim, missing) in request.short(&node.idle) {
            self.add(nodes, Unfit::of_dim(dim), Some(missing));
        }
    }

    /// What the node lacks that lacks the least of it, by resource.
    pub fn missing(&self) -> impl Iterator<Item = (DimId, i64)> {
        self.reasons.iter().filter_map(|(unfit, refused)| match unfit {
            Unfit::Insufficient(dim) => Some((*dim, refused.least_missing?)),
            Unfit::TooManyPods => Some((DimId::PODS, refused.least_missing?)),
            _ => None,
        })
    }

    /// `0/5 nodes are available: 2 Too many pods, 3 Insufficient cpu.`, as kube-scheduler says it.
    pub fn text(&self, dims: &Dims) -> String {
        let mut reasons: Vec<String> = self
            .reasons
            .iter()
            .map(|(unfit, refused)| match unfit {
                Unfit::Pod(text) => text.to_string(),
                unfit => format!("{} {}", refused.nodes, unfit.text(dims)),
            })
            .collect();
        reasons.sort();
        if reasons.is_empty() {
            return format!("0/{} nodes are available.", self.nodes);
        }
        format!("0/{} nodes are available: {}.", self.nodes, reasons.join(", "))
    }
}

/// What is wrong with a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueFault {
    /// A field cannot be honoured, or contradicts another.
    Field(Arc<str>),
    /// Its parents, of which this is the first, lead back to it.
    Ring(Arc<str>),
    /// Its parent does not exist.
    NoParent(Arc<str>),
    /// A queue above it cannot be used.
    Above {
        /// That queue.
        ancestor: Arc<str>,
        /// What is wrong there.
        fault: Box<QueueFault>,
    },
    /// It has jobs of its own, and queues below it.
    NotLeaf {
        /// The plugin that minds.
        plugin: &'static str,
        /// How many queues name it as their parent.
        children: u32,
    },
    /// It has a parent, which the configured plugin does not honour.
    Tree {
        /// The plugin.
        plugin: &'static str,
        /// The parent.
        parent: Arc<str>,
    },
    /// It is the top of the tree, and has a parent all the same.
    Top(Arc<str>),
    /// It has a parent, whose limits no configured plugin holds.
    Unheld(Arc<str>),
    /// Its children have more of something in sum than it has itself.
    Children {
        /// Of what: `guarantee` or `deserved`.
        what: &'static str,
        /// By how much, by resource.
        over: Vec<(DimId, i64)>,
    },
    /// It has a quota of devices that has no effect.
    Devices {
        /// Of what: `capability of deviceclass/gpu.example.com`.
        quota: Arc<str>,
        /// Why.
        why: &'static str,
    },
    /// It may have more than a queue above it.
    Wider {
        /// That queue.
        ancestor: Arc<str>,
        /// By how much, by resource.
        over: Vec<(DimId, i64)>,
    },
}

impl QueueFault {
    /// Text for people.
    pub fn text(&self, dims: &Dims) -> String {
        match self {
            QueueFault::Field(why) => why.to_string(),
            QueueFault::Ring(parent) => format!("its parents lead back to it, by way of {parent}"),
            QueueFault::NoParent(parent) => format!("its parent {parent} does not exist"),
            QueueFault::Above { ancestor, fault } => {
                format!("queue {ancestor} above it is invalid: {}", fault.text(dims))
            }
            QueueFault::NotLeaf { plugin, children } => {
                format!("it has {children} queue(s) below it, so jobs cannot be in it (plugin {plugin})")
            }
            QueueFault::Tree { plugin, parent } => format!(
                "it has parent {parent}, but plugin {plugin} is flat here; a tree needs plugin capacity with enableHierarchy: true"
            ),
            QueueFault::Top(parent) => {
                format!("its parent {parent} has no effect, for it is the top of the tree")
            }
            QueueFault::Unheld(parent) => format!(
                "it has parent {parent}, whose limits no configured plugin holds; a tree needs plugin capacity with enableHierarchy: true"
            ),
            QueueFault::Children { what, over } => {
                format!("its children have more {what} than it has itself{}", list(": ", over, dims))
            }
            QueueFault::Devices { quota, why } => format!("its {quota} has no effect: {why}"),
            QueueFault::Wider { ancestor, over } => {
                format!("its capability is above that of queue {ancestor}{}", list(": ", over, dims))
            }
        }
    }
}

/// Why a pod is not evicted for a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shelter {
    /// Equal or higher priority.
    Priority,
    /// `volcano.sh/preemptable: false`, its own or its PodGroup's.
    Preemptable,
    /// An eviction of it was refused not long ago.
    Refused,
    /// A plugin protects it, whoever asks: this is what it says.
    Plugin(&'static str),
    /// The PodDisruptionBudget that means it allows nothing now.
    Budget(Key),
    /// Several PodDisruptionBudgets mean it.
    Budgets,
    /// Its queue's `reclaimable` is false.
    Queue(Arc<str>),
    /// It asks for nothing less than the job does.
    Idle,
    /// Plugins do not let it go for this job.
    Plugins,
}

impl Shelter {
    fn text(&self, pods: u32) -> String {
        match self {
            Shelter::Priority => format!("{pods} of equal or higher priority"),
            Shelter::Preemptable => format!("{pods} with volcano.sh/preemptable: false"),
            Shelter::Refused => format!("{pods} whose eviction was refused just now"),
            Shelter::Plugin(what) => format!("{pods} {what}"),
            Shelter::Budget(key) => format!("{pods} protected by PodDisruptionBudget {key}"),
            Shelter::Budgets => format!("{pods} that several PodDisruptionBudgets mean"),
            Shelter::Queue(queue) => format!("{pods} in queue {queue}, which is not reclaimable"),
            Shelter::Idle => format!("{pods} with requests, and it has none"),
            Shelter::Plugins => format!("{pods} that the plugins do not let go for it"),
        }
    }
}

/// Pods that are not evicted for a job, by the first reason that holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sheltered {
    /// How many, by reason.
    pub pods: BTreeMap<Shelter, u32>,
    /// No more pods were looked at than these.
    pub some: bool,
}

impl Sheltered {
    fn text(&self) -> String {
        if self.pods.is_empty() {
            return String::new();
        }
        let pods: Vec<String> = self.pods.iter().map(|(why, pods)| why.text(*pods)).collect();
        let all: u32 = self.pods.values().sum();
        let head = if self.some { format!(" (of {all} that were looked at: ") } else { " (".to_owned() };
        format!("{head}{})", pods.join(", "))
    }
}

/// Why nobody was evicted for a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NoEviction {
    /// Its pods never preempt.
    Never,
    /// Nobody may be evicted for it.
    NoVictims(Arc<Sheltered>),
    /// It would not fit if there were no other pods at all.
    TooLarge,
    /// It would not fit even without all who may be evicted for it.
    NotEnough(Arc<Sheltered>),
    /// None were found that may go together and leave enough room, but not all that could do was tried.
    NotFound(Untried),
    /// The search took as much as the action may take in a cycle.
    Cut(Cut),
}

/// What was not tried when nobody was found to be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Untried {
    /// Every set of pods that may go: there are too many.
    Sets,
    /// Every way to place the gang: there are too many.
    Ways,
    /// Every set of pods that may go: each one is a question to an extender.
    Asked,
}

impl Untried {
    fn text(self) -> &'static str {
        match self {
            Untried::Sets => "there are too many sets of them to try each",
            Untried::Ways => "there are too many ways to place it to try each",
            Untried::Asked => "not every set of them was tried, since an extender has to be asked about each",
        }
    }
}

impl NoEviction {
    fn text(&self) -> String {
        match self {
            NoEviction::Never => "its pods' preemptionPolicy is Never".into(),
            NoEviction::NoVictims(sheltered) => {
                format!("there is no pod that may be evicted for it{}", sheltered.text())
            }
            NoEviction::TooLarge => "it would not fit if there were no other pods at all".into(),
            NoEviction::NotEnough(sheltered) => format!(
                "it would not fit even without all pods that may be evicted for it{}",
                sheltered.text()
            ),
            NoEviction::NotFound(untried) => format!(
                "no pods were found that may be evicted together and leave enough room for it; {}",
                untried.text()
            ),
            NoEviction::Cut(cut) => format!("{} ({})", cut.text(), cut.argument()),
        }
    }
}

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
    },
    /// Placing one more task would take the queue over its share or limit.
    Quota {
        /// The plugin that refused.
        plugin: &'static str,
        /// Queue.
        queue: Arc<str>,
        /// What the queue may have, in its words: `deserved` or `capability`.
        limit: &'static str,
        /// By how much the task exceeds it, by resource.
        over: Vec<(DimId, i64)>,
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
    /// The gang has its places and waits for room that is being released.
    Reserved(u32),
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
            Refusal::Enqueue { plugin, text, missing } => {
                format!("{text}{} (plugin {plugin})", list(": insufficient ", missing, dims))
            }
            Refusal::Promised { plugin, queue, missing } => {
                let missing = list(": insufficient ", missing, dims);
                format!("resource quota of queue {queue} insufficient{missing} (plugin {plugin})")
            }
            Refusal::ResourceQuota { quota, over } => format!(
                "ResourceQuota {quota} would be exceeded{} (plugin resourcequota)",
                list(": ", over, dims)
            ),
            Refusal::Extender { verb, text } => format!("extender, {verb}: {text}"),
            Refusal::Overused { plugin, queue } => format!("queue {queue} is overused (plugin {plugin})"),
            Refusal::Quota { plugin, queue, limit, over } => {
                format!("queue {queue} would exceed its {limit}{} (plugin {plugin})", list(": ", over, dims))
            }
            Refusal::Nodes { task, error } => format!("{}: {}", task, error.text(dims)),
            Refusal::Gathering { first, nodes } => {
                let others = if *nodes > 1 { format!(" and {} more", nodes - 1) } else { String::new() };
                format!("it lost members: node {first}{others} is kept until there is room to repair it")
            }
            Refusal::Outranked(by) => {
                format!("room that was reserved for it was given to {by}, which is more important")
            }
            Refusal::Gated(pods) => format!("{pods} pod(s) wait for their scheduling gates"),
            Refusal::BindDenied { pod, message } => {
                format!("the API server refused to bind {pod}, tried again soon: {message}")
            }
            Refusal::Partial { placed, wanted } => {
                format!("pod group is not ready: {placed} of minMember {wanted} have room")
            }
            Refusal::Search(cut) => format!("allocate: {}", cut.text()),
            Refusal::Eviction { action, why } => format!("{action}: {}", why.text()),
            Refusal::Reserved(pods) => format!("{pods} pod(s) wait for room that is being released"),
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
        .map(|(dim, amount)| format!("{} ({} more)", dims.name(*dim), dims.format(*dim, *amount)))
        .collect();
    format!("{head}{}", each.join(", "))
}
