//! Helpers for tests of several crates: a cluster that runs cycles, random clusters, brute force, and the
//! invariants of every cycle. Development only.
pub mod browser;
pub mod hostile;
pub mod invariants;
pub mod random;
pub mod rates;
pub mod settings;
pub mod small;
pub mod supply;
mod test_cluster;

pub use test_cluster::{Cycle, TestCluster, cases, helm, one_tier, set_flag};
