//! Nodes without machines and pods without containers.

mod kubelet;
mod nodes;

pub use kubelet::{EXIT_CODES, Kubelet, KubeletOptions, RUN_SECONDS};
pub use nodes::Nodes;
