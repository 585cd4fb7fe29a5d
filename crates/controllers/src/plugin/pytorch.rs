//! `pytorch`: `MASTER_ADDR`, `MASTER_PORT`, `WORLD_SIZE` and `RANK` of torch.distributed.

use k8s_openapi::api::core::v1::Container;

use super::arguments::{Argument, Arguments, number, switch, text};
use super::pods::{add_env, open_port, variable};
use super::{Made, Plugin, any_job, nothing};
use crate::job::task_host;

pub(super) const PLUGIN: Plugin =
    Plugin { name: "pytorch", arguments: ARGUMENTS, objects: nothing, change_pod, check: any_job };

const ARGUMENTS: &[Argument] = &[
    text("master", "master"),
    text("worker", "worker"),
    number("port", "23456"),
    switch("wait-master-enabled", "false"),
    number("wait-master-timeout", "300"),
    text("wait-master-image", "busybox:1.36.1"),
];
const WAIT: &str = "wait-for-master";

fn change_pod(made: &mut Made<'_>, arguments: &Arguments<'_>) {
    let (master, worker) = (arguments.text("master"), arguments.text("worker"));
    let port = arguments.number("port");
    let Some(address) = made.task(master).map(|task| task_host(made.job, task, 0)) else { return };
    let of_both = made.job.spec.tasks.iter().filter(|task| task.name == master || task.name == worker);
    let size: i32 = of_both.map(|task| task.replicas).sum();
    let mut env = vec![
        variable("MASTER_ADDR", address.clone()),
        variable("MASTER_PORT", port.to_string()),
        variable("WORLD_SIZE", size.to_string()),
    ];
    if made.task.name == worker {
        env.push(variable("RANK", (made.index + 1).to_string()));
        if arguments.switch("wait-master-enabled") {
            wait_for_master(made, arguments, &address, port);
        }
    } else if made.task.name == master {
        env.push(variable("RANK", "0"));
    }
    for container in &mut made.spec().containers {
        open_port(container, "pytorchjob-port", port);
        add_env(container, &env);
    }
}

/// A container that ends when the master listens.
fn wait_for_master(made: &mut Made<'_>, arguments: &Arguments<'_>, address: &str, port: i32) {
    let containers = made.spec().init_containers.get_or_insert_default();
    if containers.iter().any(|container| container.name == WAIT) {
        return;
    }
    let timeout = arguments.number("wait-master-timeout");
    let script = format!(
        "left={timeout}\nuntil nc -z {address} {port} 2>/dev/null; do\n  if [ \"$left\" -le 0 ]; then\n    \
         echo \"the master {address}:{port} did not listen within {timeout} s\"\n    exit 1\n  fi\n  sleep 2\n  \
         left=$((left - 2))\ndone\n"
    );
    containers.push(Container {
        name: WAIT.to_owned(),
        image: Some(arguments.text("wait-master-image").to_owned()),
        command: Some(vec!["sh".to_owned(), "-c".to_owned(), script]),
        ..Container::default()
    });
}
