//! Runs the real binary.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// How a run ended, and what it printed.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Standard output as the one JSON document that it must be.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn succeeded(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self
    }

    pub fn failed(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        self
    }
}

/// Runs to the end.
pub fn latchkey(directory: &Path, arguments: &[&str]) -> Ran {
    finish(start(directory, arguments))
}

/// Runs to the end, with text on standard input.
pub fn latchkey_fed(directory: &Path, arguments: &[&str], input: &[u8]) -> Ran {
    let mut command = command(directory, arguments);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    // Whether it reads it is its own affair, and shows in how it ends.
    drop(child.stdin.take().unwrap().write_all(input));
    finish(child)
}

/// Runs to the end, with its standard output going somewhere else: what it prints there is not kept.
pub fn latchkey_to(directory: &Path, arguments: &[&str], stdout: impl Into<Stdio>) -> Ran {
    finish(command(directory, arguments).stdin(Stdio::null()).stdout(stdout).spawn().unwrap())
}

/// Runs to a good end; what it wrote to standard output, which is no text.
pub fn latchkey_bytes(directory: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = latchkey_test_support::finish("latchkey", start(directory, arguments));
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// Starts a run; its output is kept for [`finish`].
pub fn start(directory: &Path, arguments: &[&str]) -> Child {
    command(directory, arguments).stdin(Stdio::null()).spawn().unwrap()
}

/// The same, with a clock that begins at this time.
pub fn start_at(time: Option<&str>, directory: &Path, arguments: &[&str]) -> Child {
    let mut command = command(directory, arguments);
    if let Some(time) = time {
        latchkey_test_support::wrong_clock(&mut command, time);
    }
    command.stdin(Stdio::null()).spawn().unwrap()
}

pub fn finish(child: Child) -> Ran {
    let output = latchkey_test_support::finish("latchkey", child);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latchkey"));
    command.args(arguments).current_dir(directory).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}
