//! Reads the objects of the controllers.
use phalanx_api::batch::{CronJob, Job, JobSpec};
use phalanx_api::bus::{Action, Command};
use phalanx_api::flow::{JobFlow, JobTemplate};
use phalanx_cache::{Invalid, Names, decode};
use phalanx_controllers::cron;
use phalanx_controllers::job::{check, with_defaults};
use serde_json::{Value, json};

use super::command;
use crate::kind::Controlled;
use crate::manifests::ControlledObject;

/// Reads an object. Pods are for the first of our names where nobody is named.
pub(crate) fn read(kind: Controlled, value: &Value, names: &Names) -> Result<ControlledObject, Invalid> {
    Ok(match kind {
        Controlled::Job => {
            let mut job: Job = decode(value)?;
            name_scheduler(&mut job.spec, names);
            check_job(&job, names)?;
            ControlledObject::Job(Box::new(job))
        }
        Controlled::CronJob => {
            let mut cron: CronJob = decode(value)?;
            told(cron::check(&cron))?;
            let spec = &mut cron.spec.job_template.spec;
            name_scheduler(spec, names);
            let job = Job { metadata: cron.metadata.clone(), spec: spec.clone(), status: None };
            check_job(&job, names).map_err(|wrong| within("spec.jobTemplate.", wrong))?;
            ControlledObject::CronJob(Box::new(cron))
        }
        Controlled::JobTemplate => {
            let mut template: JobTemplate = decode(value)?;
            name_scheduler(&mut template.spec, names);
            let metadata = template.metadata.clone();
            check_job(&Job { metadata, spec: template.spec.clone(), status: None }, names)?;
            ControlledObject::JobTemplate(Box::new(template))
        }
        Controlled::JobFlow => ControlledObject::JobFlow(Box::new(decode::<JobFlow>(value)?)),
        Controlled::Command => {
            let command: Command = decode(value)?;
            check_command(&command)?;
            ControlledObject::Command(Box::new(command))
        }
    })
}

fn name_scheduler(spec: &mut JobSpec, names: &Names) {
    if spec.scheduler_name.is_empty() {
        scheduler(names).clone_into(&mut spec.scheduler_name);
    }
}

fn scheduler(names: &Names) -> &str {
    names.schedulers.first().map_or("volcano", String::as_str)
}

fn check_job(job: &Job, names: &Names) -> Result<(), Invalid> {
    told(check(&with_defaults(job, scheduler(names))))
}

/// A problem with the path of its field in front.
fn told(problem: Option<String>) -> Result<(), Invalid> {
    let Some(problem) = problem else { return Ok(()) };
    let (field, problem) = problem.split_once(": ").unwrap_or(("spec", &problem));
    Err(Invalid { field: field.to_owned(), problem: problem.to_owned() })
}

fn within(path: &str, wrong: Invalid) -> Invalid {
    Invalid { field: format!("{path}{}", wrong.field), ..wrong }
}

fn check_command(command: &Command) -> Result<(), Invalid> {
    let wrong = |field: &str, problem: String| Err(Invalid { field: field.to_owned(), problem });
    let (kind, known) = match Action::from(command.action.clone()) {
        Action::OpenQueue | Action::CloseQueue => ("Queue", true),
        Action::AbortJob
        | Action::ResumeJob
        | Action::RestartJob
        | Action::CompleteJob
        | Action::TerminateJob => ("Job", true),
        _ => ("Job", false),
    };
    if !known {
        let problem = format!(
            "found {:?}, expected AbortJob, ResumeJob, RestartJob, CompleteJob, TerminateJob, OpenQueue or CloseQueue",
            command.action
        );
        return wrong("action", problem);
    }
    if command.target.as_ref().is_none_or(|target| target.kind != kind || target.name.is_empty()) {
        return wrong("target", format!("expected kind {kind} and a name for {}", command.action));
    }
    command::delay_ms(command).map(drop)
}

/// The fields by which tasks ask for NUMA nodes.
pub(crate) fn numa_policies(kind: Controlled, object: &Value) -> Vec<String> {
    let Tasks { tasks, path } = tasks(kind, object);
    let asks =
        |task: &Value| task["topologyPolicy"].as_str().is_some_and(|policy| !["", "none"].contains(&policy));
    let asking = tasks.iter().enumerate().filter(|(_, task)| asks(task));
    asking.map(|(at, _)| format!("{path}[{at}].topologyPolicy")).collect()
}

/// The tasks of an object, and the path of their list.
struct Tasks<'a> {
    tasks: &'a [Value],
    path: &'static str,
}

fn tasks(kind: Controlled, object: &Value) -> Tasks<'_> {
    let (pointer, path) = match kind {
        Controlled::Job | Controlled::JobTemplate => ("/spec/tasks", "spec.tasks"),
        Controlled::CronJob => ("/spec/jobTemplate/spec/tasks", "spec.jobTemplate.spec.tasks"),
        Controlled::JobFlow | Controlled::Command => ("", ""),
    };
    let list = object.pointer(pointer).and_then(Value::as_array);
    Tasks { tasks: list.map(Vec::as_slice).unwrap_or_default(), path }
}

/// A pod of each task, to be checked before the simulation, with the path of its template.
pub(crate) fn samples(kind: Controlled, object: &Value) -> Vec<(String, Value)> {
    let Tasks { tasks, path } = tasks(kind, object);
    let sample = |(at, task): (usize, &Value)| {
        let template = &task["template"];
        let mut metadata = template["metadata"].as_object().cloned().unwrap_or_default();
        metadata.insert("name".into(), json!("sample"));
        metadata.insert("namespace".into(), object["metadata"]["namespace"].clone());
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]});
        (format!("{path}[{at}].template."), pod)
    };
    tasks.iter().enumerate().map(sample).collect()
}
