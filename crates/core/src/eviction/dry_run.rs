//! The dry run: with victims gone, the gang is placed; then each victim that may stay is reprieved.
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::mode::EvictionMode;
use super::potential_victims::{Loss, Victim};
use super::preemptor::{self, Preemptor};
use crate::plan::Plan;
use crate::session::Session;
use crate::statement::Statement;
use crate::steps::Steps;
use phalanx_cluster::diagnosis::NoEviction;
use phalanx_cluster::id::{ClassId, JobId, NodeId, TaskId};
use phalanx_cluster::{Cluster, Status};
use phalanx_framework::plugin::EvictionKind;

/// Victims times tasks up to which all tasks are placed anew for each victim that may be reprieved.
const THOROUGH: usize = 2_000;

/// Victims that go together or stay together.
pub(super) type Unit = SmallVec<[Victim; 1]>;

/// Evicts as few of the units as it takes, the first ones first and so many at the least, and places the preemptor.
/// Returns what that comes to, and `None` when all of the units do not help. All is undone.
pub(super) fn dry_run(
    session: &mut Session<'_>,
    preemptor: &Preemptor,
    units: &[Unit],
    least: usize,
    steps: &mut Steps,
) -> Result<Option<Plan>, NoEviction> {
    let mut statement = session.statement();
    for task in &preemptor.non_preempting {
        preemptor::place(&mut statement, *task);
    }
    let (mut count, mut more) = (least, 1);
    let placed = loop {
        steps.spend(count)?;
        let placed = statement.nested(|statement| {
            for victim in units[..count].iter().flatten() {
                statement.evict(victim.task);
            }
            // With the last of them gone, nothing is left but backtracking.
            let last = count == units.len() && !units.is_empty();
            if last {
                preemptor.place_or_backtrack(statement, steps)
            } else {
                preemptor.place(statement, steps)
            }
        });
        if let Some(placed) = placed? {
            break placed;
        }
        if count == units.len() {
            return Ok(None);
        }
        (count, more) = (units.len().min(count + more), 2 * more);
    };
    steps.begin();
    reprieve(&mut statement, preemptor, &units[..count], placed, steps)?;
    let may = units.is_empty() || is_entitled(statement.session(), preemptor);
    Ok(may.then(|| statement.plan()))
}

/// Whether the queue may reclaim for what was placed: with unlike members, these need not be the tasks that were asked
/// about.
fn is_entitled(session: &mut Session<'_>, preemptor: &Preemptor) -> bool {
    let placed = preemptor.placed(session.cluster);
    let lasts = preemptor::last_of_classes(session.cluster, &placed);
    if preemptor.mode.kind() != EvictionKind::Reclaim || lasts.len() == 1 {
        return true;
    }
    let ask = |session: &Session<'_>, task: TaskId| session.preemptive(task).is_ok();
    lasts.into_iter().all(|task| preemptor::ask_without(session, task, ask))
}

/// Tasks of the preemptor that have a place.
struct Placed {
    /// In the order in which they got it.
    order: FxHashMap<TaskId, usize>,
    /// The tasks that are asked after each reprieve whether they may still have their place.
    samples: Vec<TaskId>,
}

impl Placed {
    /// Asks one task of each class: what a queue may have depends on nothing else.
    fn by_class(session: &Session<'_>, placed: &[TaskId]) -> Self {
        let class = |task: &TaskId| (session.cluster.tasks[*task].class, *task);
        let of_class: FxHashMap<ClassId, TaskId> = placed.iter().rev().map(class).collect();
        Self { samples: of_class.into_values().collect(), ..Self::all(placed) }
    }

    /// All are asked.
    fn all(placed: &[TaskId]) -> Self {
        let order = placed.iter().enumerate().map(|(at, task)| (*task, at)).collect();
        Self { order, samples: placed.to_vec() }
    }
}

/// Puts each victim back, the most important first, if the preemptor still fits. Mostly only tasks on a victim's node
/// can lose their place by that, or all of a class; where a rule turns out to look further, every task is asked each
/// time.
fn reprieve(
    statement: &mut Statement<'_, '_>,
    preemptor: &Preemptor,
    units: &[Unit],
    placed: Vec<TaskId>,
    steps: &mut Steps,
) -> Result<(), NoEviction> {
    let cluster = &*statement.session().cluster;
    if (preemptor.depends_on_other_nodes(cluster) || preemptor.greedy_may_fail(cluster))
        && units.len() * placed.len() <= THOROUGH
    {
        return reprieve_thoroughly(statement, preemptor, units, placed, steps);
    }
    let placed = &placed[..];
    let quick = statement.nested(|statement| {
        let by_class = Placed::by_class(statement.session(), placed);
        reprieve_each(statement, units, &by_class, steps)?;
        steps.spend(placed.len())?;
        Ok(placed.iter().all(|task| statement.session().may_keep(*task)))
    });
    if quick? {
        return Ok(());
    }
    reprieve_each(statement, units, &Placed::all(placed), steps)
}

fn reprieve_each(
    statement: &mut Statement<'_, '_>,
    units: &[Unit],
    placed: &Placed,
    steps: &mut Steps,
) -> Result<(), NoEviction> {
    // With a gang that goes as a whole, its surplus goes too.
    let mut gone: FxHashSet<JobId> = FxHashSet::default();
    for unit in units.iter().rev() {
        if unit.iter().any(|victim| gone.contains(&victim.job)) {
            continue;
        }
        let fits = statement.nested(|statement| fits_without(statement, unit, placed, steps));
        if !fits? && unit.len() > 1 {
            gone.extend(unit.iter().map(|victim| victim.job));
        }
    }
    Ok(())
}

/// As above, where a victim on any node may make a difference: without each victim the whole preemptor is placed anew,
/// until no victim more can be put back.
fn reprieve_thoroughly(
    statement: &mut Statement<'_, '_>,
    preemptor: &Preemptor,
    units: &[Unit],
    mut placed: Vec<TaskId>,
    steps: &mut Steps,
) -> Result<(), NoEviction> {
    let mut gone: Vec<&Unit> = units.iter().collect();
    let mut before = usize::MAX;
    while gone.len() < before {
        before = gone.len();
        for at in (0..gone.len()).rev() {
            // With a gang that goes as a whole, its surplus goes too.
            let job = gone[at][0].job;
            if gone.iter().any(|unit| unit.len() > 1 && unit[0].job == job && unit.len() > gone[at].len()) {
                continue;
            }
            steps.spend(gone[at].len() + placed.len())?;
            let anew = statement.nested(|statement| {
                put_back(statement, gone[at], &placed);
                preemptor.place_or_backtrack(statement, steps)
            });
            if let Some(anew) = anew? {
                placed = anew;
                gone.remove(at);
            } else if stays_beside(statement, gone[at], &placed, steps)? {
                gone.remove(at);
            }
        }
    }
    Ok(())
}

/// Puts victims back if all tasks may keep their places beside them: placing the tasks anew may have failed although
/// the places are good.
fn stays_beside(
    statement: &mut Statement<'_, '_>,
    unit: &[Victim],
    placed: &[TaskId],
    steps: &mut Steps,
) -> Result<bool, NoEviction> {
    steps.spend(unit.len() + placed.len())?;
    let cluster = &*statement.session().cluster;
    let places: Vec<(TaskId, NodeId)> =
        placed.iter().filter_map(|task| Some((*task, cluster.tasks[*task].node?))).collect();
    Ok(statement.nested(|statement| {
        put_back(statement, unit, placed);
        places.into_iter().all(|(task, node)| statement.place_if_allowed(task, node).is_some())
    }))
}

/// Puts victims back, with the preemptor's tasks out of their way.
fn put_back(statement: &mut Statement<'_, '_>, unit: &[Victim], placed: &[TaskId]) {
    for task in placed.iter().rev() {
        statement.unplace(*task);
    }
    for victim in unit {
        statement.reprieve(victim.task, victim.status);
    }
}

/// Puts victims back, and moves tasks of the preemptor from their nodes. Returns whether all tasks have a node again.
fn fits_without(
    statement: &mut Statement<'_, '_>,
    unit: &[Victim],
    placed: &Placed,
    steps: &mut Steps,
) -> Result<bool, NoEviction> {
    let mut nodes: SmallVec<[NodeId; 1]> = unit.iter().map(|victim| victim.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let cluster = &*statement.session().cluster;
    let on_nodes = nodes.iter().flat_map(|node| &cluster.nodes[*node].tasks);
    let mut displaced: Vec<TaskId> =
        on_nodes.copied().filter(|task| placed.order.contains_key(task)).collect();
    displaced.sort_unstable_by_key(|task| placed.order[task]);
    steps.spend(unit.len() + displaced.len() + placed.samples.len())?;
    for victim in unit {
        statement.reprieve(victim.task, victim.status);
    }
    for task in &displaced {
        statement.unplace(*task);
    }
    for task in &displaced {
        if !preemptor::place(statement, *task) {
            return Ok(false);
        }
    }
    Ok(placed.samples.iter().all(|task| statement.session().may_keep(*task)))
}

/// Whether so many are all tasks of a job that run.
pub(super) fn is_all(cluster: &Cluster, job: JobId, lost: usize) -> bool {
    let counts = &cluster.jobs[job].counts;
    lost as u32 >= counts.of(Status::Running) + counts.of(Status::Bound)
}

/// Victims one by one.
pub(super) fn single_units(victims: &[Victim]) -> Vec<Unit> {
    victims.iter().map(|victim| Unit::from_slice(&[*victim])).collect()
}

/// Gangs as a whole: their surplus one by one, then all the rest, if all of it may go.
pub(super) fn units_of_gangs(session: &Session<'_>, victims: &[Victim], mode: EvictionMode) -> Vec<Unit> {
    let mut offered: FxHashMap<JobId, usize> = FxHashMap::default();
    let mut last_surplus: FxHashMap<JobId, usize> = FxHashMap::default();
    for (rank, victim) in victims.iter().enumerate() {
        *offered.entry(victim.job).or_default() += 1;
        if victim.loss == Loss::Surplus {
            last_surplus.insert(victim.job, rank);
        }
    }
    let mut at: FxHashMap<JobId, usize> = FxHashMap::default();
    let mut units: Vec<(usize, Unit)> = Vec::new();
    for (rank, victim) in victims.iter().enumerate() {
        if victim.loss == Loss::Surplus {
            units.push((rank, Unit::from_slice(&[*victim])));
        } else if let Some(at) = at.get(&victim.job) {
            units[*at].1.push(*victim);
        } else {
            at.insert(victim.job, units.len());
            // After its surplus, wherever that is in the list: a gang that goes as a whole leaves no pod.
            let rank = last_surplus.get(&victim.job).map_or(rank, |last| rank.max(last + 1));
            units.push((rank, Unit::from_slice(&[*victim])));
        }
    }
    let complete = |job: JobId| is_all(session.cluster, job, offered[&job]);
    units.retain(|(_, unit)| {
        unit[0].loss == Loss::Surplus || (mode.may_break(session) && complete(unit[0].job))
    });
    units.sort_by_key(|(rank, _)| *rank);
    units.into_iter().map(|(_, unit)| unit).collect()
}
