//! Machines that no invitation and no rule speaks of, and that wait for the operator.

use crate::cluster::{VERSION, check_version};
use crate::error::ContentError;
use latchkey_attestation::EkDigest;
use latchkey_attestation::validate::AdmittedImage;
use latchkey_keys::Uuid as Disk;
use serde::{Deserialize, Serialize};

/// Machines that wait at a time; more than an operator looks at in one go. Those that were silent longest go first.
pub const MAX_HELD: usize = 256;
/// How long a machine's `last_seen` may be behind, seconds: each write costs the disk one.
const STALE: u64 = 60;
/// Characters that are kept of what a machine says of itself.
const MAX_SAID: usize = 253;

/// A machine that waits. TPM and image are proven; what the node says are its own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// Schema: 1.
    pub version: u64,
    /// The TPM; also the file's name.
    pub ek_sha256: EkDigest,
    /// Its state disk, by its own word.
    pub disk: Disk,
    /// The image that it runs: manifest, name and version.
    pub image: String,
    /// Why it waits: a reason code.
    pub why: String,
    /// What its node is called, by its own word; printable.
    pub node_name: String,
    /// The version of its Kubernetes, by its own word; printable.
    pub kubernetes_version: String,
    /// Seconds since the Unix epoch.
    pub first_seen: u64,
    /// Seconds since the Unix epoch; at most a minute old while it asks.
    pub last_seen: u64,
}

impl Held {
    /// A machine that asks now, in seconds since the Unix epoch.
    pub fn new(
        ek: EkDigest,
        disk: Disk,
        image: &AdmittedImage,
        why: &str,
        (node, kubernetes): (&str, &str),
        now: u64,
    ) -> Self {
        Self {
            version: VERSION,
            ek_sha256: ek,
            disk,
            image: format!("{}/{} {}", image.manifest, image.name, image.version),
            why: why.to_owned(),
            node_name: shown(node),
            kubernetes_version: shown(kubernetes),
            first_seen: now,
            last_seen: now,
        }
    }

    /// What people call it by: the first 16 digits of the key's digest.
    pub fn reference(&self) -> String {
        self.ek_sha256.to_string().chars().take(16).collect()
    }

    /// Reads the file's JSON.
    ///
    /// # Errors
    /// [`ContentError`].
    pub fn parse(json: &[u8]) -> Result<Self, ContentError> {
        check_version(json)?;
        serde_json::from_slice(json).map_err(ContentError::Syntax)
    }

    /// What is to be written in the place of what was known; `None` where that is not worth a write.
    pub(super) fn following(&self, before: Option<&Self>) -> Option<Self> {
        let first_seen = before.map_or(self.first_seen, |before| before.first_seen.min(self.first_seen));
        let next = Self { first_seen, ..self.clone() };
        let known = before.is_some_and(|before| {
            let same = Self { last_seen: before.last_seen, ..next.clone() } == *before;
            same && self.last_seen < before.last_seen.saturating_add(STALE)
        });
        (!known).then_some(next)
    }
}

/// Ends on terminals.
fn shown(text: &str) -> String {
    latchkey_reason::printable(text).take(MAX_SAID).collect()
}
