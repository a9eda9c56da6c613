//! Programs that run for long, and the word to stop: they end with this one, whoever asks for it.
//!
//! Each gets a process group of its own, so that what it starts ends with it; Ctrl-C then reaches only this program, which
//! passes it on, waits, tidies up and says that it was stopped.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use async_signal::{Signal, Signals};
use rustix::process::{Pid, kill_process_group};
use smol::stream::StreamExt;

/// What was asked to stop has so long to tidy up.
const GRACE: Duration = Duration::from_secs(20);

/// The process group of the program that runs, or 0.
static GROUP: AtomicI32 = AtomicI32::new(0);
static STOPPED: AtomicBool = AtomicBool::new(false);

/// From now on, signals to stop end the program that runs, and [`check`] says so.
pub(crate) fn listen() -> Result<(), String> {
    let signals = Signals::new([Signal::Int, Signal::Term, Signal::Hup]);
    let mut signals = signals.map_err(|error| format!("signals cannot be waited for: {error}"))?;
    thread::spawn(move || {
        smol::block_on(async {
            while signals.next().await.is_some() {
                STOPPED.store(true, Ordering::SeqCst);
                end_group();
            }
        });
    });
    Ok(())
}

/// An error after a signal to stop.
pub(crate) fn check() -> Result<(), String> {
    if STOPPED.load(Ordering::SeqCst) { Err("stopped".to_owned()) } else { Ok(()) }
}

/// Runs a program to its end, `within` at most, and hands over each line of its standard output.
pub(crate) fn run(command: &mut Command, within: Duration, mut line: impl FnMut(&str)) -> Result<ExitStatus, String> {
    check()?;
    let name = command.get_program().display().to_string();
    let said = |error: std::io::Error| format!("{name}: {error}");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0).spawn().map_err(said)?;
    GROUP.store(i32::try_from(child.id()).unwrap_or(0), Ordering::SeqCst);
    // The signal may have come in between.
    if check().is_err() {
        end_group();
    }
    let (ended, end) = channel::<()>();
    let watch = thread::spawn(move || {
        let late = end.recv_timeout(within) == Err(RecvTimeoutError::Timeout);
        if late {
            end_group();
            // Some take a word to stop for none.
            if end.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
                signal_group(rustix::process::Signal::KILL);
            }
        }
        late
    });
    let lines = child.stdout.take().into_iter().flat_map(|output| BufReader::new(output).lines());
    lines.map_while(Result::ok).for_each(|text: String| line(&text));
    let status = child.wait().map_err(said);
    GROUP.store(0, Ordering::SeqCst);
    drop(ended);
    let late = watch.join().unwrap_or(false);
    check()?;
    if late {
        return Err(format!("{name} was not done after {} minutes, and was ended", within.as_secs() / 60));
    }
    status
}

fn end_group() {
    signal_group(rustix::process::Signal::TERM);
}

fn signal_group(signal: rustix::process::Signal) {
    if let Some(group) = Pid::from_raw(GROUP.load(Ordering::SeqCst)) {
        // It may have ended by itself.
        let _ = kill_process_group(group, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_and_what_it_started_end_at_the_deadline_and_what_they_said_is_kept() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; sleep 600 & wait"]);
        let mut said = Vec::new();
        let error = run(&mut command, Duration::from_secs(10), |line| said.push(line.to_owned())).unwrap_err();
        assert!(error.contains("was ended") && said == ["begun"], "{error} {said:?}");
        let fine = run(Command::new("sh").args(["-c", "exit 3"]), Duration::from_mins(5), |_| ()).unwrap();
        assert_eq!(fine.code(), Some(3));
    }
}
