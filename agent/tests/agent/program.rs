//! The agent's binary at a shell: what it prints when it is not process 1.
#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

use std::fs::OpenOptions;
use std::process::{Command, Stdio};

/// Exit code and standard error.
fn ended(argument: &str, stdout: impl Into<Stdio>) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latchkey-agent"));
    let child = command.arg(argument).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
    let output = latchkey_test_support::finish("latchkey-agent", child);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn what_cannot_be_printed_is_a_failure_and_a_reader_that_went_away_is_not_told_so() {
    for argument in ["--help", "--version"] {
        let (code, said) = ended(argument, OpenOptions::new().write(true).open("/dev/full").unwrap());
        assert_eq!(code, Some(1), "{argument}: {said}");
        assert!(said.contains("cannot write to standard output: No space left"), "{argument}: {said}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(ended(argument, writer), (Some(128 + 13), String::new()), "{argument}");
    }
}
