//! JobFlows: their controller makes Jobs from JobTemplates, one after the other.
use std::collections::{BTreeMap, BTreeSet};

use phalanx_api::flow::{JobFlow, JobTemplate};
use phalanx_cluster::event::Time;
use phalanx_controllers::flow::{FlowOutcome, Observed, ProbeRequest, reconcile};
use phalanx_controllers::{Change, Kind, Object};

use super::job::Jobs;
use super::{ByKey, key, timestamp};
use crate::api_server::ApiServer;
use crate::report::JobFlowOutcome;

/// All JobFlows, and JobTemplates by namespace and name.
#[derive(Default)]
pub(crate) struct Flows {
    flows: ByKey<JobFlow>,
    /// The last warning about each.
    warnings: ByKey<String>,
    templates: BTreeMap<String, BTreeMap<String, JobTemplate>>,
}

impl Flows {
    pub(crate) fn add(&mut self, mut flow: JobFlow) {
        let key = key(&flow.metadata);
        flow.metadata.uid = Some(format!("jobflow-{key}"));
        self.flows.insert(key, flow);
    }

    pub(crate) fn add_template(&mut self, template: JobTemplate) {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let (namespace, name) = (text(&template.metadata.namespace), text(&template.metadata.name));
        self.templates.entry(namespace).or_default().insert(name, template);
    }

    /// Reconciles each JobFlow; returns whether anything changed.
    pub(crate) fn run(&mut self, jobs: &mut Jobs, api_server: &mut ApiServer, now: Time) -> bool {
        let none = BTreeMap::new();
        let mut worked = false;
        for (key, flow) in &mut self.flows {
            let namespace = flow.metadata.namespace.clone().unwrap_or_default();
            let templates = self.templates.get(&namespace).unwrap_or(&none);
            for change in changes(flow, templates, jobs, now) {
                match change {
                    Change::Create(Object::Job(job)) => jobs.create(*job, now),
                    Change::Delete(target) if target.kind == Kind::Job => {
                        jobs.delete(&format!("{namespace}/{}", target.name), api_server, now);
                    }
                    Change::Status { object: Object::JobFlow(new), .. } => flow.status = new.status,
                    // An event is told each time.
                    Change::Note(note) if note.warning => {
                        self.warnings.insert(key.clone(), note.message);
                        continue;
                    }
                    _ => continue,
                }
                worked = true;
            }
        }
        worked
    }

    /// What became of the JobFlows.
    pub(crate) fn outcomes(&self) -> ByKey<JobFlowOutcome> {
        let outcome = |key: &String, flow: &JobFlow| {
            let status = flow.status.clone().unwrap_or_default();
            JobFlowOutcome {
                phase: status.state.phase.map(|phase| phase.to_string()).unwrap_or_default(),
                message: self.warnings.get(key).cloned().unwrap_or_default(),
                completed: status.completed_jobs,
                steps: flow.spec.flows.len(),
            }
        };
        self.flows.iter().map(|(key, flow)| (key.clone(), outcome(key, flow))).collect()
    }
}

/// Asks the probes of the next steps, if there are any. A pod that runs answers each of them.
fn changes(flow: &JobFlow, templates: &BTreeMap<String, JobTemplate>, jobs: &Jobs, now: Time) -> Vec<Change> {
    let namespace = flow.metadata.namespace.as_deref().unwrap_or_default();
    let of = jobs.of(flow.metadata.uid.as_deref().unwrap_or_default());
    let asked = |passed: &BTreeSet<ProbeRequest>| {
        reconcile(&Observed { flow, templates, jobs: &of, passed }, timestamp(now))
    };
    let FlowOutcome { outcome, probes } = asked(&BTreeSet::new());
    let passed: BTreeSet<ProbeRequest> = probes
        .into_iter()
        .filter(|probe| jobs.runs(&format!("{namespace}/{}", probe.job), &probe.task))
        .collect();
    if passed.is_empty() { outcome.changes } else { asked(&passed).outcome.changes }
}
