//! Keys for requests that were admitted: from the key service, or from a master secret in a file.

mod remote;

use crate::config::KeyServiceConfig;
use crate::decision::{Admitted, Refusal};
use latchkey_cluster_store::{ClusterFile, DiskRelease};
use latchkey_keys::{ClusterId, KeyId, KeyVersion, MasterSecret, Secret, Uuid};
use latchkey_service_runtime::pem::PemError;
use remote::Remote;

/// Where keys come from.
#[derive(Debug)]
pub struct KeySource(Source);

#[derive(Debug)]
enum Source {
    Embedded(MasterSecret),
    Remote(Box<Remote>),
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Nobody answers, or not in time.
    #[error("no answer from the key service: {0}")]
    Unavailable(String),
    /// The key service says no, or what is at hand gives no such key.
    #[error("no usable key: {0}")]
    Refused(String),
    /// The cluster's id is of another measurement secret.
    #[error("measurement secret and salt do not give `cluster_id` of cluster.json")]
    ClusterIdMismatch,
}

/// Witness: the measurement secret of this cluster, checked against its id.
pub(crate) struct MeasurementSecret(Secret<32>);

impl MeasurementSecret {
    pub(crate) fn expose(&self) -> &[u8; 32] {
        self.0.expose()
    }
}

/// A disk's key that is not to be had yet: its machine and disk may not be on record. Only [`KeySource::release`] opens it.
pub(crate) struct WithheldKey {
    disk: Uuid,
    version: KeyVersion,
    /// What a key service gave; `None` where the key is derived here, with the witness.
    fetched: Option<Secret<32>>,
}

impl WithheldKey {
    /// The version of the master secret that it comes from, for the record.
    pub(crate) fn version(&self) -> u32 {
        self.version.number()
    }
}

impl KeySource {
    /// Derives in this process.
    pub fn embedded(master: MasterSecret) -> Self {
        Self(Source::Embedded(master))
    }

    /// Asks a key service over mutual TLS; the first connection is made with the first key.
    ///
    /// # Errors
    /// Unusable TLS files.
    pub fn remote(config: &KeyServiceConfig) -> Result<Self, PemError> {
        Remote::new(config).map(|remote| Self(Source::Remote(Box::new(remote))))
    }

    /// The key of the disk that was admitted, which nobody can look at before [`Self::release`]. A key service is asked for it
    /// now, because it says which version is current; the record that names the version is written afterwards.
    pub(crate) async fn disk(&self, admitted: &Admitted) -> Result<WithheldKey, KeyError> {
        let (disk, version) = (admitted.disk(), KeyVersion::new(admitted.key_version()));
        match &self.0 {
            Source::Embedded(master) => {
                let version = version.unwrap_or_else(|| master.current());
                let known = master.versions().any(|known| known == version);
                let unknown = || KeyError::Refused(format!("the master secret has no version {version}"));
                known.then_some(WithheldKey { disk, version, fetched: None }).ok_or_else(unknown)
            }
            Source::Remote(remote) => {
                let (key, version) = remote.fetch(KeyId::StateDisk(disk), admitted.key_version()).await?;
                let version = KeyVersion::new(version).ok_or_else(other_key)?;
                Ok(WithheldKey { disk, version, fetched: Some(key) })
            }
        }
    }

    /// The key, for who shows that this machine and this disk are on record together.
    pub(crate) fn release(&self, withheld: WithheldKey, release: &DiskRelease) -> Result<Secret<32>, KeyError> {
        let WithheldKey { disk, version, fetched } = withheld;
        if (disk, version) != (release.disk(), release.version()) {
            return Err(other_key());
        }
        match (&self.0, fetched) {
            (Source::Embedded(master), _) => {
                master.derive_32(release).map_err(|error| KeyError::Refused(error.to_string()))
            }
            (Source::Remote(_), fetched) => fetched.ok_or_else(other_key),
        }
    }

    /// What API servers of this cluster encrypt Secrets with, and the version of the master secret that it comes from: that of the
    /// first machine, whoever joins later.
    pub(crate) async fn secrets_at_rest(&self, cluster: &ClusterFile) -> Result<(Secret<32>, u32), KeyError> {
        match &self.0 {
            Source::Embedded(master) => {
                let version = KeyVersion::new(cluster.key_version).unwrap_or_else(|| master.current());
                let key = master.secrets_at_rest(version).map_err(|error| KeyError::Refused(error.to_string()))?;
                Ok((key, version.number()))
            }
            Source::Remote(remote) => remote.fetch(KeyId::SecretsAtRest, cluster.key_version).await,
        }
    }

    /// The cluster's measurement secret. One that does not give the cluster's id is of another cluster: a node that got it
    /// would lock itself to nothing.
    pub(crate) async fn measurement(&self, cluster: &ClusterFile) -> Result<MeasurementSecret, KeyError> {
        let secret = match &self.0 {
            Source::Embedded(master) => {
                let proven = cluster.measurement_secret(master);
                return proven.map(MeasurementSecret).map_err(|_| KeyError::ClusterIdMismatch);
            }
            Source::Remote(remote) => remote.fetch(KeyId::MeasurementSecret, cluster.key_version).await?.0,
        };
        let id = ClusterId::derive(&secret, &cluster.measurement_salt);
        if id.ok() == Some(cluster.cluster_id) {
            Ok(MeasurementSecret(secret))
        } else {
            Err(KeyError::ClusterIdMismatch)
        }
    }

    /// Whether a master secret that lies here is the cluster's. What a key service has is asked for when a service is checked
    /// ([`Self::measurement`]), and with each ticket.
    pub(crate) fn check(&self, cluster: &ClusterFile) -> Result<(), latchkey_keys::KeyError> {
        match &self.0 {
            Source::Embedded(master) => cluster.measurement_secret(master).map(drop),
            Source::Remote(_) => Ok(()),
        }
    }
}

fn other_key() -> KeyError {
    KeyError::Refused("the key is of another disk or version than the record".to_owned())
}

impl KeyError {
    /// What the node is told.
    pub fn code(&self) -> Refusal {
        match self {
            Self::Unavailable(_) => Refusal::KeysUnavailable,
            Self::Refused(_) => Refusal::KeysRefused,
            Self::ClusterIdMismatch => Refusal::ClusterIdMismatch,
        }
    }
}
