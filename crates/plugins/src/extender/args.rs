//! The arguments of the extender plugin, and the verbs among them.
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
    Otherwise::Does("every request fails"),
);
const PATH: Rule = Rule::new(
    Allowed::Form("a path such as filter", |text| {
        !text.contains(|char: char| char.is_whitespace() || char.is_control())
    }),
    Otherwise::Does("the request fails"),
);

pub(super) const ARGS: &[ArgSpec] = &[
    arg(
        "extender.urlPrefix",
        ArgKind::Text(&[URL]),
        "",
        "The address of the extender, such as `http://127.0.0.1:8888`. `simulate` and `explain` do not call it, and say so.",
    ),
    arg(
        "extender.httpTimeout",
        ArgKind::Duration(&[Rule::at_least(1)]),
        "1s",
        "How long an answer may take.",
    ),
    arg("extender.ignorable", ArgKind::Bool, "false", "Whether requests that fail are ignored."),
    arg(
        "extender.managedResources",
        ArgKind::Names(&[Rule::RESOURCES]),
        "",
        "Requests are sent only for pods that request one of these; for all pods, when there are none.",
    ),
    verb("extender.onSessionOpenVerb", "Receives the whole session when it opens."),
    verb("extender.onSessionCloseVerb", "Called when the session closes."),
    verb("extender.predicateVerb", "Whether a task can run on a node; one request a node."),
    verb("extender.prioritizeVerb", "Scores of nodes for a task, added without a weight."),
    verb("extender.preemptableVerb", "Which tasks may be evicted for a task of the same queue."),
    verb("extender.reclaimableVerb", "Which tasks may be evicted for a task of another queue."),
    verb("extender.queueOverusedVerb", "Whether a queue is overused."),
    verb("extender.jobEnqueueableVerb", "Whether a job may be admitted."),
    verb("extender.jobEnqueuedVerb", "Called when a job was admitted."),
    verb("extender.jobReadyVerb", "Whether a job may start."),
    verb(
        "extender.allocateFuncVerb",
        "Called when a task was allocated a node; a failure keeps the job of the task from starting.",
    ),
    verb("extender.deallocateFuncVerb", "Called when an allocation was undone."),
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
        "kube-scheduler's `nodeCacheCapable`: requests carry names of nodes and UIDs of pods only.",
    ),
];

/// The paths of the verbs that have one, by the verbs' short names.
pub(super) fn verbs(args: &Args) -> BTreeMap<&'static str, Arc<str>> {
    let verb = |spec: &ArgSpec| {
        let short = spec.name.strip_prefix("extender.")?.strip_suffix("Verb")?;
        let path = args.text(spec.name).filter(|path| !path.is_empty())?;
        Some((short, Arc::from(path.trim_start_matches('/'))))
    };
    ARGS.iter().filter_map(verb).collect()
}
