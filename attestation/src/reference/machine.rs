//! What one image measures on one type of machine.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::name::{NAME_RULE, is_name};
use super::{allowed, malformed};
use crate::parse::{Digest, PcrSet, by_index};
use crate::refusal::{ReasonCode, Refusal};

/// A type of machine (firmware, Secure Boot state, devices) and what an image measures on it. Values of two machines never
/// combine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    #[serde(rename = "machine")]
    name: String,
    #[serde(deserialize_with = "by_index")]
    pcrs: BTreeMap<u8, Reference>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    snp_launch: Vec<SnpLaunch>,
}

impl Machine {
    /// A machine type with these values. Checked when its image becomes part of a manifest.
    pub fn new(name: &str, pcrs: BTreeMap<u8, Reference>) -> Self {
        Self { name: name.to_owned(), pcrs, snp_launch: Vec::new() }
    }

    /// Name of the machine type, such as `qemu-q35-ovmf`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is measured, by PCR.
    pub fn pcrs(&self) -> &BTreeMap<u8, Reference> {
        &self.pcrs
    }

    /// The PCRs that the manifest itself says are enforced.
    pub fn enforced(&self) -> PcrSet {
        let enforced = self.pcrs.iter().filter(|(_, reference)| reference.rule == Rule::Enforce);
        enforced.fold(PcrSet::EMPTY, |set, (&index, _)| set.with(index).unwrap_or(set))
    }

    /// SEV-SNP launch digests, one for each number and type of processors. Kept for SNP reports; nothing is decided by
    /// them yet.
    pub fn snp_launch(&self) -> &[SnpLaunch] {
        &self.snp_launch
    }

    pub(super) fn check(&self, image: &str) -> Result<(), Refusal> {
        let wrong = |detail: String| Err(malformed(format!("image {image}: {detail}")));
        if !is_name(&self.name) {
            return wrong(format!("{:?} is no name of a machine: {NAME_RULE}", self.name));
        }
        if let Some(index) = self.pcrs.keys().find(|&&index| !allowed().contains(index)) {
            return wrong(format!("PCR {index} cannot have a reference value"));
        }
        if self.enforced().is_empty() {
            let detail = format!("image {image} enforces no PCR on machine {}", self.name);
            return Err(Refusal::new(ReasonCode::ReferenceEmpty, detail));
        }
        if self.snp_launch.len() > MAX_LAUNCHES {
            return wrong(format!("{} launch digests, at most {MAX_LAUNCHES} are read", self.snp_launch.len()));
        }
        match self.snp_launch.iter().find_map(SnpLaunch::fault) {
            Some(fault) => wrong(fault),
            None => Ok(()),
        }
    }
}

/// The value a PCR must or should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The value in the SHA-256 bank.
    pub value: Digest,
    /// What follows from another value.
    pub rule: Rule,
}

impl Reference {
    /// A value without which there is no admission.
    pub fn enforced(value: Digest) -> Self {
        Self { value, rule: Rule::Enforce }
    }

    /// A value that is only warned about, unless the policy enforces it.
    pub fn warned(value: Digest) -> Self {
        Self { value, rule: Rule::Warn }
    }
}

/// What follows from a differing PCR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Refusal.
    Enforce,
    /// A warning, unless the policy enforces the PCR.
    Warn,
}

/// The launch measurement of a SEV-SNP guest (`MEASUREMENT` of the attestation report; SEV-SNP ABI 1.57, table 23), and
/// what it depends on beside firmware and image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnpLaunch {
    /// SHA-384, 48 bytes.
    pub digest: LaunchDigest,
    /// Processors of the guest, 1 to 4096.
    pub vcpus: u32,
    /// Their model as QEMU calls it, such as `EPYC-v4`: 1 to 64 printable ASCII characters.
    pub vcpu_type: String,
    /// `SEV_FEATURES` of their save areas; bit 0 is SNP itself.
    pub guest_features: u64,
}

impl SnpLaunch {
    fn fault(&self) -> Option<String> {
        if !(1..=MAX_VCPUS).contains(&self.vcpus) {
            return Some(format!("{} vcpus, expected 1 to {MAX_VCPUS}", self.vcpus));
        }
        let named =
            (1..=64).contains(&self.vcpu_type.len()) && self.vcpu_type.bytes().all(|byte| byte.is_ascii_graphic());
        (!named).then(|| "`vcpu_type` must be 1 to 64 printable ASCII characters".to_owned())
    }
}

/// A SHA-384 launch digest; in JSON 96 lower-case hexadecimal digits and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaunchDigest(pub [u8; 48]);

impl LaunchDigest {
    /// Reads 96 lower-case hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let canonical = text.len() == 96 && text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
        let mut bytes = [0; 48];
        (canonical && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(Self(bytes))
    }
}

impl fmt::Display for LaunchDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for LaunchDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for LaunchDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LaunchDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Hex;
        impl Visitor<'_> for Hex {
            type Value = LaunchDigest;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("96 lower-case hexadecimal digits")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<LaunchDigest, E> {
                LaunchDigest::from_hex(text).ok_or_else(|| E::custom("not 96 lower-case hexadecimal digits"))
            }
        }
        deserializer.deserialize_str(Hex)
    }
}

const MAX_LAUNCHES: usize = 256;
/// Far more than a socket has.
const MAX_VCPUS: u32 = 4096;
