//! Every problem has line, column, what was found and what was expected.
use phalanx_framework::conf::Flag;

use super::{lines, read, with_plugin};

fn expect(text: &str, expected: &[&str]) {
    let parsed = read(text);
    assert_eq!(lines(&parsed), expected, "{text}");
    let errors = expected.iter().any(|line| line.starts_with("error"));
    assert_eq!(parsed.conf.is_none(), errors, "a configuration exactly when there is no error: {text}");
}

const ACTIONS: &str = r#"actions with commas between, such as "enqueue, allocate, backfill""#;

#[test]
fn a_file_without_actions_is_an_error() {
    for text in ["", "\n", "  \n\n", "# only a comment\n", "---\n", "~", "--- null\n...\n", "\u{feff}"] {
        expect(text, &[&format!("error: line 1, column 1: no actions; expected {ACTIONS}")]);
    }
    expect(
        "tiers: [{plugins: [{name: gang}]}]",
        &[&format!("error: line 1, column 1: no actions; expected {ACTIONS}")],
    );
    for (value, line) in [
        ("\"\"", format!("error: line 1, column 10: no actions; expected {ACTIONS}")),
        ("' '", format!("error: line 1, column 10: no actions; expected {ACTIONS}")),
        ("[allocate]", format!("error: line 1, column 10: actions is a list; expected {ACTIONS}")),
        ("{a: 1}", format!("error: line 1, column 10: actions is a mapping; expected {ACTIONS}")),
    ] {
        expect(&format!("actions: {value}\ntiers: [{{plugins: [{{name: gang}}]}}]"), &[&line]);
    }
}

#[test]
fn an_unknown_action_is_an_error_at_its_column() {
    let tiers = "tiers: [{plugins: [{name: gang}]}]";
    let names = "expected one of enqueue, allocate, backfill";
    for (actions, expected) in [
        (
            "enqueue, alocate, backfill",
            format!(
                "error: line 1, column 19: unknown action \"alocate\"; {names} (did you mean \"allocate\"?)"
            ),
        ),
        (
            "\"enqueue,allocate , preempt\"",
            format!("error: line 1, column 30: Volcano's action \"preempt\" is not in this version; {names}"),
        ),
        (
            "'enqueue,, allocate'",
            format!("error: line 1, column 19: an action without a name; expected {ACTIONS}"),
        ),
        ("allocate,", format!("error: line 1, column 19: an action without a name; expected {ACTIONS}")),
        (
            "'enqueue,, allocate,'",
            format!(
                "error: line 1, column 19: an action without a name; expected {ACTIONS}\n\
                 error: line 1, column 30: an action without a name; expected {ACTIONS}"
            ),
        ),
        // In escaped text the column of a character differs from its position in the value.
        ("\"\\x65nqueue, elect\"", format!("error: line 1, column 10: unknown action \"elect\"; {names}")),
        ("42", format!("error: line 1, column 10: unknown action \"42\"; {names}")),
        (
            "enqueue allocate",
            format!("error: line 1, column 10: unknown action \"enqueue allocate\"; expected {ACTIONS}"),
        ),
    ] {
        expect(&format!("actions: {actions}\n{tiers}"), &expected.lines().collect::<Vec<_>>());
    }
}

#[test]
fn a_missing_allocate_or_backfill_is_a_warning() {
    let tiers = "tiers: [{plugins: [{name: gang}]}]";
    let allocate = "no action allocate, so nothing places pods that request any resource; expected allocate among the actions";
    let backfill = "no action backfill, so nothing places pods that request nothing; expected backfill among the actions";
    for (actions, expected) in [
        ("allocate, backfill", vec![]),
        ("backfill", vec![allocate]),
        ("enqueue, allocate", vec![backfill]),
        ("enqueue", vec![allocate, backfill]),
    ] {
        let expected: Vec<String> =
            expected.iter().map(|line| format!("warning: line 1, column 10: {line}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        expect(&format!("actions: {actions}\n{tiers}"), &expected);
    }
}

#[test]
fn a_value_of_the_wrong_type_is_an_error_at_every_level() {
    let base = "actions: allocate, backfill\n";
    for (text, expected) in [
        ("tiers: 1", "error: line 2, column 8: tiers is the number 1; expected a list of tiers"),
        ("tiers: {plugins: []}", "error: line 2, column 8: tiers is a mapping; expected a list of tiers"),
        (
            "tiers: [gang]",
            "error: line 2, column 9: a tier is the text \"gang\"; expected a mapping with plugins",
        ),
        (
            "tiers: [{plugins: gang}]",
            "error: line 2, column 19: plugins is the text \"gang\"; expected a list of plugins",
        ),
        (
            "tiers: [{plugins: [gang]}]",
            "error: line 2, column 20: a plugin is the text \"gang\"; expected a mapping with a name",
        ),
        ("tiers: [{plugins: [{}]}]", "error: line 2, column 20: no name; expected the name of a plugin"),
        (
            "tiers: [{plugins: [{name: }]}]",
            "error: line 2, column 25: name is empty; expected the name of a plugin",
        ),
        (
            "tiers: [{plugins: [{name: [gang]}]}]",
            "error: line 2, column 27: name is a list; expected the name of a plugin",
        ),
        (
            "tiers: [{plugins: [{name: binpack, arguments: 5}]}]",
            "error: line 2, column 47: arguments is the number 5; expected a mapping",
        ),
        (
            "tiers: []",
            "error: line 2, column 8: no tiers, so no plugin takes part; expected tiers with plugins",
        ),
        ("", "error: line 1, column 1: no tiers, so no plugin takes part; expected tiers with plugins"),
        ("tiers: [{}]", "error: line 2, column 9: a tier without plugins; expected plugins"),
        ("tiers: [{plugins: []}]", "error: line 2, column 19: a tier without plugins; expected plugins"),
    ] {
        expect(&format!("{base}{text}"), &[expected]);
    }
    expect(
        "hello",
        &[
            "error: line 1, column 1: the file is the text \"hello\"; expected a mapping with actions and tiers",
        ],
    );
}

#[test]
fn unknown_keys_are_named_with_a_similar_known_key() {
    for (text, expected) in [
        (
            "actions: allocate, backfill\ntiers: [{plugins: [{name: gang}]}]\ntier: []",
            "error: line 3, column 1: unknown key \"tier\"; expected one of actions, tiers, profiles, \
             configurations, metrics (did you mean \"tiers\"?)",
        ),
        (
            "actions: allocate, backfill\ntiers:\n- plugin:\n  - name: gang\n  plugins: [{name: gang}]",
            "error: line 3, column 3: unknown key \"plugin\"; expected \"plugins\"",
        ),
        (
            &with_plugin("gang", &["enablePreemtable: false"]),
            "error: line 5, column 5: unknown key \"enablePreemtable\"; expected one of name, arguments, \
             enableJobOrder, ... (did you mean \"enablePreemptable\"?)",
        ),
        (
            &with_plugin("gang", &["enableVictim: false"]),
            "error: line 5, column 5: unknown key \"enableVictim\"; expected one of name, arguments, \
             enableJobOrder, ... (did you mean \"enabledVictim\"?)",
        ),
        (
            &with_plugin("binpack", &["arguments:", "  binpack.wieght: 1"]),
            "warning: line 6, column 7: unknown argument \"binpack.wieght\" of plugin binpack; expected one of \
             binpack.weight, binpack.resources, binpack.resources.* (did you mean \"binpack.weight\"?)",
        ),
        (
            &with_plugin("gang", &["arguments: {a: 1}"]),
            "warning: line 5, column 17: unknown argument \"a\" of plugin gang; expected none",
        ),
        (
            &(with_plugin("gang", &[]) + "configurations:\n- name: allocate\n  args: {}\n"),
            "error: line 7, column 3: unknown key \"args\"; expected one of name, arguments",
        ),
    ] {
        expect(text, &[expected]);
    }
    let parsed = read(&with_plugin("gang", &["somethingElse: 1"]));
    assert!(
        parsed.problems[0].expected.ends_with("enabledHyperNodeGradient"),
        "without a hint the list is whole"
    );
}

#[test]
fn a_flag_that_is_no_boolean_is_an_error() {
    for (value, expected) in [
        (
            " \"true\"",
            "error: line 5, column 21: enableJobReady is the text \"true\"; expected true or false, without quotes",
        ),
        (" 1", "error: line 5, column 21: enableJobReady is the number 1; expected true or false"),
        (" maybe", "error: line 5, column 21: enableJobReady is the text \"maybe\"; expected true or false"),
        (" [true]", "error: line 5, column 21: enableJobReady is a list; expected true or false"),
        ("", "warning: line 5, column 5: enableJobReady is empty; expected true or false; its default stays"),
    ] {
        expect(&with_plugin("gang", &[&format!("enableJobReady:{value}")]), &[expected]);
    }
}

#[test]
fn an_enabled_flag_without_effect_is_a_warning() {
    let without_effect: Vec<&str> =
        Flag::ALL.into_iter().filter(|(flag, _)| !flag.has_effect()).map(|(_, key)| key).collect();
    assert_eq!(
        without_effect,
        [
            "enableBestNode",
            "enableTargetJob",
            "enableReservedNodes",
            "enabledClusterOrder",
            "enabledSubJobReady",
            "enabledSubJobPipelined",
            "enabledSubJobOrder",
        ]
    );
    for key in without_effect {
        let warning = format!(
            "not supported: line 5, column 5: {key} has no effect, for nothing asks for it; expected no such key, or false"
        );
        expect(&with_plugin("gang", &[&format!("{key}: true")]), &[&warning]);
        expect(&with_plugin("gang", &[&format!("{key}: false")]), &[]);
    }
}

#[test]
fn an_argument_of_the_wrong_type_is_a_problem() {
    for (plugin, argument, expected) in [
        (
            "binpack",
            "binpack.weight: \"10\"",
            "binpack.weight is the text \"10\"; expected an integer, without quotes",
        ),
        ("binpack", "binpack.weight: ten", "binpack.weight is the text \"ten\"; expected an integer"),
        ("binpack", "binpack.weight: 1.5", "binpack.weight is the number 1.5; expected an integer"),
        ("binpack", "binpack.weight: yes", "binpack.weight is true; expected an integer"),
        ("binpack", "binpack.weight: [1]", "binpack.weight is a list; expected an integer"),
        (
            "binpack",
            "binpack.resources.a/b: x",
            "binpack.resources.a/b is the text \"x\"; expected an integer",
        ),
        (
            "binpack",
            "binpack.resources: [1]",
            "binpack.resources is a list; expected names: a list, or text with commas between",
        ),
        (
            "binpack",
            "binpack.resources: 7",
            "binpack.resources is the number 7; expected names: a list, or text with commas between, in quotes",
        ),
        (
            "overcommit",
            "overcommit-factor: '1.5'",
            "overcommit-factor is the text \"1.5\"; expected a number, without quotes",
        ),
        ("overcommit", "overcommit-factor: .inf", "overcommit-factor is .inf; expected a finite number"),
        ("overcommit", "overcommit-factor: .nan", "overcommit-factor is .nan; expected a finite number"),
        (
            "sla",
            "sla-waiting-time: 5",
            "sla-waiting-time is the number 5; expected a duration such as 5m or 1h30m",
        ),
        (
            "sla",
            "sla-waiting-time: 99999999999h",
            "sla-waiting-time is the text \"99999999999h\"; expected a duration such as 5m or 1h30m, at most 2562047h",
        ),
        (
            "sla",
            "sla-waiting-time: 5 m",
            "sla-waiting-time is the text \"5 m\"; expected a duration such as 5m or 1h30m",
        ),
        ("usage", "usage.title: no", "usage.title is false; expected text, in quotes"),
        ("usage", "thresholds: 80", "thresholds is the number 80; expected a mapping"),
        ("usage", "strategies: {}", "strategies is a mapping; expected a list"),
    ] {
        let column = 7 + argument.find(' ').expect("a value") + 1;
        let text = with_plugin(plugin, &["arguments:", &format!("  {argument}")]);
        expect(&text, &[&format!("error: line 6, column {column}: {expected}")]);
    }
    expect(
        &with_plugin("binpack", &["arguments:", "  binpack.weight:"]),
        &["warning: line 6, column 7: binpack.weight is empty; expected an integer; its default stays"],
    );
}

#[test]
fn a_problem_within_an_argument_has_line_and_column() {
    let cases: &[(&str, &[&str])] = &[
        ("estimator: {ratio: 1, be_cpu: 250m}", &[]),
        ("estimator: {ratio: 0.5, be_cpu: 2}", &[]),
        ("rules: [{name: x, params: {cpu: 2, nvidia.com/gpu: 3}}]", &[]),
        ("estimator: 5", &["error: line 6, column 18: estimator is the number 5; expected a mapping"]),
        ("rules: {}", &["error: line 6, column 14: rules is a mapping; expected a list of mappings"]),
        ("rules: [7]", &["error: line 6, column 15: rules holds the number 7; expected a mapping"]),
        ("estimator: {ratio: yes}", &["error: line 6, column 26: ratio is true; expected a number"]),
        (
            "estimator: {be_cpu: -1}",
            &[
                "error: line 6, column 27: be_cpu is the number -1; expected a quantity such as 250m or 200Mi, at most 8Pi",
            ],
        ),
        (
            "estimator: {be_cpu: 1e99}",
            &[
                "error: line 6, column 27: be_cpu is the number 1e99; expected a quantity such as 250m or 200Mi, at most 8Pi",
            ],
        ),
        (
            "estimator: {ration: 1}",
            &[
                "warning: line 6, column 19: unknown argument \"ration\" of estimator of plugin usage; expected one of ratio, be_cpu (did you mean \"ratio\"?)",
            ],
        ),
        (
            "rules: [{params: {\"a\\n\\tkey\": '2'}}]",
            &["error: line 6, column 37: a key is the text \"2\"; expected an integer, without quotes"],
        ),
        (
            "rules: [{params: {cpu: '2'}}]",
            &["error: line 6, column 30: cpu is the text \"2\"; expected an integer, without quotes"],
        ),
    ];
    for (argument, expected) in cases {
        expect(&with_plugin("usage", &["arguments:", &format!("  {argument}")]), expected);
    }
}

#[test]
fn a_misspelt_plugin_is_not_taken_for_a_custom_plugin() {
    let names = "expected one of gang, drf, proportion, binpack, overcommit, sla, usage";
    let text = "actions: allocate, backfill\ntiers:\n- plugins:\n  - name: gnag\n";
    let expected =
        format!("error: line 4, column 11: unknown plugin \"gnag\"; {names} (did you mean \"gang\"?)");
    expect(text, &[&expected]);
}

#[test]
fn unknown_and_unsupported_plugins_are_skipped_with_a_problem() {
    let names = "expected one of gang, drf, proportion, binpack, overcommit, sla, usage";
    let text = "actions: allocate, backfill\ntiers:\n- plugins:\n  - name: magic\n    arguments: {x: 1}\n  - name: gang\n  - name: tdm\n";
    expect(
        text,
        &[
            &format!("warning: line 4, column 11: unknown plugin \"magic\", skipped; {names}"),
            &format!(
                "not supported: line 7, column 11: Volcano's plugin \"tdm\" is not in this version, skipped; {names}"
            ),
        ],
    );
    let conf = read(text).conf.expect("warnings only");
    assert_eq!(conf.tiers[0].plugins.iter().map(|plugin| plugin.name.as_str()).collect::<Vec<_>>(), ["gang"]);
}

#[test]
fn duplicate_keys_plugins_and_actions_are_reported() {
    expect(
        "actions: allocate, backfill\ntiers: [{plugins: [{name: gang}]}]\nactions: backfill\n",
        &[
            "error: line 3, column 1: duplicate key \"actions\"; expected each key once; the first is in line 1",
        ],
    );
    expect(
        &with_plugin("binpack", &["arguments:", "  binpack.weight: 1", "  binpack.weight: 2"]),
        &[
            "error: line 7, column 7: duplicate key \"binpack.weight\"; expected each key once; the first is in line 6",
        ],
    );
    expect(
        "actions: allocate, backfill\ntiers:\n- plugins:\n  - name: gang\n- plugins:\n  - name: drf\n  - name: gang\n",
        &["warning: line 7, column 11: plugin gang again; expected each plugin once; one is in line 4"],
    );
    let allocate = "- {name: allocate, arguments: {predicateErrorCacheEnable: ";
    let text = format!("{}configurations:\n{allocate}no}}}}\n{allocate}yes}}}}\n", with_plugin("gang", &[]));
    expect(
        &text,
        &[
            "warning: line 7, column 10: arguments of action allocate again, ignored; expected each action once; \
           the first is in line 6",
        ],
    );
    let args = read(&text).conf.expect("a warning only").action_args("allocate");
    assert!(!args.bool("predicateErrorCacheEnable", true), "Volcano takes the first");
}

#[test]
fn proportion_and_hierarchical_drf_exclude_each_other_within_a_tier() {
    let drf = "name: drf, enableHierarchy: true";
    let what = "drf with enableHierarchy and proportion in the same tier; expected one of them, or each in a tier of its own";
    expect(
        &format!("actions: allocate, backfill\ntiers:\n- plugins: [{{{drf}}}, {{name: proportion}}]\n"),
        &[&format!("error: line 3, column 20: {what}")],
    );
    expect(
        &format!(
            "actions: allocate, backfill\ntiers:\n- plugins: [{{{drf}}}]\n- plugins: [{{name: proportion}}]\n"
        ),
        &[],
    );
    expect("actions: allocate, backfill\ntiers:\n- plugins: [{name: drf}, {name: proportion}]\n", &[]);
}

#[test]
fn capacity_beside_proportion_is_a_problem() {
    let together = "plugin capacity beside proportion, which is in line 3; \
                    expected one of them, for both divide the cluster among queues";
    let no_effect = "ancestorReclaimLevel without enableHierarchy has no effect; \
                     expected enableHierarchy: true on plugin capacity";
    let level = |level: i64| format!("name: capacity, arguments: {{ancestorReclaimLevel: {level}}}");
    for (plugins, expected) in [
        ("{name: proportion}".to_owned(), None),
        ("{name: capacity, enableHierarchy: true}".to_owned(), None),
        ("{name: proportion}, {name: capacity}".to_owned(), Some(format!("line 3, column 40: {together}"))),
        (format!("{{{}}}", level(1)), Some(format!("line 3, column 64: {no_effect}"))),
        (format!("{{{}}}", level(0)), None),
        (format!("{{{}, enableHierarchy: true}}", level(1)), None),
        (
            format!("{{{}, enableHierarchy: true}}", level(-1)),
            Some(
                "line 3, column 64: ancestorReclaimLevel is the number -1; 0 is taken instead; \
                 expected an integer, at least 0"
                    .to_owned(),
            ),
        ),
    ] {
        let text = format!("actions: allocate, backfill\ntiers:\n- plugins: [{plugins}]\n");
        let known = phalanx_conf::Known { missed: Vec::new(), ..phalanx_conf::Known::builtin() };
        let parsed = phalanx_conf::parse(&text, &known);
        let expected: Vec<String> =
            expected.map(|problem| format!("warning: {problem}")).into_iter().collect();
        assert_eq!(lines(&parsed), expected, "{text}");
        assert!(parsed.conf.is_some(), "{text}");
    }
}

#[test]
fn plugins_and_actions_that_need_another_are_warned_of() {
    let unmoved = "line 2, column 27: plugin rescheduling moves no pods without action shuffle; expected shuffle among the actions";
    let unnamed = "line 1, column 10: action shuffle evicts no pod without plugin rescheduling or tdm; expected one of them among the plugins";
    let whatever = |action| {
        format!(
            "line 1, column 10: no plugin priority, so {action} serves jobs whatever their priority; expected priority among the plugins"
        )
    };
    let nobody = "line 2, column 27: plugin extender without extender.urlPrefix has no server to ask; expected its address";
    for (actions, plugins, expected) in [
        ("allocate", "{name: rescheduling}", unmoved.to_owned()),
        ("allocate, shuffle", "{name: rescheduling}", String::new()),
        ("allocate, shuffle", "{name: tdm}", String::new()),
        ("allocate, shuffle", "{name: drf}", unnamed.to_owned()),
        ("allocate, preempt", "{name: drf}", whatever("preempt")),
        ("allocate, gangpreempt", "{name: drf}", whatever("gangpreempt")),
        ("allocate, gangpreempt, preempt", "{name: priority}", String::new()),
        ("allocate, reclaim", "{name: drf}", String::new()),
        ("allocate", "{name: extender}", nobody.to_owned()),
        ("allocate", "{name: extender, arguments: {extender.urlPrefix: \"http://x\"}}", String::new()),
    ] {
        let text = format!("actions: '{actions}, backfill'\ntiers: [{{plugins: [{plugins}]}}]\n");
        let known = phalanx_conf::Known { missed: Vec::new(), ..phalanx_conf::Known::builtin() };
        let parsed = phalanx_conf::parse(&text, &known);
        let found = lines(&parsed).join("\n").replace("warning: ", "");
        assert_eq!(found, expected, "{text}");
        assert!(parsed.conf.is_some(), "{text}");
    }
}

#[test]
fn profiles_are_checked_too() {
    let of = |profile: &str| format!("{}profiles:\n- {profile}\n", with_plugin("gang", &[]));
    let only =
        "one of binpack, fragmentation, nodegroup, nodeorder, predicates, resource-strategy-fit, usage";
    for (profile, expected) in [
        ("schedulerName: spread\n  plugins: [{name: binpack}]", vec![]),
        (
            "plugins: [{name: binpack}]",
            vec!["error: line 6, column 3: a profile without schedulerName; expected one of those of --scheduler-name".to_owned()],
        ),
        ("schedulerName: spread", vec!["error: line 6, column 3: a profile without plugins; expected plugins".to_owned()]),
        (
            "schedulerName: spread\n  plugins: []",
            vec!["error: line 7, column 12: a profile without plugins; expected plugins".to_owned()],
        ),
        (
            "{schedulerName: spread, plugins: [{name: gang}]}",
            vec![format!(
                "error: line 6, column 44: plugin gang in a profile: it is for all pods; expected it in a tier; what \
                 only filters and scores nodes may be here: {only}"
            )],
        ),
        (
            "{schedulerName: a, plugins: [{name: binpack}]}\n- {schedulerName: a, plugins: [{name: binpack}]}",
            vec!["error: line 7, column 19: schedulerName \"a\" again; expected one profile of it; one is in line 6".to_owned()],
        ),
        (
            "{schedulerName: a, tiers: [], plugins: [{name: binpack}]}",
            vec!["error: line 6, column 22: unknown key \"tiers\"; expected one of schedulerName, plugins".to_owned()],
        ),
    ] {
        let text = of(profile);
        expect(&text, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn a_profile_for_a_name_that_the_scheduler_has_not_is_a_warning() {
    let text = format!(
        "{}profiles:\n- {{schedulerName: spread, plugins: [{{name: binpack}}]}}\n",
        with_plugin("gang", &[])
    );
    for (names, expected) in [
        (&["volcano", "spread"][..], None),
        (
            &["volcano", "spraed"][..],
            Some("schedulerName \"spread\" is none of --scheduler-name, so no pod has the profile"),
        ),
        (&["spread"][..], Some("a profile of the only --scheduler-name has no effect")),
    ] {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let known = phalanx_conf::Known { missed: Vec::new(), ..phalanx_conf::Known::builtin().of(&names) };
        let parsed = phalanx_conf::parse(&text, &known);
        let found: Vec<_> = parsed.problems.iter().map(|problem| problem.what.as_str()).collect();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{names:?}");
        assert!(parsed.conf.is_some());
    }
}

#[test]
fn configurations_and_metrics_are_checked_too() {
    let base = with_plugin("gang", &[]);
    for (more, expected) in [
        (
            "configurations:\n- name: preempt\n  arguments: {x: 1}\n",
            "not supported: line 6, column 9: Volcano's action \"preempt\" is not in this version, skipped; expected one of \
             enqueue, allocate, backfill",
        ),
        (
            "configurations:\n- arguments: {}\n",
            "error: line 6, column 3: no name; expected the name of an action",
        ),
        (
            "configurations:\n  allocate: {}\n",
            "error: line 6, column 3: configurations is a mapping; expected a list of actions' arguments",
        ),
        (
            "configurations:\n- name: allocate\n  arguments:\n    predicateErrorCacheEnable: 3\n",
            "error: line 8, column 32: predicateErrorCacheEnable is the number 3; expected true or false",
        ),
        (
            "metrics:\n  typ: prometheus\n",
            "warning: line 6, column 3: unknown key \"typ\"; expected one of type, address, interval, \
             tls.insecureSkipVerify, elasticsearch.index, elasticsearch.username, elasticsearch.password, \
             elasticsearch.passwordFile, \
             elasticsearch.hostnameFieldName (did you mean \"type\"?)",
        ),
        (
            "metrics:\n  type: prometeus\n",
            "warning: line 6, column 9: unknown type \"prometeus\"; expected one of metrics_api, prometheus, prometheus_adaptor, \
             elasticsearch (did you mean \"prometheus\"?)",
        ),
        (
            "metrics:\n  interval: 30\n",
            "warning: line 6, column 13: interval is the number 30; expected a duration such as 30s",
        ),
        ("metrics:\n  address: [a]\n", "error: line 6, column 12: \"address\" is a list; expected text"),
        ("metrics:\n  address:\n", "warning: line 6, column 3: \"address\" is empty; expected text"),
        ("metrics: 5\n", "error: line 5, column 10: metrics is the number 5; expected a mapping"),
    ] {
        expect(&format!("{base}{more}"), &[expected]);
    }
}

#[test]
fn all_problems_are_reported_in_the_order_of_the_file() {
    let text = "actions: allocate, alocate\nfoo: 1\ntiers:\n- plugins:\n  - name: gang\n    enableJobReady: 1\n    enablejobready: true\n";
    let parsed = read(text);
    let places: Vec<_> = parsed.problems.iter().map(|problem| (problem.at.line, problem.at.column)).collect();
    assert_eq!(places, [(1, 20), (2, 1), (6, 21), (7, 5)]);
}

#[test]
fn positions_count_characters_through_tabs_carriage_returns_and_wide_letters() {
    let text = with_plugin("gang", &["enableJobReady:\t\tmaybe # two tabs", "\"é\": 1"]);
    let expected = [
        "error: line 5, column 22: enableJobReady is the text \"maybe\"; expected true or false",
        "error: line 6, column 5: unknown key \"é\"; expected",
    ];
    for text in [text.clone(), text.replace('\n', "\r\n")] {
        let found = lines(&read(&text));
        assert_eq!(found.len(), 2, "{found:?}");
        for (line, expected) in found.iter().zip(expected) {
            assert!(line.starts_with(expected), "{line}");
        }
    }
    expect(
        "actions: 'éé, alocate'\r\ntiers: [{plugins: [{name: gang}]}]\r\n",
        &[
            "error: line 1, column 11: unknown action \"éé\"; expected one of enqueue, allocate, backfill",
            "error: line 1, column 15: unknown action \"alocate\"; expected one of enqueue, allocate, backfill \
             (did you mean \"allocate\"?)",
        ],
    );
}

#[test]
fn text_that_is_no_yaml_is_one_error_with_line_and_column() {
    for (text, line, column) in [
        ("actions: \"allocate\n", 1, 10),
        ("actions: 'allocate\ntiers:\n- plugins:\n  - name: 'gang'\n", 1, 10),
        ("actions: allocate, backfill\ntiers: [\n", 2, 8),
        ("actions: *nowhere\n", 1, 10),
        ("actions: a: b\n", 1, 11),
        ("actions: allocate, backfill\n  tiers: x\n", 2, 8),
    ] {
        let parsed = read(text);
        assert_eq!(parsed.problems.len(), 1, "{parsed:?}");
        let problem = &parsed.problems[0];
        assert!(problem.what.starts_with("not YAML: "), "{problem}");
        assert_eq!((problem.at.line, problem.at.column), (line, column), "{problem} in {text}");
        assert!(parsed.conf.is_none());
    }
    for text in
        ["actions: allocate, backfill\n\ttiers: []\n", "tiers:\n\t- plugins: []\n", "a:\n  b: 1\n  \tc: 2\n"]
    {
        let column = text.lines().find_map(|line| line.find('\t')).expect("a tab") + 1;
        let line = text.lines().position(|line| line.contains('\t')).expect("a tab") + 1;
        expect(
            text,
            &[&format!(
                "error: line {line}, column {column}: not YAML: a tab as indentation; expected spaces"
            )],
        );
    }
}

#[test]
fn problems_of_documents_keys_and_merges_have_line_and_column() {
    let base = with_plugin("gang", &[]);
    expect(
        &format!("{base}---\nactions: backfill\n"),
        &["warning: line 5, column 1: another document, which is ignored; expected one document"],
    );
    expect(
        &with_plugin("gang", &["? [a]", ": 1", "<<: 3"]),
        &[
            "error: line 5, column 7: a list as a key; expected text",
            "error: line 7, column 5: the merge key << has the number 3; expected a mapping or a list of mappings",
        ],
    );
    expect(
        &with_plugin("gang", &["enableJobReady: !yes true"]),
        &[
            "error: line 5, column 26: a tag that means nothing here; expected no tag, or one like !!str",
            "error: line 5, column 26: enableJobReady is the text \"true\"; expected true or false, without quotes",
        ],
    );
    let manifest = "kind: ConfigMap\ndata:\n  volcano-scheduler.conf: |\n    actions: allocate, backfill\n";
    expect(
        manifest,
        &[
            "error: line 1, column 1: a Kubernetes object; expected the text of scheduler.conf that is under its data",
        ],
    );
}

#[test]
fn arguments_without_effect_or_with_another_are_warned_of() {
    let tiers = "tiers: [{plugins: [{name: gang}]}]";
    expect(
        &format!("actions: \"allocate, backfill, allocate\"\n{tiers}"),
        &[
            "warning: line 1, column 31: action \"allocate\" again; expected each action once; it runs twice in each cycle",
        ],
    );
    for (plugin, arguments, expected) in [
        (
            "binpack",
            "binpack.resources.nvidia.com/gpux: 3, binpack.resources: nvidia.com/gpu",
            Some(
                "binpack.resources.nvidia.com/gpux has no effect, for binpack.resources does not list \"nvidia.com/gpux\"; expected the name in binpack.resources (did you mean \"nvidia.com/gpu\"?)",
            ),
        ),
        (
            "binpack",
            "binpack.resources.a/b: 3",
            Some(
                "binpack.resources.a/b has no effect, for binpack.resources does not list \"a/b\"; expected the name in binpack.resources",
            ),
        ),
        ("binpack", "binpack.resources.a/b: 3, binpack.resources: [a/b]", None),
    ] {
        let parsed = read(&with_plugin(plugin, &[&format!("arguments: {{{arguments}}}")]));
        assert!(parsed.conf.is_some(), "{arguments}");
        let found: Vec<String> = lines(&parsed).iter().map(ToString::to_string).collect();
        match expected {
            Some(expected) => {
                assert!(found.len() == 1 && found[0].starts_with("warning: line "), "{found:?}");
                assert!(found[0].ends_with(expected), "{found:?}\n{expected}");
            }
            None => assert!(found.is_empty(), "{found:?}"),
        }
    }
}

/// As in a design document of Volcano's.
#[test]
fn a_flag_of_early_versions_of_volcano_is_not_supported() {
    expect(
        &with_plugin("drf", &["disableJobOrder: true"]),
        &[
            "not supported: line 5, column 5: disableJobOrder is a flag of early versions of Volcano, and has no effect; \
           expected enableJobOrder: false",
        ],
    );
}

/// As in examples of Volcano's documentation.
#[test]
fn an_argument_outside_arguments_is_a_problem_that_says_so() {
    expect(
        &with_plugin("overcommit", &["arguments:", "overcommit-factor: 1.0"]),
        &["warning: line 6, column 5: argument \"overcommit-factor\" beside arguments has no effect; \
           expected it under arguments, indented by two more spaces"],
    );
}
