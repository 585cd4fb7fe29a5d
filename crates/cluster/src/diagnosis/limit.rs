//! Limits of queues.
use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use phalanx_resource::{DimId, Dims};

/// A limit that a queue has reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The queue's `capability`.
    Capability,
    /// The amount that the guarantees of sibling queues leave.
    Guarantees(Beside),
    /// The queue's `capability` for some resources, and for others what the guarantees of sibling queues leave.
    Several,
    /// The resources of all nodes.
    Nodes,
    /// The resources of all nodes less what other queues hold or are guaranteed.
    Left,
    /// The queue's deserved amount.
    Deserved,
    /// The queue's deserved amount by weight and by the requests of other queues: by resource, this much of the total.
    Weight(Vec<(DimId, i64, i64)>),
}

/// Sibling queues with a guarantee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    /// The queue with the largest guarantee.
    most: Option<Arc<str>>,
}

impl Beside {
    /// Sibling queues with their guarantees.
    pub fn of<'a>(queues: impl Iterator<Item = (i64, &'a Arc<str>)>) -> Self {
        let largest =
            queues.filter(|(amount, _)| *amount > 0).max_by_key(|(amount, name)| (*amount, Reverse(*name)));
        Self { most: largest.map(|(_, name)| name.clone()) }
    }
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("beside the guarantees of others")?;
        self.most.as_ref().map_or(Ok(()), |queue| write!(f, " (the largest: queue {queue})"))
    }
}

impl Limit {
    /// The limit for several resources from the limit for each resource.
    pub fn of_all(each: impl Iterator<Item = Limit>) -> Limit {
        let both = |a, b| match (&a, &b) {
            (Limit::Guarantees(_), Limit::Guarantees(_)) => a,
            _ if a == b => a,
            _ => Limit::Several,
        };
        each.reduce(both).unwrap_or(Limit::Capability)
    }

    /// The name of the limit in a reason.
    pub(super) fn exceeded(&self) -> String {
        let plain = match self {
            Limit::Guarantees(beside) => return format!("its part {beside}"),
            Limit::Capability => "its capability",
            Limit::Several => "its capability, or its part beside the guarantees of others",
            Limit::Nodes => "what all nodes have",
            Limit::Left => "what other queues leave it",
            Limit::Deserved | Limit::Weight(_) => "its deserved",
        };
        plain.to_owned()
    }

    /// The cause of the limit and how to raise it, where the name does not say so.
    pub(super) fn remedy(&self, dims: &Dims) -> String {
        let Limit::Weight(parts) = self else { return String::new() };
        let part = |(dim, part, total): &(DimId, i64, i64)| {
            format!("{} of {} {}", dims.describe(*dim, *part), dims.describe(*dim, *total), dims.name(*dim))
        };
        let parts: Vec<String> = parts.iter().map(part).collect();
        format!(
            ": what jobs of other queues ask for, waiting ones included, leaves it {} by weight; it may have more when they ask for less, or with a larger weight",
            parts.join(", ")
        )
    }

    /// The reason of a job whose requests its queue cannot admit.
    pub(super) fn inqueue_exceeded(&self, queue: &str) -> String {
        match self {
            Limit::Nodes => format!("queue {queue} would admit more than all nodes have"),
            Limit::Guarantees(beside) => format!("resource quota of queue {queue} {beside} insufficient"),
            _ => format!("resource quota of queue {queue} insufficient"),
        }
    }
}

/// Why a queue may not hold more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overuse {
    /// The queue holds its deserved amount, or a plugin says so.
    Full,
    /// The queue's capability for these resources, which its jobs request, is 0.
    Barred(Vec<DimId>),
    /// Guarantees of other queues leave nothing of these resources, which the queue's jobs request.
    Guarantees(Vec<DimId>, Beside),
    /// The queue holds its deserved amount by weight and by the requests of other queues.
    Weight,
}

impl Overuse {
    pub(super) fn text(&self, queue: &str, dims: &Dims) -> String {
        let names = |list: &[DimId]| {
            let names: Vec<&str> = list.iter().map(|dim| dims.name(*dim)).collect();
            names.join(", ")
        };
        match self {
            Overuse::Full => format!("queue {queue} is overused"),
            Overuse::Barred(of) => {
                format!("queue {queue} is overused: its capability of {} is 0", names(of))
            }
            Overuse::Guarantees(of, beside) => format!("queue {queue} deserves no {} {beside}", names(of)),
            Overuse::Weight => {
                format!(
                    "queue {queue} is overused: it holds all that its weight gives it beside what other queues ask for"
                )
            }
        }
    }
}
