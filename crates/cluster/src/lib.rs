//! What the scheduler knows: nodes, tasks, jobs and queues under dense ids, with sums kept by every change.
//!
//! Events are folded in between cycles (`Cluster::apply`). During a cycle only a Statement changes what is known, through
//! `Cluster::place`, the one function that moves a task, so that room, counts and sums cannot drift apart.
//!
//! Nothing here reads files, sockets, clocks or the environment.
mod allowance;
pub mod annotation;
mod apply;
pub mod budget;
mod changed;
mod check;
mod class;
mod cluster;
mod cooling;
mod denied;
mod devices;
pub mod diagnosis;
pub mod duration;
pub mod event;
mod gates;
mod givers;
mod grouping;
mod groups;
pub mod id;
mod images;
mod inqueue;
mod job;
pub mod label;
mod likeness;
mod log;
mod marks;
pub mod matching;
mod node;
mod pdb;
mod pdbs;
pub mod prepare;
mod priorities;
mod queue;
mod seat;
mod task;
mod terms;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tree;
mod usage;
mod volumes;

pub use allowance::{Allowance, Allowances};
pub use changed::{Changed, JobChange};
pub use class::Class;
pub use cluster::{Before, Cluster, ClusterOptions};
pub use denied::backoff;
pub use devices::{DevicesOf, Local, Need, Shared, Wanted, is_part};
pub use givers::EqualPriority;
pub use grouping::GroupWait;
pub use job::{Job, JobKind, NoWay, Role};
pub use likeness::{Asks, DeviceLike, Member};
pub use node::{Node, Stamp, Taken};
pub use pdb::{Budgets, Pdb};
pub use pdbs::Pdbs;
pub use queue::{Queue, Rendered};
pub use task::{Counts, Hold, Refused, Status, Task};
pub use terms::{Carried, Change, Held, SpreadTerm, Tally, Terms};
pub use tree::{Part, ROOT, Sums};
pub use usage::{Newcomers, Usage};
pub use volumes::{Demand, Got, Problem, Pvc, Volumes, Want, reaches, solve};

pub(crate) use class::ClassKey;
pub(crate) use log::Log;
pub(crate) use volumes::Chosen;
