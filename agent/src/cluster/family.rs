//! A program and everything it starts, ended together.

use std::fs::File;
use std::io::Read as _;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

/// The environment variable by which the descendants of one call are known, even those that left its process group.
const MARK: &str = "LATCHKEY_STEP";
/// How often `/proc` is looked through before processes that breed faster are left to the unit's control group.
const PASSES: usize = 32;
/// How much of an environment is looked at.
const MAX_ENVIRONMENT: u64 = 1024 * 1024;

/// Unique for each call of this boot.
pub(super) struct Mark(String);

impl Mark {
    pub(super) fn new() -> Self {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        Self(format!("{}.{}", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed)))
    }

    /// Name and value for the program's environment.
    pub(super) fn variable(&self) -> (&str, &str) {
        (MARK, &self.0)
    }
}

/// Ends the processes of one call when dropped.
///
/// Out of its reach is only what has left the process group *and* cleared its environment; the service manager ends that
/// with the unit's control group.
pub(super) struct Family {
    leader: Pid,
    mark: Mark,
}

impl Family {
    /// `leader` leads its own process group, and nobody may reap it before this value is gone: the kernel would give its
    /// number to somebody else.
    pub(super) fn new(leader: Pid, mark: Mark) -> Self {
        Self { leader, mark }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        // ESRCH: nobody is left, which is the aim.
        let _ = kill_process_group(self.leader, Signal::KILL);
        let entry = format!("{MARK}={}", self.mark.0);
        for _ in 0..PASSES {
            if !end_marked(entry.as_bytes()) {
                return;
            }
        }
    }
}

/// One pass over all processes. True if it ended one, which may have started another meanwhile.
fn end_marked(entry: &[u8]) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    let mut ended = false;
    for process in processes.flatten() {
        let pid = process.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        ended |= pid.is_some_and(|pid| end_if_marked(pid, entry));
    }
    ended
}

fn end_if_marked(pid: Pid, entry: &[u8]) -> bool {
    // Opened before the look at the environment: if the number changes hands in between, the signal goes nowhere.
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    let mut environment = Vec::new();
    let read = File::open(format!("/proc/{}/environ", pid.as_raw_nonzero()))
        .and_then(|file| file.take(MAX_ENVIRONMENT).read_to_end(&mut environment));
    read.is_ok()
        && environment.split(|byte| *byte == 0).any(|variable| variable == entry)
        && pidfd_send_signal(handle, Signal::KILL) != Err(Errno::SRCH)
}
