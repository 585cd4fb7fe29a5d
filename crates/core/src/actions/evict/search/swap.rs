//! A victim in whose place a less important pod of its node would do.
//!
//! Victims go in the order of importance, but what plugins let go together, or what of a gang counts as surplus, may have left the
//! lesser one out. So before the victims that were found go, those that could go in their place are tried.
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{Aim, ClassId, Ledger, NoEviction, NodeId, Search, TaskId, Unit, Victim, World, proof};
use crate::actions::evict::purpose::Purpose;
use crate::actions::evict::roster::Loss;

/// So many victims that could go instead are tried for those that were found.
const TRIED: usize = 16;

/// How often what was found is improved so.
pub(super) const ROUNDS: usize = 4;

/// Victims that were found, and others with one in the place of a more important one, in the order of importance.
#[derive(Debug, Default)]
pub(super) struct Swaps(Vec<Vec<Victim>>);

impl Swaps {
    /// Where a node would have room for as many tasks of the aim, unless it matters who is elsewhere, and no gang is broken that was not.
    pub(super) fn of(
        world: &World,
        (aim, purpose): (&Aim, Purpose),
        (today, offered): (&Ledger, &[Victim]),
        units: &[Unit],
    ) -> Self {
        if purpose.of_gangs() || purpose == Purpose::WithinJob {
            return Self::default();
        }
        let mut gone: Vec<Victim> =
            units.iter().flatten().copied().filter(|victim| proof::is_gone(world, victim)).collect();
        let priority = |victim: &Victim| world.jobs[victim.job].priority;
        let Some(highest) = gone.iter().map(priority).max() else { return Self::default() };
        let mut lesser: BTreeMap<NodeId, Vec<Victim>> = BTreeMap::new();
        for victim in offered.iter().filter(|one| priority(one) < highest && !proof::is_gone(world, one)) {
            lesser.entry(victim.node).or_default().push(*victim);
        }
        if lesser.is_empty() {
            return Self::default();
        }
        gone.sort_by_key(|victim| std::cmp::Reverse(priority(victim)));
        let may_replace = |one: &Victim, other: &Victim| {
            priority(other) < priority(one)
                && world.jobs[one.job].queue == world.jobs[other.job].queue
                && (one.loss == Loss::Whole
                    || other.loss != Loss::Whole
                    || proof::can_spare(world, other.job, &[*other]))
        };
        let looks_around = aim.looks_around(world);
        let mut rooms = Rooms::new(world, today, &gone);
        let ranks: FxHashMap<TaskId, usize> =
            offered.iter().enumerate().map(|(rank, victim)| (victim.task, rank)).collect();
        let pairs = gone.iter().flat_map(|one| {
            let others = lesser.get(&one.node).into_iter().flatten();
            others.filter(move |other| may_replace(one, other)).map(move |other| (one, other))
        });
        let swapped = pairs.filter(|(one, other)| looks_around || rooms.make_as_much(one, other));
        let swapped = swapped.map(|(one, other)| {
            let mut way: Vec<Victim> =
                gone.iter().filter(|victim| victim.task != one.task).copied().collect();
            way.push(*other);
            way.sort_by_key(|victim| ranks.get(&victim.task));
            way
        });
        Self(swapped.take(TRIED).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What nodes have room for with others gone. It is the same for all of a class.
struct Rooms<'a> {
    world: &'a World,
    today: &'a Ledger,
    gone: FxHashMap<NodeId, Vec<Victim>>,
    known: FxHashMap<(NodeId, [ClassId; 2]), bool>,
}

impl<'a> Rooms<'a> {
    fn new(world: &'a World, today: &'a Ledger, all: &[Victim]) -> Self {
        let mut gone: FxHashMap<NodeId, Vec<Victim>> = FxHashMap::default();
        for victim in all {
            gone.entry(victim.node).or_default().push(*victim);
        }
        Self { world, today, gone, known: FxHashMap::default() }
    }

    /// Whether the node takes as many tasks with the other gone in the place of one of them.
    fn make_as_much(&mut self, one: &Victim, other: &Victim) -> bool {
        let classes = [one, other].map(|victim| self.world.tasks[victim.task].class);
        let Self { world, today, gone, known } = self;
        let takes = |right: Option<&Victim>| {
            let on_node = gone.get(&one.node).into_iter().flatten();
            let freed = on_node.filter(|victim| right.is_none() || victim.task != one.task).chain(right);
            today.takes_with(one.node, freed.map(|victim| world.request_of(victim.task)))
        };
        let as_much = || takes(Some(other)).iter().zip(takes(None)).all(|(after, before)| *after >= before);
        *known.entry((one.node, classes)).or_insert_with(as_much)
    }
}

impl Search<'_, '_> {
    /// Evicts with one of the swaps, if any is allowed and helps.
    pub(super) fn swap(&mut self, swaps: Swaps, rounds: usize) -> Result<bool, NoEviction> {
        for way in swaps.0 {
            self.steps.scan(4 * way.len())?;
            if self.may_go(&way, self.tier) && self.improve(&self.units(&way), rounds)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
