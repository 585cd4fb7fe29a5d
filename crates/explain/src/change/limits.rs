//! Limits of queues and of namespaces that keep a job out.
use std::sync::Arc;

use phalanx_cluster::event::{Event, QueueInfo, QuotaInfo, Resources};
use phalanx_core::report::Figures;
use phalanx_resource::{Amounts, Quantity};

use super::{Fix, Remedy, Waiting};
use crate::text;

/// By how much the weight of a queue is multiplied at most.
const WEIGHT_MAX: u32 = 64;

impl Waiting<'_> {
    /// Limits with which the job would run.
    pub(super) fn limits(&self) -> Vec<Remedy> {
        let queues = self.job.queue_lack.is_none().then(|| self.larger_queues(&self.request()));
        let mut found: Vec<Remedy> = queues.and_then(|fixes| self.first_helping(fixes)).into_iter().collect();
        found.extend(self.weight());
        found.extend(self.helping(self.guarantees()));
        found.extend(self.helping(self.quotas()));
        found
    }

    /// What the job's waiting pods request that it needs to start.
    pub(super) fn request(&self) -> Resources {
        let (job, tasks) = (&self.cluster.jobs[self.id], &self.cluster.tasks);
        let waiting = job.tasks.iter().filter(|task| tasks[**task].node.is_none());
        let needed = job.min_member.saturating_sub(self.job.placed).max(1) as usize;
        let mut sum = Amounts::default();
        waiting.take(needed).for_each(|task| sum.add(self.cluster.request_of(*task)));
        parsed(&self.cluster.render(&sum))
    }

    /// The queues on the way up with as much as they hold and the job requests, alone and all together.
    fn larger_queues(&self, request: &Resources) -> Vec<Fix> {
        let mut fixes: Vec<Fix> = Vec::new();
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
                let text = format!("if queue {} might hold {} more", queue.name, amounts(&more));
                fixes.push(Fix::new(text, vec![larger.into()]));
            }
        }
        fixes
    }

    /// A larger weight.
    fn weight(&self) -> Option<Remedy> {
        let queue = self.queue(&self.job.queue)?;
        let most = (queue.weight.max(1) as usize).saturating_mul(WEIGHT_MAX as usize);
        let heavier = |weight: usize| vec![Event::from(QueueInfo { weight: weight as u32, ..queue.clone() })];
        let weight = self.fewest(most, heavier)?;
        Some(Remedy::new(format!("if queue {} had weight {weight}", queue.name)))
    }

    /// Other queues without their guarantees, or with smaller ones where the amount is known.
    fn guarantees(&self) -> Vec<Fix> {
        let others = self.queues().into_iter().filter(|queue| queue.name != self.job.queue);
        let mut fixes = Vec::new();
        for queue in others.filter(|queue| !queue.guarantee.is_empty()) {
            let lack = self.job.queue_lack.as_ref().map(|lack| parsed(&lack.missing)).unwrap_or_default();
            let mut less = queue.clone();
            lower(&mut less.guarantee, &lack);
            let text = format!("if the guarantee of queue {} were {} less", queue.name, amounts(&lack));
            if lack.is_empty() {
                less.guarantee.clear();
                fixes.push(Fix::new(
                    format!("without the guarantee of queue {}", queue.name),
                    vec![less.into()],
                ));
            } else {
                fixes.push(Fix::new(text, vec![less.into()]));
            }
        }
        fixes
    }

    /// ResourceQuotas of the namespace with as much as is used and the job's minResources ask for besides its pods.
    fn quotas(&self) -> Vec<Fix> {
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
            (!more.is_empty()).then(|| Fix::new(text, vec![QuotaInfo { hard, ..quota }.into()]))
        };
        self.cluster.quota_infos(&self.job.key.namespace).filter_map(larger).collect()
    }
}

fn parsed(list: &[(Arc<str>, String)]) -> Resources {
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
pub(super) fn raise(limits: &mut Resources, more: &Figures) {
    let more = parsed(more);
    for (name, limit) in limits {
        let more = amount_of(&more, name).map_or(0, Quantity::milli);
        if let Some(sum) = milli(limit.milli().saturating_add(more)) {
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
