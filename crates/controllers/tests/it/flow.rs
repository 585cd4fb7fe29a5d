//! The JobFlow controller.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use phalanx_api::batch::{Job, JobPhase, JobStatus};
use phalanx_api::flow::{FlowPhase, JobFlow, JobTemplate};
use phalanx_controllers::flow::{Observed, ProbeRequest, reconcile, reconcile_template};
use phalanx_controllers::{Change, Object};

struct Flows {
    flow: JobFlow,
    templates: BTreeMap<String, JobTemplate>,
    jobs: Vec<Job>,
    passed: BTreeSet<ProbeRequest>,
    probes: BTreeSet<ProbeRequest>,
    notes: Vec<String>,
}

impl Flows {
    /// A flow with this spec, and templates a, b and c.
    fn new(spec: &str) -> Self {
        let text = format!("metadata: {{name: f, namespace: vision, uid: f}}\nspec: {{{spec}}}");
        let template = |name: &str| {
            let text = "spec: {queue: q, tasks: [{name: t, replicas: 2, template: {spec: {containers: [{name: c, image: x}]}}}]}";
            (name.to_owned(), serde_yaml::from_str(text).unwrap())
        };
        Self {
            flow: serde_yaml::from_str(&text).unwrap(),
            templates: ["a", "b", "c"].map(template).into(),
            jobs: Vec::new(),
            passed: BTreeSet::new(),
            probes: BTreeSet::new(),
            notes: Vec::new(),
        }
    }

    fn settle(&mut self) -> &mut Self {
        for _ in 0..10 {
            let now: Timestamp = "2026-11-23T00:00:00Z".parse().unwrap();
            let seen = Observed {
                flow: &self.flow,
                templates: &self.templates,
                jobs: &self.jobs,
                passed: &self.passed,
            };
            let reconciled = reconcile(&seen, now);
            self.probes = reconciled.probes;
            for change in reconciled.outcome.changes {
                match change {
                    Change::Create(Object::Job(job)) => self.jobs.push(*job),
                    Change::Delete(target) => {
                        self.jobs.retain(|job| job.metadata.name.as_ref() != Some(&target.name));
                    }
                    Change::Status { object: Object::JobFlow(flow), .. } => self.flow.status = flow.status,
                    Change::Note(note) => self.notes.push(note.message),
                    change => panic!("{change:?}"),
                }
            }
        }
        self
    }

    fn names(&self) -> Vec<&str> {
        self.jobs.iter().map(|job| job.metadata.name.as_deref().unwrap()).collect()
    }

    fn set(&mut self, name: &str, phase: JobPhase) -> &mut Self {
        let job = self.jobs.iter_mut().find(|job| job.metadata.name.as_deref() == Some(name)).unwrap();
        let mut status = JobStatus::default();
        status.state.phase = Some(phase);
        job.status = Some(status);
        self.settle()
    }

    fn phase(&self) -> FlowPhase {
        self.flow.status.clone().unwrap().state.phase.unwrap()
    }
}

const CHAIN: &str =
    "flows: [{name: a}, {name: b, dependsOn: {targets: [a]}}, {name: c, dependsOn: {targets: [a, b]}}]";

#[test]
fn jobs_of_a_flow_come_one_after_the_other() {
    let mut flows = Flows::new(CHAIN);
    assert_eq!(flows.settle().names(), ["f-a"]);
    assert_eq!(flows.phase(), FlowPhase::Pending);
    let metadata = &flows.jobs[0].metadata;
    assert_eq!(metadata.labels.as_ref().unwrap()["volcano.sh/createdByJobFlow"], "vision.f");
    assert_eq!(metadata.annotations.as_ref().unwrap()["volcano.sh/createdByJobTemplate"], "vision.a");
    assert_eq!(metadata.owner_references.as_ref().unwrap()[0].kind, "JobFlow");
    flows.set("f-a", JobPhase::Running);
    assert_eq!((flows.names(), flows.phase()), (vec!["f-a"], FlowPhase::Running));
    flows.set("f-a", JobPhase::Completed);
    assert_eq!(flows.names(), ["f-a", "f-b"]);
    flows.set("f-b", JobPhase::Completed);
    assert_eq!(flows.names(), ["f-a", "f-b", "f-c"]);
    flows.set("f-c", JobPhase::Completed);
    assert_eq!((flows.phase(), flows.jobs.len()), (FlowPhase::Succeed, 3));
    let status = flows.flow.status.clone().unwrap();
    assert_eq!(status.completed_jobs, ["f-a", "f-b", "f-c"]);
    let phases = status.job_status_list[0].running_histories.iter().map(|one| one.state.clone().unwrap());
    assert_eq!(phases.collect::<Vec<_>>(), [JobPhase::Running, JobPhase::Completed]);
}

#[test]
fn jobs_of_a_flow_that_succeeded_are_deleted_on_request() {
    let mut flows = Flows::new("flows: [{name: a}], jobRetainPolicy: delete");
    flows.settle().set("f-a", JobPhase::Completed);
    assert_eq!((flows.phase(), flows.jobs.len()), (FlowPhase::Succeed, 0));
}

#[test]
fn a_flow_fails_with_one_of_its_jobs() {
    for phase in [JobPhase::Failed, JobPhase::Terminated] {
        let mut flows = Flows::new(CHAIN);
        flows.settle().set("f-a", phase);
        assert_eq!((flows.phase(), flows.jobs.len()), (FlowPhase::Failed, 1));
    }
}

#[test]
fn a_patch_changes_what_it_names() {
    let patch = "{queue: gold, minAvailable: 1, plugins: {svc: []}, tasks: [{name: t, replicas: 5}, {name: u, replicas: 1}]}";
    let mut flows = Flows::new(&format!("flows: [{{name: a, patch: {{jobSpec: {patch}}}}}]"));
    flows.settle();
    let spec = &flows.jobs[0].spec;
    assert_eq!((spec.queue.as_str(), spec.min_available, spec.plugins.len()), ("gold", 1, 1));
    let tasks: Vec<_> = spec.tasks.iter().map(|task| (task.name.as_str(), task.replicas)).collect();
    assert_eq!(tasks, [("t", 5), ("u", 1)]);
    let pod = spec.tasks[0].template.spec.as_ref().unwrap();
    assert_eq!(pod.containers[0].image.as_deref(), Some("x"), "the template of the task stays");
}

#[test]
fn a_probe_stands_for_completion() {
    let probe =
        "{tcpSocketList: [{taskName: t, port: 80}], httpGetList: [{taskName: t, path: /ok, port: 81}]}";
    let mut flows = Flows::new(&format!(
        "flows: [{{name: a}}, {{name: b, dependsOn: {{targets: [a], probe: {probe}}}}}]"
    ));
    flows.settle().set("f-a", JobPhase::Running);
    let http = Some(("/ok".to_owned(), None));
    let request = |port, http| ProbeRequest { job: "f-a".to_owned(), task: "t".to_owned(), port, http };
    assert_eq!(flows.probes, [request(80, None), request(81, http)].into());
    assert_eq!(flows.jobs.len(), 1);
    flows.passed = flows.probes.clone();
    assert_eq!(flows.settle().names(), ["f-a", "f-b"]);
}

#[test]
fn a_probe_asks_for_phases_of_pods() {
    let probe = "{taskStatusList: [{taskName: t, phase: Running}]}";
    for (running, starts) in [(1, false), (2, true)] {
        let mut flows = Flows::new(&format!(
            "flows: [{{name: a}}, {{name: b, dependsOn: {{targets: [a], probe: {probe}}}}}]"
        ));
        flows.settle();
        let text = format!("taskStatusCount: {{t: {{phase: {{Running: {running}}}}}}}");
        flows.jobs[0].status = Some(serde_yaml::from_str(&text).unwrap());
        assert_eq!(flows.settle().jobs.len() == 2, starts, "{running} of 2 run");
    }
}

/// Pods of a target that has completed answer no more.
#[test]
fn a_target_that_has_completed_needs_no_probe() {
    for probe in [
        "{tcpSocketList: [{taskName: t, port: 80}]}",
        "{taskStatusList: [{taskName: t, phase: Running}]}",
        "{taskStatusList: [{taskName: none, phase: Running}]}",
    ] {
        let mut flows = Flows::new(&format!(
            "flows: [{{name: a}}, {{name: b, dependsOn: {{targets: [a], probe: {probe}}}}}]"
        ));
        assert_eq!(flows.settle().names(), ["f-a"], "{probe}");
        assert_eq!(flows.set("f-a", JobPhase::Completed).names(), ["f-a", "f-b"], "{probe}");
        assert!(flows.probes.is_empty(), "{probe}");
    }
}

#[test]
fn of_two_targets_one_may_have_completed_while_the_other_passes_the_probe() {
    let probe = "{tcpSocketList: [{taskName: t, port: 80}]}";
    let mut flows = Flows::new(&format!(
        "flows: [{{name: a}}, {{name: b}}, {{name: c, dependsOn: {{targets: [a, b], probe: {probe}}}}}]"
    ));
    flows.settle();
    flows.set("f-a", JobPhase::Completed).set("f-b", JobPhase::Running);
    assert_eq!((flows.probes.len(), flows.names().len()), (1, 2));
    flows.passed = flows.probes.clone();
    assert_eq!(flows.settle().names(), ["f-a", "f-b", "f-c"]);
}

/// Jobs of a template with `ttlSecondsAfterFinished` are deleted while the flow goes on.
#[test]
fn a_job_that_completed_and_is_gone_is_not_made_again() {
    let mut flows = Flows::new(CHAIN);
    for (name, next) in [("f-a", "f-b"), ("f-b", "f-c")] {
        flows.settle().set(name, JobPhase::Completed);
        flows.jobs.retain(|job| job.metadata.name.as_deref() != Some(name));
        assert_eq!(flows.settle().names(), [next]);
    }
    flows.set("f-c", JobPhase::Completed);
    assert_eq!(flows.phase(), FlowPhase::Succeed);
    assert_eq!(flows.flow.status.clone().unwrap().completed_jobs, ["f-a", "f-b", "f-c"]);
}

#[test]
fn a_flow_that_goes_round_fails_and_says_why() {
    for spec in [
        "flows: [{name: a, dependsOn: {targets: [b]}}, {name: b, dependsOn: {targets: [a]}}]",
        "flows: [{name: a, dependsOn: {targets: [none]}}, {name: b, dependsOn: {targets: [a]}}]",
    ] {
        let mut flows = Flows::new(spec);
        flows.settle();
        assert_eq!((flows.phase(), flows.jobs.len()), (FlowPhase::Failed, 0));
        assert_eq!(flows.notes, ["spec.flows: these wait for each other or for what is not there: a, b"]);
    }
}

#[test]
fn a_missing_template_is_waited_for() {
    let mut flows = Flows::new("flows: [{name: z}]");
    flows.settle();
    assert!(flows.notes[0].contains("there is no JobTemplate z"), "{:?}", flows.notes);
    let template = flows.templates["a"].clone();
    flows.templates.insert("z".to_owned(), template);
    assert_eq!(flows.settle().names(), ["f-z"]);
}

#[test]
fn a_template_names_its_jobs() {
    let mut flows = Flows::new("flows: [{name: a}]");
    flows.settle();
    let mut template = flows.templates["a"].clone();
    let [Change::Status { object: Object::JobTemplate(with), .. }] =
        &reconcile_template(&template, &flows.jobs).changes[..]
    else {
        panic!("no status")
    };
    template.status.clone_from(&with.status);
    assert_eq!(template.status.as_ref().unwrap().job_depends_on_list, ["f-a"]);
    assert_eq!(reconcile_template(&template, &flows.jobs).changes, []);
}
