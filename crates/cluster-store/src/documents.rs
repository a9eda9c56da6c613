//! What a cluster decides by, beside its records, wherever it is.

use crate::cluster::ClusterFile;
use crate::denials::Denials;
use crate::enrolment::Enrolment;
use crate::error::StoreError;
use crate::kubernetes::ClusterMaterial;
use crate::store::{ClusterStore, Part};
use latchkey_attestation::{Policy, References};
use latchkey_keys::SecretVec;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Instant;

/// What is known of documents that somebody else tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// When the complete listing that it is known by was asked for: everything before that is known.
    pub as_of: Instant,
    /// Another one for other content.
    pub version: u64,
}

/// The documents of a cluster. Calls block, and may take as long as a disk or a network does.
pub trait Documents: fmt::Debug + Send + Sync {
    /// Where they are, for people.
    fn place(&self) -> &Path;

    /// How far they are known, where they are not read each time: [`ClusterStore`] reads them, an API server tells of them.
    fn heard(&self) -> Option<Heard> {
        None
    }

    /// SHA-256 over the content of a part, so that only real changes count. What cannot be read counts by its error.
    fn fingerprint(&self, part: Part) -> [u8; 32];

    /// The attestation policy.
    ///
    /// # Errors
    /// [`StoreError`], also when there is none.
    fn policy(&self) -> Result<Policy, StoreError>;

    /// All reference manifests, as [`ClusterStore::references`] says it.
    ///
    /// # Errors
    /// [`StoreError`].
    fn references(&self, policy: &Policy) -> Result<References, StoreError>;

    /// Remembers revisions, as [`ClusterStore::remember`] says it; durable when this returns.
    ///
    /// # Errors
    /// [`StoreError`].
    fn remember(&self, references: &References, now: u64) -> Result<(), StoreError>;

    /// The join rules.
    ///
    /// # Errors
    /// [`StoreError`], also when there are none.
    fn enrolment(&self) -> Result<Enrolment, StoreError>;

    /// The cluster, `None` before it is initialised.
    ///
    /// # Errors
    /// [`StoreError`].
    fn cluster(&self) -> Result<Option<ClusterFile>, StoreError>;

    /// What nodes join by where this is an API server's cluster; `None` where it is not, or nobody has said it yet.
    ///
    /// # Errors
    /// [`StoreError`].
    fn material(&self) -> Result<Option<ClusterMaterial>, StoreError> {
        Ok(None)
    }

    /// What vendors publish for verifiers, by the names of its entries; `None` where there is none. A cluster in a directory has none of
    /// its own: the service's configuration names another directory.
    ///
    /// # Errors
    /// [`StoreError`].
    fn collateral(&self) -> Result<Option<BTreeMap<String, Vec<u8>>>, StoreError> {
        Ok(None)
    }

    /// The TPMs that are shut out.
    ///
    /// # Errors
    /// [`StoreError`]; whoever has older denials keeps them.
    fn denials(&self) -> Result<Denials, StoreError>;

    /// Opaque bytes for the nodes' cluster step; empty when there are none.
    ///
    /// # Errors
    /// [`StoreError`].
    fn payload(&self) -> Result<SecretVec, StoreError>;
}

impl Documents for ClusterStore {
    fn place(&self) -> &Path {
        self.path()
    }

    fn fingerprint(&self, part: Part) -> [u8; 32] {
        Self::fingerprint(self, part)
    }

    fn policy(&self) -> Result<Policy, StoreError> {
        Self::policy(self)
    }

    fn references(&self, policy: &Policy) -> Result<References, StoreError> {
        Self::references(self, policy)
    }

    fn remember(&self, references: &References, now: u64) -> Result<(), StoreError> {
        Self::remember(self, references, now)
    }

    fn enrolment(&self) -> Result<Enrolment, StoreError> {
        Self::enrolment(self)
    }

    fn cluster(&self) -> Result<Option<ClusterFile>, StoreError> {
        Self::cluster(self)
    }

    fn denials(&self) -> Result<Denials, StoreError> {
        Self::denials(self)
    }

    fn payload(&self) -> Result<SecretVec, StoreError> {
        Self::payload(self)
    }
}
