//! What a choice of victims may still come to.
use super::{Given, Ledger, Search, Unit, Victim};
use phalanx_cluster::World;

/// Rooms as they are with those gone that are chosen, and as they may be.
pub(super) struct Prospect {
    pub(super) now: Ledger,
    /// With all gone that were not left out.
    most: Ledger,
    /// What queues can give besides those that go.
    given: Option<Given>,
}

impl Prospect {
    /// With nobody chosen of these, and nobody left out.
    pub(super) fn of(search: &Search<'_, '_>, units: &[Unit]) -> Self {
        let Search { session, purpose, today, .. } = search;
        let world = &*session.world;
        let victims = || units.iter().flatten();
        let most = today.without(victims().map(|victim| (victim.node, world.request_of(victim.task))));
        let given = Given::most(session, *purpose, today, victims().map(|victim| (victim.task, victim.node)));
        Self { now: (*today).clone(), most, given }
    }

    /// Whether there may be room with more of them gone.
    pub(super) fn may_do(&self) -> bool {
        let enough = |given: &Given| self.now.may_do_with(&given.sum(), &self.most);
        self.most.may_do() && self.given.as_ref().is_none_or(enough)
    }

    /// A victim goes.
    pub(super) fn take(&mut self, world: &World, victim: &Victim) {
        let request = world.request_of(victim.task);
        self.now.grow(victim.node, request);
        if let Some(given) = &mut self.given {
            given.take(world.jobs[victim.job].queue, request);
        }
    }

    /// It stays after all.
    pub(super) fn put_back(&mut self, world: &World, victim: &Victim) {
        let request = world.request_of(victim.task);
        self.now.shrink(victim.node, request);
        if let Some(given) = &mut self.given {
            given.put_back(world.jobs[victim.job].queue, request);
        }
    }

    /// A victim is left out.
    pub(super) fn leave_out(&mut self, world: &World, victim: &Victim) {
        self.most.shrink(victim.node, world.request_of(victim.task));
    }

    /// It is left out no more.
    pub(super) fn bring_in(&mut self, world: &World, victim: &Victim) {
        self.most.grow(victim.node, world.request_of(victim.task));
    }
}
