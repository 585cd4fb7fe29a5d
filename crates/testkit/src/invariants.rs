//! Invariants of every cluster after every cycle.
use phalanx_cluster::{Cluster, Counts, Node, Status};
use phalanx_resource::{Amounts, DimId};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::Cycle;

/// No dimension is below 0, unless it was before and has not fallen.
fn no_worse(after: &Amounts, before: &Amounts) -> bool {
    after.iter().all(|(dim, amount)| amount >= before.get(dim).min(0))
}

/// No node is used above its allocatable, unless it was before and the excess has not grown.
pub fn no_node_is_overfull(before: &Cluster, after: &Cluster) -> TestCaseResult {
    let jobs_on =
        |node: &Node| node.tasks.iter().filter_map(|task| after.tasks[*task].job).collect::<Vec<_>>();
    for (id, node) in after.nodes.iter() {
        let was = &before.nodes[id];
        prop_assert!(no_worse(&node.idle, &was.idle), "idle of {}: {:?}", node.name, node.idle);
        // A repair reserves nodes on which resources are still missing.
        if jobs_on(node).iter().any(|job| after.jobs[*job].is_broken()) {
            continue;
        }
        let (now, was) = (node.future_idle(), was.future_idle());
        prop_assert!(no_worse(&now, &was), "future room of {}: {now:?}", node.name);
    }
    Ok(())
}

/// A pod that was bound in this cycle was bound with its gang; the gang of a nominated pod is nominated or ready.
pub fn gangs_are_whole(after: &Cluster, cycle: &Cycle) -> TestCaseResult {
    let promised = |counts: &Counts| counts.ready() + counts.of(Status::Pipelined);
    for (_, job) in after.jobs.iter() {
        let bound = job.tasks.iter().any(|task| cycle.bound.contains_key(&*after.tasks[*task].pod.name));
        let ready = job.counts.ready() >= job.min_member && job.roles_satisfied(Counts::ready).is_ok();
        // A gang that became ready may lose members again to a queue below its deserved share.
        let gave = job
            .tasks
            .iter()
            .any(|task| cycle.evicted.iter().any(|pod| **pod == *after.tasks[*task].pod.name));
        prop_assert!(!bound || ready || gave, "{} is bound in part", job.key);
        let whole = promised(&job.counts) >= job.min_member && job.roles_satisfied(promised).is_ok();
        prop_assert!(job.counts.of(Status::Pipelined) == 0 || whole, "{} holds room for a part", job.key);
        prop_assert_eq!(job.counts.of(Status::Allocated), 0, "left undecided");
    }
    Ok(())
}

/// No queue holds more than its capability, unless it did before and has not grown.
pub fn no_queue_grows_over_its_capability(before: &Cluster, after: &Cluster) -> TestCaseResult {
    for (id, queue) in after.queues.iter() {
        for (dim, limit) in queue.capability.iter().filter(|(dim, _)| *dim != DimId::PODS) {
            let (now, was) = (queue.held().get(dim), before.queues[id].held().get(dim));
            prop_assert!(now <= limit.max(was), "{} holds {now} of {limit}", queue.name);
        }
    }
    Ok(())
}

/// A sub-group of which a pod was bound in this cycle has all the pods that it needs, unless some were evicted.
pub fn sub_groups_are_whole(after: &Cluster, cycle: &Cycle) -> TestCaseResult {
    for (id, job) in after.jobs.iter() {
        for group in after.sub_groups(id) {
            let name = |task: &phalanx_cluster::id::TaskId| after.tasks[*task].pod.name.to_string();
            let bound = group.tasks.iter().any(|task| cycle.bound.contains_key(&name(task)));
            let ready = group.tasks.iter().filter(|task| after.tasks[**task].status.is_ready()).count();
            let size = job.sub_groups[group.policy].size as usize;
            prop_assert!(!bound || ready >= size, "a sub-group of {} has {ready} of {size} pods", job.key);
        }
    }
    Ok(())
}

/// The pods of a job with a hard network topology are in one HyperNode of it, if one of them got a node in this cycle;
/// so are those of a sub-group.
pub fn gangs_are_near(after: &Cluster, cycle: &Cycle) -> TestCaseResult {
    for (id, job) in after.jobs.iter().filter(|(_, job)| job.asks_topology()) {
        let of_job = (job.topology.as_ref(), job.tasks.clone());
        let of_group =
            |group: phalanx_cluster::SubGroup| (job.sub_groups[group.policy].topology.as_ref(), group.tasks);
        for (topology, tasks) in after.sub_groups(id).into_iter().map(of_group).chain([of_job]) {
            let names: Vec<&str> = tasks.iter().map(|task| &*after.tasks[*task].pod.name).collect();
            let nominated = |name: &&&str| matches!(cycle.nominated.get(**name), Some(Some(_)));
            let got_node = names.iter().any(|name| cycle.bound.contains_key(*name) || nominated(&name));
            let apart = after.domains_of(topology, &after.nodes_of(tasks.iter())).is_err();
            prop_assert!(!(got_node && apart), "pods of {} are apart: {names:?}", job.key);
        }
    }
    Ok(())
}
