//! What the API server refuses of the scheduler's ConfigMap.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use phalanx_e2e::{
    PlaneOptions,
    deploy::{FIELD_MANAGER, NAMESPACE, apply, manifests},
    fake, wait,
};
use serde_json::{Value, json};

use super::cluster::{Cluster, SOON};

const GOOD: &str = "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n  - name: gang\n    enablePreemptable: false\n";

/// Tries an edit of the ConfigMap, and says why it is refused.
async fn edit(maps: &Api<ConfigMap>, name: &str, data: Value) -> Result<Option<String>> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    match maps.patch(name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&object)).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(Some(status.message)),
        Err(error) => Err(error.into()),
    }
}

#[tokio::test]
async fn a_bad_scheduler_conf_is_refused_as_far_as_lines_show_it() -> Result<()> {
    const NAME: &str = "phalanx-scheduler-conf";
    let cluster = Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(1)).await?;
    let ours = |object: &Value| object["kind"] == "Namespace" || object["metadata"]["name"] == NAME;
    apply(&cluster.client, &manifests()?.into_iter().filter(ours).collect::<Vec<_>>()).await?;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    wait::until(SOON, "the policy to be in force", async || {
        edit(&maps, NAME, json!({})).await?.context("it is not refused")
    })
    .await?;

    for (right, wrong, expected) in [
        ("allocate", "alocate", "unknown action \"alocate\"; expected some of enqueue,"),
        (
            "\"enqueue, allocate, backfill\"",
            "enqueue allocate",
            "unknown action \"enqueue allocate\"; expected",
        ),
        ("backfill", "backfill,", "unknown action \"\"; expected"),
        ("  - name: gang", "\t- name: gang", "a tab as indentation before - name: gang; expected spaces"),
        ("tiers:", "tier:", "scheduler.conf: expected the keys actions and tiers"),
        ("tiers:", "tiers: []\nconfiguration:", "unknown key configuration; phalanx conf check names"),
        ("enablePreemptable", "enablePreemtable", "unknown key enablePreemtable; phalanx conf check names"),
    ] {
        let refused = edit(&maps, NAME, json!({"scheduler.conf": GOOD.replace(right, wrong)})).await?;
        ensure!(refused.as_ref().is_some_and(|why| why.contains(expected)), "{wrong}: {refused:?}");
    }
    let refused = edit(&maps, NAME, json!({"volcano-scheduler.conf": GOOD})).await?;
    ensure!(refused.is_some(), "the scheduler reads another key");
    ensure!(edit(&maps, "other", json!({"scheduler.conf": "any"})).await?.is_none(), "another ConfigMap");

    let json = "{\n\t\"actions\": \"allocate, backfill\",\n\t\"tiers\": [{\"plugins\": [{\"name\": \"gang\"}]}]\n}\n";
    let folded = GOOD.replace("\"enqueue, allocate, backfill\"", ">-\n  enqueue,\n  allocate");
    for good in [json, &folded, GOOD].map(str::to_owned).into_iter().chain(shipped()?) {
        let refused = edit(&maps, NAME, json!({"scheduler.conf": good})).await?;
        ensure!(refused.is_none(), "{good}: {refused:?}");
    }
    Ok(())
}

/// The files of `config/`.
fn shipped() -> Result<Vec<String>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("config");
    let paths = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let files =
        paths.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.map(|path| fs::read_to_string(&path).with_context(|| path.display().to_string())).collect()
}
