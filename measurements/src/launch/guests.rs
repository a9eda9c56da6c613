//! The SEV-SNP guests that a type of machine has, and the launch digests that each of them will report.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use latchkey_attestation::Digest;
use latchkey_attestation::reference::{LaunchDigest, SnpLaunch};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::hashes::Table;
use super::{CpuSignature, Firmware, GuestFeatures, KernelHashes, LaunchError, SnpGuest};

/// Which guests, as the description of a type of machine says it. Closed JSON, in the words of
/// `latchkey measure image --snp-firmware`:
///
/// ```json
/// {"firmware": "OVMF.amdsev.fd", "vcpus": [1, 2, 4], "vcpu_type": "EPYC-v4", "guest_features": "0x1", "kernel_hashes": true}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestType {
    /// The file that QEMU gets with `-bios`.
    pub firmware: PathBuf,
    /// How many processors guests have, `-smp`: 1 to 64 different numbers.
    pub vcpus: Vec<u32>,
    /// Their model, `-cpu` [`EPYC-v4`](CpuName::default).
    #[serde(default)]
    pub vcpu_type: CpuName,
    /// `SEV_FEATURES`, in hexadecimal [`0x1`](GuestFeatures::default).
    #[serde(default, with = "as_text")]
    pub guest_features: GuestFeatures,
    /// Whether QEMU puts the hashes of a direct boot into the launch (`kernel-hashes=on`): the unified kernel image as
    /// `-kernel`, no `-initrd`, no `-append`. There is no default: without them, a launch digest names no image.
    pub kernel_hashes: bool,
}

/// A processor model's name as `-cpu` has it, or its signature as `0x…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuName {
    name: String,
    signature: CpuSignature,
}

impl CpuName {
    /// The processor that it names.
    pub const fn signature(&self) -> CpuSignature {
        self.signature
    }
}

/// What QEMU's and AMD's guides start SNP guests with.
impl Default for CpuName {
    fn default() -> Self {
        let signature = CpuSignature::EPYC;
        Self { name: "EPYC-v4".to_owned(), signature }
    }
}

impl FromStr for CpuName {
    type Err = super::UnknownCpuError;

    fn from_str(name: &str) -> Result<Self, super::UnknownCpuError> {
        Ok(Self { name: name.to_owned(), signature: name.parse()? })
    }
}

impl fmt::Display for CpuName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Serialize for CpuName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        as_text::deserialize(deserializer)
    }
}

/// Guests with their firmware read and measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guests {
    firmware: Firmware,
    firmware_sha256: Digest,
    vcpus: Vec<u32>,
    cpu: CpuName,
    features: GuestFeatures,
}

impl Guests {
    /// As many numbers of processors as one description has.
    pub const MAX_SIZES: usize = 64;

    /// Guests with this firmware file. `vcpus` has 1 to [`Self::MAX_SIZES`] numbers, none of them twice.
    ///
    /// # Errors
    /// [`LaunchError`]: no firmware of an SNP guest, or a number of processors that no guest has.
    pub fn new(file: &[u8], vcpus: Vec<u32>, cpu: CpuName, features: GuestFeatures) -> Result<Self, LaunchError> {
        if vcpus.is_empty() || vcpus.len() > Self::MAX_SIZES {
            return Err(LaunchError::Sizes { count: vcpus.len(), limit: Self::MAX_SIZES });
        }
        let limit = SnpGuest::MAX_VCPUS;
        for (at, &count) in vcpus.iter().enumerate() {
            if count == 0 || count > limit {
                return Err(LaunchError::VcpuCount { count, limit });
            }
            if vcpus.iter().take(at).any(|&earlier| earlier == count) {
                return Err(LaunchError::SizeTwice(count));
            }
        }
        let firmware = Firmware::parse(file)?;
        let firmware_sha256 = Digest(latchkey_boot_formats::sha256(&[file]));
        Ok(Self { firmware, firmware_sha256, vcpus, cpu, features })
    }

    /// Whether the firmware checks the hashes of a direct boot that QEMU hands it, where they are measured.
    ///
    /// # Errors
    /// [`LaunchError`]: it has no page for them, or another one than it says.
    pub fn check_kernel_hashes(&self) -> Result<(), LaunchError> {
        KernelHashes::of(&[], &[], "").and_then(|hashes| Table::of(&self.firmware, &hashes)).map(drop)
    }

    /// The digest of each guest: [`SnpGuest::digest`], as a manifest has it, in the order of their processors as given.
    ///
    /// # Errors
    /// [`LaunchError`]: a direct boot with a firmware that has no page for its hashes.
    pub fn launches(&self, direct_boot: Option<&KernelHashes>) -> Result<Vec<SnpLaunch>, LaunchError> {
        let launch = |&vcpus: &u32| {
            let guest = SnpGuest {
                firmware: &self.firmware,
                vcpus,
                cpu: self.cpu.signature,
                features: self.features,
                direct_boot,
            };
            Ok(SnpLaunch {
                digest: LaunchDigest(guest.digest()?),
                firmware_sha256: self.firmware_sha256,
                kernel_hashes: direct_boot.is_some(),
                vcpus,
                vcpu_type: self.cpu.name.clone(),
                guest_features: self.features.bits(),
            })
        };
        self.vcpus.iter().map(launch).collect()
    }

    /// The firmware.
    pub fn firmware(&self) -> &Firmware {
        &self.firmware
    }

    /// The processors' name.
    pub fn cpu(&self) -> &CpuName {
        &self.cpu
    }

    /// `SEV_FEATURES`.
    pub fn features(&self) -> GuestFeatures {
        self.features
    }
}

/// Values that have one text, in JSON as that text.
mod as_text {
    use super::{Deserialize, Deserializer, Error, FromStr, Serializer, fmt};

    pub(super) fn serialize<T: fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        <std::borrow::Cow<'de, str>>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
