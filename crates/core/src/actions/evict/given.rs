//! What other queues can give together at the most. Each gives only as long as it has more than it may keep, so it gives no more
//! than that and one pod; without this bound every set of its pods would be tried before a gang is refused that asks for more.
use std::collections::BTreeMap;

use phalanx_resource::{Amounts, DimId};
use rustc_hash::FxHashMap;

use super::ledger::Ledger;
use super::purpose::Purpose;
use crate::session::Session;
use phalanx_cluster::id::{ClassId, NodeId, QueueId, TaskId};
use phalanx_framework::plugin::EvictionKind;

/// Pods of a queue that ask for the same, and how many of them there are.
type Alike<'w> = (&'w Amounts, i64);

/// What each queue can give of the resources that are asked for.
#[derive(Clone, Debug)]
pub(super) struct Given(BTreeMap<QueueId, Amounts>);

impl Given {
    /// By these victims, on nodes that help; `None` where queues say nothing.
    pub(super) fn most(
        session: &Session<'_>,
        purpose: Purpose,
        today: &Ledger,
        victims: impl Iterator<Item = (TaskId, NodeId)>,
    ) -> Option<Self> {
        if purpose.kind() != EvictionKind::Reclaim || !session.tiers.guard_queues() {
            return None;
        }
        let world = &*session.world;
        let mut queues: BTreeMap<QueueId, FxHashMap<ClassId, i64>> = BTreeMap::new();
        for (task, _) in victims.filter(|(_, node)| today.admits(*node)) {
            let queue = world.queue_of(task)?;
            *queues.entry(queue).or_default().entry(world.tasks[task].class).or_default() += 1;
        }
        let of = |(queue, classes): (QueueId, FxHashMap<ClassId, i64>)| {
            let pods: Vec<Alike<'_>> =
                classes.into_iter().map(|(class, count)| (&world.classes[class].request, count)).collect();
            let surplus: Vec<Amounts> = session.tiers.surplus(world, purpose.flag(), queue).collect();
            let mut given = Amounts::new();
            for dim in today.dims() {
                let bounds = surplus.iter().map(|surplus| bound(dim, &pods, surplus));
                given.set(dim, bounds.fold(total(dim, &pods), i64::min));
            }
            (queue, given)
        };
        Some(Self(queues.into_iter().map(of).collect()))
    }

    /// A queue has given so much.
    pub(super) fn take(&mut self, queue: QueueId, amounts: &Amounts) {
        self.0.entry(queue).or_default().sub(amounts);
    }

    /// It has not after all.
    pub(super) fn put_back(&mut self, queue: QueueId, amounts: &Amounts) {
        self.0.entry(queue).or_default().add(amounts);
    }

    /// What all of them can give still.
    pub(super) fn sum(&self) -> Amounts {
        let mut sum = Amounts::new();
        for (dim, amount) in self.0.values().flat_map(Amounts::iter) {
            sum.set(dim, sum.get(dim).saturating_add(amount.max(0)));
        }
        sum
    }
}

fn total(dim: DimId, pods: &[Alike<'_>]) -> i64 {
    pods.iter().map(|(asks, count)| asks.get(dim).saturating_mul(*count)).fold(0, i64::saturating_add)
}

/// How much of a resource pods can hold that go one after the other, each only as long as there is some surplus left of what
/// it asks for; those that ask for none of it go anyway. Before the last one, what went was less than the surplus of something.
fn bound(dim: DimId, pods: &[Alike<'_>], surplus: &Amounts) -> i64 {
    let dims = || surplus.iter().filter(|(_, left)| *left > 0);
    let minds = |(asks, _): &Alike<'_>| dims().any(|(dim, _)| asks.get(dim) > 0);
    let (bound, free): (Vec<Alike<'_>>, Vec<Alike<'_>>) = pods.iter().copied().partition(minds);
    let before = dims().map(|(by, left)| most_within(dim, &bound, by, left)).max().unwrap_or(0);
    let last = bound.iter().map(|(asks, _)| asks.get(dim)).max().unwrap_or(0);
    total(dim, &free).saturating_add(before.saturating_add(last))
}

/// The most of a resource that pods can hold that together hold no more than a limit of another: those with the most of the one
/// for the other first, the last of them in part.
fn most_within(dim: DimId, pods: &[Alike<'_>], by: DimId, limit: i64) -> i64 {
    let (mut costly, free): (Vec<Alike<'_>>, Vec<Alike<'_>>) =
        pods.iter().copied().partition(|(asks, _)| asks.get(by) > 0);
    let cross =
        |(one, _): &Alike<'_>, (other, _): &Alike<'_>| i128::from(one.get(dim)) * i128::from(other.get(by));
    costly.sort_by(|a, b| cross(b, a).cmp(&cross(a, b)));
    let (mut most, mut left) = (i128::from(total(dim, &free)), i128::from(limit));
    for (asks, count) in costly {
        let (gain, cost) = (i128::from(asks.get(dim)), i128::from(asks.get(by)));
        let taken = (cost * i128::from(count)).min(left);
        most += (gain * taken).div_euclid(cost) + 1;
        left -= taken;
    }
    i64::try_from(most).unwrap_or(i64::MAX)
}
