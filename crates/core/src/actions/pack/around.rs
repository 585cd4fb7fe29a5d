//! The search where members look at who is where: company, distance, spread, claims that they share.
//!
//! There the order in which members come matters: the first one of an evenly spread gang keeps the second off its node, and
//! whoever seeks company comes behind it. So at each point any member may be next. What holds after some were placed does
//! not depend on their order, so each outcome is gone on from once.
use std::sync::Arc;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::{Goal, Item};
use crate::statement::Statement;
use phalanx_cluster::budget::{Budget, Cut};
use phalanx_cluster::id::{NodeId, TaskId};
use phalanx_cluster::{Cluster, Got};

/// Which item, and where a task of it is, by position.
type Place = (usize, usize);

/// What was tried for the next member.
#[derive(Default)]
struct Frame {
    item: usize,
    /// The next node to try.
    cursor: usize,
    /// Nodes that were tried for this item: another that is like one of them is as good, that is, as bad.
    tried: SmallVec<[NodeId; 8]>,
}

pub(super) struct Around<'a> {
    goal: Goal,
    items: &'a [Item],
    nodes: &'a [NodeId],
    steps: &'a mut Budget,
    /// Some claims get their volumes with the members.
    open: bool,
    /// Where members are, in the order in which they came.
    way: Vec<(Place, TaskId)>,
    /// Outcomes that were gone on from.
    seen: FxHashSet<Outcome>,
}

/// Where members are, and the volumes that their claims get by that, which depend on their order.
type Outcome = SmallVec<[(Place, Gets); 8]>;

/// What claims of a member get.
type Gets = SmallVec<[Option<Got>; 1]>;

impl<'a> Around<'a> {
    pub(super) fn new(
        goal: Goal,
        cluster: &Cluster,
        items: &'a [Item],
        nodes: &'a [NodeId],
        steps: &'a mut Budget,
    ) -> Self {
        let mut claims =
            items.iter().flat_map(|item| &item.tasks).flat_map(|task| &cluster.class_of(*task).pvcs);
        let open = claims.any(|claim| cluster.volumes().waits(*claim));
        Self { goal, items, nodes, steps, open, way: Vec::new(), seen: FxHashSet::default() }
    }

    /// Leaves a way in which the job can start in the statement.
    pub(super) fn run(mut self, statement: &mut Statement<'_, '_>) -> Result<bool, Cut> {
        let mut frames = vec![Frame::default()];
        while let Some(frame) = frames.last_mut() {
            if self.place_next(statement, frame)? {
                if self.goal.is_met(statement.session()) {
                    return Ok(true);
                }
                frames.push(Frame::default());
                continue;
            }
            frames.pop();
            if let Some((_, task)) = self.way.pop() {
                statement.unplace(task);
            }
        }
        Ok(false)
    }

    /// Gives some member a node, with an outcome that is new.
    fn place_next(&mut self, statement: &mut Statement<'_, '_>, frame: &mut Frame) -> Result<bool, Cut> {
        while let Some(item) = self.items.get(frame.item) {
            let placed = self.way.iter().filter(|((of, _), _)| *of == frame.item).count();
            let task = item.tasks.get(placed).copied();
            if let Some(task) = task.filter(|task| self.goal.allows(statement.session(), *task))
                && self.place(statement, frame, task)?
            {
                return Ok(true);
            }
            *frame = Frame { item: frame.item + 1, ..Frame::default() };
        }
        Ok(false)
    }

    fn place(
        &mut self,
        statement: &mut Statement<'_, '_>,
        frame: &mut Frame,
        task: TaskId,
    ) -> Result<bool, Cut> {
        while let Some(node) = self.nodes.get(frame.cursor).copied() {
            self.steps.spend(1)?;
            let place = (frame.item, frame.cursor);
            frame.cursor += 1;
            if (!self.open && !self.is_new(statement, place, task))
                || !self.goal.place(statement, task, node, &frame.tried)
            {
                continue;
            }
            frame.tried.push(node);
            let outcome = self.outcome(statement, place, task);
            if self.seen.insert(outcome) {
                self.way.push((place, task));
                return Ok(true);
            }
            statement.unplace(task);
        }
        Ok(false)
    }

    fn is_new(&self, statement: &mut Statement<'_, '_>, place: Place, task: TaskId) -> bool {
        !self.seen.contains(&self.outcome(statement, place, task))
    }

    /// Where members are with one more. Which of those that are alike is where makes no difference.
    fn outcome(&self, statement: &mut Statement<'_, '_>, place: Place, task: TaskId) -> Outcome {
        let cluster = &*statement.session().cluster;
        let gets = |task: TaskId| -> Gets {
            if !self.open {
                return Gets::new();
            }
            cluster
                .class_of(task)
                .pvcs
                .iter()
                .map(|claim| cluster.volumes().promised(*claim).cloned())
                .collect()
        };
        let all = self.way.iter().copied().chain([(place, task)]);
        let mut outcome: Outcome = all.map(|(place, task)| (place, gets(task))).collect();
        let volumes = |gets: &Gets| -> SmallVec<[Option<Arc<str>>; 1]> {
            gets.iter().map(|got| got.as_ref()?.volume.clone()).collect()
        };
        outcome.sort_by(|(a, one), (b, other)| a.cmp(b).then_with(|| volumes(one).cmp(&volumes(other))));
        outcome
    }
}
