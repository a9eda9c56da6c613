//! Keys for requests that were admitted: from the key service, or from a master secret in a file.

mod remote;

use crate::config::KeyServiceConfig;
use crate::decision::{Admitted, Refusal};
use latchkey_cluster_store::ClusterFile;
use latchkey_keys::{ClusterId, KeyId, KeyLength, MasterSecret, Secret};
use latchkey_service_runtime::pem::PemFault;
use remote::Remote;
use std::fmt;

/// Where keys come from.
#[derive(Debug)]
pub struct KeySource(Source);

#[derive(Debug)]
enum Source {
    Embedded(MasterSecret),
    Remote(Box<Remote>),
}

/// Why there is no key.
#[derive(Debug)]
pub enum KeyFault {
    /// Nobody answers, or not in time.
    Unavailable(String),
    /// The key service says no.
    Refused(String),
    /// Measurement secret and salt do not give the cluster's id.
    ClusterIdMismatch,
}

/// Witness: the measurement secret of this cluster, checked against its id.
pub(crate) struct MeasurementSecret(Secret<32>);

impl MeasurementSecret {
    pub(crate) fn expose(&self) -> &[u8; 32] {
        self.0.expose()
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
    pub fn remote(config: &KeyServiceConfig) -> Result<Self, PemFault> {
        Remote::new(config).map(|remote| Self(Source::Remote(Box::new(remote))))
    }

    /// The key of the disk that was admitted, and the version it comes from.
    pub(crate) async fn disk(&self, admitted: &Admitted) -> Result<(Secret<32>, u32), KeyFault> {
        self.fetch(KeyId::StateDisk(admitted.disk()), admitted.key_version()).await
    }

    /// The cluster's measurement secret. One that does not give the cluster's id is of another cluster: a node that got it
    /// would lock itself to nothing.
    pub(crate) async fn measurement(&self, cluster: &ClusterFile) -> Result<MeasurementSecret, KeyFault> {
        let (secret, _) = self.fetch(KeyId::MeasurementSecret, cluster.key_version).await?;
        let id = ClusterId::derive(&secret, &cluster.measurement_salt);
        if id.ok() == Some(cluster.cluster_id) {
            Ok(MeasurementSecret(secret))
        } else {
            Err(KeyFault::ClusterIdMismatch)
        }
    }

    async fn fetch(&self, id: KeyId, version: u32) -> Result<(Secret<32>, u32), KeyFault> {
        match &self.0 {
            Source::Embedded(master) => {
                let derived = master.derive(&id, version, KeyLength::DEFAULT);
                let derived = derived.map_err(|error| KeyFault::Refused(error.to_string()))?;
                let key = Secret::from_slice(derived.key.expose());
                key.map(|key| (key, derived.version.number())).map_err(|error| KeyFault::Refused(error.to_string()))
            }
            Source::Remote(remote) => remote.fetch(id, version).await,
        }
    }
}

impl KeyFault {
    /// What the node is told.
    pub fn refusal(&self) -> Refusal {
        match self {
            Self::Unavailable(_) => Refusal::KeysUnavailable,
            Self::Refused(_) => Refusal::KeysRefused,
            Self::ClusterIdMismatch => Refusal::ClusterIdMismatch,
        }
    }
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) | Self::Refused(why) => write!(f, "{}: {why}", self.refusal().code()),
            Self::ClusterIdMismatch => self.refusal().fmt(f),
        }
    }
}

impl std::error::Error for KeyFault {}
