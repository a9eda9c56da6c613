//! The witness without which no state disk's key is derived: which machine it is for.

use crate::record::{NodeRecord, Recorded};
use crate::store::ClusterStore;
use crate::{NotDenied, StoreError};
use latchkey_attestation::EkDigest;
use latchkey_keys::{KeyId, KeyRelease, KeyVersion, Uuid};
use latchkey_reason::reason_codes;
use std::time::Instant;

/// The decision that the key of one disk may be derived. There are three ways to one, and no other:
///
/// * [`Recorded::release`]: the disk is on the record of that TPM, and not replaced, and nobody shut the TPM out. The record was read
///   from the cluster's directory, or was just written to it and is durable: nothing else makes a [`Recorded`].
/// * [`ClusterStore::release`]: the same, for who has no records in memory.
/// * [`DiskRelease::on_operators_word`]: the operator answers for it, and named the machine or said that none is meant.
#[derive(Debug)]
#[must_use = "a decision that nobody acts on"]
pub struct DiskRelease {
    disk: Uuid,
    version: KeyVersion,
}

impl DiskRelease {
    /// The operator's explicit word, in the place of a record. The caller answers for having asked for it: the first node of a
    /// cluster is named before there are records, and a rescue of a disk without its machine names none.
    pub fn on_operators_word(disk: Uuid, version: KeyVersion) -> Self {
        Self { disk, version }
    }

    /// The disk.
    pub fn disk(&self) -> Uuid {
        self.disk
    }

    /// The version of the master secret that the disk's key comes from.
    pub fn version(&self) -> KeyVersion {
        self.version
    }
}

impl KeyRelease for DiskRelease {
    fn key_id(&self) -> KeyId {
        KeyId::StateDisk(self.disk)
    }

    fn key_version(&self) -> Option<KeyVersion> {
        Some(self.version)
    }
}

impl Recorded {
    /// The witness for a disk of this record, whose machine is not shut out.
    ///
    /// # Errors
    /// A disk that is not on it, or that was replaced; a witness of another machine; a record that is to be confirmed first.
    pub fn release(&self, disk: Uuid, not_denied: &NotDenied) -> Result<DiskRelease, ReleaseRefusal> {
        if not_denied.ek() != self.ek_sha256 {
            return Err(ReleaseRefusal::MachineDenied { ek: self.ek_sha256 });
        }
        if !self.is_confirmed() {
            return Err(ReleaseRefusal::MachineNotOnRecord { ek: self.ek_sha256 });
        }
        Ok(DiskRelease { disk, version: self.version_of(disk)? })
    }
}

impl NodeRecord {
    /// The version of the master secret that the key of a disk of this record comes from.
    ///
    /// # Errors
    /// A disk that is not on it, or that was replaced.
    pub fn version_of(&self, disk: Uuid) -> Result<KeyVersion, ReleaseRefusal> {
        let (ek, name) = (self.ek_sha256, self.name.to_string());
        if self.retired.contains(&disk) {
            return Err(ReleaseRefusal::DiskReplaced { name, disk });
        }
        let found = self.disk(disk).and_then(|disk| KeyVersion::new(disk.key_version));
        found.ok_or(ReleaseRefusal::DiskNotOnRecord { ek, name, disk })
    }
}

impl ClusterStore {
    /// The witness for this disk in this machine, by its record.
    ///
    /// # Errors
    /// Files that cannot be read; a refusal otherwise, which names the machine that the disk belongs to if there is one.
    pub fn release(&self, ek: &EkDigest, disk: Uuid) -> Result<DiskRelease, ReleaseError> {
        let not_denied = self.not_denied(ek)?;
        let record = self.record(ek)?;
        // Two records that name one disk contradict each other, also when one is of this machine.
        if let Some(other) = self.holders(disk)?.into_iter().find(|other| other.ek_sha256 != *ek) {
            let (owner, name) = (other.ek_sha256, other.name.to_string());
            return Err(ReleaseRefusal::DiskOfAnother { ek: *ek, disk, owner, name }.into());
        }
        Ok(record.ok_or(ReleaseRefusal::MachineNotOnRecord { ek: *ek })?.release(disk, &not_denied)?)
    }

    /// The witness that this machine is not shut out now.
    ///
    /// # Errors
    /// It is; the denials cannot be read.
    pub fn not_denied(&self, ek: &EkDigest) -> Result<NotDenied, ReleaseError> {
        let now = Instant::now();
        Ok(self.denials()?.check(ek, now)?)
    }

    /// The records that name this disk, replaced ones included; records that cannot be read are passed over.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the directory cannot be listed.
    pub fn holders(&self, disk: Uuid) -> Result<Vec<Recorded>, StoreError> {
        Ok(self.records()?.into_iter().flatten().filter(|record| record.uuids().any(|uuid| uuid == disk)).collect())
    }
}

reason_codes! {
    /// Why the key of a disk is not released to a machine.
    pub enum ReleaseCode {
        /// The TPM has no record.
        MachineNotOnRecord = "machine-not-on-record":
            "look at `latchkey node list`: if the disk was moved to this machine on purpose, say so with --moved-to";
        /// Its record does not name the disk.
        DiskNotOnRecord = "disk-not-on-record":
            "attach the disk that `latchkey node show` names, or restore the cluster's `nodes/` from a copy";
        /// The record of another TPM names the disk.
        DiskOfAnother = "disk-of-another-machine":
            "find out why this machine holds that disk: if it was moved on purpose, say so with --moved-to; TPMs of SVSMs have a new key at each boot";
        /// The disk was replaced by a later one of the same machine.
        DiskReplaced = "disk-replaced": "attach the machine's current disk, which `latchkey node show` names";
        /// The TPM is shut out.
        MachineDenied = "machine-denied":
            "nobody gets a key on this machine; if the denial was a mistake, take it back with `latchkey node allow`";
        /// A denial is gone that the cluster's document counts.
        DenialsLost = "denials-lost":
            "put back the denials that are gone, from a copy or with `latchkey node deny`, and then say with `latchkey upgrade store` how many there are; until then no key is released";
    }
}

/// The key of a disk is not released to a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseRefusal {
    /// See [`ReleaseCode::MachineNotOnRecord`].
    #[error("the machine with the TPM {ek} is not on record")]
    MachineNotOnRecord {
        /// The machine.
        ek: EkDigest,
    },
    /// See [`ReleaseCode::DiskNotOnRecord`].
    #[error("the disk {disk} is not on the record of {name} (TPM {ek})")]
    DiskNotOnRecord {
        /// The machine.
        ek: EkDigest,
        /// Its name.
        name: String,
        /// The disk.
        disk: Uuid,
    },
    /// See [`ReleaseCode::DiskOfAnother`].
    #[error("the disk {disk} belongs to {name} (TPM {owner}), and this machine is another one (TPM {ek})")]
    DiskOfAnother {
        /// The machine that has it now.
        ek: EkDigest,
        /// The disk.
        disk: Uuid,
        /// The machine on whose record it is.
        owner: EkDigest,
        /// That machine's name.
        name: String,
    },
    /// See [`ReleaseCode::DiskReplaced`].
    #[error("the disk {disk} of {name} was replaced by a later one")]
    DiskReplaced {
        /// The machine's name.
        name: String,
        /// The disk.
        disk: Uuid,
    },
    /// See [`ReleaseCode::MachineDenied`].
    #[error("the TPM {ek} is denied")]
    MachineDenied {
        /// The machine.
        ek: EkDigest,
    },
    /// See [`ReleaseCode::DenialsLost`].
    #[error("{counted} machines were shut out, and {listed} denials are there: a denial is lost, or is being written")]
    DenialsLost {
        /// By the cluster's document.
        counted: u64,
        /// Those that are there.
        listed: u64,
    },
}

impl ReleaseRefusal {
    /// The stable code.
    pub const fn code(&self) -> ReleaseCode {
        match self {
            Self::MachineNotOnRecord { .. } => ReleaseCode::MachineNotOnRecord,
            Self::DiskNotOnRecord { .. } => ReleaseCode::DiskNotOnRecord,
            Self::DiskOfAnother { .. } => ReleaseCode::DiskOfAnother,
            Self::DiskReplaced { .. } => ReleaseCode::DiskReplaced,
            Self::MachineDenied { .. } => ReleaseCode::MachineDenied,
            Self::DenialsLost { .. } => ReleaseCode::DenialsLost,
        }
    }
}

/// No release: a decision, or a failure to make one.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// Decided.
    #[error(transparent)]
    Refused(#[from] ReleaseRefusal),
    /// Not decided.
    #[error(transparent)]
    Store(#[from] StoreError),
}
