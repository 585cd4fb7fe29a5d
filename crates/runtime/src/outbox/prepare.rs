//! What is written before a pod is bound. Each step may be done again: it changes nothing then.
use http::{Method, Request};
use hyper::body::Bytes;
use phalanx_core::decision::{Binding, ClaimWrite, Prepare};
use phalanx_core::event::{ClaimAllocation, NodeTerm, Operator, Requirement};
use serde_json::{Value, json};

use super::driver::fetch;
use super::reply::{Problem, Reply, read};
use crate::wire::Wire;

/// Keeps a claim that was given devices until they were taken back. Source: kube-scheduler.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// Others write claims too, and the pods of a shared claim all at once.
const ATTEMPTS: u32 = 8;
const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";

/// Does all that comes before a bind.
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

/// Gives a claim its devices, if it has none, and reserves it for the pod. Read, changed and written with the version that
/// was read, until nobody else wrote in between.
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
    Err(Reply::Passing { message, after: None })
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

/// The claim with the finalizer; `None` when somebody else wrote it in between.
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
    let result = |given: &phalanx_core::event::GivenDevice| {
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

/// The object as it is now; `None` when somebody else wrote it in between.
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
    serde_json::from_slice(body)
        .map_err(|error| Reply::Passing { message: format!("cannot read an object: {error}"), after: None })
}
