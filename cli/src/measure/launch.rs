//! `latchkey measure image --snp-firmware`: what an SEV-SNP guest with this firmware will report as its launch digest.

use std::fmt::Write as _;
use std::path::Path;

use latchkey_measurements::launch::{CpuSignature, Firmware, GuestFeatures, KernelHashes, LaunchError, SnpGuest, Vmm};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::files;
use crate::output::Table;
use crate::spec::Arguments;

/// The digests: text, and their part of the JSON.
pub(super) struct Told {
    pub(super) text: String,
    pub(super) json: Value,
}

/// Everything about `--snp-firmware`; `None` without it. `uki` is what a direct boot has as its kernel.
pub(super) fn launches(arguments: &Arguments, uki: &[u8]) -> Result<Option<Told>, Failure> {
    let Some(path) = arguments.path("snp-firmware") else {
        let alone = ["vcpus", "vcpu-type", "guest-features", "append"].into_iter().find(|flag| arguments.has(flag));
        return match alone {
            Some(flag) => Err(Failure::usage(format!("--{flag} needs --snp-firmware"))),
            None => Ok(None),
        };
    };
    let guest = Guest::read(arguments)?;
    let file = files::read(path, Firmware::MAX_SIZE)?;
    let firmware = Firmware::parse(&file).map_err(|error| unusable(path, &error))?;
    let mut boots = vec![("firmware", None)];
    // Asked for, a direct boot with a firmware that cannot check it is refused below.
    if firmware.takes_kernel_hashes() || arguments.has("append") {
        let hashes = KernelHashes::of(uki, &[], &guest.append).map_err(|error| unusable(path, &error))?;
        boots.push(("kernel-hashes", Some(hashes)));
    }
    let mut told = Table::new(&["VCPUS", "BOOT", "LAUNCH DIGEST, SHA-384"]);
    let mut digests = Vec::new();
    for &vcpus in &guest.vcpus {
        for (boot, hashes) in &boots {
            let Guest { cpu, features, .. } = guest;
            let snp = SnpGuest { firmware: &firmware, vcpus, cpu, features, direct_boot: hashes.as_ref() };
            let launch = snp.reference(&guest.cpu_name).map_err(|error| unusable(path, &error))?;
            told.row([vcpus.to_string(), (*boot).to_owned(), launch.digest.to_string()]);
            digests.push(json!({"boot": boot, "launch": launch}));
        }
    }
    let mut text = String::new();
    let Guest { cpu, cpu_name, features, append, .. } = &guest;
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "\nas an SEV-SNP guest of QEMU, firmware {}, {cpu_name}, features {features}\n{told}",
        path.display()
    );
    let json = json!({
        "vmm": Vmm::Qemu.to_string(), "vcpu_signature": cpu.to_string(), "append": append,
        "takes_kernel_hashes": firmware.takes_kernel_hashes(), "digests": digests,
    });
    Ok(Some(Told { text, json }))
}

/// What is measured beside firmware and image.
struct Guest {
    vcpus: Vec<u32>,
    cpu: CpuSignature,
    cpu_name: String,
    features: GuestFeatures,
    append: String,
}

impl Guest {
    fn read(arguments: &Arguments) -> Result<Self, Failure> {
        let number = |text: &str| {
            text.parse().map_err(|_| Failure::usage(format!("--vcpus {text}: expected 1 to {}", SnpGuest::MAX_VCPUS)))
        };
        let vcpus = arguments.texts("vcpus")?.into_iter().flat_map(|list| list.split(','));
        let vcpus: Vec<u32> = vcpus.map(number).collect::<Result<_, _>>()?;
        Ok(Self {
            vcpus: if vcpus.is_empty() { vec![DEFAULT_VCPUS] } else { vcpus },
            cpu: arguments
                .value("vcpu-type")?
                .map_or_else(|| DEFAULT_CPU.parse(), Ok)
                .map_err(|error| Failure::usage(format!("--vcpu-type: {error}")))?,
            cpu_name: arguments.text("vcpu-type")?.unwrap_or(DEFAULT_CPU).to_owned(),
            features: arguments.value("guest-features")?.unwrap_or_default(),
            append: arguments.text("append")?.unwrap_or_default().to_owned(),
        })
    }
}

fn unusable(path: &Path, error: &LaunchError) -> Failure {
    let what = format!("no launch digest is predicted for {}", path.display());
    let failure = Failure::new(Exit::Usage, "launch-unpredictable", what).because(error.to_string());
    match error.fix() {
        Some(fix) => failure.fix(fix),
        None => failure,
    }
}

/// QEMU's own.
const DEFAULT_VCPUS: u32 = 1;
/// What QEMU's and AMD's guides start SNP guests with.
const DEFAULT_CPU: &str = "EPYC-v4";
