//! Types of machines: what of a boot's measurements is decided by the firmware and how it finds the image.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use latchkey_attestation::Digest;
use latchkey_attestation::reference::{KernelMeasures, SnpLaunch};
use serde::{Deserialize, Serialize};

use super::variables::{MAX_STORE, VariableStore};
use super::{PredictError, SignatureDatabases, StubVersion};
use crate::launch::{Firmware, GuestType, Guests, KernelHashes, LaunchError};

/// A type of machine, as a file or another configuration names it. Closed JSON:
///
/// ```json
/// {"name": "debian-12-ovmf", "secure_boot": "off", "secure_boot_variable": "zero"}
/// {"name": "edge", "boot": "disk", "secure_boot": "on", "variables": "OVMF_VARS_4M.edge.fd"}
/// {"name": "sealed", "boot": "qemu-kernel", "secure_boot": "off", "secure_boot_variable": "empty",
///  "snp": {"firmware": "OVMF.amdsev.fd", "vcpus": [1, 2, 4], "kernel_hashes": true}}
/// {"name": "trusted", "secure_boot": "off", "secure_boot_variable": "zero", "tdx": {"kernel_measures": "tpm"}}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineType {
    /// A name for manifests: 1 to 64 of `a-z 0-9 . _ -`, beginning with a letter or digit.
    pub name: String,
    /// How the firmware comes to the image.
    #[serde(default)]
    pub boot: BootPath,
    /// Whether the firmware demands signatures.
    pub secure_boot: Switch,
    /// How the firmware says that Secure Boot is off. Needed when it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure_boot_variable: Option<OffVariable>,
    /// A file with the firmware's variables (`OVMF_VARS….fd`). Needed when Secure Boot is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variables: Option<PathBuf>,
    /// The SEV-SNP guests that are machines of this type, if any are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snp: Option<GuestType>,
    /// What has to be known of the TDX guests that are machines of this type, if any are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tdx: Option<TdxGuestType>,
}

/// TDX guests of a type of machine: what of their registers no image tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TdxGuestType {
    /// Where the kernel measures its command line and initrd.
    pub kernel_measures: KernelMeasures,
    /// Where the firmware's separator goes. Who says it has RTMR 1 predicted, too, which is for a direct boot alone, and says with it
    /// that no device has a program in an option ROM. A guest in which that is otherwise, or whose kernel leaves the firmware at the
    /// second try, has another RTMR 1, and is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separator: Option<Separator>,
}

/// Which register firmware ends with a separator when it is ready to boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Separator {
    /// RTMR 0, as the OVMF of the recorded log.
    Rtmr0,
    /// RTMR 1, as EDK II's present source (`OvmfPkg/Tcg/TdTcg2Dxe`, `OnReadyToBoot`).
    Rtmr1,
}

/// How the firmware comes to the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BootPath {
    /// From the EFI system partition of a disk, as `EFI/BOOT/BOOTX64.EFI`.
    #[default]
    Disk,
    /// From QEMU's `-kernel`.
    QemuKernel,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// What the variable `SecureBoot` is when Secure Boot is off: a property of the firmware's build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OffVariable {
    /// One byte, 0: firmware that has Secure Boot.
    Zero,
    /// It is not there: firmware built without Secure Boot.
    Empty,
}

/// A type of machine, its files read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// How the firmware comes to the image.
    pub boot: BootPath,
    /// The state of Secure Boot.
    pub secure_boot: SecureBoot,
    /// The SEV-SNP guests of this type.
    pub guests: Option<MachineGuests>,
    /// The TDX guests of this type.
    pub tdx: Option<TdxGuestType>,
}

/// SEV-SNP guests, and how they boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineGuests {
    guests: Guests,
    kernel_hashes: bool,
}

impl Machine {
    /// Whether [`Self::launches`] depends on the image: only then its digest is worth computing.
    pub fn boots_by_hashes(&self) -> bool {
        self.guests.as_ref().is_some_and(|guests| guests.kernel_hashes)
    }

    /// What the SEV-SNP guests of this type report as their launch digest when they boot the unified kernel image with this
    /// SHA-256, which must be known if they [boot by hashes](Self::boots_by_hashes); none when there are no such guests.
    ///
    /// # Errors
    /// [`PredictError::Machine`].
    pub fn launches(&self, uki: Option<Digest>) -> Result<Vec<SnpLaunch>, PredictError> {
        let Some(MachineGuests { guests, kernel_hashes }) = &self.guests else { return Ok(Vec::new()) };
        let hashes = match (kernel_hashes, uki) {
            (false, _) => Ok(None),
            (true, Some(uki)) => KernelHashes::of_digest(uki, &[], "").map(Some),
            (true, None) => return Err(PredictError::NoFileDigest),
        };
        hashes.and_then(|hashes| guests.launches(hashes.as_ref())).map_err(|error| unlaunchable(&self.name, &error))
    }
}

/// The state of Secure Boot, as far as it is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecureBoot {
    /// Nothing is verified.
    Off {
        /// What the variable `SecureBoot` is.
        variable: OffVariable,
        /// The enrolled keys, which are measured all the same.
        databases: SignatureDatabases,
    },
    /// Only what the databases admit is started.
    On(SignatureDatabases),
}

impl MachineType {
    /// Bytes of the largest description that is read.
    pub const MAX_JSON: usize = 64 * 1024;

    /// Reads the JSON form, at most [`Self::MAX_JSON`] bytes.
    ///
    /// # Errors
    /// [`PredictError::Machine`].
    pub fn from_json(json: &[u8]) -> Result<Self, PredictError> {
        if json.len() > Self::MAX_JSON {
            return Err(PredictError::Machine("the description of the machine is longer than 64 KiB".to_owned()));
        }
        let machine: Self = serde_json::from_slice(json).map_err(|error| PredictError::Machine(error.to_string()))?;
        machine.check()?;
        Ok(machine)
    }

    /// The type of this name among [`Self::BUILTIN`].
    pub fn builtin(name: &str) -> Option<Self> {
        let off = |boot, variable| Self {
            name: name.to_owned(),
            boot,
            secure_boot: Switch::Off,
            secure_boot_variable: Some(variable),
            variables: None,
            snp: None,
            tdx: None,
        };
        let on = |boot| Self {
            name: name.to_owned(),
            boot,
            secure_boot: Switch::On,
            secure_boot_variable: None,
            variables: Some(SNAKEOIL_VARIABLES.into()),
            snp: None,
            tdx: None,
        };
        Some(match name {
            "debian-12-ovmf" => off(BootPath::Disk, OffVariable::Zero),
            "debian-12-ovmf-kernel" => off(BootPath::QemuKernel, OffVariable::Zero),
            "debian-13-ovmf" => off(BootPath::Disk, OffVariable::Empty),
            "debian-13-ovmf-kernel" => off(BootPath::QemuKernel, OffVariable::Empty),
            "debian-ovmf-snakeoil" => on(BootPath::Disk),
            _ => return None,
        })
    }

    /// Debian's firmware for QEMU, with a disk or `-kernel`; bookworm (12) and trixie (13); and, with Secure Boot and the
    /// test keys that the package brings, whichever is installed.
    ///
    /// Trixie's `OVMF.fd` and `OVMF_CODE_4M.fd` are built without Secure Boot; its `OVMF_CODE_4M.secboot.fd`, no keys
    /// enrolled, measures what is predicted for bookworm's.
    pub const BUILTIN: [&str; 5] =
        ["debian-12-ovmf", "debian-12-ovmf-kernel", "debian-13-ovmf", "debian-13-ovmf-kernel", "debian-ovmf-snakeoil"];

    /// The name among [`Self::BUILTIN`] of the firmware that comes with a boot stub: that of the same suite, with a disk,
    /// Secure Boot off.
    pub const fn of_suite(stub: StubVersion) -> &'static str {
        match stub {
            StubVersion::V252 => "debian-12-ovmf",
            StubVersion::V257 => "debian-13-ovmf",
        }
    }

    /// The machine, with the files of variables and of its guests' firmware read. A relative path begins at `directory`.
    ///
    /// # Errors
    /// [`PredictError`]: a file cannot be read, or says other things than this type of machine.
    pub fn load(&self, directory: &Path) -> Result<Machine, PredictError> {
        let variables = self.variables.as_ref().map(|path| read(&directory.join(path), MAX_STORE)).transpose()?;
        let machine = self.with_variables(variables.as_deref())?;
        let Some(guests) = &self.snp else { return Ok(machine) };
        let firmware = read(&directory.join(&guests.firmware), Firmware::MAX_SIZE)?;
        Ok(Machine { guests: Some(self.guests(guests, &firmware)?), ..machine })
    }

    /// The machine, with the content of its file of variables and without SEV-SNP guests.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn with_variables(&self, variables: Option<&[u8]>) -> Result<Machine, PredictError> {
        self.check()?;
        let store = variables.map(VariableStore::parse).transpose()?;
        let enabled = store.as_ref().is_some_and(VariableStore::secure_boot);
        let databases = store.as_ref().map(SignatureDatabases::of).transpose()?.unwrap_or_default();
        let refused = |why: &str| Err(PredictError::Machine(format!("machine {}: {why}", self.name)));
        let secure_boot = match (self.secure_boot, self.secure_boot_variable, enabled) {
            (Switch::On, _, true) => SecureBoot::On(databases),
            (Switch::On, _, false) => {
                return refused(
                    "`secure_boot` is on, but the variables have no platform key, or it is switched off there",
                );
            }
            (Switch::Off, _, true) => {
                return refused("`secure_boot` is off, but with these variables the firmware turns it on");
            }
            (Switch::Off, Some(variable), false) => SecureBoot::Off { variable, databases },
            (Switch::Off, None, false) => return refused("`secure_boot_variable` is missing"),
        };
        Ok(Machine { name: self.name.clone(), boot: self.boot, secure_boot, guests: None, tdx: self.tdx })
    }

    fn guests(&self, described: &GuestType, firmware: &[u8]) -> Result<MachineGuests, PredictError> {
        let GuestType { vcpus, vcpu_type, guest_features, kernel_hashes, .. } = described;
        let guests = Guests::new(firmware, vcpus.clone(), vcpu_type.clone(), *guest_features).and_then(|guests| {
            if *kernel_hashes {
                guests.check_kernel_hashes()?;
            }
            Ok(MachineGuests { guests, kernel_hashes: *kernel_hashes })
        });
        guests.map_err(|error| unlaunchable(&self.name, &error))
    }

    fn check(&self) -> Result<(), PredictError> {
        let refused = |why: &str| Err(PredictError::Machine(format!("machine {:?}: {why}", self.name)));
        if latchkey_attestation::reference::ManifestName::new(&self.name).is_none() {
            return refused("the name must be 1 to 64 of a-z 0-9 . _ -, beginning with a letter or digit");
        }
        if self.snp.as_ref().is_some_and(|guests| guests.kernel_hashes) && self.boot != BootPath::QemuKernel {
            return refused("`kernel_hashes` are those of a direct boot: say `boot`: qemu-kernel, or leave them out");
        }
        if self.tdx.is_some_and(|tdx| tdx.separator.is_some()) && self.boot != BootPath::QemuKernel {
            return refused(
                "`separator` is for a direct boot (`boot`: qemu-kernel): from a disk RTMR 1 has its partition table, too",
            );
        }
        match (self.secure_boot, self.secure_boot_variable, &self.variables) {
            (Switch::On, Some(_), _) => refused("`secure_boot_variable` is for firmware with Secure Boot off"),
            (Switch::On, None, None) => refused("Secure Boot needs `variables`: the file with the enrolled keys"),
            (Switch::Off, None, _) => {
                refused("say how the firmware tells that Secure Boot is off: `secure_boot_variable`: zero or empty")
            }
            _ => Ok(()),
        }
    }
}

/// Says what is wrong with a type's guests, and what would help.
fn unlaunchable(name: &str, error: &LaunchError) -> PredictError {
    let fix = error.remedy().map(|fix| format!(": {fix}")).unwrap_or_default();
    PredictError::Machine(format!("machine {name}: snp: {error}{fix}"))
}

/// At most one byte more than `limit`: whoever parses it says that it is too long.
fn read(path: &Path, limit: usize) -> Result<Vec<u8>, PredictError> {
    let unreadable = |error: std::io::Error| PredictError::Machine(format!("read {}: {error}", path.display()));
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
    Ok(bytes)
}

/// The package `ovmf`; the certificate differs from suite to suite.
const SNAKEOIL_VARIABLES: &str = "/usr/share/OVMF/OVMF_VARS_4M.snakeoil.fd";
