//! What a queue may have no more of.
use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use phalanx_resource::{DimId, Dims};

/// What a queue may have no more of, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Its `capability`.
    Capability,
    /// What the queues beside it leave it, which are guaranteed something.
    Guarantees(Beside),
    /// Its `capability` of some resources, and of others what the guarantees of others leave it.
    Several,
    /// What all nodes have.
    Nodes,
    /// What other queues hold or are guaranteed leaves it less.
    Left,
    /// What it deserves.
    Deserved,
    /// What it deserves by its weight, beside what other queues ask for: so much of all that there is, by resource.
    Weight(Vec<(DimId, i64, i64)>),
}

/// Queues beside another that are guaranteed something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    /// The one with the largest guarantee.
    most: Option<Arc<str>>,
}

impl Beside {
    /// Queues beside another, with what each is guaranteed.
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
    /// That of several resources, from that of each.
    pub fn of_all(each: impl Iterator<Item = Limit>) -> Limit {
        let both = |a, b| match (&a, &b) {
            (Limit::Guarantees(_), Limit::Guarantees(_)) => a,
            _ if a == b => a,
            _ => Limit::Several,
        };
        each.reduce(both).unwrap_or(Limit::Capability)
    }

    /// What a queue would exceed.
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

    /// What makes the limit what it is, and what would lift it, where that is not in the name.
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

    /// A queue that cannot promise a job what it asks for.
    pub(super) fn not_promised(&self, queue: &str) -> String {
        match self {
            Limit::Nodes => format!("queue {queue} would be promised more than all nodes have"),
            Limit::Guarantees(beside) => format!("resource quota of queue {queue} {beside} insufficient"),
            _ => format!("resource quota of queue {queue} insufficient"),
        }
    }
}

/// How a queue comes to have all it may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overuse {
    /// It holds what it deserves, or somebody says so.
    Full,
    /// Its capability of these resources, which its jobs ask for, is 0.
    Barred(Vec<DimId>),
    /// The guarantees of others leave it nothing of these, which its jobs ask for.
    Guarantees(Vec<DimId>, Beside),
    /// It holds what it deserves by its weight, beside what other queues ask for.
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
