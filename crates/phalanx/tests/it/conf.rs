//! `phalanx conf`: check, diff, show.
use crate::run::{folder, node, phalanx, phalanx_in};

const BAD: &str = "actions: \"enqueue, alocate\"\ntiers:\n- plugins:\n  - name: gang\n    arguments: {ordr: 1}\n  - name: magic\n  - name: predicates\n";

#[test]
fn check_prints_each_problem_with_line_and_column_and_fails() {
    let folder = folder(&[("conf.yaml", BAD)]);
    let ran = phalanx_in(folder.path(), &["conf", "check", "conf.yaml"], "");
    assert_eq!(ran.code, 2, "{ran:?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(
        lines.iter().any(|line| line.starts_with("warning: conf.yaml:5:17: ") && line.contains("ordr")),
        "{lines:?}"
    );
    assert!(
        lines.iter().any(|line| line.starts_with("warning: conf.yaml:6:11: ") && line.contains("magic")),
        "{lines:?}"
    );
    assert!(lines[0].starts_with("error: conf.yaml:1:"), "{lines:?}");
    assert_eq!(ran.stderr, "error: conf.yaml: 1 error, 2 warnings\n");
}

#[test]
fn check_finds_no_problem_in_shipped_files_and_prints_one_line() {
    for entry in std::fs::read_dir(crate::run::repository().join("config")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let ran = phalanx(&["conf", "check", "--strict", path.to_str().unwrap()]);
            assert!(ran.text().ends_with(" plugins, no problems\n"), "{ran:?}");
            assert_eq!((ran.text().lines().count(), ran.stderr.as_str()), (1, ""), "{ran:?}");
        }
    }
    let text = "actions: \"allocate, backfill\"\ntiers:\n- plugins:\n  - name: gang\n- plugins:\n  - name: predicates\n";
    let ran = phalanx_in(folder(&[]).path(), &["conf", "check", "-"], text);
    assert_eq!(ran.text(), "<stdin>: 2 actions, 2 tiers, 2 plugins, no problems\n");
}

#[test]
fn a_weight_of_a_resource_that_does_not_count_in_hyper_nodes_is_warned_of() {
    let text = "actions: allocate, backfill\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n- plugins:\n  \
                - {name: network-topology-aware, arguments: {hypernode.binpack.resources.a/b: 3}}\n";
    let ran = phalanx_in(folder(&[]).path(), &["conf", "check", "-"], text);
    let expected = "hypernode.binpack.resources.a/b has no effect, for hypernode.binpack.resources does not list \"a/b\"";
    assert!(ran.text().contains(expected), "{ran:?}");
}

#[test]
fn warnings_fail_only_when_strict() {
    let folder = folder(&[(
        "conf.yaml",
        "actions: \"allocate, backfill\"\ntiers:\n- plugins:\n  - name: gang\n    arguments: {note: mine}\n  - name: predicates\n",
    )]);
    let plain = phalanx_in(folder.path(), &["conf", "check", "conf.yaml"], "");
    assert_eq!(plain.code, 0, "{plain:?}");
    let lines: Vec<&str> = plain.stdout.lines().collect();
    assert!(lines[0].starts_with("warning: conf.yaml:5:17: "), "{plain:?}");
    assert_eq!(lines[1..], ["conf.yaml: 2 actions, 1 tier, 2 plugins, 1 warning"]);
    let strict = phalanx_in(folder.path(), &["conf", "check", "--strict", "conf.yaml"], "");
    assert_eq!((strict.code, strict.stdout.trim_end()), (2, lines[0]));
    assert_eq!(strict.stderr, "error: conf.yaml: 0 errors, 1 warning\n");
}

/// A typing error can be corrected; settings of Volcano that Phalanx does not support cannot.
#[test]
fn unsupported_settings_are_reported_apart_from_typing_errors() {
    let text = "actions: \"allocate, backfill\"\ntiers:\n- plugins:\n  - name: gang\n  - name: deviceshare\n  - name: predicates\n    \
                arguments:\n      predicate.GPUSharingEnable: true\n      predicate.NodePortEnable: false\n";
    let check =
        |flags: &[&str]| phalanx_in(folder(&[]).path(), &[&["conf", "check", "-"], flags].concat(), text);
    let plain = check(&[]);
    let lines: Vec<&str> = plain.text().lines().collect();
    for (line, (start, what)) in lines.iter().zip([
        ("not supported: <stdin>:5:11: ", "Volcano's plugin \"deviceshare\""),
        ("not supported: <stdin>:8:7: ", "Volcano's argument \"predicate.GPUSharingEnable\""),
        ("warning: <stdin>:9:7: ", "(did you mean \"predicate.NodePortsEnable\"?)"),
        ("<stdin>: ", "2 actions, 1 tier, 2 plugins, 1 warning, 2 not supported"),
    ]) {
        assert!(line.starts_with(start) && line.contains(what), "{line}");
    }
    assert_eq!((lines.len(), check(&["--strict"]).code), (4, 2));
}

#[test]
fn missing_plugins_gang_and_predicates_are_warned_of() {
    let text = "actions: \"allocate, backfill\"\ntiers:\n- plugins:\n  - name: binpack\n";
    let check = |flags: &[&str], text: &str| {
        phalanx_in(folder(&[]).path(), &[&["conf", "check", "-"], flags].concat(), text)
    };
    let plain = check(&[], text);
    let expected = [
        "warning: <stdin>:3:3: no plugin gang, so pods of a PodGroup start one by one, whatever its minMember; \
         expected gang among the plugins",
        "warning: <stdin>:3:3: no plugin predicates, so pods go to nodes that selectors, affinity, taints, cordons, ports or \
         volumes rule out; expected predicates among the plugins",
        "<stdin>: 2 actions, 1 tier, 1 plugin, 2 warnings",
    ];
    assert_eq!(plain.text().lines().collect::<Vec<_>>(), expected);
    assert_eq!(check(&["--strict"], text).code, 2);
    let empty = check(&[], "actions: \"allocate, backfill\"\ntiers:\n- plugins: []\n");
    assert!(!empty.stdout.contains("no plugin gang"), "that there is none at all is told: {empty:?}");
}

#[test]
fn check_gives_a_program_each_finding_with_its_place() {
    let folder = folder(&[("conf.yaml", BAD)]);
    let ran = phalanx_in(folder.path(), &["conf", "check", "conf.yaml", "-o", "json"], "");
    assert_eq!((ran.code, ran.stderr.as_str()), (2, "error: conf.yaml: 1 error, 2 warnings\n"));
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["takesEffect"], false);
    let expected = serde_json::json!({"file": "conf.yaml", "line": 6, "column": 11, "severity": "warning",
        "message": json["findings"][2]["message"]});
    assert_eq!(json["findings"][2], expected, "{json:#}");
    assert!(
        expected["message"]
            .as_str()
            .unwrap()
            .starts_with("unknown plugin \"magic\", skipped; expected one of ")
    );
    assert_eq!(
        (&json["findings"][0]["severity"], &json["findings"][0]["line"]),
        (&"error".into(), &1.into())
    );
    let good = phalanx(&["conf", "check", "config/default.yaml", "-o", "yaml"]);
    assert_eq!(good.text(), "findings: []\ntakesEffect: true\n");
}

#[test]
fn a_misspelt_plugin_is_no_second_one() {
    let text = "actions: \"allocate, backfill\"\ntiers:\n- plugins:\n  - name: gang\n  - name: gnag\n  - name: predicates\n";
    let ran = phalanx_in(folder(&[]).path(), &["conf", "check", "-"], text);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines.len() == 1 && lines[0].ends_with("(did you mean \"gang\"?)"), "{ran:?}");
    assert!(lines[0].starts_with("error: <stdin>:5:11: unknown plugin \"gnag\"; "), "{ran:?}");
}

/// The rest of the file is read as if the word were valid.
#[test]
fn one_mistyped_word_is_one_problem() {
    let text = "actions: \"allocate, backfill\"\ntiers:\n- plugins:\n  - name: gang\n- plugins:\n  - name: predicates\n";
    for (right, wrong, expected) in [
        (
            "plugins:\n  - name: g",
            "plugin:\n  - name: g",
            "<stdin>:3:3: unknown key \"plugin\"; expected \"plugins\"",
        ),
        (
            "gang",
            "gnag",
            "<stdin>:4:11: unknown plugin \"gnag\"; expected one of priority, gang, conformance, ... \
                          (did you mean \"gang\"?)",
        ),
    ] {
        let ran = phalanx_in(folder(&[]).path(), &["conf", "check", "-"], &text.replace(right, wrong));
        assert_eq!((ran.code, &*ran.stdout), (2, &*format!("error: {expected}\n")));
    }
}

#[test]
fn diff_prints_differences_in_meaning() {
    let ran = phalanx(&["conf", "diff", "config/default.yaml", "config/helm-default.yaml"]);
    assert!(ran.text().lines().any(|line| line.contains("binpack")), "{ran:?}");
    let same = &["conf", "diff", "config/default.yaml", "config/default.yaml", "--exit-code"];
    assert_eq!(phalanx(same).text(), "No difference in meaning\n");
}

#[test]
fn diff_tells_nothing_of_a_default_that_is_written_and_names_one_that_is_not() {
    let conf = |arguments: &str| {
        format!(
            "actions: allocate, backfill\ntiers:\n- plugins: [{{name: gang}}, {{name: predicates}}, {{name: binpack{arguments}}}]\n"
        )
    };
    let files = [
        ("short", conf("")),
        ("long", conf(", arguments: {binpack.weight: 1}")),
        ("other", conf(", arguments: {binpack.weight: 5}")),
    ];
    let folder = folder(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let diff = |new: &str| phalanx_in(folder.path(), &["conf", "diff", "short", new], "").text().to_owned();
    assert_eq!(diff("long"), "No difference in meaning\n");
    assert_eq!(diff("other"), "plugin binpack: binpack.weight 1 (default) -> 5\n");
}

#[test]
fn diff_tells_a_program_whether_files_differ() {
    let differ = ["conf", "diff", "config/default.yaml", "config/helm-default.yaml"];
    let ran = phalanx(&[&differ[..], &["--exit-code", "-o", "json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(ran.code == 1 && ran.stderr.is_empty() && json["conf"][0].is_string(), "{ran:?}");
    assert!(json["cluster"].is_null(), "{json:#}");
    // The gang runs under both.
    let cluster = crate::run::node("n1", 4) + &crate::run::pod("p", 1, "", "");
    let folder = folder(&[("m.yaml", &cluster)]);
    let repository = crate::run::repository();
    let [old, new] = [differ[2], differ[3]].map(|file| repository.join(file).display().to_string());
    let with = ["conf", "diff", &old, &new, "-f", "m.yaml", "--exit-code", "-o", "json"];
    let ran = phalanx_in(folder.path(), &with, "");
    assert!(ran.code == 0 && ran.json()["cluster"]["podGroups"].is_object(), "{ran:?}");
}

#[test]
fn the_output_of_show_means_the_same_as_the_file() {
    for args in [&["conf", "show"][..], &["conf", "show", "--all"]] {
        let shown = phalanx(&[args, &["config/helm-default.yaml"]].concat());
        let folder = folder(&[("shown.yaml", shown.text())]);
        let original = crate::run::repository().join("config/helm-default.yaml");
        let ran = phalanx_in(folder.path(), &["conf", "diff", original.to_str().unwrap(), "shown.yaml"], "");
        assert_eq!(ran.text(), "No difference in meaning\n");
    }
    assert_eq!(phalanx(&["conf", "show"]).text(), phalanx(&["conf", "show", "config/default.yaml"]).text());
}

#[test]
fn the_reference_page_equals_the_output_of_conf_reference() {
    let page =
        std::fs::read_to_string(crate::run::repository().join("docs/reference/scheduler-conf.md")).unwrap();
    let fresh = phalanx(&["conf", "reference"]);
    assert!(fresh.text() == page, "stale: phalanx conf reference > docs/reference/scheduler-conf.md");
}

#[test]
fn every_command_prints_a_problem_alike() {
    let folder = folder(&[("conf.yaml", BAD), ("m.yaml", &node("n1", 1))]);
    let error = |args: &[&str]| {
        let ran = phalanx_in(folder.path(), args, BAD);
        assert_eq!(ran.code, 2, "{ran:?}");
        ran.stderr
    };
    let check = phalanx_in(folder.path(), &["conf", "check", "conf.yaml"], "");
    let expected = check.stdout.lines().next().unwrap().to_owned() + "\n";
    for args in [
        &["simulate", "-f", "m.yaml", "--scheduler-conf", "conf.yaml"][..],
        &["explain", "pod", "p", "-f", "m.yaml", "--scheduler-conf", "conf.yaml"],
        &["conf", "show", "conf.yaml"],
        &["conf", "diff", "conf.yaml", "conf.yaml"],
        &["scheduler", "--scheduler-conf", "conf.yaml"],
    ] {
        assert_eq!(error(args), expected, "{args:?}");
    }
    assert_eq!(error(&["conf", "show", "-"]), expected.replace("conf.yaml:", "<stdin>:"));
}
