//! Backtracking where the nodes of a member depend on the other members: pod affinity, spread, claims that members share.
//!
//! The order in which members are placed matters then: the first member of an evenly spread gang keeps the second off its node,
//! and a member with pod affinity comes behind the pods that it needs. So at each point any member may be next. Which members
//! have which nodes decides what can follow, not the order in which they were placed, so each such assignment is tried once.
use std::sync::Arc;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::Item;
use crate::gang::Request;
use crate::statement::Statement;
use phalanx_cluster::budget::{Budget, Cut};
use phalanx_cluster::id::{NodeId, TaskId};
use phalanx_cluster::{Cluster, Got};

/// A task of an item on a node, both by their positions in the lists of the search.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Place {
    item: usize,
    node: usize,
}

/// What was tried for one member.
#[derive(Default)]
struct MemberFrame {
    item: usize,
    /// The next node to try.
    cursor: usize,
    /// Nodes that were tried for this item: a node like one of these would fail as well.
    tried: SmallVec<[NodeId; 8]>,
}

pub(super) struct InterdependentSearch<'a> {
    request: Request,
    items: &'a [Item],
    nodes: &'a [NodeId],
    steps: &'a mut Budget,
    /// Some claims get their volumes with the members.
    chooses_volumes: bool,
    /// Where members are, in the order in which they were placed.
    placed: Vec<(Place, TaskId)>,
    /// Assignments that were tried.
    seen: FxHashSet<Assignment>,
}

/// Where members are, and the volumes that their claims get, which depend on the order.
type Assignment = SmallVec<[(Place, Gets); 8]>;

/// What the claims of a member get.
type Gets = SmallVec<[Option<Got>; 1]>;

impl<'a> InterdependentSearch<'a> {
    pub(super) fn new(
        request: Request,
        cluster: &Cluster,
        items: &'a [Item],
        nodes: &'a [NodeId],
        steps: &'a mut Budget,
    ) -> Self {
        let mut claims =
            items.iter().flat_map(|item| &item.tasks).flat_map(|task| &cluster.class_of(*task).pvcs);
        let chooses_volumes = claims.any(|claim| cluster.volumes().waits(*claim));
        Self { request, items, nodes, steps, chooses_volumes, placed: Vec::new(), seen: FxHashSet::default() }
    }

    /// Leaves places that meet the request in the statement.
    pub(super) fn run(mut self, statement: &mut Statement<'_, '_>) -> Result<bool, Cut> {
        let mut frames = vec![MemberFrame::default()];
        while let Some(frame) = frames.last_mut() {
            if self.place_next(statement, frame)? {
                if self.request.is_whole(statement.session()) {
                    return Ok(true);
                }
                frames.push(MemberFrame::default());
                continue;
            }
            frames.pop();
            if let Some((_, task)) = self.placed.pop() {
                statement.unplace(task);
            }
        }
        Ok(false)
    }

    /// Gives some member a node, so that the assignment is new.
    fn place_next(
        &mut self,
        statement: &mut Statement<'_, '_>,
        frame: &mut MemberFrame,
    ) -> Result<bool, Cut> {
        while let Some(item) = self.items.get(frame.item) {
            let count = self.placed.iter().filter(|(place, _)| place.item == frame.item).count();
            let task = item.tasks.get(count).copied();
            if let Some(task) = task.filter(|task| statement.session().allocatable(*task).is_ok())
                && self.place(statement, frame, task)?
            {
                return Ok(true);
            }
            *frame = MemberFrame { item: frame.item + 1, ..MemberFrame::default() };
        }
        Ok(false)
    }

    fn place(
        &mut self,
        statement: &mut Statement<'_, '_>,
        frame: &mut MemberFrame,
        task: TaskId,
    ) -> Result<bool, Cut> {
        while let Some(node) = self.nodes.get(frame.cursor).copied() {
            self.steps.spend(1)?;
            let place = Place { item: frame.item, node: frame.cursor };
            frame.cursor += 1;
            if (!self.chooses_volumes && !self.is_new(statement, place, task))
                || !self.request.place(statement, task, node, &frame.tried)
            {
                continue;
            }
            frame.tried.push(node);
            let assignment = self.assignment(statement, place, task);
            if self.seen.insert(assignment) {
                self.placed.push((place, task));
                return Ok(true);
            }
            statement.unplace(task);
        }
        Ok(false)
    }

    fn is_new(&self, statement: &mut Statement<'_, '_>, place: Place, task: TaskId) -> bool {
        !self.seen.contains(&self.assignment(statement, place, task))
    }

    /// Where members are with one more. Which of several equal members is where makes no difference.
    fn assignment(&self, statement: &mut Statement<'_, '_>, place: Place, task: TaskId) -> Assignment {
        let cluster = &*statement.session().cluster;
        let gets = |task: TaskId| -> Gets {
            if !self.chooses_volumes {
                return Gets::new();
            }
            cluster
                .class_of(task)
                .pvcs
                .iter()
                .map(|claim| cluster.volumes().promised(*claim).cloned())
                .collect()
        };
        let all = self.placed.iter().copied().chain([(place, task)]);
        let mut assignment: Assignment = all.map(|(place, task)| (place, gets(task))).collect();
        let volumes = |gets: &Gets| -> SmallVec<[Option<Arc<str>>; 1]> {
            gets.iter().map(|got| got.as_ref()?.volume.clone()).collect()
        };
        assignment.sort_by(|(a, one), (b, other)| a.cmp(b).then_with(|| volumes(one).cmp(&volumes(other))));
        assignment
    }
}
