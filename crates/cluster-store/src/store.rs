//! The directory and its files.

use crate::atomic::{self, Existing};
use crate::cluster::ClusterFile;
use crate::denials::DENIED;
use crate::enrolment::Enrolment;
use crate::error::{ContentError, StoreError};
use crate::pair::signature_of;
use crate::places::{demand, unlisted};
use crate::record::{NodeRecord, Recorded};
use crate::writer::{Writer, check_file_name};
use latchkey_attestation::EkDigest;
use latchkey_keys::{KeyError, SecretVec};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Largest payload, bytes: `ClusterJoin.payload` in `join.proto`.
pub const MAX_PAYLOAD: usize = 64 * 1024;
/// More than a record with all its disks (16 KiB) and twice the most that is kept of a machine's firmware (100 KiB).
pub const MAX_RECORD: usize = 256 * 1024;
/// Policy, reference values, enrolment: what the attestation crate reads.
pub const MAX_CONFIG: usize = 1024 * 1024;

pub(crate) const CLUSTER: &str = "cluster.json";
pub(crate) const REVISIONS: &str = "revisions.json";
pub(crate) const NODES: &str = "nodes";
pub(crate) const POLICY: &str = "policy.json";
pub(crate) const REFERENCE: &str = "reference.json";
pub(crate) const REFERENCES: &str = "references";
const ENROLMENT: &str = "enrolment.json";
const PAYLOAD: &str = "payload";
const LOCK: &str = ".lock";

/// What changes together in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Policy and reference values: they must fit.
    Attestation,
    /// The join rules.
    Enrolment,
    /// The cluster itself.
    Cluster,
    /// The payload.
    Payload,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Attestation, Self::Enrolment, Self::Cluster, Self::Payload];

    /// A stable name, for logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Attestation => "attestation",
            Self::Enrolment => "enrolment",
            Self::Cluster => "cluster",
            Self::Payload => "payload",
        }
    }
}

/// A cluster directory. Nothing is kept open: symbolic links are followed anew with each call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStore(PathBuf);

impl ClusterStore {
    /// The directory of a cluster at `path`. Nothing in it is made or written.
    ///
    /// # Errors
    /// [`StoreError::Place`] where `nodes/` or `denied/` is not there.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let directory = Self(path.into());
        directory.places().iter().try_for_each(|place| demand(place, Some(directory.path())))?;
        Ok(directory)
    }

    /// The directory at `path`, which must exist, with the places of a cluster made: for `latchkey init`.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn make(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let directory = Self(path.into());
        directory.make_places()?;
        Ok(directory)
    }

    /// The directory at `path`, whatever is there: for who looks what is missing, and for an enrol service, which has no nodes.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Makes the directory of the additional manifests, if it is missing. They may lie elsewhere, as all documents.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn make_references(&self) -> Result<(), StoreError> {
        let path = self.references_path();
        if path.is_dir() { Ok(()) } else { atomic::make(&path) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The directory of the records.
    pub fn nodes_path(&self) -> PathBuf {
        self.0.join(NODES)
    }

    /// The directory of the denials.
    pub fn denied_path(&self) -> PathBuf {
        self.0.join(DENIED)
    }

    /// Files that say how to decide, whether they exist or not: what to watch.
    pub fn watched(&self) -> Vec<PathBuf> {
        let files =
            [CLUSTER, ENROLMENT, POLICY, REFERENCE, PAYLOAD, REFERENCES, DENIED].iter().map(|name| self.0.join(name));
        files.chain([signature_of(&self.0.join(REFERENCE))]).collect()
    }

    /// Where the additional manifests are.
    pub fn references_path(&self) -> PathBuf {
        self.0.join(REFERENCES)
    }

    /// The cluster, `None` before it is initialised.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn cluster(&self) -> Result<Option<ClusterFile>, StoreError> {
        let path = self.0.join(CLUSTER);
        let Some(json) = optional(atomic::read(&path, MAX_CONFIG))? else { return Ok(None) };
        ClusterFile::parse(&json).map(Some).map_err(StoreError::malformed(&path))
    }

    /// The join rules.
    ///
    /// # Errors
    /// [`StoreError`], also when there are none.
    pub fn enrolment(&self) -> Result<Enrolment, StoreError> {
        let path = self.0.join(ENROLMENT);
        Enrolment::parse(&atomic::read(&path, MAX_CONFIG)?).map_err(StoreError::malformed(&path))
    }

    /// Opaque bytes for the nodes' cluster step; empty when there are none. They may be a secret, such as a token with which one
    /// joins, so the file is held to what every file with a secret is: see [`latchkey_keys::read_private_file`].
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn payload(&self) -> Result<SecretVec, StoreError> {
        let path = self.0.join(PAYLOAD);
        match latchkey_keys::read_private_file(&path, MAX_PAYLOAD) {
            Ok(payload) => Ok(payload),
            Err(error) if error.is_absent() => Ok(SecretVec::from_slice(&[])),
            Err(KeyError::File(error)) => Err(StoreError::malformed(&path)(ContentError::Secret(error.error))),
            Err(error) => Err(StoreError::malformed(&path)(ContentError::Rule(error.to_string()))),
        }
    }

    /// SHA-256 over the content of a part's files, so that only real changes count. What cannot be read counts by its error.
    pub fn fingerprint(&self, part: Part) -> [u8; 32] {
        let paths = match part {
            Part::Attestation => {
                let manifests = self.manifest_paths().unwrap_or_default();
                let signatures: Vec<_> = manifests.iter().map(|path| signature_of(path)).collect();
                [manifests, signatures, vec![self.0.join(POLICY)]].concat()
            }
            Part::Enrolment => vec![self.0.join(ENROLMENT)],
            Part::Cluster => vec![self.0.join(CLUSTER)],
            Part::Payload => vec![self.0.join(PAYLOAD)],
        };
        let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
        for path in paths {
            let content = atomic::read(&path, MAX_CONFIG);
            for field in [path.as_os_str().as_encoded_bytes(), &content.unwrap_or_else(|e| e.to_string().into_bytes())]
            {
                hash.update(&(field.len() as u64).to_be_bytes());
                hash.update(field);
            }
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(hash.finish().as_ref());
        digest
    }

    /// All records, and what is wrong with those that cannot be read.
    ///
    /// # Errors
    /// [`StoreError::Place`], or [`StoreError::Io`] when the directory cannot be listed.
    pub fn records(&self) -> Result<Vec<Result<Recorded, StoreError>>, StoreError> {
        let nodes = self.nodes_path();
        let entries = fs::read_dir(&nodes).map_err(unlisted(&nodes))?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(StoreError::io("list", &nodes))?.file_name();
            // Temporary files are of writes under way, or of crashes.
            if let Some(name) = name.to_str().filter(|name| is_record(name)) {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names.iter().map(|name| self.record_in(name)).collect())
    }

    /// The record of this TPM, `None` if it is not known.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn record(&self, ek: &EkDigest) -> Result<Option<Recorded>, StoreError> {
        match self.record_in(&format!("{ek}.json")) {
            Ok(record) => Ok(Some(record)),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The right to write records, to initialise the cluster and to put revisions in force. Waits for others that have it.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn writer(&self) -> Result<Writer<'_>, StoreError> {
        Writer::wait(self, &self.0.join(LOCK), None)
    }

    /// The same for who follows: it waits for nobody who does not come to his end.
    pub(crate) fn writer_within(&self, patience: Duration) -> Result<Writer<'_>, StoreError> {
        Writer::wait(self, &self.0.join(LOCK), Some(patience))
    }

    /// Writes the join rules; durable when this returns.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn write_enrolment(&self, rules: &Enrolment) -> Result<(), StoreError> {
        self.writer()?.write_enrolment(rules)
    }

    pub(crate) fn write_cluster(&self, cluster: &ClusterFile, existing: Existing) -> Result<(), StoreError> {
        cluster.check().map_err(StoreError::malformed(&self.0.join(CLUSTER)))?;
        atomic::write(&self.0, CLUSTER, cluster.to_json().as_bytes(), existing)
    }

    fn record_in(&self, name: &str) -> Result<Recorded, StoreError> {
        let path = self.nodes_path().join(name);
        let record = NodeRecord::parse(&atomic::read(&path, MAX_RECORD)?).and_then(|record| {
            check_file_name(name, &record)?;
            Ok(record)
        });
        record.map(Recorded::stands).map_err(StoreError::malformed(&path))
    }
}

impl Writer<'_> {
    /// Writes the join rules; durable when this returns.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn write_enrolment(&mut self, rules: &Enrolment) -> Result<(), StoreError> {
        let directory = self.directory().path();
        rules.check().map_err(StoreError::malformed(&directory.join(ENROLMENT)))?;
        let json = serde_json::to_string_pretty(rules).unwrap_or_default();
        atomic::write(directory, ENROLMENT, json.as_bytes(), Existing::Replace)
    }
}

/// Whether a file in `nodes/` of this name is a record, well-formed or not.
fn is_record(name: &str) -> bool {
    name.strip_suffix(".json").is_some() && !atomic::is_temporary(name.as_ref())
}

pub(crate) fn optional<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}
