//! The manifests of `deploy/`, applied and deleted as kubectl does.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use kube::{
    Api, Client, Discovery,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, ValidationDirective},
    core::GroupVersionKind,
    discovery::Scope,
};
use serde::Deserialize as _;
use serde_json::Value;

/// The namespace of the manifests: the accounts and the leases are in it.
pub const NAMESPACE: &str = "volcano-system";
/// Who owns the fields that [`apply`] writes.
pub const FIELD_MANAGER: &str = "phalanx-e2e";

/// The folder `deploy/` of this repository.
pub fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("deploy")
}

/// The objects of `deploy/`, of those in its folders none.
pub fn manifests() -> Result<Vec<Value>> {
    manifests_in("")
}

/// The objects of a folder of `deploy/`, such as `optional`, by the names of their files.
pub fn manifests_in(folder: &str) -> Result<Vec<Value>> {
    let files = yaml_files(&dir().join(folder))?;
    Ok(files.iter().map(|file| manifests_of(file)).collect::<Result<Vec<_>>>()?.concat())
}

/// The `*.yaml` files of a folder, by name.
pub(crate) fn yaml_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    Ok(files)
}

/// The objects of a file.
pub fn manifests_of(file: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let documents = serde_yaml::Deserializer::from_str(&text).map(Value::deserialize);
    let objects: Vec<Value> =
        documents.collect::<Result<_, _>>().with_context(|| file.display().to_string())?;
    Ok(objects.into_iter().filter(|object| !object.is_null()).collect())
}

/// As `kubectl apply --server-side --validate=strict`.
pub async fn apply(client: &Client, objects: &[Value]) -> Result<()> {
    let params = PatchParams {
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::apply(FIELD_MANAGER)
    };
    for Addressed { object, name, api } in addressed(client, objects).await? {
        api.patch(&name, &params, &Patch::Apply(&object)).await.with_context(|| name.clone())?;
    }
    Ok(())
}

/// As `kubectl delete --ignore-not-found`.
pub async fn delete(client: &Client, objects: &[Value]) -> Result<()> {
    for Addressed { name, api, .. } in addressed(client, objects).await? {
        match api.delete(&name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => drop(other.with_context(|| name.clone())?),
        }
    }
    Ok(())
}

/// An object with its name and its API.
struct Addressed {
    object: DynamicObject,
    name: String,
    api: Api<DynamicObject>,
}

async fn addressed(client: &Client, objects: &[Value]) -> Result<Vec<Addressed>> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    let address = |object: &Value| {
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        let kind = GroupVersionKind::try_from(object.types.as_ref().context("a kind")?)?;
        let (resource, abilities) = discovery.resolve_gvk(&kind).context("a known kind")?;
        let api = match (abilities.scope, object.metadata.namespace.as_deref()) {
            (Scope::Namespaced, namespace) => {
                Api::namespaced_with(client.clone(), namespace.unwrap_or("default"), &resource)
            }
            (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        };
        Ok(Addressed { name: object.metadata.name.clone().context("a name")?, object, api })
    };
    objects.iter().map(address).collect()
}
