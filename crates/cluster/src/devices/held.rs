//! What queues hold of devices, kept by every move: a claim that several tasks of a queue share counts once, in the
//! subtree of each queue above too, and once in all.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_resource::DimId;
use rustc_hash::FxHashMap;

use super::quota::WHOLE;
use crate::count::Count;
use crate::event::ClaimRequest;
use crate::id::{ClaimId, JobId, QueueId, TaskId};
use crate::{Cluster, Status};

/// The tasks that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Of {
    /// A queue's own.
    Own(QueueId),
    /// Tasks of a queue and of all queues below.
    Subtree(QueueId),
    /// All tasks.
    All,
}

/// How many tasks hold a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Holders {
    /// Allocated ones.
    allocated: u32,
    nominated: u32,
}

/// Devices of a class that claims ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct QuotaSum {
    /// Of claims that allocated tasks hold.
    given: u32,
    /// Of claims that allocated or nominated tasks hold.
    held: u32,
}

/// Devices held by queues and jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HeldDevices {
    /// A queue, the queue of a job or the request of a claim has changed: the sums are rebuilt before the next cycle.
    stale: bool,
    holders: FxHashMap<(Of, ClaimId), Holders>,
    sums: FxHashMap<Of, BTreeMap<Arc<str>, QuotaSum>>,
}

/// Whether a task counts as allocated or nominated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum As {
    Allocated,
    Nominated,
}

impl As {
    fn of(status: Status) -> Option<Self> {
        match status {
            status if status.is_allocated() => Some(As::Allocated),
            Status::Pipelined => Some(As::Nominated),
            _ => None,
        }
    }
}

impl HeldDevices {
    fn shift(&mut self, of: Of, claim: ClaimId, asked: &[ClaimRequest], how: As, count: Count) {
        let holders = self.holders.entry((of, claim)).or_default();
        let before = *holders;
        count.step(match how {
            As::Allocated => &mut holders.allocated,
            As::Nominated => &mut holders.nominated,
        });
        let after = *holders;
        if after == Holders::default() {
            self.holders.remove(&(of, claim));
        }
        let sums = self.sums.entry(of).or_default();
        for one in asked {
            let sum = sums.entry(one.class.clone()).or_default();
            step(&mut sum.given, one.count, before.allocated > 0, after.allocated > 0);
            step(&mut sum.held, one.count, before != Holders::default(), after != Holders::default());
        }
        sums.retain(|_, sum| *sum != QuotaSum::default());
        if sums.is_empty() {
            self.sums.remove(&of);
        }
    }

    fn holders(&self, of: Of, claim: ClaimId) -> u32 {
        self.holders.get(&(of, claim)).map_or(0, |holders| holders.allocated + holders.nominated)
    }

    fn sum(&self, of: Of, class: &str) -> QuotaSum {
        self.sums.get(&of).and_then(|sums| sums.get(class)).copied().unwrap_or_default()
    }
}

fn step(sum: &mut u32, count: u32, before: bool, after: bool) {
    match (before, after) {
        (false, true) => *sum += count,
        (true, false) => *sum -= count,
        _ => {}
    }
}

impl Cluster {
    /// The sums may not be right any more.
    pub fn devices_moved_about(&mut self) {
        self.devices.held.stale = true;
    }

    /// Counts the claims of a task whose status or claims change.
    pub(crate) fn count_in_device_use(&mut self, id: TaskId, from: Option<Status>, to: Option<Status>) {
        let (from, to) = (from.and_then(As::of), to.and_then(As::of));
        if from == to || self.devices.held.stale || self.tasks[id].claims.is_none() {
            return;
        }
        let mut held = std::mem::take(&mut self.devices.held);
        for (how, count) in [(from, Count::Out), (to, Count::In)] {
            if let Some(how) = how {
                self.enter(&mut held, id, how, count);
            }
        }
        self.devices.held = held;
    }

    fn enter(&self, held: &mut HeldDevices, id: TaskId, how: As, count: Count) {
        let queue = self.queue_of(id);
        let path = queue.into_iter().flat_map(|queue| self.queue_path(queue)).map(Of::Subtree);
        for of in path.chain(queue.map(Of::Own)).chain([Of::All]) {
            for claim in self.claims_of(id) {
                held.shift(of, *claim, self.device_requests(*claim), how, count);
            }
        }
    }

    fn rebuilt_held_devices(&self) -> HeldDevices {
        let mut held = HeldDevices::default();
        for id in self.claimants() {
            if let Some(how) = As::of(self.tasks[id].status) {
                self.enter(&mut held, id, how, Count::In);
            }
        }
        held
    }

    /// Rebuilds the sums if they are stale.
    pub fn refresh_held_devices(&mut self) {
        if self.devices.held.stale {
            self.devices.held = self.rebuilt_held_devices();
        }
    }

    /// Compares the sums with rebuilt ones, unless they are stale.
    pub(crate) fn check_device_use(&self, note: &mut crate::check::Note<'_>) {
        let right = self.devices.held.stale || self.devices.held == self.rebuilt_held_devices();
        note(right, "what queues hold of devices".into());
    }

    /// Reads the sums, rebuilt for this question where they are stale, as they may be between cycles.
    fn ask_held_devices<T>(&self, ask: impl FnOnce(&HeldDevices) -> T) -> T {
        if self.devices.held.stale { ask(&self.rebuilt_held_devices()) } else { ask(&self.devices.held) }
    }

    /// How many devices of a resource's class tasks hold that have a place or are nominated, in thousandths.
    pub fn devices_held_by(&self, of: Of, dim: DimId) -> i64 {
        let class = self.device_class(dim).unwrap_or_default();
        self.ask_held_devices(|held| i64::from(held.sum(of, class).held) * WHOLE)
    }

    /// Number of allocated and nominated tasks that hold a claim.
    pub fn claim_holders(&self, of: Of, claim: ClaimId) -> u32 {
        self.ask_held_devices(|held| held.holders(of, claim))
    }

    /// Devices by class that allocated tasks of a queue, with those below it, have or will be given.
    pub fn devices_given(&self, queue: QueueId) -> Vec<(Arc<str>, u32)> {
        let given = |(class, sum): (&Arc<str>, &QuotaSum)| (class.clone(), sum.given);
        let all = self.ask_held_devices(|held| {
            held.sums.get(&Of::Subtree(queue)).into_iter().flatten().map(given).collect::<Vec<_>>()
        });
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// A job's pods have claims, or have none any more.
    pub(super) fn count_claimant(&mut self, job: Option<JobId>, count: Count) {
        if let Some(job) = job {
            count.entry(&mut self.devices.claimants.by_job, job);
        }
    }

    /// What a job's minResources ask for of devices was learned, or is gone with it.
    pub fn note_asking(&mut self, job: JobId, asks: bool) {
        if asks {
            self.devices.claimants.by_min_resources.insert(job);
        } else {
            self.devices.claimants.by_min_resources.remove(&job);
        }
    }

    /// Jobs whose pods have claims, or whose minResources name devices; in any order.
    pub fn jobs_with_devices(&self) -> impl Iterator<Item = JobId> + '_ {
        let super::Claimants { by_job, by_min_resources, .. } = &self.devices.claimants;
        let others = by_min_resources.iter().filter(|job| !by_job.contains_key(job));
        by_job.keys().chain(others).copied()
    }
}
