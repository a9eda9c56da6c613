//! Launch digests of SEV-SNP guests, with everything they depend on beside the image. Where a policy has a section `snp` a machine's
//! processor must have launched one of them, of the image whose measurements its TPM quotes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::parse::{Digest, LaunchDigest};

/// The launch measurement of a SEV-SNP guest (`MEASUREMENT` of the attestation report; SEV-SNP ABI 1.57, table 23), and
/// what it is computed from beside the image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnpLaunch {
    /// SHA-384, 48 bytes.
    pub digest: LaunchDigest,
    /// SHA-256 of the firmware's file, as QEMU gets it with `-bios`.
    pub firmware_sha256: Digest,
    /// Whether the digests of a direct boot are measured with the firmware. Only then does the launch digest say anything
    /// about the image; without them, the same firmware boots any.
    pub kernel_hashes: bool,
    /// Processors of the guest, 1 to 4096.
    pub vcpus: u32,
    /// Their model as QEMU calls it, such as `EPYC-v4`: 1 to 64 printable ASCII characters.
    pub vcpu_type: String,
    /// `SEV_FEATURES` of their save areas. Bit 0, SNP itself, is set.
    pub guest_features: u64,
}

impl SnpLaunch {
    /// Whether both are about the same guest, so that their digests must be the same too.
    pub(super) fn same_guest(&self, other: &Self) -> bool {
        let guest = |launch: &Self| (launch.firmware_sha256, launch.kernel_hashes, launch.vcpus, launch.guest_features);
        guest(self) == guest(other) && self.vcpu_type == other.vcpu_type
    }

    pub(super) fn problem(&self) -> Option<String> {
        if !(1..=MAX_VCPUS).contains(&self.vcpus) {
            return Some(format!("{} vcpus, expected 1 to {MAX_VCPUS}", self.vcpus));
        }
        if self.guest_features & 1 == 0 {
            return Some(format!("`guest_features` {:#x} without bit 0, which is SNP itself", self.guest_features));
        }
        let named =
            (1..=64).contains(&self.vcpu_type.len()) && self.vcpu_type.bytes().all(|byte| byte.is_ascii_graphic());
        (!named).then(|| "`vcpu_type` must be 1 to 64 printable ASCII characters".to_owned())
    }
}

/// The guest, for people: `4 × EPYC-v4, features 0x1, kernel hashes`.
impl fmt::Display for SnpLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hashes = if self.kernel_hashes { "kernel hashes" } else { "firmware alone" };
        write!(f, "{} × {}, features {:#x}, {hashes}", self.vcpus, self.vcpu_type, self.guest_features)
    }
}

/// As many as QEMU's q35 machine can have.
const MAX_VCPUS: u32 = 4096;
