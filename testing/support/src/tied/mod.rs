//! Processes that never outlive the tests.

mod tie;

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{WaitId, WaitIdOptions, waitid};

pub use tie::tie;

/// What was killed is gone by then, even if it first has to let go of a gigabyte.
const GONE: Duration = Duration::from_mins(2);

type Request = (Command, Sender<io::Result<Child>>);

/// Starts `command` so that the kernel kills it when the tests end, however they end.
///
/// The kernel ties this to the *thread* that started the process, so one thread that lives as long
/// as the tests starts them all.
///
/// # Errors
/// It cannot be started.
pub fn spawn(mut command: Command) -> io::Result<Child> {
    static STARTER: OnceLock<Sender<Request>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (sender, requests): (_, Receiver<Request>) = channel();
        std::thread::spawn(move || {
            for (mut command, reply) in requests {
                // A caller that went away drops the child's handle; the process ends with the tests.
                let _ = reply.send(command.spawn());
            }
        });
        sender
    });
    tie::tie(&mut command);
    let (reply, answer) = channel();
    starter.send((command, reply)).map_err(io::Error::other)?;
    answer.recv().map_err(io::Error::other)?
}

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    id: rustix::process::Pid,
    end: std::sync::Arc<End>,
}

/// How the process ended, filled in by the thread that waits for it.
#[derive(Debug, Default)]
struct End {
    status: Mutex<Option<io::Result<ExitStatus>>>,
    known: Condvar,
}

impl Process {
    /// Takes charge of `child`; a thread of its own waits for it, so that it never stays a zombie.
    ///
    /// # Errors
    /// It has no process id.
    pub fn watch(mut child: Child) -> io::Result<Self> {
        let id = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let id = id.ok_or_else(|| io::Error::other("no process id"))?;
        let end = std::sync::Arc::new(End::default());
        let shared = end.clone();
        std::thread::spawn(move || {
            // First wait without collecting: as long as the lock is not held, the id must stay this process's.
            let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(id), ended), Err(rustix::io::Errno::INTR)) {}
            *shared.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(child.wait());
            shared.known.notify_all();
        });
        Ok(Self { id, end })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.id.as_raw_nonzero().get().unsigned_abs()
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Ends it at once (SIGKILL), as a power failure would.
    pub fn kill(&self) {
        self.signal(rustix::process::Signal::KILL);
    }

    /// Has it stand still (SIGSTOP), with all its connections open.
    pub fn freeze(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// Has it go on (SIGCONT).
    pub fn thaw(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    /// Waits until it is collected after it was killed; false if the kernel does not get there.
    pub fn gone(&self) -> bool {
        self.wait(GONE).is_some()
    }

    /// Whether it has not ended yet.
    pub fn is_running(&self) -> bool {
        self.end.status.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Waits for its end; `None` if it still runs at the deadline.
    pub fn wait(&self, within: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + within;
        let mut status = self.end.status.lock().unwrap_or_else(PoisonError::into_inner);
        while status.is_none() {
            let left = deadline.checked_duration_since(Instant::now())?;
            status = self.end.known.wait_timeout(status, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        status.as_ref()?.as_ref().ok().copied()
    }

    fn signal(&self, signal: rustix::process::Signal) {
        // Held while signalling: as long as no status is known, the id is not collected and not reused.
        let status = self.end.status.lock().unwrap_or_else(PoisonError::into_inner);
        if status.is_none() {
            // It may end at this very moment, which is what the signal asks for.
            let _ = rustix::process::kill_process(self.id, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if !self.gone() {
            eprintln!("process {} does not end, although it was killed {GONE:?} ago", self.id());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn running(program: &str, arguments: &[&str]) -> Process {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        Process::watch(spawn(command).unwrap()).unwrap()
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let process = running("tail", &["-f", "/dev/null"]);
        let entry = std::path::PathBuf::from(format!("/proc/{}", process.id()));
        assert!(process.is_running() && entry.exists());
        drop(process);
        assert!(!entry.exists());
    }

    #[test]
    fn the_exit_status_arrives_and_a_deadline_passes() {
        let quick = running("sh", &["-c", "exit 7"]);
        assert_eq!(quick.wait(GONE).unwrap().code(), Some(7));
        let forever = running("tail", &["-f", "/dev/null"]);
        assert!(forever.wait(Duration::from_millis(20)).is_none());
    }
}
