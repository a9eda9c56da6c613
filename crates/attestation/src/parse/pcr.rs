//! Platform configuration registers: which ones, their values, and what is measured into them.

use std::collections::BTreeMap;
use std::fmt;

use latchkey_tpm::wire::{self, PcrSelection};
use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::parse::{Digest, each_once};
use crate::refusal::ReasonCode;

/// A set of PCR indices 0 to 23; in JSON an ascending array without duplicates.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PcrSet(u32);

impl PcrSet {
    /// TCG PC Client Platform TPM Profile 1.05, section 4.6: "a minimum of 24 PCRs".
    pub const COUNT: u8 = 24;

    /// The set without PCRs.
    pub const EMPTY: Self = Self(0);

    /// Every PCR.
    pub const fn all() -> Self {
        Self((1 << Self::COUNT) - 1)
    }

    /// The set of `indices`; `None` when one is above 23 or there twice.
    pub fn of(indices: &[u8]) -> Option<Self> {
        indices.iter().try_fold(Self::EMPTY, |set, &index| (!set.contains(index)).then(|| set.with(index)).flatten())
    }

    /// This set with `index` added; `None` when it is above 23.
    #[must_use]
    pub fn with(self, index: u8) -> Option<Self> {
        (index < Self::COUNT).then(|| Self(self.0 | 1 << index))
    }

    /// Whether `index` is in the set.
    pub fn contains(self, index: u8) -> bool {
        index < Self::COUNT && self.0 & (1 << index) != 0
    }

    /// Whether there is no PCR in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// PCRs in either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// PCRs in both sets.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// PCRs of this set that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// As `TPM2_Quote` takes it; `None` for the empty set.
    pub fn selection(self) -> Option<PcrSelection> {
        PcrSelection::from_bits(self.0).ok()
    }

    /// The indices, ascending.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..Self::COUNT).filter(move |&index| self.contains(index))
    }
}

impl From<PcrSelection> for PcrSet {
    fn from(selection: PcrSelection) -> Self {
        Self(selection.bits())
    }
}

impl fmt::Display for PcrSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for PcrSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for PcrSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for PcrSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(SetVisitor)
    }
}

struct SetVisitor;

impl<'de> Visitor<'de> for SetVisitor {
    type Value = PcrSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ascending PCR indices 0 to 23 without duplicates")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<PcrSet, A::Error> {
        let mut set = PcrSet::EMPTY;
        let mut last = None;
        while let Some(index) = sequence.next_element::<u8>()? {
            if last.is_some_and(|last| index <= last) {
                return Err(A::Error::custom(format_args!("PCR {index} is there twice or out of order")));
            }
            last = Some(index);
            set = set.with(index).ok_or_else(|| A::Error::custom(format_args!("there is no PCR {index}")))?;
        }
        Ok(set)
    }
}

/// Values of PCRs in the SHA-256 bank; in JSON an object from decimal index to hexadecimal value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PcrValues(wire::PcrValues);

impl PcrValues {
    /// The values by index; `None` when an index is above 23.
    pub fn new(values: wire::PcrValues) -> Option<Self> {
        values.keys().all(|&index| index < PcrSet::COUNT).then_some(Self(values))
    }

    /// The value of one PCR.
    pub fn value(&self, index: u8) -> Option<Digest> {
        self.0.get(&index).copied().map(Digest)
    }

    /// The values of those of these PCRs that have one here.
    #[must_use]
    pub fn of(&self, set: PcrSet) -> Self {
        Self(self.0.iter().filter(|(index, _)| set.contains(**index)).map(|(&index, &value)| (index, value)).collect())
    }

    /// The same, with the values of `others` for PCRs that have none here.
    #[must_use]
    pub fn or(&self, others: &Self) -> Self {
        Self(others.0.iter().chain(&self.0).map(|(&index, &value)| (index, value)).collect())
    }

    /// PCRs that have a value in both, and not the same.
    pub fn differing(&self, other: &Self) -> PcrSet {
        let differs = |(index, value): &(u8, Digest)| other.value(*index).is_some_and(|other| other != *value);
        self.iter().filter(differs).fold(PcrSet::EMPTY, |set, (index, _)| set.with(index).unwrap_or(set))
    }

    /// Which PCRs have a value here.
    pub fn set(&self) -> PcrSet {
        PcrSet(self.0.keys().fold(0, |bits, &index| bits | 1 << index))
    }

    /// Index and value, ascending by index.
    pub fn iter(&self) -> impl Iterator<Item = (u8, Digest)> + '_ {
        self.0.iter().map(|(&index, &value)| (index, Digest(value)))
    }

    /// By index, as the TPM's structures want them.
    pub fn as_map(&self) -> &wire::PcrValues {
        &self.0
    }
}

impl Serialize for PcrValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (index, value) in self.iter() {
            map.serialize_entry(&index.to_string(), &value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for PcrValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = by_index::<D, Digest>(deserializer)?;
        Ok(Self(values.into_iter().map(|(index, Digest(value))| (index, value)).collect()))
    }
}

/// Reads an object keyed by canonical decimal PCR index, refusing duplicates and anything that is no PCR.
pub(crate) fn by_index<'de, D, T>(deserializer: D) -> Result<BTreeMap<u8, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let values = each_once::<D, PcrIndex, T>(deserializer)?;
    Ok(values.into_iter().map(|(PcrIndex(index), value)| (index, value)).collect())
}

/// The key of such an object.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PcrIndex(u8);

impl fmt::Display for PcrIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PCR {}", self.0)
    }
}

impl<'de> Deserialize<'de> for PcrIndex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let key = String::deserialize(deserializer)?;
        canonical_index(&key).map(Self).ok_or_else(|| D::Error::custom(format_args!("{key:?} is no PCR")))
    }
}

fn canonical_index(text: &str) -> Option<u8> {
    (0..PcrSet::COUNT).find(|index| index.to_string() == text)
}

/// What is measured into a PCR: the word an operator can act on.
///
/// Sources: TCG PC Client Platform Firmware Profile 1.06, section 3.3.4 (PCR 0 to 7); the UAPI group's "Linux TPM PCR
/// Registry" (PCR 8 to 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    /// PCR 0, 1, 2, 3, 6: firmware code and configuration, option ROMs.
    Firmware,
    /// PCR 4: boot loader, unified kernel image.
    BootLoader,
    /// PCR 5: partition table and boot manager configuration.
    PartitionTable,
    /// PCR 7: Secure Boot state, keys and authorities.
    SecureBoot,
    /// PCR 8: commands of another boot loader.
    OtherLoader,
    /// PCR 9: kernel command line and initrd, as the kernel's EFI stub measures them.
    CommandLine,
    /// PCR 10: the kernel's integrity measurement architecture.
    Ima,
    /// PCR 11: sections of the unified kernel image.
    Image,
    /// PCR 12: overriding command line, credentials, add-ons.
    Overrides,
    /// PCR 13: system extensions.
    Extensions,
    /// PCR 14: machine owner keys of shim.
    Mok,
    /// PCR 15: the node lock.
    NodeLock,
    /// PCR 16 to 23: debugging, dynamic launch, applications.
    Other,
}

impl Component {
    /// What PCR `index` holds.
    pub fn of(index: u8) -> Self {
        match index {
            0..=3 | 6 => Self::Firmware,
            4 => Self::BootLoader,
            5 => Self::PartitionTable,
            7 => Self::SecureBoot,
            8 => Self::OtherLoader,
            9 => Self::CommandLine,
            10 => Self::Ima,
            11 => Self::Image,
            12 => Self::Overrides,
            13 => Self::Extensions,
            14 => Self::Mok,
            15 => Self::NodeLock,
            _ => Self::Other,
        }
    }

    /// For humans, in the middle of a sentence.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Firmware => "firmware code or configuration",
            Self::BootLoader => "boot loader or unified kernel image",
            Self::PartitionTable => "partition table",
            Self::SecureBoot => "Secure Boot state",
            Self::OtherLoader => "another boot loader",
            Self::CommandLine => "kernel command line or initrd",
            Self::Ima => "kernel file measurements",
            Self::Image => "sections of the unified kernel image",
            Self::Overrides => "command-line override or credentials",
            Self::Extensions => "system extensions",
            Self::Mok => "machine owner keys",
            Self::NodeLock => "node lock",
            Self::Other => "nothing of a measured boot",
        }
    }

    /// The reason code for a difference in this component. The node lock has its own three codes, decided elsewhere.
    pub(crate) fn reason(self) -> ReasonCode {
        match self {
            Self::Firmware => ReasonCode::FirmwareDiffers,
            Self::BootLoader => ReasonCode::BootLoaderDiffers,
            Self::PartitionTable => ReasonCode::PartitionTableDiffers,
            Self::SecureBoot => ReasonCode::SecureBootDiffers,
            Self::OtherLoader => ReasonCode::OtherLoaderDiffers,
            Self::CommandLine => ReasonCode::CommandLineDiffers,
            Self::Ima => ReasonCode::ImaDiffers,
            Self::Image => ReasonCode::ImageDiffers,
            Self::Overrides => ReasonCode::OverridesDiffer,
            Self::Extensions => ReasonCode::ExtensionsDiffer,
            Self::Mok => ReasonCode::MokDiffers,
            Self::NodeLock => ReasonCode::LockedToAnotherCluster,
            Self::Other => ReasonCode::OtherPcrDiffers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_with_duplicate_unsorted_or_foreign_indices_is_refused() {
        for json in ["[4,4]", "[9,4]", "[24]", "[-1]", "[4.0]", "[\"4\"]", "[256]", "{}", "null"] {
            assert!(serde_json::from_str::<PcrSet>(json).is_err(), "{json}");
        }
        assert_eq!(serde_json::from_str::<PcrSet>("[0,15,23]").unwrap(), PcrSet::of(&[0, 15, 23]).unwrap());
        assert_eq!(PcrSet::of(&[4, 4]), None);
        assert_eq!(PcrSet::of(&[24]), None);
    }

    #[test]
    fn values_with_duplicate_or_noncanonical_keys_or_digests_are_refused() {
        let zero = "0".repeat(64);
        let upper = "A".repeat(64);
        for json in [
            format!(r#"{{"4":"{zero}","4":"{zero}"}}"#),
            format!(r#"{{"04":"{zero}"}}"#),
            format!(r#"{{"24":"{zero}"}}"#),
            format!(r#"{{" 4":"{zero}"}}"#),
            format!(r#"{{"4":"{upper}"}}"#),
            format!(r#"{{"4":"{zero}00"}}"#),
            r#"{"4":""}"#.to_owned(),
            r#"{"4":null}"#.to_owned(),
        ] {
            assert!(serde_json::from_str::<PcrValues>(&json).is_err(), "{json}");
        }
    }

    #[test]
    fn values_survive_a_round_trip() {
        let values = PcrValues::new([(4, [1; 32]), (11, [0xab; 32]), (15, [0; 32])].into()).unwrap();
        let json = serde_json::to_string(&values).unwrap();
        assert_eq!(serde_json::from_str::<PcrValues>(&json).unwrap(), values);
    }
}
