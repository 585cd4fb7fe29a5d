//! Cargo.lock.
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// The SHA-256 of archives of packages, by name and version.
pub struct Checksums(BTreeMap<(String, String), String>);

impl Checksums {
    /// Those in the Cargo.lock of this folder.
    pub fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock")?;
        let lock: Lock = toml::from_str(&text).context("Cargo.lock")?;
        let of = |one: Locked| Some(((one.name, one.version), one.checksum?));
        Ok(Self(lock.package.into_iter().filter_map(of).collect()))
    }

    /// That of a package; packages of the workspace have none.
    pub fn get(&self, name: &str, version: &str) -> Option<&str> {
        self.0.get(&(name.to_owned(), version.to_owned())).map(String::as_str)
    }
}
