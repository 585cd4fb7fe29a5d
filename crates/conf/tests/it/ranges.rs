//! Values of the right type that are out of range by the tables of plugins and actions.
use phalanx_conf::{Known, parse};

use super::lines;

const HEAD: &str = "actions: allocate, backfill\ntiers:\n- plugins:\n  - name: ";

/// The problems of an argument of a plugin, which stands in line 6; without "warning: line 6, column ".
fn of_plugin(plugin: &str, argument: &str) -> Vec<String> {
    told(&format!("{HEAD}{plugin}\n    arguments:\n      {argument}\n"))
}

fn of_action(action: &str, argument: &str) -> Vec<String> {
    told(&format!(
        "actions: allocate, backfill\ntiers: [{{plugins: [{{name: gang}}]}}]\nconfigurations:\n- name: {action}\n  arguments:\n    {argument}\n"
    ))
}

fn told(text: &str) -> Vec<String> {
    let parsed = parse(text, &Known { missed: Vec::new(), ..Known::builtin() });
    assert!(parsed.conf.is_some(), "Volcano goes on with all of these, so do we: {parsed:?}");
    let short = |line: &str| line.strip_prefix("warning: line 6, column ").map(str::to_owned);
    // Other requirements of the plugin are reported at its name.
    let of_values =
        lines(&parsed).into_iter().filter(|line| !line.starts_with("warning: line 4, column 11: plugin "));
    of_values.map(|line| short(&line).unwrap_or_else(|| panic!("{line}"))).collect()
}

/// Plugin, argument, and the expected problem; words in braces stand for those of [`WORDS`].
const OF_PLUGINS: &[(&str, &str, &str)] = &[
    (
        "overcommit",
        "overcommit-factor: 0.5",
        "26: overcommit-factor is the number 0.5; 1.2 is taken instead; expected a number, at least 1",
    ),
    (
        "overcommit",
        "overcommit-factor: -1",
        "26: overcommit-factor is the number -1; 1.2 is taken instead; expected a number, at least 1",
    ),
    (
        "tdm",
        "tdm.revocable-zone.a: 25:00-26:00",
        "29: tdm.revocable-zone.a is the text \"25:00-26:00\"; no pods may use the nodes of the zone; expected times of a day such as 10:00-21:00",
    ),
    (
        "tdm",
        "tdm.revocable-zone.a: 10 to 12",
        "29: tdm.revocable-zone.a is the text \"10 to 12\"; no pods may use the nodes of the zone; expected times of a day such as 10:00-21:00",
    ),
    (
        "tdm",
        "tdm.evict.period: -1m",
        "25: tdm.evict.period is the text \"-1m\"; 1m is taken instead; {DURATION}",
    ),
    (
        "tdm",
        "tdm.utc-offset: \"8\"",
        "23: tdm.utc-offset is the text \"8\"; +00:00 is taken instead; expected hours and minutes such as +08:00",
    ),
    (
        "sla",
        "sla-waiting-time: -5m",
        "25: sla-waiting-time is the text \"-5m\"; it counts as missing; {DURATION}",
    ),
    (
        "usage",
        "thresholds: {cpu: 900}",
        "25: cpu is the number 900; 80 is taken instead; expected an integer, 0 to 100",
    ),
    (
        "usage",
        "thresholds: {mem: -1}",
        "25: mem is the number -1; 80 is taken instead; expected an integer, 0 to 100",
    ),
    (
        "usage",
        "estimator: {request_ratio: 7}",
        "34: request_ratio is the number 7; 0.7 is taken instead; expected a number, 0 to 1",
    ),
    (
        "usage",
        "estimator: {risk_factor: -1}",
        "32: risk_factor is the number -1; 1.2 is taken instead; expected a number, at least 1",
    ),
    ("usage", "usage.weight: -1", "21: usage.weight is the number -1; 5 is taken instead; {WEIGHT}"),
    (
        "usage",
        "cpu.weight: 2000000",
        "19: cpu.weight is the number 2000000; 1000000 is taken instead; {WEIGHT}",
    ),
    ("rescheduling", "interval: 0s", "17: interval is the text \"0s\"; 5m is taken instead; {DURATION}"),
    (
        "rescheduling",
        "strategies: [{name: lowNodeUtilisation}]",
        "27: name is the text \"lowNodeUtilisation\"; the strategy has no effect; expected \"lowNodeUtilization\"",
    ),
    (
        "rescheduling",
        "strategies: [{name: lowNodeUtilization, params: {thresholds: {cpu: 300}}}]",
        "74: cpu is the number 300; {SIDES}",
    ),
    (
        "rescheduling",
        "strategies: [{name: lowNodeUtilization, params: {targetThresholds: {pods: -5}}}]",
        "81: pods is the number -5; {SIDES}",
    ),
    (
        "resource-strategy-fit",
        "resources: {cpu: {type: Foo}}",
        "31: type is the text \"Foo\"; LeastAllocated is taken instead; expected one of LeastAllocated, MostAllocated",
    ),
    (
        "resource-strategy-fit",
        "resources: {cpu: {type: mostAllocated}}",
        "31: type is the text \"mostAllocated\"; LeastAllocated is taken instead; expected one of LeastAllocated, MostAllocated (did you mean \"MostAllocated\"?)",
    ),
    (
        "resource-strategy-fit",
        "resources: {cpu: {weight: -1}}",
        "33: weight is the number -1; 1 is taken instead; expected an integer, at least 1 and at most 1000000",
    ),
    (
        "resource-strategy-fit",
        "resourceStrategyFitWeight: -3",
        "34: resourceStrategyFitWeight is the number -3; 10 is taken instead; {WEIGHT}",
    ),
    (
        "resource-strategy-fit",
        "sra: {resources: [a b]}",
        "24: resources is a list; no node has a resource of such a name; expected names of resources such as nvidia.com/gpu",
    ),
    (
        "resource-strategy-fit",
        "resources: {'*': {}}",
        "19: \"*\" has no effect; expected the name of a resource, or the beginning of one and a * at its end",
    ),
    (
        "resource-strategy-fit",
        "sra: {resources: gpu, resourceWeight: {gpux: 1}}",
        "46: gpux has no effect, for resources does not list \"gpux\"; expected the name in resources (did you mean \"gpu\"?)",
    ),
    (
        "resource-strategy-fit",
        "proportional: {resources: gpu, resourceProportion: {gpu.cpu: 1, gpu.disk: 2}}",
        "71: gpu.disk has no effect, for resources does not list \"gpu.disk\"; expected the name in resources",
    ),
    (
        "extender",
        "extender.urlPrefix: not a url",
        "27: extender.urlPrefix is the text \"not a url\"; every request fails; expected an address such as http://127.0.0.1:8888",
    ),
    (
        "extender",
        "extender.httpTimeout: -1s",
        "29: extender.httpTimeout is the text \"-1s\"; 1s is taken instead; {DURATION}",
    ),
    (
        "extender",
        "extender.kube.weight: 0",
        "29: extender.kube.weight is the number 0; 1 is taken instead; expected an integer, at least 1",
    ),
    (
        "extender",
        "extender.kube.filterVerb: a b",
        "33: extender.kube.filterVerb is the text \"a b\"; the request fails; expected a path such as filter",
    ),
    (
        "nodeorder",
        "leastrequested.weight: -1",
        "30: leastrequested.weight is the number -1; nodes are scored the other way round; {WEIGHT}",
    ),
    (
        "binpack",
        "binpack.weight: -1",
        "23: binpack.weight is the number -1; nodes are scored the other way round; {WEIGHT}",
    ),
    ("binpack", "binpack.cpu: -1", "20: binpack.cpu is the number -1; 1 is taken instead; {WEIGHT}"),
    (
        "task-topology",
        "task-topology.weight: -1",
        "29: task-topology.weight is the number -1; nodes are scored the other way round; {WEIGHT}",
    ),
    (
        "predicates",
        "volumebinding.bindTimeoutSeconds: -1",
        "41: volumebinding.bindTimeoutSeconds is the number -1; it has no effect either way; expected an integer, at least 0",
    ),
];

/// The same for actions.
const OF_ACTIONS: &[(&str, &str, &str)] = &[
    (
        "preempt",
        "maxSteps: -1",
        "15: maxSteps is the number -1; the action finds nothing; expected an integer, at least 0",
    ),
    (
        "preempt",
        "minCandidateNodesPercentage: 101",
        "34: minCandidateNodesPercentage is the number 101; it has no effect either way; expected an integer, 0 to 100",
    ),
    (
        "reclaim",
        "maxTime: -1s",
        "14: maxTime is the text \"-1s\"; the action finds nothing; expected a duration such as 5m or 1h30m, at least 0s",
    ),
    (
        "shuffle",
        "keepPlace: -1s",
        "16: keepPlace is the text \"-1s\"; no place is kept; expected a duration such as 5m or 1h30m, at least 0s",
    ),
    (
        "gangpreempt",
        "maxDomains: -1",
        "17: maxDomains is the number -1; it has no effect either way; expected an integer, at least 0",
    ),
];

const WORDS: [(&str, &str); 3] = [
    ("{DURATION}", "expected a duration such as 5m or 1h30m, at least 1ms"),
    ("{WEIGHT}", "expected an integer, at least 0 and at most 1000000"),
    ("{SIDES}", "all nodes are on the same side of the threshold; expected an integer, 0 to 100"),
];

#[test]
fn a_value_out_of_range_is_a_problem_with_line_and_column() {
    let whole =
        |text: &str| WORDS.iter().fold(text.to_owned(), |text, (word, whole)| text.replace(word, whole));
    for (plugin, argument, expected) in OF_PLUGINS {
        assert_eq!(of_plugin(plugin, argument), [whole(expected)], "{plugin}: {argument}");
    }
    for (action, argument, expected) in OF_ACTIONS {
        assert_eq!(of_action(action, argument), [whole(expected)], "{action}: {argument}");
    }
}

#[test]
fn values_at_the_ends_of_a_range_are_valid() {
    for (plugin, argument) in [
        ("overcommit", "overcommit-factor: 1"),
        ("overcommit", "overcommit-factor: 1.0"),
        ("tdm", "tdm.revocable-zone.a: 22:00-6:00"),
        ("tdm", "tdm.utc-offset: -03:30"),
        ("sla", "sla-waiting-time: 1ms"),
        ("usage", "thresholds: {cpu: 0, mem: 100}"),
        ("usage", "estimator: {request_ratio: 0, burst_ratio: 1.0, risk_factor: 1}"),
        (
            "rescheduling",
            "strategies: [{name: lowNodeUtilization, params: {thresholds: {cpu: 0, pods: 100}}}]",
        ),
        ("resource-strategy-fit", "resources: {nvidia.com/*: {type: MostAllocated, weight: 1}}"),
        ("resource-strategy-fit", "sra: {enable: true, resources: 'a/b, c', resourceWeight: {a/b: 0}}"),
        ("resource-strategy-fit", "proportional: {resources: [a/b], resourceProportion: {a/b.cpu: 0.5}}"),
        ("extender", "extender.urlPrefix: http://127.0.0.1:8888"),
        ("extender", "extender.kube.filterVerb: /v1/filter"),
        ("nodeorder", "leastrequested.weight: 0"),
        ("binpack", "binpack.weight: 1000000"),
        ("binpack", "binpack.resources: 'nvidia.com/gpu, example.com/foo'"),
    ] {
        assert_eq!(of_plugin(plugin, argument), [""; 0], "{plugin}: {argument}");
    }
    assert_eq!(of_action("shuffle", "keepPlace: 0s"), [""; 0]);
    assert_eq!(of_action("preempt", "maxSteps: 0"), [""; 0]);
}

#[test]
fn the_source_of_metrics_is_checked() {
    let base = format!("{HEAD}gang\nmetrics:\n");
    for (metrics, expected) in [
        (
            "  address: prometheus:9090\n",
            Some(
                "12: address is the text \"prometheus:9090\"; no server is asked; expected an address such as http://prometheus:9090",
            ),
        ),
        (
            "  interval: 0s\n",
            Some(
                "13: interval is the text \"0s\"; 30s is taken instead; expected a duration such as 30s, at least 1ms",
            ),
        ),
        (
            "  tls.insecureSkipVerify: maybe\n",
            Some(
                "27: tls.insecureSkipVerify is the text \"maybe\"; false is taken instead; expected true or false",
            ),
        ),
        (
            "  type: prometheus\n",
            Some(
                "9: type is prometheus, and there is no address; no server is asked; expected an address such as http://prometheus:9090",
            ),
        ),
        (
            "  {type: prometheus, address: 'https://prometheus', tls.insecureSkipVerify: true, interval: 1s}\n",
            None,
        ),
    ] {
        let expected: Vec<String> = expected.map(str::to_owned).into_iter().collect();
        assert_eq!(told(&format!("{base}{metrics}")), expected, "{metrics}");
    }
}
