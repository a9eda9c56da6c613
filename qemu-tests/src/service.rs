//! Services as processes: started, waited for, stopped, and never left behind.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::console::Console;
use crate::error::{HarnessError, io_error};
use crate::process::{Process, spawn};
use crate::run::Run;

/// A service answers or fails within this, even while the machine compiles.
const START: Duration = Duration::from_mins(5);
/// A graceful stop takes seconds.
const STOP: Duration = Duration::from_mins(2);

/// A running service. Dropping it kills it.
#[derive(Debug)]
pub struct Service {
    name: String,
    process: Process,
    console: Console,
}

impl Service {
    /// Starts `program` and waits for the line of its output that contains `ready`.
    ///
    /// Standard output and standard error come together in the console and in `NAME.log`.
    pub fn start(run: &Run, name: &str, program: &Path, arguments: &[&str], ready: &str) -> Result<Self, HarnessError> {
        let mut command = Command::new(program);
        command.args(arguments);
        let service = Self::spawn(run, name, command)?;
        service.console.expect(ready, START)?;
        Ok(service)
    }

    /// Starts a prepared command without waiting for anything.
    pub fn spawn(run: &Run, name: &str, command: Command) -> Result<Self, HarnessError> {
        let (output, process) = start(command).map_err(io_error("start", name.as_ref()))?;
        let console = Console::read(name, output, &run.file(&format!("{name}.log")))?;
        Ok(Self { name: name.into(), process, console })
    }

    /// What it printed.
    pub fn console(&self) -> &Console {
        &self.console
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Asks it to stop and waits until it has.
    pub fn stop(self) -> Result<ExitStatus, HarnessError> {
        self.process.terminate();
        self.wait(STOP)
    }

    /// Waits for its end.
    pub fn wait(self, within: Duration) -> Result<ExitStatus, HarnessError> {
        let status = self.process.wait(within);
        status.ok_or_else(|| HarnessError::Deadline {
            name: self.name.clone(),
            event: "end".into(),
            after: within,
            tail: self.console.tail(),
        })
    }
}

fn start(mut command: Command) -> std::io::Result<(std::io::PipeReader, Process)> {
    let (reader, writer) = std::io::pipe()?;
    let both = OwnedFd::from(writer);
    command.stdin(Stdio::null()).stdout(Stdio::from(both.try_clone()?)).stderr(Stdio::from(both));
    let process = spawn(command).and_then(Process::watch)?;
    Ok((reader, process))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(run: &Run, script: &str) -> Result<Service, HarnessError> {
        Service::start(run, "shell", Path::new("/bin/sh"), &["-c", script], "READY")
    }

    #[test]
    fn a_service_is_ready_when_it_says_so_and_stops_when_asked() {
        let run = Run::new("service").unwrap();
        // A child that is only just there, and not yet tail, would take another signal for the shell's and live on.
        let script = "trap 'echo bye; kill -KILL $!; exit 3' TERM; tail -f /dev/null & echo READY >&2; wait";
        let service = shell(&run, script).unwrap();
        let console = service.console().clone();
        assert_eq!(service.stop().unwrap().code(), Some(3));
        console.wait_end(STOP).unwrap();
        assert!(console.contains("bye"));
    }

    #[test]
    fn a_service_that_ends_before_it_is_ready_says_what_it_printed() {
        let run = Run::new("service").unwrap();
        let error = shell(&run, "echo no such file: config; exit 1").unwrap_err().to_string();
        assert!(error.contains("ended before 'READY'") && error.contains("no such file: config"), "{error}");
    }
}
