//! The arguments, and the verbs among them.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_framework::conf::{Allowed, ArgKind, ArgSpec, Args, Otherwise, Rule, is_url};

const fn arg(name: &'static str, kind: ArgKind, default: &'static str, doc: &'static str) -> ArgSpec {
    ArgSpec { name, kind, default, doc }
}

const fn verb(name: &'static str, doc: &'static str) -> ArgSpec {
    arg(name, ArgKind::Text(&[PATH]), "", doc)
}

const URL: Rule = Rule::new(
    Allowed::Form("an address such as http://127.0.0.1:8888", is_url),
    Otherwise::Does("every question fails"),
);
const PATH: Rule = Rule::new(
    Allowed::Form("a path such as filter", |text| {
        !text.contains(|char: char| char.is_whitespace() || char.is_control())
    }),
    Otherwise::Does("the question fails"),
);

pub(super) const ARGS: &[ArgSpec] = &[
    arg(
        "extender.urlPrefix",
        ArgKind::Text(&[URL]),
        "",
        "Where it is, such as `http://127.0.0.1:8888`. `simulate` and `explain` do not ask it, and say so.",
    ),
    arg(
        "extender.httpTimeout",
        ArgKind::Duration(&[Rule::at_least(1)]),
        "1s",
        "How long an answer may take.",
    ),
    arg("extender.ignorable", ArgKind::Bool, "false", "Questions that fail are passed over."),
    arg(
        "extender.managedResources",
        ArgKind::Names(&[Rule::RESOURCES]),
        "",
        "Only pods that request one of these are asked about; all, when there are none.",
    ),
    verb("extender.onSessionOpenVerb", "Told all that a session begins with."),
    verb("extender.onSessionCloseVerb", "Told that it ends."),
    verb("extender.predicateVerb", "Whether a node will do for a task; one request a node."),
    verb("extender.prioritizeVerb", "Scores of nodes for a task, as they are added."),
    verb("extender.preemptableVerb", "Which tasks may be evicted for one of their queue."),
    verb("extender.reclaimableVerb", "Which tasks may be evicted for one of another queue."),
    verb("extender.queueOverusedVerb", "Whether a queue has all it may have."),
    verb("extender.jobEnqueueableVerb", "Whether a job may be admitted."),
    verb("extender.jobEnqueuedVerb", "Told that it was."),
    verb("extender.jobReadyVerb", "Whether a job may start."),
    verb(
        "extender.allocateFuncVerb",
        "Told that a task was given a node; a failure keeps its job from starting.",
    ),
    verb("extender.deallocateFuncVerb", "Told that it lost it."),
    verb("extender.kube.filterVerb", "kube-scheduler's `filterVerb`."),
    verb("extender.kube.prioritizeVerb", "kube-scheduler's `prioritizeVerb`."),
    verb("extender.kube.preemptVerb", "kube-scheduler's `preemptVerb`."),
    verb("extender.kube.bindVerb", "kube-scheduler's `bindVerb`."),
    arg(
        "extender.kube.weight",
        ArgKind::Int(&[Rule::at_least(1)]),
        "1",
        "kube-scheduler's `weight`, of `prioritize`.",
    ),
    arg(
        "extender.kube.nodeCacheCapable",
        ArgKind::Bool,
        "false",
        "kube-scheduler's `nodeCacheCapable`: names of nodes and UIDs of pods are enough.",
    ),
];

/// The verbs that are named, by their short names.
pub(super) fn verbs(args: &Args) -> BTreeMap<&'static str, Arc<str>> {
    let verb = |spec: &ArgSpec| {
        let short = spec.name.strip_prefix("extender.")?.strip_suffix("Verb")?;
        let path = args.text(spec.name).filter(|path| !path.is_empty())?;
        Some((short, Arc::from(path.trim_start_matches('/'))))
    };
    ARGS.iter().filter_map(verb).collect()
}
