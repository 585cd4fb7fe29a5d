//! shuffle: evicts running pods that plugins want moved, for no other job.
//!
//! The plugins of a tier name victims together; the first tier that names any decides. The rest is as for victims of
//! other actions: who must not be evicted stays, PodDisruptionBudgets are counted down, and a pod goes only when a
//! place for it is proven. In a statement that is undone, those that move are put on nodes that no pod leaves, with
//! what they ask for and what their queues may have, each seen by the next. That place is kept for the pod that its
//! controller makes in its stead (a reservation). Where the time of a node is over (`tdm`) pods leave it whether there
//! is a place or not.
//!
//! Source: Volcano's shuffle action, which evicts what plugins name without further checks.
use std::cell::RefCell;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::ActionDef;
use crate::decision::Cause;
use crate::eviction::potential_victims;
use crate::reservation;
use crate::session::Session;
use crate::statement::Statement;
use crate::steps::{MAX_STEPS_ARG, MAX_TIME_ARG, Steps};
use phalanx_cluster::diagnosis::NoEviction;
use phalanx_cluster::id::{NodeId, TaskId};
use phalanx_cluster::{Budgets, Status};
use phalanx_framework::conf::{Allowed, ArgKind, ArgSpec, Flag, Otherwise, Rule};
use phalanx_framework::placement::Fit;

const NAME: &str = "shuffle";

/// How long a place is kept, in milliseconds.
const KEEP: i64 = 60_000;

const KEEP_ARG: ArgSpec = ArgSpec {
    name: "keepPlace",
    kind: ArgKind::Duration(&[Rule::new(Allowed::AtLeast(0), Otherwise::Does("no place is kept"))]),
    default: "1m",
    doc: "How long the place of a pod that was moved is kept for the one that is made in its stead, once it is gone; ten times \
          as long while it is not. `0s` keeps none.",
};

pub(crate) const DEF: ActionDef = ActionDef {
    name: NAME,
    summary: "Evicts running pods that plugins want moved, if there is a place for them elsewhere, and keeps it for them.",
    args: &[MAX_STEPS_ARG, MAX_TIME_ARG, KEEP_ARG],
    run,
};

/// A pod that goes, and where there is a place for it.
type Move = (TaskId, Option<NodeId>);

fn run(session: &mut Session<'_>) {
    potential_victims::note_refusals(session);
    let (victims, leave) = named(session);
    if victims.is_empty() {
        return;
    }
    let keep = session.conf.action_args(NAME).duration_ms(KEEP_ARG.name, KEEP);
    let moves = planned(session, victims, &leave);
    let mut statement = session.statement();
    for (task, _) in &moves {
        statement.evict(*task);
    }
    let reason = "shuffle: evicted to be placed anew".into();
    statement.commit(&Arc::new(Cause { action: NAME, by: None, reason }));
    for (task, place) in moves {
        if let Some(node) = place.filter(|_| keep > 0) {
            reservation::keep_for_successor(session, task, node, keep);
        }
    }
}

/// Those that plugins name of the running pods that may go, and which of them go whether there is a place for them or
/// not.
fn named(session: &Session<'_>) -> (Vec<TaskId>, FxHashSet<TaskId>) {
    let cluster = &*session.cluster;
    if session.tiers.with(Flag::Victim).all(|plugin| plugin.rebalancer().is_none()) {
        return Default::default();
    }
    let budgets = Budgets::new(cluster);
    let may_go = |id: &TaskId| {
        let running = cluster.tasks[*id].status == Status::Running && cluster.tasks[*id].job.is_some();
        running && potential_victims::lets_go(session, session.tiers.every(), *id) && budgets.may(*id)
    };
    let running: Vec<TaskId> = cluster.tasks.ids().filter(may_go).collect();
    let leave = RefCell::new(FxHashSet::default());
    let victims = session.tiers.sum_of_first_tier(Flag::Victim, |plugin| {
        let Some(rebalancer) = plugin.rebalancer() else { return Vec::new() };
        let named = rebalancer.victims(cluster, &running);
        if !rebalancer.needs_other_node() {
            leave.borrow_mut().extend(named.iter().copied());
        }
        named
    });
    (victims, leave.into_inner())
}

/// Who goes of the victims. Whoever a budget, or the lack of a place, keeps after all holds its room, so places for the
/// others are looked for again.
fn planned(session: &mut Session<'_>, mut victims: Vec<TaskId>, leave: &FxHashSet<TaskId>) -> Vec<Move> {
    let mut steps = Steps::of_action(session, NAME);
    steps.begin_turn(session, None);
    loop {
        let mut moves = with_places(session, &victims, leave, &mut steps);
        let mut budgets = Budgets::new(session.cluster);
        moves.retain(|(task, _)| budgets.take(*task));
        if moves.len() == victims.len() {
            steps.end_turn(session);
            return moves;
        }
        victims = moves.into_iter().map(|(task, _)| task).collect();
    }
}

/// Those of the victims that have a place when all of them have theirs, and those that leave anyway.
fn with_places(
    session: &mut Session<'_>,
    victims: &[TaskId],
    leave: &FxHashSet<TaskId>,
    steps: &mut Steps,
) -> Vec<Move> {
    let left: FxHashSet<NodeId> =
        victims.iter().filter_map(|task| session.cluster.tasks[*task].node).collect();
    let mut statement = session.statement();
    let mut moves: Vec<Move> = Vec::new();
    for task in victims {
        // A search that was ended found none.
        match moved(&mut statement, *task, &left, steps).unwrap_or(None) {
            None if !leave.contains(task) => {}
            None => {
                statement.evict(*task);
                moves.push((*task, None));
            }
            place => moves.push((*task, place)),
        }
    }
    moves.retain_mut(|(task, place)| {
        *place = place.filter(|_| statement.session().may_keep(*task));
        place.is_some() || leave.contains(task)
    });
    moves
}

/// Puts a task on a node that no other task leaves, if one takes it now. Returns that node.
fn moved(
    statement: &mut Statement<'_, '_>,
    task: TaskId,
    left: &FxHashSet<NodeId>,
    steps: &mut Steps,
) -> Result<Option<NodeId>, NoEviction> {
    steps.spend(1)?;
    statement.nested(|statement| {
        statement.unplace(task);
        let session = statement.session();
        if session.allocatable(task).is_err() {
            return Ok(None);
        }
        let best = session.best_node(task).filter(|best| best.fit == Fit::Idle && !left.contains(&best.node));
        let node = match best {
            Some(best) => Some(best.node),
            None => any_place(session, task, left, steps)?,
        };
        if let Some(node) = node {
            statement.allocate(task, node);
        }
        Ok(node)
    })
}

fn any_place(
    session: &mut Session<'_>,
    task: TaskId,
    left: &FxHashSet<NodeId>,
    steps: &mut Steps,
) -> Result<Option<NodeId>, NoEviction> {
    let nodes: Vec<NodeId> = session.cluster.nodes.ids().filter(|node| !left.contains(node)).collect();
    steps.scan(nodes.len())?;
    Ok(nodes.into_iter().find(|node| session.fit_unless_tried(task, *node, &[]) == Some(Fit::Idle)))
}
