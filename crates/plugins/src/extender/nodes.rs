//! Filters and scores of nodes by an extender.
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::ExtenderPlugin;
use phalanx_cluster::diagnosis::{Refusal, Unfit};
use phalanx_cluster::id::{NodeId, TaskId};
use phalanx_cluster::{Cluster, Node};
use phalanx_framework::extender::{ExtenderRequest, ExtenderResponse};
use phalanx_framework::placement::Fit;
use phalanx_framework::plugin::{Attribute, NodeRules, NodeScorer, Values};

/// The factor from scores of kube-scheduler's extenders, 0 to 10, to scores of plugins, 0 to 100.
const KUBE_SCORE: f64 = 10.0;

impl ExtenderPlugin {
    pub(super) fn judges_nodes(&self) -> bool {
        let verbs = ["predicate", "prioritize", "kube.filter", "kube.prioritize"];
        self.session_failure.is_some() || verbs.iter().any(|verb| self.has(verb))
    }

    /// Calls a verb with nodes for a task, and adds a filter that refuses the nodes in the answer and all nodes that
    /// were not sent.
    fn filter(
        &self,
        cluster: &Cluster,
        verb: &'static str,
        ask: &ExtenderRequest,
        nodes: &[NodeId],
        rules: &mut NodeRules,
    ) {
        let (refused, failed) = match self.ask(cluster, verb, ask) {
            None | Some(Ok(ExtenderResponse::Nothing)) => return,
            Some(Ok(ExtenderResponse::Nodes { refused, failed })) => (refused, failed),
            Some(Ok(other)) => return refuse_all(&unexpected(verb, &other), rules),
            Some(Err(failure)) => {
                if !self.ignorable {
                    refuse_all(&failure.text(), rules);
                }
                return;
            }
        };
        let failed = failed.into_iter().filter(|_| !self.ignorable);
        let name = |node: &NodeId| cluster.nodes[*node].name.clone();
        let asked: FxHashSet<Arc<str>> = nodes.iter().map(name).collect();
        let reasons: FxHashMap<Arc<str>, Arc<str>> =
            refused.into_iter().chain(failed).map(|(node, why)| (name(&node), why)).collect();
        rules.reads.push((Attribute::Name, Values::All));
        rules.filter(move |node| match reasons.get(&node.name) {
            Some(why) => Err(Unfit::Other(why.clone())),
            None if !asked.contains(&node.name) => {
                Err(Unfit::Other("node(s) had no room when the extender was asked".into()))
            }
            None => Ok(()),
        });
    }

    /// Calls a verb for scores of nodes, and adds a scorer with the answer.
    fn score(
        &self,
        cluster: &Cluster,
        verb: &'static str,
        ask: &ExtenderRequest,
        weight: f64,
        rules: &mut NodeRules,
    ) {
        match self.ask(cluster, verb, ask) {
            Some(Ok(ExtenderResponse::Scores(scores))) => {
                let scores =
                    scores.iter().map(|(node, score)| (cluster.nodes[*node].name.clone(), score * weight));
                rules.reads.push((Attribute::Name, Values::All));
                rules.scorers.push(Box::new(ExtenderScorer(scores.collect())));
            }
            Some(Err(failure)) if !self.ignorable && verb == "prioritize" => {
                refuse_all(&failure.text(), rules);
            }
            _ => {}
        }
    }

    /// Calls the verbs that filter nodes, and adds their filters.
    pub(super) fn add_filters(&self, cluster: &Cluster, task: TaskId, rules: &mut NodeRules) {
        if let Some(Refusal::Extender { verb, text }) = &self.session_failure {
            return refuse_all(&format!("extender, {verb}: {text}"), rules);
        }
        for (verb, ask) in [
            ("predicate", ExtenderRequest::Predicate as fn(_, _) -> _),
            ("kube.filter", ExtenderRequest::KubeFilter),
        ] {
            let nodes = if self.has(verb) { candidates(cluster, task, rules) } else { Vec::new() };
            if !nodes.is_empty() {
                self.filter(cluster, verb, &ask(task, nodes.clone()), &nodes, rules);
            }
        }
    }

    /// Calls the verbs that score nodes, and adds their scorers.
    pub(super) fn add_scorers(&self, cluster: &Cluster, task: TaskId, rules: &mut NodeRules) {
        let asks = [
            ("prioritize", ExtenderRequest::Prioritize as fn(_, _) -> _, 1.0),
            ("kube.prioritize", ExtenderRequest::KubePrioritize, KUBE_SCORE * self.weight),
        ];
        for (verb, ask, weight) in asks {
            let nodes = if self.has(verb) { candidates(cluster, task, rules) } else { Vec::new() };
            // Scores of a single node decide nothing.
            if nodes.len() > 1 {
                self.score(cluster, verb, &ask(task, nodes), weight, rules);
            }
        }
    }
}

fn refuse_all(why: &str, rules: &mut NodeRules) {
    let unfit = Unfit::Other(why.into());
    rules.filter(move |_| Err(unfit.clone()));
}

fn unexpected(verb: &str, answer: &ExtenderResponse) -> String {
    format!("extender, {verb}: the answer {answer:?} is not to the question")
}

/// The nodes that pass the filters so far: those where the task fits now or once terminating pods are gone, or all when
/// the task fits on none.
fn candidates(cluster: &Cluster, task: TaskId, rules: &NodeRules) -> Vec<NodeId> {
    let request = cluster.request_of(task);
    let passes = |node: &Node| node.exists && rules.filters.iter().all(|filter| filter(node).is_ok());
    let all: Vec<NodeId> = cluster.nodes.iter().filter(|(_, node)| passes(node)).map(|(id, _)| id).collect();
    let has_room = |id: &NodeId| {
        let node = &cluster.nodes[*id];
        node.fits_later(request)
            && rules.resource_filters.iter().all(|filter| filter(node, Fit::FutureIdle).is_ok())
    };
    let with_room: Vec<NodeId> = all.iter().copied().filter(has_room).collect();
    if with_room.is_empty() { all } else { with_room }
}

struct ExtenderScorer(FxHashMap<Arc<str>, f64>);

impl NodeScorer for ExtenderScorer {
    fn score(&self, node: &Node) -> f64 {
        self.0.get(&node.name).copied().unwrap_or(0.0)
    }

    fn normalise(&self, _: &mut [f64]) {}
}
