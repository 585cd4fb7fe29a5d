//! A real control plane for tests and benchmarks: etcd, kube-apiserver, and on request
//! kube-controller-manager and kube-scheduler, as processes on loopback; nodes and kubelets are fake.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use phalanx_e2e::{Plane, PlaneOptions, fake};
//!
//! let plane = Plane::start(PlaneOptions::default()).await?;
//! fake::Nodes::new(3).cpu("8").extended("nvidia.com/gpu", "8").create(&plane.client()).await?;
//! let _kubelet = fake::Kubelet::start(plane.client());
//! # Ok(()) }
//! ```
//!
//! Everything stops when its guard is dropped, and also when the process that holds it is killed.

pub mod chart;
pub mod crds;
pub mod deploy;
pub mod fake;
pub mod link;
pub mod phalanx;
pub mod plane;
pub mod wait;

pub use link::Link;
pub use phalanx::Phalanx;
pub use plane::{Account, Daemon, Plane, PlaneOptions};
