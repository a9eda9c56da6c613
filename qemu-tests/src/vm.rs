//! Machines: firmware, TPM, disks, network, metadata; their consoles, crashes and restarts.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::accel::Accelerator;
use crate::console::{Console, Line};
use crate::error::{HarnessError, io_error};
use crate::ports::Port;
use crate::process::{Process, bound, spawn};
use crate::run::Run;
use crate::swtpm::{Swtpm, TpmState};

/// Firmware that measures and needs no file of variables.
const FIRMWARE: &str = "/usr/share/ovmf/OVMF.fd";
/// The firmware, kernel and initramfs together need 160 MB.
const DEFAULT_MEMORY: u32 = 256;
/// Where the guest finds the instance metadata.
const METADATA: &str = "opt/latchkey/metadata.json";
/// Where a guest reaches this machine's loopback interface.
pub const HOST: &str = "10.0.2.2";

/// The hardware of a machine: everything that stays when its power goes.
#[derive(Debug)]
pub struct Machine {
    run: Run,
    name: String,
    image: PathBuf,
    memory: u32,
    tpm: Option<TpmState>,
    disks: Vec<Disk>,
    forwards: Vec<(Port, u16)>,
    metadata: Option<PathBuf>,
    extra: Vec<String>,
    boots: u32,
}

#[derive(Debug)]
struct Disk {
    path: PathBuf,
    serial: String,
    read_only: bool,
    nvme: bool,
}

impl Machine {
    /// A machine that boots `image`, a unified kernel image.
    pub fn new(run: &Run, name: &str, image: &Path) -> Self {
        Self {
            run: run.clone(),
            name: name.into(),
            image: image.into(),
            memory: DEFAULT_MEMORY,
            tpm: None,
            disks: Vec::new(),
            forwards: Vec::new(),
            metadata: None,
            extra: Vec::new(),
            boots: 0,
        }
    }

    /// Sets the memory in MB; 192 to 512 are sensible.
    #[must_use]
    pub fn memory(mut self, megabytes: u32) -> Self {
        self.memory = megabytes;
        self
    }

    /// Puts a TPM in.
    #[must_use]
    pub fn tpm(mut self, state: &TpmState) -> Self {
        self.tpm = Some(state.clone());
        self
    }

    /// Puts a disk in (virtio-blk, raw). The guest sees its `serial`.
    #[must_use]
    pub fn disk(mut self, path: &Path, serial: &str) -> Self {
        self.disks.push(Disk { path: path.into(), serial: serial.into(), read_only: false, nvme: false });
        self
    }

    /// Puts in a disk that the guest cannot write to.
    #[must_use]
    pub fn read_only_disk(mut self, path: &Path, serial: &str) -> Self {
        self.disks.push(Disk { path: path.into(), serial: serial.into(), read_only: true, nvme: false });
        self
    }

    /// Puts in an NVMe disk.
    #[must_use]
    pub fn nvme_disk(mut self, path: &Path, serial: &str) -> Self {
        self.disks.push(Disk { path: path.into(), serial: serial.into(), read_only: false, nvme: true });
        self
    }

    /// Makes the guest's `port` reachable on this machine's loopback interface, at `port`.
    ///
    /// Connect only after the guest has said that it listens: before that the connection is
    /// accepted here and then waits for seconds.
    #[must_use]
    pub fn forward(mut self, port: Port, guest_port: u16) -> Self {
        self.forwards.push((port, guest_port));
        self
    }

    /// Gives the guest its instance metadata (untrusted, unmeasured).
    pub fn metadata(mut self, json: &serde_json::Value) -> Result<Self, HarnessError> {
        let name = format!("{}-metadata.json", self.name);
        self.metadata = Some(self.run.write(&name, json.to_string())?);
        Ok(self)
    }

    /// More arguments for QEMU.
    #[must_use]
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.extra.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    /// The address on this machine behind which the guest's `guest_port` is.
    pub fn address(&self, guest_port: u16) -> Option<std::net::SocketAddr> {
        self.forwards.iter().find(|(_, guest)| *guest == guest_port).map(|(port, _)| port.address())
    }

    /// Turns the power on.
    pub fn start(mut self) -> Result<Vm, HarnessError> {
        self.run.wait_for_turn();
        let power = self.boot()?;
        Ok(Vm { power, machine: self })
    }

    fn boot(&mut self) -> Result<Power, HarnessError> {
        self.boots += 1;
        let tpm = self.tpm.as_ref().map(TpmState::power_on).transpose()?;
        let mut command = self.command(tpm.as_ref())?;
        command.stdout(Stdio::piped());
        let errors = self.run.file(&format!("{}-{}-qemu.log", self.name, self.boots));
        command.stderr(std::fs::File::create(&errors).map_err(io_error("make", &errors))?);
        let mut child = spawn(command).map_err(io_error("start", "qemu-system-x86_64".as_ref()))?;
        let output = child.stdout.take().ok_or_else(|| HarnessError::Unusable("QEMU has no output".into()))?;
        let process = Process::watch(child).map_err(io_error("watch", "qemu-system-x86_64".as_ref()))?;
        let log = self.run.file(&format!("{}-{}-console.log", self.name, self.boots));
        let console = Console::read(&self.name, output, &log)?;
        Ok(Power { process, console, tpm, errors })
    }

    fn command(&self, tpm: Option<&Swtpm>) -> Result<Command, HarnessError> {
        let mut command = bound(crate::doctor::need("qemu-system-x86_64")?);
        command.args(Accelerator::detect().arguments());
        command.args(["-machine", "q35", "-smp", "1", "-m", &self.memory.to_string()]);
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot"]);
        command.arg("-bios").arg(crate::doctor::need(FIRMWARE)?).arg("-kernel").arg(&self.image);
        command.args(["-device", "virtio-rng-pci"]);
        if let Some(tpm) = tpm {
            command.args(["-chardev", &format!("socket,id=tpm,path={}", value(tpm.socket()))]);
            command.args(["-tpmdev", "emulator,id=tpm0,chardev=tpm", "-device", "tpm-crb,tpmdev=tpm0"]);
        }
        for (index, disk) in self.disks.iter().enumerate() {
            disk_arguments(&mut command, index, disk);
        }
        self.network_arguments(&mut command);
        if let Some(metadata) = &self.metadata {
            command.args(["-fw_cfg", &format!("name={METADATA},file={}", value(metadata))]);
        }
        command.args(&self.extra);
        Ok(command)
    }

    fn network_arguments(&self, command: &mut Command) {
        let forward = |(port, guest): &(Port, u16)| format!("hostfwd=tcp:127.0.0.1:{}-:{guest}", port.number());
        let mut network = vec!["user,id=net".to_owned()];
        network.extend(self.forwards.iter().map(forward));
        // An option ROM would be measured into PCR 2, and is of no use.
        let device = format!("virtio-net-pci,netdev=net,romfile=,mac={}", hardware_address(&self.name));
        command.args(["-netdev", &network.join(","), "-device", &device]);
    }
}

fn disk_arguments(command: &mut Command, index: usize, disk: &Disk) {
    let read_only = if disk.read_only { "on" } else { "off" };
    let path = value(&disk.path);
    // A crash of the machine is not a crash of its disk: the host's page cache keeps what the guest wrote.
    let drive = format!("if=none,id=disk{index},format=raw,cache=unsafe,readonly={read_only},file={path}");
    let model = if disk.nvme { "nvme" } else { "virtio-blk-pci" };
    command.args(["-drive", &drive, "-device", &format!("{model},drive=disk{index},serial={}", disk.serial)]);
}

/// Commas separate QEMU's options; doubled ones are part of a value.
fn value(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// A locally administered address, in QEMU's range, that depends on the name only (FNV-1a).
fn hardware_address(name: &str) -> String {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let [_, a, b, c] = hash.to_be_bytes();
    format!("52:54:00:{a:02x}:{b:02x}:{c:02x}")
}

/// What ends with the power.
#[derive(Debug)]
struct Power {
    process: Process,
    console: Console,
    tpm: Option<Swtpm>,
    errors: PathBuf,
}

impl Power {
    fn off(&self) {
        self.process.kill();
        self.gone();
    }

    /// Waits for QEMU, then for the TPM, which must have let go of its state before it can start again.
    fn gone(&self) {
        let _ = self.process.wait(Duration::from_secs(10));
        if let Some(tpm) = &self.tpm {
            tpm.wait_gone();
        }
    }
}

impl Drop for Power {
    fn drop(&mut self) {
        self.off();
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
        self.power.off();
    }

    /// Waits until the guest has turned itself off or asked for a restart.
    pub fn wait_exit(&mut self, within: Duration) -> Result<(), HarnessError> {
        if self.power.process.wait(within).is_none() {
            let (name, event) = (self.machine.name.clone(), "end".to_owned());
            return Err(HarnessError::Deadline { name, event, after: within, tail: self.power.console.text() });
        }
        self.power.gone();
        self.power.console.wait_end(Duration::from_secs(10))
    }

    /// Pulls the plug if it is still in, and turns the power on again: same TPM, same disks.
    pub fn restart(&mut self) -> Result<(), HarnessError> {
        self.power.off();
        self.power = self.machine.boot()?;
        Ok(())
    }

    /// Like [`restart`](Self::restart), with another boot image: what an attacker at the machine can do.
    pub fn restart_with(&mut self, image: &Path) -> Result<(), HarnessError> {
        self.machine.image = image.into();
        self.restart()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_a_path_stays_in_the_path() {
        assert_eq!(value(Path::new("/tmp/a,b")), "/tmp/a,,b");
    }

    #[test]
    fn machines_have_different_hardware_addresses() {
        assert_ne!(hardware_address("node-1"), hardware_address("node-2"));
        assert!(hardware_address("node-1").starts_with("52:54:00:"));
    }
}
