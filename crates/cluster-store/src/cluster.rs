//! `cluster.json`: what a cluster is.

use crate::counted::CountedDenials;
use crate::error::ContentError;
use latchkey_keys::{ClusterId, KeyError, MasterSecret, Secret};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Versions of files in the directory.
pub(crate) const VERSION: u64 = 1;
/// That of `cluster.json`: it counts denials since. Version 1 is read, and stays as it is until `latchkey upgrade store`.
const COUNTING_VERSION: u64 = 2;
/// That of `cluster.json` while a denial is being taken back, which it names. Without one it is of the version before, which releases
/// that know no other read.
const LEAVING_VERSION: u64 = 3;

/// A cluster that has been initialised. Nothing in it is secret: the cluster id follows from the salt only together with
/// the measurement secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterFile {
    /// Schema: 2; 3 while a denial is being taken back; or 1, of releases that counted no denials.
    pub version: u64,
    /// For people: 1 to 128 printable characters.
    pub name: String,
    /// 64 hex digits. Must follow from measurement secret and salt; the join service checks.
    pub cluster_id: ClusterId,
    /// 64 hex digits.
    #[serde(with = "hex_32")]
    pub measurement_salt: [u8; 32],
    /// The version of the master secret that the measurement secret comes from.
    pub key_version: u32,
    /// Seconds since the Unix epoch.
    pub created_at: u64,
    /// How many machines are shut out; not in version 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denials: Option<CountedDenials>,
}

impl ClusterFile {
    /// The file for a new cluster, in which nobody is shut out.
    pub fn new(
        name: impl Into<String>,
        cluster_id: ClusterId,
        measurement_salt: [u8; 32],
        key_version: u32,
        created_at: u64,
    ) -> Self {
        let denials = Some(CountedDenials::default());
        Self {
            version: COUNTING_VERSION,
            name: name.into(),
            cluster_id,
            measurement_salt,
            key_version,
            created_at,
            denials,
        }
    }

    /// The same file with denials counted so, in this release's version.
    #[must_use]
    pub fn counting(self, denials: CountedDenials) -> Self {
        let version = if denials.leaving.is_empty() { COUNTING_VERSION } else { LEAVING_VERSION };
        Self { version, denials: Some(denials), ..self }
    }

    /// Its JSON, for a file or an object.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The cluster's measurement secret, if this master secret is the cluster's: see [`ClusterId::prove`].
    ///
    /// # Errors
    /// [`KeyError::OtherCluster`].
    pub fn measurement_secret(&self, master: &MasterSecret) -> Result<Secret<32>, KeyError> {
        self.cluster_id.prove(master, self.key_version, &self.measurement_salt)
    }

    /// Reads the file's JSON.
    ///
    /// # Errors
    /// [`ContentError`].
    pub fn parse(json: &[u8]) -> Result<Self, ContentError> {
        check_known(json, 1..=LEAVING_VERSION)?;
        let file: Self = serde_json::from_slice(json).map_err(ContentError::Syntax)?;
        file.check()?;
        Ok(file)
    }

    pub(crate) fn check(&self) -> Result<(), ContentError> {
        if !(1..=LEAVING_VERSION).contains(&self.version) {
            return Err(ContentError::Version { got: self.version, known: LEAVING_VERSION });
        }
        let named = (1..=128).contains(&self.name.chars().count()) && !self.name.chars().any(char::is_control);
        let rule = |sentence: &str| Err(ContentError::Rule(sentence.to_owned()));
        if (self.version >= COUNTING_VERSION) != self.denials.is_some() {
            return rule("`denials` must be there in version 2 and 3, and in no other");
        }
        let is_leaving = self.denials.as_ref().is_some_and(|denials| !denials.leaving.is_empty());
        if (self.version == LEAVING_VERSION) != is_leaving {
            return rule("`denials.leaving` must be there in version 3, and in no other");
        }
        match (named, self.key_version) {
            (false, _) => rule("`name` must have 1 to 128 printable characters"),
            (_, 0) => rule("`key_version` must be 1 or more: versions of a master secret begin at 1"),
            _ => Ok(()),
        }
    }
}

/// Whether a file is of the one version that there is.
pub(crate) fn check_version(json: &[u8]) -> Result<(), ContentError> {
    check_known(json, VERSION..=VERSION)
}

/// Only the version is read first, so that a newer file is refused as newer and not as full of unknown fields.
pub(crate) fn check_known(json: &[u8], known: RangeInclusive<u64>) -> Result<(), ContentError> {
    #[derive(Deserialize)]
    struct VersionOnly {
        version: u64,
    }
    let VersionOnly { version } = serde_json::from_slice(json).map_err(ContentError::Syntax)?;
    if known.contains(&version) {
        return Ok(());
    }
    Err(ContentError::Version { got: version, known: *known.end() })
}

mod hex_32 {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = [0; 32];
        hex::decode_to_slice(&text, &mut bytes).map_err(|_| D::Error::custom("expected 64 hex digits"))?;
        Ok(bytes)
    }
}
