//! `revisions.json`: the newest revision of each reference manifest that was ever accepted here. What is older is a rollback.
//!
//! ```json
//! {"version": 1, "manifests": {"demo": {"serial": 1795000000, "sha256": "<64 hex digits>", "at": 1795000100}}}
//! ```

use crate::cluster::{VERSION, check_version};
use crate::error::ContentError;
use latchkey_attestation::reference::{ManifestName, Revision};
use latchkey_attestation::{AuthenticManifest, Digest, References, Refusal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// As many manifests as a directory may hold, many times over. Names that are not in use any more stay.
const MAX_MANIFESTS: usize = 1024;

/// The newest revision of each manifest that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revisions {
    version: u64,
    manifests: BTreeMap<ManifestName, Accepted>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Accepted {
    serial: u64,
    sha256: Digest,
    /// Seconds since the Unix epoch.
    at: u64,
}

impl Revisions {
    /// Before anything was accepted.
    pub fn none() -> Self {
        Self { version: VERSION, manifests: BTreeMap::new() }
    }

    /// Reads their JSON.
    ///
    /// # Errors
    /// [`ContentError`].
    pub fn parse(json: &[u8]) -> Result<Self, ContentError> {
        check_version(json)?;
        let revisions: Self = serde_json::from_slice(json).map_err(ContentError::Syntax)?;
        revisions.check()?;
        Ok(revisions)
    }

    fn check(&self) -> Result<(), ContentError> {
        if self.manifests.len() <= MAX_MANIFESTS {
            return Ok(());
        }
        Err(ContentError::Rule(format!("more than {MAX_MANIFESTS} manifests are remembered; remove those long gone")))
    }

    /// Whether the manifest is no older than the revision that is remembered.
    ///
    /// # Errors
    /// `reference-rolled-back`, `reference-serial-reused`.
    pub fn check_follows(&self, manifest: &AuthenticManifest) -> Result<(), Refusal> {
        match self.manifests.get(manifest.values().name()) {
            None => Ok(()),
            Some(&Accepted { serial, sha256, .. }) => manifest.check_follows(&Revision { serial, sha256 }),
        }
    }

    /// Whether exactly these revisions are the newest that are remembered.
    pub fn has_all(&self, references: &References) -> bool {
        references.iter().all(|manifest| {
            let Revision { serial, sha256 } = manifest.revision();
            let known = self.manifests.get(manifest.values().name());
            known.is_some_and(|accepted| (accepted.serial, accepted.sha256) == (serial, sha256))
        })
    }

    /// Remembers the manifest if it is newer; whether it was.
    ///
    /// # Errors
    /// Those of [`Self::check_follows`]; too many manifests.
    pub fn accept(&mut self, manifest: &AuthenticManifest, now: u64) -> Result<bool, ContentError> {
        self.check_follows(manifest)?;
        let Revision { serial, sha256 } = manifest.revision();
        let name = manifest.values().name();
        if self.manifests.get(name).is_some_and(|accepted| accepted.serial == serial) {
            return Ok(false);
        }
        self.manifests.insert(name.clone(), Accepted { serial, sha256, at: now });
        self.check()?;
        Ok(true)
    }

    /// Remembers the manifest, whatever was remembered of its name.
    ///
    /// # Errors
    /// Too many manifests.
    pub fn replace(&mut self, manifest: &AuthenticManifest, now: u64) -> Result<(), ContentError> {
        let Revision { serial, sha256 } = manifest.revision();
        self.manifests.insert(manifest.values().name().clone(), Accepted { serial, sha256, at: now });
        self.check()
    }

    /// Their JSON, for a file or an object.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}
