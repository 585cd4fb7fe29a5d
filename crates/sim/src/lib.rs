//! A cluster in virtual time: manifests, kubelets, reports.
mod bad_input;
mod defaults;
mod document;
mod locate;
mod workload;

pub use bad_input::BadInput;
