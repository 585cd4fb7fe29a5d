//! Limits of queues and of namespaces that keep a job out.
use std::sync::Arc;

use phalanx_cluster::Cluster;
use phalanx_cluster::event::{Event, QueueInfo, QuotaInfo, Resources};
use phalanx_resource::{Amounts, Quantity};

use super::fix::{Choice, Fix};
use super::{Waiting, with_queue};
use crate::text;

/// By how much the weight of a queue is multiplied at most.
const WEIGHT_MAX: u32 = 64;

impl Waiting<'_> {
    /// Limits with which the job would run.
    pub(super) fn limits(&self) -> Vec<Choice<'_>> {
        // Where the amount is known that the queue lacks, it counts as room.
        let queues = if self.job.queue_lack.is_none() { self.larger_queues() } else { Vec::new() };
        vec![
            Choice::First(queues),
            Choice::First(self.weight().into_iter().collect()),
            Choice::Each(self.guarantees()),
            Choice::Each(self.quotas()),
        ]
    }

    /// What the job's waiting pods request that it needs to start; without such pods, its `minResources`.
    pub(super) fn request(&self) -> Resources {
        let minimum = self.cluster.jobs[self.id].minimum.resources.as_ref();
        if let Some(minimum) = minimum.filter(|_| self.job.waiting == 0) {
            return parsed(&self.cluster.render(minimum));
        }
        let (job, tasks) = (&self.cluster.jobs[self.id], &self.cluster.tasks);
        let waiting = job.tasks.iter().filter(|task| tasks[**task].node.is_none());
        let needed = job.min_member.saturating_sub(self.job.placed).max(1) as usize;
        let mut sum = Amounts::default();
        waiting.take(needed).for_each(|task| sum.add(self.cluster.request_of(*task)));
        parsed(&self.cluster.render(&sum))
    }

    /// The queues on the way up with as much as they hold and the job requests: one of them, or all together.
    pub(super) fn larger_queues(&self) -> Vec<Fix<'_>> {
        let request = &self.request();
        let (mut fixes, mut all) = (Vec::new(), Vec::new());
        for queue in self.queue_path() {
            let Some(id) = self.cluster.queue_named(&queue.name) else { continue };
            let held = parsed(&self.cluster.render_allocated(id, &self.cluster.devices_given(id)));
            let mut larger = queue.clone();
            let mut more = raised(&mut larger.capability, &held, request);
            let of_deserved = raised(&mut larger.deserved, &held, request);
            more.extend(
                of_deserved.into_iter().filter(|(name, _)| queue.capability.iter().all(|it| it.0 != *name)),
            );
            if !more.is_empty() {
                all.push(with_larger(&queue, fields_of(&queue, &more), &more));
                fixes.extend(larger_queue(&queue, &more));
            }
        }
        fixes.extend((all.len() > 1).then(|| Fix::all(all)));
        fixes
    }

    /// A larger weight.
    fn weight(&self) -> Option<Fix<'_>> {
        let queue = self.queue(&self.job.queue)?;
        let most = (queue.weight.max(1) as usize).saturating_mul(WEIGHT_MAX as usize);
        let name = queue.name.clone();
        let text = move |weight: usize| format!("if queue {name} had weight {weight}");
        let heavier = move |cluster: &Cluster, weight: usize| {
            with_queue(cluster, &queue.name, |queue| queue.weight = weight as u32)
        };
        Some(Fix::counted(most, text, heavier))
    }

    /// Other queues without their guarantees, or with smaller ones where the amount is known.
    fn guarantees(&self) -> Vec<Fix<'_>> {
        let lack = self.job.queue_lack.as_ref().map(|lack| parsed(&lack.missing)).unwrap_or_default();
        let others = self.queues().into_iter().filter(|queue| queue.name != self.job.queue);
        let fix = |queue: QueueInfo| {
            let name = queue.name;
            let lowered = |lack: Resources| {
                let name = name.clone();
                move |cluster: &Cluster| with_queue(cluster, &name, |it| lower(&mut it.guarantee, &lack))
            };
            if lack.is_empty() {
                let text = format!("without the guarantee of queue {name}");
                return Fix::new(text, move |cluster| {
                    with_queue(cluster, &name, |queue| queue.guarantee.clear())
                });
            }
            let text = format!("if the guarantee of queue {name} were {} less", amounts(&lack));
            Fix::new(text, lowered(lack.clone())).less(lowered(a_little_less(&lack)))
        };
        others.filter(|queue| !queue.guarantee.is_empty()).map(fix).collect()
    }

    /// ResourceQuotas of the namespace with as much as is used and the job's minResources ask for besides its pods.
    fn quotas(&self) -> Vec<Fix<'_>> {
        let demand = self.cluster.quota_demand(&self.cluster.jobs[self.id]);
        let asked = parsed(&self.cluster.render(&demand));
        let larger = |quota: QuotaInfo| {
            let asked = |(name, _): &(Arc<str>, Quantity)| {
                Some((name.clone(), amount_of(&asked, name.strip_prefix("requests.").unwrap_or(name))?))
            };
            let asked: Resources = quota.hard.iter().filter_map(asked).collect();
            let mut hard = quota.hard.clone();
            let more = raised(&mut hard, &quota.used, &asked);
            let text = format!("if ResourceQuota {} allowed {} more", quota.key, amounts(&more));
            let with = |more: &Resources| {
                let mut hard = quota.hard.clone();
                add(&mut hard, more);
                vec![Event::from(QuotaInfo { hard, ..quota.clone() })]
            };
            let less = with(&a_little_less(&more));
            (!more.is_empty()).then(|| Fix::events(text, with(&more)).less(move |_| less.clone()))
        };
        self.cluster.quota_infos(&self.job.key.namespace).filter_map(larger).collect()
    }
}

/// A queue with larger limits, of those that it has for these resources: its capability, its deserved, or both; where it
/// has neither, with a deserved.
pub(super) fn larger_queue<'w>(queue: &QueueInfo, more: &Resources) -> Vec<Fix<'w>> {
    let fields = match fields_of(queue, more) {
        Fields::Both => vec![Fields::Capability, Fields::Deserved, Fields::Both],
        one => vec![one],
    };
    fields.into_iter().map(|fields| with_larger(queue, fields, more)).collect()
}

/// The limits that a queue has for any of these resources; its deserved, where it has none.
fn fields_of(queue: &QueueInfo, more: &Resources) -> Fields {
    let is_limited = |limits: &Resources| more.iter().any(|(name, _)| amount_of(limits, name).is_some());
    match (is_limited(&queue.capability), is_limited(&queue.deserved)) {
        (true, true) => Fields::Both,
        (true, false) => Fields::Capability,
        (false, _) => Fields::Deserved,
    }
}

/// Limits of a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fields {
    Capability,
    Deserved,
    Both,
}

fn with_larger<'w>(queue: &QueueInfo, fields: Fields, more: &Resources) -> Fix<'w> {
    let with = |more: Resources| {
        let name = queue.name.clone();
        move |cluster: &Cluster| {
            with_queue(cluster, &name, |queue| {
                if fields != Fields::Deserved {
                    add(&mut queue.capability, &more);
                }
                let states_none = more.iter().all(|(name, _)| amount_of(&queue.deserved, name).is_none());
                match fields {
                    Fields::Capability => {}
                    Fields::Deserved if states_none => queue.deserved.extend(more.iter().cloned()),
                    Fields::Deserved | Fields::Both => add(&mut queue.deserved, &more),
                }
            })
        }
    };
    let named = match fields {
        Fields::Capability => "capability",
        Fields::Deserved => "deserved",
        Fields::Both => "deserved and capability",
    };
    let text = format!("if queue {} had {} more in its {named}", queue.name, amounts(more));
    Fix::new(text, with(more.clone())).less(with(a_little_less(more)))
}

/// The same amounts, each less by a thousandth of a unit.
pub(super) fn a_little_less(amounts: &Resources) -> Resources {
    let less = |(name, amount): &(Arc<str>, Quantity)| Some((name.clone(), milli(amount.milli() - 1)?));
    amounts.iter().filter_map(less).collect()
}

pub(super) fn parsed(list: &[(Arc<str>, String)]) -> Resources {
    list.iter().filter_map(|(name, amount)| Some((name.clone(), amount.parse().ok()?))).collect()
}

fn amount_of(list: &Resources, name: &str) -> Option<Quantity> {
    list.iter().find(|(known, _)| **known == *name).map(|(_, amount)| *amount)
}

/// Raises limits to what is held and requested together; returns by how much.
fn raised(limits: &mut Resources, held: &Resources, request: &Resources) -> Resources {
    let mut more = Resources::new();
    for (name, limit) in limits {
        let Some(asked) = amount_of(request, name) else { continue };
        let held = amount_of(held, name).map_or(0, Quantity::milli);
        let needed = held.saturating_add(asked.milli());
        if let (Some(missing), Some(needed)) = (milli(needed.saturating_sub(limit.milli())), milli(needed))
            && needed > *limit
        {
            more.push((name.clone(), missing));
            *limit = needed;
        }
    }
    more
}

/// Adds amounts to those that are given: a resource that is not has no limit.
fn add(limits: &mut Resources, more: &Resources) {
    for (name, limit) in limits {
        if let Some(sum) = amount_of(more, name).and_then(|more| sum(*limit, more)) {
            *limit = sum;
        }
    }
}

/// Takes amounts away, down to zero.
fn lower(amounts: &mut Resources, less: &Resources) {
    for (name, amount) in amounts {
        let less = amount_of(less, name).map_or(0, Quantity::milli);
        if let Some(lower) = milli(amount.milli().saturating_sub(less).max(0)) {
            *amount = lower;
        }
    }
}

pub(super) fn sum(a: Quantity, b: Quantity) -> Option<Quantity> {
    milli(a.milli().saturating_add(b.milli()))
}

fn milli(milli: i64) -> Option<Quantity> {
    format!("{milli}m").parse().ok()
}

/// `cpu 2, memory 4Gi`.
pub(super) fn amounts(amounts: &Resources) -> String {
    let mut dims = phalanx_resource::Dims::new();
    let each = amounts.iter().map(|(name, amount)| {
        let dim = dims.intern(name);
        (name.to_string(), dims.format(dim, dims.amount(dim, *amount)))
    });
    text::amounts(&each.collect())
}
