//! The parts of a machine, each with QEMU's arguments for it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{HarnessError, io_error};
use crate::process::output;
use crate::run::Run;

/// Firmware that measures and needs no file of variables. `LATCHKEY_FIRMWARE` names another, with `../OVMF` beside it.
const ONE_FILE: &str = "/usr/share/ovmf/OVMF.fd";
/// Firmware in flash, beside the one in one file.
const FLASH: &str = "OVMF_CODE_4M.fd";
/// Its variables before anybody has set one.
const VARIABLES: &str = "OVMF_VARS_4M.fd";
/// Firmware that knows Secure Boot, in flash that only system management mode can write to.
const SECURE_FLASH: &str = "OVMF_CODE_4M.secboot.fd";

/// What starts first.
#[derive(Debug, Clone)]
pub enum Firmware {
    /// In one file; variables live in memory and are gone with the power.
    OneFile,
    /// In flash, with the file of its variables.
    Flash(PathBuf),
    /// The same with Secure Boot, if keys are enrolled in the file of variables.
    SecureFlash(PathBuf),
}

impl Firmware {
    /// Flash for the machine `name`, its variables as they leave the factory.
    pub fn flash(run: &Run, name: &str) -> Result<Self, HarnessError> {
        Ok(Self::Flash(copy(&variables()?, run, name)?))
    }

    /// Flash with Secure Boot for the machine `name`, its variables a copy of `variables`.
    pub fn secure_flash(run: &Run, name: &str, variables: &Path) -> Result<Self, HarnessError> {
        Ok(Self::SecureFlash(copy(variables, run, name)?))
    }

    pub(crate) fn arguments(&self, command: &mut Command) -> Result<(), HarnessError> {
        let (code, variables) = match self {
            Self::OneFile => {
                command.args(["-machine", "q35", "-bios"]).arg(one_file()?);
                return Ok(());
            }
            Self::Flash(variables) => {
                command.args(["-machine", "q35"]);
                (beside(FLASH)?, variables)
            }
            Self::SecureFlash(variables) => {
                command.args(["-machine", "q35,smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on"]);
                (beside(SECURE_FLASH)?, variables)
            }
        };
        for (unit, file, read_only) in [(0, &code, "on"), (1, variables, "off")] {
            let file = value(file);
            command.args(["-drive", &format!("if=pflash,unit={unit},format=raw,readonly={read_only},file={file}")]);
        }
        Ok(())
    }
}

/// The variables of flash as they leave the factory: no key is enrolled.
pub fn variables() -> Result<PathBuf, HarnessError> {
    beside(VARIABLES)
}

pub(crate) fn one_file() -> Result<PathBuf, HarnessError> {
    std::env::var_os("LATCHKEY_FIRMWARE").map_or_else(|| crate::doctor::need(ONE_FILE), |path| Ok(path.into()))
}

/// Debian's package has `/usr/share/ovmf/OVMF.fd` and `/usr/share/OVMF/`.
pub(crate) fn beside(name: &str) -> Result<PathBuf, HarnessError> {
    let one_file = one_file()?;
    let share = one_file.parent().and_then(Path::parent).unwrap_or(&one_file);
    crate::doctor::need(&share.join("OVMF").join(name).display().to_string())
}

fn copy(variables: &Path, run: &Run, name: &str) -> Result<PathBuf, HarnessError> {
    let file = run.file(&format!("{name}-variables.fd"));
    std::fs::copy(variables, &file).map_err(io_error("copy", variables))?;
    // The original may be read-only, as a package's files are for everybody but root.
    let writable = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&file, writable).map_err(io_error("chmod", &file))?;
    Ok(file)
}

/// What the firmware starts.
#[derive(Debug, Clone)]
pub enum Boot {
    /// A unified kernel image, handed over by QEMU: no disk is needed.
    Image(PathBuf),
    /// The same with a command line from outside, as a boot loader would hand it over.
    ImageWithOptions(PathBuf, String),
    /// What is on this disk.
    Disk(Disk),
}

impl Boot {
    pub(crate) fn arguments(&self, command: &mut Command) {
        let (image, options) = match self {
            Self::Image(image) => (image, None),
            Self::ImageWithOptions(image, options) => (image, Some(options)),
            Self::Disk(disk) => return disk.arguments(0, true, command),
        };
        command.arg("-kernel").arg(image);
        if let Some(options) = options {
            command.args(["-append", options]);
        }
    }
}

/// How the TPM is reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TpmPort {
    /// Command response buffer.
    #[default]
    Crb,
    /// The older FIFO.
    Tis,
}

impl TpmPort {
    pub(crate) fn arguments(self, socket: &Path, command: &mut Command) {
        let device = match self {
            Self::Crb => "tpm-crb,tpmdev=tpm0",
            Self::Tis => "tpm-tis,tpmdev=tpm0",
        };
        command.args(["-chardev", &format!("socket,id=tpm,path={}", value(socket))]);
        command.args(["-tpmdev", "emulator,id=tpm0,chardev=tpm", "-device", device]);
    }
}

/// How a disk is reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Bus {
    /// virtio-blk.
    #[default]
    Virtio,
    /// NVM Express.
    Nvme,
    /// SCSI behind virtio.
    Scsi,
}

/// A disk.
#[derive(Debug, Clone)]
pub struct Disk {
    path: PathBuf,
    serial: String,
    read_only: bool,
    bus: Bus,
    format: &'static str,
}

impl Disk {
    /// A disk whose content is the file, byte for byte. The guest sees its `serial`.
    pub fn new(path: &Path, serial: &str) -> Self {
        Self { path: path.into(), serial: serial.into(), read_only: false, bus: Bus::default(), format: "raw" }
    }

    /// A disk of `size` bytes that begins as a copy of `base`, which stays as it is; only differences take space.
    pub fn overlay(run: &Run, name: &str, base: &Path, size: u64) -> Result<Self, HarnessError> {
        let path = run.file(&format!("{name}.qcow2"));
        let mut command = Command::new(crate::doctor::need("qemu-img")?);
        command.args(["create", "-q", "-f", "qcow2", "-F", "raw", "-b"]).arg(base).arg(&path).arg(size.to_string());
        output(&mut command)?;
        Ok(Self { format: "qcow2", ..Self::new(&path, name) })
    }

    /// What the guest writes, if its bus lets it, does not reach the file.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Reached in another way.
    #[must_use]
    pub fn on(mut self, bus: Bus) -> Self {
        self.bus = bus;
        self
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `first`: the firmware is to boot from it.
    pub(crate) fn arguments(&self, index: usize, first: bool, command: &mut Command) {
        let (format, path) = (self.format, value(&self.path));
        let read_only = match (self.read_only, self.bus) {
            (false, _) => "readonly=off",
            (true, Bus::Virtio) => "readonly=on",
            // On the others the firmware learns only from a write that fails. Debian 13's, which without flash keeps its
            // variables in a file of the boot partition (NvVars), tries one before it boots, and then finds nothing there
            // any more. So what the guest writes goes into a file without a name that ends with the power.
            (true, Bus::Nvme | Bus::Scsi) => "snapshot=on",
        };
        // A crash of the machine is not a crash of its disk: the host's page cache keeps what the guest wrote to a raw
        // file. QEMU itself keeps tables of a qcow2 file, and writes them when the guest flushes.
        let cache = if format == "raw" { "unsafe" } else { "writeback" };
        let drive = format!("if=none,id=disk{index},format={format},cache={cache},{read_only},file={path}");
        command.args(["-drive", &drive]);
        let model = match self.bus {
            Bus::Virtio => "virtio-blk-pci".to_owned(),
            Bus::Nvme => "nvme".to_owned(),
            Bus::Scsi => {
                command.args(["-device", &format!("virtio-scsi-pci,id=scsi{index}")]);
                format!("scsi-hd,bus=scsi{index}.0")
            }
        };
        let order = if first { ",bootindex=0" } else { "" };
        command.args(["-device", &format!("{model},drive=disk{index},serial={}{order}", self.serial)]);
    }
}

/// Commas separate QEMU's options; doubled ones are part of a value.
pub(crate) fn value(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_a_path_stays_in_the_path() {
        assert_eq!(value(Path::new("/tmp/a,b")), "/tmp/a,,b");
    }

    #[test]
    fn an_overlay_is_as_large_as_wanted_and_leaves_its_base_alone() {
        let run = Run::new("overlay").unwrap();
        let base = run.write("base.img", vec![7; 1 << 20]).unwrap();
        let disk = Disk::overlay(&run, "disk", &base, 8 << 20).unwrap();
        let about = output(Command::new("qemu-img").args(["info", "--output", "json"]).arg(disk.path())).unwrap();
        let about: serde_json::Value = serde_json::from_str(&about).unwrap();
        assert_eq!(about["virtual-size"], 8 << 20);
        assert!(Disk::overlay(&run, "of-nothing", &run.file("nothing"), 1 << 20).is_err());
        assert_eq!(std::fs::read(&base).unwrap(), vec![7; 1 << 20]);
    }
}
