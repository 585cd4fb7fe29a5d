//! The benchmarks, run as their users run them.
use std::io::pipe;
use std::process::{Command, Stdio};

#[test]
fn a_closed_pipe_is_no_error() {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx-bench"));
    command
        .args(["core", "--nodes", "2", "--gangs", "2", "--size", "2"])
        .stdout(writer)
        .stderr(Stdio::piped());
    let output = command.output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), String::new()));
}

#[test]
fn an_invalid_command_line_is_an_error_of_one_line() {
    for (args, expected) in [
        (
            &[][..],
            "error: found no command after \"phalanx-bench\", expected one of affinity, faults, backlog, core, ",
        ),
        (&["cor"], "error: unrecognized subcommand 'cor', expected one of affinity, "),
        (&["core", "--nodes"], "error: a value is required for '--nodes <NODES>' but none was supplied"),
        (
            &["core", "--nodes", "x"],
            "error: invalid value 'x' for '--nodes <NODES>': expected a whole number from 1 on",
        ),
        (
            &["events", "--nodes", "0"],
            "error: invalid value '0' for '--nodes <NODES>': expected a whole number from 1 on",
        ),
        (
            &["idle", "--max-ms", "x"],
            "error: invalid value 'x' for '--max-ms <MAX_MS>': expected a number above 0",
        ),
        (
            &["idle", "--waiting", "-1"],
            "error: invalid value '-1' for '--waiting <WAITING>': expected a whole number from 0 on",
        ),
        (
            &["core", "--node", "1"],
            "error: unexpected argument '--node' found, expected what \"phalanx-bench core --help\" lists",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_phalanx-bench")).args(args).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{args:?}: {told}");
        assert!(told.starts_with(expected), "{told}");
    }
}
