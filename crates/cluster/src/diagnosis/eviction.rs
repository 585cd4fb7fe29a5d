//! Why no pod was evicted for a job.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_resource::{DimId, Dims};

use super::Priority;
use crate::event::Key;
use crate::search_budget::Cut;

/// Why a pod is not evicted for a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protection {
    /// The pod has the same priority as the job or a higher one; within one job, as the pending task.
    Priority(Option<Priority>),
    /// `volcano.sh/preemptable: false` on the pod or its PodGroup.
    Preemptable,
    /// The API server refused an eviction of the pod a short time ago.
    Refused,
    /// A plugin protects the pod from every preemptor, for this reason.
    Plugin(&'static str),
    /// The PodDisruptionBudget that selects the pod allows no disruption now.
    Budget(Key),
    /// Several PodDisruptionBudgets select the pod.
    Budgets,
    /// `reclaimable` of the pod's queue is false.
    Queue(Arc<str>),
    /// The preemptor requests nothing, and the pod requests something.
    BestEffortPreemptor,
    /// A plugin protects the pod from this job, for this reason.
    Kept(Arc<str>),
    /// The pod's gang would have fewer pods than its minimum.
    Minimum {
        /// The field with the minimum: `minMember` or `minTaskMember`.
        field: &'static str,
        /// The first of the gangs, by name.
        first: Key,
        /// The queue of that gang.
        queue: Arc<str>,
        /// The number of other gangs.
        others: u32,
    },
    /// The pod's gang would have to be evicted whole, which the action's argument forbids.
    Whole,
    /// The pod's gang has a reservation, for which other pods may have been evicted.
    Reserved,
    /// The preemptor evicted pods of the pod's job several times in a short time, and lost as many or did not start.
    History,
}

impl Protection {
    fn text(&self, pods: u32) -> String {
        match self {
            Protection::Priority(None) => format!("{pods} of equal or higher priority"),
            Protection::Priority(Some(own)) => format!("{pods} of equal or higher priority than its {own}"),
            Protection::Preemptable => format!("{pods} with volcano.sh/preemptable: false"),
            Protection::Refused => format!("{pods} whose eviction was refused just now"),
            Protection::Plugin(what) => format!("{pods} {what}"),
            Protection::Budget(key) => format!("{pods} protected by PodDisruptionBudget {key}"),
            Protection::Budgets => format!("{pods} that several PodDisruptionBudgets match"),
            Protection::Queue(queue) => format!("{pods} in queue {queue}, which is not reclaimable"),
            Protection::BestEffortPreemptor => format!("{pods} with requests, and it has none"),
            Protection::Reserved => format!("{pods} of gangs with a reservation"),
            Protection::History => {
                format!(
                    "{pods} of jobs that it evicted again and again within ten minutes without lasting success"
                )
            }
            Protection::Kept(what) => format!("{pods} {what}"),
            Protection::Minimum { field, first, queue, others } => {
                let others = if *others > 0 { format!(" and {others} other(s)") } else { String::new() };
                format!(
                    "{pods} of {first} in queue {queue}{others}, which would fall below {field} (plugin gang)"
                )
            }
            Protection::Whole => {
                format!("{pods} that would go with their whole gangs, and allowWholeBundle is false")
            }
        }
    }
}

/// Pods that are not evicted for a job, by the first reason that holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Protected {
    /// The number of pods by reason.
    pub pods: BTreeMap<Protection, u32>,
    /// Whether only some of the pods were counted.
    pub some: bool,
    /// The pods on nodes, if none of them was a potential victim.
    pub none: Option<NoPotentialVictims>,
    /// The state without all potential victims.
    pub short: Option<Short>,
}

/// The jobs whose pods the action may evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Whose {
    /// Other pods of the same job.
    Job,
    /// Pods of other jobs of the queue.
    Queue,
    /// Pods of other queues.
    OtherQueues,
}

/// The pods on nodes, where none of them was a potential victim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NoPotentialVictims {
    /// The jobs whose pods the action may evict.
    pub whose: Whose,
    /// The queue of the job.
    pub queue: Arc<str>,
    /// Pods of the job itself.
    pub own: u32,
    /// Pods of other jobs of its queue.
    pub beside: u32,
    /// Pods of other queues.
    pub elsewhere: u32,
    /// All other pods: of other schedulers, or terminating.
    pub rest: u32,
}

impl NoPotentialVictims {
    fn text(&self) -> String {
        let Self { whose, queue, own, beside, elsewhere, rest } = self;
        let whose = match whose {
            Whose::Job => "is another one of the job".to_owned(),
            Whose::Queue => format!("runs in another job of queue {queue}"),
            Whose::OtherQueues => format!("runs in another queue than {queue}"),
        };
        let of_queue = if self.whose == Whose::Queue { ", which do not run yet" } else { "" };
        let of_others = if self.whose == Whose::OtherQueues { ", which do not run yet" } else { "" };
        let parts = [
            (own, "of its own".to_owned()),
            (beside, format!("in its queue{of_queue}")),
            (elsewhere, format!("in other queues{of_others}")),
            (rest, "of other schedulers or being deleted, which are never evicted".to_owned()),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(pods, _)| **pods > 0)
            .map(|(pods, what)| format!("{pods} {what}"))
            .collect();
        match own + beside + elsewhere + rest {
            0 => " (no pod is on a node)".to_owned(),
            all => format!(" (of {all} pod(s) on nodes none {whose}: {})", parts.join(", ")),
        }
    }
}

/// The state without all potential victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Short {
    /// The number of pods that may be evicted together.
    pub pods: u32,
    /// The state without these pods.
    pub then: Then,
}

/// The state without all pods that may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Then {
    /// There would be room for some of the pods, and more are needed.
    Places {
        /// The number of pods with room.
        room: u64,
        /// The number of pods that are needed.
        wanted: u64,
    },
    /// Some amount of a resource would be free, and more is needed.
    Free {
        /// The resource.
        dim: DimId,
        /// The amount that would be free.
        free: i64,
        /// The amount that is needed.
        wanted: i64,
    },
    /// There would be enough room, but not on nodes that the job may use.
    NoPlace,
}

impl Short {
    fn text(self, dims: &Dims) -> String {
        let then = match self.then {
            Then::Places { room, wanted } => {
                format!(", which makes room for {room} of the {wanted} pod(s) that it needs")
            }
            Then::Free { dim, free, wanted } => {
                let [free, wanted] = [free, wanted].map(|amount| dims.describe(dim, amount));
                format!(", with which {} {free} is free, and it needs {wanted}", dims.name(dim))
            }
            Then::NoPlace => String::new(),
        };
        format!(": {} could go{then}", self.pods)
    }
}

impl Protected {
    fn text(&self) -> String {
        if self.pods.is_empty() {
            return self.none.as_ref().map_or_else(String::new, NoPotentialVictims::text);
        }
        let pods: Vec<String> = self.pods.iter().map(|(why, pods)| why.text(*pods)).collect();
        let all: u32 = self.pods.values().sum();
        let head = if self.some { format!(" (of {all} that were looked at: ") } else { " (".to_owned() };
        format!("{head}{})", pods.join(", "))
    }
}

/// Why no pod was evicted for a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NoEviction {
    /// The job's pods have preemptionPolicy Never.
    Never,
    /// This pod of the gang has preemptionPolicy Never and no feasible node.
    NeverOne(Arc<str>),
    /// The gang has its minimum, and no pod is evicted for more.
    Enough(u32),
    /// No pod may be evicted for the job.
    NoVictims(Arc<Protected>),
    /// The job would not fit on empty nodes.
    TooLarge,
    /// The job would not fit even without all potential victims.
    NotEnough(Arc<Protected>),
    /// No pods were found that may be evicted together and leave enough room, but the search was not exhaustive.
    NotFound(Untried, Arc<Protected>),
    /// The search took as much as the action may take in a cycle.
    Cut(Cut),
}

/// The part of a search that was not exhaustive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Untried {
    /// Not every set of potential victims was tried.
    Sets,
    /// Not every way to place the gang was tried, because there are too many.
    Ways,
    /// So many HyperNodes of each tier were tried, and there are more.
    HyperNodes(usize),
}

impl Untried {
    fn text(self) -> String {
        match self {
            Untried::Sets => "not every set of them was tried".into(),
            Untried::Ways => "not every way to place it was tried".into(),
            Untried::HyperNodes(tried) => format!(
                "{tried} HyperNode(s) of each tier were tried (hypernode.gradient.evict.max-hypernodes)"
            ),
        }
    }
}

impl NoEviction {
    pub(super) fn text(&self, dims: &Dims) -> String {
        match self {
            NoEviction::Never => "its pods' preemptionPolicy is Never".into(),
            NoEviction::NeverOne(pod) => {
                format!("{pod} has no place, and no pod is evicted for it: its preemptionPolicy is Never")
            }
            NoEviction::Enough(min) => format!("it has its minMember {min}, and no pod is evicted for more"),
            NoEviction::NoVictims(protected) => {
                format!("there is no pod that may be evicted for it{}", protected.text())
            }
            NoEviction::TooLarge => "it would not fit if there were no other pods at all".into(),
            NoEviction::NotEnough(protected) => format!(
                "it would not fit even without all pods that may be evicted for it{}{}",
                protected.short.map_or_else(String::new, |short| short.text(dims)),
                protected.text()
            ),
            NoEviction::NotFound(untried, told) => format!(
                "no pods were found that may be evicted together and leave enough room for it{}{}; {}",
                told.short.map_or_else(String::new, |short| short.text(dims)),
                told.text(),
                untried.text()
            ),
            NoEviction::Cut(cut) => format!("{} ({})", cut.text(), cut.argument()),
        }
    }
}
