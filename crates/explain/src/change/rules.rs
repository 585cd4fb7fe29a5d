//! Rules of a job without which it would run: told where nothing else helps.
use std::sync::Arc;

use phalanx_cluster::event::{Constraints, PodRules};

use super::Waiting;
use super::fix::{Choice, Fix};
use super::missing::without_volumes;

/// A rule of pods: what it is called, and constraints without it.
type Rule = (&'static str, fn(&mut Constraints));

/// The rules that are left out, one at a time.
static RULES: [Rule; 7] = [
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
    pub(super) fn rules(&self) -> Vec<Choice<'_>> {
        let has = |(_, clear): &&Rule| {
            self.waiting_pods().any(|pod| {
                let mut constraints = Constraints::clone(&pod.constraints);
                clear(&mut constraints);
                constraints != *pod.constraints
            })
        };
        let fix = |(text, clear): &'static Rule| {
            Fix::new(*text, move |cluster| self.with_constraints(cluster, clear))
        };
        let first = self.other_volumes().into_iter().chain(self.no_minimum_of_resources());
        let claims = self.waiting_pods().any(|pod| pod.claims.is_some());
        let claims = claims.then(|| {
            Fix::new("without its ResourceClaims", |cluster| self.with_pods(cluster, |pod| pod.claims = None))
        });
        let rules = RULES.iter().filter(has).map(fix).chain(claims);
        vec![Choice::Each(first.collect()), Choice::Each(rules.collect())]
    }
}
