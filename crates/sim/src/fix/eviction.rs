//! Priorities, budgets and annotations that keep pods from being evicted for a job, and actions that evict.
use std::collections::BTreeSet;

use phalanx_cluster::event::{Event, PdbInfo, PodGroupInfo, PodInfo};
use phalanx_framework::conf::Conf;

use super::{Fix, TRIALS_MAX, Waiting};

/// The PriorityClass of a job whose priority is raised.
const RAISED: &str = "explain-raised";

/// Actions that a configuration may lack.
const ACTIONS: [&str; 4] = ["allocate", "backfill", "preempt", "reclaim"];

/// Priorities that are tried.
const PRIORITIES_MAX: usize = 6;

/// The most further disruptions that a budget is given.
const DISRUPTIONS_MAX: usize = 64;

impl Waiting<'_> {
    /// What would let pods be evicted for the job.
    pub(super) fn evictions(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        found.extend(self.first_helping(self.policy()));
        found.extend(self.priority());
        found.extend(self.api_server.pdbs().iter().take(TRIALS_MAX).filter_map(|pdb| self.disruptions(pdb)));
        found.extend(self.first_helping(self.preemptable()));
        found.extend(ACTIONS.iter().find_map(|action| self.action(action)));
        found
    }

    fn policy(&self) -> Option<Fix> {
        let never = self.waiting_pods().iter().any(|pod| pod.never_preempts);
        // A change of an existing pod's policy has no effect: the API server refuses it.
        let anew = |event: Event| match event {
            Event::Pod(pod) => vec![Event::PodGone(pod.pod.uid.clone()), Event::Pod(pod)],
            other => vec![other],
        };
        let events = self.with_pods(|pod| pod.never_preempts = false).into_iter().flat_map(anew).collect();
        never.then(|| Fix::new("with preemptionPolicy PreemptLowerPriority", events))
    }

    /// The lowest priority above that of a running job with which it would run.
    fn priority(&self) -> Option<String> {
        let own = self.job.priority.value;
        let running = self.core.groups.iter().filter(|job| job.placed > 0 && job.priority.value >= own);
        let values: BTreeSet<i32> = running.map(|job| job.priority.value.saturating_add(1)).collect();
        let helps = |value: &i32| (self.helps)(None, self.raised(*value));
        let value = values.into_iter().take(PRIORITIES_MAX).find(helps)?;
        Some(match self.missing_class() {
            Some(class) => format!("if PriorityClass {class} existed, with value {value} or more"),
            None => format!("with priority {value} or more"),
        })
    }

    fn missing_class(&self) -> Option<&str> {
        let class = self.group().and_then(|group| group.priority_class.as_deref());
        class.filter(|class| !self.objects.priority_classes.contains(*class))
    }

    fn raised(&self, value: i32) -> Vec<Event> {
        let class = Event::PriorityClass { name: RAISED.into(), value, global_default: false };
        let group = self.with_group(|group| group.priority_class = Some(RAISED.into()));
        let pods = self.with_pods(|pod| {
            (pod.priority, pod.priority_class) = (Some(value), Some(RAISED.into()));
        });
        std::iter::once(class).chain(group).chain(pods).collect()
    }

    fn disruptions(&self, pdb: &PdbInfo) -> Option<String> {
        let allowed = |more: usize| {
            let allowed = pdb.allowed.saturating_add(more as u32);
            vec![Event::from(PdbInfo { allowed, ..pdb.clone() })]
        };
        let more = self.fewest(DISRUPTIONS_MAX, allowed)?;
        let noun = if more == 1 { "disruption" } else { "disruptions" };
        Some(format!("if PodDisruptionBudget {} allowed {more} more {noun}", pdb.key))
    }

    /// Running PodGroups, and pods without one, that are not preemptable.
    fn preemptable(&self) -> Vec<Fix> {
        let runs = |pod: &&PodInfo| pod.life.node.is_some();
        let pods: Vec<&PodInfo> = self.api_server.pods().filter(runs).collect();
        let kept = |group: Option<&PodGroupInfo>, pods: &[&PodInfo]| {
            let no = Some(false);
            group.is_some_and(|it| it.preemptable == no) || pods.iter().any(|pod| pod.preemptable == no)
        };
        let mut fixes = Vec::new();
        for group in self.api_server.groups() {
            let key = &group.key;
            let own =
                |pod: &&&PodInfo| pod.pod.namespace == key.namespace && pod.group.as_ref() == Some(&key.name);
            let own: Vec<&PodInfo> = pods.iter().filter(own).copied().collect();
            if !own.is_empty() && kept(Some(group), &own) {
                let changed = PodGroupInfo { preemptable: Some(true), ..group.clone() };
                let events = std::iter::once(Event::from(changed)).chain(own.into_iter().map(may_go));
                fixes.push(Fix::new(format!("if PodGroup {key} were preemptable"), events.collect()));
            }
        }
        for pod in pods.iter().filter(|pod| pod.group.is_none() && kept(None, &[pod])) {
            fixes.push(Fix::new(format!("if pod {} were preemptable", pod.pod), vec![may_go(pod)]));
        }
        fixes
    }

    /// An action that the configuration lacks.
    fn action(&self, action: &str) -> Option<String> {
        if self.conf.actions.iter().any(|known| known == action) {
            return None;
        }
        let mut conf: Conf = self.conf.clone();
        conf.actions.push(action.to_owned());
        (self.helps)(Some(&conf), Vec::new()).then(|| format!("with action {action} in scheduler.conf"))
    }
}

fn may_go(pod: &PodInfo) -> Event {
    PodInfo { preemptable: Some(true), ..pod.clone() }.into()
}
