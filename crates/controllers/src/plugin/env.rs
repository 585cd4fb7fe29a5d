//! `env`: the number of a pod within its task, as `VC_TASK_INDEX` and `VK_TASK_INDEX`.

use super::arguments::Arguments;
use super::pods::{add_env, containers, variable};
use super::{Made, Plugin, any_job, nothing};

pub(super) const PLUGIN: Plugin =
    Plugin { name: "env", arguments: &[], objects: nothing, change_pod, check: any_job };

fn change_pod(made: &mut Made<'_>, _: &Arguments<'_>) {
    let index = made.index.to_string();
    let variables = [variable("VK_TASK_INDEX", index.clone()), variable("VC_TASK_INDEX", index)];
    containers(made.spec()).for_each(|container| add_env(container, &variables));
}
