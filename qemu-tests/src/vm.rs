//! Machines with power: their consoles, crashes and restarts.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{ChildStdin, Stdio};
use std::time::Duration;

use crate::console::{Console, Line};
use crate::error::{HarnessError, io_error};
use crate::hardware::Boot;
use crate::machine::Machine;
use crate::monitor::Monitor;
use crate::process::{Process, spawn};
use crate::swtpm::{Swtpm, TpmState};

/// Reading the last lines of a machine that is off.
const READ_UP: Duration = Duration::from_mins(1);

/// What ends with the power.
#[derive(Debug)]
struct Power {
    process: Process,
    console: Console,
    keyboard: ChildStdin,
    tpm: Option<Swtpm>,
    errors: PathBuf,
}

impl Power {
    fn on(machine: &mut Machine) -> Result<Self, HarnessError> {
        machine.boots += 1;
        let tpm = machine.tpm.as_ref().map(TpmState::power_on).transpose()?;
        let mut command = machine.command(tpm.as_ref())?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let errors = machine.run.file(&format!("{}-{}-qemu.log", machine.name, machine.boots));
        command.stderr(std::fs::File::create(&errors).map_err(io_error("make", &errors))?);
        let mut child = spawn(command).map_err(io_error("start", "qemu-system-x86_64".as_ref()))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let process = Process::watch(child).map_err(io_error("watch", "qemu-system-x86_64".as_ref()))?;
        let (keyboard, output) = pipes.ok_or_else(|| HarnessError::Unusable("QEMU has no console".into()))?;
        let log = machine.run.file(&format!("{}-{}-console.log", machine.name, machine.boots));
        let console = Console::read(&machine.name, output, &log)?;
        Ok(Self { process, console, keyboard, tpm, errors })
    }

    fn off(&self) -> Result<(), HarnessError> {
        self.process.kill();
        self.gone()
    }

    /// Waits for QEMU, then for the TPM: both must have let go of what they write to before it can be used again.
    fn gone(&self) -> Result<(), HarnessError> {
        let stays = |who: &str| Err(HarnessError::Unusable(format!("{who} does not end, although it was killed")));
        if !self.process.gone() {
            return stays("QEMU");
        }
        match &self.tpm {
            Some(tpm) if !tpm.gone() => stays("swtpm"),
            _ => Ok(()),
        }
    }
}

impl Drop for Power {
    fn drop(&mut self) {
        if let Err(error) = self.off() {
            eprintln!("{error}");
        }
    }
}

/// A machine that was turned on. Dropping it turns it off.
#[derive(Debug)]
pub struct Vm {
    // Before the machine, whose ports and directory it uses.
    power: Power,
    machine: Machine,
}

impl Vm {
    pub(crate) fn start(mut machine: Machine) -> Result<Self, HarnessError> {
        machine.run.wait_for_turn()?;
        let power = Power::on(&mut machine)?;
        Ok(Self { power, machine })
    }

    /// The console since the power was last turned on.
    pub fn console(&self) -> &Console {
        &self.power.console
    }

    /// The machine's name.
    pub fn name(&self) -> &str {
        &self.machine.name
    }

    /// Waits for the next console line that contains `pattern`.
    pub fn expect(&self, pattern: &str, within: Duration) -> Result<Line, HarnessError> {
        self.explained(self.power.console.expect(pattern, within))
    }

    /// Waits for the next console line that contains one of `patterns`, and says which.
    pub fn expect_any(&self, patterns: &[&str], within: Duration) -> Result<(usize, Line), HarnessError> {
        self.explained(self.power.console.expect_any(patterns, within))
    }

    /// The address on this machine behind which the guest's `guest_port` is.
    pub fn address(&self, guest_port: u16) -> Option<std::net::SocketAddr> {
        self.machine.address(guest_port)
    }

    /// Peak resident memory of QEMU so far, in KiB.
    pub fn peak_memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.power.process.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// Whether the power is on.
    pub fn is_running(&self) -> bool {
        self.power.process.is_running()
    }

    /// Pulls the plug.
    pub fn kill(&mut self) {
        // Whoever needs it to be gone turns it on again, and is told there.
        let _ = self.power.off();
    }

    /// Waits until the guest has turned itself off or asked for a restart.
    pub fn wait_exit(&mut self, within: Duration) -> Result<(), HarnessError> {
        if self.power.process.wait(within).is_none() {
            let (name, event) = (self.machine.name.clone(), "end".to_owned());
            return Err(HarnessError::Deadline { name, event, after: within, tail: self.power.console.tail() });
        }
        self.power.gone()?;
        self.power.console.wait_end(READ_UP)
    }

    /// Pulls the plug if it is still in, and turns the power on again: same TPM, same disks.
    pub fn restart(&mut self) -> Result<(), HarnessError> {
        self.power.off()?;
        self.power = Power::on(&mut self.machine)?;
        Ok(())
    }

    /// Like [`restart`](Self::restart), with something else to boot: what an attacker at the machine can do.
    pub fn restart_with(&mut self, boot: Boot) -> Result<(), HarnessError> {
        self.machine.boot = boot;
        self.restart()
    }

    /// Like [`restart`](Self::restart), cut off from everybody that it would reach.
    pub fn restart_isolated(&mut self) -> Result<(), HarnessError> {
        self.machine.isolated = true;
        self.restart()
    }

    /// Types text into the serial console.
    pub fn type_in(&mut self, text: &str) -> Result<(), HarnessError> {
        let typed = self.power.keyboard.write_all(text.as_bytes()).and_then(|()| self.power.keyboard.flush());
        typed.map_err(io_error("type into", self.machine.name.as_ref()))
    }

    /// The monitor of the machine: breaks on the serial line, keys.
    pub fn monitor(&self) -> Result<Monitor, HarnessError> {
        Monitor::connect(&self.machine.monitor(), self.console())
    }

    /// If QEMU ended, its own words are worth more than the console's.
    fn explained<T>(&self, result: Result<T, HarnessError>) -> Result<T, HarnessError> {
        result.map_err(|error| match error {
            HarnessError::Ended { name, event, tail } => {
                let words = std::fs::read_to_string(&self.power.errors).unwrap_or_default();
                HarnessError::Ended { name, event, tail: tail + &words }
            }
            other => other,
        })
    }
}
