//! `mpi`: `MPI_HOST`, the workers, for the master; and the port of ssh.

use phalanx_api::batch::Job;

use super::arguments::{Arguments, Flags};
use super::pods::{add_env, containers, open_port, variable};
use super::{Made, Plugin, nothing};
use crate::job::hosts;

pub(super) const PLUGIN: Plugin = Plugin { name: "mpi", objects: nothing, change_pod, check };

const FLAGS: Flags = Flags { values: &["master", "worker", "port"], switches: &[] };

fn check(job: &Job, arguments: &[String]) -> Option<String> {
    let arguments = Arguments::read(arguments, &FLAGS);
    let master = arguments.text("master", "master");
    let missing = !job.spec.tasks.iter().any(|task| task.name == master);
    missing.then(|| format!("spec.plugins.mpi: there is no master task {master}"))
}

fn change_pod(made: &mut Made<'_>, arguments: &[String]) {
    let arguments = Arguments::read(arguments, &FLAGS);
    let port = arguments.number("port", 22);
    let worker = made.task(arguments.text("worker", "worker"));
    let env = if made.task.name == arguments.text("master", "master") {
        let Some(worker) = worker else { return };
        vec![variable("MPI_HOST", hosts(made.job, worker).join(","))]
    } else {
        Vec::new()
    };
    for container in containers(made.spec()) {
        open_port(container, "mpijob-port", port);
        if !env.is_empty() {
            add_env(container, &env);
        }
    }
}
