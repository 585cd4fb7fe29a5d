//! The JobFlow controller: Jobs one after the other; and the status of JobTemplates.

mod patch;
mod probe;
mod status;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::batch::{Job, JobPhase};
use phalanx_api::flow::{
    CREATED_BY_JOB_FLOW, CREATED_BY_JOB_TEMPLATE, Flow, FlowPhase, GROUP, JobFlow, JobFlowSpec, JobTemplate,
    JobTemplateStatus, RetainPolicy, VERSION,
};

use crate::change::{Change, Kind, Note, Object, Outcome, Target};
use crate::meta::{controller, map, text};

pub use probe::ProbeRequest;

/// A JobFlow and its Jobs.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The JobFlow.
    pub flow: &'a JobFlow,
    /// The JobTemplates of its namespace.
    pub templates: &'a BTreeMap<String, JobTemplate>,
    /// The Jobs that were made for it.
    pub jobs: &'a [Job],
    /// Requests of [`FlowOutcome::probes`] that were answered as wanted.
    pub passed: &'a BTreeSet<ProbeRequest>,
}

/// What reconciling a JobFlow came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowOutcome {
    /// The changes.
    pub outcome: Outcome,
    /// What the pods have to be asked before the next Jobs are made.
    pub probes: BTreeSet<ProbeRequest>,
}

/// Reconciles a JobFlow.
pub fn reconcile(seen: &Observed<'_>, now: Timestamp) -> FlowOutcome {
    let mut flow_outcome = FlowOutcome::default();
    let phase = seen.flow.status.as_ref().and_then(|status| status.state.phase.clone());
    if seen.flow.metadata.deletion_timestamp.is_some() || phase == Some(FlowPhase::Failed) {
        return flow_outcome;
    }
    if phase == Some(FlowPhase::Succeed) {
        if seen.flow.spec.job_retain_policy == Some(RetainPolicy::Delete) {
            let there = seen.jobs.iter().filter(|job| job.metadata.deletion_timestamp.is_none());
            flow_outcome
                .outcome
                .changes
                .extend(there.map(|job| Change::Delete(Target::of(Kind::Job, &job.metadata))));
        }
        return flow_outcome;
    }
    let ring = ring(&seen.flow.spec);
    match &ring {
        Some(message) => flow_outcome.outcome.changes.push(note(seen, "InvalidJobFlow", message.clone())),
        None => seen.flow.spec.flows.iter().for_each(|flow| make(seen, flow, &mut flow_outcome)),
    }
    let status = status::of(seen, now, ring.is_some());
    if Some(&status) != seen.flow.status.as_ref() {
        let object = Object::JobFlow(Box::new(JobFlow { status: Some(status), ..seen.flow.clone() }));
        flow_outcome.outcome.changes.push(Change::Status { object, urgent: true });
    }
    flow_outcome
}

fn note(seen: &Observed<'_>, reason: &'static str, message: String) -> Change {
    Change::Note(Note { on: Target::of(Kind::JobFlow, &seen.flow.metadata), warning: true, reason, message })
}

/// `FLOW-TEMPLATE`.
fn job_name(flow: &JobFlow, name: &str) -> String {
    format!("{}-{name}", text(flow.metadata.name.as_ref()))
}

fn job<'a>(seen: &Observed<'a>, name: &str) -> Option<&'a Job> {
    let name = job_name(seen.flow, name);
    seen.jobs.iter().find(|job| job.metadata.name.as_ref() == Some(&name))
}

/// Makes the Job of a step whose dependencies are met.
fn make(seen: &Observed<'_>, flow: &Flow, flow_outcome: &mut FlowOutcome) {
    let was_made = job(seen, &flow.name).is_some() || has_completed(seen, &flow.name);
    if was_made || !is_ready(seen, flow, flow_outcome) {
        return;
    }
    let made = match seen.templates.get(&flow.name) {
        Some(template) => new_job(seen.flow, flow, template),
        None => Err(format!("there is no JobTemplate {}", flow.name)),
    };
    flow_outcome.outcome.changes.push(match made {
        Ok(job) => Change::Create(Object::Job(Box::new(job))),
        Err(message) => note(seen, "FailedCreate", message),
    });
}

/// Whether the Job of a step has completed; it may have been deleted since, by its TTL.
fn has_completed(seen: &Observed<'_>, name: &str) -> bool {
    if let Some(job) = job(seen, name) {
        return job.status.as_ref().is_some_and(|one| one.state.phase == Some(JobPhase::Completed));
    }
    let name = job_name(seen.flow, name);
    let mut known = seen.flow.status.iter().flat_map(|status| &status.job_status_list);
    known.any(|one| one.name == name && one.state == Some(JobPhase::Completed))
}

/// Each target has completed or, where there is a probe, passed it.
fn is_ready(seen: &Observed<'_>, flow: &Flow, flow_outcome: &mut FlowOutcome) -> bool {
    let Some(depends_on) = &flow.depends_on else { return true };
    let targets = &depends_on.targets;
    let left: Vec<&String> = targets.iter().filter(|name| !has_completed(seen, name)).collect();
    let Some(probe) = depends_on.probe.as_ref().filter(|_| !left.is_empty()) else {
        return left.is_empty();
    };
    let asked = left.iter().map(|name| job(seen, name)).collect::<Option<Vec<&Job>>>();
    let Some(asked) = asked else { return false };
    let requests = probe::requests(probe, &asked);
    let missing: Vec<ProbeRequest> = requests.into_iter().filter(|one| !seen.passed.contains(one)).collect();
    let ready = missing.is_empty() && probe::phases_are_right(probe, &asked, left.len() < targets.len());
    flow_outcome.probes.extend(missing);
    ready
}

fn new_job(of: &JobFlow, flow: &Flow, template: &JobTemplate) -> Result<Job, String> {
    let namespace = text(of.metadata.namespace.as_ref());
    let full = |name: &str| format!("{namespace}.{name}");
    let (flow_name, template_name) = (full(text(of.metadata.name.as_ref())), full(&flow.name));
    let marks = map([(CREATED_BY_JOB_FLOW, &flow_name), (CREATED_BY_JOB_TEMPLATE, &template_name)]);
    let metadata = ObjectMeta {
        name: Some(job_name(of, &flow.name)),
        namespace: of.metadata.namespace.clone(),
        labels: Some(marks.clone()),
        annotations: Some(marks),
        owner_references: Some(vec![controller(&format!("{GROUP}/{VERSION}"), "JobFlow", &of.metadata)]),
        ..ObjectMeta::default()
    };
    let changes = flow.patch.as_ref().map(|patch| &patch.job_spec);
    Ok(Job { metadata, spec: patch::patched(&template.spec, changes)?, status: None })
}

fn targets(flow: &Flow) -> &[String] {
    flow.depends_on.as_ref().map_or(&[], |depends_on| &depends_on.targets)
}

/// Steps that wait for each other, or for steps that are not there.
fn ring(spec: &JobFlowSpec) -> Option<String> {
    let left = crate::ring::ring(&spec.flows, |flow| &flow.name, targets);
    let names: Vec<&str> = left.iter().map(|flow| flow.name.as_str()).collect();
    (!left.is_empty()).then(|| {
        format!("spec.flows: these wait for each other or for what is not there: {}", names.join(", "))
    })
}

/// Reconciles a JobTemplate: the status names the Jobs that were made from it.
pub fn reconcile_template(template: &JobTemplate, jobs: &[Job]) -> Outcome {
    let mut names: Vec<String> = jobs.iter().filter_map(|job| job.metadata.name.clone()).collect();
    names.sort();
    let mut outcome = Outcome::default();
    if names != template.status.clone().unwrap_or_default().job_depends_on_list {
        let status = Some(JobTemplateStatus { job_depends_on_list: names });
        let object = Object::JobTemplate(Box::new(JobTemplate { status, ..template.clone() }));
        outcome.changes.push(Change::Status { object, urgent: false });
    }
    outcome
}
