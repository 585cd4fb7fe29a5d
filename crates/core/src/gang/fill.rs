//! How a domain is filled: one of its HyperNodes after the other, so that neighbours in the order of tasks are neighbours
//! in the network. The tightest one with room for all that are left comes first, else the one with the most room.
use std::cmp::Reverse;

use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::{HyperNodeId, Status};

use super::greedy::Greedy;
use crate::network::{Domain, Room};
use crate::session::Session;
use crate::statement::Statement;

/// How the HyperNodes of a domain are filled.
pub(super) struct Fill {
    pub(super) job: JobId,
    /// All tasks are placed, else tasks until the job is ready.
    pub(super) all: bool,
    /// They have a network topology, so that one HyperNode is filled after the other.
    pub(super) near: bool,
    /// How many tasks need nodes.
    pub(super) wanted: u64,
}

impl Fill {
    /// Places tasks in one HyperNode of the domain after the other, then in what is left of the domain. What is left of
    /// the tasks stays in the list. Returns whether enough are placed.
    pub(super) fn fill(
        &self,
        statement: &mut Statement<'_, '_>,
        room: &Room,
        domain: &Domain,
        tasks: &mut Vec<TaskId>,
    ) -> bool {
        let mut below = if self.near { below(statement.session(), room, domain) } else { Vec::new() };
        while let Some(at) = self.next(&below, tasks.len() as u64) {
            let (_, lower) = below.swap_remove(at);
            let lower = Domain::of(statement.session().cluster, lower);
            if self.fill(statement, room, &lower, tasks) {
                return true;
            }
        }
        let chosen = statement.session().chosen_domain.clone();
        if let (Some(chosen), Some(_)) = (&mut statement.session().chosen_domain, domain.hyper_node) {
            chosen.domain = domain.clone();
        }
        let enough = self.place(statement, tasks);
        statement.session().chosen_domain = chosen;
        enough
    }

    /// The tightest with room for all that are left, else the one with the most room.
    fn next(&self, below: &[(u64, HyperNodeId)], left: u64) -> Option<usize> {
        let left = left.min(self.wanted);
        let fitting = (0..below.len()).filter(|at| below[*at].0 >= left).min_by_key(|at| below[*at]);
        let largest = || (0..below.len()).max_by_key(|at| (below[*at].0, Reverse(below[*at].1)));
        if left == 0 { None } else { fitting.or_else(largest) }
    }

    fn place(&self, statement: &mut Statement<'_, '_>, tasks: &mut Vec<TaskId>) -> bool {
        loop {
            let before = tasks.len();
            Greedy::default().place_tasks(statement, self.job, tasks.iter().copied());
            let session = statement.session();
            tasks.retain(|task| session.cluster.tasks[*task].status == Status::Pending);
            if !self.all && tasks.len() < before && session.job_ready(self.job) {
                return true;
            }
            // Placing stops where the job becomes ready, which is too early for a sub-group.
            if tasks.is_empty() || tasks.len() == before || !self.all {
                return tasks.is_empty();
            }
        }
    }
}

/// The HyperNodes directly below a domain that have room, and for how many tasks.
fn below(session: &Session<'_>, room: &Room, domain: &Domain) -> Vec<(u64, HyperNodeId)> {
    if session.network_order().is_none() {
        return Vec::new();
    }
    let hyper_nodes = &session.cluster.hyper_nodes;
    let below: Vec<HyperNodeId> = match domain.hyper_node {
        Some(id) => hyper_nodes.get(id).children.clone(),
        None => hyper_nodes.iter().filter(|(_, it)| it.parent.is_none()).map(|(id, _)| id).collect(),
    };
    below.into_iter().map(|id| (room.on(id), id)).filter(|(fits, _)| *fits > 0).collect()
}
