//! Job plugins: what they make for a job, and what they change in its pods. One file each, one table.

mod arguments;
mod env;
mod hcclrank;
mod mpi;
mod objects;
mod pods;
mod pytorch;
mod ray;
mod ssh;
mod svc;
mod tensorflow;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use phalanx_api::batch::{Job, JobPhase, JobStatus, TaskSpec};

use crate::change::{Change, Kind, Object, Outcome};
use crate::job::{JobView, SshKey, is_finished, too_many_pods, with_defaults};
use crate::meta::controller_of;
use arguments::Arguments;

pub use arguments::Argument;

/// A job plugin.
struct Plugin {
    name: &'static str,
    /// The arguments that it knows.
    arguments: &'static [Argument],
    /// What it makes for a job, with a key pair if there is one.
    objects: fn(&Job, &Arguments<'_>, Option<&SshKey>) -> Vec<Object>,
    change_pod: fn(&mut Made<'_>, &Arguments<'_>),
    /// What is wrong with the job for it.
    check: fn(&Job, &Arguments<'_>) -> Option<String>,
}

/// In the order in which pods are changed: `hcclrank` reads what `pytorch` sets.
const PLUGINS: [&Plugin; 8] = [
    &svc::PLUGIN,
    &ssh::PLUGIN,
    &env::PLUGIN,
    &pytorch::PLUGIN,
    &tensorflow::PLUGIN,
    &mpi::PLUGIN,
    &ray::PLUGIN,
    &hcclrank::PLUGIN,
];

/// How `status.controlledResources` names a plugin that made something.
const RECORD: &str = "plugin-";

/// A pod that is being made.
struct Made<'a> {
    job: &'a Job,
    task: &'a TaskSpec,
    index: i32,
    pod: &'a mut Pod,
}

impl Made<'_> {
    fn spec(&mut self) -> &mut PodSpec {
        self.pod.spec.get_or_insert_default()
    }

    fn task(&self, name: &str) -> Option<&TaskSpec> {
        self.job.spec.tasks.iter().find(|task| task.name == name)
    }
}

fn nothing(_: &Job, _: &Arguments<'_>, _: Option<&SshKey>) -> Vec<Object> {
    Vec::new()
}

fn any_job(_: &Job, _: &Arguments<'_>) -> Option<String> {
    None
}

/// The plugins of a job, with their arguments.
fn of(job: &Job) -> impl Iterator<Item = (&'static Plugin, Arguments<'_>)> {
    let given = |plugin: &Plugin| Some(Arguments::read(job.spec.plugins.get(plugin.name)?, plugin.arguments));
    PLUGINS.into_iter().filter_map(move |plugin| Some((plugin, given(plugin)?)))
}

/// All plugins by name, with the arguments that they know.
pub fn all() -> impl Iterator<Item = (&'static str, &'static [Argument])> {
    PLUGINS.into_iter().map(|plugin| (plugin.name, plugin.arguments))
}

/// What plugins cannot use of their arguments, of each plugin the first.
pub(crate) fn problems(job: &Job) -> impl Iterator<Item = String> {
    of(job).filter_map(|(plugin, arguments)| Some(format!("plugin {}: {}", plugin.name, arguments.problem?)))
}

/// The first thing that is wrong with a job for one of its plugins.
pub(crate) fn check(job: &Job) -> Option<String> {
    of(job).find_map(|(plugin, arguments)| (plugin.check)(job, &arguments))
}

/// Changes a pod as the plugins want.
pub(crate) fn change_pod(job: &Job, task: &TaskSpec, index: i32, pod: &mut Pod) {
    let mut made = Made { job, task, index, pod };
    for (plugin, arguments) in of(job) {
        (plugin.change_pod)(&mut made, &arguments);
    }
}

/// Makes what is missing, and keeps the hosts of the job in step.
pub(crate) fn ensure(view: &JobView<'_>, outcome: &mut Outcome) {
    outcome.wants_ssh_key = view.seen.ssh_key.is_none() && ssh::lacks_key(&view.job, view.seen.made);
    for object in of(&view.job)
        .flat_map(|(plugin, arguments)| (plugin.objects)(&view.job, &arguments, view.seen.ssh_key))
    {
        let found =
            view.seen.made.iter().find(|one| one.kind() == object.kind() && one.name() == object.name());
        outcome.changes.extend(match found {
            None => Some(Change::Create(object)),
            Some(found) => objects::updated(found, &object).map(Change::Replace),
        });
    }
}

/// Deletes what plugins made, and nothing of somebody else that was taken as it is.
pub(crate) fn delete(view: &JobView<'_>, outcome: &mut Outcome) {
    let uid = view.job.metadata.uid.as_deref();
    let is_own = |object: &&Object| controller_of(object.metadata()).map(|owner| owner.uid.as_str()) == uid;
    let there = view.seen.made.iter().filter(is_own);
    let there = there.filter(|object| object.metadata().deletion_timestamp.is_none());
    outcome.changes.extend(there.map(|object| Change::Delete(object.target())));
}

/// Records the plugins among what belongs to the job.
pub(crate) fn record(job: &Job, status: &mut JobStatus) {
    for (plugin, _) in of(job) {
        status.controlled_resources.insert(format!("{RECORD}{}", plugin.name), plugin.name.to_owned());
    }
}

pub(crate) fn forget(job: &Job, status: &mut JobStatus) {
    for (plugin, _) in of(job) {
        status.controlled_resources.remove(&format!("{RECORD}{}", plugin.name));
    }
}

/// Kinds and names of what plugins may have made for a job and has not been deleted since, as its status tells.
pub fn left(job: &Job) -> Vec<(Kind, String)> {
    if job.spec.plugins.is_empty() {
        return Vec::new();
    }
    let status = job.status.as_ref();
    let over = |phase: &JobPhase| is_finished(phase) || *phase == JobPhase::Aborted;
    let ended = status.and_then(|status| status.state.phase.as_ref()).is_some_and(over);
    let recorded =
        status.is_some_and(|status| status.controlled_resources.keys().any(|key| key.starts_with(RECORD)));
    if job.metadata.deletion_timestamp.is_some() || (ended && !recorded) {
        return Vec::new();
    }
    let (job, key) = (with_defaults(job, ""), SshKey { private: String::new(), public: String::new() });
    // Each pod has a name in what plugins make.
    if too_many_pods(&job).is_some() {
        return Vec::new();
    }
    let objects = of(&job).flat_map(|(plugin, arguments)| (plugin.objects)(&job, &arguments, Some(&key)));
    objects.map(|object| (object.kind(), object.name().to_owned())).collect()
}
