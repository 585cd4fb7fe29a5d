//! shuffle: evicts running pods that plugins want moved, for nobody.
//!
//! The plugins of a tier name victims together; the first tier that names any decides. PodDisruptionBudgets and pods that
//! must not be evicted are respected whoever names them. A pod that a plugin wants elsewhere goes only if a place is there:
//! in a statement that is undone, those that move are put on nodes that nobody leaves, with what they ask for and what
//! their queues may have, each seen by the next. Source: Volcano's shuffle action, which asks for no place.
use std::cell::RefCell;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::ActionDef;
use crate::conf::Flag;
use crate::id::{NodeId, TaskId};
use crate::placement::Room;
use crate::session::Session;
use crate::statement::Statement;
use crate::world::{Budgets, Status};

/// How many places it tries in a cycle; those that are left then stay.
const MAX_STEPS: usize = 100_000;

pub(super) const DEF: ActionDef =
    ActionDef { name: "shuffle", summary: "Evicts running pods that plugins want moved.", args: &[], run };

fn run(session: &mut Session<'_>) {
    let (mut victims, leave) = named(session);
    let budgets = Budgets::new(session.world);
    victims.retain(|task| budgets.may(*task));
    // Whoever a budget keeps after all holds its room, so the others' places are looked for again.
    loop {
        let movable = with_place(session, &victims, &leave);
        let mut budgets = Budgets::new(session.world);
        let going: Vec<TaskId> = movable.into_iter().filter(|task| budgets.take(*task)).collect();
        let all = going.len() == victims.len();
        victims = going;
        if all {
            break;
        }
    }
    if victims.is_empty() {
        return;
    }
    let mut statement = session.statement();
    for task in victims {
        statement.evict(task);
    }
    statement.commit(&Arc::from("shuffle: evicted to be placed anew"));
}

/// Those that plugins name and that may go, and which of them go whether there is a place for them or not.
fn named(session: &Session<'_>) -> (Vec<TaskId>, FxHashSet<TaskId>) {
    let world = &*session.world;
    let running = |id: &TaskId| world.tasks[*id].status == Status::Running && world.tasks[*id].job.is_some();
    let running: Vec<TaskId> = world.tasks.ids().filter(running).collect();
    let leave = RefCell::new(FxHashSet::default());
    let mut victims = session.tiers.union(Flag::Victim, |plugin| {
        let named = plugin.victim_tasks(world, &running);
        if !plugin.moves_victims() {
            leave.borrow_mut().extend(named.iter().copied());
        }
        named
    });
    let protected = |task: &TaskId| session.tiers.every().any(|plugin| plugin.protects(world, *task));
    victims.retain(|task| {
        let runs = world.tasks[*task].status == Status::Running;
        runs && world.lets_itself_go(*task, session.now) && !protected(task)
    });
    (victims, leave.into_inner())
}

/// Those of the victims that have a place when all of them before have theirs, and those that leave anyway.
fn with_place(session: &mut Session<'_>, victims: &[TaskId], leave: &FxHashSet<TaskId>) -> Vec<TaskId> {
    let left: FxHashSet<NodeId> = victims.iter().filter_map(|task| session.world.tasks[*task].node).collect();
    let mut steps = MAX_STEPS;
    let mut going = Vec::new();
    let mut statement = session.statement();
    for task in victims {
        if leave.contains(task) || moves(&mut statement, *task, &left, &mut steps) {
            going.push(*task);
        }
    }
    going
}

/// Puts a task on a node that nobody leaves, if one takes it now.
fn moves(
    statement: &mut Statement<'_, '_>,
    task: TaskId,
    left: &FxHashSet<NodeId>,
    steps: &mut usize,
) -> bool {
    let mut attempt = statement.nested();
    attempt.unplace(task);
    let session = attempt.session();
    let Some(job) = session.world.tasks[task].job else { return false };
    if session.allocatable(session.world.jobs[job].queue, task).is_err() {
        return false;
    }
    let best = session.spot(task).filter(|spot| spot.room == Room::Now && !left.contains(&spot.node));
    let Some(node) = best.map(|spot| spot.node).or_else(|| any_place(session, task, left, steps)) else {
        return false;
    };
    attempt.allocate(task, node);
    attempt.keep();
    true
}

fn any_place(
    session: &mut Session<'_>,
    task: TaskId,
    left: &FxHashSet<NodeId>,
    steps: &mut usize,
) -> Option<NodeId> {
    let nodes: Vec<NodeId> = session.world.nodes.ids().filter(|node| !left.contains(node)).collect();
    let tried = nodes.len().min(*steps);
    *steps -= tried;
    nodes[..tried].iter().copied().find(|node| session.room(task, *node, &[]) == Some(Room::Now))
}
