//! Whether this machine runs virtual machines in hardware.

use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use crate::console::Console;
use crate::error::{HarnessError, io_error};
use crate::kernel::Kernel;
use crate::process::{Process, spawn};
use crate::run::Run;

/// How QEMU runs the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// In hardware.
    Kvm,
    /// Translated: slower, but everywhere the same.
    Tcg,
}

impl Accelerator {
    /// KVM where it really works, else TCG; found out once. `LATCHKEY_ACCEL=tcg` skips the question.
    pub fn detect() -> Self {
        static FOUND: OnceLock<Accelerator> = OnceLock::new();
        *FOUND.get_or_init(|| if kvm_works() { Self::Kvm } else { Self::Tcg })
    }

    /// The arguments for QEMU.
    pub fn arguments(self) -> [&'static str; 4] {
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"],
            Self::Tcg => ["-accel", "tcg,tb-size=256", "-cpu", PROCESSOR],
        }
    }

    /// The same for guests with large programs: what is translated once stays translated (megabytes).
    pub fn arguments_for_much_code(self) -> [&'static str; 4] {
        match self {
            Self::Kvm => self.arguments(),
            Self::Tcg => ["-accel", "tcg,thread=multi,tb-size=1024", "-cpu", PROCESSOR],
        }
    }
}

/// The emulated processor. QEMU 7.2 emulates cmpxchg16b wrongly at times, and kernels from 6.12 on fall over it. With ERMS the kernel
/// fills and copies pages byte by byte, which the emulated processor takes literally; with LA57 each walk through page tables has
/// five steps. Without both a boot takes a tenth less.
const PROCESSOR: &str = "max,-cx16,-erms,-la57";

/// Seconds in hardware, however busy the machine is. Where KVM hangs, each test program waits for this once.
const IN_HARDWARE: Duration = Duration::from_mins(1);

/// A device node is not enough: containers and nested machines have ones that hang the guest.
fn kvm_works() -> bool {
    let wanted = std::env::var_os("LATCHKEY_ACCEL").is_none_or(|choice| choice != "tcg");
    wanted && cpu_has_virtualization() && probe(Accelerator::Kvm, IN_HARDWARE).is_ok()
}

fn cpu_has_virtualization() -> bool {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut flags = info.lines().filter(|line| line.starts_with("flags")).flat_map(str::split_whitespace);
    flags.any(|flag| flag == "vmx" || flag == "svm")
}

/// Boots the kernel without a root file system: it works if the kernel gets as far as missing that.
pub fn probe(accelerator: Accelerator, within: Duration) -> Result<(), HarnessError> {
    let run = Run::new("probe")?;
    let kernel = Kernel::provision()?;
    let mut command = Command::new(crate::doctor::need("qemu-system-x86_64")?);
    command.args(accelerator.arguments());
    command.args(["-machine", "q35", "-m", "128", "-nodefaults", "-no-user-config", "-display", "none"]);
    command.args(["-serial", "stdio", "-no-reboot", "-append", "console=ttyS0 no_timer_check panic=-1", "-kernel"]);
    command.arg(&kernel.image).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = spawn(command).map_err(io_error("start", "qemu-system-x86_64".as_ref()))?;
    let output = child.stdout.take().ok_or_else(|| HarnessError::Unusable("no console".into()))?;
    let process = Process::watch(child).map_err(io_error("watch", "qemu-system-x86_64".as_ref()))?;
    let console = Console::read("probe", output, &run.file("probe.log"))?;
    let result = console.expect("VFS: Unable to mount root fs", within);
    process.kill();
    result.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_boots_a_kernel_without_hardware_help() {
        probe(Accelerator::Tcg, Duration::from_mins(10)).unwrap();
    }
}
