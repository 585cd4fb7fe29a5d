//! Flags and kubeconfigs that cannot be used: exit code 2 and one line.
use crate::bad_input::refused;
use crate::run::{folder, node, phalanx_with};

#[test]
fn an_unusable_kubeconfig_is_an_error_with_its_file() {
    let good = "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
        clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n\
        contexts: [{name: x, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n";
    let server = "server: 'https://127.0.0.1:1'";
    let with = |field: &str| good.replace(server, &format!("{server}, {field}"));
    for (text, expected) in [
        (
            "a: \"x\nclusters: []\n".to_owned(),
            ":1:4: invalid YAML: a text that opens with \" and has no end before line 2; expected \" at its end",
        ),
        ("clusters: [".to_owned(), ":1:11: invalid YAML: unclosed bracket '['; expected a kubeconfig"),
        ("# none\n".to_owned(), ": current-context: missing, expected the name of a context"),
        (
            good.replace("current-context: x", "current-context: y"),
            ": current-context \"y\" is not in it; expected \"x\"",
        ),
        (
            good.replace("cluster: c,", "cluster: d,"),
            ": cluster \"d\" of the context is not in it; expected \"c\"",
        ),
        (
            good.replace("user: u}", "user: v}"),
            ": context \"x\" names user \"v\", which is not in it; expected \"u\"",
        ),
        (good.replace("https://127.0.0.1:1", "::"), ": server: "),
        (
            with("certificate-authority-data: '!'"),
            ": certificate-authority-data: is no base64, expected PEM in base64",
        ),
        (
            with("certificate-authority-data: aGVsbG8="),
            ": certificate-authority: found no certificate, expected PEM",
        ),
        (
            good.replace("user: {}", "user: {client-certificate-data: aGVsbG8=, client-key-data: aGVsbG8=}"),
            ": client-certificate, client-key or certificate-authority: identity PEM is missing a private key",
        ),
    ] {
        let line = refused(&[("kc", &text)], &["scheduler", "--kubeconfig", "kc"]);
        assert!(line.starts_with(&format!("error: --kubeconfig kc{expected}")), "{line}\n{expected}");
    }
    assert_eq!(
        refused(&[], &["scheduler", "--kubeconfig", "none"]),
        "error: --kubeconfig none: cannot be read: No such file or directory"
    );
}

#[test]
fn an_invalid_value_of_a_flag_is_an_error_with_an_expectation() {
    for (args, expected) in [
        (&["--node-selector", "zone"][..], "--node-selector \"zone\": expected key:value"),
        (&["--master", "localhost"], "--master \"localhost\": no https:// before it, expected a URL"),
        (
            &["--enable-healthz", "--healthz-address", "here", "--master", "http://127.0.0.1:1"],
            "--healthz-address \"here\": expected ADDRESS:PORT or :PORT",
        ),
        (
            &["--node-selector", "zone:a:b"],
            "--node-selector \"zone:a:b\": \"a:b\" is no value of a label, expected key:value",
        ),
        (
            &["--node-selector", "a!:b"],
            "--node-selector \"a!:b\": \"a!\" is no key of a label, expected key:value",
        ),
        (&["--kube-api-qps", "-1"], "invalid value '-1' for '--kube-api-qps <N>': expected a number above 0"),
        (
            &["--schedule-period=0s"],
            "invalid value '0s' for '--schedule-period <DURATION>': expected a duration above 0",
        ),
        (
            &["--coalesce-window", "-1s"],
            "invalid value '-1s' for '--coalesce-window <DURATION>': expected a duration such as",
        ),
        (&["-v", "-1"], "invalid value '-1' for '--v <N>': expected a whole number from 0 to 255"),
        (&["--seed", "-1"], "invalid value '-1' for '--seed <SEED>': expected a whole number from 0 to"),
        (&["--leader-elect-lease-duration", "1s"], "--leader-elect-lease-duration must be longer"),
        (
            &["--binds-in-flight", "0"],
            "invalid value '0' for '--binds-in-flight <N>': expected a whole number from 1 to 1024",
        ),
        (
            &["--schedule-period", "x"],
            "invalid value 'x' for '--schedule-period <DURATION>': expected a duration",
        ),
        (
            &["--log-format", "xml"],
            "invalid value 'xml' for '--log-format <FORMAT>': expected one of text, json",
        ),
        (
            &["--log-level", "loud"],
            "--log-level \"loud\": \"loud\" is no level; expected error, warn, info, debug, trace, off or",
        ),
        (&["--scheduler-conf", "none"], "none: cannot be read: No such file or directory"),
    ] {
        let line = refused(&[], &[&["scheduler"], args].concat());
        assert!(line.starts_with(&format!("error: {expected}")), "{line}\n{expected}");
    }
}

#[test]
fn an_invalid_command_line_is_an_error_of_one_line() {
    let commands = "expected one of scheduler, controllers, simulate, trace, explain, top, whatif, capture, replay, conf, crds, job, queue, pod, jobflow, jobtemplate, version, completion";
    let of_conf = "expected one of check, diff, show, reference";
    for (args, expected) in [
        (&[][..], format!("found no command after \"phalanx\", {commands}; see \"phalanx --help\"")),
        (&["conf"], format!("found no command after \"phalanx conf\", {of_conf}; see \"phalanx conf --help\"")),
        (&["simulat"], format!("unrecognized subcommand 'simulat', {commands} (did you mean simulate?)")),
        (&["conf", "x"], format!("unrecognized subcommand 'x', {of_conf}")),
        (
            &["simulate"],
            "the following required arguments were not provided: --filename <FILE|DIR>".to_owned(),
        ),
        (&["simulate", "-f"], "a value is required for '--filename <FILE|DIR>' but none was supplied".to_owned()),
        (
            &["simulate", "-f", "a.yaml", "b.yaml", "c.yaml"],
            "unexpected argument 'b.yaml' found, expected what \"phalanx simulate --help\" lists (did you mean -f b.yaml, or a folder behind one -f?)".to_owned(),
        ),
        (
            &["explain", "pod", "a", "--live", "-f", "m"],
            "the argument '--live[=<NAMESPACE/LEASE>]' cannot be used with '--filename <FILE|DIR>'".to_owned(),
        ),
        (
            &["whatif", "--drain", "a", "--scheduler", "http://x", "--scheduler-conf", "c"],
            "the argument '--scheduler <URL>' cannot be used with '--scheduler-conf <FILE>'".to_owned(),
        ),
        (
            &["simulate", "-f", "m", "--cycle", "3"],
            "unexpected argument '--cycle' found, expected what \"phalanx simulate --help\" lists (did you mean --cycles?)".to_owned(),
        ),
        (
            &["conf", "check", "a", "b"],
            "unexpected argument 'b' found, expected what \"phalanx conf check --help\" lists".to_owned(),
        ),
        (
            &["explain", "podgroup/", "-f", "m"],
            "invalid value 'podgroup/' for '<KIND>': expected a kind such as podgroup, or KIND/NAME".to_owned(),
        ),
        (
            &["explain", "pod", "a", "-n", "A_b", "-f", "m"],
            "invalid value 'A_b' for '--namespace <NAMESPACE>': expected lower-case letters, digits and '-', at most 63, with letters or digits at both ends".to_owned(),
        ),
        (
            &["scheduler", "--leader-elect=maybe"],
            "invalid value 'maybe' for '--leader-elect[=<BOOL>]': expected true or false".to_owned(),
        ),
        (
            &["scheduler", "--leader-elect", "false"],
            "unexpected argument 'false' found, expected what \"phalanx scheduler --help\" lists (did you mean --leader-elect=false?)".to_owned(),
        ),
    ] {
        assert_eq!(refused(&[], args), format!("error: {expected}"));
    }
}

#[test]
fn help_and_version_are_no_errors() {
    for args in [&["--help"][..], &["help", "conf"], &["simulate", "-h"], &["--version"]] {
        let ran = phalanx_with(folder(&[]).path(), args, "", &[]);
        assert!(!ran.text().is_empty() && ran.stderr.is_empty(), "{ran:?}");
    }
}

#[test]
fn an_invalid_value_of_a_flag_of_simulate_is_an_error() {
    for (flag, value, expected) in [
        ("--seed", "-1", "'--seed <S>': expected a whole number from 0 to"),
        ("--default-queue", "Bad_Q", "'--default-queue <QUEUE>': expected lower-case letters"),
        (
            "--minimum-feasible-nodes",
            "-1",
            "'--minimum-feasible-nodes <N>': expected a whole number from 0 to",
        ),
        ("--seed", "x", "'--seed <S>': expected a whole number from 0 to 18446744073709551615"),
        ("--seed", "99999999999999999999", "'--seed <S>': expected a whole number from 0 to"),
        ("--cycles", "0", "'--cycles <N>': expected a whole number from 1 to 100000"),
        ("--output", "xml", "'--output <OUTPUT>': expected one of text, wide, json, yaml, html"),
    ] {
        let line = refused(&[("m.yaml", &node("n1", 1))], &["simulate", "-f", "m.yaml", flag, value]);
        assert!(
            line.starts_with(&format!("error: invalid value '{value}' for {expected}")),
            "{line}\n{expected}"
        );
    }
}

#[test]
fn flags_that_hold_names_refuse_invalid_names() {
    for (flag, expected) in [
        (
            "--scheduler-name=Batch_1",
            "--scheduler-name \"Batch_1\": found no name of a Lease, expected --leader-elect-resource-name beside it",
        ),
        (
            "--scheduler-name=",
            "invalid value '' for '--scheduler-name <NAME>': expected a name as in spec.schedulerName",
        ),
        (
            "--default-queue=Bad_Q",
            "invalid value 'Bad_Q' for '--default-queue <QUEUE>': expected lower-case letters, digits, '-' and '.'",
        ),
        (
            "--leader-elect-resource-name=a/b",
            "invalid value 'a/b' for '--leader-elect-resource-name <NAME>': expected lower-case letters",
        ),
        (
            "--leader-elect-resource-namespace=a.b",
            "invalid value 'a.b' for '--leader-elect-resource-namespace <NAMESPACE>': expected lower-case letters",
        ),
    ] {
        let line = refused(&[], &["scheduler", flag]);
        assert!(line.starts_with(&format!("error: {expected}")), "{line}\n{expected}");
    }
}

#[test]
fn an_unusable_kubeconfig_of_the_environment_is_an_error_of_one_line() {
    let files = [("bad", "clusters: ["), ("empty", "# none\n"), (".kube/config", "current-context: x\n")];
    let folder = folder(&files);
    let home = folder.path().to_str().unwrap();
    for (kubeconfig, expected) in [
        ("none", "KUBECONFIG none: cannot be read: No such file or directory"),
        ("bad", "KUBECONFIG bad:1:11: invalid YAML: unclosed bracket '['; expected a kubeconfig"),
        ("empty:bad", "KUBECONFIG bad:1:11: invalid YAML: unclosed bracket '['; expected a kubeconfig"),
        ("empty", "KUBECONFIG empty: current-context: missing, expected the name of a context"),
        ("", "HOME/.kube/config: current-context \"x\" is not in it; expected one, but there is none"),
    ] {
        let environment = [("KUBECONFIG", kubeconfig), ("HOME", home)];
        let ran = phalanx_with(folder.path(), &["scheduler"], "", &environment);
        let expected = format!("error: {expected}\n").replace("HOME", home);
        assert_eq!((ran.code, ran.stdout, ran.stderr), (2, String::new(), expected));
    }
    let environment = [("KUBECONFIG", ""), ("HOME", "none"), ("KUBERNETES_SERVICE_HOST", "")];
    let ran = phalanx_with(folder.path(), &["scheduler"], "", &environment);
    let expected = "error: no kubeconfig and no service account of a pod: expected --kubeconfig FILE";
    assert!(ran.stderr.starts_with(expected) && ran.stderr.lines().count() == 1, "{ran:?}");
    assert_eq!(ran.code, 2);
}

/// The arguments of the chart's Deployment, with shell syntax that Kubernetes does not interpret.
#[cfg(unix)]
#[test]
fn named_vc_scheduler_the_binary_takes_the_flags_of_volcanos_chart() {
    let folder = folder(&[]);
    let program = folder.path().join("vc-scheduler");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_phalanx"), &program).unwrap();
    let run = |more: &[&str]| {
        let chart = [
            "--logtostderr",
            "--scheduler-conf=/none/volcano-scheduler.conf",
            "--enable-healthz=true",
            "--enable-metrics=true",
            "--leader-elect=false",
            "--kube-api-qps=2000",
            "--kube-api-burst=2000",
            "--schedule-period=1s",
            "--node-worker-threads=20",
            "-v=3",
            "2>&1",
        ];
        let ran = std::process::Command::new(&program).args(chart).args(more).output().unwrap();
        let stderr = String::from_utf8(ran.stderr).unwrap();
        (ran.status.code(), stderr.lines().last().unwrap_or_default().to_owned())
    };
    let no_file = "error: /none/volcano-scheduler.conf: cannot be read: No such file or directory";
    assert_eq!(run(&[]), (Some(2), no_file.to_owned()), "all of it was understood");
    let (code, line) = run(&["--schedule-perod=2s"]);
    assert_eq!(code, Some(2));
    assert!(line.contains("--schedule-perod") && line.contains("--schedule-period"), "{line}");
    let ran = phalanx_with(folder.path(), &["scheduler", "2>&1"], "", &[]);
    assert!(ran.stderr.contains("unexpected argument '2>&1'"), "{ran:?}");
}
