//! Processes that the kernel kills when their parent ends.
#![expect(unsafe_code, reason = "what runs between fork and exec is the caller's responsibility")]

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// From its start on, the process that `command` becomes is killed when the *thread* that starts it ends, or the whole
/// of this process, however that happens.
pub fn tie(command: &mut Command) {
    let parent = rustix::process::getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent ended before that line, nobody would tell.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    };
    // SAFETY: after a fork only functions that are safe in a signal handler may be called: these are two system calls.
    // Neither the closure nor the error, which is a plain code, allocates or takes a lock.
    unsafe { command.pre_exec(ask) };
}
