//! `nodes/EK-DIGEST.json`: what is known of one TPM.

use crate::cluster::{VERSION, check_version};
use crate::error::ContentError;
use crate::firmware::{FirmwareRecord, TpmRecord};
use crate::name::NodeName;
use crate::store::MAX_RECORD;
use crate::ticket::{TicketRecord, check_addresses};
use latchkey_attestation::EkDigest;
use latchkey_keys::Uuid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Disks of one record at a time. One is in use; the others are of joins whose end nobody has reported yet.
pub const MAX_DISKS: usize = 8;

/// Disks that a record remembers as replaced.
pub const MAX_RETIRED: usize = 256;

/// A node, known by its TPM. Role and name are those of its first join; what it says about itself later changes neither.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeRecord {
    /// Schema: 1.
    pub version: u64,
    /// The TPM; also the file's name.
    pub ek_sha256: EkDigest,
    /// Unique in the cluster.
    pub name: NodeName,
    /// What it is in the cluster.
    pub role: Role,
    /// Seconds since the Unix epoch.
    pub first_joined_at: u64,
    /// Disks whose keys this node may have. Several, because a join request of an earlier boot may arrive late: it must not
    /// lock out the disk in use. A report of success confirms one and retires the others.
    pub disks: Vec<Disk>,
    /// Disks it had before. Nobody gets their keys, and no other node may claim them.
    #[serde(default)]
    pub retired: Vec<Uuid>,
    /// When it got its last ticket to be a control plane, if it has not reported since: it may be joining, and no other
    /// control plane shall. Seconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joining_since: Option<u64>,
    /// How its last bootstrap ended, if it told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<Reported>,
    /// The machine whose record this was before its disk was moved here, and when, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
    /// The counters of its TPM. Records of 0.1.0 have none; the machine's next admission writes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpm: Option<TpmRecord>,
    /// The machine's firmware, in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<FirmwareRecord>,
    /// Its last ticket, where that carried a token for the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<TicketRecord>,
    /// Where its kubelet serves, as its last report of success said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
}

/// An operator moved a disk from one machine to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    /// The TPM of the machine it was in.
    pub from: EkDigest,
    /// Seconds since the Unix epoch.
    pub at: u64,
}

/// A record that stands where the cluster's records are: it was read from there, or written there and is durable. So whoever has
/// one may let its disks' keys go, unless it may be another's yet ([`Self::unconfirmed`]): see [`Recorded::release`].
#[derive(Clone, Debug)]
pub struct Recorded {
    record: NodeRecord,
    revision: u64,
    confirmed: bool,
}

impl PartialEq for Recorded {
    fn eq(&self, other: &Self) -> bool {
        (&self.record, self.revision) == (&other.record, other.revision)
    }
}

impl Eq for Recorded {}

impl Recorded {
    /// For what reads and writes the directory, and for nothing else.
    pub(crate) fn stands(record: NodeRecord) -> Self {
        Self { record, revision: 0, confirmed: true }
    }

    /// A record that was read from another store than a directory, or written there and is durable, as this revision of it: of two
    /// of one machine the higher one is the later. For what reads and writes such a store, and for nothing else: the project's
    /// `clippy.toml` holds that.
    pub fn stands_elsewhere(record: NodeRecord, revision: u64) -> Self {
        Self { record, revision, confirmed: true }
    }

    /// The same where what it names may be another's yet: it has to be written again before any key is released by it.
    #[must_use]
    pub fn unconfirmed(self) -> Self {
        Self { confirmed: false, ..self }
    }

    /// Whether keys may be released by it.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// A record that stands nowhere, for tests of decisions without a disk.
    #[cfg(feature = "fake-records")]
    pub fn fake(record: NodeRecord) -> Self {
        Self { record, revision: 0, confirmed: true }
    }

    /// Which of two records of one machine is the later; 0 in a directory, where one replaces the other.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Its content, to be changed and written again.
    pub fn into_inner(self) -> NodeRecord {
        self.record
    }
}

impl std::ops::Deref for Recorded {
    type Target = NodeRecord;

    fn deref(&self) -> &NodeRecord {
        &self.record
    }
}

/// A node's role, as the API spells it in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Runs the cluster.
    ControlPlane,
    /// Runs in the cluster.
    Worker,
}

impl Role {
    /// The stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ControlPlane => "control-plane",
            Self::Worker => "worker",
        }
    }
}

/// One disk of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// The LUKS2 header's UUID.
    pub uuid: Uuid,
    /// Counts this TPM's disks from 1. A disk with a lower epoch than its record is an old copy.
    pub epoch: u64,
    /// Whether it is known to be in use.
    pub state: DiskState,
    /// The version of the master secret that its key comes from, so that rotation does not lock it out.
    pub key_version: u32,
    /// When its key was issued first, seconds since the Unix epoch.
    pub issued_at: u64,
}

/// Whether a disk is known to be in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskState {
    /// Its key was issued; nobody has said yet whether it is in use.
    Pending,
    /// Its node has reported success.
    Confirmed,
}

/// What a node reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reported {
    /// Seconds since the Unix epoch.
    pub at: u64,
    /// The disk it was about.
    pub disk: Uuid,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a bootstrap ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Outcome {
    /// The node is in the cluster.
    Succeeded,
    /// It is not.
    Failed {
        /// The node's reason code.
        code: String,
        /// Its sentence.
        message: String,
    },
}

impl NodeRecord {
    /// The record that the machine `to` gets when the operator moved the disk there: the same name, role and disks. Firmware, counters,
    /// ticket and addresses are the machine's: the new one's own are recorded when it is let in.
    #[must_use]
    pub fn moved_to(&self, to: EkDigest, now: u64) -> Self {
        let moved = Some(Moved { from: self.ek_sha256, at: now });
        let fresh = Self { tpm: None, firmware: None, ticket: None, addresses: Vec::new(), ..self.clone() };
        Self { ek_sha256: to, moved, ..fresh }
    }

    /// Whether this is what [`Self::moved_to`] made of that record: a move that was cut in between is taken up.
    pub fn is_move_of(&self, before: &Self) -> bool {
        self.name == before.name && self.moved.as_ref().is_some_and(|moved| moved.from == before.ek_sha256)
    }

    /// The record of a node with its first disk, epoch 1. `now` is in seconds since the Unix epoch.
    pub fn first(ek: EkDigest, name: NodeName, role: Role, disk: Uuid, key_version: u32, now: u64) -> Self {
        let disk = Disk { uuid: disk, epoch: 1, state: DiskState::Pending, key_version, issued_at: now };
        Self {
            version: VERSION,
            ek_sha256: ek,
            name,
            role,
            first_joined_at: now,
            disks: vec![disk],
            retired: Vec::new(),
            joining_since: None,
            reported: None,
            moved: None,
            tpm: None,
            firmware: None,
            ticket: None,
            addresses: Vec::new(),
        }
    }

    /// The disk of this UUID.
    pub fn disk(&self, uuid: Uuid) -> Option<&Disk> {
        self.disks.iter().find(|disk| disk.uuid == uuid)
    }

    /// The highest epoch so far.
    pub fn epoch(&self) -> u64 {
        self.disks.iter().map(|disk| disk.epoch).max().unwrap_or(0)
    }

    /// Every UUID that belongs to this node, in use or not.
    pub fn uuids(&self) -> impl Iterator<Item = Uuid> {
        self.disks.iter().map(|disk| disk.uuid).chain(self.retired.iter().copied())
    }

    /// Its JSON, for a file or an object.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Reads a record's JSON.
    ///
    /// # Errors
    /// [`ContentError`].
    pub fn parse(json: &[u8]) -> Result<Self, ContentError> {
        if json.len() > MAX_RECORD {
            return Err(ContentError::TooLarge(MAX_RECORD));
        }
        check_version(json)?;
        let record: Self = serde_json::from_slice(json).map_err(ContentError::Syntax)?;
        record.check()?;
        Ok(record)
    }

    /// Whether it may be written: the rules between its fields.
    ///
    /// # Errors
    /// [`ContentError`].
    pub fn check(&self) -> Result<(), ContentError> {
        if self.version != VERSION {
            return Err(ContentError::Version { got: self.version, known: VERSION });
        }
        let rule = |sentence: String| Err(ContentError::Rule(sentence));
        if self.disks.is_empty() || self.disks.len() > MAX_DISKS {
            return rule(format!("`disks` must list 1 to {MAX_DISKS} disks, and has {}", self.disks.len()));
        }
        if self.retired.len() > MAX_RETIRED {
            return rule(format!("`retired` must list at most {MAX_RETIRED} disks, and has {}", self.retired.len()));
        }
        let uuids: BTreeSet<_> = self.uuids().collect();
        let epochs: BTreeSet<_> = self.disks.iter().map(|disk| disk.epoch).collect();
        if uuids.len() != self.disks.len() + self.retired.len() || epochs.len() != self.disks.len() {
            return rule("a UUID or an epoch is listed twice".to_owned());
        }
        if self.disks.iter().any(|disk| disk.epoch == 0 || disk.key_version == 0) {
            return rule("epochs and key versions begin at 1".to_owned());
        }
        self.ticket.as_ref().map_or(Ok(()), TicketRecord::check)?;
        check_addresses(&self.addresses)?;
        self.check_firmware()
    }
}
