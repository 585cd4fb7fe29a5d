//! A gang that would go as a whole, though it can do without some: perhaps those are enough, if they are the right ones.
//!
//! The members beyond a gang's minimum that are offered first are those it is served last. Others may be where room is
//! needed; nobody but the gang cares who of it goes.
use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::aim::Aim;
use super::proof::{Unit, can_spare, is_gone, sets_of};
use super::roster::{Loss, Victim};
use super::steps::Steps;
use crate::statement::Statement;
use phalanx_cluster::World;
use phalanx_cluster::diagnosis::NoEviction;
use phalanx_cluster::id::{JobId, TaskId};

/// Takes of each gang that would be broken no more than it can do without, where that will do: of all on offer, whichever of
/// them were taken. Whether there was one.
pub(super) fn leave_whole(
    statement: &mut Statement<'_, '_>,
    aim: &Aim,
    units: &[Unit],
    mut placed: Vec<TaskId>,
    steps: &mut Steps,
) -> Result<bool, NoEviction> {
    let mut changed = false;
    for (job, offered) in broken(statement.session().world, units) {
        let Some(sets) = sets_of(offered.len(), placed.len()) else { continue };
        let mut attempt = statement.nested();
        for task in placed.iter().rev() {
            attempt.unplace(*task);
        }
        for victim in &offered {
            if is_gone(attempt.session().world, victim) {
                attempt.spare(victim.task, victim.status);
            }
        }
        let world = &*attempt.session().world;
        if !offered.iter().any(|victim| can_spare(world, job, std::slice::from_ref(victim))) {
            continue;
        }
        if let Some(anew) = with_some(&mut attempt, aim, &offered, sets, steps)? {
            attempt.keep();
            placed = anew;
            changed = true;
        }
    }
    Ok(changed)
}

/// Gangs of which some go, and more than they can do without though there is something that they can; each with those of it
/// that are on offer. Not such as are broken anyway.
fn broken(world: &World, units: &[Unit]) -> BTreeMap<JobId, Vec<Victim>> {
    let whole = |victim: &&Victim| victim.loss == Loss::Whole && is_gone(world, victim);
    let gone: FxHashSet<JobId> = units.iter().flatten().filter(whole).map(|victim| victim.job).collect();
    let mut offered: BTreeMap<JobId, Vec<Victim>> = BTreeMap::new();
    for victim in units.iter().flatten().filter(|victim| gone.contains(&victim.job)) {
        offered.entry(victim.job).or_default().push(*victim);
    }
    offered.retain(|job, offered| {
        let lost = offered.iter().filter(|victim| is_gone(world, victim)).count() as u32;
        world.jobs[*job].counts.ready() + lost > world.jobs[*job].min_member
    });
    offered
}

/// Evicts as few of these as will do, if their gang can do without them.
fn with_some(
    statement: &mut Statement<'_, '_>,
    aim: &Aim,
    lost: &[Victim],
    sets: usize,
    steps: &mut Steps,
) -> Result<Option<Vec<TaskId>>, NoEviction> {
    let mut sets: Vec<usize> = (1..sets).collect();
    sets.sort_by_key(|set| (set.count_ones(), *set));
    for set in sets {
        let some: Vec<Victim> =
            (0..lost.len()).filter(|at| set & (1 << at) != 0).map(|at| lost[at]).collect();
        if !can_spare(statement.session().world, some[0].job, &some) {
            continue;
        }
        let mut attempt = statement.nested();
        steps.spend(some.len())?;
        for victim in &some {
            attempt.evict(victim.task);
        }
        if let Some(placed) = aim.place_anyhow(&mut attempt, steps)? {
            attempt.keep();
            return Ok(Some(placed));
        }
    }
    Ok(None)
}
