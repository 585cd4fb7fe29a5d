//! Rules of a job without which it would run: told where nothing else helps.
use std::sync::Arc;

use phalanx_cluster::event::{Constraints, PodRules};

use super::missing::without_volumes;
use super::{Fix, Remedy, Waiting};

/// A rule of pods: what it is called, and constraints without it.
type Rule = (&'static str, fn(&mut Constraints));

/// The rules that are left out, one at a time.
const RULES: [Rule; 7] = [
    ("without its node selector and its required node affinity", |it| {
        it.node_selector.clear();
        it.node_affinity = None;
    }),
    ("without its required pod affinity", |it| without(it, |rules| rules.affinity.clear())),
    ("without its required pod anti-affinity", |it| without(it, |rules| rules.anti_affinity.clear())),
    ("without its topology spread constraints", |it| without(it, |rules| rules.spread.clear())),
    ("without its host ports", |it| it.host_ports.clear()),
    ("without its disks", |it| it.disks.clear()),
    ("without its claims to volumes", without_volumes),
];

fn without(constraints: &mut Constraints, clear: fn(&mut PodRules)) {
    if let Some(rules) = &constraints.pod_rules {
        let mut rules = PodRules::clone(rules);
        clear(&mut rules);
        constraints.pod_rules = (!rules.is_empty()).then(|| Arc::new(rules));
    }
}

impl Waiting<'_> {
    /// The rules without which the job would run.
    pub(super) fn rules(&self) -> Vec<Remedy> {
        let has = |(_, clear): &&Rule| {
            self.waiting_pods().any(|pod| {
                let mut constraints = Constraints::clone(&pod.constraints);
                clear(&mut constraints);
                constraints != *pod.constraints
            })
        };
        let fix = |(text, clear): &Rule| Fix::new(*text, self.with_constraints(clear));
        let mut found = self.helping(self.other_volumes().into_iter().chain(self.no_minimum_of_resources()));
        if !found.is_empty() {
            return found;
        }
        found = self.helping(RULES.iter().filter(has).map(fix));
        if self.waiting_pods().any(|pod| pod.claims.is_some()) {
            found.extend(
                self.helping([Fix::new(
                    "without its ResourceClaims",
                    self.with_pods(|pod| pod.claims = None),
                )]),
            );
        }
        found
    }
}
