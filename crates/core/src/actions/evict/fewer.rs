//! Tasks that ask for company, or are spread evenly, may do with fewer victims though they can do without none of them alone: two
//! who stay together may keep the balance that each of them upsets. So when they are few every smaller set is tried.
use std::collections::BTreeSet;

use super::aim::Aim;
use super::proof::{Unit, can_spare, is_all, sets_of, still_gone};
use super::roster::Victim;
use super::steps::Steps;
use crate::statement::Statement;
use phalanx_cluster::diagnosis::NoEviction;
use phalanx_cluster::id::JobId;
use phalanx_cluster::{Status, World};

/// Spares as many as may stay together.
pub(super) fn fewer(
    statement: &mut Statement<'_, '_>,
    aim: &Aim,
    (units, of_gangs): (&[Unit], bool),
    steps: &mut Steps,
) -> Result<(), NoEviction> {
    let session = statement.session();
    let (gone, placed, seeks) =
        (still_gone(session, units), aim.placed(session.world), aim.seeks(session.world));
    let sets = sets_of(gone.len(), placed.len()).filter(|_| gone.len() > 1 && seeks);
    let Some(sets) = sets else { return Ok(()) };
    let mut smaller: Vec<usize> = (0..sets - 1).collect();
    smaller.sort_by_key(|set| (set.count_ones(), *set));
    let mut attempt = statement.nested();
    placed.iter().rev().for_each(|task| attempt.unplace(*task));
    for victim in gone.iter().flatten() {
        debug_assert_eq!(attempt.session().world.tasks[victim.task].status, Status::Releasing);
        attempt.spare(victim.task, victim.status);
    }
    for set in smaller {
        let chosen: Vec<Victim> =
            (0..gone.len()).filter(|at| set & (1 << at) != 0).flat_map(|at| gone[at].to_vec()).collect();
        if of_gangs && !breaks_none(attempt.session().world, &chosen) {
            continue;
        }
        let mut some = attempt.nested();
        for victim in &chosen {
            some.evict(victim.task);
        }
        steps.spend(1)?;
        if aim.place_anyhow(&mut some, steps)?.is_some() {
            some.keep();
            attempt.keep();
            return Ok(());
        }
    }
    Ok(())
}

/// Whether each gang can do without those of it, or goes as a whole.
fn breaks_none(world: &World, chosen: &[Victim]) -> bool {
    let jobs: BTreeSet<JobId> = chosen.iter().map(|victim| victim.job).collect();
    jobs.into_iter().all(|job| {
        let lost: Vec<Victim> = chosen.iter().filter(|victim| victim.job == job).copied().collect();
        can_spare(world, job, &lost) || is_all(world, job, lost.len())
    })
}
