//! Mistakes in scheduler.conf, each of which `phalanx conf check` tells in one line; and files without one.
use phalanx_conf::Known;
use phalanx_framework::conf::Flag;

use crate::run::{folder, phalanx_in, repository};

/// Without a problem, see the test.
const GOOD: &str = r#"actions: "enqueue, allocate, backfill, reclaim"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
    arguments:
      overcommit-factor: 1.5
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
    arguments:
      leastrequested.weight: 2
  - name: binpack
    arguments:
      binpack.weight: 10
      binpack.resources: nvidia.com/gpu
      binpack.resources.nvidia.com/gpu: 5
  - name: sla
    arguments:
      sla-waiting-time: 1h
configurations:
- name: allocate
  arguments:
    predicateErrorCacheEnable: true
"#;

/// What stands in the file above, what somebody wrote instead, and the one line that says so; ... is any text.
const MISTAKES: [(&str, &str, &str); 40] = [
    ("allocate, ", "alocate, ", "error: 1:20: unknown action \"alocate\"; ... (did you mean \"allocate\"?)"),
    (
        "allocate, ",
        "Allocate, ",
        "error: 1:20: unknown action \"Allocate\"; ... (did you mean \"allocate\"?)",
    ),
    (
        "\"enqueue, allocate, backfill, reclaim\"",
        "enqueue allocate",
        "error: 1:10: unknown action \"enqueue allocate\"; expected actions with commas between, such as \"enqueue, allocate, backfill\"",
    ),
    (
        "\"enqueue, allocate, backfill, reclaim\"",
        "[enqueue, allocate]",
        "error: 1:10: actions is a list; expected actions with commas between, such as \"enqueue, allocate, backfill\"",
    ),
    (
        "reclaim\"",
        "reclaim,\"",
        "error: 1:48: an action without a name; expected actions with commas between, such as \"enqueue, allocate, backfill\"",
    ),
    (
        "reclaim\"",
        "allocate\"",
        "warning: 1:40: action \"allocate\" again; expected each action once; it runs twice in each cycle",
    ),
    (
        "\"enqueue, allocate, backfill, reclaim\"",
        "\u{201c}enqueue, allocate\u{201d}",
        "error: 1:10: quotation marks that YAML does not know; expected \" or ', or none",
    ),
    (
        "reclaim\"",
        "reclaim",
        "error: 1:10: not YAML: a text that opens with \" and has no end before line 2; expected \" at its end",
    ),
    (
        "actions: \"enqueue, allocate, backfill, reclaim\"\n",
        "",
        "error: 1:1: no actions; expected actions with commas between, such as \"enqueue, allocate, backfill\"",
    ),
    ("actions:", "action:", "error: 1:1: unknown key \"action\"; ... (did you mean \"actions\"?)"),
    ("tiers:", "tier:", "error: 2:1: unknown key \"tier\"; ... (did you mean \"tiers\"?)"),
    (
        "tiers:\n",
        "---\ntiers:\n",
        "error: 2:1: another document, which is not read; expected actions and tiers in one document, without --- between",
    ),
    (
        "- plugins:\n  - name: priority",
        "- plugin:\n  - name: priority",
        "error: 3:3: unknown key \"plugin\"; expected \"plugins\"",
    ),
    (
        "- plugins:\n  - name: overcommit",
        "  plugins:\n  - name: overcommit",
        "error: 8:3: duplicate key \"plugins\"; expected each key once; the first is in line 3",
    ),
    (
        "- plugins:\n  - name: overcommit",
        "  - plugins:\n  - name: overcommit",
        "error: 8:5: a tier among the plugins of another; expected - plugins: in the column of the - of the tier before",
    ),
    (
        "- plugins:\n  - name: overcommit",
        " - plugins:\n  - name: overcommit",
        "error: 8:2: not YAML: indentation that fits no line above; expected the column of the key or - beside which it belongs",
    ),
    (
        "  - name: conformance",
        "   - name: conformance",
        "error: 7:4: not YAML: indentation that fits no line above; expected the column of the key or - beside which it belongs",
    ),
    ("  - name: drf", "\t- name: drf", "error: 12:1: not YAML: a tab as indentation; expected spaces"),
    (
        "- name: drf",
        "- name:drf",
        "error: 12:5: a plugin is the text \"name:drf\"; expected a space behind the colon: name: drf",
    ),
    ("- name: drf", "- drf", "error: 12:5: a plugin is the text \"drf\"; expected a mapping with a name"),
    ("- name: drf", "- enableJobOrder: true", "error: 12:5: no name; expected the name of a plugin"),
    (
        "name: proportion",
        "name: proportions",
        "error: 14:11: unknown plugin \"proportions\"; ... (did you mean \"proportion\"?)",
    ),
    (
        "name: conformance",
        "name: drf",
        "warning: 12:11: plugin drf again; expected each plugin once; one is in line 7",
    ),
    (
        "  - name: gang\n    enablePreemptable: false\n",
        "",
        "warning: 3:3: no plugin gang, so pods of a PodGroup start one by one, whatever its minMember; expected gang among the plugins",
    ),
    (
        "enablePreemptable",
        "enableJobReady",
        "warning: 5:11: plugin gang with enableJobReady: false, so pods of a PodGroup start one by one, whatever its minMember; expected enableJobReady: true",
    ),
    (
        "enablePreemptable",
        "enabledPreemptable",
        "error: 6:5: unknown key \"enabledPreemptable\"; ... (did you mean \"enablePreemptable\"?)",
    ),
    (
        "enablePreemptable: false",
        "enablePreemptable: \"false\"",
        "error: 6:24: enablePreemptable is the text \"false\"; expected true or false, without quotes",
    ),
    (
        "- name: drf",
        "- name: drf\n    enableHierarchy: true",
        "error: 12:11: drf with enableHierarchy and proportion in the same tier; expected one of them, or each in a tier of its own",
    ),
    (
        "- name: proportion",
        "- name: proportion\n  - name: capacity",
        "warning: 15:11: plugin capacity beside proportion, which is in line 14; expected one of them, for both divide the cluster among queues",
    ),
    (
        "binpack.weight",
        "binpack.wieght",
        "warning: 20:7: unknown argument \"binpack.wieght\" of plugin binpack; ... (did you mean \"binpack.weight\"?)",
    ),
    (
        "binpack.weight: 10",
        "binpack.weight: \"10\"",
        "error: 20:23: binpack.weight is the text \"10\"; expected an integer, without quotes",
    ),
    (
        "binpack.weight: 10",
        "binpack.weight: -1",
        "warning: 20:23: binpack.weight is the number -1; nodes are scored the other way round; expected an integer, at least 0 and at most 1000000",
    ),
    (
        "resources: nvidia.com/gpu",
        "resources: amd.com/gpu",
        "warning: 22:7: binpack.resources.nvidia.com/gpu has no effect, for binpack.resources does not list \"nvidia.com/gpu\"; expected the name in binpack.resources",
    ),
    (
        "overcommit-factor: 1.5",
        "overcommit-factor: 0.5",
        "warning: 11:26: overcommit-factor is the number 0.5; 1.2 is taken instead; expected a number, at least 1",
    ),
    (
        "    arguments:\n      overcommit-factor",
        "    overcommit-factor",
        "warning: 10:5: argument \"overcommit-factor\" beside arguments has no effect; expected it under arguments, indented by two more spaces",
    ),
    (
        "sla-waiting-time: 1h",
        "sla-waiting-time: 3600",
        "error: 25:25: sla-waiting-time is the number 3600; expected a duration such as 5m or 1h30m",
    ),
    (
        "configurations:",
        "configuration:",
        "error: 26:1: unknown key \"configuration\"; ... (did you mean \"configurations\"?)",
    ),
    (
        "- name: allocate\n",
        "- name: alocate\n",
        "warning: 27:9: unknown action \"alocate\", skipped; ... (did you mean \"allocate\"?)",
    ),
    (
        "configurations:",
        "metrics:\n  tls:\n    insecureSkipVerify: true\nconfigurations:",
        "error: 27:3: \"tls\" is a mapping; expected keys in one word, such as tls.insecureSkipVerify",
    ),
    (
        "configurations:",
        "metrics:\n  type: promethius\nconfigurations:",
        "warning: 27:9: unknown type \"promethius\"; ... (did you mean \"prometheus\"?)",
    ),
];

fn problems(text: &str) -> Vec<String> {
    let ran = phalanx_in(folder(&[]).path(), &["conf", "check", "-"], text);
    let of_file = |line: &&str| !line.starts_with("<stdin>: ");
    ran.stdout.lines().filter(of_file).map(|line| line.replacen("<stdin>:", "", 1)).collect()
}

fn says(line: &str, expected: &str) -> bool {
    let (start, end) = expected.split_once("...").unwrap_or((expected, ""));
    if expected.contains("...") { line.starts_with(start) && line.ends_with(end) } else { line == expected }
}

#[test]
fn each_mistake_is_one_line_with_its_place_and_what_was_expected() {
    assert_eq!(problems(GOOD), [""; 0]);
    let parts = MISTAKES.map(|(right, wrong, expected)| {
        assert!(GOOD.contains(right), "{right}");
        (GOOD.replacen(right, wrong, 1), expected)
    });
    let whole = [
        (
            "",
            "error: 1:1: no actions; expected actions with commas between, such as \"enqueue, allocate, backfill\"",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {scheduler.conf: text}\n",
            "error: 1:1: a Kubernetes object; expected the text of scheduler.conf that is under its data",
        ),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: []\n",
            "error: 1:1: a Kubernetes object; expected the text of scheduler.conf",
        ),
    ];
    let whole = whole.map(|(text, expected)| (text.to_owned(), expected));
    for (text, expected) in parts.into_iter().chain(whole) {
        let found = problems(&text);
        assert!(found.len() == 1 && says(&found[0], expected), "{found:#?}\n{expected}\nin {text}");
    }
}

/// What Volcano publishes (its commit ed72c7c81): the page or file, the actions, and the plugins that its configuration
/// has beside priority, gang, conformance, drf and predicates.
const PUBLISHED: [(&str, &str, &[&str]); 14] = [
    (
        "config/volcano-scheduler.conf of the chart",
        "enqueue, allocate, backfill",
        &["overcommit", "proportion", "nodeorder", "binpack"],
    ),
    (
        "config/volcano-scheduler-ci.conf of the chart",
        "enqueue, allocate, backfill, reclaim, preempt",
        &["sla", "overcommit", "proportion", "nodeorder", "binpack", "network-topology-aware"],
    ),
    (
        "how_to_configure_scheduler.md",
        "enqueue, allocate, backfill",
        &["overcommit", "proportion", "nodeorder", "binpack"],
    ),
    (
        "how_to_use_capacity_plugin.md",
        "enqueue, allocate, backfill, reclaim",
        &["capacity", "nodeorder", "binpack"],
    ),
    (
        "how_to_use_capacity_plugin.md, queues in a tree",
        "enqueue, allocate, backfill, reclaim",
        &[
            "capacity\n    enableHierarchy: true\n    arguments:\n      ancestorReclaimLevel: 1",
            "nodeorder",
            "binpack",
        ],
    ),
    (
        "how_to_use_cdp_plugin.md",
        "enqueue, allocate, preempt, backfill",
        &[
            "cdp",
            "task-topology\n    arguments:\n      task-topology.weight: 10",
            "proportion",
            "nodeorder",
            "binpack",
        ],
    ),
    (
        "how_to_use_extender.md",
        "reclaim, allocate, backfill, preempt",
        &[
            "extender\n    arguments:\n      extender.urlPrefix: http://127.0.0.1:8713\n      extender.httpTimeout: 100ms\n      \
           extender.predicateVerb: predicate\n      extender.prioritizeVerb: prioritize\n      extender.ignorable: true",
            "proportion",
            "nodeorder",
        ],
    ),
    (
        "how_to_use_nodegroup_plugin.md",
        "allocate, backfill, preempt, reclaim",
        &["proportion", "nodegroup\n    arguments:\n      strict: false"],
    ),
    (
        "how_to_use_nodegroup_plugin.md, an order",
        "allocate, backfill, preempt, reclaim",
        &["proportion", "nodegroup\n    arguments:\n      enablePreferredOrder: true"],
    ),
    (
        "how_to_use_nodegroup_plugin.md, queues in a tree",
        "allocate, backfill, preempt, reclaim",
        &["proportion", "nodegroup\n    enableHierarchy: true"],
    ),
    (
        "how_to_use_resource_strategy_fit_plugin.md",
        "reclaim, allocate, backfill, preempt",
        &[
            "resource-strategy-fit\n    arguments:\n      resourceStrategyFitWeight: 10\n      resources:\n        cpu:\n          \
           type: LeastAllocated\n          weight: 1\n        nvidia.com/gpu:\n          type: MostAllocated\n          weight: 2",
        ],
    ),
    (
        "how_to_use_numa_aware.md",
        "enqueue, allocate, backfill",
        &["proportion", "nodeorder", "binpack", "numa-aware\n    arguments:\n      weight: 10"],
    ),
    (
        "how_to_use_gpu_sharing.md",
        "enqueue, allocate, backfill",
        &[
            "deviceshare\n    arguments:\n      deviceshare.GPUSharingEnable: true",
            "proportion",
            "nodeorder",
            "binpack",
        ],
    ),
    (
        "design/rescheduling.md, the strategy that there is code for",
        "enqueue, allocate, backfill, shuffle",
        &[
            "rescheduling\n    arguments:\n      interval: 5m\n      strategies:\n      - name: lowNodeUtilization\n        params:\n          \
           thresholds: {cpu: 20, memory: 20, pods: 20}\n          targetThresholds: {cpu: 50, memory: 50, pods: 50}",
            "proportion",
            "nodeorder",
        ],
    ),
];

#[test]
fn what_volcano_publishes_has_no_error_and_no_warning() {
    for (page, actions, plugins) in PUBLISHED {
        let more: String = plugins.iter().flat_map(|plugin| ["  - name: ", plugin, "\n"]).collect();
        let text = format!(
            "actions: \"{actions}\" # as published\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n    \
             enablePreemptable: false\n  - name: conformance\n- plugins:\n  - name: drf\n  - name: predicates\n{more}"
        );
        let found = problems(&text);
        assert!(found.iter().all(|line| line.starts_with("not supported: ")), "{page}: {found:#?}\n{text}");
    }
}

/// The policy of `deploy/` cannot ask the scheduler.
#[test]
fn the_policy_for_the_configmap_knows_all_actions_and_flags() {
    let policy = std::fs::read_to_string(repository().join("deploy/46-scheduler-conf.yaml")).unwrap();
    let actions = Known::builtin().actions.into_iter().map(|doc| doc.name);
    for name in actions.chain(Flag::ALL.map(|(_, key)| key)) {
        assert!(policy.contains(&format!("'{name}'")), "{name}");
    }
}
