//! `latchkey measure image --snp-firmware`: what an SEV-SNP guest with this firmware will report as its launch digest.

use std::fmt::Write as _;
use std::path::Path;

use latchkey_attestation::Digest;
use latchkey_attestation::reference::SnpLaunch;
use latchkey_measurements::launch::{CpuName, Firmware, Guests, KernelHashes, LaunchError, SnpGuest, Vmm};
use serde_json::{Value, json};

use crate::codes::CommandCode;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::output::Table;
use crate::spec::Arguments;

/// The digests: text, and their part of the JSON.
pub(super) struct Told {
    pub(super) text: String,
    pub(super) json: Value,
}

/// What `--snp-firmware` asks for.
pub(super) struct Asked<'a> {
    path: &'a Path,
    guests: Guests,
    append: &'a str,
    has_append: bool,
}

/// Everything about `--snp-firmware` that needs no image: the firmware measured; `None` without it.
pub(super) fn asked(arguments: &Arguments) -> Result<Option<Asked<'_>>, Failure> {
    let Some(path) = arguments.path("snp-firmware") else {
        let alone = ["vcpus", "vcpu-type", "guest-features", "append"].into_iter().find(|flag| arguments.has(flag));
        return match alone {
            Some(flag) => Err(Failure::usage(format!("--{flag} needs --snp-firmware"))),
            None => Ok(None),
        };
    };
    let (append, has_append) = (arguments.text("append")?.unwrap_or_default(), arguments.has("append"));
    Ok(Some(Asked { path, guests: guests(arguments, path)?, append, has_append }))
}

/// The digests. `uki` is that of what a direct boot has as its kernel.
pub(super) fn launches(asked: &Asked<'_>, uki: Digest) -> Result<Told, Failure> {
    let Asked { path, guests, append, has_append } = asked;
    let predicted = |direct_boot| guests.launches(direct_boot).map_err(|error| unusable(path, &error));
    let mut launches = predicted(None)?;
    let takes_kernel_hashes = guests.firmware().takes_kernel_hashes();
    // Asked for, a direct boot with a firmware that cannot check it is refused.
    if takes_kernel_hashes || *has_append {
        let hashes = KernelHashes::of_digest(uki, &[], append).map_err(|error| unusable(path, &error))?;
        launches.extend(predicted(Some(&hashes))?);
    }
    let (cpu, features) = (guests.cpu(), guests.features());
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "\nas an SEV-SNP guest of QEMU, firmware {}, {cpu}, features {features}\n{}",
        path.display(),
        table(&launches)
    );
    let json = json!({
        "vmm": Vmm::Qemu.to_string(), "vcpu_signature": cpu.signature().to_string(), "append": append,
        "takes_kernel_hashes": takes_kernel_hashes, "digests": launches,
    });
    Ok(Told { text, json })
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

/// What is measured beside the image.
fn guests(arguments: &Arguments, firmware: &Path) -> Result<Guests, Failure> {
    let number = |text: &str| {
        text.parse().map_err(|_| Failure::usage(format!("--vcpus {text}: expected 1 to {}", SnpGuest::MAX_VCPUS)))
    };
    let vcpus = arguments.texts("vcpus")?.into_iter().flat_map(|list| list.split(','));
    let vcpus: Vec<u32> = vcpus.map(number).collect::<Result<_, _>>()?;
    let vcpus = if vcpus.is_empty() { vec![DEFAULT_VCPUS] } else { vcpus };
    let cpu = arguments.text("vcpu-type")?.map_or_else(|| Ok(CpuName::default()), str::parse);
    let cpu = cpu.map_err(|error| Failure::usage(format!("--vcpu-type: {error}")))?;
    let features = arguments.value("guest-features")?.unwrap_or_default();
    let file = files::read(firmware, Firmware::MAX_SIZE)?;
    Guests::new(&file, vcpus, cpu, features).map_err(|error| unusable(firmware, &error))
}

fn unusable(path: &Path, error: &LaunchError) -> Failure {
    let what = format!("no launch digest is predicted for {}", path.display());
    let failure = Failure::new(Exit::Usage, CommandCode::LaunchUnpredictable, what).because(error.to_string());
    match error.fix() {
        Some(fix) => failure.fix(fix),
        None => failure,
    }
}

/// QEMU's own.
const DEFAULT_VCPUS: u32 = 1;
