//! One image of a manifest.

use serde::{Deserialize, Serialize};

use super::platform_profile::PlatformProfile;
use super::provenance::{Artefact, Provenance};
use super::{first_twice, malformed};
use crate::name::{NAME_RULE, is_name};
use crate::parse::ImageVersion;
use crate::refusal::{ReasonCode, Refusal};

/// An image: its version, when it may run, where its values come from, and what it measures on which machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    name: String,
    version: ImageVersion,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_before: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_after: Option<u64>,
    source: Source,
    provenance: Provenance,
    machines: Vec<PlatformProfile>,
}

impl Image {
    /// An image that may run at any time, with the values of 1 to 32 machine types. Checked when it becomes part of a
    /// manifest.
    pub fn new(
        name: &str,
        version: ImageVersion,
        source: Source,
        provenance: Provenance,
        machines: Vec<PlatformProfile>,
    ) -> Self {
        Self { name: name.to_owned(), version, not_before: None, not_after: None, source, provenance, machines }
    }

    /// The same image, admitted only between these times (seconds since the Unix epoch, both included).
    #[must_use]
    pub fn valid_between(self, not_before: Option<u64>, not_after: Option<u64>) -> Self {
        Self { not_before, not_after, ..self }
    }

    /// The same image with these types of machines.
    #[must_use]
    pub fn with_machines(self, machines: Vec<PlatformProfile>) -> Self {
        Self { machines, ..self }
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

    /// Whether the values were recorded or predicted.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Who made the image, or its values, and from what.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// The files it was made from, with their hashes: the provenance's `resolvedDependencies`.
    pub fn sources(&self) -> &[Artefact] {
        self.provenance.sources()
    }

    /// What it measures, by machine type.
    pub fn machines(&self) -> &[PlatformProfile] {
        &self.machines
    }

    /// The machine type of this name.
    pub fn machine(&self, name: &str) -> Option<&PlatformProfile> {
        self.machines.iter().find(|machine| machine.name() == name)
    }

    /// Name and version, for people.
    pub fn label(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        if !is_name(&self.name) {
            return Err(malformed(format!("{:?} is no name of an image: {NAME_RULE}", self.name)));
        }
        let label = self.label();
        let wrong = |detail: &str| Err(malformed(format!("image {label}: {detail}")));
        if let (Some(from), Some(until)) = (self.not_before, self.not_after)
            && from > until
        {
            return wrong("`not_after` lies before `not_before`");
        }
        if self.machines.is_empty() {
            return Err(Refusal::new(ReasonCode::ReferenceEmpty, format!("image {label} lists no machine")));
        }
        if self.machines.len() > MAX_MACHINES {
            return wrong(&format!("{} machines, at most {MAX_MACHINES} are read", self.machines.len()));
        }
        if let Some(machine) = first_twice(&self.machines, |a, b| a.name() == b.name()) {
            return wrong(&format!("machine {} is listed twice", machine.name()));
        }
        self.machines.iter().try_for_each(|machine| machine.check(&label))?;
        self.provenance.check(&self.name, self.version)
    }
}

/// Where reference values come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Read from a machine whose boot somebody vouched for.
    Recorded,
    /// Computed from the image's files.
    Predicted,
}

impl Source {
    /// The word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Predicted => "predicted",
        }
    }
}

/// A version of an image that must not run any more, whatever else its manifest says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    /// Name of the image.
    pub name: String,
    /// Version of the image.
    pub version: ImageVersion,
    /// Why, in 1 to 256 characters without line breaks: the refusal quotes it.
    pub why: String,
}

impl Revocation {
    pub(super) fn check(&self) -> Result<(), Refusal> {
        if !is_name(&self.name) {
            return Err(malformed(format!("revoked: {:?} is no name of an image: {NAME_RULE}", self.name)));
        }
        if self.why.trim().is_empty() || self.why.len() > MAX_WHY || self.why.contains(char::is_control) {
            let detail =
                format!("revoked {} {}: `why` must be 1 to {MAX_WHY} bytes on one line", self.name, self.version);
            return Err(malformed(detail));
        }
        Ok(())
    }
}

const MAX_MACHINES: usize = 32;
const MAX_WHY: usize = 256;
