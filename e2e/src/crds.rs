//! Custom resource definitions from files.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    runtime::wait::{await_condition, conditions},
};
use serde_json::Value;

use crate::deploy;

const FIELD_MANAGER: &str = "phalanx-e2e";
const ESTABLISHED_WITHIN: Duration = Duration::from_mins(3);

/// The definitions that this repository generates, `crds/`.
pub fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("crds")
}

/// Applies every definition in the `*.yaml` files of `dir` and waits until each is served.
///
/// Returns their names. A directory without any is an error, so is an object of another kind.
pub async fn apply(client: &Client, dir: &Path) -> Result<Vec<String>> {
    apply_some(client, dir, |_| true).await
}

/// The same of definitions in some API groups.
pub async fn apply_some(client: &Client, dir: &Path, of_group: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let mut definitions = read_all(dir)?;
    definitions.retain(|definition| definition["spec"]["group"].as_str().is_some_and(&of_group));
    ensure!(!definitions.is_empty(), "no custom resource definition in {}", dir.display());
    try_join_all(definitions.iter().map(|definition| apply_one(client, definition))).await
}

async fn apply_one(client: &Client, definition: &Value) -> Result<String> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let applied = api.patch(name, &params, &Patch::Apply(definition)).await;
    applied.with_context(|| format!("applying CustomResourceDefinition {name}"))?;
    let established = await_condition(api, name, conditions::is_crd_established());
    tokio::time::timeout(ESTABLISHED_WITHIN, established)
        .await
        .with_context(|| format!("{name} was not established within {ESTABLISHED_WITHIN:?}"))??;
    Ok(name.to_owned())
}

fn read_all(dir: &Path) -> Result<Vec<Value>> {
    let files = deploy::yaml_files(dir)?;
    Ok(files.iter().map(|path| read_file(path)).collect::<Result<Vec<_>>>()?.concat())
}

fn read_file(path: &Path) -> Result<Vec<Value>> {
    let definitions = deploy::manifests_of(path)?;
    for definition in &definitions {
        let kind = definition["kind"].as_str().unwrap_or("no kind");
        ensure!(kind == "CustomResourceDefinition", "{}: holds {kind}", path.display());
    }
    Ok(definitions)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const DEFINITION: &str = "kind: CustomResourceDefinition\nmetadata: {name: NAME}\n";

    #[test]
    fn every_document_of_every_yaml_file_is_read_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let named = |name: &str| DEFINITION.replace("NAME", name);
        fs::write(dir.path().join("b.yaml"), named("three")).unwrap();
        fs::write(dir.path().join("a.yaml"), format!("---\n{}---\n{}", named("one"), named("two"))).unwrap();
        fs::write(dir.path().join("notes.txt"), "kind: Nothing").unwrap();
        let names: Vec<_> =
            read_all(dir.path()).unwrap().iter().map(|d| d["metadata"]["name"].clone()).collect();
        assert_eq!(names, ["one", "two", "three"]);
    }

    #[test]
    fn another_kind_is_refused_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("pod.yaml"), "kind: Pod\n").unwrap();
        let error = read_all(dir.path()).unwrap_err().to_string();
        assert!(error.ends_with("pod.yaml: holds Pod"), "{error}");
    }
}
