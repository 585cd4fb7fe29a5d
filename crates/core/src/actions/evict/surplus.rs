//! A gang that would go as a whole, though it can do without some: perhaps those are enough, if they are the right ones.
//!
//! The members beyond a gang's minimum that are offered first are those it is served last. Others may be where room is
//! needed; nobody but the gang cares who of it goes.
use super::aim::Aim;
use super::proof::{Unit, can_spare, sets_of};
use super::roster::Victim;
use super::steps::Steps;
use crate::diagnosis::NoEviction;
use crate::id::TaskId;
use crate::statement::Statement;
use crate::world::Status;

/// Takes of each gang that goes as a whole no more than it can do without, where that will do. Whether there was one.
pub(super) fn leave_whole(
    statement: &mut Statement<'_, '_>,
    aim: &Aim,
    units: &[Unit],
    mut placed: Vec<TaskId>,
    steps: &mut Steps,
) -> Result<bool, NoEviction> {
    let mut changed = false;
    for unit in units.iter().filter(|unit| unit.len() > 1) {
        let is_gone = |victim: &&Victim| {
            victim.job == unit[0].job
                && statement.session().world.tasks[victim.task].status == Status::Releasing
        };
        let lost: Vec<Victim> = units.iter().flatten().filter(is_gone).copied().collect();
        let sets = sets_of(lost.len(), placed.len()).filter(|_| lost.len() >= unit.len());
        let Some(sets) = sets else { continue };
        let mut attempt = statement.nested();
        for task in placed.iter().rev() {
            attempt.unplace(*task);
        }
        for victim in &lost {
            attempt.spare(victim.task, victim.status);
        }
        if let Some(anew) = with_some(&mut attempt, aim, &lost, sets, steps)? {
            attempt.keep();
            placed = anew;
            changed = true;
        }
    }
    Ok(changed)
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
