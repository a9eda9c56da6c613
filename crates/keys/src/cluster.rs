//! The cluster id, and the node lock made of it.

use crate::{IdError, KeyError, KeyVersion, MasterSecret, Secret, derive, label};
use core::fmt;
use core::str::FromStr;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

/// Names one cluster. Public: it is what locked nodes show in PCR 15. Only who knows the measurement secret can make
/// it, so a node that locks on it was let in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterId([u8; 32]);

impl ClusterId {
    /// HKDF-SHA256 over the measurement secret, salted with the cluster's measurement salt.
    ///
    /// # Errors
    /// None in practice: the output length is fixed and in range.
    pub fn derive(measurement_secret: &Secret<32>, measurement_salt: &[u8; 32]) -> Result<Self, KeyError> {
        let mut id = [0; 32];
        derive::hkdf_sha256(measurement_salt, measurement_secret.expose(), &label::cluster_id(), &mut id)?;
        Ok(Self(id))
    }

    /// The measurement secret of this cluster, by a master secret and what is public of the cluster: the proof that the master
    /// secret is the cluster's. Asked before any other key is taken from one.
    ///
    /// # Errors
    /// [`KeyError::OtherCluster`], also where the master secret has no such version.
    pub fn prove(
        &self,
        master: &MasterSecret,
        version: u32,
        measurement_salt: &[u8; 32],
    ) -> Result<Secret<32>, KeyError> {
        let secret = KeyVersion::new(version).and_then(|version| master.measurement_secret(version).ok());
        let of_this = |secret: &Secret<32>| Self::derive(secret, measurement_salt).ok() == Some(*self);
        secret.filter(of_this).ok_or(KeyError::OtherCluster(*self))
    }

    /// From the raw 32 bytes, as they travel in messages.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The raw 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The event that is extended into PCR 15 (`TPM2_PCR_Event`) to lock a node on this cluster.
    pub const fn lock_event(&self) -> &[u8; 32] {
        &self.0
    }

    /// What the SHA-256 bank's PCR 15 holds after the lock event: `SHA256(0^32 ‖ SHA256(cluster id))`.
    ///
    /// TPM 2.0 part 3, `TPM2_PCR_Event`: the data is hashed with each bank's algorithm and the digest is extended, that
    /// is, hashed behind the old value, which is zero at boot.
    pub fn locked_pcr15(&self) -> [u8; 32] {
        let mut extended = [0; 64];
        extended[32..].copy_from_slice(digest(&SHA256, self.lock_event()).as_ref());
        let mut value = [0; 32];
        value.copy_from_slice(digest(&SHA256, &extended).as_ref());
        value
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterId({self})")
    }
}

/// Reads the 64 hexadecimal digits of the text form, in either case.
impl FromStr for ClusterId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let mut id = [0; 32];
        hex::decode_to_slice(text, &mut id).map_err(|_| IdError::ClusterIdSyntax)?;
        Ok(Self(id))
    }
}

impl TryFrom<String> for ClusterId {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<ClusterId> for String {
    fn from(id: ClusterId) -> Self {
        id.to_string()
    }
}
