//! Limits of queues and of namespaces that keep a job out.
use std::sync::Arc;

use phalanx_cluster::JobKind;
use phalanx_cluster::event::{Event, QueueInfo, QuotaInfo, Resources};
use phalanx_resource::{Amounts, Quantity};

use super::{Fix, Waiting};
use crate::report::figures;

/// By how much the weight of a queue is multiplied at most.
const WEIGHT_MAX: u32 = 64;

impl Waiting<'_> {
    /// Limits with which the job would run.
    pub(super) fn limits(&self) -> Vec<String> {
        let Some(request) = self.request() else { return Vec::new() };
        let queues = self.job.queue_lack.is_none().then(|| self.larger_queues(&request));
        let mut found: Vec<String> = queues.and_then(|fixes| self.first_helping(fixes)).into_iter().collect();
        found.extend(self.weight());
        found.extend(self.helping(self.guarantees()));
        found.extend(self.helping(self.quotas()));
        found
    }

    /// What the job's waiting pods request that it needs to start.
    pub(super) fn request(&self) -> Option<Resources> {
        let kind = if self.job.solo { JobKind::Solo } else { JobKind::Group };
        let job = &self.cluster.jobs[self.cluster.job_named(kind, &self.job.key)?];
        let waiting = job.tasks.iter().filter(|task| self.cluster.tasks[**task].node.is_none());
        let needed = job.min_member.saturating_sub(self.job.placed).max(1) as usize;
        let mut sum = Amounts::default();
        for task in waiting.take(needed) {
            sum.add(&self.cluster.classes[self.cluster.tasks[*task].class].request);
        }
        Some(parsed(&self.cluster.render(&sum)))
    }

    /// The queues on the way up with as much as they hold and the job requests, alone and all together.
    fn larger_queues(&self, request: &Resources) -> Vec<Fix> {
        let path = self.queue_path();
        let mut fixes: Vec<Fix> = Vec::new();
        for queue in path {
            let held = self.core.queues.iter().find(|report| report.name == queue.name);
            let held = held.map(|report| parsed(&report.allocated)).unwrap_or_default();
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
    fn weight(&self) -> Option<String> {
        let queue = self.queue(&self.job.queue)?;
        let most = (queue.weight.max(1) as usize).saturating_mul(WEIGHT_MAX as usize);
        let heavier = |weight: usize| vec![Event::from(QueueInfo { weight: weight as u32, ..queue.clone() })];
        let weight = self.fewest(most, heavier)?;
        Some(format!("if queue {} had weight {weight}", queue.name))
    }

    /// Other queues without their guarantees, or with smaller ones where the amount is known.
    fn guarantees(&self) -> Vec<Fix> {
        let others = self.api_server.queues().filter(|queue| queue.name != self.job.queue);
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
        let Some(asked) = self.asked_beside_pods() else { return Vec::new() };
        let of_namespace =
            self.objects.quotas.iter().filter(|quota| quota.key.namespace == self.job.key.namespace);
        let larger = |quota: &QuotaInfo| {
            let asked =
                |(name, _): &(Arc<str>, Quantity)| Some((name.clone(), amount_of(&asked, base(name))?));
            let asked: Resources = quota.hard.iter().filter_map(asked).collect();
            let used = |(name, _): &(Arc<str>, Quantity)| {
                Some((name.clone(), quota.used.iter().find(|(known, _)| base(known) == base(name))?.1))
            };
            let used: Resources = quota.hard.iter().filter_map(used).collect();
            let mut hard = quota.hard.clone();
            let more = raised(&mut hard, &used, &asked);
            let text = format!("if ResourceQuota {} allowed {} more", quota.key, amounts(&more));
            (!more.is_empty()).then(|| Fix::new(text, vec![QuotaInfo { hard, ..quota.clone() }.into()]))
        };
        of_namespace.filter_map(larger).collect()
    }

    /// What minResources ask for beyond the requests of pods that exist, which quotas count already.
    fn asked_beside_pods(&self) -> Option<Resources> {
        let mut asked = self.group()?.min_resources.clone()?;
        let job = &self.cluster.jobs[self.cluster.job_named(JobKind::Group, &self.job.key)?];
        let mut sum = Amounts::default();
        for task in &job.tasks {
            sum.add(&self.cluster.classes[self.cluster.tasks[*task].class].request);
        }
        lower(&mut asked, &parsed(&self.cluster.render(&sum)));
        Some(asked)
    }
}

/// The resource that an amount of a ResourceQuota is of.
fn base(name: &str) -> &str {
    let prefixes = ["requests.", "limits.", "count/"];
    prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
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
        (name.clone(), dims.format(dim, dims.amount(dim, *amount)))
    });
    figures(each.collect::<Vec<_>>())
}
