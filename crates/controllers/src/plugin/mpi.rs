//! `mpi`: `MPI_HOST`, the workers, for the master; and the port of ssh.

use phalanx_api::batch::Job;

use super::arguments::{Argument, Arguments, number, text};
use super::pods::{add_env, containers, open_port, variable};
use super::{Made, Plugin, nothing};
use crate::job::hosts;

pub(super) const PLUGIN: Plugin =
    Plugin { name: "mpi", arguments: ARGUMENTS, objects: nothing, change_pod, check };

const ARGUMENTS: &[Argument] = &[text("master", "master"), text("worker", "worker"), number("port", "22")];

fn check(job: &Job, arguments: &Arguments<'_>) -> Option<String> {
    let master = arguments.text("master");
    let missing = !job.spec.tasks.iter().any(|task| task.name == master);
    missing.then(|| format!("spec.plugins.mpi: there is no master task {master}"))
}

fn change_pod(made: &mut Made<'_>, arguments: &Arguments<'_>) {
    let port = arguments.number("port");
    let worker = made.task(arguments.text("worker"));
    let env = if made.task.name == arguments.text("master") {
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
