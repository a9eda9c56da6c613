//! The operator's word on a machine that waited.

use super::rules::Wanted;
use crate::cluster::{VERSION, check_version};
use crate::error::ContentError;
use latchkey_attestation::EkDigest;
use latchkey_factory_plus::Uuid;
use latchkey_keys::Uuid as Disk;
use serde::{Deserialize, Serialize};

/// `admitted/EK-DIGEST.json`: this machine registers this cluster, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admitted {
    /// Schema: 1.
    pub version: u64,
    /// What records call this word; random, so that each counts once.
    pub id: Uuid,
    /// The machine; also the file's name.
    pub ek_sha256: EkDigest,
    /// The disk that it showed while it waited: a later cluster of the machine is another one.
    pub disk: Disk,
    /// The cluster.
    pub cluster: Wanted,
    /// When it was said, in seconds since the Unix epoch.
    pub at: u64,
}

impl Admitted {
    /// The word that this machine registers this cluster.
    pub fn new(ek_sha256: EkDigest, disk: Disk, cluster: Wanted, at: u64) -> Self {
        Self { version: VERSION, id: Uuid::random(), ek_sha256, disk, cluster, at }
    }

    /// Reads the file's JSON.
    ///
    /// # Errors
    /// [`ContentError`].
    pub fn parse(json: &[u8]) -> Result<Self, ContentError> {
        check_version(json)?;
        let admitted: Self = serde_json::from_slice(json).map_err(ContentError::Syntax)?;
        admitted.cluster.check()?;
        Ok(admitted)
    }
}
