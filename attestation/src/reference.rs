//! Reference values: which measurements which image has. Closed, versioned JSON; empty refuses.
//!
//! ```json
//! {
//!   "version": 1,
//!   "name": "demo",
//!   "source": "recorded",
//!   "provenance": {"by": "latchkey 0.1.0 on build-1", "at": 1795000000, "ek_sha256": "<64 hex digits>"},
//!   "images": [{
//!     "name": "latchkey-demo", "version": "1.0.0", "not_before": 1795000000, "not_after": 1830000000,
//!     "pcrs": {"4": {"value": "<64 hex digits>", "rule": "enforce"}, "0": {"value": "…", "rule": "warn"}}
//!   }]
//! }
//! ```
//!
//! The stricter of policy and image wins: a PCR is enforced when either says so.

mod image;
mod set;

use serde::{Deserialize, Serialize};

use crate::parse::{Digest, ImageVersion, PcrSet, from_json};
use crate::policy::Policy;
use crate::refusal::{ReasonCode, Refusal};
use crate::verify::{EkDigest, VerifiedEvidence};

pub use image::{Image, ManifestName, Reference, Rule};
pub use set::References;

/// One manifest: images that may run, with their measurements and where these come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReferenceValues {
    version: u64,
    name: ManifestName,
    source: Source,
    provenance: Provenance,
    images: Vec<Image>,
}

impl ReferenceValues {
    /// Reads a manifest of at most 1 MiB.
    ///
    /// # Errors
    /// `reference-malformed`, `reference-version-unknown`, `reference-empty`.
    pub fn from_json(json: &[u8]) -> Result<Self, Refusal> {
        let VersionOnly { version } = from_json(json, MAX_JSON, ReasonCode::ReferenceMalformed)?;
        if version != VERSION {
            let detail = format!("expected reference version {VERSION}, got {version}");
            return Err(Refusal::new(ReasonCode::ReferenceVersionUnknown, detail));
        }
        let file: ReferenceFile = from_json(json, MAX_JSON, ReasonCode::ReferenceMalformed)?;
        Self::new(file.name, file.source, file.provenance, file.images)
    }

    /// A manifest of these images.
    ///
    /// # Errors
    /// `reference-empty`, `reference-malformed`.
    pub fn new(
        name: ManifestName,
        source: Source,
        provenance: Provenance,
        images: Vec<Image>,
    ) -> Result<Self, Refusal> {
        if images.is_empty() {
            return Err(Refusal::new(ReasonCode::ReferenceEmpty, "`images` lists no image"));
        }
        if images.len() > MAX_IMAGES {
            return Err(malformed(format!("{} images, at most {MAX_IMAGES} are read", images.len())));
        }
        provenance.check()?;
        images.iter().try_for_each(Image::check)?;
        let twice = |(at, image): (usize, &Image)| images.iter().take(at).any(|earlier| earlier == image);
        if let Some((_, image)) = images.iter().enumerate().find(|&candidate| twice(candidate)) {
            return Err(malformed(format!("image {} is listed twice", image.label())));
        }
        Ok(Self { version: VERSION, name, source, provenance, images })
    }

    /// A manifest with one image: what this machine, whose evidence was verified, is running now. The caller states that
    /// the boot was trusted; nothing here can know it.
    ///
    /// `policy` decides which PCRs are taken and whether they are enforced. PCR 15 is the lock's and never taken.
    ///
    /// # Errors
    /// `reference-unfit` when the evidence lacks a PCR of the policy; `reference-malformed` for an unusable name.
    pub fn record(
        manifest: ManifestName,
        image: &str,
        version: ImageVersion,
        evidence: &VerifiedEvidence,
        policy: &Policy,
        by: &str,
        now: u64,
    ) -> Result<Self, Refusal> {
        let reference = |index, rule| match evidence.pcrs().value(index) {
            Some(value) => Ok((index, Reference { value, rule })),
            None => Err(Refusal::new(ReasonCode::ReferenceUnfit, format!("the evidence does not cover PCR {index}"))),
        };
        let enforced = policy.enforce.iter().map(|index| reference(index, Rule::Enforce));
        let warned = policy.warn.iter().map(|index| reference(index, Rule::Warn));
        let pcrs = enforced.chain(warned).collect::<Result<_, _>>()?;
        let provenance = Provenance {
            by: by.to_owned(),
            at: now,
            ek_sha256: Some(evidence.ek_digest()),
            artefacts: std::collections::BTreeMap::new(),
        };
        Self::new(manifest, Source::Recorded, provenance, vec![Image::new(image, version, pcrs)])
    }

    /// The JSON form, for a file.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Name by which policies refer to it.
    pub fn name(&self) -> &ManifestName {
        &self.name
    }

    /// Whether the values were recorded or predicted.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Who made the manifest, when and from what.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// The images.
    pub fn images(&self) -> &[Image] {
        &self.images
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

/// Who made a manifest, when and from what. For people and audits; nothing is decided by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Program and place, at most 256 bytes.
    pub by: String,
    /// Seconds since the Unix epoch.
    pub at: u64,
    /// The machine that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ek_sha256: Option<EkDigest>,
    /// SHA-256 of the files the prediction was computed from, by name; at most 32.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub artefacts: std::collections::BTreeMap<String, Digest>,
}

impl Provenance {
    fn check(&self) -> Result<(), Refusal> {
        let names = self.artefacts.keys().chain([&self.by]);
        if self.artefacts.len() > MAX_ARTEFACTS || names.into_iter().any(|text| text.len() > MAX_TEXT) {
            return Err(malformed("`provenance` is too long"));
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReferenceFile {
    #[expect(dead_code, reason = "checked before the rest is read")]
    version: u64,
    name: ManifestName,
    source: Source,
    provenance: Provenance,
    images: Vec<Image>,
}

/// Only the version is read first, so that a newer file is refused as newer and not as full of unknown fields.
#[derive(Deserialize)]
struct VersionOnly {
    version: u64,
}

fn malformed(detail: impl Into<String>) -> Refusal {
    Refusal::new(ReasonCode::ReferenceMalformed, detail)
}

/// PCRs that a manifest may speak about: all but the lock's.
pub(crate) fn allowed() -> PcrSet {
    let lock = PcrSet::EMPTY.with(Policy::LOCK_PCR).unwrap_or(PcrSet::EMPTY);
    PcrSet::all().without(lock)
}

const VERSION: u64 = 1;
const MAX_JSON: usize = 1024 * 1024;
const MAX_IMAGES: usize = 256;
const MAX_ARTEFACTS: usize = 32;
const MAX_TEXT: usize = 256;
