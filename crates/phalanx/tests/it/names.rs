//! The program under other names: as a plugin of kubectl, as vcctl; and completions.
#![cfg(unix)]
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use crate::api_server::{ApiServer, refusal};
use crate::run::{folder, phalanx};

/// The program linked under a name.
fn linked(name: &str) -> (TempDir, PathBuf) {
    let folder = folder(&[]);
    let program = folder.path().join(name);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_phalanx"), &program).unwrap();
    (folder, program)
}

/// What it prints to standard output.
fn printed(name: &str, args: &[&str]) -> String {
    let (_folder, program) = linked(name);
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn as_a_plugin_of_kubectl_the_program_is_itself() {
    let (_folder, program) = linked("kubectl-phalanx");
    let server = ApiServer::always(&json!({"items": []}));
    let ran = server.run(program.to_str().unwrap(), &["job", "list"]);
    assert_eq!(ran.text(), "No resources found\n");
    let help = printed("kubectl-phalanx", &["job", "list", "--help"]);
    assert!(help.contains("Usage: kubectl phalanx job list [OPTIONS]"), "{help}");
    let ran = server.run(program.to_str().unwrap(), &["job", "lst"]);
    assert!(ran.stderr.contains("(did you mean list?)") && ran.code == 2, "{ran:?}");
}

#[test]
fn as_vcctl_errors_have_its_form_place_and_exit_code() {
    let (_folder, program) = linked("vcctl");
    let server = ApiServer::start(|_| refusal(404, "jobs.batch.volcano.sh \"a\" not found"));
    let vcctl = |args: &[&str]| server.run(program.to_str().unwrap(), args);
    let ran = vcctl(&["job", "view", "-N", "a"]);
    let expected = "Failed to job view: jobs.batch.volcano.sh \"a\" not found\n";
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (255, expected, ""));
    let ran = vcctl(&["queue", "operate", "-n", "q"]);
    assert_eq!((ran.code, &*ran.stdout), (255, "Failed to queue operate: action can not be null\n"));
}

/// vcctl takes `default`, whatever the context says; scripts rely on it.
#[test]
fn the_namespace_of_the_context_counts_but_for_vcctl() {
    let kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
        clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n\
        contexts: [{name: x, context: {cluster: c, namespace: team}}]\n";
    let files = folder(&[("kubeconfig", kubeconfig)]);
    let file = files.path().join("kubeconfig");
    for (name, namespace) in [("kubectl-phalanx", "team"), ("phalanx", "team"), ("vcctl", "default")] {
        let (_folder, program) = linked(name);
        let server = ApiServer::always(&json!({"items": []}));
        server.run(program.to_str().unwrap(), &["job", "list", "-k", file.to_str().unwrap()]).text();
        let path = format!("GET /apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs");
        assert_eq!(server.lines(), [path], "{name}");
    }
}

/// Help of vcctl as its own tests expect it.
#[test]
fn as_vcctl_help_is_vcctls() {
    let global = "
Global Flags:
      --log-flush-frequency duration   Maximum number of seconds between log flushes (default 5s)
  -v, --v Level                        number for the log level verbosity
      --vmodule moduleSpec             comma-separated list of pattern=N settings for file-filtered logging (only works for the default text log format)
";
    let list = "list job information

Usage:
  vcctl job list [flags]

Flags:
      --all-namespaces      list jobs in all namespaces
  -h, --help                help for list
  -k, --kubeconfig string   (optional) absolute path to the kubeconfig file
  -s, --master string       the address of apiserver
  -n, --namespace string    the namespace of job (default \"default\")
  -q, --queue string        list job with specified queue name
  -S, --scheduler string    list job with specified scheduler name
      --selector string     fuzzy matching jobName
";
    assert_eq!(printed("vcctl", &["job", "list", "--help"]), format!("{list}{global}"));
    let group = "vcctl command line operation job

Usage:
  vcctl job [command]

Available Commands:
  delete      delete a job
  list        list job information
  resume      resume a job
  run         run job by parameters from the command line
  suspend     abort a job
  view        show job information

Flags:
  -h, --help   help for job
";
    let more = "\nUse \"vcctl job [command] --help\" for more information about a command.\n";
    for args in [&["job", "--help"][..], &["job", "-h"], &["job"], &["help", "job"]] {
        assert_eq!(printed("vcctl", args), format!("{group}{global}{more}"), "{args:?}");
    }
    let first = "Usage:
  vcctl [command]

Available Commands:
  help        Help about any command
  job         vcctl command line operation job
  jobflow     vcctl command line operation jobflow
  jobtemplate vcctl command line operation jobtemplate
  pod         vcctl command line operation pod
  queue       Queue Operations
  version     Print the version information

Flags:
  -h, --help                           help for vcctl
";
    let more = "\nUse \"vcctl [command] --help\" for more information about a command.\n";
    for args in [&["--help"][..], &["help"], &[]] {
        let help = printed("vcctl", args);
        assert!(help.starts_with(first) && help.ends_with(more) && !help.contains("Global"), "{help}");
    }
    for command in ["suspend", "resume", "run", "view", "delete"] {
        let help = printed("vcctl", &["job", command, "-n", "job1", "--help"]);
        assert!(help.contains(&format!("  vcctl job {command} [flags]\n")), "{help}");
    }
}

#[test]
fn vcctls_flags_of_logs_are_accepted() {
    let server = ApiServer::always(&json!({"items": []}));
    let flags = ["job", "list", "-v", "3", "--vmodule=a=1", "--log-flush-frequency", "5s"];
    assert_eq!(server.phalanx(&flags).text(), "No resources found\n");
}

#[test]
fn completions_know_commands_and_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let script = phalanx(&["completion", shell]);
        for word in ["suspend", "all-namespaces", "operate"] {
            assert!(script.text().contains(word), "{shell}: {word}");
        }
    }
    let script = printed("vcctl", &["completion", "bash"]);
    assert!(script.contains("complete -F _vcctl"), "it completes the name under which it was asked for");
}
