//! The scenarios in `scenarios/TOPIC/CASE/`: a cluster and its expected outcome.
//!
//! | file | what it holds |
//! |---|---|
//! | `cluster.yaml` | the manifests |
//! | `scheduler.conf` | the configuration; without it, the built-in one |
//! | `args` | more flags of `simulate` |
//! | `expect.yaml` | a sentence on what holds, and the expected outcome ([`Expected`]) |
//!
//! The binary runs each scenario twice: equal inputs have to give equal outputs.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use serde::Deserialize;
use serde_json::Value;

use crate::run::{Ran, phalanx_in};

/// The expected outcome. What is left out must not happen (binds, evictions, nominations, notes on stderr) or does not
/// matter (the rest). Names without a namespace are in `default`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Expected {
    /// Pods that are bound, with their nodes; of several nodes any will do.
    bindings: BTreeMap<String, OneOf>,
    /// How many pods `NAME-0`, `NAME-1`, ... are bound, in all or by node, where it does not matter which.
    bound: BTreeMap<String, Count>,
    /// HyperNodes, with the names of their nodes; only for `together`.
    #[serde(rename = "hyperNodes")]
    hyper_nodes: BTreeMap<String, BTreeSet<String>>,
    /// Pods of each of which all nodes are in one of `hyperNodes`.
    together: Vec<BTreeSet<String>>,
    /// Pods that are evicted.
    evictions: BTreeSet<String>,
    /// Texts in the causes of evictions, by pod: "ACTION: REASON".
    causes: BTreeMap<String, String>,
    /// How many pods `NAME-0`, `NAME-1`, ... are evicted.
    evicted: BTreeMap<String, usize>,
    /// Pods that have a node and wait for room on it; of several nodes any will do.
    nominations: BTreeMap<String, OneOf>,
    /// How many pods `NAME-0`, `NAME-1`, ... have.
    nominated: BTreeMap<String, Count>,
    /// Phases of PodGroups.
    phases: BTreeMap<String, String>,
    /// Texts in the reasons of a PodGroup, or of a pod without one. An empty list: there is no reason.
    reasons: BTreeMap<String, Vec<String>>,
    /// What the nearest node lacks for a PodGroup, or a pod without one: "NODE: RESOURCE AMOUNT, ...", and behind that
    /// " (no node that it may use is large enough)" where none could hold it.
    lacks: BTreeMap<String, String>,
    /// Texts in the problems of PodGroups.
    problems: BTreeMap<String, String>,
    /// Figures and problems of queues.
    queues: BTreeMap<String, Queue>,
    /// Jobs of Volcano.
    jobs: BTreeMap<String, Job>,
    /// CronJobs of Volcano: fields of the report.
    #[serde(rename = "cronJobs")]
    cron_jobs: BTreeMap<String, BTreeMap<String, Value>>,
    /// JobFlows of Volcano: fields of the report.
    #[serde(rename = "jobFlows")]
    job_flows: BTreeMap<String, BTreeMap<String, Value>>,
    /// Figures of the run.
    stats: BTreeMap<String, f64>,
    /// Texts in the notes on stderr.
    notes: Vec<String>,
    /// What `explain` says of what waits.
    explain: Option<Explain>,
}

/// What `explain` says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Explain {
    /// The kind and the name of what waits.
    pub(crate) of: String,
    /// Texts in what it says of the cause.
    pub(crate) says: Vec<String>,
    /// The changes that it names, as they are.
    pub(crate) remedies: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOf {
    One(String),
    Of(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Count {
    InAll(usize),
    ByNode(BTreeMap<String, usize>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Queue {
    allocated: BTreeMap<String, String>,
    deserved: BTreeMap<String, String>,
    problem: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Job {
    phase: String,
    retries: u64,
}

impl OneOf {
    fn admits(&self, node: &str) -> bool {
        match self {
            OneOf::One(one) => one == node,
            OneOf::Of(several) => several.iter().any(|one| one == node),
        }
    }
}

/// `default/NAME` for `NAME`.
fn full(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("default/{name}") }
}

/// Whether a pod is one of `NAME-0`, `NAME-1`, ...
fn is_of(pod: &str, owner: &str) -> bool {
    pod.strip_prefix(&full(owner))
        .and_then(|rest| rest.strip_prefix('-'))
        .is_some_and(|index| index.parse::<u32>().is_ok())
}

/// A map of the report as texts.
fn texts(report: &Value, key: &str) -> BTreeMap<String, String> {
    serde_json::from_value(report[key].clone()).unwrap()
}

/// The report on a PodGroup, or on a pod without one.
fn told<'r>(report: &'r Value, name: &str) -> &'r Value {
    let group = &report["podGroups"][full(name)];
    if group.is_null() { &report["pods"][full(name)] } else { group }
}

/// Differences between the expected and the found outcome.
struct Diff(Vec<String>);

impl Diff {
    fn note(&mut self, what: &str, expected: impl std::fmt::Display, found: impl std::fmt::Display) {
        self.0.push(format!("  {what}: expected {expected}, found {found}"));
    }

    fn equal(&mut self, what: &str, expected: &str, found: &str) {
        if expected != found {
            self.note(what, expected, found);
        }
    }

    /// Pods with nodes, some by name and the others by count.
    fn placed(
        &mut self,
        what: &str,
        named: &BTreeMap<String, OneOf>,
        counted: &BTreeMap<String, Count>,
        mut found: BTreeMap<String, String>,
    ) {
        for (pod, nodes) in named {
            let node = found.remove(&full(pod));
            if !node.as_deref().is_some_and(|node| nodes.admits(node)) {
                self.note(&format!("{what} {pod}"), format!("{nodes:?}"), node.as_deref().unwrap_or("none"));
            }
        }
        for (owner, count) in counted {
            let (of, rest): (BTreeMap<_, _>, _) = found.into_iter().partition(|(pod, _)| is_of(pod, owner));
            found = rest;
            let mut by_node: BTreeMap<String, usize> = BTreeMap::new();
            for node in of.values() {
                *by_node.entry(node.clone()).or_default() += 1;
            }
            let same = match count {
                Count::InAll(count) => *count == of.len(),
                Count::ByNode(count) => *count == by_node,
            };
            if !same {
                self.note(&format!("{what} {owner}"), format!("{count:?}"), format!("{by_node:?}"));
            }
        }
        for (pod, node) in found {
            self.note(&format!("{what} {pod}"), "none", node);
        }
    }

    /// Pods that are in one HyperNode, those with a reserved node too.
    fn together(&mut self, expected: &Expected, report: &Value) {
        let mut node_of = texts(report, "bindings");
        node_of.extend(texts(report, "nominations"));
        for pods in &expected.together {
            let nodes: Vec<Option<&String>> = pods.iter().map(|pod| node_of.get(&full(pod))).collect();
            let holds =
                |all: &BTreeSet<String>| nodes.iter().all(|node| node.is_some_and(|it| all.contains(it)));
            if !expected.hyper_nodes.values().any(holds) {
                self.note(&format!("nodes of {pods:?}"), "one HyperNode", format!("{nodes:?}"));
            }
        }
    }

    fn evicted(&mut self, expected: &Expected, report: &Value) {
        let mut found: BTreeSet<String> = serde_json::from_value(report["evictions"].clone()).unwrap();
        for pod in &expected.evictions {
            if !found.remove(&full(pod)) {
                self.note(&format!("eviction of {pod}"), "one", "none");
            }
        }
        for (owner, count) in &expected.evicted {
            let (of, rest): (BTreeSet<_>, _) = found.into_iter().partition(|pod| is_of(pod, owner));
            found = rest;
            if of.len() != *count {
                self.note(&format!("evictions of {owner}"), count, format!("{of:?}"));
            }
        }
        for pod in found {
            self.note(&format!("eviction of {pod}"), "none", "one");
        }
        for (pod, cause) in &expected.causes {
            let told = report["evictionCauses"].as_array().unwrap().iter().find(|it| it["pod"] == full(pod));
            let text = |key: &str| told.and_then(|it| it[key].as_str()).unwrap_or_default();
            let told = format!("{}: {}", text("action"), text("reason"));
            if !told.contains(cause) {
                self.note(&format!("cause of the eviction of {pod}"), cause, told);
            }
        }
    }

    fn reasons(&mut self, expected: &Expected, report: &Value) {
        for (name, texts) in &expected.reasons {
            let whole = told(report, name)["reasons"].to_string();
            let missing = texts.iter().find(|text| !whole.contains(text.as_str()));
            if missing.is_some() || (texts.is_empty() && whole != "[]") {
                self.note(&format!("reasons of {name}"), format!("{texts:?}"), whole);
            }
        }
    }

    fn lacks(&mut self, expected: &Expected, report: &Value) {
        for (name, lack) in &expected.lacks {
            let found = told(report, name);
            let missing: Vec<String> = found["missing"].as_object().map_or(Vec::new(), |missing| {
                missing.iter().map(|(dim, amount)| format!("{dim} {}", amount.as_str().unwrap())).collect()
            });
            let node = found["missingOn"].as_str().unwrap_or("none");
            let remark =
                if found["tooLarge"] == true { " (no node that it may use is large enough)" } else { "" };
            self.equal(
                &format!("what {name} lacks"),
                lack,
                &format!("{node}: {}{remark}", missing.join(", ")),
            );
        }
    }

    fn problems(&mut self, expected: &Expected, report: &Value) {
        let groups = report["podGroups"].as_object().unwrap();
        let known = groups.iter().filter_map(|(name, group)| Some((name, group["problem"].as_str()?)));
        let mut found: BTreeMap<&String, &str> = known.collect();
        for (name, text) in &expected.problems {
            let problem = found.remove(&full(name)).unwrap_or("none");
            if !problem.contains(text.as_str()) {
                self.note(&format!("problem of {name}"), text, problem);
            }
        }
        for (name, problem) in found {
            self.note(&format!("problem of {name}"), "none", problem);
        }
    }

    fn queues(&mut self, expected: &Expected, report: &Value) {
        for (name, queue) in &expected.queues {
            let found = &report["queues"][name];
            for (what, amounts) in [("allocated", &queue.allocated), ("deserved", &queue.deserved)] {
                for (dim, amount) in amounts {
                    let has = found[what][dim].as_str().unwrap_or("0");
                    self.equal(&format!("queue {name}: {what}.{dim}"), amount, has);
                }
            }
            let problem = found["problem"].as_str().unwrap_or("none");
            if queue.problem.as_ref().is_some_and(|text| !problem.contains(text.as_str())) {
                self.note(&format!("queue {name}: problem"), queue.problem.as_deref().unwrap_or(""), problem);
            }
        }
    }

    fn fields(&mut self, key: &str, expected: &BTreeMap<String, BTreeMap<String, Value>>, report: &Value) {
        for (name, fields) in expected {
            for (field, value) in fields {
                let found = &report[key][full(name)][field];
                self.equal(&format!("{key} {name}: {field}"), &value.to_string(), &found.to_string());
            }
        }
    }

    fn rest(&mut self, expected: &Expected, report: &Value, ran: &Ran) {
        for (group, phase) in &expected.phases {
            let found = report["podGroups"][full(group)]["phase"].as_str().unwrap_or("none");
            self.equal(&format!("phase of {group}"), phase, found);
        }
        for (name, job) in &expected.jobs {
            let found = &report["jobs"][full(name)];
            self.equal(
                &format!("phase of job {name}"),
                &job.phase,
                found["phase"].as_str().unwrap_or("none"),
            );
            self.equal(
                &format!("retries of job {name}"),
                &job.retries.to_string(),
                &found["retries"].to_string(),
            );
        }
        self.fields("cronJobs", &expected.cron_jobs, report);
        self.fields("jobFlows", &expected.job_flows, report);
        for (figure, value) in &expected.stats {
            let found = &report["stats"][figure];
            if found.as_f64() != Some(*value) {
                self.note(figure, value, found);
            }
        }
        let told = expected.notes.iter().filter(|note| ran.stderr.contains(note.as_str())).count();
        if told < expected.notes.len() || (expected.notes.is_empty() && !ran.stderr.is_empty()) {
            self.note("notes", format!("{:?}", expected.notes), format!("{:?}", ran.stderr));
        }
    }
}

/// The parts of `NAME.json` that do not depend on the machine.
fn timeless(text: &str) -> String {
    text.lines().filter(|line| !line.contains("\"sessionSeconds\"")).collect::<Vec<_>>().join("\n")
}

/// All differences of a scenario.
fn differences(case: &Path) -> Vec<String> {
    let expected = fs::read_to_string(case.join("expect.yaml")).unwrap();
    let expected: Expected = match serde_yaml::from_str(&expected) {
        Ok(expected) => expected,
        Err(error) => return vec![format!("  expect.yaml: {error}")],
    };
    let more = fs::read_to_string(case.join("args")).unwrap_or_default();
    let mut args = vec!["simulate", "-f", "cluster.yaml", "-o", "json"];
    if case.join("scheduler.conf").exists() {
        args.extend(["--scheduler-conf", "scheduler.conf"]);
    }
    args.extend(more.split_whitespace());
    let ran = phalanx_in(case, &args, "");
    if ran.code != 0 {
        return vec![format!("  exit code {}: {}", ran.code, ran.stderr.trim_end())];
    }
    let again = phalanx_in(case, &args, "");
    let report = ran.json();
    let mut diff = Diff(Vec::new());
    if timeless(&ran.stdout) != timeless(&again.stdout) {
        diff.note("a second run", "the same output", again.stdout);
    }
    diff.placed("node of", &expected.bindings, &expected.bound, texts(&report, "bindings"));
    diff.placed("nomination of", &expected.nominations, &expected.nominated, texts(&report, "nominations"));
    diff.together(&expected, &report);
    diff.evicted(&expected, &report);
    diff.reasons(&expected, &report);
    diff.lacks(&expected, &report);
    diff.problems(&expected, &report);
    diff.queues(&expected, &report);
    diff.rest(&expected, &report, &ran);
    if !diff.0.is_empty() {
        let waits =
            |key: &str| report[key].as_object().unwrap().iter().map(|(name, it)| format!("{name} {it}"));
        diff.0.extend(waits("podGroups").chain(waits("pods")).map(|line| format!("    {line}")));
    }
    diff.0
}

/// The folder of all scenarios.
pub(crate) fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// What is in a folder, by name.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}

/// What a scenario expects of `explain`.
pub(crate) fn explain_of(case: &Path) -> Option<Explain> {
    let expected = fs::read_to_string(case.join("expect.yaml")).ok()?;
    serde_yaml::from_str::<Expected>(&expected).ok()?.explain
}

pub(crate) fn cases() -> Vec<PathBuf> {
    entries(&scenarios()).iter().filter(|topic| topic.is_dir()).flat_map(|topic| entries(topic)).collect()
}

/// `TOPIC/CASE`.
pub(crate) fn name_of(case: &Path) -> String {
    case.strip_prefix(scenarios()).unwrap().display().to_string()
}

#[test]
fn all_scenarios_have_their_expected_outcome() {
    let (cases, wrong) = (Mutex::new(cases()), Mutex::new(Vec::new()));
    let next = || cases.lock().unwrap().pop();
    let work = || {
        while let Some(case) = next() {
            let found = differences(&case);
            if !found.is_empty() {
                wrong.lock().unwrap().push(format!("{}\n{}", name_of(&case), found.join("\n")));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort();
    assert!(wrong.is_empty(), "{} scenarios differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_folder_is_a_scenario_with_a_sentence() {
    const KNOWN: [&str; 4] = ["args", "cluster.yaml", "expect.yaml", "scheduler.conf"];
    let mut wrong = Vec::new();
    for case in cases() {
        let mut files: Vec<String> = entries(&case)
            .iter()
            .map(|file| file.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        files.retain(|file| !KNOWN.contains(&file.as_str()));
        if !files.is_empty() {
            wrong.push(format!("{}: stray {files:?}", name_of(&case)));
        }
        let expected = fs::read_to_string(case.join("expect.yaml")).unwrap_or_default();
        if !expected.starts_with("# ") || !case.join("cluster.yaml").exists() {
            wrong.push(format!(
                "{}: cluster.yaml, or the sentence in expect.yaml, is missing",
                name_of(&case)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases().len() >= 150, "{} scenarios", cases().len());
}
