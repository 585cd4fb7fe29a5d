//! Commands (`bus.volcano.sh`): what controllers shall do with a Job or a Queue, once.
use anyhow::Result;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use phalanx_api::bus::{Action, Command};
use phalanx_runtime::objects::{Kind, Objects};
use serde_json::Value;

/// The namespace of Commands for objects that have none.
const HOME: &str = "default";

/// Creates a Command for an object, in its namespace.
pub(crate) async fn issue<K: Kind>(
    objects: &Objects,
    namespace: Option<&str>,
    name: &str,
    action: Action,
) -> Result<()> {
    let target = objects.get::<K>(namespace, name).await?;
    let command = serde_json::to_value(of(&target, action))?;
    objects.create::<Command>(Some(namespace.unwrap_or(HOME)), &command).await.map(drop)
}

/// The Command, which goes when its target goes.
fn of(target: &Value, action: Action) -> Command {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let meta = &target["metadata"];
    let owner = OwnerReference {
        api_version: text(&target["apiVersion"]),
        kind: text(&target["kind"]),
        name: text(&meta["name"]),
        uid: text(&meta["uid"]),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let metadata = ObjectMeta {
        generate_name: Some(format!("{}-{}-", owner.name, action.as_str().to_lowercase())),
        namespace: meta["namespace"].as_str().map(str::to_owned),
        owner_references: Some(vec![owner.clone()]),
        ..ObjectMeta::default()
    };
    Command { metadata, action: action.into(), target: Some(owner), ..Command::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_names_its_target_as_owner_as_vcctls_do() {
        let job = json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
            "metadata": {"name": "train", "namespace": "team", "uid": "u1"},
        });
        let owner = json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "u1",
            "controller": true, "blockOwnerDeletion": true,
        });
        let command = serde_json::to_value(of(&job, Action::AbortJob)).unwrap();
        assert_eq!(command["metadata"]["generateName"], "train-abortjob-");
        assert_eq!(command["metadata"]["namespace"], "team");
        assert_eq!(command["metadata"]["ownerReferences"], json!([owner]));
        assert_eq!((&command["target"], &command["action"]), (&owner, &json!("AbortJob")));
    }
}
