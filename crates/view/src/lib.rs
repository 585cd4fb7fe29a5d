//! What a page shows of a cluster: a [`View`] made from the core's data, and the page that shows it.
//!
//! The page is one file without links to others. [`page`] makes it for a view that stands in it; [`live_page`] makes it
//! for a scheduler, whose view it fetches from [`VIEW_PATH`].
mod gangs;
mod history;
mod hyper_nodes;
mod nodes;
mod page;
mod queues;
mod reasons;
mod view;

pub use gangs::{
    GANGS_MAX, Gang, GangState, Gangs, NODES_OF_GANG_MAX, SUB_GROUPS_OF_GANG_MAX, SubGroupRow, Times,
};
pub use history::{Event, Evicted, EvictedPod, History};
pub use hyper_nodes::{HYPER_NODES_MAX, HyperNode, HyperNodes};
pub use nodes::{Hole, Holes, NODES_MAX, Node, NodeKind, NodeState, Nodes};
pub use page::{Section, VIEW_PATH, escape, live_page, page, plain_page, plain_table, security_policy};
pub use queues::{Queue, QueueLimits, QueueWaiting};
pub use reasons::{ReasonKind, Reasons, shape};
pub use view::{Finished, JobRow, OtherRow, Resource, Seen, State, Unit, View};
