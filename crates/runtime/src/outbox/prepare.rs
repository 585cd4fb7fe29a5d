//! What is written before a pod is bound. Each step may be done again: it changes nothing then.
use http::{Method, Request};
use hyper::body::Bytes;
use phalanx_cluster::event::{ClaimAllocation, NodeTerm, Operator, Requirement};
use phalanx_core::decision::{Binding, ClaimWrite, Prepare};
use serde_json::{Value, json};

use super::driver::fetch;
use super::reply::{Problem, Reply, Trouble, read};
use crate::wire::Wire;

/// Keeps a claim that was given devices until they were taken back. Source: kube-scheduler.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// Others write claims too, and the pods of a shared claim all at once.
const ATTEMPTS: u32 = 8;
const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";

/// Makes the writes that a bind needs first.
pub(super) async fn prepare(wire: &Wire, binding: &Binding) -> Result<(), Reply> {
    for step in &binding.prepare {
        match step {
            Prepare::Claim(write) => claim(wire, write).await?,
            // Written and waited for before the bind is handed out.
            Prepare::Volume(_) => {}
        }
    }
    Ok(())
}

/// Writes the devices of a claim, if it has none, and reserves the claim for the pod. Reads, changes and writes with
/// the version that was read, until no other client wrote in between.
async fn claim(wire: &Wire, write: &ClaimWrite) -> Result<(), Reply> {
    let path = format!(
        "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}",
        write.key.namespace, write.key.name
    );
    for _ in 0..ATTEMPTS {
        let mut claim = get(wire, &path).await?;
        let changes = change(&mut claim, write).map_err(|why| refused(write, why))?;
        if !changes {
            return Ok(());
        }
        if claim["status"]["allocation"].is_null() {
            let Some(guarded) = protected(wire, &path, &claim).await? else { continue };
            claim["metadata"] = guarded["metadata"].clone();
            claim["status"]["allocation"] = allocation(wire, &claim, write).await?;
        }
        if put(wire, &format!("{path}/status"), &claim).await?.is_some() {
            return Ok(());
        }
    }
    let message = format!("ResourceClaim {} is written by others all the time", write.key);
    Err(Reply::Passing { message, trouble: Trouble::Object, after: None })
}

fn refused(write: &ClaimWrite, why: &str) -> Reply {
    Reply::Refused(format!("ResourceClaim {}: {why}", write.key))
}

/// Reserves the claim for the pod. Whether anything has to be written.
fn change(claim: &mut Value, write: &ClaimWrite) -> Result<bool, &'static str> {
    if claim["metadata"]["uid"] != *write.uid {
        return Err("it is another one now");
    }
    let given = &claim["status"]["allocation"];
    let open = given.is_null();
    match &write.allocation {
        None if open => return Err("it has lost its devices"),
        Some(own) if !open && !same_devices(given, own) => return Err("it was given other devices"),
        _ => {}
    }
    let pod = &write.pod;
    let mut reserved = claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
    let known = reserved.iter().any(|one| one["uid"] == *pod.uid);
    if !known {
        reserved.push(json!({"resource": "pods", "name": pod.name, "uid": pod.uid}));
        claim["status"]["reservedFor"] = reserved.into();
    }
    Ok(open || !known)
}

fn same_devices(given: &Value, own: &ClaimAllocation) -> bool {
    let results = given["devices"]["results"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut found: Vec<[&str; 4]> = results
        .iter()
        .map(|one| ["request", "driver", "pool", "device"].map(|key| one[key].as_str().unwrap_or_default()))
        .collect();
    let mut wanted: Vec<[&str; 4]> = own
        .devices
        .iter()
        .map(|one| [&*one.request, &*one.device.driver, &*one.device.pool, &*one.device.device])
        .collect();
    found.sort_unstable();
    wanted.sort_unstable();
    found == wanted
}

/// The claim with the finalizer; `None` when another client wrote it in between.
async fn protected(wire: &Wire, path: &str, claim: &Value) -> Result<Option<Value>, Reply> {
    let mut finalizers = claim["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if finalizers.iter().any(|one| one == FINALIZER) {
        return Ok(Some(claim.clone()));
    }
    finalizers.push(FINALIZER.into());
    let mut claim = claim.clone();
    claim["metadata"]["finalizers"] = finalizers.into();
    put(wire, path, &claim).await
}

/// The allocation as it is written, with the configuration of the classes and of the claim.
async fn allocation(wire: &Wire, claim: &Value, write: &ClaimWrite) -> Result<Value, Reply> {
    let own = write.allocation.as_deref().cloned().unwrap_or_default();
    let devices = &claim["spec"]["devices"];
    let mut config = Vec::new();
    for (class, requests) in requests_by_class(devices) {
        let class = get(wire, &format!("{CLASSES}/{class}")).await?;
        config.extend(configs(&class["spec"]["config"], "FromClass", Some(&requests)));
    }
    config.extend(configs(&devices["config"], "FromClaim", None));
    Ok(body(&own, &config))
}

fn requests_by_class(devices: &Value) -> Vec<(String, Vec<Value>)> {
    let mut classes: Vec<(String, Vec<Value>)> = Vec::new();
    for request in devices["requests"].as_array().into_iter().flatten() {
        let class = request["exactly"]["deviceClassName"].as_str().unwrap_or_default();
        match classes.iter_mut().find(|(known, _)| known == class) {
            Some((_, requests)) => requests.push(request["name"].clone()),
            None => classes.push((class.to_owned(), vec![request["name"].clone()])),
        }
    }
    classes
}

fn configs(list: &Value, source: &str, requests: Option<&[Value]>) -> Vec<Value> {
    let one = |config: &Value| {
        let mut config = config.clone();
        config["source"] = json!(source);
        if let Some(requests) = requests {
            config["requests"] = json!(requests);
        }
        config
    };
    list.as_array().into_iter().flatten().map(one).collect()
}

fn body(own: &ClaimAllocation, config: &[Value]) -> Value {
    let result = |given: &phalanx_cluster::event::GivenDevice| {
        let device = &given.device;
        json!({"request": given.request, "driver": device.driver, "pool": device.pool, "device": device.device})
    };
    let results: Vec<Value> = own.devices.iter().map(result).collect();
    let mut body = json!({"devices": {"results": results}});
    if !config.is_empty() {
        body["devices"]["config"] = json!(config);
    }
    if let Some(terms) = &own.nodes {
        body["nodeSelector"] = json!({"nodeSelectorTerms": terms.iter().map(term).collect::<Vec<_>>()});
    }
    body
}

fn term(term: &NodeTerm) -> Value {
    let list = |list: &[Requirement]| list.iter().map(requirement).collect::<Vec<_>>();
    let mut value = json!({});
    for (key, requirements) in [("matchExpressions", &term.labels), ("matchFields", &term.fields)] {
        if !requirements.is_empty() {
            value[key] = json!(list(requirements));
        }
    }
    value
}

fn requirement(one: &Requirement) -> Value {
    let operator = match one.operator {
        Operator::In => "In",
        Operator::NotIn => "NotIn",
        Operator::Exists => "Exists",
        Operator::DoesNotExist => "DoesNotExist",
        Operator::Gt => "Gt",
        Operator::Lt => "Lt",
    };
    let mut value = json!({"key": one.key, "operator": operator});
    if !one.values.is_empty() {
        value["values"] = json!(one.values);
    }
    value
}

async fn get(wire: &Wire, path: &str) -> Result<Value, Reply> {
    let request = Request::get(path).body(Bytes::new()).map_err(|error| Reply::Refused(error.to_string()))?;
    let (status, headers, body) = fetch(wire, request).await?;
    match read(status, &headers, &body) {
        Ok(()) => parse(&body),
        Err(Problem::Other(reply)) => Err(reply),
        Err(Problem::NotFound(message) | Problem::Conflict(message)) => Err(Reply::Refused(message)),
    }
}

/// The present object; `None` when another client wrote it in between.
async fn put(wire: &Wire, path: &str, object: &Value) -> Result<Option<Value>, Reply> {
    let request = Request::builder()
        .method(Method::PUT)
        .uri(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(object.to_string().into())
        .map_err(|error| Reply::Refused(error.to_string()))?;
    let (status, headers, body) = fetch(wire, request).await?;
    match read(status, &headers, &body) {
        Ok(()) => parse(&body).map(Some),
        Err(Problem::Conflict(_)) => Ok(None),
        Err(Problem::Other(reply)) => Err(reply),
        Err(Problem::NotFound(message)) => Err(Reply::Refused(message)),
    }
}

fn parse(body: &[u8]) -> Result<Value, Reply> {
    serde_json::from_slice(body).map_err(|error| Reply::Passing {
        message: format!("cannot read an object: {error}"),
        trouble: Trouble::Unknown,
        after: None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use phalanx_cluster::event::{DeviceName, GivenDevice, Key, PodRef};

    use super::*;

    fn given(device: &str) -> GivenDevice {
        let device = DeviceName { driver: "gpu.x".into(), pool: "n1".into(), device: device.into() };
        GivenDevice { request: "r".into(), device }
    }

    fn write(devices: Option<&[&str]>) -> ClaimWrite {
        let allocation = devices.map(|devices| ClaimAllocation {
            devices: devices.iter().map(|device| given(device)).collect(),
            nodes: None,
        });
        ClaimWrite {
            key: Key::new("ns", "c"),
            uid: "u".into(),
            allocation: allocation.map(Arc::new),
            pod: Arc::new(PodRef { namespace: "ns".into(), name: "p".into(), uid: "p1".into() }),
        }
    }

    /// A claim with these devices, reserved for the pods of these UIDs.
    fn stored(devices: Option<&[&str]>, pods: &[&str]) -> Value {
        let results = |devices: &[&str]| -> Vec<Value> {
            let one =
                |device: &&str| json!({"request": "r", "driver": "gpu.x", "pool": "n1", "device": device});
            devices.iter().map(one).collect()
        };
        let allocation = devices.map(|devices| json!({"devices": {"results": results(devices)}}));
        let reserved: Vec<Value> = pods.iter().map(|uid| json!({"resource": "pods", "uid": uid})).collect();
        json!({"metadata": {"uid": "u"}, "status": {"allocation": allocation, "reservedFor": reserved}})
    }

    #[test]
    fn a_claim_is_written_unless_it_has_other_devices() {
        let own: Option<&[&str]> = Some(&["a", "b"]);
        for (claim, asked, expected) in [
            (stored(None, &[]), own, Ok(true)),
            (stored(None, &["p1"]), own, Ok(true)),
            // An earlier attempt wrote it, and its answer was lost.
            (stored(Some(&["b", "a"]), &["p1"]), own, Ok(false)),
            (stored(Some(&["b", "a"]), &[]), own, Ok(true)),
            (stored(Some(&["a"]), &[]), own, Err("it was given other devices")),
            (stored(Some(&["a", "c"]), &["p1"]), own, Err("it was given other devices")),
            // A claim that is shared has its devices already.
            (stored(Some(&["z"]), &["p0"]), None, Ok(true)),
            (stored(Some(&["z"]), &["p0", "p1"]), None, Ok(false)),
            (stored(None, &[]), None, Err("it has lost its devices")),
            (json!({"metadata": {"uid": "another"}}), own, Err("it is another one now")),
        ] {
            let mut changed = claim.clone();
            assert_eq!(change(&mut changed, &write(asked)), expected, "{claim}");
            if expected.is_ok() {
                let reserved = changed["status"]["reservedFor"].as_array().unwrap();
                assert_eq!(reserved.iter().filter(|one| one["uid"] == "p1").count(), 1, "{changed}");
            }
        }
    }

    #[test]
    fn a_reservation_for_a_pod_is_added_beside_other_pods() {
        let mut claim = stored(Some(&["z"]), &["p0"]);
        change(&mut claim, &write(None)).unwrap();
        let expected =
            json!([{"resource": "pods", "uid": "p0"}, {"resource": "pods", "name": "p", "uid": "p1"}]);
        assert_eq!(claim["status"]["reservedFor"], expected);
    }

    #[test]
    fn requests_are_grouped_by_class_in_the_order_of_the_claim() {
        let of = |name: &str, class: &str| json!({"name": name, "exactly": {"deviceClassName": class}});
        let devices = json!({"requests": [of("a", "gpu"), of("b", "nic"), of("c", "gpu")]});
        let expected =
            vec![("gpu".to_owned(), vec![json!("a"), json!("c")]), ("nic".to_owned(), vec![json!("b")])];
        assert_eq!(requests_by_class(&devices), expected);
        assert_eq!(requests_by_class(&Value::Null), []);
    }

    #[test]
    fn configurations_of_an_allocation_name_their_source() {
        let list = json!([{"opaque": {"driver": "x"}}]);
        let of_class = configs(&list, "FromClass", Some(&[json!("a")]));
        assert_eq!(of_class, [json!({"opaque": {"driver": "x"}, "source": "FromClass", "requests": ["a"]})]);
        let own = json!([{"opaque": {}, "requests": ["b"]}]);
        let of_claim = configs(&own, "FromClaim", None);
        assert_eq!(of_claim, [json!({"opaque": {}, "source": "FromClaim", "requests": ["b"]})]);
        assert!(configs(&Value::Null, "FromClaim", None).is_empty());
    }

    #[test]
    fn an_allocation_names_devices_and_nodes() {
        let requirement = |key: &str, operator, values: &[&str]| Requirement {
            key: key.into(),
            operator,
            values: values.iter().map(|value| Arc::from(*value)).collect(),
        };
        let term = NodeTerm {
            labels: vec![
                requirement("rack", Operator::Exists, &[]),
                requirement("zone", Operator::In, &["a"]),
            ],
            fields: vec![requirement("metadata.name", Operator::In, &["n1"])],
        };
        let own = ClaimAllocation { devices: vec![given("a")], nodes: Some(vec![term]) };
        let results = json!([{"request": "r", "driver": "gpu.x", "pool": "n1", "device": "a"}]);
        let terms = json!([{
            "matchExpressions": [{"key": "rack", "operator": "Exists"}, {"key": "zone", "operator": "In", "values": ["a"]}],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
        }]);
        let expected = json!({"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": terms}});
        assert_eq!(body(&own, &[]), expected);
        let anywhere = ClaimAllocation { nodes: None, ..own };
        let config = json!({"source": "FromClass"});
        let expected = json!({"devices": {"results": results, "config": [config]}});
        assert_eq!(body(&anywhere, &[config]), expected);
    }
}
