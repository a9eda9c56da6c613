//! Programs that are started and must end.

use crate::{PATIENCE, in_time, overdue};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use smol::Async;
use smol::Timer;
use smol::future::FutureExt;
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// As [`Command::output`], with nothing on standard input.
///
/// # Errors
/// If it cannot be started.
///
/// # Panics
/// If it does not end within [`PATIENCE`]: it is killed and named.
pub fn output(command: &mut Command) -> io::Result<Output> {
    output_within(PATIENCE, command)
}

/// As [`output`], for a program that may take longer, such as one that loads from the network.
///
/// # Errors
/// As [`output`].
///
/// # Panics
/// As [`output`].
pub fn output_within(patience: Duration, command: &mut Command) -> io::Result<Output> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    Ok(finish_within(patience, &format!("{command:?}"), child))
}

/// As [`Command::status`], with nothing on standard input.
///
/// # Errors
/// As [`output`].
///
/// # Panics
/// As [`output`].
pub fn status_within(patience: Duration, command: &mut Command) -> io::Result<ExitStatus> {
    let mut child = command.stdin(Stdio::null()).spawn()?;
    Ok(wait_within(patience, &format!("{command:?}"), &mut child))
}

/// As [`Child::wait_with_output`].
///
/// # Panics
/// If it, or what it left behind with its output in hand, does not end within [`PATIENCE`]: it is killed and named.
pub fn finish(what: &str, child: Child) -> Output {
    finish_within(PATIENCE, what, child)
}

/// As [`Child::wait`].
///
/// # Panics
/// If it does not end within [`PATIENCE`]: it is killed and named.
pub fn wait(what: &str, child: &mut Child) -> ExitStatus {
    wait_within(PATIENCE, what, child)
}

/// As [`finish`], for a program that may take longer.
///
/// # Panics
/// As [`finish`].
pub fn finish_within(patience: Duration, what: &str, mut child: Child) -> Output {
    drop(child.stdin.take());
    // All the while, so that its pipes are never full.
    let (out, err) = (read(child.stdout.take()), read(child.stderr.take()));
    let ended = ends_within(patience, &mut child);
    let texts = in_time(format_args!("the end of the output of {what}"), move || (out.join(), err.join()));
    let (stdout, stderr) = (texts.0.unwrap_or_default(), texts.1.unwrap_or_default());
    if !ended {
        let said = String::from_utf8_lossy(&[&stdout[..], &stderr].concat()).into_owned();
        overdue(&format_args!("the end of {what}, which said: {said}"), patience);
    }
    Output { status: child.wait().expect("it has ended"), stdout, stderr }
}

/// What broke off is told by the exit status.
fn read(stream: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        drop(stream.map(|mut stream| stream.read_to_end(&mut bytes)));
        bytes
    })
}

fn wait_within(patience: Duration, what: &str, child: &mut Child) -> ExitStatus {
    if !ends_within(patience, child) {
        overdue(&format_args!("the end of {what}"), patience);
    }
    child.wait().expect("it has ended")
}

/// Whether it ends by itself; else it is killed.
fn ends_within(patience: Duration, child: &mut Child) -> bool {
    // Nobody but its parent reaps it, so the number is still its own, even after its end.
    let handle = pidfd_open(Pid::from_child(child), PidfdFlags::NONBLOCK).expect("a handle on a child");
    let handle = Async::new(handle).expect("a handle that can be waited for");
    let ended = async { handle.readable().await.is_ok() };
    let late = async {
        Timer::after(patience).await;
        false
    };
    let ended = smol::block_on(ended.or(late));
    if !ended {
        child.kill().expect("it is ours");
    }
    ended
}
