//! The benchmarks, run as their users run them.
use std::io::pipe;
use std::process::{Command, Stdio};

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
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
