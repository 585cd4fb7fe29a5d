//! Volcano's objects as Rust types, the CustomResourceDefinitions made from them, and the names of
//! every annotation, label and resource that steers scheduling.
//!
//! Data only: no client, no clock, no IO. Whatever Volcano accepts decodes here, stored objects
//! with values from other versions included; see [`v1beta1`] for the rules.

pub mod batch;
pub mod bus;
mod crd;
mod embedded;
pub mod flow;
mod lenient;
pub mod names;
mod resource;
mod ring;
pub mod topology;
pub mod v1beta1;

pub use crd::{crds, schema};
pub use lenient::duration;
