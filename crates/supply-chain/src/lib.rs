//! The packages that Phalanx is built from: checked against deny.toml, and as a software bill of materials (SBOM).
//!
//! What cargo knows of them is read without a network: `cargo metadata --locked --offline`.
mod lock;
mod packages;
mod policy;
mod sbom;

pub use lock::Checksums;
pub use packages::{Dependency, Metadata, Package, packages};
pub use policy::{Bans, Graph, Level, Licenses, Policy, Skip, Sources, Two, Yes};
pub use sbom::{Bom, sbom};
