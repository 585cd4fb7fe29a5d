//! Pod affinity and topology spread by the plain rules, which count all tasks anew each time; pods with such rules.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{in_millionths, requirement};
use phalanx_cluster::event::{
    Constraints, Operator, PodRules, PodSelector, PodTerm, Requirement, Spread, TaintEffect,
};
use phalanx_cluster::id::{NodeId, TaskId};
use phalanx_cluster::label::{Labels, Selector};
use phalanx_cluster::matching::{node_term_matches, tolerates};
use phalanx_cluster::{Cluster, Hold, Node, Task};

/// The number of kinds of pod rules.
pub(super) const RULES: usize = 9;
/// The number of sets of labels that a pod can have.
pub(super) const LOOKS: usize = 5;

/// Namespace and label `app` of a set of labels.
pub(super) fn look(look: usize) -> (&'static str, Labels) {
    let (namespace, app) = [("ns", "x"), ("ns", "y"), ("other", "x"), ("other", "y"), ("ns", "")][look];
    let labels = (!app.is_empty()).then(|| (Arc::from("app"), Arc::from(app)));
    (namespace, labels.into_iter().chain([("noise".into(), "n".into())]).collect())
}

fn term(key: &str, list: Vec<Requirement>) -> PodTerm {
    let pods =
        PodSelector { namespaces: vec!["ns".into()], labels: Some(Selector(list)), ..PodSelector::default() };
    PodTerm { topology_key: key.into(), pods }
}

fn app(key: &str, app: &str) -> PodTerm {
    term(key, vec![requirement("app", Operator::In, &[app])])
}

fn of_teams(key: &str, team: &str) -> PodTerm {
    let mut it = term(key, vec![requirement("app", Operator::Exists, &[])]);
    it.pods.namespaces.clear();
    it.pods.namespace_selector = Some(Selector(vec![requirement("team", Operator::In, &[team])]));
    it
}

fn spread(key: &str, required: bool) -> Spread {
    Spread {
        term: app(key, "x"),
        max_skew: 1,
        required,
        min_domains: 1,
        honor_affinity: true,
        honor_taints: false,
    }
}

const HOST: &str = "kubernetes.io/hostname";

/// The pod rules of a kind.
pub(super) fn rules(kind: usize) -> PodRules {
    let none = PodRules::default;
    match kind {
        0 => PodRules { affinity: vec![app("zone", "x")], ..none() },
        1 => PodRules { anti_affinity: vec![app(HOST, "x")], ..none() },
        2 => PodRules { anti_affinity: vec![of_teams("zone", "b")], ..none() },
        3 => PodRules {
            preferred: vec![(10, app("zone", "x")), (-5, app(HOST, "y")), (3, of_teams("zone", "a"))],
            ..none()
        },
        4 => PodRules { spread: vec![Spread { min_domains: 2, ..spread("zone", true) }], ..none() },
        5 => PodRules {
            spread: vec![
                spread(HOST, false),
                Spread { max_skew: 2, honor_affinity: false, ..spread("zone", false) },
            ],
            ..none()
        },
        6 => PodRules { affinity: vec![app("zone", "x"), of_teams("cores", "a")], ..none() },
        7 => PodRules {
            spread: vec![Spread { honor_taints: true, ..spread(HOST, true) }, spread("cores", true)],
            anti_affinity: vec![app("cores", "y")],
            ..none()
        },
        _ => PodRules { affinity: vec![app(HOST, "y")], preferred: vec![(7, app("cores", "x"))], ..none() },
    }
}

// ---------------------------------------------------------------- the plain rules

struct Ask<'a> {
    cluster: &'a Cluster,
    task: &'a Task,
    id: TaskId,
}

fn of<'a>(cluster: &'a Cluster, task: &Task) -> &'a Constraints {
    &cluster.classes[task.class].constraints
}

fn rules_of<'a>(cluster: &'a Cluster, task: &Task) -> &'a [Arc<PodRules>] {
    of(cluster, task).pod_rules.as_slice()
}

fn means(cluster: &Cluster, pods: &PodSelector, task: &Task) -> bool {
    let namespace = &task.pod.namespace;
    let selected = pods.namespace_selector.as_ref();
    (pods.namespaces.contains(namespace)
        || selected.is_some_and(|selector| selector.matches(&cluster.terms.namespace(namespace))))
        && pods.labels.as_ref().is_some_and(|selector| selector.matches(&task.details.labels))
}

fn same_domain(cluster: &Cluster, key: &str, a: NodeId, b: NodeId) -> bool {
    let value = |node: NodeId| cluster.nodes[node].label(key).filter(|_| cluster.nodes[node].exists);
    value(a).is_some() && value(a) == value(b)
}

impl Ask<'_> {
    /// Tasks with one of these holds on a node, with their nodes.
    fn placed<'b>(&'b self, holds: &'b [Hold]) -> impl Iterator<Item = (&'b Task, NodeId)> {
        let tasks = self.cluster.tasks.iter().filter(|(id, _)| *id != self.id || self.task.node.is_some());
        tasks
            .filter(|(_, task)| holds.contains(&task.status.hold()))
            .filter_map(|(_, task)| Some((task, task.node?)))
    }

    fn fits(&self, node: NodeId, later: bool) -> bool {
        let views: &[&[Hold]] = if later {
            &[&[Hold::Used, Hold::Pipelined]]
        } else {
            &[&[Hold::Used], &[Hold::Used, Hold::Pipelined]]
        };
        let blocking: &[Hold] = if later {
            &[Hold::Used, Hold::Pipelined]
        } else {
            &[Hold::Used, Hold::Pipelined, Hold::Releasing]
        };
        !self.kept_away(node, blocking)
            && rules_of(self.cluster, self.task).iter().all(|rules| {
                let apart = |term: &PodTerm| {
                    self.placed(blocking).any(|(other, at)| {
                        means(self.cluster, &term.pods, other)
                            && same_domain(self.cluster, &term.topology_key, node, at)
                    })
                };
                !rules.anti_affinity.iter().any(apart)
                    && views.iter().all(|view| self.in_company(rules, node, view))
                    && views.iter().all(|view| self.is_even(rules, node, view))
            })
    }

    fn kept_away(&self, node: NodeId, holds: &[Hold]) -> bool {
        self.placed(holds).any(|(other, at)| {
            let mut terms = rules_of(self.cluster, other).iter().flat_map(|rules| &rules.anti_affinity);
            terms.any(|term| {
                means(self.cluster, &term.pods, self.task)
                    && same_domain(self.cluster, &term.topology_key, node, at)
            })
        })
    }

    fn in_company(&self, rules: &PodRules, node: NodeId, holds: &[Hold]) -> bool {
        let all = |task: &Task| rules.affinity.iter().all(|term| means(self.cluster, &term.pods, task));
        let labelled = |term: &PodTerm| self.cluster.nodes[node].label(&term.topology_key).is_some();
        let company = |term: &PodTerm| {
            self.placed(holds)
                .any(|(other, at)| all(other) && same_domain(self.cluster, &term.topology_key, node, at))
        };
        let somewhere = || {
            self.placed(holds).any(|(other, at)| {
                all(other)
                    && rules.affinity.iter().any(|term| same_domain(self.cluster, &term.topology_key, at, at))
            })
        };
        rules.affinity.iter().all(labelled)
            && (rules.affinity.iter().all(company) || (all(self.task) && !somewhere()))
    }

    /// Pods that a constraint counts, by domain with nodes that count.
    fn domains<'b>(&'b self, rules: &PodRules, spread: &Spread, holds: &[Hold]) -> BTreeMap<&'b str, u32> {
        let alike: BTreeSet<&Arc<str>> = rules
            .spread
            .iter()
            .filter(|other| other.required == spread.required)
            .map(|other| &other.term.topology_key)
            .collect();
        let counts = |node: &&Node| {
            let own = of(self.cluster, self.task);
            let selected = own.node_selector.iter().all(|(key, value)| node.label(key) == Some(value));
            let wanted =
                own.node_affinity.iter().all(|terms| terms.iter().any(|term| node_term_matches(term, node)));
            let mut taints = node.taints.iter().filter(|taint| taint.effect != TaintEffect::PreferNoSchedule);
            node.exists
                && alike.iter().all(|key| node.label(key).is_some())
                && (!spread.honor_affinity || (selected && wanted))
                && (!spread.honor_taints || taints.all(|taint| tolerates(&own.tolerations, taint)))
        };
        let mut domains = BTreeMap::new();
        for (_, node) in self.cluster.nodes.iter().filter(|(_, node)| counts(node)) {
            domains.insert(node.label(&spread.term.topology_key).expect("a value"), 0);
        }
        for (other, at) in self.placed(holds) {
            let node = &self.cluster.nodes[at];
            if counts(&node) && means(self.cluster, &spread.term.pods, other) {
                *domains
                    .get_mut(node.label(&spread.term.topology_key).expect("a value"))
                    .expect("a value") += 1;
            }
        }
        domains
    }

    fn is_even(&self, rules: &PodRules, node: NodeId, holds: &[Hold]) -> bool {
        rules.spread.iter().filter(|spread| spread.required).all(|spread| {
            let Some(value) = self.cluster.nodes[node].label(&spread.term.topology_key) else { return false };
            let domains = self.domains(rules, spread, holds);
            let mut least = domains.values().min().copied().unwrap_or(0);
            if domains.len() < spread.min_domains as usize {
                least = 0;
            }
            let own = u32::from(means(self.cluster, &spread.term.pods, self.task));
            domains.get(value).copied().unwrap_or(0) + own <= least + spread.max_skew
        })
    }

    fn drawn(&self, node: NodeId) -> i64 {
        let mut sum = 0;
        let near = |term: &PodTerm, at| same_domain(self.cluster, &term.topology_key, node, at);
        for (other, at) in self.placed(&[Hold::Used, Hold::Pipelined]) {
            for (weight, term) in rules_of(self.cluster, self.task).iter().flat_map(|rules| &rules.preferred)
            {
                sum +=
                    i64::from(*weight) * i64::from(means(self.cluster, &term.pods, other) && near(term, at));
            }
            for rules in rules_of(self.cluster, other) {
                let hard = rules.affinity.iter().map(|term| (1, term));
                let soft = rules.preferred.iter().map(|(weight, term)| (*weight, term));
                for (weight, term) in hard.chain(soft) {
                    let draws = means(self.cluster, &term.pods, self.task) && near(term, at);
                    sum += i64::from(weight) * i64::from(draws);
                }
            }
        }
        sum
    }

    fn crowd(&self, rules: &PodRules, node: NodeId) -> Option<f64> {
        let mut sum = 0.0;
        for spread in rules.spread.iter().filter(|spread| !spread.required) {
            let value = self.cluster.nodes[node].label(&spread.term.topology_key)?;
            let domains = self.domains(rules, spread, &[Hold::Used, Hold::Pipelined]);
            let pods = domains.get(value).copied().unwrap_or(0);
            sum += f64::from(pods) * (domains.len() as f64 + 2.0).ln() + f64::from(spread.max_skew - 1);
        }
        Some(sum.round())
    }
}

fn ask(cluster: &Cluster, id: TaskId) -> Ask<'_> {
    Ask { cluster, task: &cluster.tasks[id], id }
}

/// Whether pod affinity, anti-affinity and spread allow a task on a node.
pub(super) fn fits(cluster: &Cluster, task: TaskId, node: NodeId, later: bool) -> bool {
    ask(cluster, task).fits(node, later)
}

/// Scores of nodes by preferred affinity and spread, with the weights 2 and 2.
pub(super) fn scores(cluster: &Cluster, task: TaskId, nodes: &[NodeId]) -> Vec<i64> {
    let ask = ask(cluster, task);
    let drawn: Vec<i64> = nodes.iter().map(|node| ask.drawn(*node)).collect();
    let (least, most) = (drawn.iter().min().copied().unwrap_or(0), drawn.iter().max().copied().unwrap_or(0));
    let by_affinity = |score: i64| {
        if most == least { 0.0 } else { (100.0 * ((score - least) as f64 / (most - least) as f64)).floor() }
    };
    let soft =
        rules_of(cluster, ask.task).iter().find(|rules| rules.spread.iter().any(|spread| !spread.required));
    let crowds: Vec<Option<f64>> =
        nodes.iter().map(|node| soft.and_then(|rules| ask.crowd(rules, *node))).collect();
    let fewest = crowds.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let largest = crowds.iter().flatten().copied().fold(0.0, f64::max);
    let by_spread = |crowd: Option<f64>| match crowd {
        None => 0.0,
        Some(_) if largest == 0.0 => 100.0,
        Some(crowd) => (100.0 * (largest + fewest - crowd) / largest).floor(),
    };
    drawn
        .into_iter()
        .zip(crowds)
        .map(|(a, b)| in_millionths(2.0 * by_affinity(a)) + in_millionths(2.0 * by_spread(b)))
        .collect()
}
