//! Workloads, and the pods that their controllers create from templates.
//!
//! A Deployment, ReplicaSet or StatefulSet gives `spec.replicas` pods (1 when missing), a batch Job as many as may run
//! at once (`parallelism`, at most `completions`; none while it is suspended), and the rest of `completions` as pods
//! succeed. They are named `OWNER-0`, `OWNER-1`, ... in the order of creation, where a real controller would draw a
//! suffix at random. Those that are evicted are made again (`replacement`), those that end are not.
use phalanx_api::names;
use phalanx_cache::Invalid;
use serde_json::{Map, Value, json};

/// The kinds with a pod template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Deployment, ReplicaSet or StatefulSet.
    Replicated,
    /// Job of the group batch.
    Job,
}

/// The pods of a workload and the problems of its own fields; with such a problem one pod, so that
/// its problems are reported too.
pub(crate) fn pods(workload: Workload, owner: &Value) -> (Vec<Value>, Vec<Invalid>) {
    let mut wrong = Vec::new();
    let Some(template) = owner.pointer("/spec/template").filter(|template| template.is_object()) else {
        let problem = "missing; expected a pod template with metadata and spec";
        return (Vec::new(), vec![fault("spec.template", problem)]);
    };
    if workload == Workload::Replicated {
        wrong.extend(selects(owner, template));
    }
    let count = at_first(workload, owner, &mut wrong);
    let count = if wrong.is_empty() { count } else { 1 };
    ((0..count).map(|index| pod(owner, template, index)).collect(), wrong)
}

/// Whether it has pods at first.
pub(crate) fn has_pods(workload: Workload, owner: &Value) -> bool {
    at_first(workload, owner, &mut Vec::new()) > 0
}

fn at_first(workload: Workload, owner: &Value, wrong: &mut Vec<Invalid>) -> u64 {
    match workload {
        Workload::Replicated => count(owner, "replicas", wrong).unwrap_or(1),
        Workload::Job => job_count(owner, wrong),
    }
}

fn fault(field: &str, problem: impl Into<String>) -> Invalid {
    Invalid { field: field.to_owned(), problem: problem.into() }
}

/// Fields of a workload that have no effect in a simulation.
pub(crate) fn odd(workload: Workload, kind: &str, owner: &Value) -> Vec<Invalid> {
    let mut found = marks(kind, owner);
    if workload == Workload::Job {
        found.extend(of_job(owner));
    }
    if owner["spec"]["volumeClaimTemplates"].as_array().is_some_and(|templates| !templates.is_empty()) {
        let problem = "no claims are made of it, so pods are placed without regard to them, expected the pods and claims \
                       themselves: kubectl get pods,pvc -A -o yaml";
        found.push(fault("spec.volumeClaimTemplates", problem));
    }
    found
}

/// Annotations and labels of a workload that count on pods only; except the minimum of members, and what the PodGroup
/// that is made for it inherits.
fn marks(kind: &str, owner: &Value) -> Vec<Invalid> {
    let (own, template) = (&owner["metadata"], &owner["spec"]["template"]["metadata"]);
    let known = |key: &str| names::ALL.contains(&key) && key != names::GROUP_MIN_MEMBER_ANNOTATION;
    let grouped = !own["annotations"][names::GROUP_MIN_MEMBER_ANNOTATION].is_null();
    let inherited =
        |key: &str| key.starts_with(names::INHERITED_PREFIX) || key == names::QUEUE_NAME_ANNOTATION;
    let of = |field: &'static str| {
        let found = own[field].as_object().into_iter().flatten();
        let there = |key: &str| ["annotations", "labels"].iter().any(|of| !template[*of][key].is_null());
        let passed = move |key: &str| grouped && field == "annotations" && inherited(key);
        let alone = found.filter(move |(key, _)| known(key) && !there(key) && !passed(key));
        alone.map(move |(key, value)| {
            let problem =
                format!("found {value}, which is not read on a {kind}, expected it in spec.template.metadata.annotations");
            fault(&format!("metadata.{field}.{key}"), problem)
        })
    };
    of("annotations").chain(of("labels")).collect()
}

/// The API server refuses a selector that does not match the template. A missing one is not checked here.
fn selects(owner: &Value, template: &Value) -> Vec<Invalid> {
    let labels = owner.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let found = |key: &String| template.pointer("/metadata/labels").and_then(|labels| labels.get(key));
    let others = labels.into_iter().flatten().filter(|(key, value)| found(key) != Some(value));
    let problem = |(key, value): (&String, &Value)| {
        let found = found(key).map_or_else(|| "no such label".to_owned(), ToString::to_string);
        let problem = format!("found {found} for {key:?} in the labels of the template, expected {value}");
        fault("spec.selector.matchLabels", problem)
    };
    others.map(problem).collect()
}

fn job_count(job: &Value, wrong: &mut Vec<Invalid>) -> u64 {
    let parallelism = count(job, "parallelism", wrong).unwrap_or(1);
    let completions = count(job, "completions", wrong).unwrap_or(parallelism);
    if suspended(job) { 0 } else { parallelism.min(completions) }
}

fn suspended(job: &Value) -> bool {
    job.pointer("/spec/suspend") == Some(&Value::Bool(true))
}

/// The number of pods that are created later, as others succeed.
pub(crate) fn later(workload: Workload, owner: &Value) -> u64 {
    let at_once = job_count(owner, &mut Vec::new());
    let completions = count(owner, "completions", &mut Vec::new()).unwrap_or(at_once);
    if workload == Workload::Job && at_once > 0 { completions.saturating_sub(at_once) } else { 0 }
}

/// Pods of a Job that are never created.
fn of_job(job: &Value) -> Option<Invalid> {
    if suspended(job) {
        let problem =
            "found true, so the Job has no pods, expected false for those it has once it is resumed";
        return Some(fault("spec.suspend", problem));
    }
    let later = later(Workload::Job, job);
    let template = &job["spec"]["template"];
    let own_claims = |volume: &Value| !volume["ephemeral"].is_null();
    let listed = |field: &str| template["spec"][field].as_array().into_iter().flatten();
    let why = if listed("resourceClaims").next().is_some() || listed("volumes").any(own_claims) {
        "pods with claims of their own are made once"
    } else if template["metadata"]["annotations"][names::RUN_SECONDS].is_null() {
        "its pods run for ever, expected how long in spec.template.metadata.annotations: phalanx.sh/run-seconds"
    } else {
        return None;
    };
    let completions = &job["spec"]["completions"];
    let problem = format!("found {completions}, of which the last {later} are not made: {why}");
    (later > 0).then(|| fault("spec.completions", problem))
}

/// The limit of pods of one workload: more are a typing error.
const COUNT_MAX: u64 = 1_000_000;

fn count(owner: &Value, field: &str, wrong: &mut Vec<Invalid>) -> Option<u64> {
    let value = owner["spec"].get(field).filter(|value| !value.is_null())?;
    let count = value.as_u64().filter(|count| *count <= COUNT_MAX);
    if count.is_none() {
        let problem = format!("found {value}, expected an integer from 0 to {COUNT_MAX}");
        wrong.push(fault(&format!("spec.{field}"), problem));
    }
    count
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

    fn names(workload: Workload, spec: &Value) -> Result<Vec<String>, Vec<Invalid>> {
        let mut owner = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec});
        owner["spec"]["template"] =
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"schedulerName": "volcano"}});
        let (pods, wrong) = pods(workload, &owner);
        if !wrong.is_empty() {
            assert!(pods.len() == 1, "one is looked at");
            return Err(wrong);
        }
        for pod in &pods {
            assert_eq!(pod["metadata"]["namespace"], "shop");
            assert_eq!(pod["metadata"]["labels"]["app"], "web");
            assert_eq!(pod["spec"]["schedulerName"], "volcano");
        }
        Ok(pods.iter().filter_map(|pod| Some(pod["metadata"]["name"].as_str()?.to_owned())).collect())
    }

    #[test]
    fn a_workload_has_as_many_pods_as_run_at_once() {
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
    fn annotations_of_a_workload_that_count_on_its_pods_only_are_reported() {
        let queue = names::QUEUE_NAME_ANNOTATION;
        let metadata = json!({"annotations": {queue: "q", "note": "mine", names::PREEMPTABLE: "true"}, "labels": {queue: "q"}});
        let template = json!({"metadata": {"annotations": {names::PREEMPTABLE: "true"}}});
        let owner = json!({"metadata": metadata, "spec": {"template": template}});
        let told: Vec<String> = odd(Workload::Job, "Job", &owner).iter().map(ToString::to_string).collect();
        let expected = |field| {
            format!(
                "metadata.{field}.{queue}: found \"q\", which is not read on a Job, expected it in spec.template.metadata.annotations"
            )
        };
        assert_eq!(told, ["annotations", "labels"].map(expected));
        let templates = |list: Value| {
            odd(Workload::Replicated, "StatefulSet", &json!({"spec": {"volumeClaimTemplates": list}}))
        };
        assert_eq!(templates(json!([])), []);
        assert!(
            templates(json!([{}]))[0]
                .to_string()
                .starts_with("spec.volumeClaimTemplates: no claims are made")
        );
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
            let expected = expected.map(|problem| vec![fault("spec.selector.matchLabels", problem)]);
            assert_eq!(found.err(), expected, "{labels}");
            assert!(names(Workload::Job, &json!({"selector": {"matchLabels": labels}})).is_ok());
        }
    }

    #[test]
    fn an_invalid_count_or_a_missing_template_is_a_problem() {
        for count in [json!(-1), json!("3"), json!(2.5), json!(9_000_000)] {
            let wrong = names(Workload::Replicated, &json!({"replicas": count})).unwrap_err();
            assert_eq!(wrong[0].field, "spec.replicas");
            assert!(wrong[0].problem.contains("expected an integer"), "{wrong:?}");
        }
        let both = names(Workload::Job, &json!({"parallelism": -1, "completions": "x"})).unwrap_err();
        assert_eq!(both.len(), 2, "{both:?}");
        let (_, wrong) = pods(Workload::Job, &json!({"spec": {}}));
        assert_eq!(wrong[0].field, "spec.template");
    }
}
