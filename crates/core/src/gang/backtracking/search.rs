//! The depth-first search of backtracking.
//!
//! Mostly the order in which members are placed makes no difference: then members are placed item by item, equal ones
//! on nodes in order, so that no way is tried twice. Where the nodes of a member depend on the other members (pod
//! affinity, spread, claims that members share), the order matters: the first member of an evenly spread gang keeps the
//! second off its node, and a member with pod affinity comes behind the pods that it needs. So at each point any member
//! may be next. Which members have which nodes decides what can follow, not the order in which they were placed, so
//! each such assignment is tried once.
use std::sync::Arc;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::{Item, Until};
use crate::gang::Request;
use crate::session::Session;
use crate::statement::Statement;
use phalanx_cluster::id::{NodeId, TaskId};
use phalanx_cluster::search_budget::{Budget, Cut};
use phalanx_cluster::{Cluster, Got, Status};

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

/// In which order members are placed.
enum Order {
    /// Item by item.
    Fixed,
    /// Any; with the assignments that were tried, and whether claims get their volumes with the members.
    Any { seen: FxHashSet<Assignment>, chooses_volumes: bool },
}

pub(super) struct Search<'a> {
    request: Request,
    until: Until,
    items: &'a [Item],
    nodes: &'a [NodeId],
    steps: &'a mut Budget,
    order: Order,
    /// Where members are, in the order in which they were placed.
    placed: Vec<(Place, TaskId)>,
    /// How many members of each item are placed.
    counts: Vec<usize>,
}

/// Where members are, and the volumes that their claims get, which depend on the order.
type Assignment = SmallVec<[(Place, Gets); 8]>;

/// What the claims of a member get.
type Gets = SmallVec<[Option<Got>; 1]>;

impl<'a> Search<'a> {
    /// A search that places members item by item.
    pub(super) fn new(
        request: Request,
        until: Until,
        items: &'a [Item],
        nodes: &'a [NodeId],
        steps: &'a mut Budget,
    ) -> Self {
        let counts = vec![0; items.len()];
        Self { request, until, items, nodes, steps, order: Order::Fixed, placed: Vec::new(), counts }
    }

    /// As above, for members of which any may be next.
    pub(super) fn in_any_order(self, cluster: &Cluster) -> Self {
        let mut claims =
            self.items.iter().flat_map(|item| &item.tasks).flat_map(|task| &cluster.class_of(*task).pvcs);
        let chooses_volumes = claims.any(|claim| cluster.volumes().waits(*claim));
        Self { order: Order::Any { seen: FxHashSet::default(), chooses_volumes }, ..self }
    }

    /// Leaves places that meet the request in the statement.
    pub(super) fn run(mut self, statement: &mut Statement<'_, '_>) -> Result<bool, Cut> {
        let mut frames = vec![MemberFrame::default()];
        while let Some(frame) = frames.last_mut() {
            if self.place_next(statement, frame)? {
                if self.is_done(statement.session()) {
                    return Ok(true);
                }
                let next = match self.order {
                    // The node may take another member of the item.
                    Order::Fixed => {
                        MemberFrame { item: frame.item, cursor: frame.cursor - 1, ..Default::default() }
                    }
                    Order::Any { .. } => MemberFrame::default(),
                };
                frames.push(next);
                continue;
            }
            frames.pop();
            if let Some((place, task)) = self.placed.pop() {
                self.counts[place.item] -= 1;
                statement.unplace(task);
            }
        }
        Ok(false)
    }

    fn is_done(&self, session: &Session<'_>) -> bool {
        match self.until {
            Until::GangIsWhole => {
                let placed = self.placed.iter().map(|(_, task)| *task);
                self.request.is_whole(session)
                    && session.cluster.are_in_whole_sub_groups(self.request.job, placed, Status::has_place)
            }
            Until::AllArePlaced => {
                self.items.iter().map(|item| item.tasks.len()).sum::<usize>() == self.placed.len()
            }
        }
    }

    /// Gives some member a node, so that the assignment is new.
    fn place_next(
        &mut self,
        statement: &mut Statement<'_, '_>,
        frame: &mut MemberFrame,
    ) -> Result<bool, Cut> {
        while let Some(item) = self.items.get(frame.item) {
            let task = item.tasks.get(self.counts[frame.item]).copied();
            if let Some(task) = task.filter(|task| statement.session().allocatable(*task).is_ok())
                && self.place(statement, frame, task)?
            {
                return Ok(true);
            }
            *frame = MemberFrame { item: frame.item + 1, ..MemberFrame::default() };
            if !self.may_go_on(statement.session(), frame.item) {
                break;
            }
        }
        Ok(false)
    }

    /// Whether the items from this one on can still make the gang, where those before it get no more nodes.
    fn may_go_on(&self, session: &Session<'_>, item: usize) -> bool {
        if self.until == Until::AllArePlaced && matches!(self.order, Order::Fixed) {
            return self.counts[item - 1] == self.items[item - 1].tasks.len();
        }
        let job = &session.cluster.jobs[self.request.job];
        let placed = job.counts.ready() + job.counts.of(Status::Pipelined);
        let left = || self.items[item..].iter().map(|item| item.tasks.len()).sum::<usize>();
        matches!(self.order, Order::Any { .. }) || placed as usize + left() >= job.min_member as usize
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
            if self.was_tried(statement.session().cluster, place, task)
                || !self.request.place(statement, task, node, &frame.tried)
            {
                continue;
            }
            frame.tried.push(node);
            if self.is_new(statement.session().cluster, place, task) {
                self.placed.push((place, task));
                self.counts[place.item] += 1;
                return Ok(true);
            }
            statement.unplace(task);
        }
        Ok(false)
    }

    /// Whether it is known before the task is placed that the assignment was tried.
    fn was_tried(&self, cluster: &Cluster, place: Place, task: TaskId) -> bool {
        match &self.order {
            Order::Any { seen, chooses_volumes: false } => {
                seen.contains(&self.assignment(cluster, place, task))
            }
            _ => false,
        }
    }

    /// Whether the assignment with a task that was placed was not tried before.
    fn is_new(&mut self, cluster: &Cluster, place: Place, task: TaskId) -> bool {
        let assignment = match self.order {
            Order::Fixed => return true,
            Order::Any { .. } => self.assignment(cluster, place, task),
        };
        match &mut self.order {
            Order::Fixed => true,
            Order::Any { seen, .. } => seen.insert(assignment),
        }
    }

    /// Where members are with one more. Which of several equal members is where makes no difference.
    fn assignment(&self, cluster: &Cluster, place: Place, task: TaskId) -> Assignment {
        let gets = |task: TaskId| -> Gets {
            if !matches!(self.order, Order::Any { chooses_volumes: true, .. }) {
                return Gets::new();
            }
            cluster
                .class_of(task)
                .pvcs
                .iter()
                .map(|claim| cluster.volumes().assumed(*claim).cloned())
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
