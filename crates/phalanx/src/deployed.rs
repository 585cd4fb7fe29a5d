//! The scheduler.conf of a live cluster, in the ConfigMap from which its scheduler has it.
use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::exit::{BadInput, tell};
use crate::remote::Remote;

/// The ConfigMaps of Phalanx's manifests and of Volcano's.
const KNOWN: [(&str, &str); 2] =
    [("volcano-system", "phalanx-scheduler-conf"), ("volcano-system", "volcano-scheduler-configmap")];

/// Keys of the configuration in it.
const KEYS: [&str; 2] = ["scheduler.conf", "volcano-scheduler.conf"];

/// Name and text of the configuration. Without one in the ConfigMaps that are known by name, there is a note on stderr.
pub(crate) async fn conf(
    remote: &Remote,
    given: Option<&(String, String)>,
) -> Result<Option<(String, String)>> {
    if let Some((namespace, name)) = given {
        let found = one(remote, namespace, name).await;
        return Ok(Some(found.map_err(|why| BadInput(format!("ConfigMap {namespace}/{name}: {why}")))?));
    }
    let mut faults = Vec::new();
    for (namespace, name) in KNOWN {
        match one(remote, namespace, name).await {
            Ok(found) => {
                tell(format_args!("note: the configuration is that of {}", found.0));
                return Ok(Some(found));
            }
            Err(why) => faults.push(format!("ConfigMap {namespace}/{name}: {why}")),
        }
    }
    let hint = "--scheduler-conf or --scheduler-configmap names another one";
    tell(format_args!(
        "note: the configuration is Volcano's built-in default; {hint} ({})",
        faults.join("; ")
    ));
    Ok(None)
}

async fn one(remote: &Remote, namespace: &str, name: &str) -> Result<(String, String), String> {
    let map = remote.objects.get::<ConfigMap>(Some(namespace), name).await;
    let map = map.map_err(|error| format!("{error:#}"))?;
    let text = KEYS.iter().find_map(|key| Some((key, map["data"][key].as_str()?)));
    let (key, text) = text.ok_or_else(|| format!("found no key {}", KEYS.join(" or ")))?;
    Ok((format!("ConfigMap {namespace}/{name} ({key})"), text.to_owned()))
}
