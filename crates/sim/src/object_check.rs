//! Checks of the API server beyond types: lists without duplicate names, and fields of which exactly one is set.
//!
//! Source: Kubernetes' validation (`ValidatePersistentVolumeClaimSpec`, `ValidatePersistentVolume`, `ValidateCSINode`,
//! `validateDeviceRequest`, `ValidateResourceSlice`, `ValidateResourceQuotaSpec`, `ValidateVolumes`,
//! `validateTopologySpreadConstraints`).
use std::collections::BTreeSet;

use phalanx_cache::{Invalid, is_name};
use phalanx_resource::Quantity;
use serde_json::Value;

use crate::kind::Kind;

/// Returns all problems.
pub(crate) fn check(kind: Kind, object: &Value) -> Vec<Invalid> {
    let (spec, mut found) = (&object["spec"], Found(Vec::new()));
    match kind {
        Kind::Pod => pod(spec, &mut found),
        Kind::PersistentVolumeClaim => claim("spec", spec, &mut found),
        Kind::PersistentVolume => {
            some_modes("spec", spec, &mut found);
            storage("spec.capacity", &spec["capacity"], &mut found);
        }
        Kind::CSINode => csi_node(spec, &mut found),
        Kind::ResourceClaim => requests("spec", spec, &mut found),
        Kind::ResourceClaimTemplate => requests("spec.spec", &spec["spec"], &mut found),
        Kind::ResourceSlice => slice(spec, &mut found),
        Kind::ResourceQuota => quota(spec, &mut found),
        Kind::PriorityClass => priority_class(object, &mut found),
        Kind::CSIStorageCapacity => {
            not_below_0("capacity", &object["capacity"], &mut found);
            not_below_0("maximumVolumeSize", &object["maximumVolumeSize"], &mut found);
        }
        Kind::PodDisruptionBudget => disruptions(&object["status"], &mut found),
        Kind::StorageClass if object["provisioner"] == "" => {
            found.add("provisioner".to_owned(), "found nothing, expected the name of a driver");
        }
        _ => {}
    }
    found.0
}

struct Found(Vec<Invalid>);

impl Found {
    fn add(&mut self, field: String, problem: impl Into<String>) {
        self.0.push(Invalid { field, problem: problem.into() });
    }

    /// Items with the same text at `key` as an earlier item.
    fn twice(&mut self, field: &str, list: &Value, key: &str) {
        let mut seen = BTreeSet::new();
        for (at, item) in items(list) {
            if let Some(text) = item[key].as_str().filter(|text| !seen.insert((*text).to_owned())) {
                self.add(format!("{field}[{at}].{key}"), format!("found {text:?} again, expected it once"));
            }
        }
    }
}

fn items(list: &Value) -> impl Iterator<Item = (usize, &Value)> {
    list.as_array().into_iter().flatten().enumerate()
}

/// Go treats null, an empty text and false as missing.
fn is_there(value: &Value) -> bool {
    !value.is_null() && value != "" && value != &Value::Bool(false)
}

fn pod(spec: &Value, found: &mut Found) {
    found.twice("spec.volumes", &spec["volumes"], "name");
    for (at, volume) in items(&spec["volumes"]) {
        let sources = volume.as_object().into_iter().flatten().filter(|(key, _)| *key != "name");
        let sources: Vec<&str> =
            sources.filter(|(_, value)| !value.is_null()).map(|(key, _)| key.as_str()).collect();
        if sources.len() != 1 {
            let problem = format!("found {} of the kinds of volumes, expected one of them", sources.len());
            found.add(format!("spec.volumes[{at}]"), problem);
        }
        if volume["ephemeral"].is_object() && volume["ephemeral"]["volumeClaimTemplate"].is_null() {
            let field = format!("spec.volumes[{at}].ephemeral.volumeClaimTemplate");
            found.add(field, "missing, expected what the claim asks for");
        }
        let template = &volume["ephemeral"]["volumeClaimTemplate"]["spec"];
        if !template.is_null() {
            claim(&format!("spec.volumes[{at}].ephemeral.volumeClaimTemplate.spec"), template, found);
        }
    }
    resource_claims(spec, found);
    spread(&spec["topologySpreadConstraints"], found);
}

fn resource_claims(spec: &Value, found: &mut Found) {
    let claims = &spec["resourceClaims"];
    found.twice("spec.resourceClaims", claims, "name");
    for (at, claim) in items(claims) {
        let named =
            ["resourceClaimName", "resourceClaimTemplateName"].iter().filter(|key| is_there(&claim[**key]));
        if named.count() != 1 {
            let problem = "expected one of resourceClaimName and resourceClaimTemplateName";
            found.add(format!("spec.resourceClaims[{at}]"), problem);
        }
    }
    for list in ["containers", "initContainers"] {
        for (at, container) in items(&spec[list]) {
            for (claim, used) in items(&container["resources"]["claims"]) {
                if !items(claims).any(|(_, known)| known["name"] == used["name"]) {
                    let problem = format!("found {}, expected a name in spec.resourceClaims", used["name"]);
                    found.add(format!("spec.{list}[{at}].resources.claims[{claim}].name"), problem);
                }
            }
        }
    }
}

fn spread(constraints: &Value, found: &mut Found) {
    let mut seen = BTreeSet::new();
    for (at, one) in items(constraints) {
        let place = format!("spec.topologySpreadConstraints[{at}]");
        let text = |key: &str| one[key].as_str().unwrap_or_default();
        let topology = text("topologyKey");
        if !seen.insert((topology, text("whenUnsatisfiable"))) {
            let problem = format!("found {topology:?} again, expected it once for each whenUnsatisfiable");
            found.add(format!("{place}.topologyKey"), problem);
        }
        for (key_at, key) in items(&one["matchLabelKeys"]) {
            let labels = &one["labelSelector"]["matchLabels"];
            if key.as_str().is_some_and(|key| !labels[key].is_null()) {
                let problem =
                    format!("found {key}, which is in labelSelector too, expected it in one of them");
                found.add(format!("{place}.matchLabelKeys[{key_at}]"), problem);
            }
        }
    }
}

/// Checks the spec of a PersistentVolumeClaim, also of its template in a pod.
fn claim(place: &str, spec: &Value, found: &mut Found) {
    some_modes(place, spec, found);
    storage(&format!("{place}.resources.requests"), &spec["resources"]["requests"], found);
}

fn some_modes(place: &str, spec: &Value, found: &mut Found) {
    let modes: Vec<&str> = items(&spec["accessModes"]).filter_map(|(_, mode)| mode.as_str()).collect();
    let place = format!("{place}.accessModes");
    if modes.is_empty() {
        found.add(place, "found none, expected at least one");
    } else if modes.len() > 1 && modes.contains(&"ReadWriteOncePod") {
        found.add(place, "found ReadWriteOncePod beside others, expected it alone");
    }
}

/// An amount that cannot be read is reported elsewhere.
fn storage(place: &str, amounts: &Value, found: &mut Found) {
    let text = match &amounts["storage"] {
        Value::Null => return found.add(format!("{place}.storage"), "missing, expected a size such as 10Gi"),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.parse::<Quantity>().is_ok_and(|size| size.units() <= 0) {
        found.add(format!("{place}.storage"), format!("found {text}, expected more than 0"));
    }
}

/// The names without a domain that a ResourceQuota can count.
const COUNTED: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

fn quota(spec: &Value, found: &mut Found) {
    let known = |name: &str| {
        let hugepages = name.strip_prefix("requests.").unwrap_or(name).starts_with("hugepages-");
        COUNTED.contains(&name) || hugepages || name.contains('/')
    };
    for name in spec["hard"].as_object().into_iter().flat_map(|hard| hard.keys()).filter(|name| !known(name))
    {
        let problem = format!(
            "found resource {name:?}, expected cpu, memory, requests.cpu, pods, count/KIND or another that quotas know"
        );
        found.add(format!("spec.hard.{name}"), problem);
    }
}

/// An amount that cannot be read is reported elsewhere.
fn not_below_0(place: &str, amount: &Value, found: &mut Found) {
    let text = amount.as_str().map_or_else(|| amount.to_string(), ToOwned::to_owned);
    if text.parse::<Quantity>().is_ok_and(|size| size.units_floor() < 0) {
        found.add(place.to_owned(), format!("found {text}, expected 0 or more"));
    }
}

/// Higher values are for the system classes of Kubernetes.
fn priority_class(class: &Value, found: &mut Found) {
    const HIGHEST: i64 = 1_000_000_000;
    let (name, value) =
        (class["metadata"]["name"].as_str().unwrap_or_default(), class["value"].as_i64().unwrap_or_default());
    if matches!(
        (name, value),
        ("system-node-critical", 2_000_001_000) | ("system-cluster-critical", 2_000_000_000)
    ) {
        return;
    }
    if name.starts_with("system-") {
        let problem = format!("found {name:?} with value {value}, expected no name that begins with system-");
        found.add("metadata.name".to_owned(), problem);
    } else if value > HIGHEST && i32::try_from(value).is_ok() {
        found.add("value".to_owned(), format!("found {value}, expected at most {HIGHEST}"));
    }
}

/// Counts in the status of a PodDisruptionBudget.
fn disruptions(status: &Value, found: &mut Found) {
    for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        if let Some(count) = status[field].as_i64().filter(|count| *count < 0) {
            found.add(format!("status.{field}"), format!("found {count}, expected 0 or more"));
        }
    }
}

fn csi_node(spec: &Value, found: &mut Found) {
    found.twice("spec.drivers", &spec["drivers"], "name");
    for (at, driver) in items(&spec["drivers"]) {
        if let Some(count) = driver["allocatable"]["count"].as_i64().filter(|count| *count < 0) {
            let problem = format!("found {count}, expected 0 or more");
            found.add(format!("spec.drivers[{at}].allocatable.count"), problem);
        }
    }
}

fn requests(place: &str, spec: &Value, found: &mut Found) {
    let place = format!("{place}.devices.requests");
    found.twice(&place, &spec["devices"]["requests"], "name");
    for (at, request) in items(&spec["devices"]["requests"]) {
        let exactly = &request["exactly"];
        if is_there(exactly) == is_there(&request["firstAvailable"]) {
            found.add(format!("{place}[{at}]"), "expected one of exactly and firstAvailable");
        }
        if let Some(count) = exactly["count"].as_i64().filter(|count| *count < 0) {
            let problem = format!("found {count}, expected 1 or more");
            found.add(format!("{place}[{at}].exactly.count"), problem);
        }
        let mode = exactly["allocationMode"].as_str().unwrap_or_default();
        if !matches!(mode, "" | "ExactCount" | "All") {
            let problem = format!("found {mode:?}, expected one of ExactCount, All");
            found.add(format!("{place}[{at}].exactly.allocationMode"), problem);
        }
        for (selector_at, selector) in items(&exactly["selectors"]) {
            if selector["cel"].is_null() {
                let field = format!("{place}[{at}].exactly.selectors[{selector_at}].cel");
                found.add(field, "missing, expected an expression");
            }
        }
    }
}

fn slice(spec: &Value, found: &mut Found) {
    const NODES: [&str; 4] = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];
    let said: Vec<&str> = NODES.iter().copied().filter(|key| is_there(&spec[*key])).collect();
    if said.len() != 1 {
        let said = if said.is_empty() { "none".to_owned() } else { said.join(" and ") };
        found.add("spec".to_owned(), format!("found {said}, expected one of {}", NODES.join(", ")));
    }
    pool(spec, found);
    found.twice("spec.devices", &spec["devices"], "name");
    for (at, device) in items(&spec["devices"]) {
        let label = |name: &&str| !is_name(name) || name.contains('.') || name.len() > 63;
        if let Some(name) = device["name"].as_str().filter(label) {
            let problem = format!("found {name:?}, expected lower-case letters, digits and '-', at most 63");
            found.add(format!("spec.devices[{at}].name"), problem);
        }
        for (name, value) in device["attributes"].as_object().into_iter().flatten() {
            if value.as_object().is_none_or(|values| values.len() != 1) {
                let problem = "expected one of int, bool, string, version";
                found.add(format!("spec.devices[{at}].attributes.{name}"), problem);
            }
        }
    }
}

/// Driver, pool and nodes of a ResourceSlice.
fn pool(spec: &Value, found: &mut Found) {
    for (field, name) in [("driver", &spec["driver"]), ("pool.name", &spec["pool"]["name"])] {
        if name == "" {
            found.add(format!("spec.{field}"), "found nothing, expected a name");
        }
    }
    for (field, least) in [("generation", 0), ("resourceSliceCount", 1)] {
        if let Some(number) = spec["pool"][field].as_i64().filter(|number| *number < least) {
            found.add(format!("spec.pool.{field}"), format!("found {number}, expected {least} or more"));
        }
    }
    let terms = &spec["nodeSelector"]["nodeSelectorTerms"];
    if let Some(terms) = terms.as_array().filter(|terms| terms.len() != 1) {
        let problem = format!("found {} terms, expected one", terms.len());
        found.add("spec.nodeSelector.nodeSelectorTerms".to_owned(), problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(kind: Kind, spec: &Value) -> Vec<String> {
        check(kind, &json!({"spec": spec})).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn volumes_and_claims_of_pods_that_the_api_server_refuses_are_reported() {
        let claim = json!({"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}});
        for (spec, expected) in [
            (
                json!({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "configMap": {"name": "c"}}]}),
                vec![],
            ),
            (
                json!({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "a"}]}),
                vec![
                    "spec.volumes[1].name: found \"a\" again, expected it once",
                    "spec.volumes[1]: found 0 of the kinds of volumes, expected one of them",
                ],
            ),
            (
                json!({"volumes": [{"name": "a", "ephemeral": {}}]}),
                vec![
                    "spec.volumes[0].ephemeral.volumeClaimTemplate: missing, expected what the claim asks for",
                ],
            ),
            (
                json!({"volumes": [{"name": "a", "ephemeral": claim}]}),
                vec![
                    "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests.storage: missing, expected a size such as 10Gi",
                ],
            ),
            (
                json!({"resourceClaims": [{"name": "g", "resourceClaimName": "c"}],
                    "containers": [{"resources": {"claims": [{"name": "g"}, {"name": "h"}]}}]}),
                vec![
                    "spec.containers[0].resources.claims[1].name: found \"h\", expected a name in spec.resourceClaims",
                ],
            ),
            (
                json!({"resourceClaims": [{"name": "g", "resourceClaimName": "c", "resourceClaimTemplateName": "t"}, {"name": "h"}]}),
                vec![
                    "spec.resourceClaims[0]: expected one of resourceClaimName and resourceClaimTemplateName",
                    "spec.resourceClaims[1]: expected one of resourceClaimName and resourceClaimTemplateName",
                ],
            ),
        ] {
            assert_eq!(said(Kind::Pod, &spec), expected, "{spec}");
        }
    }

    #[test]
    fn a_topology_key_occurs_once_for_each_when_unsatisfiable() {
        let one = |when: &str| json!({"topologyKey": "zone", "whenUnsatisfiable": when});
        let spread = |list: Value| said(Kind::Pod, &json!({"topologySpreadConstraints": list}));
        assert_eq!(spread(json!([one("DoNotSchedule"), one("ScheduleAnyway")])), [""; 0]);
        let expected = "spec.topologySpreadConstraints[1].topologyKey: found \"zone\" again, expected it once for each whenUnsatisfiable";
        assert_eq!(spread(json!([one("DoNotSchedule"), one("DoNotSchedule")])), [expected]);
        let mut both = one("DoNotSchedule");
        both["matchLabelKeys"] = json!(["app"]);
        both["labelSelector"] = json!({"matchLabels": {"app": "web"}});
        let expected = "spec.topologySpreadConstraints[0].matchLabelKeys[0]: found \"app\", which is in labelSelector too, expected it in one of them";
        assert_eq!(spread(json!([both])), [expected]);
    }

    #[test]
    fn claims_volumes_and_drivers_that_the_api_server_refuses_are_reported() {
        let size = json!({"storage": "1Gi"});
        for (kind, spec, expected) in [
            (
                Kind::PersistentVolumeClaim,
                json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}}),
                vec![],
            ),
            (
                Kind::PersistentVolumeClaim,
                json!({"accessModes": ["ReadWriteOnce", "ReadWriteOncePod"], "resources": {"requests": {"storage": 0}}}),
                vec![
                    "spec.accessModes: found ReadWriteOncePod beside others, expected it alone",
                    "spec.resources.requests.storage: found 0, expected more than 0",
                ],
            ),
            (
                Kind::PersistentVolume,
                json!({}),
                vec![
                    "spec.accessModes: found none, expected at least one",
                    "spec.capacity.storage: missing, expected a size such as 10Gi",
                ],
            ),
            (
                Kind::CSINode,
                json!({"drivers": [{"name": "d", "allocatable": {"count": -1}}, {"name": "d"}]}),
                vec![
                    "spec.drivers[1].name: found \"d\" again, expected it once",
                    "spec.drivers[0].allocatable.count: found -1, expected 0 or more",
                ],
            ),
        ] {
            assert_eq!(said(kind, &spec), expected, "{spec}");
        }
    }

    #[test]
    fn words_counts_and_names_that_the_api_server_refuses_are_reported() {
        for (kind, object, expected) in [
            (
                Kind::PodDisruptionBudget,
                json!({"status": {"disruptionsAllowed": -3, "currentHealthy": 0}}),
                vec!["status.disruptionsAllowed: found -3, expected 0 or more"],
            ),
            (
                Kind::StorageClass,
                json!({"provisioner": ""}),
                vec!["provisioner: found nothing, expected the name of a driver"],
            ),
            (Kind::StorageClass, json!({"provisioner": "x.csi"}), vec![]),
            (
                Kind::CSIStorageCapacity,
                json!({"capacity": "-1Gi", "maximumVolumeSize": 0}),
                vec!["capacity: found -1Gi, expected 0 or more"],
            ),
            (
                Kind::PriorityClass,
                json!({"metadata": {"name": "top"}, "value": 1_000_000_001}),
                vec!["value: found 1000000001, expected at most 1000000000"],
            ),
            (
                Kind::PriorityClass,
                json!({"metadata": {"name": "system-mine"}, "value": 1}),
                vec![
                    "metadata.name: found \"system-mine\" with value 1, expected no name that begins with system-",
                ],
            ),
            (
                Kind::PriorityClass,
                json!({"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000}),
                vec![],
            ),
        ] {
            let said: Vec<String> = check(kind, &object).iter().map(ToString::to_string).collect();
            assert_eq!(said, expected, "{object}");
        }
    }

    #[test]
    fn unknown_resources_of_a_quota_are_reported() {
        let hard = json!({"cpu": 1, "cpus": 1, "requests.nvidia.com/gpu": 1, "count/jobs.batch": 1, "hugepages-2Mi": 1,
            "requests.hugepages-2Mi": 1, "services.loadbalancers": 1, "limits.gpu": 1});
        let fields: Vec<String> = check(Kind::ResourceQuota, &json!({"spec": {"hard": hard}}))
            .into_iter()
            .map(|one| one.field)
            .collect();
        assert_eq!(fields, ["spec.hard.cpus", "spec.hard.limits.gpu"]);
    }

    #[test]
    fn devices_and_requests_that_the_api_server_refuses_are_reported() {
        let exactly = json!({"deviceClassName": "gpu"});
        let slice = |more: Value| {
            let mut spec = json!({"driver": "d", "nodeName": "n"});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            said(Kind::ResourceSlice, &spec)
        };
        assert_eq!(
            slice(json!({"devices": [{"name": "a", "attributes": {"x": {"int": 1}}}], "allNodes": false})),
            [""; 0]
        );
        assert_eq!(
            slice(
                json!({"allNodes": true, "devices": [{"name": "a", "attributes": {"x": {}}}, {"name": "a"}]})
            ),
            [
                "spec: found nodeName and allNodes, expected one of nodeName, nodeSelector, allNodes, perDeviceNodeSelection",
                "spec.devices[1].name: found \"a\" again, expected it once",
                "spec.devices[0].attributes.x: expected one of int, bool, string, version",
            ]
        );
        let pool = json!({"pool": {"name": "", "generation": -1, "resourceSliceCount": 0}, "devices": [{"name": "A b"}],
            "nodeName": "", "nodeSelector": {"nodeSelectorTerms": []}});
        assert_eq!(
            slice(pool),
            [
                "spec.pool.name: found nothing, expected a name",
                "spec.pool.generation: found -1, expected 0 or more",
                "spec.pool.resourceSliceCount: found 0, expected 1 or more",
                "spec.nodeSelector.nodeSelectorTerms: found 0 terms, expected one",
                "spec.devices[0].name: found \"A b\", expected lower-case letters, digits and '-', at most 63",
            ]
        );
        let claim = |requests: Value| said(Kind::ResourceClaim, &json!({"devices": {"requests": requests}}));
        assert_eq!(claim(json!([{"name": "r", "exactly": exactly}])), [""; 0]);
        assert_eq!(
            claim(
                json!([{"name": "r", "exactly": {"count": -1, "allocationMode": "Some", "selectors": [{}]}}, {"name": "r"}])
            ),
            [
                "spec.devices.requests[1].name: found \"r\" again, expected it once",
                "spec.devices.requests[0].exactly.count: found -1, expected 1 or more",
                "spec.devices.requests[0].exactly.allocationMode: found \"Some\", expected one of ExactCount, All",
                "spec.devices.requests[0].exactly.selectors[0].cel: missing, expected an expression",
                "spec.devices.requests[1]: expected one of exactly and firstAvailable",
            ]
        );
    }
}
