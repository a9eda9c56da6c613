//! Tools that are run to their end, or to their deadline.

use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Process;
use crate::error::HarnessError;
use latchkey_test_support::tie;

/// For tools that take seconds; they share the machine with others and with machines that boot.
pub const TOOL: Duration = Duration::from_mins(10);
/// What a tool left behind may still hold its output open, and is not waited for any longer.
const LEFTOVERS: Duration = Duration::from_secs(10);
/// How much of its last words an error shows.
const TAIL: usize = 8 * 1024;

/// What a tool did.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error; empty where it was not ours.
    pub err: Vec<u8>,
}

/// Runs a tool to its end and gives its standard output; its failure carries what it printed.
pub fn output(command: &mut Command) -> Result<String, HarnessError> {
    output_within(command, TOOL)
}

/// The same for one that takes longer.
pub fn output_within(command: &mut Command, within: Duration) -> Result<String, HarnessError> {
    let finished = run(command, within)?;
    if finished.status.success() {
        return Ok(String::from_utf8_lossy(&finished.out).into_owned());
    }
    let output = String::from_utf8_lossy(&[finished.out, finished.err].concat()).into_owned();
    Err(HarnessError::Command { command: shown(command), output })
}

/// Runs a tool to its end, whatever that is. At the deadline it is killed, and the error carries what it printed.
pub fn run(command: &mut Command, within: Duration) -> Result<Finished, HarnessError> {
    run_to(command.stderr(Stdio::piped()), within)
}

/// The same with its standard error where ours goes.
pub fn run_shown(command: &mut Command, within: Duration) -> Result<Finished, HarnessError> {
    run_to(command.stderr(Stdio::inherit()), within)
}

fn run_to(command: &mut Command, within: Duration) -> Result<Finished, HarnessError> {
    let name = shown(command);
    let failed = |source| HarnessError::Io { what: format!("run {name}"), source };
    tie(command);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let (out, err) = (child.stdout.take().map(Collected::of), child.stderr.take().map(Collected::of));
    let process = Process::watch(child).map_err(failed)?;
    let collected = |from: &Option<Collected>| from.as_ref().map(Collected::all).unwrap_or_default();
    let Some(status) = process.wait(within) else {
        drop(process);
        let said = [collected(&out), collected(&err)].concat();
        let tail =
            String::from_utf8_lossy(said.get(said.len().saturating_sub(TAIL)..).unwrap_or_default()).into_owned();
        return Err(HarnessError::Deadline { name, event: "end".into(), after: within, tail });
    };
    Ok(Finished { status, out: collected(&out), err: collected(&err) })
}

fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy()];
    words.extend(command.get_args().map(std::ffi::OsStr::to_string_lossy));
    words.join(" ")
}

/// What comes out of a pipe, read on a thread of its own.
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Hangs up at the end.
    end: Receiver<()>,
}

impl Collected {
    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let (bytes, (open, end)) = (Arc::<Mutex<Vec<u8>>>::default(), channel());
        let shared = bytes.clone();
        std::thread::spawn(move || {
            let mut piece = [0; 8192];
            while let Ok(length @ 1..) = pipe.read(&mut piece) {
                let read = piece.get(..length).unwrap_or_default();
                shared.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(read);
            }
            drop(open);
        });
        Self { bytes, end }
    }

    /// Everything; if the end does not come, what there was until then.
    fn all(&self) -> Vec<u8> {
        let _ = self.end.recv_timeout(LEFTOVERS);
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_failed_tool_says_what_it_printed() {
        let error = output(&mut shell("echo out; echo err >&2; exit 1")).unwrap_err().to_string();
        assert!(error.contains("out\nerr\n"), "{error}");
    }

    #[test]
    fn a_tool_that_hangs_is_killed_at_its_deadline_and_named_with_its_last_words() {
        let error = output_within(&mut shell("echo working on it; exec tail -f /dev/null"), Duration::from_secs(10));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("tail -f /dev/null: no end after 10s") && error.contains("working on it"), "{error}");
    }

    #[test]
    fn what_a_tool_prints_does_not_stop_it() {
        let finished = run(&mut shell("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; exit 3"), TOOL).unwrap();
        assert_eq!((finished.status.code(), finished.out.len(), finished.err.len()), (Some(3), 300_000, 300_000));
    }
}
