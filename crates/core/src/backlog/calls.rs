//! What calls parked jobs: the first of a herd when what it waits for may have come, or all of some queues.
use super::herds::{Cure, Herd, HerdId, HerdKey, Herds, OfQueue};
use super::lineup::Largest;
use super::pools::Backlog;
use super::rooms::{Growth, Rooms};
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{Id, NodeId, QueueId, TaskId};
use phalanx_cluster::{World, backoff};

impl Herds {
    fn wants_room(&self) -> bool {
        self.demands > 0 || !self.lineups.is_empty()
    }

    /// Herds whose demand may be met where room has grown.
    fn candidates(&self, world: &World, growth: &Growth) -> Vec<HerdId> {
        let mut found = Vec::new();
        for (which, most) in [&growth.room, &growth.allocatable].into_iter().enumerate() {
            for (dim, herds) in self.by_amount[which].iter().enumerate() {
                let most = most.get(phalanx_resource::DimId(dim as u16));
                for (_, id) in herds.range(..=(most, HerdId::from_index(u32::MAX as usize))) {
                    let demand = self.all[*id].demand.as_ref();
                    if demand.is_some_and(|it| growth.serves(world, &it.request, &it.least, which == 1)) {
                        found.push(*id);
                    }
                }
            }
        }
        found.sort_unstable();
        found
    }
}

impl Backlog {
    /// Ranks count in the order of jobs by what nodes can give now.
    pub(super) fn refresh_ranks(&mut self, world: &World) {
        self.herds.order_by(&world.total);
    }

    /// Herds whose first is asked in each cycle.
    pub(super) fn standing_herds(&self) -> Vec<HerdId> {
        self.herds.standing.iter().copied().collect()
    }

    /// Whether the first of a herd is asked in each cycle.
    pub(super) fn stands(&self, id: HerdId) -> bool {
        self.herds.standing.contains(&id)
    }

    /// Leaves a herd alone until then.
    pub(super) fn rest_herd(&mut self, id: HerdId, until: Time) {
        self.herds.standing.remove(&id);
        self.put_off_herd(id, until);
    }

    /// A herd's first is called: it need not be called again in this cycle.
    pub(super) fn note_called(&mut self, id: HerdId) {
        let herds = &mut self.herds;
        let Some(herd) = herds.all.get_mut(id) else { return };
        herd.asked = herds.lineups.cycle();
        herd.looked = herd.asked;
        if herd.cure == Cure::Any && !herd.plain {
            herds.standing.insert(id);
        }
    }

    /// The first of a herd was asked in vain, and is left alone for a while if many ask to be asked.
    pub(super) fn asked_in_vain(&mut self, id: HerdId, now: Time) {
        let herds = &mut self.herds;
        let Some(herd) = herds.all.get_mut(id) else { return };
        herd.tries = herd.tries.saturating_add(1);
        herd.rests_until = backoff(now, herd.tries);
        herds.doubt_rank(id);
    }

    /// Whether a herd may be left alone: not when others wait for their turn behind it.
    pub(super) fn may_rest(&self, id: HerdId) -> bool {
        self.herds.all.get(id).is_some_and(|herd| matches!(herd.key, HerdKey::Alike(..)))
    }

    /// Queues that were added, changed or removed since this was asked.
    pub(super) fn take_changed_queues(&mut self) -> Vec<QueueId> {
        let changed = std::mem::take(&mut self.changed_queues);
        self.herds.all_called = !changed.is_empty();
        changed
    }

    /// Where room has grown since the last cycle: everywhere when queues have changed, for what plugins say of nodes may be
    /// another thing for some queue.
    pub(super) fn growth(&self, world: &World) -> Option<Growth> {
        let herds = &self.herds;
        match (herds.wants_room(), herds.all_called) {
            (false, _) => None,
            (true, true) => Some(Rooms::all(world)),
            (true, false) => herds.rooms.growth(world),
        }
    }

    /// Herds that wait for room, or for nodes, and may find it where it has grown, but for those in lineups.
    pub(super) fn herds_with_room(&self, world: &World, growth: Option<&Growth>) -> Vec<HerdId> {
        let herds = &self.herds;
        if herds.all_called {
            let waits = |herd: &Herd| herd.demand.is_some() && herd.is_indexed();
            let demanding = herds.all.iter().filter(|(_, herd)| waits(herd));
            return demanding.map(|(id, _)| id).collect();
        }
        growth.map_or_else(Vec::new, |growth| herds.candidates(world, growth))
    }

    /// Room was given back in the middle of a cycle, or will be.
    pub(crate) fn note_freed(&mut self, node: NodeId) {
        self.herds.rooms.note(node);
    }

    /// A task was given a place: others may look for its company that were refused before.
    pub(crate) fn note_company(&mut self, world: &World, task: TaskId) {
        self.herds.company |= world.terms.is_meant(world.class_of(task));
    }

    /// Whether any of that happened in this cycle.
    pub(crate) fn was_freed(&self) -> bool {
        self.herds.rooms.is_noted() || (self.herds.company && self.herds.seeking > 0)
    }

    /// The cycle ends: what room there is now is what parked jobs were refused with.
    pub(super) fn note_rooms(&mut self, world: &World) {
        self.herds.drop_emptied();
        self.take_rooms_down(world);
    }

    /// What room there is now counts.
    pub(super) fn take_rooms_down(&mut self, world: &World) {
        let mut rooms = std::mem::take(&mut self.herds.rooms);
        rooms.take_down(world, self.herds.wants_room());
        self.herds.rooms = rooms;
    }

    /// The largest rooms there are now.
    pub(super) fn largest_rooms(&self, world: &World) -> Largest {
        Largest::new(world, self.herds.seeking > 0)
    }

    /// A cycle begins: what was noted is looked at.
    pub(super) fn forget_freed(&mut self) {
        self.herds.rooms.forget_noted();
        self.herds.company = false;
    }

    /// What was wrong with each queue that has parked jobs.
    pub(super) fn queues_with_parked(&self) -> impl Iterator<Item = (QueueId, &Result<(), Refusal>)> {
        let queues = self.herds.queues.iter().filter(|(_, queue)| queue.parked > 0);
        queues.map(|(id, queue)| (*id, &queue.blocked))
    }

    /// Whether anything is known of a queue already; if not, it is this.
    pub(super) fn knows_blocked(&self, queue: QueueId) -> bool {
        self.herds.queues.get(&queue).is_some_and(|queue| queue.parked > 0)
    }

    /// Stores whether the queue takes jobs, or why not.
    pub(super) fn set_blocked(&mut self, queue: QueueId, blocked: Result<(), Refusal>) {
        self.herds.queues.insert(queue, OfQueue { parked: 0, blocked });
    }

    /// Calls all parked jobs, or those of some queues.
    pub(super) fn call_parked(&mut self, of: impl Fn(QueueId) -> bool) {
        let of_herd = |(id, herd): (HerdId, &Herd)| {
            let members = if of(herd.key.queue()) { herd.members.all() } else { Vec::new() };
            members.into_iter().map(move |(job, serial)| (id, job, serial)).collect::<Vec<_>>()
        };
        let all: Vec<_> = self.herds.all.iter().flat_map(of_herd).collect();
        for (herd, job, serial) in all {
            if self.is_entry(herd, job, serial) {
                self.call(job);
            }
        }
    }
}
