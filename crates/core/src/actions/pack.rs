//! A second look at a gang of unlike members that did not fit one by one.
//!
//! Taking the best node for each member can lose: small members spread over the nodes that a large one needs whole, or take
//! what the queue may have while two others would have made the gang. Here those that fit the fewest nodes come first, the
//! fullest nodes are filled first, and a place that leads nowhere is taken back: a depth-first search over all ways that
//! differ. On a small cluster a *no* is therefore true; on a large one the search ends after so many steps, always at the
//! same point.
use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::sync::Arc;

use crate::budget::{Budget, Cut};
use crate::id::{JobId, NodeId, TaskId};
use crate::placement::Room;
use crate::session::Session;
use crate::statement::Statement;
use crate::world::Status;

/// Questions about one node that the search for one gang may ask.
const STEPS: u64 = 50_000;
/// Nodes that are looked at in the time that such a question takes.
const SCANNED: usize = 16;

/// Places a gang if there is any way to do so, and commits it: all at once, or where room is being released. False when there
/// is no way, and when all of its members are alike: then one by one is as good.
pub(super) fn place_whole(session: &mut Session<'_>, job: JobId, tasks: &[TaskId]) -> Result<bool, Cut> {
    let mut items = items(session, tasks);
    let queue = session.world.jobs[job].queue;
    let allowed = |item: &Item| session.allocatable(queue, item.tasks[0]).is_ok();
    if items.len() < 2 || !items.iter().any(allowed) {
        return Ok(false);
    }
    let mut steps = session.searches.part(STEPS);
    let done = look(session, job, &mut items, &mut steps);
    session.searches.give_back(&steps);
    // With as many steps as a search may make it would end at the same point again.
    session.cut_short |= done.is_err_and(|cut| cut != Cut::Steps(STEPS));
    done
}

fn look(session: &mut Session<'_>, job: JobId, items: &mut [Item], steps: &mut Budget) -> Result<bool, Cut> {
    steps.spend(session.world.nodes.len() / SCANNED)?;
    let nodes = nodes(session, items);
    steps.spend(items.len() * nodes.len())?;
    sort_hardest_first(session, items, &nodes);
    let releasing = nodes.iter().any(|node| !session.world.nodes[*node].releasing.is_zero());
    for later in [false, true].into_iter().filter(|later| !later || releasing) {
        let mut statement = session.statement();
        let mut search = Search { job, items, nodes: &nodes, later, steps };
        if search.run(&mut statement)? {
            commit(statement, job);
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn commit(mut statement: Statement<'_, '_>, job: JobId) {
    let why = Arc::from("");
    if statement.session().job_ready(job) {
        statement.commit(&why);
    } else {
        statement.commit_reserved(&why);
    }
}

/// Tasks that no rule can tell apart, in the order in which they are served.
struct Item {
    tasks: Vec<TaskId>,
}

fn items(session: &Session<'_>, tasks: &[TaskId]) -> Vec<Item> {
    let mut at = FxHashMap::default();
    let mut items: Vec<Item> = Vec::new();
    for task in tasks {
        let alike = (session.tiers.asker(session.world, *task).key(), session.world.tasks[*task].role);
        let item = *at.entry(alike).or_insert_with(|| {
            items.push(Item { tasks: Vec::new() });
            items.len() - 1
        });
        items[item].tasks.push(*task);
    }
    items
}

/// Nodes that may have room for any of the items, those with the least left first.
fn nodes(session: &Session<'_>, items: &[Item]) -> Vec<NodeId> {
    let world = &*session.world;
    let requests: Vec<&Amounts> = items.iter().map(|item| world.request_of(item.tasks[0])).collect();
    let mut most = Amounts::new();
    for (_, node) in world.nodes.iter() {
        most.max_with(&node.idle);
    }
    let left = |node: NodeId| {
        let share = |(dim, idle): (_, i64)| idle.max(0) as f64 / most.get(dim).max(1) as f64;
        (world.nodes[node].idle.iter().map(share).sum::<f64>() * 1e6) as i64
    };
    let mut nodes: Vec<NodeId> = world
        .nodes
        .iter()
        .filter(|(_, node)| node.exists && requests.iter().any(|request| node.fits_later(request)))
        .map(|(id, _)| id)
        .collect();
    nodes.sort_by_cached_key(|node| (left(*node), world.nodes[*node].name.clone()));
    nodes
}

/// Those that the fewest nodes have room for first, then those that ask for the most.
fn sort_hardest_first(session: &mut Session<'_>, items: &mut [Item], nodes: &[NodeId]) {
    let mut keys: FxHashMap<TaskId, (usize, Reverse<i64>)> = FxHashMap::default();
    for item in &*items {
        let task = item.tasks[0];
        let homes = nodes.iter().filter(|node| session.takes(task, **node)).count();
        let largest = session.world.request_of(task).iter().map(|(_, amount)| amount).max();
        keys.insert(task, (homes, Reverse(largest.unwrap_or(0))));
    }
    items.sort_by_key(|item| keys[&item.tasks[0]]);
}

/// Where the next task goes, and what was tried for it.
struct Frame {
    item: usize,
    /// Which of the item's tasks.
    at: usize,
    /// The next node to try. Alike tasks take nodes in order, so that no way is tried twice.
    cursor: usize,
    /// Nodes that were tried: another that is like one of them is as good, that is, as bad.
    tried: SmallVec<[NodeId; 8]>,
    placed: Option<TaskId>,
}

impl Frame {
    fn of(item: usize, at: usize, cursor: usize) -> Self {
        Self { item, at, cursor, tried: SmallVec::new(), placed: None }
    }
}

struct Search<'a> {
    job: JobId,
    items: &'a [Item],
    nodes: &'a [NodeId],
    /// Room that is being released counts.
    later: bool,
    steps: &'a mut Budget,
}

impl Search<'_> {
    /// Leaves a way in which the job can start in the statement.
    fn run(&mut self, statement: &mut Statement<'_, '_>) -> Result<bool, Cut> {
        for task in self.items.iter().flat_map(|item| &item.tasks) {
            if statement.session().world.tasks[*task].status == Status::Pipelined {
                statement.unplace(*task);
            }
        }
        let mut frames = vec![Frame::of(0, 0, 0)];
        while let Some(frame) = frames.last_mut() {
            if let Some(task) = frame.placed.take() {
                statement.unplace(task);
            }
            if self.place_next(statement, frame)? {
                if self.is_met(statement.session()) {
                    return Ok(true);
                }
                let next = self.after(frame);
                frames.push(next);
            } else if !self.leave_out_rest(statement.session(), frame) {
                frames.pop();
            }
        }
        Ok(false)
    }

    fn is_met(&self, session: &Session<'_>) -> bool {
        session.job_ready(self.job) || (self.later && session.job_pipelined(self.job))
    }

    fn after(&self, frame: &Frame) -> Frame {
        if frame.at + 1 < self.items[frame.item].tasks.len() {
            Frame::of(frame.item, frame.at + 1, frame.cursor - 1)
        } else {
            Frame::of(frame.item + 1, 0, 0)
        }
    }

    /// Gives the frame's task the next node that was not tried and has room.
    fn place_next(&mut self, statement: &mut Statement<'_, '_>, frame: &mut Frame) -> Result<bool, Cut> {
        let Some(item) = self.items.get(frame.item) else { return Ok(false) };
        let (task, session) = (item.tasks[frame.at], statement.session());
        let queue = session.world.jobs[self.job].queue;
        if session.allocatable(queue, task).is_err() {
            return Ok(false);
        }
        while frame.cursor < self.nodes.len() {
            self.steps.spend(1)?;
            let node = self.nodes[frame.cursor];
            frame.cursor += 1;
            match statement.session().room(task, node, &frame.tried) {
                Some(Room::Now) => statement.allocate(task, node),
                Some(Room::Later) if self.later => statement.pipeline(task, node),
                _ => continue,
            }
            frame.tried.push(node);
            frame.placed = Some(task);
            return Ok(true);
        }
        Ok(false)
    }

    /// Goes on with the next item, if what is left can still make the gang.
    fn leave_out_rest(&self, session: &Session<'_>, frame: &mut Frame) -> bool {
        let next = frame.item + 1;
        let Some(rest) = self.items.get(next..).filter(|rest| !rest.is_empty()) else { return false };
        let job = &session.world.jobs[self.job];
        let placed = job.counts.ready() + job.counts.of(Status::Pipelined);
        let left: usize = rest.iter().map(|item| item.tasks.len()).sum();
        if (placed as usize) + left < job.min_member as usize {
            return false;
        }
        *frame = Frame::of(next, 0, 0);
        true
    }
}
