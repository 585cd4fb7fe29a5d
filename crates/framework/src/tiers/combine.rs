//! The rules by which the opinions of plugins become one answer.
//!
//! Three follow the tiers of scheduler.conf: *first* (orders), *vote* (admission, pipelining) and *intersect* (victims).
//! Where tiers do not matter, *all*, *any* and *sum* ask every plugin. Source: Volcano's
//! `framework/session_plugins.go`, with the differences that docs/differences.md lists.
use std::cmp::Ordering;

use super::{TierPlugin, Tiers};
use crate::conf::Flag;
use crate::plugin::{EnqueueVote, Eviction, Plugin, Vote};
use phalanx_cluster::Cluster;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::id::TaskId;

/// Victims that the plugins of one tier agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierVictims {
    /// The tier, counted from 0.
    pub tier: usize,
    /// The victims, in the order of the potential victims.
    pub victims: Vec<TaskId>,
}

impl TierPlugin {
    /// Whether the plugin is asked about victims whichever tier decides. Within one queue (`preemptable`) it does not
    /// matter what queues may keep.
    fn guards_queues(&self, flag: Option<Flag>) -> bool {
        flag != Some(Flag::Preemptable) && self.is_on(flag) && self.plugin.queue_guard().is_some()
    }
}

impl Tiers {
    /// Rule *first*: the first answer that is not `Equal`.
    pub fn first(&self, flag: impl Into<Option<Flag>>, ask: impl Fn(&dyn Plugin) -> Ordering) -> Ordering {
        let mut answers = self.entries(flag.into()).map(|entry| self.ask(entry, &ask));
        answers.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// Rule *vote*: no as soon as a plugin rejects; yes after the first tier in which a plugin permits, and also when
    /// all plugins abstain.
    pub fn vote(&self, flag: Flag, ask: impl Fn(&dyn Plugin) -> Vote) -> bool {
        let answer = |plugin: &dyn Plugin| match ask(plugin) {
            Vote::Reject => Err(()),
            Vote::Abstain => Ok(false),
            Vote::Permit => Ok(true),
        };
        self.vote_with_reason(flag, answer).is_ok()
    }

    /// Rule *vote* on whether a job may become Inqueue, with the reason of the reject.
    pub fn enqueue_vote(&self, ask: impl Fn(&dyn Plugin) -> EnqueueVote) -> Result<(), Refusal> {
        self.vote_with_reason(Flag::JobEnqueued, |plugin| match ask(plugin) {
            EnqueueVote::Reject(refusal) => Err(refusal),
            EnqueueVote::Abstain => Ok(false),
            EnqueueVote::Permit => Ok(true),
        })
    }

    /// Rule *vote*, where `Err` rejects, `Ok(true)` permits and `Ok(false)` abstains.
    fn vote_with_reason<E>(&self, flag: Flag, ask: impl Fn(&dyn Plugin) -> Result<bool, E>) -> Result<(), E> {
        for tier in self.tiers() {
            let mut permitted = false;
            for entry in tier.iter().filter(|entry| entry.flags.on(flag)) {
                permitted |= self.ask(entry, &ask)?;
            }
            if permitted {
                break;
            }
        }
        Ok(())
    }

    /// Rule *intersect*, on potential victims in the order of eviction: each plugin of a tier is asked about the
    /// victims that the plugins before it left. The first tier with an opinion that leaves a victim decides; a tier
    /// that leaves none has no say, and the next tier is asked. With `only`, no other tier is asked. Plugins that guard
    /// queues are asked whichever tier decides, except with [`Flag::Preemptable`]. Without a flag every plugin is
    /// asked.
    pub fn intersect(
        &self,
        cluster: &Cluster,
        eviction: Eviction,
        only: Option<usize>,
        of: &[TaskId],
    ) -> Option<TierVictims> {
        let flag = eviction.flag();
        for (tier, plugins) in
            self.tiers().enumerate().filter(|(tier, _)| only.is_none_or(|only| only == *tier))
        {
            let mut left: Option<Vec<TaskId>> = None;
            for entry in plugins.iter().filter(|entry| entry.is_on(flag)) {
                let asked = left.as_deref().unwrap_or(of);
                if let Some(picked) = self.ask(entry, |it| it.evictable(cluster, eviction, asked)) {
                    left = Some(intersection(asked, picked));
                }
            }
            let Some(mut victims) = left else { continue };
            for entry in self.plugins.iter().filter(|entry| entry.guards_queues(flag)) {
                if let Some(picked) = self.ask(entry, |it| it.evictable(cluster, eviction, &victims)) {
                    victims = intersection(&victims, picked);
                }
            }
            if !victims.is_empty() {
                return Some(TierVictims { tier, victims });
            }
        }
        None
    }

    /// Whether [`intersect`](Self::intersect) could leave a victim in any order of the potential victims: some tier has
    /// an opinion, and each plugin of that tier, and each that guards queues, alone leaves a victim.
    pub fn any_victims(&self, cluster: &Cluster, eviction: Eviction, of: &[TaskId]) -> bool {
        let flag = eviction.flag();
        let picks = |entry: &TierPlugin| self.ask(entry, |it| it.evictable(cluster, eviction, of));
        let leaves = |entry: &TierPlugin| picks(entry).map(|picked| !picked.is_empty());
        let all_leave = |tier: &[TierPlugin]| {
            let mut opinions = tier.iter().filter(|entry| entry.is_on(flag)).filter_map(leaves).peekable();
            opinions.peek().is_some() && opinions.all(|leaves| leaves)
        };
        let mut guards = self.plugins.iter().filter(|entry| entry.guards_queues(flag));
        guards.all(|entry| leaves(entry) != Some(false)) && self.tiers().any(all_leave)
    }

    /// Rule *all*: the first reason with which a plugin says no.
    pub fn all<E>(
        &self,
        flag: impl Into<Option<Flag>>,
        mut ask: impl FnMut(&dyn Plugin) -> Result<(), E>,
    ) -> Result<(), E> {
        self.entries(flag.into()).try_for_each(|entry| self.ask(entry, &mut ask))
    }

    /// Rule *all* by tiers: the first tier with an opinion decides, with yes if all opinions of the tier are yes; no
    /// where no plugin has an opinion.
    pub fn all_of_first_tier(&self, flag: Flag, ask: impl Fn(&dyn Plugin) -> Option<bool>) -> bool {
        for tier in self.tiers() {
            let on = tier.iter().filter(|entry| entry.flags.on(flag));
            if let Some(all) = on.filter_map(|entry| self.ask(entry, &ask)).reduce(|a, b| a && b) {
                return all;
            }
        }
        false
    }

    /// Rule *any*: the first answer of a plugin that has one.
    pub fn any<T>(
        &self,
        flag: impl Into<Option<Flag>>,
        mut ask: impl FnMut(&dyn Plugin) -> Option<T>,
    ) -> Option<T> {
        self.entries(flag.into()).find_map(|entry| self.ask(entry, &mut ask))
    }

    /// Rule *sum* by tiers: all tasks that the plugins of a tier name, each once, in the order of the plugins; the
    /// first tier that names a task decides.
    pub fn sum_of_first_tier(&self, flag: Flag, ask: impl Fn(&dyn Plugin) -> Vec<TaskId>) -> Vec<TaskId> {
        for tier in self.tiers() {
            let mut seen = rustc_hash::FxHashSet::default();
            let on = tier.iter().filter(|entry| entry.flags.on(flag));
            let mut named: Vec<TaskId> = on.flat_map(|entry| self.ask(entry, &ask)).collect();
            named.retain(|task| seen.insert(*task));
            if !named.is_empty() {
                return named;
            }
        }
        Vec::new()
    }
}

/// The tasks of `of` that are in `picked`, in the order of `of`.
fn intersection(of: &[TaskId], picked: Vec<TaskId>) -> Vec<TaskId> {
    let mut rest = of.iter();
    if picked.iter().all(|task| rest.any(|other| other == task)) {
        return picked;
    }
    let picked: rustc_hash::FxHashSet<TaskId> = picked.into_iter().collect();
    of.iter().copied().filter(|task| picked.contains(task)).collect()
}

#[cfg(test)]
mod tests;
