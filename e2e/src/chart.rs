//! The Helm chart of `deploy/chart`, rendered by Helm's own packages.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize as _;
use serde_json::Value;

use crate::{deploy, plane::build::program};

/// Where and under which name the chart is installed.
#[derive(Clone, Copy, Debug)]
pub struct Release<'a> {
    /// The first part of the objects' names.
    pub name: &'a str,
    /// The namespace of the release.
    pub namespace: &'a str,
}

impl Release<'_> {
    /// The release that the plain manifests of `deploy/` stand for.
    pub const PLAIN: Release<'static> = Release { name: "phalanx", namespace: deploy::NAMESPACE };

    /// The objects of the chart with these values, definitions first; an error says what Helm says. Builds the Go
    /// program first if need be.
    pub fn render(&self, values: &Value) -> Result<Vec<Value>> {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("deploy").join("chart");
        let mut command = Command::new(program("chart")?);
        command.arg(self.name).arg(chart).arg(self.namespace);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("running the program that renders the chart")?;
        // All of it is read before the program writes.
        child.stdin.take().context("no input")?.write_all(values.to_string().as_bytes())?;
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let documents = serde_yaml::Deserializer::from_slice(&output.stdout);
        let objects = documents.map(Value::deserialize).collect::<Result<Vec<_>, _>>()?;
        Ok(objects.into_iter().filter(|object| !object.is_null()).collect())
    }
}
