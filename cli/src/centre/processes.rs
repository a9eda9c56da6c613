//! The processes of a centre: started in order, each ready before the next, all ended with this command.

use std::fs::{File, OpenOptions};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::admin::{self, Said};
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::files;
use crate::stock::tie;

/// How long a process may take until it listens.
const READY: Duration = Duration::from_secs(30);
/// How long a process may take to end when it is told to.
const END: Duration = Duration::from_secs(15);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(10);
/// Bytes of the end of a log that an error shows.
const SHOWN: usize = 2000;

/// Until it is time to look again.
fn look() {
    smol::block_on(smol::Timer::after(LOOK));
}

/// A process that was started.
struct Running {
    name: &'static str,
    log: PathBuf,
    child: Child,
}

/// All processes of a centre. Dropped, it ends them, the last one first.
#[derive(Default)]
pub(super) struct Processes(Vec<Running>);

impl Processes {
    /// Starts a program, and waits until somebody can connect to `address`. What it prints goes to `log`.
    pub(super) fn start(
        &mut self,
        name: &'static str,
        mut command: Command,
        log: &Path,
        address: SocketAddr,
    ) -> Result<(), CommandError> {
        if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
            let what = format!("{name} cannot listen on {address}: something else does");
            return Err(CommandError::local(CommandCode::PortTaken, what));
        }
        let file = open(log)?;
        let copy = file.try_clone().map_err(|error| files::unwritable(log, &error))?;
        command.stdin(Stdio::null()).stdout(copy).stderr(file);
        tie(&mut command);
        let child = command.spawn().map_err(|error| ended(name, &error.to_string()))?;
        self.0.push(Running { name, log: log.to_owned(), child });
        let end = Instant::now() + READY;
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            self.check()?;
            if Instant::now() > end {
                return Err(ended(name, &format!("it did not listen on {address} within {} s", READY.as_secs()))
                    .because(tail(log)));
            }
            look();
        }
        // Whoever answers is the one that was started: it lives, and nobody listened before.
        self.check()
    }

    /// Waits until a service of ours says that it is well, on the page at `admin`.
    pub(super) fn wait_until_well(&mut self, name: &str, admin: SocketAddr) -> Result<(), CommandError> {
        let end = Instant::now() + READY;
        loop {
            let said = admin::ask(admin, "GET /healthz", Duration::from_secs(2));
            let Said { good, body } = said.unwrap_or_else(|error| Said { good: false, body: error.to_string() });
            if good {
                return Ok(());
            }
            self.check()?;
            if Instant::now() > end {
                let what = format!("it was not ready within {} s", READY.as_secs());
                return Err(ended(name, &what).because(body));
            }
            look();
        }
    }

    /// An error that tells of the first process that has ended.
    pub(super) fn check(&mut self) -> Result<(), CommandError> {
        for running in &mut self.0 {
            if let Ok(Some(status)) = running.child.try_wait() {
                let why = format!("{status}; its log is {}", running.log.display());
                return Err(ended(running.name, &why).because(tail(&running.log)));
            }
        }
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for running in self.0.iter_mut().rev() {
            let tell = |signal| {
                if let Some(pid) = i32::try_from(running.child.id()).ok().and_then(Pid::from_raw) {
                    // It may have ended.
                    let _ = kill_process(pid, signal);
                }
            };
            tell(Signal::TERM);
            let end = Instant::now() + END;
            while matches!(running.child.try_wait(), Ok(None)) {
                if Instant::now() > end {
                    let _ = running.child.kill();
                }
                look();
            }
        }
    }
}

fn open(log: &Path) -> Result<File, CommandError> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(log);
    file.map_err(|error| files::unwritable(log, &error))
}

fn ended(name: &str, why: &str) -> CommandError {
    CommandError::local(CommandCode::ProgramEnded, format!("{name}: {why}"))
}

fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(SHOWN)..]).trim().to_owned()
}
