//! Validation of PodGroups, Queues and HyperNodes on the API server by the CRDs in `crds/`.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use kube::{
    Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use phalanx_e2e::{Phalanx, Plane, PlaneOptions, crds, fake, wait};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::cluster::{Cluster, PodSpec, SOON, api_version, volcano};
use super::job_definitions;

/// A change of an otherwise valid object, and what the API server says about it; no words mean that it is accepted.
pub(super) struct Case {
    kind: &'static str,
    object: Value,
    refused: Option<String>,
}

impl Case {
    pub(super) fn good(kind: &'static str, object: Value) -> Self {
        Self { kind, object, refused: None }
    }

    pub(super) fn bad(kind: &'static str, object: Value, words: &str) -> Self {
        Self { kind, object, refused: Some(words.to_owned()) }
    }

    /// Sends it without storing it.
    async fn check(&self, client: &Client) -> Result<()> {
        let said = dry_run(client, self.kind, &self.object).await?;
        match (&self.refused, said) {
            (None, None) => Ok(()),
            (Some(words), Some(said)) => {
                ensure!(said.contains(words), "{}: {said:?}, expected {words:?}", self.object);
                Ok(())
            }
            (None, Some(said)) => anyhow::bail!("{} is refused: {said}", self.object),
            (Some(words), None) => anyhow::bail!("{} is accepted, expected {words:?}", self.object),
        }
    }
}

/// What the API server has against an object.
async fn dry_run(client: &Client, kind: &str, object: &Value) -> Result<Option<String>> {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    match volcano(client, kind).create(&params, &named(kind, object)?).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(Some(status.message.clone())),
        Err(error) => Err(error).context(object.to_string()),
    }
}

/// With kind and, where it has none, a name.
pub(crate) fn named(kind: &str, object: &Value) -> Result<DynamicObject> {
    let mut object = object.clone();
    object["apiVersion"] = json!(api_version(kind));
    object["kind"] = json!(kind);
    if object["metadata"]["name"].is_null() {
        object["metadata"]["name"] = json!("x");
    }
    Ok(serde_json::from_value(object)?)
}

/// The messages of all CEL rules in `crds/`.
fn rules() -> Result<BTreeSet<String>> {
    let mut messages = BTreeSet::new();
    for entry in fs::read_dir(crds::dir())? {
        let definition: Value = serde_yaml::from_str(&fs::read_to_string(entry?.path())?)?;
        collect_rules(&definition, &mut messages);
    }
    Ok(messages)
}

fn collect_rules(part: &Value, messages: &mut BTreeSet<String>) {
    match part {
        Value::Object(fields) => {
            for rule in fields.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten()
            {
                messages.extend(rule["message"].as_str().map(str::to_owned));
            }
            fields.values().for_each(|part| collect_rules(part, messages));
        }
        Value::Array(parts) => parts.iter().for_each(|part| collect_rules(part, messages)),
        _ => {}
    }
}

/// Three lists of a queue, each of which must not exceed those behind it, and the resources that are compared.
const LISTS: [&str; 3] = ["guarantee.resource", "deserved", "capability"];
const COMPARED: [&str; 13] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "pods",
    "hugepages-2Mi",
    "hugepages-1Gi",
    "nvidia.com/gpu",
    "amd.com/gpu",
    "huawei.com/Ascend910",
    "huawei.com/Ascend310P",
    "volcano.sh/vgpu-number",
    "volcano.sh/vgpu-memory",
    "volcano.sh/vgpu-cores",
];

fn queue_with(lists: &[(&str, Value)]) -> Value {
    let mut spec = json!({});
    for (list, amounts) in lists {
        let at = list.split('.').fold(&mut spec, |at, field| &mut at[field]);
        *at = amounts.clone();
    }
    json!({ "spec": spec })
}

/// Two amounts in order and in the wrong order, as text, as numbers and mixed, for all pairs of lists.
fn amounts_in_order() -> Vec<Case> {
    let mut cases = Vec::new();
    for (at, low) in LISTS.iter().enumerate() {
        for high in &LISTS[at + 1..] {
            for resource in COMPARED {
                let queue = |least: Value, most: Value| {
                    queue_with(&[(low, json!({ resource: least })), (high, json!({ resource: most }))])
                };
                let words = match *high {
                    "deserved" => format!("deserved of {resource} must be >= guarantee"),
                    _ => format!("{low} of {resource} must be <= capability"),
                };
                let bad = |least, most| Case::bad("Queue", queue(least, most), &words);
                cases.push(Case::good("Queue", queue(json!("1k"), json!("1000"))));
                cases.push(bad(json!("1k"), json!("999")));
                cases.push(bad(json!(2), json!("1")));
            }
            let one = |amount: &str| json!({ "cpu": amount });
            cases.push(Case::good("Queue", queue_with(&[(low, one("9")), (high, json!({ "memory": "1" }))])));
            cases.push(Case::good("Queue", queue_with(&[(low, one("0.5")), (high, one("500m"))])));
        }
    }
    cases
}

/// What is counted, in each list.
fn whole_numbers() -> Vec<Case> {
    let mut cases = Vec::new();
    for list in LISTS {
        let queue = |resource: &str, amount: &str| queue_with(&[(list, json!({ resource: amount }))]);
        for resource in ["pods", "nvidia.com/gpu", "volcano.sh/vgpu-cores"] {
            let words = "pods and devices are counted in whole numbers";
            cases.push(Case::bad("Queue", queue(resource, "1.5"), words));
            cases.push(Case::bad("Queue", queue(resource, "500m"), words));
            cases.push(Case::good("Queue", queue(resource, "2000m")));
        }
        cases.push(Case::good("Queue", queue("cpu", "1.5")));
    }
    cases
}

fn parents() -> Vec<Case> {
    let queue = |name: &str, parent: &str| json!({"metadata": {"name": name}, "spec": {"parent": parent}});
    vec![
        Case::bad("Queue", queue("team", "team"), "a queue cannot be its own parent"),
        Case::good("Queue", queue("team", "company")),
        Case::good("Queue", queue("team", "")),
        // Volcano lets this pass.
        Case::good("Queue", queue("root", "root")),
    ]
}

fn highest_tiers() -> Vec<Case> {
    let whole = |topology: &Value| json!({"spec": {"networkTopology": topology}});
    let part = |topology: &Value| json!({"spec": {"subGroupPolicy": [{"networkTopology": topology}]}});
    let words = "highestTierAllowed and highestTierName exclude each other";
    let both = json!({"mode": "soft", "highestTierAllowed": 1, "highestTierName": "rack"});
    let mut cases: Vec<_> =
        [whole(&both), part(&both)].map(|group| Case::bad("PodGroup", group, words)).into();
    for one in [
        json!({"highestTierAllowed": 1}),
        json!({"highestTierName": "rack"}),
        json!({"highestTierAllowed": 1, "highestTierName": ""}),
    ] {
        cases.extend([whole(&one), part(&one)].map(|group| Case::good("PodGroup", group)));
    }
    cases
}

/// What types, ranges, patterns and enumerations keep out.
fn schema() -> Vec<Case> {
    let group = |spec: Value| json!({ "spec": spec });
    let phase = |phase: &str| json!({"spec": {"minMember": 1}, "status": {"phase": phase}});
    let mut cases: Vec<_> = [
        (group(json!({"minMember": -1})), "spec.minMember in body should be greater than or equal to 0"),
        (group(json!({"minMember": "three"})), "spec.minMember: Invalid value: \"string\""),
        (group(json!({"minTaskMember": {"worker": "two"}})), "spec.minTaskMember.worker"),
        (group(json!({"queue": "Team_A"})), "spec.queue in body should match"),
        (group(json!({"minResources": {"cpu": "lots"}})), "spec.minResources.cpu"),
        (group(json!({"networkTopology": {"mode": "firm"}})), "supported values: \"hard\", \"soft\""),
        (group(json!({"subGroupPolicy": [{"subGroupSize": 0}]})), "should be greater than or equal to 1"),
        (phase("Lost"), "Unsupported value: \"Lost\""),
    ]
    .map(|(object, words)| Case::bad("PodGroup", object, words))
    .into();
    let good = [json!({}), group(json!({})), group(json!({"queue": ""})), phase("Inqueue"), phase("")];
    cases.extend(good.map(|object| Case::good("PodGroup", object)));
    cases.extend(
        [
            (json!({"weight": 0}), "spec.weight in body should be greater than or equal to 1"),
            (json!({"weight": 65536}), "spec.weight in body should be less than or equal to 65535"),
            (json!({"priority": -1}), "spec.priority in body should be greater than or equal to 0"),
            (json!({"dequeueStrategy": "lifo"}), "supported values: \"fifo\", \"traverse\""),
            (json!({"reclaimable": "yes"}), "spec.reclaimable"),
            (json!({"capability": {"cpu": "-1"}}), "spec.capability.cpu"),
            (json!({"deserved": {"cpu": -1}}), "should be greater than or equal to 0"),
            (json!({"guarantee": {"resource": {"cpu": "1 core"}}}), "spec.guarantee.resource.cpu"),
        ]
        .map(|(spec, words)| Case::bad("Queue", group(spec), words)),
    );
    let good = [
        json!({"weight": 1, "reclaimable": true, "priority": 9, "dequeueStrategy": "fifo"}),
        json!({"capability": {"cpu": "1e3", "memory": "1.5Gi", "example.com/any": 3}}),
    ];
    cases.extend(good.map(|spec| Case::good("Queue", group(spec))));
    cases
}

fn hyper_nodes() -> Vec<Case> {
    let of = |tier: Value, members: Value| json!({"spec": {"tier": tier, "members": members}});
    let one = |selector: Value| of(json!(1), json!([{"type": "Node", "selector": selector}]));
    let node = json!({"exactMatch": {"name": "n"}});
    let mut cases: Vec<Case> = [
        (json!({"spec": {"tier": 1}}), "spec.members: Required value"),
        (json!({"spec": {"members": [{"type": "Node", "selector": node}]}}), "spec.tier: Required value"),
        (of(json!(1), json!([])), "spec.members in body should have at least 1 items"),
        (of(json!(-1), json!([])), "spec.tier in body should be greater than or equal to 0"),
        (of(json!(1), json!([{"type": "Node"}])), "spec.members[0].selector: Required value"),
        (of(json!(1), json!([{"selector": node}])), "spec.members[0].type: Required value"),
        (
            of(json!(1), json!([{"type": "Pod", "selector": node}])),
            "supported values: \"Node\", \"HyperNode\"",
        ),
        (one(json!({})), "Either ExactMatch or RegexMatch or LabelMatch must be specified"),
        (
            one(json!({"exactMatch": {"name": "n"}, "labelMatch": {}})),
            "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified",
        ),
        (one(json!({"exactMatch": {"name": "N"}})), "selector.exactMatch.name in body should match"),
        (one(json!({"regexMatch": {"pattern": ""}})), "should be at least 1 chars long"),
        (
            one(json!({"regexMatch": {"pattern": "a(b"}})),
            "evaluating rule: member regexMatch pattern is invalid, expected a regular expression (RE2)",
        ),
        (one(json!({"regexMatch": {"pattern": "n".repeat(513)}})), "may not be more than 512"),
    ]
    .map(|(object, words)| Case::bad("HyperNode", object, words))
    .into();
    let good = [
        node,
        json!({"regexMatch": {"pattern": "^n[0-9]+$"}}),
        json!({"labelMatch": {"matchLabels": {"a": "b"}}}),
    ];
    cases.extend(good.map(|selector| Case::good("HyperNode", one(selector))));
    cases
}

#[tokio::test]
async fn the_api_server_refuses_contradictory_objects_with_a_reason() -> Result<()> {
    let plane = Plane::start(PlaneOptions::default()).await?;
    let client = plane.client();
    crds::apply(&client, &crds::dir()).await?;
    let jobs = job_definitions::cases();
    let lists =
        [amounts_in_order(), whole_numbers(), parents(), highest_tiers(), schema(), hyper_nodes(), jobs];
    let cases: Vec<Case> = lists.into_iter().flatten().collect();
    for case in &cases {
        case.check(&client).await?;
    }
    let untried = rules()?
        .into_iter()
        .filter(|message| {
            !cases.iter().any(|case| case.refused.as_ref().is_some_and(|it| it.ends_with(message)))
        })
        .filter(|message| !job_definitions::UPDATES.iter().any(|(_, words)| words == message));
    let untried: Vec<String> = untried.collect();
    ensure!(untried.is_empty(), "rules that no case breaks: {untried:?}");
    job_definitions::updates(&client).await?;
    states_of_queues(&client).await
}

/// They are written through the status subresource.
async fn states_of_queues(client: &Client) -> Result<()> {
    let queues = volcano(client, "Queue");
    queues.create(&PostParams::default(), &named("Queue", &json!({"spec": {"weight": 1}}))?).await?;
    let set = async |state: &str| {
        let status = Patch::Merge(json!({"status": {"state": state}}));
        queues.patch_status("x", &PatchParams::default(), &status).await
    };
    for state in ["Open", "Closing", "Closed", "Unknown", ""] {
        let stored = set(state).await.with_context(|| format!("state {state:?}"))?;
        assert_eq!(stored.data["status"]["state"], state);
    }
    let error = set("Ajar").await.err().context("it was accepted")?.to_string();
    ensure!(error.contains("Unsupported value: \"Ajar\""), "{error}");
    Ok(())
}

/// What `kubectl get queues` prints: the API server makes the table.
#[tokio::test]
async fn kubectl_lists_queues_with_parent_state_weight_priority_and_age() -> Result<()> {
    let plane = Plane::start(PlaneOptions::default()).await?;
    let client = plane.client();
    crds::apply(&client, &crds::dir()).await?;
    let queue =
        json!({"metadata": {"name": "team"}, "spec": {"parent": "company", "weight": 3, "priority": 7}});
    volcano(&client, "Queue").create(&PostParams::default(), &named("Queue", &queue)?).await?;
    let open = Patch::Merge(json!({"status": {"state": "Open"}}));
    volcano(&client, "Queue").patch_status("team", &PatchParams::default(), &open).await?;

    let request = http::Request::get("/apis/scheduling.volcano.sh/v1beta1/queues")
        .header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1");
    let table: Value = client.request(request.body(Vec::new())?).await?;
    let columns = table["columnDefinitions"].as_array().context("columns")?;
    let names: Vec<_> = columns.iter().filter_map(|column| column["name"].as_str()).collect();
    assert_eq!(names, ["Name", "PARENT", "STATE", "WEIGHT", "PRIORITY", "AGE"]);
    let cells = table["rows"][0]["cells"].as_array().context("cells")?;
    assert_eq!(cells[..5], [json!("team"), json!("company"), json!("Open"), json!(3), json!(7)]);
    ensure!(cells[5].as_str().is_some_and(|age| age.ends_with('s')), "{cells:?}");
    Ok(())
}

/// Our definitions with the types only, as Volcano's were up to version 1.13: no ranges, patterns, enumerations of
/// statuses, or rules.
pub(crate) fn types_only(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(crds::dir())? {
        let path = entry?.path();
        let mut definition: Value = serde_yaml::from_str(&fs::read_to_string(&path)?)?;
        loosen(&mut definition["spec"]["versions"]);
        fs::write(folder.join(path.file_name().unwrap_or_default()), serde_yaml::to_string(&definition)?)?;
    }
    Ok(())
}

fn loosen(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let bounds = ["enum", "pattern", "minimum", "maximum", "maxLength", "x-kubernetes-validations"];
            // Not the fields of an object that have such a name.
            fields.retain(|name, bound| !bounds.contains(&name.as_str()) || bound.get("type").is_some());
            fields.values_mut().for_each(loosen);
        }
        Value::Array(parts) => parts.iter_mut().for_each(loosen),
        _ => {}
    }
}

/// What only such definitions let in, beside what all do.
const STORED: &str = r#"
{kind: Queue, metadata: {name: plain}, spec: {parent: "", weight: 2}}
---
{kind: Queue, metadata: {name: tangled}, spec: {guarantee: {resource: {cpu: "4"}}, capability: {cpu: "2"}}}
---
{kind: Queue, metadata: {name: ring}, spec: {parent: ring}}
---
{kind: PodGroup, metadata: {name: empty}, spec: {minMember: 2, queue: ""}, status: {phase: ""}}
---
{kind: PodGroup, metadata: {name: good}, spec: {minMember: 1, queue: plain}}
---
{kind: PodGroup, metadata: {name: negative}, spec: {minMember: -2}}
---
{kind: PodGroup, metadata: {name: lost}, spec: {minMember: 1}, status: {phase: Lost}}
---
{kind: PodGroup, metadata: {name: blocked}, spec: {minMember: 1, queue: tangled}}
"#;

#[tokio::test]
async fn objects_of_older_crds_are_kept_and_read() -> Result<()> {
    let nodes = fake::Nodes::new(1).cpu("8");
    let mut cluster = Cluster::bare(PlaneOptions::default(), nodes).await?;
    let folder = tempfile::tempdir()?;
    types_only(folder.path())?;
    crds::apply(&cluster.client, folder.path()).await?;
    let stored = serde_yaml::Deserializer::from_str(STORED).map(Value::deserialize);
    let stored = stored.collect::<Result<Vec<_>, _>>()?;
    for object in &stored {
        let api = volcano(&cluster.client, kind(object)?);
        let posted = api.create(&PostParams::default(), &named(kind(object)?, object)?).await;
        posted.with_context(|| object.to_string())?;
    }
    let state = Patch::Merge(json!({"status": {"state": ""}}));
    cluster.volcano("Queue").patch_status("plain", &PatchParams::default(), &state).await?;

    replace_definitions(&cluster.client).await?;
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[]).await?);
    for (group, count) in [("empty", 2), ("good", 1), ("negative", 1), ("lost", 1), ("blocked", 1)] {
        cluster.members(group, count, &PodSpec::cpu(1)).await?;
    }
    for (group, count) in [("empty", 2), ("good", 1), ("lost", 1)] {
        cluster.until_bound(&format!("{group}-"), count).await?;
        cluster.until_phase(group, "Running").await?;
    }
    cluster.until_waits("negative-0", "spec.minMember: -2").await?;
    cluster.until_waits("blocked-0", "guarantee of cpu is 4, more than capability 2").await?;
    cluster
        .until_event_with("QueueInvalid", "tangled", "guarantee of cpu is 4, more than capability 2")
        .await?;
    cluster.until_event_with("QueueInvalid", "ring", "it is its own parent").await?;
    for object in &stored {
        still_there(&cluster, object).await?;
    }
    Ok(())
}

fn kind(object: &Value) -> Result<&str> {
    object["kind"].as_str().context("a kind")
}

/// Returns when new objects are checked by them.
async fn replace_definitions(client: &Client) -> Result<()> {
    crds::apply(client, &crds::dir()).await?;
    let queue = json!({"spec": {"parent": "x"}});
    let group = json!({"spec": {"minMember": -1}});
    wait::until(SOON, "the new definitions to be in effect", async || {
        for (kind, bad) in [("Queue", &queue), ("PodGroup", &group)] {
            ensure!(dry_run(client, kind, bad).await?.is_some(), "{kind} {bad} is accepted");
        }
        Ok(())
    })
    .await
}

/// The object is unchanged, and its old invalid values do not prevent other changes.
async fn still_there(cluster: &Cluster, object: &Value) -> Result<()> {
    let kind = kind(object)?;
    let name = object["metadata"]["name"].as_str().context("a name")?;
    let label = Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
    let api = cluster.volcano(kind);
    let now = api.patch(name, &PatchParams::default(), &label).await.with_context(|| name.to_owned())?;
    for (field, value) in object["spec"].as_object().into_iter().flatten() {
        assert_eq!(&now.data["spec"][field], value, "{kind} {name}: {field}");
    }
    Ok(())
}
