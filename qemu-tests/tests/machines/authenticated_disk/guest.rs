//! A machine that does with its disks what stage 1 would, and then what a script says.

use std::path::{Path, PathBuf};

use latchkey_qemu_tests::error::HarnessError;
use latchkey_qemu_tests::hardware::Disk;
use latchkey_qemu_tests::machine::Machine;
use latchkey_qemu_tests::run::Run;
use latchkey_qemu_tests::vm::Vm;
use latchkey_qemu_tests::{build, doctor, probe};

/// A value of `latchkey.state_integrity`.
pub(crate) const AUTHENTICATED: &str = "hmac-sha256";

/// What all guests have beside busybox.
const PROGRAMS: [&str; 3] = ["mkfs.ext4", "e2fsck", "/usr/sbin/blkid"];
const SETUP: &str = "export PATH=/bin:/sbin:/usr/bin:/usr/sbin DM_DISABLE_UDEV=1
mkdir -p /run/cryptsetup /mnt /tmp
";

/// The machine in the making.
pub(crate) struct Guest {
    run: Run,
    disks: Vec<PathBuf>,
    modules: Vec<&'static str>,
    programs: Vec<&'static str>,
}

impl Guest {
    /// Without disks.
    pub(crate) fn new(run: &Run) -> Self {
        Self { run: run.clone(), disks: Vec::new(), modules: Vec::new(), programs: PROGRAMS.to_vec() }
    }

    /// The next disk: vda, vdb, …
    pub(crate) fn disk(mut self, path: &Path) -> Self {
        self.disks.push(path.into());
        self
    }

    /// More kernel modules.
    pub(crate) fn modules(mut self, names: &[&'static str]) -> Self {
        self.modules.extend(names);
        self
    }

    /// More programs of this machine.
    pub(crate) fn programs(mut self, names: &[&'static str]) -> Self {
        self.programs.extend(names);
        self
    }

    /// Boots and runs the script.
    pub(crate) fn boot(&self, name: &str, script: &str) -> Result<Vm, HarnessError> {
        let read = |path: &Path| std::fs::read(path).map_err(|error| HarnessError::Unusable(error.to_string()));
        let tool = read(&build::guest("state_disk")?)?;
        let mut image = probe::image(&format!("{SETUP}{script}"))?
            .file("bin/state_disk", 0o755, tool)
            .file("key", 0o600, vec![0x4b; 32])
            .file("etc/mke2fs.conf", 0o644, read("/etc/mke2fs.conf".as_ref())?)
            .modules(&self.modules);
        for program in &self.programs {
            image = image.program(&doctor::need(program)?)?;
        }
        let image = image.build(&self.run, &format!("{name}.efi"))?;
        // The TPM is of no interest, and the firmware starts faster without one.
        let machine = Machine::new(&self.run, name, &image).memory(512);
        let disks = self.disks.iter().enumerate();
        disks.fold(machine, |machine, (number, path)| machine.disk(Disk::new(path, &format!("disk{number}")))).start()
    }
}

/// Shell that opens (or first formats) a disk, runs `script` while it is open, and closes it.
pub(crate) fn disk(device: &str, mode: &str, script: &str) -> String {
    format!("cat > /tmp/script <<'END'\n{script}\nEND\nstate_disk /dev/{device} {mode} /key /tmp/script\n")
}

/// Waits until the machine has turned itself off.
pub(crate) fn end(vm: &mut Vm) -> Result<(), HarnessError> {
    vm.expect(probe::DONE, super::BOOT)?;
    vm.wait_exit(super::BOOT)
}
