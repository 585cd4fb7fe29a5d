//! Output into a pipe whose reader has closed it, as with `| head -1`.
use std::io::pipe;
use std::process::{Command, Stdio};

use crate::run::repository;

/// A pipe whose reading end is closed.
fn closed() -> Stdio {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    writer.into()
}

fn run(args: &[&str], stderr: Stdio) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(args).current_dir(repository()).stdin(Stdio::null()).stdout(closed()).stderr(stderr);
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_closed_pipe_is_no_error() {
    let scenario = "config/examples/training-gang";
    for args in [
        &["simulate", "-f", scenario][..],
        &["simulate", "-f", scenario, "--output", "json"],
        &["explain", "-f", scenario, "podgroup/nobody"],
        &["conf", "reference"],
        &["conf", "show", "config/default.yaml"],
        &["conf", "check", "config/default.yaml"],
        &["conf", "diff", "config/default.yaml", "config/helm-default.yaml"],
        &["crds"],
        &["completion", "bash"],
        &["--help"],
        &["--version"],
    ] {
        let (code, stderr) = run(args, Stdio::piped());
        assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
        // The pipe of stderr is closed too.
        assert_eq!(run(args, closed()).0, code, "{args:?}");
        let is_fault = stderr.starts_with("error: ");
        assert_eq!(code, if is_fault { 2 } else { 0 }, "{args:?}: {stderr}");
    }
}

#[test]
fn a_closed_pipe_does_not_change_the_exit_code_of_an_error() {
    for args in [
        &["simulate", "-f", "nowhere.yaml"][..],
        &["conf", "check", "nowhere.yaml"],
        &["simulate", "--seed", "x"],
    ] {
        assert_eq!(run(args, closed()).0, 2, "{args:?}");
    }
}
