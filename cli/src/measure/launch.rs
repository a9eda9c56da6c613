//! `latchkey measure image --snp-firmware`: what an SEV-SNP guest with this firmware will report as its launch digest.

use std::path::Path;

use latchkey_attestation::Digest;
use latchkey_attestation::reference::SnpLaunch;
use latchkey_measurements::launch::{
    CpuName, Firmware, GuestFeatures, Guests, KernelHashes, LaunchError, SnpGuest, Vmm,
};
use serde::Serialize;

use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::output::Table;

/// What SEV-SNP guests with this firmware will report.
#[derive(Serialize)]
pub(super) struct LaunchReport {
    vmm: String,
    vcpu_signature: String,
    append: String,
    takes_kernel_hashes: bool,
    digests: Vec<SnpLaunch>,
    #[serde(skip)]
    firmware: String,
    #[serde(skip)]
    cpu: CpuName,
    #[serde(skip)]
    features: GuestFeatures,
}

impl LaunchReport {
    pub(super) fn text(&self) -> String {
        let Self { firmware, cpu, features, digests, .. } = self;
        let table = table(digests);
        format!("\nas an SEV-SNP guest of QEMU, firmware {firmware}, {cpu}, features {features}\n{table}")
    }
}

/// What `--snp-firmware` asks for, its firmware read.
pub(super) struct Asked<'a> {
    path: &'a Path,
    file: Vec<u8>,
    vcpus: Vec<u32>,
    cpu: CpuName,
    features: GuestFeatures,
    append: &'a str,
    has_append: bool,
}

/// The same with the firmware measured.
pub(super) struct Measured<'a> {
    path: &'a Path,
    guests: Guests,
    append: &'a str,
    direct_boot: bool,
}

/// Everything about `--snp-firmware` that costs little; `None` without it.
pub(super) fn asked(arguments: &Arguments) -> Result<Option<Asked<'_>>, CommandError> {
    let Some(path) = arguments.path("snp-firmware") else {
        let alone = ["vcpus", "vcpu-type", "guest-features", "append"].into_iter().find(|flag| arguments.has(flag));
        return match alone {
            Some(flag) => Err(CommandError::usage(format!("--{flag} needs --snp-firmware"))),
            None => Ok(None),
        };
    };
    let number = |text: &str| {
        text.parse().map_err(|_| CommandError::usage(format!("--vcpus {text}: expected 1 to {}", SnpGuest::MAX_VCPUS)))
    };
    let vcpus = arguments.texts("vcpus")?.into_iter().flat_map(|list| list.split(','));
    let vcpus: Vec<u32> = vcpus.map(number).collect::<Result<_, _>>()?;
    let vcpus = if vcpus.is_empty() { vec![DEFAULT_VCPUS] } else { vcpus };
    let cpu = arguments.text("vcpu-type")?.map_or_else(|| Ok(CpuName::default()), str::parse);
    let cpu = cpu.map_err(|error| CommandError::usage(format!("--vcpu-type: {error}")))?;
    let features = arguments.value("guest-features")?.unwrap_or_default();
    let file = files::read(path, Firmware::MAX_SIZE)?;
    let (append, has_append) = (arguments.text("append")?.unwrap_or_default(), arguments.has("append"));
    Ok(Some(Asked { path, file, vcpus, cpu, features, append, has_append }))
}

impl<'a> Asked<'a> {
    /// Whether a direct boot is predicted too. Asked for, one with a firmware that cannot check it is refused.
    pub(super) fn direct_boot(&self) -> bool {
        self.has_append || Firmware::file_takes_kernel_hashes(&self.file)
    }

    /// Measures the firmware.
    pub(super) fn measure(self) -> Result<Measured<'a>, CommandError> {
        let direct_boot = self.direct_boot();
        let guests = Guests::new(&self.file, self.vcpus, self.cpu, self.features);
        let guests = guests.map_err(|error| unusable(self.path, &error))?;
        Ok(Measured { path: self.path, guests, append: self.append, direct_boot })
    }
}

/// The digests. `uki` is that of what a direct boot has as its kernel: known where one was asked about.
pub(super) fn launches(measured: &Measured<'_>, uki: Option<Digest>) -> Result<LaunchReport, CommandError> {
    let Measured { path, guests, append, direct_boot } = measured;
    let predicted = |direct_boot| guests.launches(direct_boot).map_err(|error| unusable(path, &error));
    let mut launches = predicted(None)?;
    if let Some(uki) = uki.filter(|_| *direct_boot) {
        let hashes = KernelHashes::of_digest(uki, &[], append).map_err(|error| unusable(path, &error))?;
        launches.extend(predicted(Some(&hashes))?);
    }
    let (cpu, features) = (guests.cpu().clone(), guests.features());
    Ok(LaunchReport {
        vmm: Vmm::Qemu.to_string(),
        vcpu_signature: cpu.signature().to_string(),
        append: (*append).to_owned(),
        takes_kernel_hashes: guests.firmware().takes_kernel_hashes(),
        digests: launches,
        firmware: path.display().to_string(),
        cpu,
        features,
    })
}

/// One row for each guest.
pub(super) fn table(launches: &[SnpLaunch]) -> Table {
    let mut table = Table::new(&["VCPUS", "BOOT", "LAUNCH DIGEST, SHA-384"]);
    for launch in launches {
        table.row([launch.vcpus.to_string(), boot(launch).to_owned(), launch.digest.to_string()]);
    }
    table
}

/// What a launch digest is of.
fn boot(launch: &SnpLaunch) -> &'static str {
    if launch.kernel_hashes { "kernel-hashes" } else { "firmware" }
}

fn unusable(path: &Path, error: &LaunchError) -> CommandError {
    let what = format!("no launch digest is predicted for {}", path.display());
    let failure = CommandError::new(Exit::Usage, error.code(), what).because(error.to_string());
    match error.remedy() {
        Some(fix) => failure.fix(fix),
        None => failure,
    }
}

/// QEMU's own.
const DEFAULT_VCPUS: u32 = 1;
