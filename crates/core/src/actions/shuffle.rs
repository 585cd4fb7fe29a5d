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
const KEEP_MS: i64 = 60_000;

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

/// A pod to evict, and the node that has a place for its successor.
struct Move {
    task: TaskId,
    place: Option<NodeId>,
}

fn run(session: &mut Session<'_>) {
    potential_victims::note_refusals(session);
    let PotentialMoves { victims, without_place } = potential_moves(session);
    if victims.is_empty() {
        return;
    }
    let keep = session.conf.action_args(NAME).duration_ms(KEEP_ARG.name, KEEP_MS);
    let moves = planned(session, victims, &without_place);
    let mut statement = session.statement();
    for it in &moves {
        statement.evict(it.task);
    }
    let reason = "shuffle: evicted to be placed anew".into();
    statement.commit(&Arc::new(Cause { action: NAME, by: None, reason }));
    for Move { task, place } in moves {
        if let Some(node) = place.filter(|_| keep > 0) {
            reservation::keep_for_successor(session, task, node, keep);
        }
    }
}

/// Running pods that plugins want moved.
#[derive(Default)]
struct PotentialMoves {
    victims: Vec<TaskId>,
    /// The victims that are evicted without a place for their successors too.
    without_place: FxHashSet<TaskId>,
}

/// The running pods that plugins want moved and that may be evicted.
fn potential_moves(session: &Session<'_>) -> PotentialMoves {
    let cluster = &*session.cluster;
    if session.tiers.with(Flag::Victim).all(|plugin| plugin.rebalancer().is_none()) {
        return PotentialMoves::default();
    }
    let budgets = Budgets::new(cluster);
    let may_go = |id: &TaskId| {
        let running = cluster.tasks[*id].status == Status::Running && cluster.tasks[*id].job.is_some();
        running && potential_victims::lets_go(session, session.tiers.every(), *id) && budgets.may(*id)
    };
    let running: Vec<TaskId> = cluster.tasks.ids().filter(may_go).collect();
    let without_place = RefCell::new(FxHashSet::default());
    let victims = session.tiers.sum_of_first_tier(Flag::Victim, |plugin| {
        let Some(rebalancer) = plugin.rebalancer() else { return Vec::new() };
        let named = rebalancer.victims(cluster, &running);
        if !rebalancer.needs_other_node() {
            without_place.borrow_mut().extend(named.iter().copied());
        }
        named
    });
    PotentialMoves { victims, without_place: without_place.into_inner() }
}

/// The moves of as many victims as possible. A victim that a PodDisruptionBudget or the lack of a place keeps where it is
/// holds its resources, so places for the others are looked for again.
fn planned(
    session: &mut Session<'_>,
    mut victims: Vec<TaskId>,
    without_place: &FxHashSet<TaskId>,
) -> Vec<Move> {
    let mut steps = Steps::of_action(session, NAME);
    steps.begin_turn(session, None);
    loop {
        let mut moves = with_places(session, &victims, without_place, &mut steps);
        let mut budgets = Budgets::new(session.cluster);
        moves.retain(|it| budgets.take(it.task));
        if moves.len() == victims.len() {
            steps.end_turn(session);
            return moves;
        }
        victims = moves.into_iter().map(|it| it.task).collect();
    }
}

/// The victims that have a place when all of them have theirs, and the victims that need none.
fn with_places(
    session: &mut Session<'_>,
    victims: &[TaskId],
    without_place: &FxHashSet<TaskId>,
    steps: &mut Steps,
) -> Vec<Move> {
    let left: FxHashSet<NodeId> =
        victims.iter().filter_map(|task| session.cluster.tasks[*task].node).collect();
    let mut statement = session.statement();
    let mut moves: Vec<Move> = Vec::new();
    for task in victims {
        // A search that was ended found none.
        let place = moved(&mut statement, *task, &left, steps).unwrap_or(None);
        if place.is_none() {
            if !without_place.contains(task) {
                continue;
            }
            statement.evict(*task);
        }
        moves.push(Move { task: *task, place });
    }
    moves.retain_mut(|it| {
        it.place = it.place.filter(|_| statement.session().may_keep(it.task));
        it.place.is_some() || without_place.contains(&it.task)
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
