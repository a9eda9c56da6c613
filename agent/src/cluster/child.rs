//! Runs one program of the image: input on stdin, progress and result on its output, all of it bounded, and nothing of it
//! left when it ends.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use latchkey_keys::SecretVec;
use rustix::fs::Mode;
use rustix::process::{Pid, PidfdFlags, pidfd_open, umask};
use smol::Async;
use smol::future::{FutureExt as _, try_zip};
use smol::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use smol::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use zeroize::Zeroizing;

use super::family::{Family, Mark};
use super::lines::Lines;
use super::{Progress, StepCode, StepError};

/// The largest result a program may print.
const MAX_RESULT: usize = 1024 * 1024;
/// How long a program's output may stay open once it has ended: only a process that hid itself can hold it.
const DRAIN: Duration = Duration::from_secs(5);

/// Where programs find others. The first is there only in images without components, once these are verified: kubeadm looks for the
/// kubelet.
const PATH: &str = "/run/latchkey-components:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// One call of a program.
pub(super) struct Call<'a> {
    /// Absolute path.
    pub(super) program: &'a str,
    /// Everybody on the machine can read them: no secrets.
    pub(super) arguments: &'a [&'a str],
    /// Reaches the program and nobody else.
    pub(super) stdin: &'a [u8],
    pub(super) stdout: Stdout,
    /// When the program is ended.
    pub(super) limit: Duration,
    /// What must not appear in progress and errors.
    pub(super) hidden: &'a [&'a str],
}

/// What a program's standard output is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stdout {
    /// Its result, at most 1 MiB.
    Result,
    /// Lines of progress, like its standard error.
    Progress,
}

/// Runs a program to its end; on return, or when the future is dropped, everything it started has ended.
///
/// The environment is `PATH`, `HOME` and the mark of the call, the directory is `/`, the umask 022, the process group its own.
pub(super) async fn run(call: Call<'_>, progress: Progress<'_>) -> Result<SecretVec, StepError> {
    let lines = Lines::new(progress, call.hidden);
    let timeout = async {
        smol::Timer::after(call.limit).await;
        let (program, seconds) = (call.program, call.limit.as_secs());
        Err(StepError::new(StepCode::Timeout, format!("{program} did not end within {seconds} s: {}", lines.cause())))
    };
    let ended = async { Running::start(&call)?.finish(&call, &lines).await };
    match ended.or(timeout).await {
        Ok((status, result)) if status.success() => Ok(result),
        Ok((status, _)) => {
            let (program, argument) = (call.program, call.arguments.first().unwrap_or(&""));
            let message = format!("{program} {argument} ended with {status}: {}", lines.cause());
            Err(StepError { log_tail: lines.tail(), ..StepError::new(StepCode::Failed, message) })
        }
        Err(error) => Err(StepError { log_tail: lines.tail(), ..error }),
    }
}

/// A program and the ends of its pipes.
struct Running {
    // Before the child: the family must be ended while the child's process number is still its own.
    family: Family,
    exit: Async<OwnedFd>,
    child: Child,
    pipes: (ChildStdin, ChildStdout, ChildStderr),
}

impl Running {
    fn start(call: &Call<'_>) -> Result<Self, StepError> {
        // Whatever this process inherited: no file of a step is writable for others.
        umask(Mode::WGRP | Mode::WOTH);
        let not_started = |e: std::io::Error| {
            StepError::new(StepCode::NotStarted, format!("{} cannot be started: {e}", call.program))
        };
        let mark = Mark::new();
        let (name, value) = mark.variable();
        let mut command = std::process::Command::new(call.program);
        command.args(call.arguments).current_dir("/").process_group(0).env_clear().env(name, value);
        command.env("PATH", PATH).env("HOME", "/root");
        let mut command = Command::from(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(not_started)?;

        let no_pid = || not_started(std::io::ErrorKind::NotFound.into());
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(no_pid)?;
        let family = Family::new(pid, mark);
        let exit =
            pidfd_open(pid, PidfdFlags::empty()).map_err(Into::into).and_then(Async::new).map_err(not_started)?;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(no_pid());
        };
        Ok(Self { family, exit, child, pipes: (input, output, errors) })
    }

    /// Feeds and reads the program until it ends, then ends what it left behind.
    async fn finish(self, call: &Call<'_>, lines: &Lines<'_>) -> Result<(ExitStatus, SecretVec), StepError> {
        let Self { family, exit, mut child, pipes: (mut input, output, errors) } = self;
        // Declared after the child, so dropped before it.
        let family = family;
        let broken = |e: std::io::Error| StepError::new(StepCode::Output, format!("{}: {e}", call.program));
        let feed = async move {
            // A program that does not read its input may close it; its exit status tells whether it minded.
            let _ = input.write_all(call.stdin).await;
            Ok(())
        };
        let read = async {
            match call.stdout {
                Stdout::Result => read_result(output).await,
                Stdout::Progress => lines.follow(output).await.map(|()| SecretVec::from_slice(&[])),
            }
        };
        let mut pump = pin!(try_zip(try_zip(feed, lines.follow(errors)), read));

        // Its exit ends the program, not the end of its output: it may close that early, or leave it to others.
        let first = async { Some(pump.as_mut().await) };
        let gone = async {
            // An error here is an error of `status` below.
            let _ = exit.readable().await;
            None
        };
        let pumped = first.or(gone).await;
        let ((), result) = if let Some(pumped) = pumped {
            let (((), ()), result) = pumped.map_err(broken)?;
            let _ = exit.readable().await;
            drop(family);
            ((), result)
        } else {
            drop(family);
            let late = async {
                smol::Timer::after(DRAIN).await;
                Err(std::io::Error::other("a process in the background keeps its output open"))
            };
            let (((), ()), result) = pump.or(late).await.map_err(broken)?;
            ((), result)
        };
        Ok((child.status().await.map_err(broken)?, result))
    }
}

async fn read_result(mut output: impl AsyncRead + Unpin) -> std::io::Result<SecretVec> {
    // As large as it may become: growing would leave copies behind. Pages that are not written cost nothing.
    let mut result = Zeroizing::new(Vec::with_capacity(MAX_RESULT));
    let mut buffer = Zeroizing::new([0; 4096]);
    loop {
        let read = output.read(&mut buffer[..]).await?;
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
            return Ok(SecretVec::from_slice(&result));
        };
        if bytes.len() > MAX_RESULT - result.len() {
            return Err(std::io::Error::other(format!("its result is longer than {MAX_RESULT} bytes")));
        }
        result.extend_from_slice(bytes);
    }
}

#[cfg(test)]
#[path = "child_tests.rs"]
mod tests;
