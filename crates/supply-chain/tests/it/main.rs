//! The packages of this workspace against deny.toml, planted faults, and the SBOM.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails with the test")]

mod check;
mod images;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use phalanx_supply_chain::{Metadata, Policy, packages};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn policy() -> Policy {
    Policy::parse(&fs::read_to_string(root().join("deny.toml")).unwrap()).unwrap()
}

static METADATA: LazyLock<Metadata> = LazyLock::new(|| packages(&root(), &policy().graph.targets).unwrap());
