//! One image of a manifest.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::{allowed, malformed};
use crate::parse::{Digest, ImageVersion, PcrSet, by_index};
use crate::refusal::{ReasonCode, Refusal};

/// An image: its version, when it may run, and what it measures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    name: String,
    version: ImageVersion,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_before: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_after: Option<u64>,
    #[serde(deserialize_with = "by_index")]
    pcrs: BTreeMap<u8, Reference>,
}

impl Image {
    /// An image that may run at any time. Checked when it becomes part of a manifest.
    pub fn new(name: &str, version: ImageVersion, pcrs: BTreeMap<u8, Reference>) -> Self {
        Self { name: name.to_owned(), version, not_before: None, not_after: None, pcrs }
    }

    /// The same image, admitted only between these times (seconds since the Unix epoch, both included).
    #[must_use]
    pub fn valid_between(self, not_before: Option<u64>, not_after: Option<u64>) -> Self {
        Self { not_before, not_after, ..self }
    }

    /// Name of the image.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Version of the image.
    pub fn version(&self) -> ImageVersion {
        self.version
    }

    /// First second at which it is admitted.
    pub fn not_before(&self) -> Option<u64> {
        self.not_before
    }

    /// Last second at which it is admitted.
    pub fn not_after(&self) -> Option<u64> {
        self.not_after
    }

    /// What it measures, by PCR.
    pub fn pcrs(&self) -> &BTreeMap<u8, Reference> {
        &self.pcrs
    }

    /// The PCRs that the image itself says are enforced.
    pub fn enforced(&self) -> PcrSet {
        let enforced = self.pcrs.iter().filter(|(_, reference)| reference.rule == Rule::Enforce);
        enforced.fold(PcrSet::EMPTY, |set, (&index, _)| set.with(index).unwrap_or(set))
    }

    /// Name and version, for people.
    pub fn label(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        if !is_name(&self.name) {
            return Err(malformed(format!("{:?} is no name of an image: {NAME_RULE}", self.name)));
        }
        if let Some(index) = self.pcrs.keys().find(|&&index| !allowed().contains(index)) {
            return Err(malformed(format!("image {}: PCR {index} cannot have a reference value", self.label())));
        }
        if self.enforced().is_empty() {
            return Err(Refusal::new(ReasonCode::ReferenceEmpty, format!("image {} enforces no PCR", self.label())));
        }
        match (self.not_before, self.not_after) {
            (Some(from), Some(until)) if from > until => {
                Err(malformed(format!("image {}: `not_after` lies before `not_before`", self.label())))
            }
            _ => Ok(()),
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

/// What follows from a differing PCR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Refusal.
    Enforce,
    /// A warning, unless the policy enforces the PCR.
    Warn,
}

/// Name of a manifest: 1 to 64 of `a-z 0-9 . _ -`, beginning with a letter or digit. Safe as a file name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ManifestName(String);

impl ManifestName {
    /// The name, or `None` when it is none.
    pub fn new(name: &str) -> Option<Self> {
        is_name(name).then(|| Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ManifestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ManifestName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::new(&name).ok_or_else(|| D::Error::custom(format_args!("no name of a manifest: {NAME_RULE}")))
    }
}

fn is_name(text: &str) -> bool {
    let character = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-');
    (1..=64).contains(&text.len())
        && text.bytes().all(character)
        && text.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
}

const NAME_RULE: &str = "1 to 64 of a-z 0-9 . _ -, beginning with a letter or digit";
