//! `hcclrank`: the rank of a pod in a distributed Ascend job, as annotation `hccl/rankIndex`.

use k8s_openapi::api::core::v1::Pod;
use phalanx_api::names::HCCL_RANK_INDEX;

use super::arguments::{Argument, Arguments, text};
use super::{Made, Plugin, any_job, nothing};
use crate::meta::annotation;

pub(super) const PLUGIN: Plugin =
    Plugin { name: "hcclrank", arguments: ARGUMENTS, objects: nothing, change_pod, check: any_job };

const ARGUMENTS: &[Argument] = &[text("master", "master"), text("worker", "worker")];

fn change_pod(made: &mut Made<'_>, arguments: &Arguments<'_>) {
    if annotation(&made.pod.metadata, HCCL_RANK_INDEX).is_some_and(|rank| !rank.is_empty()) {
        return;
    }
    let (master, worker) = (arguments.text("master"), arguments.text("worker"));
    let own = || {
        if made.task.name == master {
            Some(made.index)
        } else {
            let masters = made.task(master).map_or(0, |task| task.replicas);
            (made.task.name == worker).then_some(masters + made.index)
        }
    };
    let rank = of_env(made.pod).or_else(|| own().map(|rank| rank.to_string()));
    if let Some(rank) = rank {
        made.pod.metadata.annotations.get_or_insert_default().insert(HCCL_RANK_INDEX.to_owned(), rank);
    }
}

/// The variable `RANK`, which the template or plugin pytorch may set.
fn of_env(pod: &Pod) -> Option<String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let rank =
        containers.flat_map(|container| container.env.iter().flatten()).find(|one| one.name == "RANK")?;
    rank.value.clone().filter(|value| !value.is_empty())
}
