//! What calls parked jobs: the first of a herd when what it waits for may have come, or all of some queues.
use super::{Herd, HerdKey, Herds, OfQueue};
use crate::awake::backoff;
use crate::diagnosis::Refusal;
use crate::event::Time;
use crate::id::{HerdId, Id, NodeId, QueueId, TaskId};
use crate::lineup::Largest;
use crate::rooms::{Growth, Rooms};
use crate::{Cure, World};

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

impl World {
    /// Ranks count in the order of jobs by what nodes can give now.
    pub fn refresh_ranks(&mut self) {
        let Self { pools, total, .. } = self;
        pools.herds.order_by(total);
    }

    /// Herds whose first is asked in each cycle.
    pub fn standing_herds(&self) -> Vec<HerdId> {
        self.pools.herds.standing.iter().copied().collect()
    }

    /// Whether the first of a herd is asked in each cycle.
    pub fn stands(&self, id: HerdId) -> bool {
        self.pools.herds.standing.contains(&id)
    }

    /// Leaves a herd alone until then.
    pub fn rest_herd(&mut self, id: HerdId, until: Time) {
        self.pools.herds.standing.remove(&id);
        self.put_off_herd(id, until);
    }

    /// A herd's first is called: it need not be called again in this cycle.
    pub fn note_called(&mut self, id: HerdId) {
        let herds = &mut self.pools.herds;
        let Some(herd) = herds.all.get_mut(id) else { return };
        herd.asked = herds.lineups.cycle();
        herd.looked = herd.asked;
        if herd.cure == Cure::Any && !herd.plain {
            herds.standing.insert(id);
        }
    }

    /// The first of a herd was asked in vain, and is left alone for a while if many ask to be asked.
    pub fn asked_in_vain(&mut self, id: HerdId, now: Time) {
        let herds = &mut self.pools.herds;
        let Some(herd) = herds.all.get_mut(id) else { return };
        herd.tries = herd.tries.saturating_add(1);
        herd.rests_until = backoff(now, herd.tries);
        herds.doubt_rank(id);
    }

    /// Whether a herd may be left alone: not when others wait for their turn behind it.
    pub fn may_rest(&self, id: HerdId) -> bool {
        self.pools.herds.all.get(id).is_some_and(|herd| matches!(herd.key, HerdKey::Alike(..)))
    }

    /// Queues that were added, changed or removed since this was asked.
    pub fn take_changed_queues(&mut self) -> Vec<QueueId> {
        let changed = std::mem::take(&mut self.pools.changed_queues);
        self.pools.herds.all_called = !changed.is_empty();
        changed
    }

    /// Where room has grown since the last cycle: everywhere when queues have changed, for what plugins say of nodes may be
    /// another thing for some queue.
    pub fn growth(&self) -> Option<Growth> {
        let herds = &self.pools.herds;
        match (herds.wants_room(), herds.all_called) {
            (false, _) => None,
            (true, true) => Some(Rooms::all(self)),
            (true, false) => herds.rooms.growth(self),
        }
    }

    /// Herds that wait for room, or for nodes, and may find it where it has grown, but for those in lineups.
    pub fn herds_with_room(&self, growth: Option<&Growth>) -> Vec<HerdId> {
        let herds = &self.pools.herds;
        if herds.all_called {
            let waits = |herd: &Herd| herd.demand.is_some() && herd.is_indexed();
            let demanding = herds.all.iter().filter(|(_, herd)| waits(herd));
            return demanding.map(|(id, _)| id).collect();
        }
        growth.map_or_else(Vec::new, |growth| herds.candidates(self, growth))
    }

    /// Room was given back in the middle of a cycle, or will be.
    pub fn note_freed(&mut self, node: NodeId) {
        self.pools.herds.rooms.note(node);
    }

    /// A task was given a place: others may look for its company that were refused before.
    pub fn note_company(&mut self, task: TaskId) {
        self.pools.herds.company |= self.terms.is_meant(self.class_of(task));
    }

    /// Whether any of that happened in this cycle.
    pub fn was_freed(&self) -> bool {
        self.pools.herds.rooms.is_noted() || (self.pools.herds.company && self.pools.herds.seeking > 0)
    }

    /// The cycle ends: what room there is now is what parked jobs were refused with.
    pub fn note_rooms(&mut self) {
        self.pools.herds.drop_emptied();
        self.take_rooms_down();
    }

    /// What room there is now counts.
    pub fn take_rooms_down(&mut self) {
        let mut rooms = std::mem::take(&mut self.pools.herds.rooms);
        rooms.take_down(self, self.pools.herds.wants_room());
        self.pools.herds.rooms = rooms;
    }

    /// The largest rooms there are now.
    pub fn largest_rooms(&self) -> Largest {
        Largest::new(self, self.pools.herds.seeking > 0)
    }

    /// A cycle begins: what was noted is looked at.
    pub fn forget_freed(&mut self) {
        self.pools.herds.rooms.forget_noted();
        self.pools.herds.company = false;
    }

    /// What was wrong with each queue that has parked jobs.
    pub fn queues_with_parked(&self) -> impl Iterator<Item = (QueueId, &Result<(), Refusal>)> {
        let queues = self.pools.herds.queues.iter().filter(|(_, queue)| queue.parked > 0);
        queues.map(|(id, queue)| (*id, &queue.blocked))
    }

    /// Whether anything is known of a queue already; if not, it is this.
    pub fn knows_blocked(&self, queue: QueueId) -> bool {
        self.pools.herds.queues.get(&queue).is_some_and(|queue| queue.parked > 0)
    }

    /// Stores whether the queue takes jobs, or why not.
    pub fn set_blocked(&mut self, queue: QueueId, blocked: Result<(), Refusal>) {
        self.pools.herds.queues.insert(queue, OfQueue { parked: 0, blocked });
    }

    /// Calls all parked jobs, or those of some queues.
    pub fn call_parked(&mut self, of: impl Fn(QueueId) -> bool) {
        let of_herd = |(id, herd): (HerdId, &Herd)| {
            let members = if of(herd.key.queue()) { herd.members.all() } else { Vec::new() };
            members.into_iter().map(move |(job, serial)| (id, job, serial)).collect::<Vec<_>>()
        };
        let all: Vec<_> = self.pools.herds.all.iter().flat_map(of_herd).collect();
        for (herd, job, serial) in all {
            if self.jobs.get(job).is_some_and(|job| job.is_entry(herd, serial)) {
                self.call(job);
            }
        }
    }
}
