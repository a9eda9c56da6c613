//! Machines: everything that stays when the power goes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::accel::Accelerator;
use crate::error::HarnessError;
use crate::hardware::{Boot, Disk, Firmware, TpmPort, value};
use crate::lan::{Lan, Socket};
use crate::ports::Port;
use crate::run::Run;
use crate::swtpm::{Swtpm, TpmState};
use crate::vm::Vm;

/// The firmware, kernel and initramfs together need 160 MB.
const DEFAULT_MEMORY: u32 = 256;
/// Where the guest finds the instance metadata.
const METADATA: &str = "opt/latchkey/metadata.json";
/// Where a guest reaches this machine's loopback interface.
pub const HOST: &str = "10.0.2.2";

/// The hardware of a machine.
#[derive(Debug)]
pub struct Machine {
    pub(crate) run: Run,
    pub(crate) name: String,
    pub(crate) boot: Boot,
    pub(crate) tpm: Option<TpmState>,
    pub(crate) boots: u32,
    firmware: Firmware,
    port: TpmPort,
    memory: u32,
    processors: u32,
    yields: bool,
    disks: Vec<Disk>,
    forwards: Vec<(Port, u16)>,
    lan: Option<Socket>,
    metadata: Option<PathBuf>,
    cloud: Option<SocketAddr>,
    extra: Vec<String>,
    pub(crate) isolated: bool,
}

impl Machine {
    /// A machine that boots `image`, a unified kernel image, without needing a disk.
    pub fn new(run: &Run, name: &str, image: &Path) -> Self {
        Self::booting(run, name, Boot::Image(image.into()))
    }

    /// A machine that boots in the given way.
    pub fn booting(run: &Run, name: &str, boot: Boot) -> Self {
        Self {
            run: run.clone(),
            name: name.into(),
            boot,
            tpm: None,
            boots: 0,
            firmware: Firmware::OneFile,
            port: TpmPort::default(),
            memory: DEFAULT_MEMORY,
            processors: 1,
            yields: false,
            disks: Vec::new(),
            forwards: Vec::new(),
            lan: None,
            metadata: None,
            cloud: None,
            extra: Vec::new(),
            isolated: false,
        }
    }

    /// Sets the memory in MB; 192 and more are sensible.
    #[must_use]
    pub fn memory(mut self, megabytes: u32) -> Self {
        self.memory = megabytes;
        self
    }

    /// Lets other machines go first, where there are too few processors for all.
    #[must_use]
    pub fn yields(mut self) -> Self {
        self.yields = true;
        self
    }

    /// Sets the number of processors.
    #[must_use]
    pub fn processors(mut self, processors: u32) -> Self {
        self.processors = processors;
        self
    }

    /// Puts other firmware in.
    #[must_use]
    pub fn firmware(mut self, firmware: Firmware) -> Self {
        self.firmware = firmware;
        self
    }

    /// Puts a TPM in.
    #[must_use]
    pub fn tpm(mut self, state: &TpmState) -> Self {
        self.tpm = Some(state.clone());
        self
    }

    /// Connects the TPM in another way.
    #[must_use]
    pub fn tpm_port(mut self, port: TpmPort) -> Self {
        self.port = port;
        self
    }

    /// Puts a disk in, behind the one it boots from.
    #[must_use]
    pub fn disk(mut self, disk: Disk) -> Self {
        self.disks.push(disk);
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

    /// Puts it into a network with other machines, as the one with this number (from 1 on).
    #[must_use]
    pub fn lan(mut self, lan: &Lan, number: u8) -> Self {
        self.lan = Some(lan.socket(number));
        self
    }

    /// Gives the guest its instance metadata (untrusted, unmeasured).
    pub fn metadata(mut self, json: &serde_json::Value) -> Result<Self, HarnessError> {
        let name = format!("{}-metadata.json", self.name);
        self.metadata = Some(self.run.write(&name, json.to_string())?);
        Ok(self)
    }

    /// Puts it into a cloud: its SMBIOS says so, and this fake of the cloud's servers answers where those do.
    #[must_use]
    pub fn in_cloud(mut self, smbios: &str, server: SocketAddr) -> Self {
        self.cloud = Some(server);
        self.arguments(&["-smbios", smbios])
    }

    /// Cuts it off: it reaches nobody, and is reached through its forwarded ports only.
    #[must_use]
    pub fn isolated(mut self) -> Self {
        self.isolated = true;
        self
    }

    /// More arguments for QEMU.
    #[must_use]
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.extra.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    /// The address on this machine behind which the guest's `guest_port` is.
    pub fn address(&self, guest_port: u16) -> Option<SocketAddr> {
        self.forwards.iter().find(|(_, guest)| *guest == guest_port).map(|(port, _)| port.address())
    }

    /// Turns the power on.
    pub fn start(self) -> Result<Vm, HarnessError> {
        Vm::start(self)
    }

    /// Where QEMU's monitor listens.
    pub(crate) fn monitor(&self) -> PathBuf {
        self.run.file(&format!("{}.qmp", self.name))
    }

    pub(crate) fn command(&self, tpm: Option<&Swtpm>) -> Result<Command, HarnessError> {
        let qemu = crate::doctor::need("qemu-system-x86_64")?;
        let mut command = if self.yields { Command::new("nice") } else { Command::new(&qemu) };
        if self.yields {
            command.args(["-n", "5"]).arg(&qemu);
        }
        let accelerator = Accelerator::detect();
        // A machine that was given more memory runs more than a boot.
        let large = self.memory > DEFAULT_MEMORY;
        command.args(if large { accelerator.arguments_for_much_code() } else { accelerator.arguments() });
        command.args(["-smp", &self.processors.to_string(), "-m", &self.memory.to_string()]);
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        command.args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
        command.args(["-qmp", &format!("unix:{},server=on,wait=off", value(&self.monitor()))]);
        command.args(["-device", "virtio-rng-pci"]);
        self.firmware.arguments(&mut command)?;
        if let Some(tpm) = tpm {
            self.port.arguments(tpm.socket(), &mut command);
        }
        self.boot.arguments(&mut command);
        for (index, disk) in self.disks.iter().enumerate() {
            disk.arguments(index + 1, false, &mut command);
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
        let restrict = if self.isolated { "on" } else { "off" };
        let mut network = vec![format!("user,id=net,restrict={restrict}")];
        if let Some(server) = &self.cloud {
            // A network that has both addresses: those of metadata servers, and of Azure's wire server.
            network.push("net=168.0.0.0/7,host=168.0.0.2,dns=168.0.0.3,dhcpstart=168.0.0.15".into());
            let relay = format!("busybox nc 127.0.0.1 {}", server.port());
            let addresses = ["169.254.169.254", "168.63.129.16"];
            network.extend(addresses.map(|address| format!("guestfwd=tcp:{address}:80-cmd:{relay}")));
        }
        network.extend(self.forwards.iter().map(forward));
        // An option ROM would be measured into PCR 2, and is of no use.
        let device = format!("virtio-net-pci,netdev=net,romfile=,mac={}", hardware_address(&self.name));
        command.args(["-netdev", &network.join(","), "-device", &device]);
        // The second, so that it is the second in the machine, too.
        command.args(self.lan.iter().flat_map(Socket::arguments));
    }
}

/// A locally administered address, in QEMU's range, that depends on the name only (FNV-1a).
fn hardware_address(name: &str) -> String {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let [_, a, b, c] = hash.to_be_bytes();
    format!("52:54:00:{a:02x}:{b:02x}:{c:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_have_different_hardware_addresses() {
        assert_ne!(hardware_address("node-1"), hardware_address("node-2"));
        assert!(hardware_address("node-1").starts_with("52:54:00:"));
    }
}
