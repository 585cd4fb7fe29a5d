mod commands;
mod crashes;
mod group;
mod invalid;
mod phases;
mod plugins;
mod pods;
mod policies;

use crate::cluster::Cluster;

/// A job of a master and two workers, with more fields of its spec.
pub(crate) fn spec(more: &str) -> String {
    let pod = "template: {spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 500m}}}]}}";
    format!("tasks:\n- {{name: master, replicas: 1, {pod}}}\n- {{name: worker, replicas: 2, {pod}}}\n{more}")
}

/// Such a job, with all its pods running.
pub(crate) fn running(more: &str) -> Cluster {
    let mut cluster = Cluster::new(&spec(more));
    cluster.settle();
    cluster.set_all("Running");
    cluster.settle();
    cluster
}

pub(crate) const ALL: [&str; 3] = ["master-0", "worker-0", "worker-1"];
