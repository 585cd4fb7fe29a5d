//! Templates that people submit, turned into the pods their controllers would create.
//!
//! A Deployment, ReplicaSet or StatefulSet gives `spec.replicas` pods (1 when missing), a batch Job as many as may run at
//! once (`parallelism`, at most `completions`; none while it is suspended). They are named `OWNER-0`, `OWNER-1`, ... in
//! the order of creation, where a real controller would draw a suffix at random. Those that are evicted are made again (`replacement`), those that
//! end are not.
use serde_json::{Map, Value, json};

/// The kinds that hold a pod template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Deployment, ReplicaSet or StatefulSet.
    Replicated,
    /// Job of the group batch.
    Job,
}

/// A field of the owner that is wrong: its path, and what is wrong with it.
pub(crate) type FieldFault = (&'static str, String);

/// The pods of a workload, as an API server would show them.
pub(crate) fn pods(workload: Workload, owner: &Value) -> Result<Vec<Value>, FieldFault> {
    let template = owner.pointer("/spec/template").filter(|template| template.is_object());
    let template = template
        .ok_or_else(|| ("spec.template", "missing; expected a pod template with metadata and spec".into()))?;
    if workload == Workload::Replicated {
        selects(owner, template)?;
    }
    let count = match workload {
        Workload::Replicated => count(owner, "/spec/replicas", "spec.replicas")?.unwrap_or(1),
        Workload::Job => job_count(owner)?,
    };
    Ok((0..count).map(|index| pod(owner, template, index)).collect())
}

/// The API server refuses a selector that would not find the pods. One that is missing is passed over here.
fn selects(owner: &Value, template: &Value) -> Result<(), FieldFault> {
    let labels = owner.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        let found = template.pointer("/metadata/labels").and_then(|labels| labels.get(key));
        if found != Some(value) {
            let found = found.map_or_else(|| "no such label".to_owned(), ToString::to_string);
            let problem =
                format!("found {found} for {key:?} in the labels of the template, expected {value}");
            return Err(("spec.selector.matchLabels", problem));
        }
    }
    Ok(())
}

fn job_count(job: &Value) -> Result<u64, FieldFault> {
    let parallelism = count(job, "/spec/parallelism", "spec.parallelism")?.unwrap_or(1);
    let completions = count(job, "/spec/completions", "spec.completions")?.unwrap_or(parallelism);
    let suspended = job.pointer("/spec/suspend") == Some(&Value::Bool(true));
    Ok(if suspended { 0 } else { parallelism.min(completions) })
}

/// More pods than this from one object are a slip of the finger: Kubernetes itself ends well below.
const COUNT_MAX: u64 = 1_000_000;

fn count(owner: &Value, pointer: &str, field: &'static str) -> Result<Option<u64>, FieldFault> {
    match owner.pointer(pointer) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_u64()
            .filter(|count| *count <= COUNT_MAX)
            .map(Some)
            .ok_or_else(|| (field, format!("found {value}, expected an integer from 0 to {COUNT_MAX}"))),
    }
}

fn pod(owner: &Value, template: &Value, index: u64) -> Value {
    let owner_name = owner.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let mut metadata = match template.get("metadata") {
        Some(Value::Object(metadata)) => metadata.clone(),
        _ => Map::new(),
    };
    metadata.insert("name".into(), json!(format!("{owner_name}-{index}")));
    for inherited in ["namespace", "creationTimestamp"] {
        if let Some(value) = owner.pointer(&format!("/metadata/{inherited}")) {
            metadata.insert(inherited.into(), value.clone());
        }
    }
    let spec = template.get("spec").cloned().unwrap_or(Value::Null);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(workload: Workload, spec: &Value) -> Result<Vec<String>, FieldFault> {
        let mut owner = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec});
        owner["spec"]["template"] =
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"schedulerName": "volcano"}});
        let pods = pods(workload, &owner)?;
        for pod in &pods {
            assert_eq!(pod["metadata"]["namespace"], "shop");
            assert_eq!(pod["metadata"]["labels"]["app"], "web");
            assert_eq!(pod["spec"]["schedulerName"], "volcano");
        }
        Ok(pods.iter().filter_map(|pod| Some(pod["metadata"]["name"].as_str()?.to_owned())).collect())
    }

    #[test]
    fn workloads_have_the_pods_that_run_at_once() {
        for (workload, spec, expected) in [
            (Workload::Replicated, json!({}), 1),
            (Workload::Replicated, json!({"replicas": 3}), 3),
            (Workload::Replicated, json!({"replicas": 0}), 0),
            (Workload::Job, json!({}), 1),
            (Workload::Job, json!({"parallelism": 4}), 4),
            (Workload::Job, json!({"parallelism": 4, "completions": 2}), 2),
            (Workload::Job, json!({"completions": 5}), 1),
            (Workload::Job, json!({"parallelism": 4, "suspend": true}), 0),
        ] {
            let names = names(workload, &spec).unwrap();
            let expected: Vec<String> = (0..expected).map(|index| format!("web-{index}")).collect();
            assert_eq!(names, expected, "{spec}");
        }
    }

    #[test]
    fn a_selector_finds_the_labels_of_the_template() {
        for (labels, expected) in [
            (json!({}), None),
            (json!({"app": "web"}), None),
            (
                json!({"app": "db"}),
                Some("found \"web\" for \"app\" in the labels of the template, expected \"db\""),
            ),
            (
                json!({"tier": "1"}),
                Some("found no such label for \"tier\" in the labels of the template, expected \"1\""),
            ),
        ] {
            let found = names(Workload::Replicated, &json!({"selector": {"matchLabels": labels}}));
            let expected = expected.map(|problem| ("spec.selector.matchLabels", problem.to_owned()));
            assert_eq!(found.err(), expected, "{labels}");
            assert!(names(Workload::Job, &json!({"selector": {"matchLabels": labels}})).is_ok());
        }
    }

    #[test]
    fn a_wrong_count_or_a_missing_template_is_a_fault() {
        for count in [json!(-1), json!("3"), json!(2.5), json!(9_000_000)] {
            let (field, problem) = names(Workload::Replicated, &json!({"replicas": count})).unwrap_err();
            assert_eq!(field, "spec.replicas");
            assert!(problem.contains("expected an integer"), "{problem}");
        }
        let (field, _) = pods(Workload::Job, &json!({"spec": {}})).unwrap_err();
        assert_eq!(field, "spec.template");
    }
}
